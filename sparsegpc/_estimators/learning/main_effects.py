"""Learn main effects, and decide by the bound whether they belong in the kernel.

The model with them is learned from the end of the one without and from sums of effects, see
`comparison`. The two parameters of which the criterion there speaks are a variance and a length
scale that are common to all effects; the prior penalises their differences.
"""

import numpy as np

from sparsegpc._core.learning.fit_from import Start
from sparsegpc._core.learning.hyperparameters import typical_hessian
from sparsegpc._core.models.similar_deviations import similar_distances
from sparsegpc._core.numerics.floats import TINY
from sparsegpc._estimators.kernels.initialization import own_lengths
from sparsegpc._estimators.kernels.named_kernels import EFFECTS_SHARE
from sparsegpc._estimators.learning.comparison import (
    FIRST_GAIN,
    Candidate,
    climb_from,
    is_better,
    simplified,
)
from sparsegpc.kernels import MainEffects

# The curvature of the bound in the hyperparameters of an effect, in nats per row, where effects are
# added to a fit; and the share of the variance that the interaction has where it is weak.
EFFECT_CURVATURE, WEAK_SHARE = 1e-3, 0.1
# One sum of effects begins at this fraction of the usual length scales: the season in a column of
# times is fast. Another begins at those of the columns in the fit without effects, but at most so
# many units.
SHORT_LENGTH, MOST_UNITS = 0.2, 4.0
# A column is slow if its length scale is more than this many times the shortest one, in units of
# the columns. Where slow columns leave the interaction, their length scales are multiplied.
SLOW, LEAVING = 3.0, 10.0


def with_main_effects(estimator, problem_of, plain, rng, is_demanded):
    """Return the `Candidate` with main effects if it is better, or demanded, else the plain one.

    Demanded effects are learned in the same way, since a fit from other starts may end below the
    one without them. Return None if they are demanded and cannot be learned so.

    Parameters
    ----------
    estimator : BaseSparseGP
    problem_of : callable
        ``problem_of(choice)`` returns the `Problem` for a `KernelChoice`.
    plain : Candidate
        The model without main effects.
    rng : RandomState
    is_demanded : bool
    """
    result = plain.result
    if not is_demanded and result.stopped:
        return plain
    if is_demanded and result.trivial:
        return None
    choice = plain.choice._replace(main_effects=True)
    other = Candidate.of(choice, problem_of(choice))
    needed = -np.inf if is_demanded else result.best.objective + FIRST_GAIN
    starts = _starts(other.part, result)
    climbed = climb_from(simplified(estimator), other.part, starts, needed, rng)
    if climbed is None:
        return None if is_demanded else plain
    other = other._replace(result=climbed)
    if is_demanded or is_better(estimator, other, plain, "main effects"):
        return other
    return plain


def _starts(problem, plain):
    """Return the starts of the climbs with main effects, see `climb_from`.

    One is at the `FitResult` without them, where they are small, unless that is a constant
    function, and two are at a sum of effects, where the interaction is weak. Where f varies fast in
    some columns only, one is at an interaction of these beside a sum of effects. Where rows that
    are near in a single column deviate from the result alike, effects that vary so fast are tried,
    too.
    """
    usual, starts = problem.parameters.rescaled, []
    if plain.trivial:
        starts.append((_additive_start(problem, plain, usual), None))
    else:
        starts.append((_nested_start(problem, plain), plain.best.points))
        own = _with_own_lengths(problem, plain.best)
        starts.append((_additive_start(problem, plain, own), None))
        starts += [(start, None) for start in _starts_of_fast_columns(problem, plain, own)]
    starts.append((_additive_start(problem, plain, usual, SHORT_LENGTH), None))
    distances = similar_distances(problem.model, plain.best)
    if np.isfinite(distances).any():
        starts.append((_with_short_effects(problem, starts[0][0], distances), None))
    return starts


def _with_short_effects(problem, start, distances):
    """Return a `Start` where the effects of columns have at most these length scales (D,)."""
    parameters, effects = problem.parameters, _effects(problem)
    theta = start.theta.copy()
    for k in range(effects.start, effects.stop):
        column = parameters.columns[k]
        if column is not None:
            shortest = distances[column] if isinstance(column, int) else distances.min()
            theta[k] = min(theta[k], np.log(shortest))
    theta = np.clip(theta, *parameters.bounds.T)
    return start._replace(theta=theta, hessian=typical_hessian(problem.model, len(theta)))


