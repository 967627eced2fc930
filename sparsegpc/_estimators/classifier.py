"""The classifier."""

import numbers

import numpy as np
from sklearn.base import _fit_context
from sklearn.gaussian_process.kernels import CompoundKernel
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from sparsegpc._core.likelihoods.base import LabelLikelihood
from sparsegpc._core.rows.threads import single_threaded_blas
from sparsegpc._estimators.base_sparse_gp import BaseSparseGP
from sparsegpc._estimators.class_predictions import ClassPredictions
from sparsegpc._estimators.input.labels import (
    check_classes,
    class_codes,
    validated_labels,
    weigh_classes,
)
from sparsegpc._estimators.input.validation import present_rows
from sparsegpc._estimators.learning import check_auto
from sparsegpc._estimators.messages.callbacks import fit_task
from sparsegpc._estimators.messages.fit_warnings import latent_range, merge_classes
from sparsegpc._estimators.messages.progress import evaluation_progress
from sparsegpc._estimators.one_vs_rest import OneVsRestLink, fit_one_vs_rest
from sparsegpc.likelihoods import NAMES, resolve_likelihood

# Attributes of one model for each class: their sums, and lists of them.
SUMMED = ("lower_bound_", "cost_per_row_", "n_iter_", "n_evaluations_", "n_site_iterations_")
LISTED = (
    "inducing_points_",
    "inducing_indices_",
    "lower_bounds_",
    "history_",
    "growth_",
    "growth_end_",
)


