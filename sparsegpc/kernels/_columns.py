"""The kernel of some columns."""

import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel


class Columns(Kernel):
    """A kernel of some of the columns.

    Sums and products of such kernels describe functions of groups of columns. The sum of two is the
    covariance of a sum of two functions, each of its own columns. Around an RBF with one length
    scale, it gives all columns that encode one category a common length scale.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel of the group; with a length scale for each column, it needs one for each column of
        the group.
    columns : list of int
        Numbers of the columns of X, from 0, without repetition.

    See Also
    --------
    MainEffects : The covariance of a sum of functions of one column each, for all columns.

    Notes
    -----
    The kernel works in every estimator of this package, with exact derivatives, and in
    scikit-learn's `GaussianProcessRegressor` and `GaussianProcessClassifier`. Its hyperparameters
    are those of the nested kernel, with the prefix ``kernel__``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from sparsegpc import SparseGPRegressor
    >>> from sparsegpc.kernels import Columns
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-2, 2, size=(300, 3))
    >>> y = np.sin(3 * X[:, 0]) + np.cos(X[:, 1] * X[:, 2]) + 0.1 * rng.normal(size=300)
    >>> kernel = 1.0 * Columns(RBF(1.0), [0]) + 1.0 * Columns(RBF([1.0, 1.0]), [1, 2])
    >>> model = SparseGPRegressor(kernel, n_inducing=60).fit(X[:200], y[:200])
    >>> model.score(X[200:], y[200:]) > 0.95
    True
    >>> Columns(RBF(1.0), [0])
    Columns(RBF(length_scale=1), [0])
    """

    def __init__(self, kernel, columns):
        self.kernel = kernel
        self.columns = columns

    def get_params(self, deep=True):
        params = {"kernel": self.kernel, "columns": self.columns}
        if deep:
            nested = self.kernel.get_params()
            params.update({f"kernel__{name}": value for name, value in nested.items()})
        return params

    @property
    def hyperparameters(self):
        """The hyperparameters of the nested kernel."""
        return [
            Hyperparameter(f"kernel__{h.name}", h.value_type, h.bounds, h.n_elements)
            for h in self.kernel.hyperparameters
        ]

    @property
    def theta(self):
        """The logarithms of the free hyperparameters of the nested kernel."""
        return self.kernel.theta

    @theta.setter
    def theta(self, theta):
        self.kernel.theta = theta

    @property
    def bounds(self):
        """The logarithms of their limits, shape (n_dims, 2)."""
        return self.kernel.bounds

    def __eq__(self, other):
        if type(self) is not type(other):
            return False
        return self.kernel == other.kernel and np.array_equal(self.columns, other.columns)

    def __call__(self, X, Y=None, eval_gradient=False):
        return self.kernel(self._part(X), None if Y is None else self._part(Y), eval_gradient)

    def diag(self, X):
        return self.kernel.diag(self._part(X))

    def is_stationary(self):
        return self.kernel.is_stationary()

    def _checked_columns(self, n_features):
        """Return the columns as a tuple of int; raise ValueError unless they are different ones."""
        given = np.asarray(self.columns)
        is_list = given.ndim == 1 and given.dtype.kind in "iu" and len(np.unique(given)) > 0
        if (
            not is_list
            or len(np.unique(given)) < len(given)
            or not (0 <= given.min() <= given.max() < n_features)
        ):
            names = "kernels do not know names; " if given.dtype.kind == "U" else ""
            raise ValueError(
                f"kernel: Columns has columns={self.columns!r}, but they must be different numbers "
                f"from 0 to {n_features - 1}: {names}give for example [0]"
            )
        return tuple(given.tolist())

    def _part(self, X):
        X = np.atleast_2d(X)
        return X[:, self._checked_columns(X.shape[1])]

    def __repr__(self):
        columns = np.asarray(self.columns)
        return f"Columns({self.kernel!r}, {columns.tolist()!r})"
