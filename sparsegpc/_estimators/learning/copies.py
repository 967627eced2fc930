"""Learn from rows, or from those that differ, if their copies hide the noise.

Without noise the density of a target that is observed twice has no limit, so a few copies of
records outweigh all evidence of noise, whereas two measurements with noise hardly ever agree to the
last digit. So if the noise vanishes, but not without the copies, the model is the one without them.
Noise that depends on the row vanishes at the copies alone.
"""

from typing import NamedTuple

from sparsegpc._core.likelihoods.responses import FREE_OF_NOISE
from sparsegpc._estimators.learning.search import FittedProblem
from sparsegpc._estimators.learning.steps import learn

# Noise that depends on the row vanishes if its variance is less than this fraction of the targets'.
VANISHING = 1e-6


class LearnedRows(NamedTuple):
    """What a whole fit has learned.

    ``noise_bounds`` are those of the `Decision`, and ``n_left_out`` is the number of copies of rows
    that were left out, counted by their weights.
    """

    fitted: FittedProblem
    noise_bounds: dict | None
    n_left_out: float = 0.0


def learn_rows(builder, decide):
    """Return the `LearnedRows` of a `ProblemBuilder`.

    `decide` is the function that returns the `Decision` of a builder about the kernel and noise.
    """
    learned = _learned(builder, decide)
    if not learned.fitted.stopped and _is_free_of_noise(learned.fitted):
        distinct, n_copies = builder.without_copies()
        if n_copies > 0.0:
            other = _learned(distinct, decide)
            if not _is_free_of_noise(other.fitted):
                return other._replace(n_left_out=n_copies)
    return learned


def _learned(builder, decide):
    decision = decide(builder)
    return LearnedRows(learn(decision), decision.noise_bounds)


def _is_free_of_noise(fitted):
    """Return whether there is as little noise as is allowed, or hardly any at copies of a row."""
    problem, best = fitted.problem, fitted.result.optimum
    if problem.plan is not None and problem.plan.varies and _vanishes_at_copies(fitted):
        return True
    entries, meaning = problem.hyperparameters.entries, problem.estimator._limit_meaning
    return problem.learns and any(
        meaning(problem, entries[k].name, side, best) == FREE_OF_NOISE
        for k, side in problem.hyperparameters.at_limits(best)
    )


def _vanishes_at_copies(fitted):
    """Return whether noise that depends on the row vanishes at rows with a weight above one."""
    model, solutions = fitted.problem.model, fitted.result.best.solutions
    copied = model.weight > 1.0
    for y, solution in zip(model.targets, solutions, strict=True):
        variance = model.weight @ y["mean"] ** 2 / model.weight.sum()
        noise = model.weight / solution.sites.precision
        if (noise[copied] < VANISHING * variance).any():
            return True
    return False
