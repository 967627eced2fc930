"""Kernels made of other kernels, of some columns or parameters, or by values alone."""

import numpy as np

from sparsegpc._core.kernels.families import Constant, Stationary

# Change of a log parameter without a bound: it makes a variance negligible, exp(-20) times itself.
UNBOUNDED_STEP = 20.0
# Step of central differences in a log parameter: a compromise between the truncation error,
# ``step**2``, and the rounding error, ``1e-16 / step``.
DIFFERENCE_STEP = 1e-5


class _Pair:
    """Two kernels of the same rows; the parameters of the left kernel come first."""

    def __init__(self, left, right):
        self.left, self.right = left, right
        self.n_params = left.n_params + right.n_params
        self.n_arrays = left.n_arrays + right.n_arrays
        self.is_local = left.is_local and right.is_local

    def _split(self, params):
        return params[: self.left.n_params], params[self.left.n_params :]


def _joined(left, right):
    """Return the derivatives w.r.t. the parameters and Z from those of both kernels."""
    (left_gradient, left_Z), (right_gradient, right_Z) = left, right
    by_Z = None if left_Z is None else left_Z + right_Z
    return np.concatenate([left_gradient, right_gradient]), by_Z


class Sum(_Pair):
    """The sum of two kernels."""

    def evaluate(self, params, Z, X):
        left, right = self._split(params)
        K, left_pullback = self.left.evaluate(left, Z, X)
        K_right, right_pullback = self.right.evaluate(right, Z, X)

        def pullback(adjoint, wrt_Z=False):
            return _joined(left_pullback(adjoint, wrt_Z), right_pullback(adjoint, wrt_Z))

        return K + K_right, pullback

    def diag(self, params, X):
        left, right = self._split(params)
        return self.left.diag(left, X) + self.right.diag(right, X)

    def diag_pullback(self, params, X, adjoint):
        left, right = self._split(params)
        by_left = self.left.diag_pullback(left, X, adjoint)
        return np.concatenate([by_left, self.right.diag_pullback(right, X, adjoint)])


class Product(_Pair):
    """The elementwise product of two kernels."""

    def __init__(self, left, right):
        super().__init__(left, right)
        self.n_arrays += 2

    def evaluate(self, params, Z, X):
        left, right = self._split(params)
        K_left, left_pullback = self.left.evaluate(left, Z, X)
        K_right, right_pullback = self.right.evaluate(right, Z, X)

        def pullback(adjoint, wrt_Z=False):
            by_left = left_pullback(adjoint * K_right, wrt_Z)
            return _joined(by_left, right_pullback(adjoint * K_left, wrt_Z))

        return K_left * K_right, pullback

    def diag(self, params, X):
        left, right = self._split(params)
        return self.left.diag(left, X) * self.right.diag(right, X)

    def diag_pullback(self, params, X, adjoint):
        left, right = self._split(params)
        by_left = self.left.diag_pullback(left, X, adjoint * self.right.diag(right, X))
        by_right = self.right.diag_pullback(right, X, adjoint * self.left.diag(left, X))
        return np.concatenate([by_left, by_right])


class Scaled(_Pair):
    """A constant times a kernel, in either order. Builds no matrix of the constant."""

    def __init__(self, left, right):
        super().__init__(left, right)
        self._constant_first = isinstance(left, Constant)
        self._scaled = right if self._constant_first else left
        # The pullback keeps K, unless that of the kernel already does.
        self.n_arrays = max(1, self._scaled.n_arrays)

    def _scale_and_rest(self, params):
        left, right = self._split(params)
        constant, rest = (left, right) if self._constant_first else (right, left)
        return np.exp(constant[0]), rest

    def _joined(self, by_scale, gradient):
        parts = ([by_scale], gradient) if self._constant_first else (gradient, [by_scale])
        return np.concatenate(parts)

    def evaluate(self, params, Z, X):
        scale, rest = self._scale_and_rest(params)
        if isinstance(self._scaled, Stationary):
            return self._evaluate_stationary(scale, rest, Z, X)
        K, inner = self._scaled.evaluate(rest, Z, X)

        def pullback(adjoint, wrt_Z=False):
            by_scale = scale * np.vdot(adjoint, K)
            gradient, grad_Z = inner(adjoint, wrt_Z)
            return self._joined(by_scale, scale * gradient), scale * grad_Z if wrt_Z else None

        return scale * K, pullback

    def _evaluate_stationary(self, scale, rest, Z, X):
        """Evaluate a kernel that multiplies its values by the scale while they are in the cache."""
        K, inner = self._scaled.evaluate(rest, Z, X, scale)

        def pullback(adjoint, wrt_Z=False):
            gradient, grad_Z = inner(adjoint, wrt_Z)
            return self._joined(np.vdot(adjoint, K), gradient), grad_Z

        return K, pullback

    def diag(self, params, X):
        scale, rest = self._scale_and_rest(params)
        return scale * self._scaled.diag(rest, X)

    def diag_pullback(self, params, X, adjoint):
        scale, rest = self._scale_and_rest(params)
        by_scale = np.vdot(adjoint, self.diag(params, X))
        return self._joined(by_scale, scale * self._scaled.diag_pullback(rest, X, adjoint))


