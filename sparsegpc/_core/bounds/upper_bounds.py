r"""Upper bounds on the log marginal likelihood of sites.

`collapsed` gives a lower bound. With an upper bound U,
:math:`\mathrm{KL}(q \,\|\, \mathrm{exact}) \le U - \mathrm{bound}(q)`; see `certificates`.
A site of precision p and shift b is an observation :math:`\tilde y = b / p - \mu` of
:math:`f - \mu` with noise variance :math:`1 / p`. Let :math:`Q = V^\top V`,
:math:`\tilde K = K - Q`, :math:`P = \mathrm{diag}(p)`, and

.. math::
    \alpha = (Q + P^{-1})^{-1} \tilde y = b - p \mu - p \, V^\top w, \qquad
    \eta = \tilde y^\top \alpha.

With :math:`\mathcal{L}_0` the lower bound without its slack, *quad* at most
:math:`\tilde y^\top (K + P^{-1})^{-1} \tilde y`, and *det* at most
:math:`\log(|K + P^{-1}| / |Q + P^{-1}|) \ge 0`, an upper bound is
:math:`U = \mathcal{L}_0 + \tfrac12 (\eta - \mathrm{quad} - \mathrm{det})`. Each method has its
quad:

================== ================================================================= ==============
trace              :math:`\tilde y^\top (Q + P^{-1} + \mathrm{tr}(\tilde K) I)^{-1}   Passerello
                   \tilde y`                                                         2021, eq. 3.4
one-pass           :math:`\eta^2 / (\eta + \beta)`, where :math:`\beta = \alpha^\top
                   \tilde K \alpha`: the next row at the best multiple of alpha
two-moment         that of one-pass
conjugate-gradient :math:`2 \xi^\top \tilde y - \xi^\top (K + P^{-1}) \xi`, which     Artemev 2021
                   increases with each iteration
cauchy-schwarz     one-pass with :math:`\beta = (\sum_n |\alpha_n| \sqrt{r_n})^2`
================== ================================================================= ==============

The det of two-moment and conjugate-gradient is the lower bound in `log_determinants`; that of the
others is zero. In exact arithmetic U of conjugate-gradient is at most that of two-moment, which is
at most that of one-pass, which is at most that of cauchy-schwarz. To avoid cancellation the code
computes the excess :math:`\eta - \mathrm{quad} \ge 0`, wherever possible as a sum of non-negative
terms. It does not divide by precisions, which may be zero.

References
----------
Passerello 2021; Artemev, Burt, van der Wilk 2021.
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.bounds.kernel_passes import kernel_product, residual_pass
from sparsegpc._core.bounds.log_determinants import LogDetBounds, log_det_bounds
from sparsegpc._core.bounds.slacks import STANDARD, TIGHT
from sparsegpc._core.numerics.linalg import (
    cholesky,
    mirrored,
    solve_cholesky,
    solve_lower,
    weighted_gram,
)

# The methods, and the cost of each in addition to the features and q(u).
UPPER_BOUNDS = {
    "trace": "one more Gram matrix, O(N M^2)",
    "cauchy-schwarz": "O(N M)",
    "one-pass": "one pass over the kernel matrix, O(N^2 D)",
    "two-moment": "one pass over the kernel matrix with M columns, O(N^2 M)",
    "conjugate-gradient": "two-moment, and one more pass per iteration, O(N^2 D) each",
}
# The methods that bound the log determinant by the moments of `residual_pass`.
OF_MOMENTS = {"two-moment", "conjugate-gradient"}


class UpperBounds(NamedTuple):
    """Upper bounds on the log marginal likelihood of one output's sites, in nats.

    ``upper`` maps the names of the methods to their bounds. ``improved_lower`` is the highest lower
    bound: that of the fit, improved by the vector xi of "one-pass" or "conjugate-gradient"
    (Artemev 2021), and by the upper bound of `log_det_bounds`.
    """

    upper: dict
    improved_lower: float


def upper_bounds(features, outputs, slack, methods, *, cg_tol=1e-2, cg_max_iter=50):
    """Return the `UpperBounds` on the log marginal likelihood of the sites of each output.

    The outputs are pairs of `Sites` and the result of `collapse` with this slack; they share the
    first pass over the kernel matrix. `methods` are keys of `UPPER_BOUNDS`, where their costs are.
    Conjugate gradients stop when further iterations can lower the bound by at most `cg_tol` nats,
    or after `cg_max_iter` iterations; with 0 the bound is that of "one-pass". Memory: O(N) for each
    output, and what a pass needs for its tiles.
    """
    duals = [_dual(features, sites, posterior) for sites, posterior in outputs]
    alphas = np.stack([dual.alpha for dual in duals], axis=1)
    products = all_moments = [None] * len(outputs)
    if not OF_MOMENTS.isdisjoint(methods):
        products, all_moments = residual_pass(features, outputs, alphas)
        products = products.T
    elif "one-pass" in methods:
        products = kernel_product(features, alphas).T
        products -= _at_rows(features, np.stack([dual.V_alpha for dual in duals]))
    cg = {"tol": cg_tol, "max_iter": cg_max_iter if "conjugate-gradient" in methods else 0}
    return [
        _output_bounds(features, sites, posterior, slack, methods, dual, moments, product, **cg)
        for (sites, posterior), dual, moments, product in zip(
            outputs, duals, all_moments, products, strict=True
        )
    ]


def standard_bound(features, sites, posterior, slack):
    """Return the bound with the standard slack at the same sites, in nats. Cost N.

    It is the bound of p(f|u) q(u), which predictions use.
    """
    ratio = sites.precision * features.residual
    penalty = slack.value(slack.row_term(ratio).sum(), features.n_rows)
    return float(posterior.bound - penalty + STANDARD.value(ratio.sum(), features.n_rows))


def _output_bounds(features, sites, posterior, slack, methods, dual, moments, residual_alpha, **cg):
    """Return the `UpperBounds` of one output.

    `moments` and `residual_alpha`, the product of K - Q and alpha, are None if no method needs
    them. All bounds are computed as the bound of the fit plus a sum of non-negative terms.
    """
    ratio, n_rows = sites.precision * features.residual, features.n_rows
    tight_log_det = float(TIGHT.row_term(ratio).sum())
    # What the fit pays in place of log|I + E|; at least `tight_log_det`, but for rounding.
    paid = max(-2.0 * slack.value(float(slack.row_term(ratio).sum()), n_rows), tight_log_det)
    log_det = LogDetBounds(0.0, tight_log_det)
    excess = {"cauchy-schwarz": _best_multiple(dual, dual.beta_bound)[0]}
    if "trace" in methods:
        excess["trace"] = _trace_excess(features, sites, posterior, dual.alpha)
    improved_lower = posterior.bound
    if residual_alpha is not None:
        # Rounding can move beta out of the interval from zero to its bound.
        beta = min(max(float(dual.alpha @ residual_alpha), 0.0), dual.beta_bound)
        excess["one-pass"], multiple, rest = _best_multiple(dual, beta)
        excess["two-moment"] = excess["one-pass"]
        root = np.sqrt(sites.precision)
        # sqrt(p) (ytilde - (K + 1/p) xi) at xi = multiple * alpha. A row of precision zero has no
        # effect, or makes `rest` zero.
        pseudo = np.divide(dual.target, root, out=np.zeros_like(root), where=root > 0.0)
        start = rest * pseudo - multiple * (root * residual_alpha)
        increase, remaining = _conjugate_gradients(features, root, posterior.LB, start, **cg)
        excess["conjugate-gradient"] = max(excess["one-pass"] - increase, 0.0)
        if moments is not None:
            log_det = log_det_bounds(moments, tight_log_det)
        # Artemev 2021: the lower bound of the same xi; that of the multiple zero is `posterior`.
        gained = max(excess["conjugate-gradient"] - remaining, 0.0)
        improved_lower += 0.5 * (paid - log_det.high + gained)
    return UpperBounds(
        {
            name: posterior.bound
            + 0.5 * (excess[name] + (paid - (log_det.low if name in OF_MOMENTS else 0.0)))
            for name in methods
        },
        improved_lower,
    )


class _Dual(NamedTuple):
    """The vector alpha = (Q + 1/p)^-1 ytilde, and functions of it.

    ``target`` and ``alpha`` (N,) are b - p mu and alpha; ``V_alpha`` (M,) is V alpha; ``noise`` is
    sum alpha^2 / p, infinite if a site has a shift but precision zero; ``beta_bound`` is the bound
    of Cauchy and Schwarz on beta = alpha^T (K - Q) alpha.
    """

    target: np.ndarray
    alpha: np.ndarray
    V_alpha: np.ndarray
    noise: float
    beta_bound: float

    @property
    def eta(self):
        """ytilde^T alpha, computed as a sum of squares."""
        return float(self.V_alpha @ self.V_alpha) + self.noise


def _dual(features, sites, posterior):
    """Return the `_Dual` of an output. Cost 2 N M."""
    w, prior_mean = posterior.w, posterior.prior_mean

    def block(V, residual, p, shift):
        target = shift - p * prior_mean
        alpha = target - p * (w @ V)
        noise = np.where(alpha == 0.0, 0.0, np.inf)
        with np.errstate(over="ignore"):
            np.divide(alpha**2, p, out=noise, where=p > 0.0)
        root_bound = np.abs(alpha) @ np.sqrt(residual)
        return (V @ alpha, float(noise.sum()), float(root_bound)), (target, alpha)

    (V_alpha, noise, root_bound), (target, alpha) = features.visit(
        block, features.residual, sites.precision, sites.shift
    )
    return _Dual(target, alpha, V_alpha, noise, root_bound**2)


def _at_rows(features, coefficients):
    """Return V^T coefficients, shape (N,), or (k, N) for k vectors (k, M). Cost N M each."""
    return features.rows(lambda V: (coefficients @ V,))[0]


def _best_multiple(dual, beta):
    """Return eta - eta^2 / (eta + beta), the best multiple s of alpha, and 1 - s."""
    ratio = beta / dual.eta if beta > 0.0 else 0.0
    return beta / (1.0 + ratio), 1.0 / (1.0 + ratio), ratio / (1.0 + ratio)


def _trace_excess(features, sites, posterior, alpha):
    """Return eta - quad of "trace". Cost N M^2.

    By the resolvent identity it is t alpha^T alpha', where t = tr(K - Q) and alpha' is alpha with
    noise variances 1/p + t. The trace is over the rows whose sites are not constant.
    """
    target = sites.shift - sites.precision * posterior.prior_mean
    effective = (sites.precision > 0.0) | (target != 0.0)
    trace = float(features.residual[effective].sum())

    def sums(V, p, target, alpha):
        shrunk = 1.0 / (1.0 + trace * p)
        p, b = shrunk * p, shrunk * target
        # The product p * alpha could overflow; trace * p is at most one.
        return weighted_gram(V, p), V @ b, V @ (trace * p * alpha), float(alpha @ b)

    B, Vb, Vp_alpha, alpha_b = features.sum(sums, sites.precision, target, alpha)
    B = mirrored(B)
    B.flat[:: len(B) + 1] += 1.0
    excess = trace * alpha_b - float(Vp_alpha @ solve_cholesky(cholesky(B), Vb))
    return max(excess, 0.0)


def _conjugate_gradients(features, root, LB, cg_residual, *, tol, max_iter):
    """Increase quad by conjugate gradients on K + 1/p, preconditioned by Q + 1/p.

    To avoid dividing by p, the iteration solves for s in xi = sqrt(p) s, with noise variance one.
    `root` is sqrt(p) and `cg_residual` (N,) the residual of the linear system at the start. Returns
    the increase of quad, and cg_residual^T (I + sqrt(p) Q sqrt(p))^-1 cg_residual at the end, an
    upper bound on any further increase.
    """
    preconditioned, remaining = _precondition(features, root, LB, cg_residual)
    direction, increase = preconditioned, 0.0
    for _ in range(max_iter):
        if 0.5 * remaining <= tol:
            break
        K_direction = kernel_product(features, (root * direction)[:, None])[:, 0]
        image = direction + root * K_direction
        step = remaining / float(direction @ image)
        increase += step * remaining
        cg_residual = cg_residual - step * image
        previous = remaining
        preconditioned, remaining = _precondition(features, root, LB, cg_residual)
        direction = preconditioned + (remaining / previous) * direction
    return increase, remaining


def _precondition(features, root, LB, vector):
    """Return (I + sqrt(p) Q sqrt(p))^-1 vector and its product with the vector. Cost 2 N M."""
    (projected,) = features.sum(lambda V, x: (V @ x,), root * vector)
    half = solve_lower(LB, projected)
    value = vector - root * _at_rows(features, solve_lower(LB, half, transposed=True))
    # Rounding can make the product negative near convergence.
    return value, max(float(vector @ value), 0.0)
