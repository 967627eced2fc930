r"""The covariance of a sum of effects of columns and of sets of columns, orthogonal to each other.

.. math::
    k(z, x) = \sum_{o=1}^q s_o \sum_{|u| = o}\, \prod_{d \in u} \tilde k_d(z_d, x_d)

Let g be a function of one column with a squared exponential covariance. The covariance of g given
that its mean under a normal density of the column is zero is, in units in which the density is
N(0, 1),

.. math::
    \tilde k(z, x) = e^{-(z - x)^2 / 2\ell^2} - c\, e^{-(z^2 + x^2) / 2a}, \qquad
    a = \ell^2 + 1, \quad c = \ell \sqrt{\ell^2 + 2} / a

The sums over sets of columns are elementary symmetric polynomials of the D covariances. The node
follows the protocol of `families`; a pullback computes the D covariances again, twice.
"""

import numpy as np

from sparsegpc._core.rows.blocks import strips

# Elements of the arrays of an elementwise step, of which about ten are in use at once.
STRIP_ELEMENTS = 2**15


class OrthogonalAdditive:
    """Sums of products of constrained covariances, with a variance for each number of factors.

    The parameters are the logarithms of the length scales, then those of the variances of sets of
    1, 2, ..., `order` columns. `n_length_scales` is 1, common to all columns, or D; `mean` and
    `deviation` are those of the density of each column.
    """

    n_arrays = 0
    is_local = True

    def __init__(self, n_length_scales=1, order=2, mean=0.0, deviation=1.0):
        self.n_length_scales, self.order = n_length_scales, order
        self.mean, self.deviation = mean, deviation
        self.n_params = n_length_scales + order

    def in_deviations(self, params, Z):
        """Return points and length scales, (D,), in units in which the densities are N(0, 1)."""
        length_scales = np.exp(params[: self.n_length_scales]) / self.deviation
        return (Z - self.mean) / self.deviation, np.broadcast_to(length_scales, Z.shape[1])

    def _variances(self, params):
        return np.exp(params[self.n_length_scales :])

    def _columns(self, params, Z, X):
        Zs, length_scales = self.in_deviations(params, Z)
        Xs, _ = self.in_deviations(params, X)
        return [_Column(*parts) for parts in zip(Zs.T, Xs.T, length_scales, strict=True)]

    def evaluate(self, params, Z, X):
        variances, parts = self._variances(params), strips(len(Z), len(X), STRIP_ELEMENTS)
        columns, K = self._columns(params, Z, X), np.empty((len(Z), len(X)))
        for part in parts:
            combine(variances, _strip_sums(columns, self.order, K[part], part), K[part])

        def pullback(adjoint, wrt_Z=False):
            columns, by_variance = self._columns(params, Z, X), np.zeros(self.order)
            by_length_scale, grad_Z = np.zeros(Z.shape[1]), np.zeros(Z.shape)
            for part in parts:
                sums = _strip_sums(columns, self.order, adjoint[part], part)
                by_variance += [np.vdot(adjoint[part], total) for total in sums]
                work = np.empty((6, *adjoint[part].shape))
                for d, column in enumerate(columns):
                    contracted = column.contract(part, adjoint[part], variances, sums, work, wrt_Z)
                    by_length_scale[d] += contracted[0]
                    if wrt_Z:
                        grad_Z[part, d] = contracted[1]
            gradient = self._gradient(by_length_scale, variances * by_variance)
            return gradient, grad_Z / self.deviation if wrt_Z else None

        return K, pullback

    def diag(self, params, X):
        values = (value for value, _ in self._diagonals(params, X))
        sums = symmetric_sums(values, self.order, (len(X),))
        return combine(self._variances(params), sums, np.empty(len(X)))

    def diag_pullback(self, params, X, adjoint):
        variances, work = self._variances(params), np.empty((2, len(X)))
        values = (value for value, _ in self._diagonals(params, X))
        sums = symmetric_sums(values, self.order, (len(X),))
        by_length_scale = [
            np.vdot(slope(variances, sums, value, *work) * adjoint, by_length)
            for value, by_length in self._diagonals(params, X)
        ]
        by_variance = variances * [np.vdot(adjoint, total) for total in sums]
        return self._gradient(np.array(by_length_scale), by_variance)

    def _diagonals(self, params, X):
        """Yield for each column its variance in the rows and the derivative of that, (N,) each."""
        Xs, length_scales = self.in_deviations(params, X)
        for x, length_scale in zip(Xs.T, length_scales, strict=True):
            b, a = length_scale**2, length_scale**2 + 1.0
            log_removed = _log_constant(length_scale) - x * (x / a)
            by_log = 2.0 / (a * (b + 2.0)) + 2.0 * x * (x / a) * (b / a)
            yield -np.expm1(log_removed), -np.exp(log_removed) * by_log

    def _gradient(self, by_length_scale, by_variance):
        if self.n_length_scales == 1:
            by_length_scale = by_length_scale.sum(keepdims=True)
        return np.concatenate([by_length_scale, by_variance])


