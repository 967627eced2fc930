r"""Draws of the hyperparameters from their approximate posterior, given the bound as log evidence.

The objective J, the bound at the learned inducing points plus the log prior, takes the place of the
log posterior density of theta, which has a flat prior within its bounds where the model has no
other. The draws come from a split normal distribution about the maximum (Geweke, "Bayesian
inference in econometric models using Monte Carlo integration", Econometrica 57, 1989): along each
principal axis :math:`u_i` of the Hessian of -J, with eigenvalue :math:`e_i`, a standard normal
:math:`z_i` is multiplied by :math:`s_i^+ e_i^{-1/2}` or :math:`s_i^- e_i^{-1/2}` according to its
sign. The scales s are those at which J falls as a normal log density would. A scrambled Sobol
sequence gives the z. Importance weights correct for the difference of the two distributions,

.. math:: \log w = J(\theta) + \tfrac12 |z|^2 + \sum_i \log s_i^\pm,

and are truncated (Ionides, "Truncated importance sampling", JCGS 17, 2008). A parameter at a bound
keeps its value.
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError
from scipy.special import ndtri
from scipy.stats import qmc

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
# Importance weights with a smaller effective number of draws are not trusted.
FEWEST_EFFECTIVE = 4.0
# A parameter this close to a bound is at the bound.
AT_BOUND = 1e-3


class Draws(NamedTuple):
    """Draws of theta.

    ``theta`` (S, P) holds the draws, ``weights`` (S,) their weights, which sum to one. ``kept`` has
    an entry for each draw, which may be None where the weight is zero. ``ess`` is the effective
    number of draws by the importance weights; if it is below `FEWEST_EFFECTIVE`, the weights are
    equal, or zero.
    """

    theta: np.ndarray
    weights: np.ndarray
    kept: list
    ess: float


def draw_hyperparameters(model, best, bounds, rng, keep):
    """Return `Draws` of theta around `best`, the `Evaluation` at the maximum of the objective.

    Draws outside the bounds (P, 2) have weight zero. If the sites of `best` did not converge, its
    theta is the only draw. ``keep(evaluation)`` is what is kept of the evaluation at a draw. Cost
    at most 4 P + `N_DRAWS` evaluations of the bound, 2 P of them with the gradient.
    """
    free = (best.theta > bounds[:, 0] + AT_BOUND) & (best.theta < bounds[:, 1] - AT_BOUND)
    # Where sites do not converge, differences of gradients say nothing about the curvature.
    if not free.any() or not best.converged:
        return single_draw(best.theta, keep(best))
    try:
        values, vectors = np.linalg.eigh(_hessian(model, best, free))
    except LinAlgError:
        # The bound cannot be computed near its maximum.
        return single_draw(best.theta, keep(best))
    axes = np.zeros((len(values), len(free)))
    axes[:, free] = vectors.T / np.sqrt(np.maximum(values, SMALLEST_CURVATURE))[:, None]
    below, above = (_scales(model, best, side * axes) for side in (-1.0, 1.0))
    z = _normal_scores(len(values), rng)
    scales = np.where(z > 0.0, above, below)
    theta = best.theta + (scales * z) @ axes
    inside = ((theta >= bounds[:, 0]) & (theta <= bounds[:, 1])).all(axis=1)
    log_weights, kept = np.full(N_DRAWS, -np.inf), [None] * N_DRAWS
    for k in np.flatnonzero(inside):
        drawn = _evaluated(model, best, theta[k])
        if drawn is not None:
            gain = drawn.objective - best.objective
            log_weights[k] = gain + 0.5 * float(z[k] @ z[k]) + np.log(scales[k]).sum()
            kept[k] = keep(drawn)
    usable = np.isfinite(log_weights)
    if not usable.any():
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
