"""How many inducing points a fit uses if the user leaves their number open.

Learning begins with few points, which usually suffice. If they do not, it continues with as many as
an evaluation of the bound can afford. Its cost is proportional to N M^2 for N rows and M points.
"""

from math import isqrt
from typing import NamedTuple

from sparsegpc._core.likelihoods.gaussian import KnownNoise
from sparsegpc._core.models.model import SparseModel

# The number of points with which learning usually begins, and ends if there are many rows.
FIRST_POINTS = 200
# There may be more points as long as an evaluation costs no more than one with FIRST_POINTS points
# and this many rows. The first number limits the points of any fit, the second those of a fit that
# learns from a part of very many rows.
FULL_COST_ROWS, PART_COST_ROWS = 50_000, 625_000
# The first number limits the points with which learning begins if there is hardly any noise, the
# second those with which kernels are compared.
EXACT_COST_ROWS, COMPARISON_COST_ROWS = 25_000, 6_250
# If the most points are more than this fraction of the rows, all rows are points.
NEARLY_ALL = 0.7
# Known noise is small if its variance is less than SMALL_NOISE times that of the targets.
SMALL_NOISE = 1e-2


class DefaultPoints(NamedTuple):
    """Default numbers of points for a ``model``.

    ``is_part`` tells whether its rows are a part of very many rows.
    """

    model: SparseModel
    is_part: bool

    @property
    def first(self):
        """The number of points with which learning begins.

        Variance that few points leave unexplained costs its ratio to the noise. If that is small
        and cannot grow, the best hyperparameters for too few points are far from those for enough.
        """
        if self.is_part or not has_small_known_noise(self.model):
            return FIRST_POINTS
        return self._affordable(EXACT_COST_ROWS)

    @property
    def most(self):
        """The most points that a fit uses."""
        n_points = self._affordable(PART_COST_ROWS if self.is_part else FULL_COST_ROWS)
        n_rows = len(self.model.weight)
        # A point at every row loses nothing.
        return max(n_points, n_rows) if n_points > NEARLY_ALL * n_rows else n_points

    @property
    def for_comparison(self):
        """The number of points with which a kernel is compared with rougher ones."""
        return max(self.first, self._affordable(COMPARISON_COST_ROWS))

    def _affordable(self, cost_rows):
        return affordable_points(len(self.model.weight), self.model.n_functions, cost_rows)


def affordable_points(n_rows, n_functions=1, cost_rows=FULL_COST_ROWS):
    """Return M at which N M^2, for all functions together, is that of `cost_rows` rows."""
    return max(FIRST_POINTS, isqrt(cost_rows * FIRST_POINTS**2 // (n_rows * n_functions)))


def has_small_known_noise(model):
    """Return whether the noise is known, and small beside the deviations from a constant."""
    if not isinstance(model.likelihood, KnownNoise):
        return False
    deviations = [model.likelihood.scaled_deviation(y, model.fit_prior_mean) for y in model.targets]
    return SMALL_NOISE * max(deviations) > model.total_weight
