"""Learn main effects, and decide by the bound whether they belong in the kernel.

Models with and without them are fitted to a part of the rows, the former from the end of the
latter and from sums of effects. Noisy data need many rows to show more than a smooth function, so
of very many rows a larger part decides. Main effects have to raise the bound, with the prior of
the hyperparameters, by more than log N. That is the penalty of the Bayesian information
criterion for two parameters, a variance and a length scale that are common to all effects; the
prior penalises their differences.
"""

from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.learning.fit import result_of
from sparsegpc._core.learning.fit_from import Climb, Limits, Start, fit_from
from sparsegpc._core.learning.hyperparameters import typical_hessian
from sparsegpc._core.numerics.floats import TINY
from sparsegpc._core.selection.selectors import InducingPoints
from sparsegpc._estimators.kernels.named_kernels import EFFECTS_SHARE, KernelChoice
from sparsegpc._estimators.kernels.sklearn_kernels import walk
from sparsegpc._estimators.learning.search import (
    Found,
    evaluated_last,
    learns,
    moves_points,
    point_selector,
    search,
)
from sparsegpc._estimators.messages.progress import print_line
from sparsegpc.kernels import MainEffects

# FEW_ROWS decide or, if there are MANY_ROWS, a SHARE of them, but at most MOST_ROWS. With
# ``n_inducing="auto"`` they have MOST_POINTS.
FEW_ROWS, MANY_ROWS, SHARE, MOST_ROWS, MOST_POINTS = 2000, 100_000, 0.2, 100_000, 200
# Effects of more columns would take too long.
MOST_COLUMNS = 100
# Where main effects help, so many iterations show it by a gain of so many nats.
FIRST_ITERATIONS, FIRST_GAIN = 12, 1.0
# The curvature of the bound in the hyperparameters of an effect, in nats per row, where effects are
# added to a fit; and the share of the variance that the interaction has where it is weak.
EFFECT_CURVATURE, WEAK_SHARE = 1e-3, 0.1
# Sums of effects begin at the usual length scales and at this fraction of them: the season in a
# column of times is fast.
SHORT_LENGTH = 0.2


class Decision(NamedTuple):
    """A `KernelChoice` without "auto", and what was learned with this choice.

    ``starts``, ``first`` and ``begun`` are the start values, the first points and the climb on a
    part of the rows from which `search` goes on. ``found`` is what `search` returned, if that was
    for all rows and nothing remains to be learned. Each is None if there is no such thing.
    """

    choice: KernelChoice
    starts: list | None = None
    first: InducingPoints | None = None
    begun: Climb | None = None
    found: Found | None = None

    def go_on(self, estimator, problem, rng):
        """Return what is `Found` for the `Problem` of this choice, if need be by a search."""
        if self.found is not None:
            return self.found
        _, starts, first, begun, _ = self
        warm = starts is None and estimator.warm_start and hasattr(estimator, "_theta")
        return search(estimator, problem, rng, warm=warm, starts=starts, first=first, begun=begun)


def decide_main_effects(estimator, problem_of, rng):
    """Return the `Decision` whether the kernel of an estimator has main effects.

    If the user asks for them, they are learned in the same way, since a fit from other starts may
    end below the one without them.

    Parameters
    ----------
    estimator : BaseSparseGP
    problem_of : callable
        ``problem_of(choice)`` returns the `Problem` for a `KernelChoice`.
    rng : RandomState
    """
    choice = KernelChoice.of(estimator)
    if not choice.main_effects:
        return Decision(choice)
    is_auto = choice.main_effects == "auto"
    without, with_effects = (choice._replace(main_effects=value) for value in (False, True))
    unless_learned = Decision(without if is_auto else with_effects)
    if not choice.is_named:
        return unless_learned
    if estimator.warm_start and hasattr(estimator, "_theta"):
        has_effects = any(isinstance(part, MainEffects) for part in walk(estimator.kernel_))
        return Decision(with_effects) if has_effects else unless_learned
    problem = problem_of(without)
    n_varying = int(problem.spread.varies.sum())
    if not 1 < n_varying <= MOST_COLUMNS or not learns(estimator, problem.parameters):
        return unless_learned
    part, simple = _part(problem), _simple(estimator)
    found = search(simple, part, rng)
    plain, climbed = found.result, None
    # Where effects are demanded and f is constant without them, all starts are tried later.
    if not (plain.stopped if is_auto else plain.trivial):
        richer = _part(problem_of(with_effects))
        needed = plain.best.objective + FIRST_GAIN if is_auto else -np.inf
        climbed = _climb(simple, richer, plain, needed, rng)
    leaves_out = moves_points(estimator) or estimator.n_restarts_optimizer
    is_complete = part is problem and estimator.n_inducing != "auto" and not leaves_out
    if is_auto and (climbed is None or not _is_better(estimator, climbed, richer, plain, part)):
        if is_complete:
            return Decision(without, found=evaluated_last(found, problem))
        return _begun(without, plain, part, problem)
    if climbed is None:
        return unless_learned
    if is_complete:
        return Decision(with_effects, found=Found(result_of(richer.model, climbed, part.progress)))
    return _begun(with_effects, climbed, part, problem)


def _simple(estimator):
    """Return a copy of an estimator for the fits that are compared."""
    simple = copy(estimator)
    simple.optimize_inducing, simple.n_restarts_optimizer = False, 0
    if simple.n_inducing == "auto":
        simple.n_inducing = min(MOST_POINTS, estimator.max_inducing)
    return simple


