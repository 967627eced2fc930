r"""The density of each target given the others, for an exact Gaussian process with Gaussian sites.

Let a row have a site of precision :math:`p_n` with its maximum at :math:`t_n`, and let
:math:`B = I + P^{1/2} K P^{1/2}`, :math:`S = B^{-1}` and
:math:`\beta = S P^{1/2} (t - \mu)`. The other rows predict f at row n as a normal distribution with

.. math::
    t_n - E[f_n] = \frac{\beta_n}{p_n^{1/2} S_{nn}}, \qquad
    \mathrm{Var}[f_n] + \frac{1}{p_n} = \frac{1}{p_n S_{nn}},

so a site of height one has the log mean :math:`\frac12 \log S_{nn} - \frac12 \beta_n^2 / S_{nn}`
under it (Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, section 5.4.2).
"""

import numpy as np

from sparsegpc._core.numerics.linalg import cholesky_of_identity_plus, inverse_from_cholesky


def left_out_density(K, precision, deviation):
    """Return the log mean of each site given the others, for sites of height one, and a derivative.

    `K` (n, n) is the kernel matrix of the rows, `precision` (n,) that of the sites, and `deviation`
    (n,) the difference of their maxima from the prior mean. The densities (n,) are in nats. The
    derivative (n, n) is that of their sum w.r.t. B, the identity plus K multiplied by the roots of
    the precisions on both sides. Raises `LinAlgError` if B cannot be factored. Cost O(n^3).
    """
    root = np.sqrt(precision)
    S = inverse_from_cholesky(cholesky_of_identity_plus(K * root[:, None] * root))
    beta, s = S @ (root * deviation), S.diagonal().copy()
    by_s = 0.5 / s + 0.5 * (beta / s) ** 2
    by_beta = np.outer(S @ (-beta / s), beta)
    adjoint = -(S * by_s) @ S - 0.5 * (by_beta + by_beta.T)
    return 0.5 * np.log(s) - 0.5 * beta**2 / s, adjoint