class OnColumns:
    """A kernel of the rows' values in some columns, which are distinct."""

    def __init__(self, kernel, columns):
        self.kernel, self.columns = kernel, np.array(columns)
        self.n_params, self.n_arrays = kernel.n_params, kernel.n_arrays
        self.is_local = kernel.is_local

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


class FiniteDifferenceKernel:
    """A kernel whose derivatives w.r.t. parameters are computed by central differences.

    ``value(params, Z, X)`` returns K of shape (M, N), and ``diag(params, X)`` its diagonal, (N,).
    `name` is that of the kernel in messages. A pullback evaluates the kernel 2 P times. It gives
    no derivative w.r.t. the points.
    """

    n_arrays = 0
    is_local = False

    def __init__(self, value, diag, n_params, name):
        self.value, self.diag, self.n_params = value, diag, n_params
        self.name = name

    def _differences(self, function, params, adjoint):
        gradient = np.empty(self.n_params)
        for k in range(self.n_params):
            shift = np.zeros(self.n_params)
            shift[k] = DIFFERENCE_STEP
            difference = function(params + shift) - function(params - shift)
            gradient[k] = np.vdot(adjoint, difference) / (2.0 * DIFFERENCE_STEP)
        return gradient

    def evaluate(self, params, Z, X):
        def pullback(adjoint, wrt_Z=False):
            if wrt_Z:
                raise NotImplementedError(
                    f"kernel {self.name} has no derivative w.r.t. the inducing points: keep the "
                    "inducing points fixed, or use a kernel made of ConstantKernel, RBF, Matern "
                    "(nu 0.5, 1.5 or 2.5), RationalQuadratic, ExpSineSquared, DotProduct, "
                    "Laplacian, sums and products"
                )
            return self._differences(lambda p: self.value(p, Z, X), params, adjoint), None

        return self.value(params, Z, X), pullback

    def diag_pullback(self, params, X, adjoint):
        return self._differences(lambda p: self.diag(p, X), params, adjoint)


class FreeKernel:
    """A kernel as a function of its free parameters `theta`; the others keep their values.

    `params` holds the logarithms of all parameters, of which the fixed ones are used, and the mask
    `free` tells which ones `theta` replaces, in order.
    """

    def __init__(self, kernel, params, free):
        self.kernel, self.params, self.free = kernel, params, free
        self.n_params = int(np.sum(free))
        self.n_arrays = kernel.n_arrays
        self.is_local = kernel.is_local

    def _params(self, theta):
        params = self.params.copy()
        params[self.free] = theta
        return params

    def value(self, theta, Z, X):
        """Return K of shape (M, N)."""
        return self.kernel.evaluate(self._params(theta), Z, X)[0]

    def evaluate(self, theta, Z, X):
        """Return K of shape (M, N) and the pullback of its adjoint."""
        K, inner = self.kernel.evaluate(self._params(theta), Z, X)

        def pullback(adjoint, wrt_Z=False):
            gradient, grad_Z = inner(adjoint, wrt_Z)
            return gradient[self.free], grad_Z

        return K, pullback

    def diag(self, theta, X):
        """Return the diagonal, shape (N,)."""
        return self.kernel.diag(self._params(theta), X)

    def diag_pullback(self, theta, X, adjoint):
        """Return the contraction of an adjoint (N,) with the derivative of the diagonal, (P,)."""
        return self.kernel.diag_pullback(self._params(theta), X, adjoint)[self.free]

    def least_variance(self, theta, bounds, X):
        """Return `theta` with each parameter at the bound of smaller prior variance at rows X.

        Parameters that do not change the variance keep their values. ``bounds`` has shape (P, 2);
        if the bound is infinite, the parameter changes by `UNBOUNDED_STEP`.
        """
        slope = self.diag_pullback(theta, X, np.ones(len(X)))
        reached = theta + np.array([[-UNBOUNDED_STEP], [UNBOUNDED_STEP]])
        low, high = np.where(np.isfinite(bounds.T), bounds.T, reached)
        return np.where(slope > 0.0, low, np.where(slope < 0.0, high, theta))
