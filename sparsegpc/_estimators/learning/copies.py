"""Learn from rows, or from those that differ, if their copies hide the noise.

Without noise the density of a target that is observed twice has no limit, so a few copies of
records outweigh all evidence of noise, whereas two measurements with noise hardly ever agree to the
last digit. So if the noise vanishes, but not without the copies, the model is the one without them.
Noise that depends on the row vanishes at the copies alone. Copies that were rounded differently
hide noise as well.
"""

from typing import NamedTuple

from numpy.linalg import LinAlgError

from sparsegpc._core.likelihoods.gaussian import GaussianNoise
from sparsegpc._core.likelihoods.responses import FREE_OF_NOISE
from sparsegpc._estimators.learning.search import FittedProblem
from sparsegpc._estimators.learning.steps import learn

# Noise vanishes if its variance is less than this fraction of that of the targets. The prior of
# noise that is the same at all rows keeps it further from zero.
VANISHING, VANISHING_AT_ROWS = 1e-3, 1e-6
# Without the copies, it must be clear of that by this factor, as small noise may be real.
CLEARLY = 5.0
# Other noise vanishes if its parameter is so many steps `to_little_noise` from the start, or more.
# Its prior may keep it from its limit.
VANISHING_STEPS = 1.5
# By how much the sum of weights exceeds the number of rows because of rounding, relatively.
ROUNDING = 1e-9


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
    vanished = _free_of_noise(learned.fitted) | _vanished(learned.fitted, at_copies=True)
    if learned.fitted.stopped or not vanished:
        return learned
    distinct, n_copies = builder.without_copies()
    if n_copies <= ROUNDING * learned.fitted.problem.whole.total_weight:
        return learned
    try:
        other = _learned(distinct, decide)
        remaining = _free_of_noise(other.fitted) | _vanished(other.fitted, at_copies=False)
        if remaining < vanished and not other.fitted.stopped:
            return other._replace(n_left_out=n_copies)
    except LinAlgError:
        # What was learned is usable.
        pass
    return learned._replace(fitted=learned.fitted.evaluated_last())


def _learned(builder, decide):
    decision = decide(builder)
    return LearnedRows(learn(decision), decision.noise_bounds)


def _free_of_noise(fitted):
    """Return the names of the parameters that allow no less noise, or hardly any, as a set."""
    problem, best = fitted.problem, fitted.result.optimum
    if not problem.learns:
        return set()
    entries, meaning = problem.hyperparameters.entries, problem.estimator._limit_meaning
    return {
        entries[k].name
        for k, side in (*problem.hyperparameters.at_limits(best), *_near_limits(problem, best))
        if meaning(problem, entries[k].name, side, best) == FREE_OF_NOISE
    }


def _near_limits(problem, best):
    """Yield the index and the side of parameters near which noise that is not Gaussian vanishes."""
    if isinstance(problem.model.likelihood, GaussianNoise):
        return
    hyperparameters = problem.hyperparameters
    moves = best.theta - hyperparameters.theta
    for k, step in enumerate(hyperparameters.to_little_noise):
        if moves[k] * step > VANISHING_STEPS * step**2:
            yield k, "lower" if step < 0.0 else "upper"


def _vanished(fitted, at_copies):
    """Return the indices of the outputs whose learned noise vanishes, as a set.

    It vanishes at most rows, or comes near to it. If `at_copies`, coming near is not enough, but
    vanishing at a single row with a weight above one is.
    """
    model = fitted.problem.model
    if not isinstance(model.likelihood, GaussianNoise):
        return set()
    limit = VANISHING_AT_ROWS if fitted.problem.plan.varies else VANISHING
    if not at_copies:
        limit *= CLEARLY
    found = set()
    for k, solution in enumerate(fitted.result.best.solutions):
        variance = model.weight @ model.targets[k]["mean"] ** 2 / model.total_weight
        vanishes = model.weight < limit * variance * solution.sites.precision
        if vanishes.mean() > 0.5 or (at_copies and vanishes[model.weight > 1.0].any()):
            found.add(k)
    return found