class SparseGPClassifier(ClassPredictions, BaseSparseGP):
    r"""Gaussian process classification with inducing points chosen by the model.

    With two classes the log-odds f of the second one has a Gaussian process prior with a constant
    mean, and labels follow the logistic likelihood :math:`p(y = \pm 1 | f) = \sigma(y f)`; with
    more there is a function for each class. The posterior is approximated through M inducing
    points, by the best of all Gaussian ones (with several classes, of those in which functions are
    independent), found in a few passes over the data: there is no learning rate and no number of
    epochs. Hyperparameters maximise a lower bound on the log marginal likelihood; the points are
    chosen by the model among the rows, again whenever the hyperparameters have moved.

    Parameters
    ----------
    kernel : kernel of sklearn.gaussian_process.kernels or None, default=None
        Covariance of f. Its free hyperparameters are learned within their bounds, from the best of
        a few starts: its own values, and length scales relative to the spread of the data. None is
        a constant times RBF with one length scale, with bounds relative to the spread of the data.
        A kernel other than ConstantKernel, RBF, Matern (nu 0.5, 1.5, 2.5, inf),
        RationalQuadratic, ExpSineSquared, DotProduct and their sums and products works too, by
        finite differences at 2 evaluations for each hyperparameter. WhiteKernel is refused.
    likelihood : str or likelihood, default="auto"
        How labels follow from f, and how that is approximated. "auto" is "bernoulli-logit" for two
        classes and "softmax" for more.

        For two classes: "bernoulli-logit" [3]_; "bernoulli-probit"; "polya-gamma" [1]_, a looser
        bound in closed form; "conditional-polya-gamma", between the two, and above both where
        points are far too few. With more classes these fit one model for each class against the
        rest, each with a kernel and points of its own, and normalise their probabilities.

        For any number of classes, in one model whose functions share kernel and points: "softmax"
        [5]_; "logistic-softmax" [6]_, another likelihood, bounded in closed form; "dirichlet" [7]_,
        regression on transformed labels, the fastest with many classes, but overconfident where
        classes overlap. An instance of a class of :mod:`sparsegpc.likelihoods` brings settings.
    n_inducing : int or "auto", default=200
        Most inducing points, silently at most the number of distinct rows. More points bring the
        bound closer to that of the full Gaussian process, at a cost of O(M^2) per row. "auto"
        doubles their number until the certificate is below `certificate_tol`, growth no longer
        pays, or `max_inducing` is reached; ``growth_end_`` gives the reason.
    selector : str, InducingPointSelector or array (n_points, n_features), default="rpcholesky"
        How points are chosen: "rpcholesky", "hgv", "greedy-variance", "kmeans" or "uniform", see
        :class:`InducingPointSelector`. "hgv" draws nothing, but with many rows it spends points on
        outlying ones. An instance brings its own method, number of points and tolerance (with
        defaults of its own) in place of `n_inducing` and `selection_tol`; its kernel and weighting
        must be None. An array holds the points themselves.
    selection_tol : float, default=1e-5
        Choose no more points once what the points miss costs at most this many nats per row.
        0 chooses `n_inducing` points, or as many as are linearly independent. With
        ``n_inducing="auto"`` the certificate decides instead.
    certificate_tol : float, default=1e-2
        With ``n_inducing="auto"``, how many nats per row the inducing points may cost, by the upper
        bound of `certificate`.
    max_inducing : int, default=2000
        With ``n_inducing="auto"``, the most inducing points.
    bound : {"auto", "tight", "spherical", "standard"}, default="auto"
        How the bound accounts for what the points miss. "auto" is the tightest that the likelihood
        admits: "tight" (proposition 3.3 of [4]_ with unequal noise) where it is conditionally
        Gaussian, which "polya-gamma", "logistic-softmax" and "dirichlet" are, else "spherical"
        (section 3.3 of [4]_); "standard" is that of [1]_ and [3]_. "conditional-polya-gamma" has a
        slack of its own, called "tight".
    fit_prior_mean : bool, default=True
        Learn the constant mean of f; else it is zero, as it is with "logistic-softmax".
    class_weight : dict, "balanced" or None, default=None
        Multiplies the weights of the rows of each class; "balanced" makes all classes weigh the
        same and keeps the total. Probabilities then are those of the weighted classes.
    optimizer : {"bfgs"} or None, default="bfgs"
        "bfgs" learns the hyperparameters within their bounds, by quasi-Newton steps on the bound's
        gradient. None keeps them as they are: those of `kernel`, or with `warm_start` those of
        the last fit.
    n_restarts_optimizer : int, default=0
        Further runs from hyperparameters drawn log-uniformly within their bounds.
    max_iter : int, default=100
        Most steps of the hyperparameters for each choice of inducing points.
    tol : float, default=1e-5
        Tolerance of the bound, in nats per row.
    max_reselections : int, default=10
        How often the points may be chosen again. It stops earlier once the bound has not risen
        twice in a row, or the same points come back.
    optimize_inducing : bool, default=False
        At the end move the points, which then are rows no longer, to where the bound is highest,
        along with the hyperparameters. It raises the bound where few points have to do, at up to
        `max_iter` further evaluations.
    warm_start : bool, default=False
        Start from the hyperparameters of the last fit, and from its inducing points where they are
        chosen by the model and no more than are asked for now. The kernel may have other values
        and bounds than at the last fit, but must have the same structure. After a change between
        one model and one for each class it starts afresh.
    n_jobs : int or None, default=None
        Processes or threads of joblib for one model for each class; the cores are shared among
        them. A single model uses all cores by itself.
    random_state : int, RandomState instance or None, default=0
        For the selectors "rpcholesky", "kmeans" and "uniform", and for restarts. An integer gives
        the same model at every call; None draws anew.
    verbose : int, default=0
        1 prints a line for each choice of points, 2 one for each evaluation of the bound, too.
    callback : callable or None, default=None
        Called after each evaluation of the bound with a named tuple: ``iteration``, which counts
        them, and ``choice``, ``n_samples``, ``n_inducing``, ``lower_bound`` and ``seconds`` as in
        `history_`, and ``label``, the class where there is one model for each. If it returns True
        learning stops, of that class only, and the best of what was found becomes the model. An
        error that it raises ends the fit and leaves the estimator as it was. It is saved with the
        model, so pickle needs a function of a module, or None. From 1.9 on scikit-learn's own
        callbacks, such as its ProgressBar, are given to ``set_callbacks``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted; f of the likelihoods of two classes belongs to ``classes_[1]``.
    estimators_ : list of SparseGPClassifier or None
        With one model for each class, these; their classes are 0, the rest, and 1. Attributes below
        then are as in brackets.
    kernel_ : kernel
        Kernel with the learned hyperparameters. [CompoundKernel of all.]
    prior_mean_ : float or ndarray of shape (n_classes,)
        Constant mean of f; of each function where there is one for each class.
    inducing_points_ : ndarray of shape (n_points, `n_features_in_`)
        Inducing points in the order of their choice. [A list.]
    inducing_indices_ : ndarray of shape (n_points,) or None
        Which rows of the X given to `fit` they are; None where a point is no row. [A list.]
    feature_relevance_ : ndarray of shape (`n_features_in_`,) or None
        How many length scales the standard deviation of each column spans: the larger, the more f
        depends on it; with a kernel of one length scale for all columns it says little. None for
        kernels without length scales. [The largest over classes.]
    lower_bound_ : float
        Lower bound on the log marginal likelihood of the training data, in nats; with "dirichlet"
        that of the transformed labels. It compares kernels and points, not likelihoods. [The sum,
        which is no bound on the likelihood of the classes.]
    cost_per_row_ : float
        What the points miss, in nats per row: half the mean of site precision times residual, which
        `selection_tol` limits; summed over functions. It orders choices of points; `certificate`
        bounds what they cost. [The sum.]
    lower_bounds_ : ndarray
        The bound after each choice of points, of the run that was kept. [A list.]
    history_ : dict of ndarray of shape (`n_evaluations_`,)
        For each evaluation of the bound "choice", the number of the choice of points, from 0;
        "n_samples", the number of distinct rows, at first often a subset; "n_inducing"; the
        "lower_bound" for these rows in nats; and "seconds" since the beginning of the fit, or of
        that class's. The last entry is the model, unless growth went on past it; `truncate` keeps
        it as it is. [A list.]
    growth_ : list of dict or None
        With ``n_inducing="auto"``, for each size tried ``n_inducing``, the ``lower_bound`` and the
        ``gap_per_row`` of the certificate, in nats. [A list.]
    growth_end_ : str or None
        With ``n_inducing="auto"``, why it stopped: "certified" (the gap is at most
        `certificate_tol`), "plateau" (doubling gained next to nothing), "max_inducing" (the most
        points allowed), "full_rank" (no further row is linearly independent of the points) or
        "stopped" (`callback` asked to). [A list.]
    n_iter_ : int
        Steps of the hyperparameters in all.
    n_evaluations_ : int
        Evaluations of the bound in all, those on subsets included.
    n_site_iterations_ : int
        Passes of the site solver in all, each of about 2 N M^2 operations for one function.
    converged_ : bool
        Whether the optimiser reached its tolerance. [In all of them.]
    jitter_ : float
        Added to the diagonal of the points' covariance, relative to its mean. [The largest.]
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, if X had string ones.

    See Also
    --------
    InducingPointSelector : The choice of points by itself, as a transformer.
    sklearn.gaussian_process.GaussianProcessClassifier : The full model by Laplace's method, for a
        thousand rows or so.

    Notes
    -----
    With N rows, M points and D columns a fit takes O(N M (M + D)) time for each of its evaluations,
    typically 20 to 60, C times that for C functions, and memory for some numbers per row and for
    arrays of shape (M, N) up to scikit-learn's ``working_memory``. Predictions cost O(M (M + D))
    per row. No training rows are kept but the inducing points: whatever the number of rows, a saved
    model has some 8 (C + 1) M^2 + 8 M D bytes for C functions, and with one model for each class
    each of these has 16 M^2 + 8 M D. Equal rows are merged and the others sorted, so neither the
    order of the rows nor writing a row twice rather than giving it a weight of two matters. Those
    of a `numpy.memmap`, or of another array that is read by slices, stay where and as they are: see
    "Rows that do not fit in memory" in the user guide.
    The peak of memory is under "How much memory" there.

    References
    ----------
    .. [1] Passerello, "Heteroscedastic inducing point selection for sparse Gaussian process
       classification", Imperial College London, 2021: the bound for the Polya-Gamma augmentation
       (equation 4.14) and the selection (section 4.3.2); it is from [2]_ that the augmentation is.
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

    _parameter_constraints = {
        **BaseSparseGP._parameter_constraints,
        "likelihood": [StrOptions({"auto", *NAMES}), LabelLikelihood],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "n_jobs": [
            Interval(numbers.Integral, 1, None, closed="left"),
            Interval(numbers.Integral, None, -1, closed="right"),
            None,
        ],
    }

    def __init__(
        self,
        kernel=None,
        *,
        likelihood="auto",
        n_inducing=200,
        selector="rpcholesky",
        selection_tol=1e-5,
        certificate_tol=1e-2,
        max_inducing=2000,
        bound="auto",
        fit_prior_mean=True,
        class_weight=None,
        optimizer="bfgs",
        n_restarts_optimizer=0,
        max_iter=100,
        tol=1e-5,
        max_reselections=10,
        optimize_inducing=False,
        warm_start=False,
        n_jobs=None,
        random_state=0,
        verbose=0,
        callback=None,
    ):
        self.kernel = kernel
        self.likelihood = likelihood
        self.n_inducing = n_inducing
        self.selector = selector
        self.selection_tol = selection_tol
        self.certificate_tol = certificate_tol
        self.max_inducing = max_inducing
        self.bound = bound
        self.fit_prior_mean = fit_prior_mean
        self.class_weight = class_weight
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.max_iter = max_iter
        self.tol = tol
        self.max_reselections = max_reselections
        self.optimize_inducing = optimize_inducing
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Learn hyperparameters, inducing points and the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels of two classes or more.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Each row's log-likelihood is multiplied by its weight: a weight of k is k copies of the
            row, a weight of zero is no row. So counts of each label at a row are weights, too.

        Returns
        -------
        self : SparseGPClassifier

        Raises
        ------
        ValueError
            If the input is not finite or has wrong shapes, `y` has one class only, the likelihood
            does not admit the bound, or the kernel does not fit the data.
        numpy.linalg.LinAlgError
            If the kernel is not positive semi-definite.
        MemoryError
            If the memory cannot hold a model with so many inducing points.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` was reached, `callback` asked to stop, the sites did not converge, the
            learned model is no better than a constant one, the bound still rises where
            hyperparameters meet their limits, or the kernel matrix is hardly positive definite.
        UserWarning
            If one column varies so much more than the others that a common length scale hides them.
        """
        with fit_task(self, X, y, sample_weight) as context:
            progress = evaluation_progress(self, context)
            X, y = validated_labels(self, X, y)
            check_auto(self)
            rows = present_rows(X, y, sample_weight)
            previous = self.classes_ if self.warm_start and hasattr(self, "classes_") else None
            self.classes_, codes = np.unique(rows.y, return_inverse=True)
            check_classes(self.classes_)
            if previous is not None and not np.array_equal(previous, self.classes_):
                raise ValueError(
                    f"warm_start=True needs the classes of the last fit: it had {previous}, y has "
                    f"{self.classes_}; set warm_start=False to start afresh"
                )
            weight = weigh_classes(self.class_weight, self.classes_, codes, rows.weight)
            rows = rows._replace(y=codes, weight=weight)
            with single_threaded_blas():
                found = self._fit_classes(rows, progress, context)
            self._warn(found)
        return self

    def _fit_classes(self, rows, progress, context=None):
        """Fit to `PresentRows`; return the warnings."""
        n_classes = int(rows.y.max()) + 1
        likelihood = resolve_likelihood(self.likelihood, n_classes)
        self.n_features_in_ = rows.X.shape[1]
        rng = check_random_state(self.random_state)
        if n_classes > 2 and not likelihood.takes_many_classes:
            return self._fit_one_vs_rest(rows, rng, context)
        if not hasattr(self, "classes_"):
            self.classes_ = np.arange(n_classes)
        self.estimators_ = None
        self._likelihood = likelihood.for_classes(n_classes)
        return self._learn(self._problem(rows, progress), rng)

    def _fit_one_vs_rest(self, rows, rng, context):
        estimators, warnings_by_class = fit_one_vs_rest(
            self,
            rows,
            self.classes_,
            rng.randint(np.iinfo(np.int32).max, size=len(self.classes_)),
            previous=getattr(self, "estimators_", None) if self.warm_start else None,
            n_jobs=self.n_jobs,
            context=context,
        )
        self.estimators_ = estimators
        self._likelihood = OneVsRestLink([one._likelihood for one in estimators])
        # What a single model of an earlier fit has left.
        for name in ("_theta", "_posterior"):
            vars(self).pop(name, None)
        self.kernel_ = CompoundKernel([one.kernel_ for one in estimators])
        for name in SUMMED:
            setattr(self, name, sum(getattr(one, name) for one in estimators))
        for name in LISTED:
            setattr(self, name, [getattr(one, name) for one in estimators])
        self.prior_mean_ = np.array([one.prior_mean_ for one in estimators])
        self.converged_ = all(one.converged_ for one in estimators)
        self.jitter_ = max(one.jitter_ for one in estimators)
        relevances = [one.feature_relevance_ for one in estimators]
        self.feature_relevance_ = None if relevances[0] is None else np.max(relevances, axis=0)
        return merge_classes(self.classes_, warnings_by_class)

    def _checked_rows(self, X, y, sample_weight, reset):
        """Return the `PresentRows` of a fitted model's classes."""
        X, y = validated_labels(self, X, y, reset=reset)
        rows = present_rows(X, y, sample_weight)
        codes = class_codes(rows.y, self.classes_)
        weight = weigh_classes(self.class_weight, self.classes_, codes, rows.weight)
        return rows._replace(y=codes, weight=weight)

    def _restated(self, X, y, sample_weight):
        rows = self._checked_rows(X, y, sample_weight, reset=False)
        if self.estimators_ is None:
            return [self._restate(rows)]
        return [
            one._restate(rows._replace(y=(rows.y == k).astype(int)))
            for k, one in enumerate(self.estimators_)
        ]

    # Labels of one bit each hardly tell such a function from noise, and the starts cost time.
    _expects_fast = False
    # A mean that moves more than this, in log-odds, is certain.
    _certain_range = 5.0

    def _limit_meaning(self, name, side, best):
        variance = name.endswith("constant_value") and side == "upper"
        if variance and latent_range(best) > self._certain_range:
            return "the classes look separable, probabilities approach 0 and 1"
        return ""
