r"""Covariance functions: values, and contractions of an adjoint with their derivatives.

Kernels are the nodes of an expression tree. The parameters of a node are one flat vector of
logarithms; a sum or product has the parameters of its left child, then those of its right child.

``evaluate(params, Z, X)`` returns the (M, N) matrix K of :math:`k(z_i, x_n)` and a function
``pullback(adjoint, wrt_Z)``. The adjoint holds the derivatives of a scalar F w.r.t. the entries of
K; the pullback returns ``(dF/dparams, dF/dZ)``, the second None unless `wrt_Z` is true. No array is
larger than (M, N) or (N, D). ``diag(params, X)`` returns :math:`k(x_n, x_n)`, and
``diag_pullback(params, X, adjoint)`` its contraction w.r.t. the parameters. ``n_arrays`` is the
number of (M, N) arrays that a pullback keeps in memory. ``is_local`` tells whether rows with
a high correlation are near each other.
"""

import numpy as np

from sparsegpc._core.kernels.distances import FAR_SQUARED, AbsoluteDistances, SquaredDistances
from sparsegpc._core.numerics.floats import TINY


class Constant:
    """The constant covariance c; the parameter is log c."""

    n_params = 1
    n_arrays = 0
    is_local = True

    def evaluate(self, params, Z, X):
        value = np.exp(params[0])
        K = np.full((len(Z), len(X)), value)

        def pullback(adjoint, wrt_Z=False):
            return np.array([value * adjoint.sum()]), np.zeros_like(Z) if wrt_Z else None

        return K, pullback

    def diag(self, params, X):
        return np.full(len(X), np.exp(params[0]))

    def diag_pullback(self, params, X, adjoint):
        return np.array([np.exp(params[0]) * adjoint.sum()])


class Stationary:
    r"""A kernel :math:`\kappa(\Delta)` of a distance in units of the length scales.

    The distances, ``s`` in the code, are `SquaredDistances` unless a subclass chooses others in
    `distances`. The last parameters are the logarithms of one length scale, or of one for each
    column; a subclass can have `n_extra` others before them. A subclass defines :math:`\kappa` and
    :math:`\kappa' = d\kappa/d\Delta`, from which the derivatives w.r.t. length scales and points
    follow. `n_length_scales` is 1, for all columns, or D.
    """

    n_extra = 0
    is_local = True

    def __init__(self, n_length_scales=1):
        self.n_length_scales = n_length_scales
        self.n_params = n_length_scales + self.n_extra

    def radial(self, s, extra):
        """Return ``kappa(s)``; may overwrite `s` only if `keeps_distances` is False."""
        raise NotImplementedError

    def radial_derivative(self, s, K, extra):
        """Return ``c kappa'(s)`` from ``K = c kappa(s)``; `s` is None if not `keeps_distances`."""
        raise NotImplementedError

    def extra_gradient(self, s, K, extra, adjoint):
        """Return the gradient of ``K = c kappa`` w.r.t. the parameters before the length scales."""
        return ()

    keeps_distances = True
    # How accurate the distances must be, see `SquaredDistances`.
    far_squared = FAR_SQUARED

    def distances(self, Z, X, length_scale):
        return SquaredDistances(Z, X, length_scale, self.far_squared)

    @property
    def n_arrays(self):
        return 1 + self.keeps_distances

    def _length_scales(self, params):
        return np.exp(params[self.n_extra :])

    def evaluate(self, params, Z, X, scale=1.0):
        """Return `scale` times the kernel, and the pullback of its adjoint."""
        length_scale, extra = self._length_scales(params), params[: self.n_extra]
        # The pullback keeps the scaled copy of the rows, not the rows themselves.
        distances = self.distances(Z, X, length_scale)
        K = np.empty((len(Z), len(X)))
        kept = np.empty(K.shape) if self.keeps_distances else None
        for part in distances.strips:
            s = (K if kept is None else kept)[part]
            distances.write(part, s)
            if Z is X:
                s[np.arange(len(s)), np.arange(part.start, part.start + len(s))] = 0.0
            np.multiply(self.radial(s, extra), scale, out=K[part])

        def pullback(adjoint, wrt_Z=False):
            by_extra = np.zeros(self.n_extra)

            def weights():
                for part in distances.strips:
                    s = None if kept is None else kept[part]
                    by_extra[:] += self.extra_gradient(s, K[part], extra, adjoint[part])
                    W = self.radial_derivative(s, K[part], extra)
                    W *= adjoint[part]
                    yield W

            by_log_length, by_Z = distances.contract(weights(), wrt_Z)
            if self.n_length_scales < len(by_log_length):
                by_log_length = by_log_length.sum(keepdims=True)[: self.n_length_scales]
            grad_Z = by_Z / length_scale if wrt_Z else None
            return np.concatenate([by_extra, by_log_length]), grad_Z

        return K, pullback

    def diag(self, params, X):
        return np.ones(len(X))

    def diag_pullback(self, params, X, adjoint):
        return np.zeros(self.n_params)


class RBF(Stationary):
    r"""Squared exponential, :math:`\exp(-\Delta/2)`."""

    keeps_distances = False

    def radial(self, s, extra):
        s *= -0.5
        return np.exp(s, out=s)

    def radial_derivative(self, s, K, extra):
        return -0.5 * K


