r"""Upper bounds on the log marginal likelihood of sites, each named by what it costs.

The bound of `collapsed` is a lower bound on the log marginal likelihood of the sites. An upper
bound U closes the bracket, and
:math:`\mathrm{KL}(q \,\|\, \mathrm{exact}) \le U - \mathrm{bound}(q)`.
In the frame where f has mean zero a site with precision p and shift b is an observation
:math:`\tilde y = \tilde b / p` with noise :math:`\Lambda = 1 / p`, where
:math:`\tilde b = b - p \mu`. Let :math:`Q = V^\top V`, :math:`\tilde K = K - Q`, and

.. math::
    \alpha = (Q + \Lambda)^{-1} \tilde y = \tilde b - p \, V^\top w, \qquad
    a = \tilde y^\top \alpha.

With :math:`L_0` the lower bound without its slack, and *quad* at most
:math:`\tilde y^\top (K + \Lambda)^{-1} \tilde y`, an upper bound is
:math:`U = L_0 + \tfrac12 (a - \mathrm{quad})`. The choices are

================== ================================================================= ==============
trace              :math:`\tilde y^\top (Q + \Lambda + \mathrm{tr}(\tilde K) I)^{-1} Passerello
                   \tilde y`                                                         2021, eq. 3.4
whitened           :math:`\tilde y^\top (Q + (1 + t) \Lambda)^{-1} \tilde y`, where
                   :math:`t = \sum_n p_n r_n`
one-pass           :math:`a^2 / (a + b)`, where :math:`b = \alpha^\top \tilde K
                   \alpha`: the best multiple of alpha in the next line
conjugate-gradient :math:`2 x^\top \tilde y - x^\top (K + \Lambda) x`, which         Artemev 2021
                   rises with each iteration
cauchy-schwarz     one-pass with :math:`b = (\sum_n |\alpha_n| \sqrt{r_n})^2`
================== ================================================================= ==============

In exact arithmetic conjugate-gradient <= one-pass <= cauchy-schwarz. What is computed is the
excess :math:`a - \mathrm{quad} \ge 0` itself, as sums of non-negative terms wherever that is
possible, and without dividing by a precision that may be zero.

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
    "whitened": "one more factorisation, O(N M + M^3)",
    "cauchy-schwarz": "O(N M)",
    "one-pass": "one pass over the kernel matrix, O(N^2 D)",
    "conjugate-gradient": "one pass over the kernel matrix per iteration, O(N^2 D) each",
}
CG_TOL = 1e-2
CG_MAX_ITER = 50


class UpperBounds(NamedTuple):
    """Upper bounds on the log marginal likelihood of one output's sites, in nats.

    ``upper`` maps the names of the methods to their bounds. ``improved_lower`` is the best lower
    bound known: that of the fit, or that from the vector of one pass or of conjugate gradients.
    """

    upper: dict
    improved_lower: float


def upper_bounds(features, outputs, slack, methods, *, cg_tol=CG_TOL, cg_max_iter=CG_MAX_ITER):
    """Return upper bounds on the log marginal likelihood of the sites of each output.

    Parameters
    ----------
    features : RowFeatures
    outputs : list of (Sites, FunctionPosterior)
        Arguments and results of `collapse`. Outputs share the passes over the kernel matrix.
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
    return _in_lockstep(
        features,
        [
            _output_bounds(features, sites, posterior, slack, methods, cg_tol, cg_max_iter)
            for sites, posterior in outputs
        ],
    )


def standard_bound(features, sites, posterior, slack):
    """Return the bound with the standard slack at the same sites, in nats. Cost N.

    It is the bound of the predictive posterior, whose q(f|u) is the prior's p(f|u).
    """
    cost = sites.precision * features.residual
    paid = slack.value(slack.row_term(cost).sum(), features.n_rows)
    return float(posterior.bound - paid + STANDARD.value(cost.sum(), features.n_rows))


def _in_lockstep(features, routines):
    """Run generators that yield a vector to receive its product with the kernel matrix.

    One pass over the kernel matrix serves all that wait for it. Returns what each returns.
    """
    results = [None] * len(routines)
    answers = dict.fromkeys(range(len(routines)))
    while answers:
        asked = {}
        for k, answer in answers.items():
            try:
                asked[k] = routines[k].send(answer)
            except StopIteration as end:
                results[k] = end.value
        answers = {}
        if asked:
            products = features.kernel_product(np.stack(list(asked.values()), axis=1))
            answers = dict(zip(asked, products.T, strict=True))
    return results


