r"""Covariance functions: values, and contractions of an adjoint with their derivatives.

Each kernel is a node of an expression tree. Parameters are logarithms, one flat vector per node:
a sum or product has those of its left child, then those of its right one.

``evaluate(params, Z, X)`` returns the (M, N) matrix K of :math:`k(z_m, x_n)` together with a
function ``pullback(adjoint, wrt_Z)`` that contracts the adjoint, the derivatives of a scalar F
w.r.t. the entries of K, into ``(dF/dparams, dF/dZ)``, the second None unless asked for. Nothing
larger than (M, N) or (N, D) is built. ``diag(params, X)`` and ``diag_pullback(params, X, adjoint)``
do the same for :math:`k(x_n, x_n)`, w.r.t. the parameters. ``n_arrays`` is how many (M, N) arrays
a pullback keeps alive.
"""

import numpy as np

from sparsegpc._core.rows.blocks import strips

TINY = np.finfo(np.float64).tiny
# Squared norms, in length scales, from which rounding matters, and what counts as lost.
FAR, LOST_DIGITS = 1e4, 1e-4


class Constant:
    """The covariance c everywhere; parameter log c."""

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


def _near_pairs(s, zz, xx, far):
    """Return the pairs whose squared distance s lost digits against their squared norms, or None.

    Where squared norms are below `far` the expansion into norms and products is accurate enough.
    """
    largest = zz.max(initial=0.0) + xx.max(initial=0.0)
    if largest < far:
        return None
    # By the largest norms first: one comparison for each pair, and few pairs are left.
    candidates = np.flatnonzero(s < LOST_DIGITS * largest)
    rows, columns = np.divmod(candidates, len(xx))
    lost = s[rows, columns] < LOST_DIGITS * (zz[rows] + xx[columns])
    return (rows[lost], columns[lost]) if lost.any() else None


def _squared_distances(Z, X, pairs):
    """Return the squared distances of these pairs of rows, from the differences."""
    return sum((z[pairs[0]] - x[pairs[1]]) ** 2 for z, x in zip(Z.T, X.T, strict=True))


