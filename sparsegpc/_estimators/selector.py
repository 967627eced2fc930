"""Inducing points as a transformer: Nystrom features at rows chosen by pivoted Cholesky."""

import numbers
from dataclasses import field

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context, clone
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from sparsegpc._core.bounds.features import factor_inducing
from sparsegpc._core.bounds.slacks import TIGHT
from sparsegpc._core.likelihoods.binary import PolyaGammaLogit
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.models.posterior import whitened_features
from sparsegpc._core.rows.merged_rows import merge_rows
from sparsegpc._core.rows.threads import single_threaded_blas
from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import CandidateRows, FixedSelector, PivotedSelector
from sparsegpc._estimators.base_estimator import Estimator, all_or_nothing, with_parameters
from sparsegpc._estimators.input.labels import validated_labels
from sparsegpc._estimators.input.settings import row_options
from sparsegpc._estimators.input.validation import (
    check_noise_variance,
    present_rows,
    validated_rows,
)
from sparsegpc._estimators.kernels.named_kernels import KERNEL_CONSTRAINTS, KernelChoice
from sparsegpc._estimators.kernels.sklearn_kernels import adapt_kernel
from sparsegpc._estimators.kernels.spread import measure_spread
from sparsegpc._estimators.learning.point_selection import METHODS, make_selector


