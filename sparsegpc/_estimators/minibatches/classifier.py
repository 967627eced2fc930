"""The classifier that learns from minibatches: for many rows, and for streams."""

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import _check_partial_fit_first_call

from sparsegpc._core.likelihoods.base import LabelLikelihood
from sparsegpc._core.rows.unique_rows import merged_rows
from sparsegpc._estimators.base_estimator import with_parameters
from sparsegpc._estimators.input.labels import (
    check_classes,
    class_codes,
    class_factors,
    validated_labels,
)
from sparsegpc._estimators.input.validation import present_rows, refuse_overflow
from sparsegpc._estimators.minibatches.sites import SiteMinibatches
from sparsegpc._estimators.predictions.labels import ClassPredictions
from sparsegpc.likelihoods import NAMES, resolve_likelihood


@with_parameters
class StochasticSparseGPClassifier(ClassPredictions, SiteMinibatches):
    r"""Sparse Gaussian process classification from minibatches of rows.

    The model of :class:`SparseGPClassifier` learned from one batch of rows at a time: for data sets
    with so many rows that a pass over all of them is expensive, and, through `partial_fit`, for
    streams. The approximate posterior takes natural-gradient steps [2]_ on a bound that is a sum
    over rows [1]_; for each batch they are repeated until the bound of the batch stops rising, so
    there is no step size to choose. The hyperparameters follow averaged gradients. With up to a few
    tens of thousands of rows, :class:`SparseGPClassifier` reaches a better optimum sooner.

    Parameters
    ----------
    kernel : kernel of sklearn.gaussian_process.kernels, str or None, default=None
        Covariance of f, as in :class:`SparseGPClassifier`. Its free hyperparameters start from a
        fit to a few thousand rows.
    length_scales : {"auto", "tied", "free", "common"}, default="auto"
        Whether the columns have length scales of their own, as in :class:`SparseGPRegressor`.
    main_effects : bool, default=False
        Whether to add a function of each column to the kernel, as in :class:`SparseGPClassifier`.
    n_inducing : int, default=200
        Maximum number of inducing points. They are chosen among 20 random rows for each point, or
        as many first rows of a stream, but at least 2000.
    selector : str or array of shape (n_points, n_features), default="rpcholesky"
        How points are chosen: "hgv", "rpcholesky", "greedy-variance", "kmeans" or "uniform", see
        :class:`InducingPointSelector`. An array gives the points themselves.
    bound : {"auto", "tight", "standard"}, default="auto"
        How the bound accounts for the residual variance, as in :class:`SparseGPClassifier`. "auto"
        means "tight".
    fit_prior_mean : bool, default=True
        Whether to learn the constant mean of f. Otherwise it is zero, as always with
        "logistic-softmax".
    batch_size : int, default=1024
        Rows in a batch. The hyperparameters move once for each batch; `partial_fit` adds up the
        gradients of smaller blocks until they have as many rows.
    n_epochs : int, default=10
        Number of passes of `fit` over all rows that learn hyperparameters. Further passes with
        fixed hyperparameters then give the optimal posterior.
    learning_rate : float, default=0.1
        Approximate length of the first steps of the logarithms of the hyperparameters. The rate
        decreases to zero during `fit`; during `partial_fit` it decreases ever more slowly. 0 keeps
        the start values of the hyperparameters.
    memory : int or None, default=None
        Number of recent rows that `partial_fit` effectively takes into account. None means all.
    optimize_inducing : bool, default=False
        Whether to learn the locations of the points together with the hyperparameters.
    random_state : int, RandomState instance or None, default=0
        Seed for the choice of points and the order of rows.
    verbose : int, default=0
        1 prints a line for each epoch of `fit`.
    callback : callable or None, default=None
        Called after each epoch of `fit`, and at its end, with a named tuple, which holds
        ``iteration``, the number of the call; and ``n_samples``, ``n_inducing``, ``lower_bound``
        and ``seconds``, as in `history_`. If it returns True, no more epochs follow. It is pickled
        with the model. From version 1.9, pass scikit-learn's own callbacks to ``set_callbacks``.
    likelihood : str or LabelLikelihood, default="auto"
        Distribution of the labels given f, as in :class:`SparseGPClassifier`, but those for two
        classes do not allow more.
    class_weight : dict, "balanced" or None, default=None
        Factors of the class probabilities, as in :class:`SparseGPClassifier`; `partial_fit` does
        not accept "balanced".

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted. With a likelihood for two classes, a large f favours ``classes_[1]``;
        with "ordinal-logit" it favours the last class.
    class_weight_ : ndarray of shape (n_classes,)
        Factors of the class probabilities, from `class_weight`; ones if it is None.
    kernel_ : kernel
        Kernel of f with the learned hyperparameters.
    prior_mean_ : float or ndarray of shape (n_classes,)
        Constant mean of f, or of each function if there is one function per class.
    likelihood_ : likelihood
        Likelihood with its learned parameters. With "ordinal-logit" its attribute `cut_points`
        holds the cut points.
    inducing_points_ : ndarray of shape (n_points, `n_features_in_`)
        Inducing points.
    lower_bound_ : float
        After `fit`, a lower bound on the log marginal likelihood of all rows, in nats. After
        `partial_fit`, an estimate for about the last `memory` rows, which is not a bound.
    log_prior_ : float
        Log density of the prior of the hyperparameters, in nats, up to a constant.
    history_ : dict of ndarray
        One entry after each epoch of `fit` and at its end, or for each of the last 1000 calls of
        `partial_fit`: "choice" (of inducing points, always 0); "n_samples", the effective number of
        rows, which is N at the end of `fit`; "n_inducing"; "lower_bound", estimated from these
        rows, in nats; and "seconds", the total time.
    n_steps_ : int
        Number of batches so far.
    n_samples_seen_ : int
        Number of distinct rows (columns and label) given to `fit` or, in all, to `partial_fit`.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if X had column names that are strings.

    See Also
    --------
    SparseGPClassifier : Learns from all rows at once.
    StochasticSparseGPRegressor : Regression.

    Notes
    -----
    A step costs O(b M^2 + M^3) time for b rows in a batch, and O(b M) memory, each times C for C
    functions. Each pass over all N rows at the end costs O(N M^2) time, and its memory is limited
    by scikit-learn's ``working_memory``. Rows with equal columns and labels are merged, and their
    weights added; rows with equal columns but different labels are not merged. Rows of a
    `numpy.memmap`, or of another array that is read by slices, are read batch by batch and, except
    for the first rows of a stream, never merged. A saved model takes about (12 C + 8) M^2 + 24 M D
    bytes; after `partial_fit` it takes up to 8 M D bytes more, and 8 (D + 2) for each row that it
    keeps.

    References
    ----------
    .. [1] Hensman, Matthews, Ghahramani, "Scalable variational Gaussian process classification",
       AISTATS 2015.
    .. [2] Khan, Lin, "Conjugate-computation variational inference: converting variational inference
       in non-conjugate models to inferences in conjugate models", AISTATS 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sparsegpc import StochasticSparseGPClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> classifier = StochasticSparseGPClassifier(n_inducing=50, batch_size=100)
    >>> model = make_pipeline(StandardScaler(), classifier).fit(X, y)
    >>> model.score(X, y) > 0.97
    True
    >>> model.predict_proba(X).shape
    (569, 2)
    """

    class_weight: dict | str | None = None

    _parameter_constraints = {
        **SiteMinibatches._parameter_constraints,
        "likelihood": [StrOptions({"auto", *NAMES}), LabelLikelihood],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Learn from all rows, in batches.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels of two classes or more.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Each row's log-likelihood is multiplied by its weight: a weight of k has the effect of k
            copies of the row. Divide weights that are not counts by their mean.

        Returns
        -------
        self : StochasticSparseGPClassifier

        Raises
        ------
        ValueError
            If the input is not finite or has wrong shapes, `y` has one class only, the likelihood
            does not support the number of classes or the bound, or the kernel does not fit the
            data.
        numpy.linalg.LinAlgError
            If the kernel is not positive semi-definite.

        Warns
        -----
        ConvergenceWarning
            If `callback` stopped the fit, or the hyperparameters learned from batches are worse for
            all rows than a constant f; the model is then that of the first rows, or constant.
        UserWarning
            If the weights do not look like counts.
        """
        return self._fit(X, y, sample_weight)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Learn from further rows.

        The first rows of a stream are kept until there are 2000 of them, or 20 for each point if
        that is more, but at most about `memory`. Whenever their number has doubled, the inducing
        points and the hyperparameters are learned anew from all of them. Later rows are used once:
        the points stay, and the hyperparameters follow gradients. So the rows should come in random
        order. Calls with fewer rows than points take as long as with that many.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels, among `classes`.
        classes : array-like of shape (n_classes,) or None, default=None
            All labels that can occur in the stream. Required in the first call, optional later.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            As in `fit`.

        Returns
        -------
        self : StochasticSparseGPClassifier

        Raises
        ------
        ValueError
            As in `fit`; if `classes` is missing in the first call or differs from it later, if `y`
            holds another label, or if `class_weight` is "balanced".
        """
        if self.class_weight == "balanced":
            raise ValueError(
                'class_weight="balanced" needs all rows at once, but partial_fit gets them in '
                "blocks: give a dict of a factor for each class, or use fit"
            )
        return self._partial_fit(X, y, sample_weight, classes)

    def _shuffled(self, codes, rng):
        # The rows that come first have all classes.
        order = rng.permutation(len(codes))
        firsts = np.unique(codes[order], return_index=True)[1]
        return np.concatenate([order[np.sort(firsts)], np.delete(order, firsts)])

    def _suffice(self, codes):
        # With rows of one class the search would learn a constant f.
        return len(np.unique(codes)) > 1

    def _distinct_rows(self, X, y, sample_weight, *classes, reset):
        # `classes` holds that argument of partial_fit, and nothing in fit.
        X, y = validated_labels(self, X, y, reset=reset)
        refuse_overflow(X, "X")
        rows = present_rows(X, y, sample_weight)
        if classes:
            _check_partial_fit_first_call(self, *classes)
        else:
            self.classes_ = np.unique(rows.y)
        check_classes(self.classes_)
        X, codes, weight = merged_rows(rows.X, class_codes(rows.y, self.classes_), rows.weight)
        self.class_weight_ = class_factors(self.class_weight, self.classes_, codes, weight)
        return X, codes, weight

    def _initial_likelihood(self):
        n_classes = len(self.classes_)
        likelihood = resolve_likelihood(self.likelihood, n_classes)
        if n_classes > 2 and not likelihood.takes_many_classes:
            raise ValueError(
                f"likelihood={self.likelihood!r} is for two classes, got {n_classes}: use "
                '"softmax", "ordinal-logit", "logistic-softmax" or "dirichlet", or '
                "SparseGPClassifier, which fits one model for each class"
            )
        return likelihood.for_classes(n_classes)
