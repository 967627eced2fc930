"""Whether the learned noise vanishes.

Noise that depends on the row may vanish at a few rows alone.
"""

from sparsegpc._core.likelihoods.gaussian import GaussianNoise
from sparsegpc._core.likelihoods.responses import FREE_OF_NOISE

# Noise vanishes if its variance is less than this fraction of that of the targets. The prior of
# noise that is the same at all rows keeps it further from zero.
VANISHING, VANISHING_AT_ROWS = 1e-3, 1e-6
# Without the copies, it must be clear of that by this factor, as small noise may be real.
CLEARLY = 5.0
# Other noise vanishes if its parameter is so many steps `to_little_noise` from the start, or more.
# Its prior may keep it from its limit.
VANISHING_STEPS = 1.5


def vanishing_noise(fitted, at_copies):
    """Return the signs that the learned noise of a `FittedProblem` vanishes, as a set.

    They are the names of the parameters that allow hardly any noise, and the indices of the outputs
    whose noise vanishes at most rows or, if `at_copies`, at a single one with a weight above one.
    Unless `at_copies`, noise that comes near to vanishing counts as well.
    """
    return _free_of_noise(fitted) | _outputs_without_noise(fitted, at_copies)


def _free_of_noise(fitted):
    """Return the names of the parameters that allow no less noise, or hardly any, as a set."""
    problem, best = fitted.problem, fitted.result.optimum
    if not problem.learns:
        return set()
    entries = problem.hyperparameters.entries
    return {
        entries[k].name
        for k, side in (*problem.hyperparameters.at_limits(best), *_near_limits(problem, best))
        if entries[k].at_limit.get(side) == FREE_OF_NOISE
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


def _outputs_without_noise(fitted, at_copies):
    """Return the indices of the outputs whose learned noise vanishes, as a set."""
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
