"""The classifier."""

import numpy as np
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsegpc._adapters import adapt_kernel, default_kernel, measure_spread
from sparsegpc._base import Problem, SparseGPBase
from sparsegpc._choices import Chosen
from sparsegpc._diagnosis import latent_range
from sparsegpc._likelihoods import PolyaGammaLogit
from sparsegpc._merging import merge_rows
from sparsegpc._model import SparseModel
from sparsegpc._quadrature import N_NODES
from sparsegpc._rows import RowBlocks, available_threads, single_threaded_blas
from sparsegpc._validation import all_or_nothing, check_weights

NO_WHITE_NOISE = (
    "a classifier's labels are noisy through its likelihood, and noise on the latent function "
    "would only be lost between the inducing points"
)


class SparseGPClassifier(ClassifierMixin, SparseGPBase):
    r"""Gaussian process classification with inducing points chosen by the model.

    The log-odds f of the second class has a Gaussian process prior with a constant mean, and
    labels follow the logistic likelihood :math:`p(y = \pm 1 | f) = \sigma(y f)`. The posterior is
    approximated through M inducing points, in closed form by Polya-Gamma augmentation [2]_: there
    is no learning rate, no number of epochs, and no place to guess for the inducing points.
    Hyperparameters maximise a lower bound on the log marginal likelihood; the points are chosen by
    the model among the rows, again whenever the hyperparameters have moved.

    Parameters
    ----------
    kernel : kernel of sklearn.gaussian_process.kernels or None, default=None
        Covariance of f. Its free hyperparameters are learned within their bounds, from the best of
        a few starts: its own values, and length scales relative to the spread of the data. None is
        a constant times RBF with one length scale, with bounds relative to the spread of the data.
        A kernel other than ConstantKernel, RBF, Matern (nu 0.5, 1.5, 2.5, inf),
        RationalQuadratic, ExpSineSquared, DotProduct and their sums and products works too, by
        finite differences at 2 evaluations for each hyperparameter. WhiteKernel is refused.
    n_inducing : int, default=200
        Most inducing points, silently at most the number of distinct rows. More points bring the
        bound closer to that of the full Gaussian process, at a cost of O(M^2) per row.
    selector : str, InducingPointSelector or array of shape (n_points, n_features), default="hgv"
        How points are chosen: "hgv", "rpcholesky", "greedy-variance", "kmeans" or "uniform", see
        :class:`InducingPointSelector`. An instance brings its own number of points and tolerance
        in place of `n_inducing` and `selection_tol`; its kernel and weighting must be None. An
        array holds the points themselves.
    selection_tol : float, default=1e-3
        Choose no more points once what the points miss costs at most this many nats per row.
        0 chooses `n_inducing` points, or as many as are linearly independent.
    bound : {"auto", "tight", "spherical", "standard"}, default="auto"
        How the bound accounts for what the points miss. "auto" is the tightest available, "tight"
        (proposition 3.3 of [3]_ with unequal noise); "standard" is that of [1]_.
    fit_prior_mean : bool, default=True
        Learn the constant mean of f; else it is zero.
    optimizer : {"l-bfgs-b"} or None, default="l-bfgs-b"
        None keeps the hyperparameters as they are: those of `kernel`, or with `warm_start` those of
        the last fit.
    n_restarts_optimizer : int, default=0
        Further runs from hyperparameters drawn log-uniformly within their bounds.
    max_iter : int, default=100
        Most L-BFGS-B iterations for each choice of inducing points.
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
        and bounds than at the last fit, but must have the same structure.
    random_state : int, RandomState instance or None, default=None
        For the selectors "rpcholesky", "kmeans" and "uniform", and for restarts. The default
        selector draws nothing.
    verbose : int, default=0
        Print a line for each choice of points.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Class labels, sorted; f is the log-odds of ``classes_[1]``.
    kernel_ : kernel
        Kernel with the learned hyperparameters.
    prior_mean_ : float
        Constant mean of f.
    inducing_points_ : ndarray of shape (n_points, `n_features_in_`)
        Inducing points in the order of their choice.
    inducing_indices_ : ndarray of shape (n_points,) or None
        Which rows of the X given to `fit` they are; None where a point is no row.
    lower_bound_ : float
        Lower bound on the log marginal likelihood of the training data, in nats.
    lower_bounds_ : ndarray
        The bound after each choice of points, of the run that was kept.
    n_iter_ : int
        L-BFGS-B iterations in all.
    n_evaluations_ : int
        Evaluations of the bound in all, those on subsets included.
    n_site_iterations_ : int
        Passes of the site solver in all, each of about 2 N M^2 operations.
    converged_ : bool
        Whether the optimiser reached its tolerance.
    jitter_ : float
        Added to the diagonal of the points' covariance, relative to its mean.
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
    typically 30 to 60, and O(N M) memory up to scikit-learn's ``working_memory``, plus O(N M) in
    the choice of points. Predictions cost O(M (M + D)) per row. No training rows are kept but the
    inducing points. Equal rows are merged and the others sorted, so neither the order of the rows
    nor writing a row twice rather than giving it a weight of two matters.

    References
    ----------
    .. [1] Passerello, "Heteroscedastic inducing point selection for sparse Gaussian process
       classification", Imperial College London, 2021: the bound for the Polya-Gamma augmentation
       (equation 4.14) and the selection (section 4.3.2).
    .. [2] Polson, Scott, Windle, "Bayesian inference for logistic models using Polya-Gamma latent
       variables", JASA 108, 2013.
    .. [3] Titsias, "New bounds for sparse variational Gaussian processes", ICML 2025.

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

    def __init__(
        self,
        kernel=None,
        *,
        n_inducing=200,
        selector="hgv",
        selection_tol=1e-3,
        bound="auto",
        fit_prior_mean=True,
        optimizer="l-bfgs-b",
        n_restarts_optimizer=0,
        max_iter=100,
        tol=1e-5,
        max_reselections=10,
        optimize_inducing=False,
        warm_start=False,
        random_state=None,
        verbose=0,
    ):
        self.kernel = kernel
        self.n_inducing = n_inducing
        self.selector = selector
        self.selection_tol = selection_tol
        self.bound = bound
        self.fit_prior_mean = fit_prior_mean
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.max_iter = max_iter
        self.tol = tol
        self.max_reselections = max_reselections
        self.optimize_inducing = optimize_inducing
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Learn hyperparameters, inducing points and the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels of two classes.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Each row's log-likelihood is multiplied by its weight: a weight of k is k copies of the
            row, a weight of zero is no row.

        Returns
        -------
        self : SparseGPClassifier

        Raises
        ------
        ValueError
            If the input is not finite or has wrong shapes, `y` has not two classes, or the kernel
            does not fit the data.
        numpy.linalg.LinAlgError
            If the kernel is not positive semi-definite.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` was reached, the sites did not settle, the learned model is no better than
            a constant one, the bound still rises where hyperparameters meet their limits, or the
            kernel matrix is hardly positive definite.
        UserWarning
            If one column varies so much more than the others that a common length scale hides them.
        """
        with all_or_nothing(self):
            X, y = validate_data(self, X, y, dtype=np.float64)
            check_classification_targets(y)
            X, y, weight, present = _present_rows(X, y, sample_weight)
            self.classes_, codes = np.unique(y, return_inverse=True)
            _check_two_classes(self.classes_, y)
            with single_threaded_blas():
                rng = check_random_state(self.random_state)
                self._learn(self._problem(X, 2.0 * codes - 1.0, weight), rng)
                self.prior_mean_ = self._posteriors[0].prior_mean
            if self.inducing_indices_ is not None:
                self.inducing_indices_ = present[self.inducing_indices_]
        return self

    def _problem(self, X, target, weight):
        rows = merge_rows(X, weight)
        spread = measure_spread(rows.X, rows.weight)
        kernel = default_kernel(spread) if self.kernel is None else self.kernel
        parameters = adapt_kernel(kernel, self.n_features_in_, refuse_white=NO_WHITE_NOISE)
        model = self._model(parameters.kernel, rows, rows.mean(target, weight))
        return Problem(rows, spread, kernel, parameters, model)

    def _model(self, kernel, rows, target):
        likelihood = PolyaGammaLogit()
        options = self._model_options(likelihood)
        return SparseModel(kernel, likelihood, rows.X, [target], rows.weight, **options)

    def latent_mean_and_variance(self, X):
        """Return the posterior mean and variance of f, the log-odds of ``classes_[1]``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        mean : ndarray of shape (n_samples,)
        variance : ndarray of shape (n_samples,)
            How little the data say about f at each row; far from all data it returns to the
            prior's.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        with single_threaded_blas():
            mean, variance = self._latent_moments(X)
        return mean[0], variance[0]

    def predict_log_proba(self, X):
        """Return the logarithms of the class probabilities, without underflow.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        log_proba : ndarray of shape (n_samples, 2)
            Columns as in `classes_`.
        """
        mean, variance = self.latent_mean_and_variance(X)
        log_proba = np.empty((len(mean), 2))

        def block(index, rows):
            log_proba[rows] = PolyaGammaLogit().log_probabilities(mean[rows], variance[rows])

        RowBlocks(len(mean), N_NODES, n_threads=available_threads()).run(block)
        return log_proba

    def predict_proba(self, X):
        """Return the class probabilities, integrated over the posterior of f.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        proba : ndarray of shape (n_samples, 2)
            Columns as in `classes_`; rows sum to one.
        """
        proba = np.exp(self.predict_log_proba(X))
        return proba / proba.sum(axis=1, keepdims=True)

    def decision_function(self, X):
        """Return the log-odds of the predicted probabilities.

        Positive for ``classes_[1]``; orders rows as `predict_proba` does, which the latent mean
        need not do, since the latent variance differs from row to row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        decision : ndarray of shape (n_samples,)
        """
        log_proba = self.predict_log_proba(X)
        return log_proba[:, 1] - log_proba[:, 0]

    def predict(self, X):
        """Return the more probable class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        return self.classes_[(self.decision_function(X) > 0.0).astype(np.intp)]

    def lower_bound(self, theta=None, X=None, y=None, sample_weight=None, eval_gradient=False):
        """Return the lower bound on the log marginal likelihood at the fitted inducing points.

        Parameters
        ----------
        theta : array-like of shape (n_hyperparameters,) or None, default=None
            Logarithms of the kernel's free hyperparameters. None is ``kernel_.theta``.
        X : array-like of shape (n_samples, n_features) or None, default=None
            Rows that the bound is about. None, possible only without `theta` and
            `eval_gradient`, is the data of `fit`, which are not kept, and gives `lower_bound_`.
        y : array-like of shape (n_samples,) or None, default=None
            Their labels, among `classes_`.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            As in `fit`.
        eval_gradient : bool, default=False
            Whether to return the gradient w.r.t. `theta` too.

        Returns
        -------
        bound : float
            In nats, maximised over the approximate posterior and, if `fit_prior_mean`, over the
            prior mean. Minus infinity where `theta` is so extreme that the kernel matrix of the
            inducing points cannot be factored.
        gradient : ndarray of shape (n_hyperparameters,)
            Only if `eval_gradient`.

        Raises
        ------
        ValueError
            If X or y is needed and missing, `theta` has a wrong length, or `y` holds an unknown
            label.
        """
        check_is_fitted(self)
        if X is None and y is None:
            if theta is None and sample_weight is None and not eval_gradient:
                return self.lower_bound_
            raise ValueError(
                "lower_bound needs X and y for theta, sample_weight or eval_gradient: the rows "
                "given to fit are not kept"
            )
        if X is None or y is None:
            raise ValueError("lower_bound needs X and y together, or neither")
        X, y = validate_data(self, X, y, dtype=np.float64, reset=False)
        X, y, weight, _ = _present_rows(X, y, sample_weight)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(
                f"y holds the label {unknown[0]}, which is none of classes_ {self.classes_}"
            )
        target = np.where(y == self.classes_[1], 1.0, -1.0)
        rows = merge_rows(X, weight)
        theta = self._check_theta(theta)
        kernel = adapt_kernel(self.kernel_, self.n_features_in_).kernel
        points = Chosen(self.inducing_points_, None, None)
        with single_threaded_blas():
            model = self._model(kernel, rows, rows.mean(target, weight))
            return self._bound_at(model, theta, points, eval_gradient)

    # Labels of one bit each hardly tell such a function from noise, and the starts cost time.
    _expects_fast = False
    # In log-odds: a mean that moves less than the first is constant as far as a user can see, and
    # one that moves more than the second is certain.
    _visible_range, _certain_range = 0.2, 5.0

    def _limit_meaning(self, name, side, best):
        """Say what it means that this hyperparameter is at a limit; empty if nothing is known.

        None means that it is nothing to be told.
        """
        variance = name.endswith("constant_value") and side == "upper"
        if variance and latent_range(best) > self._certain_range:
            return "the classes look separable, probabilities approach 0 and 1"
        return ""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _present_rows(X, y, sample_weight):
    """Return rows, labels and weights where the weight is positive, and which rows these are."""
    weight = check_weights(sample_weight, len(X))
    present = np.flatnonzero(weight)
    return X[present], y[present], weight[present], present


def _check_two_classes(classes, y):
    if len(classes) == 1:
        raise ValueError(
            f"y holds one class only, {classes[0]}, among the rows of positive weight, but a "
            "classifier needs two: give rows of the other class as well"
        )
    if len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is "
            f"{type_of_target(y)}, with {len(classes)} classes: combine it with "
            "sklearn.multiclass.OneVsRestClassifier"
        )
