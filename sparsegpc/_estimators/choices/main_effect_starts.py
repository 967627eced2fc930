"""Start values of main effects, beside what was learned without them."""

import numpy as np

from sparsegpc._core.diagnostics.similar_distances import similar_distances
from sparsegpc._core.learning.maximization import typical_hessian
from sparsegpc._core.learning.runs import Start
from sparsegpc._core.numerics.floats import TINY
from sparsegpc._estimators.kernels.length_scales import (
    effect_columns,
    lengths_by_column,
    shortened_effects,
)
from sparsegpc._estimators.kernels.named_kernels import EFFECTS_SHARE
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


class MainEffectStarts:
    """Starts of a model with main effects.

    In theta the hyperparameters of the interaction are followed by those of the effects, and these
    by those of the likelihood. `problem` is that with main effects, and `plain` the `FitResult`
    without them.
    """

    def __init__(self, problem, plain):
        self._problem, self._plain = problem, plain
        self._hyperparameters, self._spread = problem.hyperparameters, problem.spread
        self._usual, learned = self._hyperparameters.rescaled, plain.best.theta
        entries = self._hyperparameters.entries
        first = [entry.effect for entry in entries].index(MainEffects)
        self._effects = slice(first, problem.model.kernel.n_params)
        self._interaction = learned[:first]
        if plain.trivial:
            # A named kernel begins with the variance of the interaction.
            self._variance, self._states = np.exp(self._usual[0]), None
            self._likelihood = self._usual[self._effects.stop :]
        else:
            # In noisy data and under labels, the variance of the kernel may be far from that of f.
            mean, _ = plain.best.posterior.moments(problem.model.some_rows())
            self._variance, self._states = max(mean.var(axis=1).mean(), TINY), plain.best.states
            self._likelihood = learned[first:]

    def all(self):
        """Return a list of `Start`."""
        if self._plain.trivial:
            starts = [self._additive(self._usual)]
        else:
            own = self._own_lengths()
            starts = [self.nested(), self._additive(own), *self._without_slow_columns(own)]
        starts.append(self._additive(self._usual + np.log(SHORT_LENGTH)))
        distances = similar_distances(self._problem.model, self._plain.best)
        if np.isfinite(distances).any():
            starts.append(self._shortened(starts[0], distances))
        return starts

    def nested(self):
        """Return the `Start` at the fit without main effects, to which small ones are added."""
        theta = self._theta(self._interaction, self._usual, EFFECTS_SHARE)
        hessian = self._extended_hessian(len(theta))
        return Start(theta, self._states, hessian, self._plain.best.points)

    def _additive(self, lengths):
        """Return the `Start` at a sum of effects, to which a weak interaction is added."""
        interaction = self._usual[: self._effects.start].copy()
        interaction[0] = np.log(WEAK_SHARE * self._variance)
        return self._start(self._theta(interaction, lengths))

    def _without_slow_columns(self, lengths):
        """Return a list of the `Start` at an interaction of the fast columns beside effects of all.

        It is empty if no column is slow in the fit without effects. There a slow column may be in
        the interaction only because its effect had no other place: a line beside a wave of two
        columns makes the variance large and the length scales of the wave too long.
        """
        relative = {
            k: self._interaction[k] - np.log(self._spread.units[column])
            for column, indices in lengths_by_column(self._hyperparameters, self._spread).items()
            for k in indices
        }
        limit = min(relative.values(), default=0.0) + np.log(SLOW)
        slow = [k for k in relative if relative[k] > limit]
        if not slow:
            return []
        interaction = self._interaction.copy()
        interaction[slow] += np.log(LEAVING)
        theta = self._theta(interaction, lengths)
        return [Start(theta, self._states, self._extended_hessian(len(theta)))]

    def _shortened(self, start, distances):
        """Return a `Start` where effects vary within the distances (D,) of similar deviations.

        Where deviations of rows that are near in a single column are correlated, f misses a
        function of that column that varies on this scale.
        """
        columns, bounds = effect_columns(self._hyperparameters), self._hyperparameters.bounds
        return self._start(shortened_effects(start.theta, columns, distances, bounds))

    def _own_lengths(self):
        """Return values (P,) with which effects vary as fast as the fit without them does."""
        theta = self._usual.copy()
        columns = self._hyperparameters.columns[: self._effects.start]
        own = dict(zip(columns, self._interaction, strict=True))
        for k, column in effect_columns(self._hyperparameters).items():
            if isinstance(column, int):
                theta[k] = min(own[column], np.log(MOST_UNITS * self._spread.units[column]))
        return theta

    def _theta(self, interaction, lengths, share=1.0):
        """Return theta at a start.

        The effects together have this fraction of the variance of f, and their length scales are
        those in `lengths` (P,).
        """
        effects = lengths[self._effects].copy()
        are_variances = [
            entry.is_variance for entry in self._hyperparameters.entries[self._effects]
        ]
        effects[are_variances] = np.log(share * self._variance / len(self._spread.deviations))
        theta = np.concatenate([interaction, effects, self._likelihood])
        return np.clip(theta, *self._hyperparameters.bounds.T)

    def _start(self, theta):
        return Start.typical(self._problem.model, theta, self._states)

    def _extended_hessian(self, n_params):
        """Return the Hessian of the fit without effects, extended by a typical one of effects."""
        if self._plain.hessian is None:
            return typical_hessian(self._problem.model, n_params)
        first, n_effects = self._effects.start, self._effects.stop - self._effects.start
        return self._plain.hessian.with_parameters(first, n_effects, EFFECT_CURVATURE)