def _part(problem):
    """Return the `Problem` of the rows that decide."""
    n_rows = len(problem.model.weight)
    n_rows = FEW_ROWS if n_rows < MANY_ROWS else min(int(SHARE * n_rows), MOST_ROWS)
    model = problem.model.at_most(n_rows)
    if model is problem.model:
        return problem
    rows = problem.rows._replace(X=model.X, weight=model.weight)
    return problem._replace(model=model, rows=rows)


def _begun(choice, fitted, part, problem):
    """Return the `Decision` from which a search on all rows goes on.

    `fitted` is what was learned on the rows of `part`, all rows or some of those of `problem`.
    """
    best, begun = fitted.best, None
    # Points that are some of the rows of a part might not suit all rows.
    first = best.points if part is problem else None
    if len(part.model.weight) > FEW_ROWS and fitted.hessian is not None:
        begun = Climb(best.theta, best, fitted.hessian)
    return Decision(choice, [best.theta], first, begun)


def _is_better(estimator, climbed, richer, plain, part):
    """Return whether main effects raise the objective by enough.

    Print the comparison if ``estimator.verbose`` is set.
    `climbed` and `plain` were learned with them and without, from the problems `richer` and `part`.
    """
    gain = climbed.best.objective - plain.best.objective
    needed = max(np.log(part.model.total_weight), FIRST_GAIN)
    if estimator.verbose:
        text = (
            f"main effects: {len(part.model.weight)} rows, "
            f"bound {climbed.best.elbo + richer.offset:.4f} with them, "
            f"{plain.best.elbo + part.offset:.4f} without, "
            f"gain with their prior {gain:.4f} of {needed:.4f} needed: "
            f"{'kept' if gain > needed else 'left out'}"
        )
        print_line(estimator, text, part.progress.label)
    return gain > needed


def _climb(estimator, problem, plain, needed, rng):
    """Return the `LocalFit` of a climb with main effects, or None if it fails.

    One begins at the fit without them, where they are small, unless that is a constant function,
    and two at a sum of effects, where the interaction is weak, since each may end at a far lower
    maximum than another. After a few iterations the best one goes on if its objective is above
    `needed`.

    Parameters
    ----------
    estimator : BaseSparseGP
    problem : Problem
    plain : FitResult
        The fit without main effects.
    needed : float
    rng : RandomState
    """
    selector, bounds = point_selector(estimator, problem, rng), problem.parameters.bounds
    progress = problem.progress

    def climb(start, limits, first=None, rival=-np.inf):
        """Return the `LocalFit` from a start, or None if it fails."""
        try:
            return fit_from(problem.model, start, selector, bounds, limits, first, rival=rival)
        except LinAlgError:
            return None

    limits = Limits(min(FIRST_ITERATIONS, estimator.max_iter), 0, progress)
    found = None
    if not plain.trivial:
        found = climb(_nested_start(problem, plain), limits, plain.best.points, needed)
    for share in (1.0, SHORT_LENGTH):
        if progress.stopped:
            break
        rival = needed if found is None else max(needed, found.best.objective)
        other = climb(_additive_start(problem, plain, share), limits, rival=rival)
        found = max(filter(None, (found, other)), key=lambda fit: fit.best.objective, default=None)
    if found is None or found.best.objective <= needed or progress.stopped:
        return found
    start = Start(found.best.theta, found.best.states, found.hessian)
    limits = Limits(estimator.max_iter, estimator.max_reselections, progress)
    return climb(start, limits) or found


def _nested_start(problem, plain):
    """Return the `Start` at a `FitResult` without main effects, to which these are added."""
    best, effects = plain.best, _effects(problem)
    variance = EFFECTS_SHARE * _variance(problem, best)
    theta = _with_effects(problem, best, best.theta[: effects.start], variance)
    if plain.hessian is None:
        hessian = typical_hessian(problem.model, len(theta))
    else:
        n_effects = effects.stop - effects.start
        hessian = plain.hessian.with_parameters(effects.start, n_effects, EFFECT_CURVATURE)
    return Start(theta, best.states, hessian)


def _additive_start(problem, plain, share):
    """Return the `Start` at a sum of effects, to which a weak interaction is added.

    `plain` is the `FitResult` without main effects. The length scales of the effects are the usual
    ones times `share`.
    """
    parameters, best, states = problem.parameters, plain.best, plain.best.states
    effects = _effects(problem)
    interaction = parameters.rescaled[: effects.start].copy()
    variance = _variance(problem, best)
    if plain.trivial:
        # A named kernel begins with the variance of the interaction.
        variance, states = np.exp(interaction[0]), None
    interaction[0] = np.log(WEAK_SHARE * variance)
    theta = _with_effects(problem, best, interaction, variance)
    if plain.trivial:
        theta[effects.stop :] = parameters.rescaled[effects.stop :]
    are_lengths = [column is not None for column in parameters.columns[effects]]
    theta[effects][are_lengths] += np.log(share)
    theta = np.clip(theta, *parameters.bounds.T)
    return Start(theta, states, typical_hessian(problem.model, len(theta)))


def _with_effects(problem, plain, interaction, variance):
    """Return theta at the start of a climb.

    It holds the hyperparameters of the `interaction`, those of main effects, and those of the
    likelihood from an `Evaluation` without effects, `plain`. The effects together have the given
    variance.
    """
    parameters, effects = problem.parameters, _effects(problem)
    of_effects = parameters.rescaled[effects].copy()
    are_variances = [column is None for column in parameters.columns[effects]]
    of_effects[are_variances] = np.log(variance / len(problem.spread.columns))
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
