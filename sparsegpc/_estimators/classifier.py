"""The classifier."""

import numpy as np
from sklearn.utils._param_validation import StrOptions

from sparsegpc._core.likelihoods.base import LabelLikelihood
from sparsegpc._estimators.base_estimator import with_parameters
from sparsegpc._estimators.base_sparse_gp import BaseSparseGP
from sparsegpc._estimators.concurrent_fits import N_JOBS
from sparsegpc._estimators.input.labels import (
    check_classes,
    class_codes,
    class_factors,
    validated_labels,
)
from sparsegpc._estimators.input.validation import present_rows
from sparsegpc._estimators.learning.averaging import HyperparameterDraws
from sparsegpc._estimators.messages.fit_warnings import latent_range
from sparsegpc._estimators.one_vs_rest import fit_one_vs_rest
from sparsegpc._estimators.predictions.labels import ClassPredictions
from sparsegpc.likelihoods import NAMES, resolve_likelihood


@with_parameters
class SparseGPClassifier(ClassPredictions, HyperparameterDraws, BaseSparseGP):
    r"""Gaussian process classification with inducing points chosen by the model.

    With two classes the log-odds f of the second one has a Gaussian process prior with a constant
    mean, and labels follow the logistic likelihood :math:`p(y = \pm 1 | f) = \sigma(y f)`; with
    more classes, there is one function per class, or a single one if they are ordered. M inducing
    points determine the approximate posterior: its distribution at these points is the optimal
    Gaussian one (with several functions, the optimal one with independent functions), found in a
    few passes over the data. Hyperparameters maximise a lower bound on the log marginal likelihood.
    The model chooses the points, and chooses them again when the hyperparameters have changed.

    Parameters
    ----------
    likelihood : str or LabelLikelihood, default="auto"
        Distribution of the labels given f, and how the model approximates it. "auto" means
        "bernoulli-logit" for two classes and "softmax" for more.

        For two classes: "bernoulli-logit" [3]_; "bernoulli-probit"; "polya-gamma" [1]_, a looser
        bound in closed form; "conditional-polya-gamma", whose bound lies between those of
        "polya-gamma" and "bernoulli-logit", and which has a tight bound of its own; `bound` must
        then be "auto" or "tight". With more classes, each of these four fits one model per class
        against the rest, with its own kernel and points; the probabilities are normalised.

        For any number of classes, in one model whose functions share kernel and points: "softmax",
        with bounds for classes that are distinct [5]_ and for those that overlap [9]_;
        "logistic-softmax" [6]_, another likelihood, bounded in closed form, with prior means of
        zero; "dirichlet" [7]_, regression on transformed labels, the fastest with many classes, but
        overconfident where classes overlap.

        For ordered classes, such as grades: "ordinal-logit" [8]_, one function f and learned cut
        points, at which f passes from one class to the next. With ``optimizer=None`` these are
        those that suit a constant f. The order is that of the sorted labels. Strings sort
        alphabetically, which causes a warning, so replace them by codes. Ordered categories in
        another order are refused.

        To change settings, pass an instance of a class in :mod:`sparsegpc.likelihoods`.
    class_weight : dict, "balanced" or None, default=None
        How much more frequent each class is in the population than in the data, up to a common
        factor: w_c for class c. The model is learned without these factors; then p(c | x) is
        replaced by w_c p(c | x), divided by the sum over classes. "balanced" makes all classes
        equally frequent. Factors can also be costs: `predict` minimises the expected cost if
        missing a row of class c costs w_c.
    n_jobs : int or None, default=None
        Number of joblib's processes or threads when there is one model per class; they share the
        cores. A single model uses all cores by itself.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted. With a likelihood for two classes, a large f favours ``classes_[1]``;
        with "ordinal-logit" it favours the last class.
    class_weight_ : ndarray of shape (n_classes,)
        Factors of the class probabilities, from `class_weight`; ones if it is None.
    estimators_ : list of SparseGPClassifier or None
        The binary models if there is one model per class, else None. In each of them label 1 stands
        for its class and label 0 for all others.
    likelihood_ : likelihood
        Likelihood with its learned parameters. With "ordinal-logit" its attribute `cut_points`
        holds the cut points.
    lower_bound_ : float
        Lower bound on the log marginal likelihood of the training data, in nats; with "dirichlet"
        that of the transformed labels. Use it to compare kernels and points, not likelihoods.

    See Also
    --------
    InducingPointSelector : Chooses inducing points, as a transformer.
    sklearn.gaussian_process.GaussianProcessClassifier : The full Gaussian process by Laplace's
        method, for about a thousand rows.

    Notes
    -----
    With N rows, M points and D columns, each evaluation of the bound takes O(N M (M + D)) time, and
    C times that for C functions; a fit typically needs 30 to 200 evaluations, some of them of parts
    of the rows. It takes O(N) memory, and arrays of shape (M, N) up to scikit-learn's
    ``working_memory``. Predictions cost O(M (M + D)) per row. The model keeps no training rows
    except the inducing points: whatever the number of rows, a saved model takes about 4 (C + 1) M^2
    + 8 M D bytes for C functions; with one model per class, each takes about 8 M^2 + 8 M D bytes.
    Rows are sorted and equal rows are merged, so the order of the rows does not matter, and two
    copies of a row count as one of weight two. Rows of a `numpy.memmap`, or of another array that
    is read by slices, are not copied, sorted or merged: see "Rows that do not fit in memory" in the
    user guide, and "Peak memory" there.

    With one model per class, ``kernel_`` is a CompoundKernel of all kernels. ``lower_bound_``,
    ``log_prior_``, ``cost_per_row_`` and the counts ``n_..._`` of steps, evaluations and passes are
    sums over the models; this sum of bounds is no bound for the original labels. ``jitter_`` and
    ``feature_relevance_`` are maxima, and ``converged_`` tells whether all models converged. The
    attributes of points, their growth, ``lower_bounds_``, the likelihood, the history and the draws
    are lists with one entry per class. No column is transformed; ``log_transform=True`` and
    ``hyperparameters="average"`` raise a ValueError. If `callback` returns True, only the current
    class stops learning. With `warm_start` a fit starts afresh if the last one had a single model,
    and the other way round.

    For `bound`, "standard" is that of [1]_ and [3]_, "spherical" that of section 3.3 of [4]_, and
    "tight" has the best factor for each row.

    References
    ----------
    .. [1] Passerello, "Heteroscedastic inducing point selection for sparse Gaussian process
       classification", Imperial College London, 2021: the bound for the Polya-Gamma augmentation
       (equation 4.14) and the selection (section 4.3.2). The augmentation is that of [2]_.
    .. [2] Polson, Scott, Windle, "Bayesian inference for logistic models using Polya-Gamma latent
       variables", JASA 108, 2013.
    .. [3] Hensman, Matthews, Ghahramani, "Scalable variational Gaussian process classification",
       AISTATS 2015, equation 15.
    .. [4] Titsias, "New bounds for sparse variational Gaussian processes", ICML 2025.
    .. [5] Titsias, "One-vs-each approximation to softmax for scalable estimation of probabilities",
       NeurIPS 2016.
    .. [6] Galy-Fajou, Wenzel, Donner, Opper, "Multi-class Gaussian process classification made
       conjugate", UAI 2019.
    .. [7] Milios, Camoriano, Michiardi, Rosasco, Filippone, "Dirichlet-based Gaussian processes for
       large-scale calibrated classification", NeurIPS 2018.
    .. [8] McCullagh, "Regression models for ordinal data", JRSS B 42, 1980.
    .. [9] Knowles, Minka, "Non-conjugate variational message passing for multinomial and binary
       regression", NIPS 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sparsegpc import SparseGPClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), SparseGPClassifier(n_inducing=50)).fit(X, y)
    >>> model.score(X, y) > 0.97
    True
    >>> model.predict_proba(X).shape
    (569, 2)
    >>> len(model[-1].inducing_points_) <= 50
    True
    """

    likelihood: str | LabelLikelihood = "auto"
    class_weight: dict | str | None = None
    n_jobs: int | None = None

    _parameter_constraints = {
        **BaseSparseGP._parameter_constraints,
        **HyperparameterDraws._parameter_constraints,
        "likelihood": [StrOptions({"auto", *NAMES}), LabelLikelihood],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "n_jobs": N_JOBS,
    }

    # If the mean of f ranges over more than this, in log-odds, some predictions are nearly certain.
    _certain_range = 5.0

    def fit(self, X, y, sample_weight=None):
        """Learn hyperparameters, inducing points and the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels of two classes or more.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Each row's log-likelihood is multiplied by its weight: a weight of k has the effect of k
            copies of the row, and a row of weight zero is ignored. Counts of a label at a row may
            therefore be passed as weights. If weights are not counts, their scale matters:
            :ref:`user guide <weights>`.

        Returns
        -------
        self : SparseGPClassifier

        Raises
        ------
        ValueError
            If the input is not finite or has wrong shapes, `y` has one class only, the likelihood
            does not support the bound, or the kernel does not fit the data.
        numpy.linalg.LinAlgError
            If the kernel is not positive semi-definite.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` was reached, `callback` asked to stop, the sites did not converge, the
            learned model is no better than a constant one, the bound still rises where
            hyperparameters meet their limits, or the kernel matrix is barely positive definite.
        UserWarning
            If one column hides the others, with a common length scale; if many rows look like
            copies of records, labels included; if classes are ordered alphabetically, with
            "ordinal-logit"; if the weights depend on the class only; or if they
            do not look like counts and add up to far less or more than the effective number of
            rows.
        """
        return self._fit_likelihood(None, X, y, sample_weight)

    def _checked_rows(self, X, y, sample_weight, *, reset):
        """Validate a user's input, and return its `PresentRows` with class numbers as labels."""
        X, y = validated_labels(self, X, y, reset=reset)
        rows = present_rows(X, y, sample_weight)
        if not reset:
            return rows._replace(y=class_codes(rows.y, self.classes_))
        previous = self.classes_ if self.warm_start and hasattr(self, "classes_") else None
        self.classes_, codes = np.unique(rows.y, return_inverse=True)
        check_classes(self.classes_)
        if previous is not None and not np.array_equal(previous, self.classes_):
            raise ValueError(
                f"warm_start=True needs the classes of the last fit: it had {previous}, y has "
                f"{self.classes_}; set warm_start=False to start afresh"
            )
        self.class_weight_ = class_factors(self.class_weight, self.classes_, codes, rows.weight)
        return rows._replace(y=codes)

    def _learn_rows(self, rows, progress, context=None):
        n_classes = int(rows.y.max()) + 1
        likelihood = resolve_likelihood(self.likelihood, n_classes)
        if n_classes > 2 and not likelihood.takes_many_classes:
            return fit_one_vs_rest(self, rows, context)
        self.estimators_ = None
        self._likelihood = likelihood.for_classes(n_classes)
        return super()._learn_rows(rows, progress)

    def _store_observation(self, evaluation, model):
        super()._store_observation(evaluation, model)
        self.likelihood_ = self._likelihood

    def _models_of_rows(self, X, y, sample_weight):
        rows = self._checked_rows(X, y, sample_weight, reset=False)
        if self.estimators_ is None:
            return [self._model_of_rows(rows)]
        return [
            model._model_of_rows(rows._replace(y=(rows.y == k).astype(int)))
            for k, model in enumerate(self.estimators_)
        ]

    def _limit_meaning(self, entry, side, best):
        is_scale_of_f = entry.is_variance and entry.effect is None
        is_scale = is_scale_of_f or entry.name.startswith("gap between cut points")
        if is_scale and side == "upper" and latent_range(best.posterior) > self._certain_range:
            return "the classes look separable, probabilities approach 0 and 1"
        return super()._limit_meaning(entry, side, best)