class Matern12(Stationary):
    r"""Matern with smoothness 1/2, :math:`\exp(-\sqrt\Delta)`."""

    # The square root turns an error of 1e-13 in s into one of 3e-7.
    far_squared = 0.0

    def radial(self, s, extra):
        return np.exp(-np.sqrt(s))

    def radial_derivative(self, s, K, extra):
        # The kernel has a kink at s = 0, where the pullback multiplies by differences of zero.
        return np.where(s > 0.0, -0.5 * K / np.sqrt(np.maximum(s, TINY)), 0.0)


class Laplacian(Stationary):
    r"""Product of a Matern 1/2 of each column, :math:`\exp(-\sum_d |z_d - x_d| / \ell_d)`."""

    keeps_distances = False

    def distances(self, Z, X, length_scale):
        return AbsoluteDistances(Z, X, length_scale)

    def radial(self, s, extra):
        np.negative(s, out=s)
        return np.exp(s, out=s)

    def radial_derivative(self, s, K, extra):
        return -K


class Matern32(Stationary):
    r"""Matern with smoothness 3/2, :math:`(1 + a) e^{-a}` with :math:`a = \sqrt{3\Delta}`."""

    def radial(self, s, extra):
        a = np.sqrt(3.0 * s)
        return (1.0 + a) * np.exp(-a)

    def radial_derivative(self, s, K, extra):
        return -1.5 * K / (1.0 + np.sqrt(3.0 * s))


class Matern52(Stationary):
    r"""Matern with smoothness 5/2, :math:`(1 + a + a^2/3) e^{-a}`, :math:`a = \sqrt{5\Delta}`."""

    def radial(self, s, extra):
        a = np.sqrt(5.0 * s)
        return (1.0 + a + a**2 / 3.0) * np.exp(-a)

    def radial_derivative(self, s, K, extra):
        a = np.sqrt(5.0 * s)
        return (-5.0 / 6.0) * K * (1.0 + a) / (1.0 + a + a**2 / 3.0)


class RationalQuadratic(Stationary):
    r"""Rational quadratic, :math:`(1 + \Delta/2\alpha)^{-\alpha}`; first parameter log alpha."""

    n_extra = 1

    def radial(self, s, extra):
        alpha = np.exp(extra[0])
        return np.exp(-alpha * np.log1p(s / (2.0 * alpha)))

    def radial_derivative(self, s, K, extra):
        return -0.5 * K / (1.0 + s / (2.0 * np.exp(extra[0])))

    def extra_gradient(self, s, K, extra, adjoint):
        alpha = np.exp(extra[0])
        ratio = s / (2.0 * alpha)
        slope = alpha * K * (ratio / (1.0 + ratio) - np.log1p(ratio))
        return (np.vdot(adjoint, slope),)


class ExpSineSquared(Stationary):
    r"""Periodic, :math:`\exp(-2 \sin^2(\pi d / t) / \ell^2)`; parameters log l and log t.

    The distance d and the period t are in the units of the columns, because the length scale does
    not scale the distance.
    """

    n_extra = 2
    # The period may be short beside the range of the columns.
    far_squared = None
    is_local = False

    def __init__(self):
        super().__init__(0)

    def _length_scales(self, params):
        return 1.0

    def radial(self, s, extra):
        length_scale, period = np.exp(extra)
        return np.exp(-2.0 * (np.sin(np.pi * np.sqrt(s) / period) / length_scale) ** 2)

    def radial_derivative(self, s, K, extra):
        length_scale, period = np.exp(extra)
        # sin(2x) / (2x) is smooth at zero distance; np.sinc(x) is sin(pi x) / (pi x).
        ratio = np.sinc(2.0 * np.sqrt(s) / period)
        return -2.0 * (np.pi / (period * length_scale)) ** 2 * K * ratio

    def extra_gradient(self, s, K, extra, adjoint):
        length_scale, period = np.exp(extra)
        phase = np.pi * np.sqrt(s) / period
        weighted = adjoint * K / length_scale**2
        by_length_scale = 4.0 * np.vdot(weighted, np.sin(phase) ** 2)
        by_period = 2.0 * np.vdot(weighted, phase * np.sin(2.0 * phase))
        return (by_length_scale, by_period)


class DotProduct:
    r"""Linear, :math:`\sigma_0^2 + z^\top x`; the parameter is log sigma_0."""

    n_params = 1
    n_arrays = 0
    is_local = False

    def evaluate(self, params, Z, X):
        offset = np.exp(2.0 * params[0])
        K = Z @ X.T
        K += offset

        def pullback(adjoint, wrt_Z=False):
            gradient = np.array([2.0 * offset * adjoint.sum()])
            return gradient, adjoint @ X if wrt_Z else None

        return K, pullback

    def diag(self, params, X):
        return np.einsum("nd,nd->n", X, X) + np.exp(2.0 * params[0])

    def diag_pullback(self, params, X, adjoint):
        return np.array([2.0 * np.exp(2.0 * params[0]) * adjoint.sum()])