def _output_bounds(features, sites, posterior, slack, methods, cg_tol, cg_max_iter):
    """Generate the `UpperBounds` of one output; yields vectors, see `_in_lockstep`."""
    cost, n_rows = sites.precision * features.residual, features.n_rows
    base = posterior.bound - slack.value(float(slack.row_term(cost).sum()), n_rows)
    dual = _dual(features, sites, posterior)
    excess = {"cauchy-schwarz": _best_multiple(dual, dual.crude)[0]}
    if "trace" in methods:
        excess["trace"] = _trace_excess(features, sites, posterior, dual.alpha)
    if "whitened" in methods:
        excess["whitened"] = _whitened_excess(posterior, dual, float(cost.sum()))
    improved_lower = posterior.bound
    if "one-pass" in methods or "conjugate-gradient" in methods:
        K_alpha = yield dual.alpha
        missed = K_alpha - _at_rows(features, dual.V_alpha)
        # Between zero and the bound of Cauchy-Schwarz, but for rounding.
        b = min(max(float(dual.alpha @ missed), 0.0), dual.crude)
        excess["one-pass"], multiple, rest = _best_multiple(dual, b)
        root = np.sqrt(sites.precision)
        # sqrt(p) (ytilde - (K + Lambda) x) at x = multiple * alpha. A row without precision either
        # says nothing, or makes `rest` zero.
        pseudo = np.divide(dual.target, root, out=np.zeros_like(root), where=root > 0.0)
        start = rest * pseudo - multiple * (root * missed)
        max_iter = cg_max_iter if "conjugate-gradient" in methods else 0
        rise, left = yield from _conjugate_gradients(
            features, root, posterior.LB, start, cg_tol, max_iter
        )
        excess["conjugate-gradient"] = max(excess["one-pass"] - rise, 0.0)
        # Artemev 2021: the same vector, with log|K + Lambda| bounded as in the tight slack.
        lower = base + 0.5 * (excess["conjugate-gradient"] - left)
        lower += TIGHT.value(float(TIGHT.row_term(cost).sum()), n_rows)
        improved_lower = max(improved_lower, lower)
    return UpperBounds({name: base + 0.5 * excess[name] for name in methods}, improved_lower)


class _Dual(NamedTuple):
    """alpha = (Q + Lambda)^-1 ytilde and what follows from it.

    ``target`` and ``alpha`` (N,) are btilde and alpha, ``V_alpha`` (M,) is V alpha, ``noise`` is
    sum alpha^2 / p, infinite if a site has a shift but no precision, and ``crude`` is the bound of
    Cauchy-Schwarz on alpha^T (K - Q) alpha.
    """

    target: np.ndarray
    alpha: np.ndarray
    V_alpha: np.ndarray
    noise: float
    crude: float

    @property
    def a(self):
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


def _best_multiple(dual, b):
    """Return a - a^2 / (a + b), the best multiple s = a / (a + b) of alpha, and 1 - s."""
    ratio = b / dual.a if b > 0.0 else 0.0
    return b / (1.0 + ratio), 1.0 / (1.0 + ratio), ratio / (1.0 + ratio)


def _whitened_excess(posterior, dual, t):
    """Return a - quad for noise (1 + t) Lambda in place of Lambda + K - Q. Cost M^3.

    By the resolvent identity, and V alpha = w, it is
    t / (1 + t) (sum alpha^2 / p + t w^T (B + t I)^-1 w).
    """
    if t == 0.0:
        return 0.0
    B = posterior.LB @ posterior.LB.T
    B.flat[:: len(B) + 1] += t
    half = solve_lower(cholesky(B), posterior.w)
    return t / (1.0 + t) * (dual.noise + t * float(half @ half))


def _trace_excess(features, sites, posterior, alpha):
    """Return a - quad for noise Lambda + tr(K - Q) I, trace over the rows that matter. Cost N M^2.

    By the resolvent identity it is tr(K - Q) alpha^T alpha', alpha' that of the larger noise.
    """
    target = sites.shift - sites.precision * posterior.prior_mean
    heard = (sites.precision > 0.0) | (target != 0.0)
    trace = float(features.residual[heard].sum())

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


def _conjugate_gradients(features, root, LB, residual, tol, max_iter):
    """Raise quad by conjugate gradients on K + Lambda, preconditioned by Q + Lambda.

    In coordinates x = sqrt(p) xi, in which Lambda is the identity and a row without precision has
    no part: nothing is divided by p. `root` is sqrt(p), `residual` (N,) that of the start.
    Yields vectors, see `_in_lockstep`. Returns by how much quad rose, and r^T (Q + Lambda)^-1 r at
    the end, which bounds by how much it can rise still.
    """
    preconditioned, left = _precondition(features, root, LB, residual)
    direction, rise = preconditioned, 0.0
    for _ in range(max_iter):
        if 0.5 * left <= tol:
            break
        K_direction = yield root * direction
        image = direction + root * K_direction
        step = left / float(direction @ image)
        rise += step * left
        residual = residual - step * image
        before = left
        preconditioned, left = _precondition(features, root, LB, residual)
        direction = preconditioned + (left / before) * direction
    return rise, left


def _precondition(features, root, LB, residual):
    """Return (I + sqrt(p) Q sqrt(p))^-1 residual and its product with the residual. Cost 2 N M."""
    (projected,) = features.sum(lambda V, x: (V @ x,), root * residual)
    half = solve_lower(LB, projected)
    value = residual - root * _at_rows(features, solve_lower(LB, half, transposed=True))
    # A difference of large numbers where little is left.
    return value, max(float(residual @ value), 0.0)
