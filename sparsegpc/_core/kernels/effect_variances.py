r"""Variances of orthogonal effects of single columns, of pairs, and of sets of each size.

The posterior mean of a function with the covariance of `orthogonal_additive` is a sum of effects of
sets u of columns, :math:`f_u(x) = s_{|u|} \sum_i \alpha_i \prod_{d \in u} \tilde k_d(z_{id}, x_d)`.
If the columns are independent and have the densities of the kernel, effects have mean zero and
are not correlated, and

.. math::
    \mathrm{Var}[f_u] = s_{|u|}^2\, \alpha^\top \Bigl(\bigodot_{d \in u} I_d\Bigr) \alpha, \qquad
    I_d(z, z') = \int \tilde k_d(z, x)\, \tilde k_d(z', x)\, N(x; 0, 1)\, dx
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.kernels.orthogonal_additive import symmetric_sums
from sparsegpc._core.rows.blocks import strips

# Elements of the array with a matrix for each column.
STRIP_ELEMENTS = 2**20


class EffectVariances(NamedTuple):
    """Variances of the effects of columns (D,), of pairs (D, D), and of all sets of each size (q,).

    ``pairs`` is symmetric; its diagonal has no meaning.
    """

    columns: np.ndarray
    pairs: np.ndarray
    orders: np.ndarray


def effect_variances(Z, weights, length_scales, variances):
    r"""Return the `EffectVariances` of the function with given weights :math:`\alpha`, (M,).

    The points (M, D) and the length scales (D,) are in units in which the density of each column is
    N(0, 1); `variances` has the shape (q,). Cost M^2 D^2; memory M D and `STRIP_ELEMENTS`.
    """
    D, order = Z.shape[1], len(variances)
    columns, pairs, orders = np.zeros(D), np.zeros((D, D)), np.zeros(order)
    for part in strips(len(Z), len(Z) * D, STRIP_ELEMENTS):
        products = np.stack(
            [
                mean_product(z[part, None], z, scale)
                for z, scale in zip(Z.T, length_scales, strict=True)
            ]
        )
        outer = np.multiply.outer(weights[part], weights)
        orders += [np.vdot(outer, total) for total in symmetric_sums(products, order, outer.shape)]
        flat = products.reshape(D, -1)
        weighted = flat * outer.ravel()
        columns += weighted.sum(axis=1)
        pairs += weighted @ flat.T
    scale = np.append(variances, np.zeros(2)) ** 2
    # Rounding can make variances negative that are zero.
    parts = (scale[0] * columns, scale[1] * pairs, scale[:order] * orders)
    return EffectVariances(*(np.maximum(part, 0.0) for part in parts))


def mean_product(z, other, length_scale):
    r"""Return :math:`I(z, z')` for arrays that broadcast.

    The product of two differences of Gaussians has four terms. A long length scale makes them
    nearly equal, so it is computed from the logarithms of three ratios of terms.
    """
    b = length_scale**2
    a, q, f = b + 1.0, b * b + 3.0 * b + 1.0, b * (b + 2.0)
    zz, oo, zo = z * z, other * other, z * other
    log_first = 0.5 * np.log(b / (b + 2.0)) - (z - other) ** 2 / (4.0 * b)
    log_first -= (z + other) ** 2 / (4.0 * (b + 2.0))
    # Log ratios to the first term: those of the product with the removed part of one factor, of
    # the other, and of both.
    constant, both = 0.5 * np.log1p(-1.0 / (a * q)), 0.5 * np.log1p(-(2 * b + 3) / (a**3 * (b + 3)))
    one = constant + (zz / (2.0 * q) + oo / (2.0 * a) - zo) / f
    two = constant + (oo / (2.0 * q) + zz / (2.0 * a) - zo) / f
    three = both + ((zz + oo) / (2.0 * a) - zo) / f
    excess = both - 2.0 * constant + (zo - (zz + oo) / (2.0 * q)) / f
    largest = np.maximum(np.maximum(np.abs(one), np.abs(two)), np.abs(three))
    one_near, two_near = np.clip(one, -1.0, 1.0), np.clip(two, -1.0, 1.0)
    near = np.expm1(one_near) * np.expm1(two_near)
    near += np.exp(one_near + two_near) * np.expm1(np.clip(excess, -3.0, 3.0))
    first = np.exp(log_first)
    far = first - np.exp(log_first + one) - np.exp(log_first + two) + np.exp(log_first + three)
    return np.where(largest < 1.0, first * near, far)
