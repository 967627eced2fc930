"""Learn noise that depends on the row, starting from the same noise for all rows.

With ``noise="auto"`` such noise has to raise the bound by more than log N nats. That is the penalty
of the Bayesian information criterion for two parameters: the variance and the length scale of the
log noise variance.
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError
from sklearn.gaussian_process.kernels import Kernel

from sparsegpc._core.learning.growing_subsets import FEWEST_ROWS
from sparsegpc._estimators.learning.comparison import Decision
from sparsegpc._estimators.learning.kernel_choice import decide_kernel
from sparsegpc._estimators.learning.search import evaluated_last, search
from sparsegpc._estimators.noise.base import NoisePlan
from sparsegpc._estimators.noise.homoscedastic import HomoscedasticNoise
from sparsegpc._estimators.noise.registry import AUTO, DEFAULT, VARYING


class NoiseDecision(NamedTuple):
    """A `NoisePlan`, the `Decision` about the kernel, and the bound for each noise compared."""

    plan: NoisePlan
    decision: Decision
    bounds: dict | None = None


def decide_noise(estimator, plan_of, problem_of, data_of, rng):
    """Return the `NoiseDecision` of a regressor.

    Parameters
    ----------
    estimator : SparseGPRegressor
    plan_of : callable
        ``plan_of(data)`` returns the `NoisePlan` for a `NoiseData`; with ``noise="auto"``, that of
        the noise to compare with homoscedastic noise.
    problem_of : callable
        ``problem_of(choice, plan)`` returns the `Problem` for a `KernelChoice` and a plan.
    data_of : callable
        ``data_of(transform)`` returns the `NoiseData` of columns with a transform, or None.
    rng : RandomState
    """
    data = data_of(None)
    plan = plan_of(data)
    if not plan.varies:
        decision = decide_kernel(estimator, lambda choice: problem_of(choice, plan), rng)
        return NoiseDecision(plan, decision)
    is_auto, constant = estimator.noise == AUTO, HomoscedasticNoise()._plan(data)
    # A kernel of the noise that is an object sees the columns as they are, like that of f.
    is_open = not isinstance(getattr(estimator.noise, "kernel", None), Kernel)
    decision = decide_kernel(estimator, lambda choice: problem_of(choice, constant), rng, is_open)
    choice = decision.choice
    data = data_of(choice.transform)
    plan = plan_of(data)
    if estimator.warm_start and hasattr(estimator, "kernel_"):
        last = constant if is_auto and constant.is_like(estimator._plan) else plan
        return NoiseDecision(last, Decision(choice))
    if estimator.optimizer is None:
        return NoiseDecision(constant if is_auto else plan, decision)
    problem = problem_of(choice, constant)
    found = decision.go_on(estimator, problem, rng)
    best = found.result.best
    theta, log_noise = np.split(best.theta, [problem.model.kernel.n_params])
    plan = plan.starting_at(log_noise)
    starts = [np.append(theta, start) for start in plan.starts(data.spread)]
    # Subsets of many rows choose their own points.
    first = best.points if len(problem.rows.X) < FEWEST_ROWS else None
    if not is_auto:
        return NoiseDecision(plan, Decision(choice, starts, first))
    if found.result.stopped:
        return NoiseDecision(constant, Decision(choice, found=found))
    varying = problem_of(choice, plan)
    try:
        other = search(estimator, varying, rng, starts=starts, first=first)
    except LinAlgError:
        # Homoscedastic noise is usable.
        return NoiseDecision(constant, Decision(choice, found=evaluated_last(found, problem)))
    before, after = found.result.best.elbo, other.result.best.elbo
    bounds = {
        DEFAULT: float(before + problem.offset),
        VARYING: float(after + problem.offset),
    }
    if after - before > np.log(problem.model.total_weight):
        return NoiseDecision(plan, Decision(choice, found=other), bounds)
    found = evaluated_last(found, problem)
    return NoiseDecision(constant, Decision(choice, found=found), bounds)
