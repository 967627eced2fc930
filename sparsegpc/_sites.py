r"""Solving for the sites: coordinate ascent on the bound, accelerated and safeguarded.

A plain step computes q(u) for the current sites, then the state that is optimal for its moments
of f. It never lowers the bound, but may creep. Anderson's method extrapolates the logarithm of the
state from the last few steps, in the metric of the bound's curvature; a step that lowers the bound
is taken back and replaced by the plain one, whose target is already known. So the bound is monotone
over the accepted steps, and each attempt costs one pass of about 2 N M^2.
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._bounds import Posterior, collapse, moments, shrinkage
from sparsegpc._likelihoods import Sites

ANDERSON_DEPTH = 5
STATE_RANGE = (1e-16, 1e16)
LOG_STATE_RANGE = np.log(STATE_RANGE)
# A fall of the bound by less than this, in nats per row, is rounding.
ROUNDING = 1e-12


class SiteSolution(NamedTuple):
    """The sites, q(u) and the bound (nats) at the end of the ascent."""

    state: np.ndarray
    sites: Sites
    posterior: Posterior
    bounds: list
    n_iter: int
    converged: bool

    @property
    def bound(self):
        return self.posterior.bound


class _Anderson:
    """Extrapolation of a fixed-point iteration ``x -> g(x)`` from its last few pairs."""

    def __init__(self, blocks):
        self._blocks = blocks
        self._x, self._f = [], []

    def forget(self):
        self._x.clear()
        self._f.clear()

    def next(self, x, g, metric):
        """Return the extrapolated point; `metric` (N,) weighs the squares of the misfit g - x."""
        self._x.append(x)
        self._f.append(g - x)
        del self._x[: -ANDERSON_DEPTH - 1], self._f[: -ANDERSON_DEPTH - 1]
        if len(self._x) == 1:
            return g
        dx, df = np.diff(self._x, axis=0), np.diff(self._f, axis=0)
        f = self._f[-1]

        def normal_equations(index, rows):
            weighted = df[:, rows] * metric[rows]
            return weighted @ df[:, rows].T, weighted @ f[rows]

        gram, right = self._blocks.sum(normal_equations)
        gram.flat[:: len(gram) + 1] *= 1.0 + 1e-8
        weights = np.linalg.lstsq(gram, right, rcond=1e-12)[0]
        return np.clip(g - weights @ (dx + df), *LOG_STATE_RANGE)


def solve_sites(features, likelihood, y, weight, slack, state, *, prior_mean=None, tol, max_iter):
    """Maximise the bound over the sites.

    Parameters
    ----------
    features : RowFeatures
    likelihood : likelihood of `_likelihoods`
    y, weight : ndarray of shape (N,)
    slack : str
    state : ndarray of shape (N,)
        Where to start.
    prior_mean : float or None
        None learns it along with q(u).
    tol : float
        Stop when the next plain step would gain less than this many nats.
    max_iter : int
        Most passes.

    Returns
    -------
    SiteSolution
        With ``bounds``, the bound at each accepted state.

    Raises
    ------
    LinAlgError
        If the bound cannot be computed at the start.

    Notes
    -----
    Cost about 2 N M^2 per pass.
    """
    if likelihood.has_fixed_sites:
        return _collapse_fixed(features, likelihood, y, weight, slack, state, prior_mean)
    anderson = _Anderson(features.blocks)
    rounding = ROUNDING * float(weight.sum())
    log_state, plain, best, bounds = np.log(state), None, None, []
    for n_iter in range(1, max_iter + 1):
        state = np.exp(log_state)
        sites = likelihood.sites(state, y, weight)
        posterior = collapse(features, sites, slack, prior_mean)
        if best is not None and not posterior.bound >= best.bound - rounding:
            if log_state is plain:
                # A plain step falls only when there is nothing left to gain above rounding.
                return best._replace(n_iter=n_iter, converged=True)
            log_state = plain
            anderson.forget()
            continue
        refuse_infinite(posterior.bound)
        bounds.append(posterior.bound)
        best = SiteSolution(state, sites, posterior, bounds, n_iter, False)
        target, gain, metric = _plain_step(features, likelihood, weight, slack, best)
        if gain < tol:
            return best._replace(converged=True)
        plain = np.log(np.clip(target, *STATE_RANGE))
        log_state = anderson.next(log_state, plain, metric)
    return best._replace(n_iter=max_iter)


def _collapse_fixed(features, likelihood, y, weight, slack, state, prior_mean):
    sites = likelihood.sites(state, y, weight)
    posterior = collapse(features, sites, slack, prior_mean)
    refuse_infinite(posterior.bound)
    return SiteSolution(state, sites, posterior, [posterior.bound], 1, True)


def refuse_infinite(bound):
    """Raise LinAlgError if the first bound that was computed is not finite."""
    if not np.isfinite(bound):
        raise LinAlgError(f"the bound is {bound} at the first sites tried")


def _plain_step(features, likelihood, weight, slack, current):
    """Return the optimal state at the current q(u), what it gains at least, and the curvature."""
    state, sites, posterior = current.state, current.sites, current.posterior
    target, metric = np.empty_like(state), np.empty_like(state)

    def block(index, rows):
        residual = features.residual[rows]
        mean, explained = moments(features.V(index), posterior)
        v = shrinkage(slack, sites.precision[rows] * residual, posterior.mean_cost)
        target[rows] = likelihood.update(mean, v * residual + explained)
        gain, metric[rows] = likelihood.gain(state[rows], target[rows], weight[rows])
        return (gain.sum(),)

    (gain,) = features.blocks.sum(block)
    return target, gain, metric
