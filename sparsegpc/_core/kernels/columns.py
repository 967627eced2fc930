"""A kernel that sees some of the columns."""

import numpy as np


class OnColumns:
    """A kernel of the rows' values in some columns.

    Parameters
    ----------
    kernel : kernel node
    columns : sequence of int
        Distinct.
    """

    def __init__(self, kernel, columns):
        self.kernel, self.columns = kernel, np.array(columns)
        self.n_params, self.n_arrays = kernel.n_params, kernel.n_arrays

    def evaluate(self, params, Z, X):
        K, inner = self.kernel.evaluate(params, self._part(Z), self._part(X))

        def pullback(adjoint, wrt_Z=False):
            gradient, part = inner(adjoint, wrt_Z)
            if not wrt_Z:
                return gradient, None
            grad_Z = np.zeros(Z.shape)
            grad_Z[:, self.columns] = part
            return gradient, grad_Z

        return K, pullback

    def diag(self, params, X):
        return self.kernel.diag(params, self._part(X))

    def diag_pullback(self, params, X, adjoint):
        return self.kernel.diag_pullback(params, self._part(X), adjoint)

    def _part(self, X):
        return np.ascontiguousarray(X[:, self.columns])