def _nested_start(problem, plain):
    """Return the `Start` at a `FitResult` without main effects, to which these are added."""
    best, effects = plain.best, _effects(problem)
    variance = EFFECTS_SHARE * _variance(problem, best)
    usual = problem.parameters.rescaled
    theta = _with_effects(problem, best, best.theta[: effects.start], variance, usual)
    if plain.hessian is None:
        hessian = typical_hessian(problem.model, len(theta))
    else:
        n_effects = effects.stop - effects.start
        hessian = plain.hessian.with_parameters(effects.start, n_effects, EFFECT_CURVATURE)
    return Start(theta, best.states, hessian)


def _starts_of_fast_columns(problem, plain, values):
    """Return a list of the `Start` at an interaction of the fast columns beside effects of all.

    It is empty if no column is slow in the `FitResult` without effects. There a slow column may be
    part of the interaction only because its effect had no other place: a line beside a wave of two
    columns makes the variance large and the length scales of the wave too long. The length scales
    of the effects are those in `values` (P,).
    """
    best, effects = plain.best, _effects(problem)
    own = own_lengths(problem.parameters, problem.spread)
    places = [(k, column) for column, found in own.items() for k in found]
    if not places:
        return []
    indices, columns = map(list, zip(*places, strict=True))
    relative = best.theta[indices] - np.log(problem.spread.units[columns])
    slow = np.array(indices)[relative > relative.min() + np.log(SLOW)]
    if not len(slow):
        return []
    interaction = best.theta[: effects.start].copy()
    interaction[slow] += np.log(LEAVING)
    start = _nested_start(problem, plain)
    theta = _with_effects(problem, best, interaction, _variance(problem, best), values)
    return [start._replace(theta=theta)]


def _with_own_lengths(problem, plain):
    """Return start values (P,) where effects vary as fast as an `Evaluation` without them does."""
    parameters, effects = problem.parameters, _effects(problem)
    theta, columns = parameters.rescaled.copy(), parameters.columns
    own = {columns[k]: plain.theta[k] for k in range(effects.start)}
    for k in range(effects.start, effects.stop):
        if isinstance(columns[k], int):
            longest = np.log(MOST_UNITS * problem.spread.units[columns[k]])
            theta[k] = min(own[columns[k]], longest)
    return theta


def _additive_start(problem, plain, values, share=1.0):
    """Return the `Start` at a sum of effects, to which a weak interaction is added.

    `plain` is the `FitResult` without main effects. The length scales of the effects are those in
    `values` (P,) times `share`.
    """
    parameters, best, states = problem.parameters, plain.best, plain.best.states
    effects = _effects(problem)
    interaction = parameters.rescaled[: effects.start].copy()
    variance = _variance(problem, best)
    if plain.trivial:
        # A named kernel begins with the variance of the interaction.
        variance, states = np.exp(interaction[0]), None
    interaction[0] = np.log(WEAK_SHARE * variance)
    theta = _with_effects(problem, best, interaction, variance, values + np.log(share))
    if plain.trivial:
        theta[effects.stop :] = parameters.rescaled[effects.stop :]
        theta = np.clip(theta, *parameters.bounds.T)
    return Start(theta, states, typical_hessian(problem.model, len(theta)))


def _with_effects(problem, plain, interaction, variance, values):
    """Return theta at the start of a climb.

    It holds the hyperparameters of the `interaction`, those of main effects, and those of the
    likelihood from an `Evaluation` without effects, `plain`. The effects together have the given
    variance, and their length scales are those in `values` (P,).
    """
    parameters, effects = problem.parameters, _effects(problem)
    of_effects = values[effects].copy()
    are_variances = [column is None for column in parameters.columns[effects]]
    of_effects[are_variances] = np.log(variance / len(problem.spread.deviations))
    theta = np.concatenate([interaction, of_effects, plain.theta[effects.start :]])
    return np.clip(theta, *parameters.bounds.T)


def _effects(problem):
    """Return the slice of theta that holds the hyperparameters of main effects."""
    first = problem.parameters.effects.index(MainEffects)
    return slice(first, problem.model.kernel.n_params)


def _variance(problem, plain):
    """Return the variance of the learned f over the rows, a mean over all functions.

    In noisy data and under labels the variance of the kernel may be far from it.
    """
    mean, _ = plain.posterior.moments(problem.model.some_rows())
    return max(mean.var(axis=1).mean(), TINY)
