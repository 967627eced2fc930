"""The kernel of a sum of orthogonal effects of columns and of sets of columns."""

from dataclasses import dataclass

import numpy as np

from sparsegpc._core.kernels.orthogonal_additive import slope, symmetric_sums
from sparsegpc.kernels._by_column import ByColumnKernel, by_column, formatted


@dataclass(eq=False, repr=False)
class OrthogonalAdditive(ByColumnKernel):
    r"""Covariance of a sum of effects of columns and of sets of columns, orthogonal to each other.

    .. math:: k(x, x') = \sum_{o=1}^q s_o \sum_{|u| = o}\, \prod_{d \in u} \tilde k_d(x_d, x'_d)

    The function is a sum of a function of each column, a function of each pair of columns, and so
    on up to sets of q columns. Here :math:`\tilde k_d` is the covariance of a function of column d
    that is as smooth as one with an RBF kernel and whose mean is zero under a normal density of the
    column. This makes the decomposition unique: a constant cannot move from one effect to another,
    nor a main effect into an interaction [1]_.

    Parameters
    ----------
    length_scale : float or array-like of shape (n_features,), default=1.0
        Distance along the column, in its units, over which the effects change. A number is one
        hyperparameter, common to all columns.
    variance : float or array-like of shape (q,), default=(1.0, 1.0)
        Prior variances of the effects of one column, of pairs, and so on, each relative to the
        covariances :math:`\tilde k_d`, which are at most 1. Its length q is the size of the largest
        sets; a number means single columns only, without interactions.
    input_mean : float or array-like of shape (n_features,), default=0.0
        Mean of the normal density of each column. With the default densities the columns should
        have mean 0 and standard deviation 1, as :class:`~sklearn.preprocessing.StandardScaler`
        gives them.
    input_std : float or array-like of shape (n_features,), default=1.0
        Standard deviation of the density of each column.
    length_scale_bounds : pair of floats, array or "fixed", default=(1e-2, 1e2)
        Lower and upper limit of the length scales; an array of shape (n_features, 2) has a pair for
        each. "fixed" keeps the length scales.
    variance_bounds : pair of floats, array or "fixed", default=(1e-5, 1e12)
        Lower and upper limit of the variances, likewise. Long length scales need large variances,
        since :math:`\tilde k_d` is then inversely proportional to their square.

    See Also
    --------
    MainEffects : Functions of one column each, to be added to another kernel.
    sparsegpc.SparseGPRegressor.effect_shares : Shares of columns and pairs in the variance.

    Notes
    -----
    The kernel works in every estimator of this package, with exact derivatives, and in
    scikit-learn's `GaussianProcessRegressor` and `GaussianProcessClassifier`. It describes no
    constant: that is the prior mean of the estimators of this package, or in scikit-learn
    ``ConstantKernel() + OrthogonalAdditive()``. In this package an evaluation at N rows and M
    inducing points takes N M D exponentials and N M D q products, and about four times that with
    derivatives. The sum over all sets is computed without enumerating them.

    References
    ----------
    .. [1] X. Lu, A. Boukouvalas, J. Hensman, "Additive Gaussian processes revisited", ICML 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsegpc import SparseGPRegressor
    >>> from sparsegpc.kernels import OrthogonalAdditive
    >>> rng = np.random.RandomState(0)
    >>> X = rng.normal(size=(300, 3))
    >>> y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=300)
    >>> kernel = OrthogonalAdditive(length_scale=[1.0, 1.0, 1.0])
    >>> model = SparseGPRegressor(kernel, n_inducing=60).fit(X[:200], y[:200])
    >>> model.score(X[200:], y[200:]) > 0.98
    True
    >>> for columns, share in list(model.effect_shares().items())[:2]:
    ...     print(columns, round(share, 2))
    (1, 2) 0.66
    (0,) 0.34
    """

    length_scale: float | np.ndarray = 1.0
    variance: float | tuple | np.ndarray = (1.0, 1.0)
    input_mean: float | np.ndarray = 0.0
    input_std: float | np.ndarray = 1.0
    length_scale_bounds: tuple | np.ndarray | str = (1e-2, 1e2)
    variance_bounds: tuple | np.ndarray | str = (1e-5, 1e12)

    @property
    def hyperparameter_variance(self):
        return self._numeric("variance")

    def _evaluated(self, X, Y, eval_gradient):
        order, variances = np.size(self.variance), np.ravel(self.variance)
        parts = [
            _constrained((X[:, [d]] - mean) / std, (Y[:, d] - mean) / std, scale / std)
            for d, (scale, mean, std) in enumerate(zip(*self._by_column(X.shape[1]), strict=True))
        ]
        sums = symmetric_sums((value for value, _ in parts), order, (len(X), len(Y)))
        by_variance = [s * total for s, total in zip(variances, sums, strict=True)]
        K = sum(by_variance)
        if not eval_gradient:
            return K, []
        work = np.empty((2, *K.shape))
        by_length_scale = [by_log * slope(variances, sums, value, *work) for value, by_log in parts]
        return K, [by_length_scale, by_variance]

    def diag(self, X):
        X, order = np.atleast_2d(X), np.size(self.variance)
        parts = [
            1.0 - _removed((x - mean) / std, (x - mean) / std, scale / std)
            for x, scale, mean, std in zip(X.T, *self._by_column(X.shape[1]), strict=True)
        ]
        sums = symmetric_sums(parts, order, (len(X),))
        return np.ravel(self.variance) @ sums

    def is_stationary(self):
        # The covariance depends on where in the density two rows are.
        return False

    def _checked_settings(self, n_features):
        """Return the order, and the mean and standard deviation of each column, after a check."""
        order = np.size(self.variance)
        if np.ndim(self.variance) > 1 or not 1 <= order <= n_features:
            raise ValueError(
                f"kernel: OrthogonalAdditive has variance={self.variance!r}, but it must hold one "
                f"variance for each size of sets of columns, from 1 to at most {n_features}, the "
                "number of columns: give for example 1.0, which allows no interactions"
            )
        densities = []
        for name, smallest in (("input_mean", -np.inf), ("input_std", 0.0)):
            numbers = by_column(self, name, n_features)
            if not (np.isfinite(numbers) & (numbers > smallest)).all():
                kind = "positive, finite" if smallest == 0.0 else "finite"
                raise ValueError(
                    f"kernel: OrthogonalAdditive has {name}={getattr(self, name)!r}, but it must "
                    f"be a {kind} number, or one for each of {n_features} columns: give for "
                    f"example X.{name.removeprefix('input_')}(axis=0)"
                )
            densities.append(numbers)
        return order, *densities

    def _by_column(self, n_features):
        """Return the length scale, the mean and the standard deviation of each column."""
        _, means, stds = self._checked_settings(n_features)
        return by_column(self, "length_scale", n_features), means, stds

    def __repr__(self):
        density = "".join(
            f", {name}={formatted(getattr(self, name))}"
            for name, default in (("input_mean", 0.0), ("input_std", 1.0))
            if not np.array_equal(getattr(self, name), default)
        )
        return (
            f"OrthogonalAdditive(length_scale={formatted(self.length_scale)}, "
            f"variance={formatted(self.variance)}{density})"
        )


def _constrained(x, y, length_scale):
    """Return the covariance of one column, and its derivative w.r.t. the log length scale."""
    b, a = length_scale**2, length_scale**2 + 1.0
    squared, removed = (x - y) ** 2 / b, _removed(x, y, length_scale)
    smooth = np.exp(-0.5 * squared)
    by_log = 2.0 / (a * (b + 2.0)) + (x**2 + y**2) * b / a**2
    return smooth - removed, smooth * squared - removed * by_log


def _removed(x, y, length_scale):
    """Return what the constraint takes from the covariance of a column."""
    a = length_scale**2 + 1.0
    factor = length_scale * np.sqrt(length_scale**2 + 2.0) / a
    return factor * np.exp(-0.5 * (x**2 + y**2) / a)
