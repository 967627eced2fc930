r"""Covariance functions: values, and contractions of an adjoint with their derivatives.

Kernels are the nodes of an expression tree. The parameters of a node are one flat vector of
logarithms; a sum or product has the parameters of its left child, then those of its right child.

``evaluate(params, Z, X)`` returns the (M, N) matrix K of :math:`k(z_i, x_n)` and a function
``pullback(adjoint, wrt_Z)``. The adjoint holds the derivatives of a scalar F w.r.t. the entries of
K; the pullback returns ``(dF/dparams, dF/dZ)``, the second None unless `wrt_Z` is true. No array is
larger than (M, N) or (N, D). ``diag(params, X)`` returns :math:`k(x_n, x_n)`, and
``diag_pullback(params, X, adjoint)`` its contraction w.r.t. the parameters. ``n_arrays`` is the
number of (M, N) arrays that a pullback keeps in memory.
"""

import numpy as np

from sparsegpc._core.numerics.floats import TINY
from sparsegpc._core.rows.blocks import strips

# The expansion |z|^2 - 2 z x + |x|^2 is accurate enough below the squared norm FAR_SQUARED; beyond
# it, for distances above the fraction LOST_DIGITS of the squared norms.
FAR_SQUARED, LOST_DIGITS = 1e4, 1e-4


class Constant:
    """The constant covariance c; the parameter is log c."""

    n_params = 1
    n_arrays = 0

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


def _near_pairs(s, zz, xx, far_squared):
    """Return the pairs whose squared distances `s` have lost digits to cancellation, or None.

    `zz` and `xx` are the squared norms of the two sets of rows. If they are below `far_squared`,
    the expansion into norms and products is accurate enough.
    """
    largest = zz.max(initial=0.0) + xx.max(initial=0.0)
    if largest < far_squared:
        return None
    # Comparing all pairs with the largest norms first leaves few candidates.
    candidates = np.flatnonzero(s < LOST_DIGITS * largest)
    rows, columns = np.divmod(candidates, len(xx))
    lost = s[rows, columns] < LOST_DIGITS * (zz[rows] + xx[columns])
    return (rows[lost], columns[lost]) if lost.any() else None


def _all_squared_distances(Z, X):
    """Return the squared distances (M, N) of all pairs of rows, computed from the differences."""
    return sum(np.subtract.outer(z, x) ** 2 for z, x in zip(Z.T, X.T, strict=True))


def _squared_distances(Z, X, pairs):
    """Return the squared distances of pairs of rows, computed from the differences."""
    return sum((z[pairs[0]] - x[pairs[1]]) ** 2 for z, x in zip(Z.T, X.T, strict=True))


class Stationary:
    r"""A kernel :math:`\kappa(\Delta)` of the squared distance in units of the length scales.

    The distance is :math:`\Delta_{in} = \sum_d (z_{id} - x_{nd})^2 / \ell_d^2`, ``s`` in the code.
    The last parameters are the logarithms of one length scale, or of one for each column; a
    subclass can have `n_extra` others before them. A subclass defines :math:`\kappa` and
    :math:`\kappa' = d\kappa/d\Delta`, from which the derivatives w.r.t. length scales and points
    follow.

    Parameters
    ----------
    n_length_scales : int
        Either 1, for all columns, or D.
    """

    n_extra = 0

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
    # Distances can lose digits only between rows far from the centre in units of the length scales,
    # for example rows with a sentinel value in an unscaled column.
    far_squared = FAR_SQUARED
    # Whether the kernel varies over distances that are tiny beside those of the rows.
    by_differences = False

    @property
    def n_arrays(self):
        return 1 + self.keeps_distances

    def _length_scales(self, params):
        return np.exp(params[self.n_extra :])

    def evaluate(self, params, Z, X, scale=1.0):
        """Return `scale` times the kernel, and the pullback of its adjoint."""
        length_scale, extra = self._length_scales(params), params[: self.n_extra]
        # Without a centre the digits of distances would cancel in columns with a large offset. The
        # median is robust to far points, and that of Z is the same for every block of rows.
        centre = np.partition(Z, len(Z) // 2, axis=0)[len(Z) // 2]
        Zs = (Z - centre) / length_scale
        # The squared distances as one product: -2 z x + |z|^2 1 + 1 |x|^2. Rows of the factors are
        # contiguous, since a copy of a transpose would take as long as the product.
        right = np.empty((len(X), X.shape[1] + 2))
        Xs = right[:, :-2]
        np.subtract(X, centre, out=Xs)
        Xs /= length_scale
        zz, xx = np.einsum("md,md->m", Zs, Zs), np.einsum("nd,nd->n", Xs, Xs)
        left = np.column_stack([-2.0 * Zs, zz, np.ones(len(Z))])
        right[:, -2], right[:, -1] = 1.0, xx
        K = np.empty((len(Z), len(X)))
        distances = np.empty(K.shape) if self.keeps_distances else None
        parts = strips(*K.shape)
        near = []
        for part in parts:
            s, pairs = (K if distances is None else distances)[part], None
            if self.by_differences:
                s[:] = _all_squared_distances(Zs[part], Xs)
            else:
                np.matmul(left[part], right.T, out=s)
                np.maximum(s, 0.0, out=s)
                pairs = _near_pairs(s, zz[part], xx, self.far_squared)
            near.append(pairs)
            if pairs is not None:
                s[pairs] = _squared_distances(Zs[part], Xs, pairs)
            if Z is X:
                s[np.arange(len(s)), np.arange(part.start, part.start + len(s))] = 0.0
            np.multiply(self.radial(s, extra), scale, out=K[part])

        # The pullback keeps the scaled copy of the rows, not the rows themselves.
        def pullback(adjoint, wrt_Z=False):
            by_column, WX = np.zeros(len(Xs)), np.empty((len(Z), Z.shape[1] + 1))
            per_column, half_grad_Z = np.zeros(Z.shape[1]), np.zeros(Z.shape)
            extra_part = np.zeros(self.n_extra)
            for part, pairs in zip(parts, near, strict=True):
                s = distances[part] if self.keeps_distances else None
                W = self.radial_derivative(s, K[part], extra)
                W *= adjoint[part]
                if pairs is not None:
                    near_W, W[pairs] = W[pairs], 0.0
                    for d in range(Z.shape[1]):
                        difference = Zs[part, d][pairs[0]] - Xs[pairs[1], d]
                        weighted = near_W * difference
                        per_column[d] += weighted @ difference
                        half_grad_Z[part, d] += np.bincount(pairs[0], weighted, minlength=len(W))
                by_column += np.ones(len(W)) @ W
                np.matmul(W, right[:, :-1], out=WX[part])
                extra_part += self.extra_gradient(s, K[part], extra, adjoint[part])
            WX, by_row = WX[:, :-1], WX[:, -1]
            per_column += by_row @ Zs**2 + by_column @ Xs**2
            per_column -= 2.0 * np.einsum("md,md->d", Zs, WX)
            half_grad_Z += by_row[:, None] * Zs - WX
            gradient = -2.0 * per_column
            if self.n_length_scales < Z.shape[1]:
                gradient = gradient.sum(keepdims=True)[: self.n_length_scales]
            grad_Z = 2.0 * half_grad_Z / length_scale if wrt_Z else None
            return np.concatenate([extra_part, gradient]), grad_Z

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
    by_differences = True

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
