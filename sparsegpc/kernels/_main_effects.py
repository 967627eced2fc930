"""The kernel of a sum of functions of one column each."""

from dataclasses import dataclass

import numpy as np
from sklearn.gaussian_process.kernels import StationaryKernelMixin

from sparsegpc.kernels._by_column import ByColumnKernel, by_column, formatted


@dataclass(eq=False, repr=False)
class MainEffects(StationaryKernelMixin, ByColumnKernel):
    r"""Covariance of a sum of functions of one column each.

    .. math:: k(x, x') = \sum_d c_d \exp\left(-\frac{(x_d - x'_d)^2}{2 \ell_d^2}\right)

    Each column has a smooth function of its own, its *main effect*, with variance :math:`c_d` and
    length scale :math:`\ell_d`; the function is their sum. Added to a kernel of all columns, it
    describes what each column does by itself and leaves the interactions to the other kernel [1]_.

    Parameters
    ----------
    variance : float or array-like of shape (n_features,), default=1.0
        Prior variance of each effect. A number is one hyperparameter, common to all columns; an
        array has one for each column.
    length_scale : float or array-like of shape (n_features,), default=1.0
        Distance along the column, in its units, over which its effect changes. A number is one
        hyperparameter, common to all columns.
    variance_bounds : pair of floats, array or "fixed", default=(1e-5, 1e5)
        Lower and upper limit of the variances; an array of shape (n_features, 2) has a pair for
        each. "fixed" keeps the variances.
    length_scale_bounds : pair of floats, array or "fixed", default=(1e-5, 1e5)
        Lower and upper limit of the length scales, likewise.

    See Also
    --------
    OrthogonalAdditive : Effects with mean zero, of columns and of sets of columns.
    sklearn.gaussian_process.kernels.RBF : The covariance of a function of all columns.

    Notes
    -----
    The kernel works in every estimator of this package, with exact derivatives, and in
    scikit-learn's `GaussianProcessRegressor` and `GaussianProcessClassifier`. In this package an
    evaluation at N rows and M inducing points takes one exponential for each of N M D values at
    most. It is faster for columns that have few distinct values, such as indicators of categories,
    and for smooth effects, whose length scales are not short.

    References
    ----------
    .. [1] D. Duvenaud, H. Nickisch, C. E. Rasmussen, "Additive Gaussian processes", NeurIPS 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from sparsegpc import SparseGPRegressor
    >>> from sparsegpc.kernels import MainEffects
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-2, 2, size=(200, 2))
    >>> y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=200)
    >>> kernel = MainEffects(variance=[1.0, 1.0], length_scale=[1.0, 1.0])
    >>> model = SparseGPRegressor(kernel, n_inducing=40).fit(X[:100], y[:100])
    >>> model.score(X[100:], y[100:]) > 0.98
    True
    >>> kernel + 0.5 * RBF(2.0)
    MainEffects(variance=[1, 1], length_scale=[1, 1]) + 0.707**2 * RBF(length_scale=2)
    """

    variance: float | np.ndarray = 1.0
    length_scale: float | np.ndarray = 1.0
    variance_bounds: tuple | np.ndarray | str = (1e-5, 1e5)
    length_scale_bounds: tuple | np.ndarray | str = (1e-5, 1e5)

    @property
    def hyperparameter_variance(self):
        return self._numeric("variance")

    def _evaluated(self, X, Y, eval_gradient):
        variances, length_scales = self._by_column(X.shape[1])
        K, by_length_scale, by_variance = np.zeros((len(X), len(Y))), [], []
        for d, (variance, length_scale) in enumerate(zip(variances, length_scales, strict=True)):
            squared = (np.subtract.outer(X[:, d], Y[:, d]) / length_scale) ** 2
            effect = variance * np.exp(-0.5 * squared)
            K += effect
            if eval_gradient:
                by_length_scale.append(effect * squared)
                by_variance.append(effect)
        return K, [by_length_scale, by_variance]

    def diag(self, X):
        X = np.atleast_2d(X)
        return np.full(len(X), self._by_column(X.shape[1])[0].sum())

    def _by_column(self, n_features):
        """Return the variance and the length scale of each column, shape (n_features,) each."""
        return tuple(by_column(self, name, n_features) for name in ("variance", "length_scale"))

    def __repr__(self):
        return (
            f"MainEffects(variance={formatted(self.variance)}, "
            f"length_scale={formatted(self.length_scale)})"
        )