@with_parameters
class InducingPointSelector(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    r"""Choose inducing points among the rows, and map rows to their whitened Nystrom features.

    `fit` chooses M rows :math:`z_i`. `transform` returns :math:`V(x) = L^{-1} k(Z, x)` with
    :math:`L L^\top = K_{uu}`. The inner products of these features are the Nystrom approximation
    :math:`k(x, Z) K_{uu}^{-1} k(Z, x')` of the kernel, so a linear model on them is a sparse kernel
    machine. The Gaussian processes of this package use the same choice of points, by their
    parameter `selector`.

    Parameters
    ----------
    kernel : kernel of sklearn.gaussian_process.kernels, str or None, default=None
        Covariance function. Its hyperparameters are not learned. Names are those of
        :class:`SparseGPClassifier`, and None means "rbf". They mean variance 1 and, as the length
        scale, the root mean square distance between two rows.
    method : {"hgv", "rpcholesky", "greedy-variance", "kmeans", "uniform"}, default="hgv"
        How points are chosen, given the residual variance and the weight p (see `weighting`) of
        each row:

        - "hgv": the row with the largest p times residual, one after the other
          (heteroscedastic greedy variance, [1]_).
        - "rpcholesky": rows drawn with probability proportional to p times residual
          (randomly pivoted Cholesky, [3]_). It chooses fewer outliers.
        - "greedy-variance": the row with the largest residual, regardless of p ([2]_).
        - "kmeans": the centres of k-means, which are not rows; `tol` is ignored.
        - "uniform": rows in random order.
    n_components : int, default=200
        Maximum number of points; it is silently limited to the number of distinct rows.
    tol : float, default=1e-3
        Stop once the residual variance costs at most this many nats per row,
        :math:`\frac{1}{2N}\sum_n p_n r_n` with residual variances r and the total weight N of the
        rows. Larger values give fewer points; 0 chooses `n_components`, or as many as are linearly
        independent.
    weighting : {"classification"} or None, default=None
        The weight p of each row. None means `sample_weight` divided by `noise_variance`; either is
        1 if `fit` does not get it.

        "classification" fits a Gaussian process classifier with this kernel to `y` (with more than
        two classes, one per class against the rest, and sums over them) and uses its site
        precisions, which are largest near the decision boundary.
    random_state : int, RandomState instance or None, default=None
        Seed for "rpcholesky", "kmeans" and "uniform".

    Attributes
    ----------
    inducing_points_ : ndarray of shape (`n_components_`, `n_features_in_`)
        Chosen rows, in the order of their choice.
    inducing_indices_ : ndarray of shape (`n_components_`,) or None
        Indices of the chosen rows in the X given to `fit`; None for "kmeans".
    n_components_ : int
        Number of points chosen.
    traces_, costs_ : ndarray of shape (`n_components_` + 1,) or None
        The weighted trace :math:`\sum_n p_n r_n` and the cost per row, in nats, with 0, 1, ...
        points; None for "kmeans".
    kernel_ : kernel
        Kernel used.
    jitter_ : float
        Value added to the diagonal of the covariance of the points, relative to its mean.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if X had column names that are strings.

    See Also
    --------
    SparseGPClassifier : Chooses points with the kernel and precisions that it learns.
    sklearn.kernel_approximation.Nystroem : Nystrom features at uniformly chosen rows.

    Notes
    -----
    With N rows, M points and D columns `fit` and `transform` cost O(N M (M + D)) time. Beyond the
    rows and the result they take O(N + M^2) memory, and the memory of one block of rows per thread.
    Except with "kmeans", choices are nested: the first m of M points are the choice of m points.
    Rows are sorted and equal rows are merged before points are chosen, so the order of the rows
    does not matter.

    References
    ----------
    .. [1] Passerello, "Heteroscedastic inducing point selection for sparse Gaussian process
       classification", Imperial College London, 2021, section 4.3.2.
    .. [2] Burt, Rasmussen, van der Wilk, "Convergence of sparse variational inference in Gaussian
       processes regression", JMLR 21, 2020.
    .. [3] Chen, Epperly, Tropp, Webber, "Randomly pivoted Cholesky", 2022.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sparsegpc import InducingPointSelector
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(
    ...     StandardScaler(), InducingPointSelector(n_components=40), LogisticRegression()
    ... )
    >>> model.fit(X, y).score(X, y) > 0.94
    True
    >>> model[1].inducing_indices_.shape
    (40,)
    """

    kernel: Kernel | str | None = field(default=None, kw_only=False)
    method: str = "hgv"
    n_components: int = 200
    tol: float = 1e-3
    weighting: str | None = None
    random_state: int | np.random.RandomState | None = None

    _parameter_constraints = {
        "kernel": KERNEL_CONSTRAINTS["kernel"],
        "method": [StrOptions(set(METHODS))],
        "n_components": [Interval(numbers.Integral, 1, None, closed="left")],
        "tol": [Interval(numbers.Real, 0, None, closed="left")],
        "weighting": [None, StrOptions({"classification"})],
        "random_state": ["random_state"],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None, noise_variance=None):
        """Choose the inducing points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or None, default=None
            Class labels, used only if ``weighting="classification"``.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            A weight of k has the effect of k copies of the row, and a row of weight zero is
            ignored.
        noise_variance : float, array-like of shape (n_samples,) or None, default=None
            Variance of the noise at each row, in the model that will use the points. None means 1.
            ``weighting="classification"`` has precisions of its own, and refuses it.

        Returns
        -------
        self : InducingPointSelector

        Raises
        ------
        ValueError
            If X, `sample_weight` or `noise_variance` is not finite or has a wrong shape, or if
            ``weighting="classification"`` and `y` is missing or has one class only, or
            `noise_variance` is given.
        numpy.linalg.LinAlgError
            If the kernel is not positive semi-definite.
        """
        with all_or_nothing(self), single_threaded_blas():
            self._fit(X, y, sample_weight, noise_variance)
        return self

    def _checked_rows(self, X, y, noise_variance):
        """Return validated rows, and validated labels or, if labels are not used, zeros."""
        if self.weighting is None:
            X = validated_rows(self, X)
            return X, np.zeros(len(X))
        if noise_variance is not None:
            raise ValueError(
                'noise_variance must be None with weighting="classification", which learns the '
                "precisions: leave one of them out"
            )
        if y is None:
            raise ValueError(
                'weighting="classification" requires y to be passed, but the target y is None: '
                "call fit(X, y)"
            )
        return validated_labels(self, X, y)

    def _fit(self, X, y, sample_weight, noise_variance):
        X, y = self._checked_rows(X, y, noise_variance)
        noise = np.ones(len(X))
        if noise_variance is not None:
            noise = check_noise_variance(noise_variance, len(X), 1)[0]
        X, y, weight, places = present_rows(X, y, sample_weight)
        rows = merge_rows(X, weight)
        spread = measure_spread(rows.X, rows.weight)
        self.kernel_ = clone(KernelChoice(self.kernel, "common").resolve(spread))
        kernel, theta, *_ = adapt_kernel(
            self.kernel_,
            self.n_features_in_,
            refuse_white="features of a row cannot be noisy",
            X=rows.X,
        )
        rng = check_random_state(self.random_state)
        choose = make_selector(self.method, self.n_components, self.tol, rows, rng)
        candidates = CandidateRows(rows.X, float(rows.weight.sum()), row_options())
        if self.weighting is None:
            precision = rows.total(weight / noise[places])
        else:
            targets = [rows.mean(target, weight) for target in _one_against_rest(y)]
            precision = self._learned_precision(kernel, theta, candidates, rows, targets)
        self.inducing_indices_ = self.traces_ = self.costs_ = None
        if isinstance(choose, FixedSelector):
            Z = choose(kernel, theta, candidates, precision).Z
        else:
            chosen = choose.selection(kernel, theta, candidates, precision)
            Z = rows.X[chosen.indices]
            self.inducing_indices_ = places[rows.first[chosen.indices]]
            self.traces_, self.costs_ = chosen.traces, chosen.costs
        (self._Luu, self.jitter_), _ = factor_inducing(kernel, theta, Z)
        self.inducing_points_ = Z
        self.n_components_ = self._n_features_out = len(Z)

    def _learned_precision(self, kernel, theta, candidates, rows, targets):
        """Return the weight p of each merged row, summed over the classifiers of `targets`."""
        total = np.zeros(len(rows.weight))
        choose = PivotedSelector(argmax, self.n_components, self.tol)
        for target in targets:
            data = PolyaGammaLogit(), rows.X, [target], rows.weight
            model = SparseModel(kernel, *data, slack=TIGHT, **row_options())
            # The points of each classifier are chosen with its precisions under the prior.
            states = model.initial_state()
            chosen = choose(kernel, theta, candidates, model.precision(theta, states))
            solved = model.evaluate(theta, chosen, states, wrt_theta=False)
            total += solved.solutions[0].sites.precision
        return total

    def transform(self, X):
        """Map rows to their whitened Nystrom features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        V : ndarray of shape (n_samples, `n_components_`)
            ``V @ V.T`` approximates ``kernel_(X)``; its diagonal is at most that of ``kernel_(X)``.
        """
        X = self._check_rows(X)
        kernel, theta, *_ = adapt_kernel(self.kernel_, self.n_features_in_)
        with single_threaded_blas():
            return whitened_features(
                kernel, theta, self.inducing_points_, self._Luu, X, **row_options()
            )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = isinstance(self.weighting, str)
        return tags


def _one_against_rest(y):
    """Return a list of +1 and -1 targets, for the second of two classes or for each of several."""
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) == 1:
        raise ValueError(
            f'weighting="classification" needs rows of two classes, but y holds one class only, '
            f"{classes[0]}: give rows of the other class as well"
        )
    positive = range(1, 2) if len(classes) == 2 else range(len(classes))
    return [np.where(codes == k, 1.0, -1.0) for k in positive]