class Stationary:
    r"""A kernel :math:`\kappa(s)` of the squared distance s, each column in its own units.

    With :math:`s_{mn} = \sum_d (z_{md} - x_{nd})^2 / \ell_d^2`. The last parameters are the
    logarithms of one length scale, or of one per column; a subclass may put `n_extra` others
    before them. It gives :math:`\kappa` and :math:`\kappa' = d\kappa/ds`, which is all that the
    derivatives w.r.t. length scales and points need.

    Parameters
    ----------
    n_length_scales : int
        One for all columns, or D.
    """

    n_extra = 0

    def __init__(self, n_length_scales=1):
        self.n_length_scales = n_length_scales
        self.n_params = n_length_scales + self.n_extra

    def radial(self, s, extra):
        """Return ``kappa(s)``; may overwrite `s` if `keeps_distances` is False."""
        raise NotImplementedError

    def radial_derivative(self, s, K, extra):
        """Return ``c d kappa / d s`` of ``K = c kappa``; `s` is None if not `keeps_distances`."""
        raise NotImplementedError

    def extra_gradient(self, s, K, extra, adjoint):
        """Return the gradient of ``K = c kappa`` w.r.t. the parameters before the length scales."""
        return ()

    keeps_distances = True
    # Only points far from the others, in length scales, have near ones whose distance is lost in
    # rounding: a sentinel value in an unscaled column, say.
    far = FAR

    @property
    def n_arrays(self):
        return 1 + self.keeps_distances

    def _length_scales(self, params):
        return np.exp(params[self.n_extra :])

    def evaluate(self, params, Z, X, scale=1.0):
        """Return `scale` times the kernel, and the pullback of its adjoint."""
        length_scale, extra = self._length_scales(params), params[: self.n_extra]
        # Columns with a large common offset would cost distances all their digits. The reference
        # is a median, which one far point cannot drag away, of the points, which do not depend
        # on the rows in this block.
        centre = np.partition(Z, len(Z) // 2, axis=0)[len(Z) // 2]
        Zs, Xs = (Z - centre) / length_scale, (X - centre) / length_scale
        zz, xx = np.einsum("md,md->m", Zs, Zs), np.einsum("nd,nd->n", Xs, Xs)
        # The squared distances as one product: -2 z x + |z|^2 1 + 1 |x|^2.
        left, right = np.ones((len(Z), Z.shape[1] + 2)), np.ones((X.shape[1] + 2, len(X)))
        left[:, :-2], left[:, -2] = -2.0 * Zs, zz
        right[:-2], right[-1] = Xs.T, xx
        K = np.empty((len(Z), len(X)))
        distances = np.empty(K.shape) if self.keeps_distances else None
        parts = strips(*K.shape)
        near = []
        for part in parts:
            s = np.matmul(left[part], right, out=(K if distances is None else distances)[part])
            np.maximum(s, 0.0, out=s)
            near.append(_near_pairs(s, zz[part], xx, self.far))
            if near[-1] is not None:
                s[near[-1]] = _squared_distances(Zs[part], Xs, near[-1])
            if Z is X:
                s[np.arange(len(s)), np.arange(part.start, part.start + len(s))] = 0.0
            np.multiply(self.radial(s, extra), scale, out=K[part])

        # It keeps one copy of the rows, in length scales, and not the rows themselves.
        def pullback(adjoint, wrt_Z=False):
            columns = np.column_stack([Xs, np.ones(len(Xs))])
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
                        pull = near_W * difference
                        per_column[d] += pull @ difference
                        half_grad_Z[part, d] += np.bincount(pairs[0], pull, minlength=len(W))
                by_column += np.ones(len(W)) @ W
                np.matmul(W, columns, out=WX[part])
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
    r"""Squared exponential, :math:`\exp(-s/2)`."""

    keeps_distances = False

    def radial(self, s, extra):
        s *= -0.5
        return np.exp(s, out=s)

    def radial_derivative(self, s, K, extra):
        return -0.5 * K


class Matern12(Stationary):
    r"""Matern with smoothness 1/2, :math:`\exp(-\sqrt s)`."""

    # The root would make errors of 1e-13 in s such of 3e-7.
    far = 0.0

    def radial(self, s, extra):
        return np.exp(-np.sqrt(s))

    def radial_derivative(self, s, K, extra):
        # At s = 0 the kernel has a kink; every product with a difference of points is zero there.
        return np.where(s > 0.0, -0.5 * K / np.sqrt(np.maximum(s, TINY)), 0.0)


class Matern32(Stationary):
    r"""Matern with smoothness 3/2, :math:`(1 + a) e^{-a}` with :math:`a = \sqrt{3s}`."""

    def radial(self, s, extra):
        a = np.sqrt(3.0 * s)
        return (1.0 + a) * np.exp(-a)

    def radial_derivative(self, s, K, extra):
        return -1.5 * K / (1.0 + np.sqrt(3.0 * s))


class Matern52(Stationary):
    r"""Matern with smoothness 5/2, :math:`(1 + a + a^2/3) e^{-a}` with :math:`a = \sqrt{5s}`."""

    def radial(self, s, extra):
        a = np.sqrt(5.0 * s)
        return (1.0 + a + a**2 / 3.0) * np.exp(-a)

    def radial_derivative(self, s, K, extra):
        a = np.sqrt(5.0 * s)
        return (-5.0 / 6.0) * K * (1.0 + a) / (1.0 + a + a**2 / 3.0)


class RationalQuadratic(Stationary):
    r""":math:`(1 + s / 2\alpha)^{-\alpha}`; the first parameter is log alpha."""

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
    r"""Periodic, :math:`\exp(-2 \sin^2(\pi \sqrt s / p) / \ell^2)`; parameters log l and log p.

    The distance is in the units of the columns: here the length scale is no unit of distance.
    """

    n_extra = 2

    def __init__(self):
        super().__init__(0)

    def _length_scales(self, params):
        return 1.0

    def radial(self, s, extra):
        length_scale, period = np.exp(extra)
        return np.exp(-2.0 * (np.sin(np.pi * np.sqrt(s) / period) / length_scale) ** 2)

    def radial_derivative(self, s, K, extra):
        length_scale, period = np.exp(extra)
        # sin(2x)/(2x) is smooth at zero distance; np.sinc(t) is sin(pi t)/(pi t).
        smooth = np.sinc(2.0 * np.sqrt(s) / period)
        return -2.0 * (np.pi / (period * length_scale)) ** 2 * K * smooth

    def extra_gradient(self, s, K, extra, adjoint):
        length_scale, period = np.exp(extra)
        phase = np.pi * np.sqrt(s) / period
        weighted = adjoint * K / length_scale**2
        by_length_scale = 4.0 * np.vdot(weighted, np.sin(phase) ** 2)
        by_period = 2.0 * np.vdot(weighted, phase * np.sin(2.0 * phase))
        return (by_length_scale, by_period)


class DotProduct:
    r"""Linear, :math:`\sigma_0^2 + z^\top x`; parameter log sigma_0."""

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
