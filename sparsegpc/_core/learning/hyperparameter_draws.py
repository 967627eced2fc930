r"""Draws of the hyperparameters from their approximate posterior, given the bound as log evidence.

The objective J, the bound at the learned inducing points plus the log prior, takes the place of the
log posterior density of theta, which has a flat prior within its limits where the model has no
other. The draws come from a split normal distribution about the maximum (Geweke, "Bayesian
inference in econometric models using Monte Carlo integration", Econometrica 57, 1989), truncated to
the limits. Let :math:`l_k` be the columns of the Cholesky factor of the inverse Hessian of -J.
Each is multiplied by :math:`s_k^+ z_k` or :math:`s_k^- z_k` according to the sign of :math:`z_k`,
a standard normal. The scales s are those at which J falls as a normal log density would. As the
factor is triangular, parameter k depends on the first k numbers only. So each :math:`z_k` is drawn
in turn from the standard normal within the interval in which its parameter is within the limits,
given the numbers before it (Geweke, "Efficient simulation from the multivariate normal and
Student-t distributions subject to linear constraints", 1991). Let :math:`p_k` be the probability of
this interval. The numbers come from a scrambled Sobol sequence. Importance weights correct for the
difference of the two distributions,

.. math:: \log w = J(\theta) + \tfrac12 |z|^2 + \sum_k \log s_k^\pm + \sum_k \log p_k,

and are truncated (Ionides, "Truncated importance sampling", JCGS 17, 2008). A parameter at a bound
keeps its value.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp
from scipy.stats import qmc

from sparsegpc._core.learning.maximization import AT_BOUND
from sparsegpc._core.numerics.linalg import attempted

# A power of two, for which a Sobol sequence is balanced.
N_DRAWS = 16
# A draw so far out that it should occur once in 1 / OUTERMOST samples would have most of the total
# weight. Up to MOST_SCRAMBLES scrambles of the sequence are tried to avoid it.
OUTERMOST, MOST_SCRAMBLES = 0.01, 20
# Step of the central differences, in units of theta, most of which are logarithms.
STEP = 0.05
# Least eigenvalue of the Hessian of -J. Smaller ones mean directions about which the data are
# uninformative.
SMALLEST_CURVATURE = 0.05
# Limits of the scales s.
SCALES = (0.1, 3.0)
# Importance weights with a smaller effective number of draws are not trusted, nor are fewer draws
# than this number.
FEWEST_EFFECTIVE = 4.0


class Draws(NamedTuple):
    """Draws of theta.

    ``theta`` (S, P) holds the draws, ``weights`` (S,) their weights, which sum to one. ``kept`` has
    an entry for each draw, which may be None where the weight is zero, as the bound could not be
    computed. ``ess`` is the effective number of draws by the importance weights; if it is below
    `FEWEST_EFFECTIVE`, the weights are equal, or zero.
    """

    theta: np.ndarray
    weights: np.ndarray
    kept: list
    ess: float


def draw_hyperparameters(model, best, bounds, limits, rng, keep):
    """Return `Draws` of theta around `best`, the `Evaluation` at the maximum of the objective.

    Parameters at the `bounds` (P, 2) of the search keep their values. The others are drawn within
    the `limits` (P, 2), which may be wider or infinite. If the sites of `best` did not converge, or
    the bound can be computed at fewer than `FEWEST_EFFECTIVE` draws, its theta is the only draw.
    ``keep(evaluation)`` is what is kept of the evaluation at a draw. Cost at most 4 P + `N_DRAWS`
    evaluations of the bound, 2 P of them with the gradient.
    """
    free = (best.theta > bounds[:, 0] + AT_BOUND) & (best.theta < bounds[:, 1] - AT_BOUND)
    # Where sites do not converge, differences of gradients say nothing about the curvature.
    if not free.any() or not best.converged:
        return single_draw(best.theta, keep(best))
    hessian = attempted(_hessian, model, best, free)
    if hessian is None or not np.isfinite(hessian).all():
        # The bound cannot be computed near its maximum.
        return single_draw(best.theta, keep(best))
    order, axes = _triangular_axes(_covariance_root(hessian), best.theta, free, limits)
    scales = [_scales(model, best, side * axes) for side in (-1.0, 1.0)]
    theta, log_density = _truncated_draws(best.theta, order, axes, scales, limits, rng)
    log_weights, kept = np.full(N_DRAWS, -np.inf), [None] * N_DRAWS
    for k in range(N_DRAWS):
        drawn = _evaluated(model, best, theta[k])
        if drawn is not None:
            log_weights[k] = drawn.objective - best.objective - log_density[k]
            kept[k] = keep(drawn)
    usable = np.isfinite(log_weights)
    if usable.sum() < FEWEST_EFFECTIVE:
        return single_draw(best.theta, keep(best))
    weights = truncated_weights(log_weights)
    ess = 1.0 / float(weights @ weights)
    if ess < FEWEST_EFFECTIVE:
        weights = usable / usable.sum()
    return Draws(theta, weights, kept, ess)


def single_draw(theta, kept):
    """Return the `Draws` that consist of one theta."""
    return Draws(theta[None], np.ones(1), [kept], 1.0)


def truncated_weights(log_weights):
    """Return normalised weights (S,), none of which exceeds S^(-1/2) before the last division."""
    weights = np.exp(log_weights - log_weights.max())
    weights = np.minimum(weights / weights.sum(), len(weights) ** -0.5)
    return weights / weights.sum()


def _hessian(model, best, free):
    """Return minus the Hessian of the objective with respect to the free parameters."""
    rows = []
    for k in np.flatnonzero(free):
        step = np.zeros(len(free))
        step[k] = STEP
        ends = [
            model.solve(best.theta + side * step, best.points, best.states).grad_theta[free]
            for side in (1.0, -1.0)
        ]
        rows.append((ends[1] - ends[0]) / (2.0 * STEP))
    hessian = np.stack(rows)
    return 0.5 * (hessian + hessian.T)


def _covariance_root(hessian):
    """Return B such that B^T B is the inverse of a Hessian whose eigenvalues are not too small."""
    values, vectors = np.linalg.eigh(hessian)
    return vectors.T / np.sqrt(np.maximum(values, SMALLEST_CURVATURE))[:, None]


def _triangular_axes(root, theta, free, limits):
    """Return the free parameters in their order (P',), and the columns of the factor (P', P).

    The order is that of the distance from the nearest limit in standard deviations: intervals of
    parameters that come late depend on more draws, and vary more.
    """
    free = np.flatnonzero(free)
    room = np.minimum(theta[free] - limits[free, 0], limits[free, 1] - theta[free])
    order = np.argsort(room / np.linalg.norm(root, axis=0), kind="stable")
    triangle = np.linalg.qr(root[:, order], mode="r")
    triangle *= np.where(triangle.diagonal() < 0.0, -1.0, 1.0)[:, None]
    axes = np.zeros((len(free), len(theta)))
    axes[:, free[order]] = triangle
    return free[order], axes


def _truncated_draws(maximum, order, axes, scales, limits, rng):
    """Return `N_DRAWS` draws of theta in the limits, and their log densities up to a constant.

    `scales` holds those of the axes below and above the maximum. Axis k changes the parameter k of
    the `order`, and no earlier one.
    """
    uniform = ndtr(_normal_scores(len(axes), rng))
    theta, log_density = np.tile(maximum, (N_DRAWS, 1)), np.zeros(N_DRAWS)
    for axis, k, below, above, level in zip(axes, order, *scales, uniform.T, strict=True):
        ends = (limits[k] - theta[:, [k]]) / axis[k]
        ends /= np.where(ends > 0.0, above, below)
        z, log_probability = _truncated_normal(level, *ends.T)
        scale = np.where(z > 0.0, above, below)
        theta += (scale * z)[:, None] * axis
        log_density -= 0.5 * z**2 + np.log(scale) + log_probability
    return np.clip(theta, *limits.T), log_density


def _truncated_normal(level, low, high):
    """Return quantiles of the standard normal within intervals, and the logs of their probability.

    All arguments have the shape (S,). Ends far out in a tail keep their digits.
    """
    # The upper tail is the lower one, mirrored.
    is_mirrored = low > -high
    low, high = np.where(is_mirrored, -high, low), np.where(is_mirrored, -low, high)
    level = np.where(is_mirrored, 1.0 - level, level)
    log_top = log_ndtr(high)
    left_out = np.exp(log_ndtr(low) - log_top)
    z = ndtri_exp(log_top + np.log(left_out + level * (1.0 - left_out)))
    return np.where(is_mirrored, -1.0, 1.0) * np.clip(z, low, high), log_top + np.log1p(-left_out)


def _scales(model, best, axes):
    """Return the scale s of each axis (P', P): that of a normal distribution which falls like J."""
    scales = np.full(len(axes), SCALES[0])
    for k, axis in enumerate(axes):
        # Where the log of a standard normal density is lower by one.
        there = _evaluated(model, best, best.theta + np.sqrt(2.0) * axis)
        if there is not None:
            widest = min(SCALES[1], SMALLEST_CURVATURE**-0.5 / float(np.linalg.norm(axis)))
            fall = max(best.objective - there.objective, widest**-2.0)
            scales[k] = max(fall**-0.5, SCALES[0])
    return scales


def _evaluated(model, best, theta):
    """Return the `Evaluation` at theta, or None if it fails."""
    found = attempted(model.solve, theta, best.points, best.states, wrt_theta=False)
    return found if found is not None and np.isfinite(found.objective) else None


def _normal_scores(n_params, rng):
    """Return `N_DRAWS` points, shape (S, P), of a low-discrepancy sample of the standard normal."""
    farthest = -ndtri(OUTERMOST / N_DRAWS)
    for _ in range(MOST_SCRAMBLES):
        seed = rng.randint(np.iinfo(np.int32).max)
        uniform = qmc.Sobol(n_params, scramble=True, seed=seed).random(N_DRAWS)
        # A Sobol point may have a coordinate 0.
        z = ndtri(np.maximum(uniform, 1e-12))
        if np.abs(z).max() < farthest:
            break
    return np.clip(z, -farthest, farthest)
