"""Learn noise that depends on the row, starting from the same noise for all rows.

With ``noise="auto"`` such noise has to raise the bound by more than log N nats. That is the penalty
of the Bayesian information criterion for two parameters: the variance and the length scale of the
log noise variance.
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.learning.growing_subsets import FEWEST_ROWS
from sparsegpc._estimators.learning.main_effects import Decision, decide_main_effects
from sparsegpc._estimators.learning.search import evaluated_last, search
from sparsegpc._estimators.noise.base import NoisePlan
from sparsegpc._estimators.noise.homoscedastic import HomoscedasticNoise
from sparsegpc._estimators.noise.registry import AUTO, DEFAULT, VARYING


class NoiseDecision(NamedTuple):
    """A `NoisePlan`, the `Decision` about the kernel, and the bound for each noise compared."""

    plan: NoisePlan
    decision: Decision
    bounds: dict | None = None


def decide_noise(estimator, plan, problem_of, data, rng):
    """Return the `NoiseDecision` of a regressor.

    Parameters
    ----------
    estimator : SparseGPRegressor
    plan : NoisePlan
        With ``noise="auto"``, that of the noise to compare with homoscedastic noise.
    problem_of : callable
        ``problem_of(choice, plan)`` returns the `Problem` for a `KernelChoice` and a plan.
    data : NoiseData
    rng : RandomState
    """
    is_auto = plan.varies and estimator.noise == AUTO
    simple = HomoscedasticNoise()._plan(data) if plan.varies else plan
    decision = decide_main_effects(estimator, lambda choice: problem_of(choice, simple), rng)
    choice = decision.choice
    if estimator.warm_start and hasattr(estimator, "kernel_"):
        last = simple if is_auto and simple.is_like(estimator._plan) else plan
        return NoiseDecision(last, Decision(choice))
    if not plan.varies:
        return NoiseDecision(plan, decision)
    if estimator.optimizer is None:
        return NoiseDecision(simple if is_auto else plan, decision)
    constant = problem_of(choice, simple)
    found = decision.go_on(estimator, constant, rng)
    best = found.result.best
    theta, log_noise = np.split(best.theta, [constant.model.kernel.n_params])
    plan = plan.starting_at(log_noise)
    starts = [np.append(theta, start) for start in plan.starts(data.spread)]
    # Subsets of many rows choose their own points.
    first = best.points if len(constant.rows.X) < FEWEST_ROWS else None
    if not is_auto:
        return NoiseDecision(plan, Decision(choice, starts, first))
    if found.result.stopped:
        return NoiseDecision(simple, Decision(choice, found=found))
    varying = problem_of(choice, plan)
    try:
        other = search(estimator, varying, rng, starts=starts, first=first)
    except LinAlgError:
        # Homoscedastic noise is usable.
        return NoiseDecision(simple, Decision(choice, found=evaluated_last(found, constant)))
    compared = [found.result.best.elbo, other.result.best.elbo]
    bounds = dict(zip([DEFAULT, VARYING], np.add(compared, constant.offset).tolist(), strict=True))
    if compared[1] - compared[0] > np.log(constant.model.total_weight):
        return NoiseDecision(plan, Decision(choice, found=other), bounds)
    found = evaluated_last(found, constant)
    return NoiseDecision(simple, Decision(choice, found=found), bounds)
