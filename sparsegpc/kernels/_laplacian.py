"""The Laplacian kernel, with a length scale for each column."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import NormalizedKernelMixin, StationaryKernelMixin

from sparsegpc.kernels._by_column import ByColumnKernel, by_column, formatted


@dataclass(eq=False, repr=False)
class Laplacian(StationaryKernelMixin, NormalizedKernelMixin, ByColumnKernel):
    r"""Product of an exponential kernel of each column, for functions with thresholds in columns.

    .. math:: k(x, x') = \exp\left(-\sum_d \frac{|x_d - x'_d|}{\ell_d}\right)

    The factors are Matern kernels with nu = 1/2. As with decision trees, functions are not smooth,
    and the directions of the columns are special: the kernel is the limit of forests of many random
    trees whose splits form a Mondrian process [1]_.

    Parameters
    ----------
    length_scale : float or array-like of shape (n_features,), default=1.0
        Distance along a column, in its units, over which the correlation falls to 1/e. A number is
        one hyperparameter, common to all columns.
    length_scale_bounds : pair of floats, array or "fixed", default=(1e-5, 1e5)
        Lower and upper limit of the length scales; an array of shape (n_features, 2) has a pair for
        each. "fixed" keeps them.

    See Also
    --------
    sklearn.gaussian_process.kernels.Matern : With nu = 1/2, a function of the Euclidean distance.
    sklearn.metrics.pairwise.laplacian_kernel : The same covariance, with one length scale.

    Notes
    -----
    The kernel works in every estimator of this package, with exact derivatives, and in
    scikit-learn's `GaussianProcessRegressor` and `GaussianProcessClassifier`. In this package an
    evaluation at N rows and M inducing points takes O(N M D) operations and one exponential for
    each of N M values.

    References
    ----------
    .. [1] M. Balog et al., "The Mondrian kernel", UAI 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsegpc import SparseGPRegressor
    >>> from sparsegpc.kernels import Laplacian
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> y = np.sign(X[:, 0] - 0.4) * np.sign(X[:, 1] - 0.6) + 0.1 * rng.normal(size=400)
    >>> model = SparseGPRegressor(1.0 * Laplacian([1.0, 1.0])).fit(X[:200], y[:200])
    >>> model.score(X[200:], y[200:]) > 0.85
    True
    >>> 0.5 * Laplacian(2.0)
    0.707**2 * Laplacian(length_scale=2)
    """

    length_scale: float | np.ndarray = 1.0
    length_scale_bounds: tuple | np.ndarray | str = (1e-5, 1e5)

    def _evaluated(self, X, Y, eval_gradient):
        length_scales = by_column(self, "length_scale", X.shape[1])
        X, Y = X / length_scales, Y / length_scales
        K = np.exp(-cdist(X, Y, "cityblock"))
        if not eval_gradient:
            return K, []
        return K, [[K * np.abs(np.subtract.outer(x, y)) for x, y in zip(X.T, Y.T, strict=True)]]

    def __repr__(self):
        return f"Laplacian(length_scale={formatted(self.length_scale)})"
