r"""Upper bounds on the log marginal likelihood of sites, each named by what it costs.

The bound of `collapsed` is a lower bound on the log marginal likelihood of the sites. With an upper
bound U, :math:`\mathrm{KL}(q \,\|\, \mathrm{exact}) \le U - \mathrm{bound}(q)`.
In the frame where f has mean zero a site with precision p and shift b is an observation
:math:`\tilde y = b / p - \mu` with noise variance :math:`1 / p`. Let :math:`Q = V^\top V`,
:math:`\tilde K = K - Q`, :math:`P = \mathrm{diag}(p)`, and

.. math::
    \alpha = (Q + P^{-1})^{-1} \tilde y = b - p \mu - p \, V^\top w, \qquad
    \eta = \tilde y^\top \alpha.

With :math:`\mathcal{L}_0` the lower bound without its slack, and *quad* at most
:math:`\tilde y^\top (K + P^{-1})^{-1} \tilde y`, an upper bound is
:math:`U = \mathcal{L}_0 + \tfrac12 (\eta - \mathrm{quad})`. The choices of quad are

================== ================================================================= ==============
trace              :math:`\tilde y^\top (Q + P^{-1} + \mathrm{tr}(\tilde K) I)^{-1}   Passerello
                   \tilde y`                                                         2021, eq. 3.4
one-pass           :math:`\eta^2 / (\eta + \beta)`, where :math:`\beta = \alpha^\top
                   \tilde K \alpha`: the best multiple of alpha in the next line
conjugate-gradient :math:`2 \xi^\top \tilde y - \xi^\top (K + P^{-1}) \xi`, which     Artemev 2021
                   rises with each iteration
cauchy-schwarz     one-pass with :math:`\beta = (\sum_n |\alpha_n| \sqrt{r_n})^2`
================== ================================================================= ==============

In exact arithmetic conjugate-gradient <= one-pass <= cauchy-schwarz. The code computes
:math:`\eta - \mathrm{quad} \ge 0` itself, as sums of non-negative terms wherever that is possible,
and without dividing by a precision that may be zero.

For Polya-Gamma sites the exact posterior is the dense one of the *same sites*: a certificate says
what the inducing points cost, not what the augmentation does.

References
----------
Passerello 2021; Artemev, Burt, van der Wilk 2021.
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.bounds.slacks import STANDARD, TIGHT
from sparsegpc._core.numerics.linalg import (
    cholesky,
    mirrored,
    solve_cholesky,
    solve_lower,
    weighted_gram,
)

# The upper bounds, and what each costs beyond the features and q(u).
UPPER_BOUNDS = {
    "trace": "one more Gram matrix, O(N M^2)",
    "cauchy-schwarz": "O(N M)",
    "one-pass": "one pass over the kernel matrix, O(N^2 D)",
    "conjugate-gradient": "one pass over the kernel matrix per iteration, O(N^2 D) each",
}


class UpperBounds(NamedTuple):
    """Upper bounds on the log marginal likelihood of one output's sites, in nats.

    ``upper`` maps the names of the methods to their bounds. ``improved_lower`` is the best lower
    bound known: that of the fit, or that from the vector of one pass or of conjugate gradients.
    """

    upper: dict
    improved_lower: float


def upper_bounds(features, outputs, slack, methods, *, cg_tol=1e-2, cg_max_iter=50):
    """Return upper bounds on the log marginal likelihood of the sites of each output.

    Parameters
    ----------
    features : RowFeatures
    outputs : list of (Sites, FunctionPosterior)
        Arguments and results of `collapse`. Outputs share the first pass over the kernel matrix.
    slack : Slack
        That of the posteriors' bounds.
    methods : collection of str
        Keys of `UPPER_BOUNDS`.
    cg_tol : float
        Conjugate gradients stop when more iterations can lower the bound by at most this, nats.
    cg_max_iter : int
        Most iterations; at 0 the bound is that of one pass.

    Returns
    -------
    list of UpperBounds

    Notes
    -----
    Cost: see `UPPER_BOUNDS`. Memory O(N) for each output, and a tile of the kernel matrix.
    """
    duals = [_dual(features, sites, posterior) for sites, posterior in outputs]
    products = [None] * len(outputs)
    if "one-pass" in methods or "conjugate-gradient" in methods:
        products = features.kernel_product(np.stack([dual.alpha for dual in duals], axis=1)).T
    max_iter = cg_max_iter if "conjugate-gradient" in methods else 0
    return [
        _output_bounds(features, *output, slack, methods, dual, product, cg_tol, max_iter)
        for output, dual, product in zip(outputs, duals, products, strict=True)
    ]


def standard_bound(features, sites, posterior, slack):
    """Return the bound with the standard slack at the same sites, in nats. Cost N.

    It is the bound of the predictive posterior, whose q(f|u) is the prior's p(f|u).
    """
    cost = sites.precision * features.residual
    paid = slack.value(slack.row_term(cost).sum(), features.n_rows)
    return float(posterior.bound - paid + STANDARD.value(cost.sum(), features.n_rows))


def _output_bounds(features, sites, posterior, slack, methods, dual, K_alpha, cg_tol, cg_max_iter):
    """Return the `UpperBounds` of one output, given K alpha if `methods` need it."""
    cost, n_rows = sites.precision * features.residual, features.n_rows
    base = posterior.bound - slack.value(float(slack.row_term(cost).sum()), n_rows)
    excess = {"cauchy-schwarz": _best_multiple(dual, dual.crude)[0]}
    if "trace" in methods:
        excess["trace"] = _trace_excess(features, sites, posterior, dual.alpha)
    improved_lower = posterior.bound
    if K_alpha is not None:
        missed = K_alpha - _at_rows(features, dual.V_alpha)
        # Between zero and the bound of Cauchy-Schwarz, but for rounding.
        beta = min(max(float(dual.alpha @ missed), 0.0), dual.crude)
        excess["one-pass"], multiple, rest = _best_multiple(dual, beta)
        root = np.sqrt(sites.precision)
        # sqrt(p) (ytilde - (K + 1/p) x) at x = multiple * alpha. A row without precision either
        # says nothing, or makes `rest` zero.
        pseudo = np.divide(dual.target, root, out=np.zeros_like(root), where=root > 0.0)
        start = rest * pseudo - multiple * (root * missed)
        rise, left = _conjugate_gradients(features, root, posterior.LB, start, cg_tol, cg_max_iter)
        excess["conjugate-gradient"] = max(excess["one-pass"] - rise, 0.0)
        # Artemev 2021: the same vector, with log|K + 1/p| bounded as in the tight slack.
        lower = base + 0.5 * (excess["conjugate-gradient"] - left)
        lower += TIGHT.value(float(TIGHT.row_term(cost).sum()), n_rows)
        improved_lower = max(improved_lower, lower)
    return UpperBounds({name: base + 0.5 * excess[name] for name in methods}, improved_lower)


class _Dual(NamedTuple):
    """alpha = (Q + 1/p)^-1 ytilde and what follows from it.

    ``target`` and ``alpha`` (N,) are b - p mu and alpha, ``V_alpha`` (M,) is V alpha, ``noise`` is
    sum alpha^2 / p, infinite if a site has a shift but no precision, and ``crude`` is the bound of
    Cauchy-Schwarz on alpha^T (K - Q) alpha.
    """

    target: np.ndarray
    alpha: np.ndarray
    V_alpha: np.ndarray
    noise: float
    crude: float

    @property
    def eta(self):
        """ytilde^T alpha, as the sum of the squares that it consists of."""
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
        crude = np.abs(alpha) @ np.sqrt(residual)
        return (V @ alpha, float(noise.sum()), float(crude)), (target, alpha)

    (V_alpha, noise, crude), (target, alpha) = features.visit(
        block, features.residual, sites.precision, sites.shift
    )
    return _Dual(target, alpha, V_alpha, noise, crude**2)


def _at_rows(features, coefficients):
    """Return V^T coefficients, shape (N,). Cost N M."""
    return features.rows(lambda V: (coefficients @ V,))[0]


def _best_multiple(dual, beta):
    """Return eta - eta^2 / (eta + beta), the best multiple s of alpha, and 1 - s."""
    ratio = beta / dual.eta if beta > 0.0 else 0.0
    return beta / (1.0 + ratio), 1.0 / (1.0 + ratio), ratio / (1.0 + ratio)


def _trace_excess(features, sites, posterior, alpha):
    """Return eta - quad of "trace", with the trace over the rows that have an effect. Cost N M^2.

    By the resolvent identity it is tr(K - Q) alpha^T alpha', alpha' that of the larger noise.
    """
    target = sites.shift - sites.precision * posterior.prior_mean
    effective = (sites.precision > 0.0) | (target != 0.0)
    trace = float(features.residual[effective].sum())

    def sums(V, p, target, alpha):
        shrunk = 1.0 / (1.0 + trace * p)
        p, b = shrunk * p, shrunk * target
        # With the trace, since alpha can be as large as p, and their product too large.
        return weighted_gram(V, p), V @ b, V @ (trace * p * alpha), float(alpha @ b)

    B, Vb, Vp_alpha, alpha_b = features.sum(sums, sites.precision, target, alpha)
    B = mirrored(B)
    B.flat[:: len(B) + 1] += 1.0
    excess = trace * alpha_b - float(Vp_alpha @ solve_cholesky(cholesky(B), Vb))
    return max(excess, 0.0)


def _conjugate_gradients(features, root, LB, left_over, tol, max_iter):
    """Raise quad by conjugate gradients on K + 1/p, preconditioned by Q + 1/p.

    In coordinates sqrt(p) xi, in which the noise has unit variance and a row without precision has
    no part: nothing is divided by p. `root` is sqrt(p), `left_over` (N,) the residual of the linear
    system at the start. Returns by how much quad rose, and left_over^T (Q + 1/p)^-1 left_over at
    the end, which bounds by how much it can rise still.
    """
    preconditioned, left = _precondition(features, root, LB, left_over)
    direction, rise = preconditioned, 0.0
    for _ in range(max_iter):
        if 0.5 * left <= tol:
            break
        K_direction = features.kernel_product((root * direction)[:, None])[:, 0]
        image = direction + root * K_direction
        step = left / float(direction @ image)
        rise += step * left
        left_over = left_over - step * image
        before = left
        preconditioned, left = _precondition(features, root, LB, left_over)
        direction = preconditioned + (left / before) * direction
    return rise, left


def _precondition(features, root, LB, vector):
    """Return (I + sqrt(p) Q sqrt(p))^-1 vector and its product with the vector. Cost 2 N M."""
    (projected,) = features.sum(lambda V, x: (V @ x,), root * vector)
    half = solve_lower(LB, projected)
    value = vector - root * _at_rows(features, solve_lower(LB, half, transposed=True))
    # A difference of large numbers where little is left.
    return value, max(float(vector @ value), 0.0)