class _Column:
    """The covariance of functions of one column that have mean zero under N(0, 1).

    It is ``E - left * right``, where ``E`` is the squared exponential of z, (M,), and x, (N,).
    """

    def __init__(self, z, x, length_scale):
        self.b, self.a = length_scale**2, length_scale**2 + 1.0
        self.unit = np.sqrt(2.0) * length_scale
        self.z, self.scaled_z, self.scaled_x = z, z / self.unit, x / self.unit
        self.left = np.exp(_log_constant(length_scale) - 0.5 * z * (z / self.a))
        self.right = np.exp(-0.5 * x * (x / self.a))
        self.right_moments = np.stack([self.right, self.right * x * x], axis=1)

    def value(self, part, out, work):
        """Return the covariances of a slice of the points with the rows, in `out` (m, N)."""
        np.subtract(self.scaled_z[part, None], self.scaled_x, out=work)
        np.multiply(work, work, out=work)
        np.exp(np.negative(work, out=out), out=out)
        np.multiply(self.left[part, None], self.right, out=work)
        return np.subtract(out, work, out=out)

    def contract(self, part, adjoint, variances, sums, work, wrt_z):
        """Return contractions of an adjoint of K with the derivatives in which this column is.

        The first is that w.r.t. the log length scale, the second that w.r.t. z, (m,), or None.
        """
        T, S, E, value, W, spare = work
        np.subtract(self.scaled_z[part, None], self.scaled_x, out=T)
        np.multiply(T, T, out=S)
        np.exp(np.negative(S, out=E), out=E)
        np.multiply(self.left[part, None], self.right, out=value)
        np.subtract(E, value, out=value)
        slope(variances, sums, value, W, spare)
        W *= adjoint
        E *= W
        z, left, moments = self.z[part], self.left[part], W @ self.right_moments
        flat = (2.0 / (self.b + 2.0) + z * z * (self.b / self.a)) * moments[:, 0]
        removed = left @ (flat + self.b / self.a * moments[:, 1]) / self.a
        by_length_scale = 2.0 * np.vdot(E, S) - removed
        if not wrt_z:
            return by_length_scale, None
        by_z = left * (z / self.a) * moments[:, 0]
        return by_length_scale, by_z - 2.0 / self.unit * np.einsum("mn,mn->m", E, T)


def _log_constant(length_scale):
    r"""Return :math:`\log c`, accurate for long length scales, where c is near 1."""
    b = length_scale**2
    if b < 1.0:
        return np.log(length_scale) + 0.5 * np.log(b + 2.0) - np.log1p(b)
    return 0.5 * np.log1p(-((1.0 / (b + 1.0)) ** 2))


def _strip_sums(columns, order, like, part):
    """Return the symmetric sums of a slice of the points and all rows."""
    out, work = np.empty(like.shape), np.empty(like.shape)
    return symmetric_sums((c.value(part, out, work) for c in columns), order, like.shape)


def symmetric_sums(values, order, shape):
    """Return the elementary symmetric polynomials of arrays, those of degree 1, ..., `order`."""
    sums, work = [np.zeros(shape) for _ in range(order)], np.empty(shape)
    for value in values:
        for o in range(order - 1, 0, -1):
            sums[o] += np.multiply(value, sums[o - 1], out=work)
        sums[0] += value
    return sums


def combine(variances, sums, out):
    """Return the sum of the products of both, in `out`."""
    np.multiply(sums[0], variances[0], out=out)
    for variance, total in zip(variances[1:], sums[1:], strict=True):
        out += variance * total
    return out


def slope(variances, sums, value, out, rest):
    """Return the derivative of the combined sums w.r.t. one of the arrays, in `out`.

    It is the combination of the symmetric sums of all other arrays, which follow from those of all:
    the degree o without the array is that with it, minus the array times the degree o - 1 without.
    """
    out.fill(variances[0])
    rest.fill(1.0)
    for variance, total in zip(variances[1:], sums[:-1], strict=True):
        np.subtract(total, np.multiply(value, rest, out=rest), out=rest)
        out += variance * rest
    return out
