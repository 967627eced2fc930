"""Double the number of inducing points until they are enough.

A certificate is about the hyperparameters that were learned, and with too few points these are
others: long length scales, at which few points suffice. So learning with twice as many points must
confirm it, and a few rows with a point at each must not contradict what was learned.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from sparsegpc._core.learning.single_start import FitResult

# Enough points for an easy problem, at negligible cost.
FIRST_SIZE = 50
# Growth stops when doubling gains less than this fraction of the gain over a constant function.
PLATEAU = 1e-3


class Growth(NamedTuple):
    """The best fit, a record of each size (a list of dicts), and the reason why growth ended."""

    result: FitResult
    history: list
    end: str


class PointGrowth(ABC):
    """Fits a model with ever more points until these are enough.

    The number of points doubles from one fit to the next, up to `max_points`. Growth stops when the
    gap of the certificate is at most `tol`, in nats per row, and twice as many points gain no more.
    If the fits do not learn theta (``learns``), the certificate needs no such confirmation. A
    subclass makes the fits.
    """

    learns = True

    def __init__(self, model, progress, tol, max_points):
        self.model, self.progress = model, progress
        self.tol, self.max_points = tol, max_points

    @abstractmethod
    def fit(self, n_points, starts):
        """Return the `FitResult` from a list of theta; if that is None, `fit` chooses it."""

    @abstractmethod
    def gap(self, evaluation):
        """Return the gap between an upper bound and the lower bound, in nats per row."""

    def is_contradicted(self, theta):
        """Return whether the data contradict theta, so that growth has to go on."""
        return False

    def grow(self, starts, first_size=FIRST_SIZE):
        """Return the `Growth` from `starts`, which the first fit gets.

        Each further fit starts from the theta of the best so far, or from the first `starts` again
        if the last theta is contradicted.

        The ``end`` is "certified", "full_rank" (the points span all rows), "max_inducing",
        "plateau" or "stopped" (by the callback). If it is "certified", the last fit confirmed the
        result, or is the result because nothing can confirm it.
        """
        model, tol, max_points = self.model, self.tol, self.max_points
        size, history, best, before = min(first_size, max_points), [], None, None
        first = starts
        while True:
            result = self.fit(size, starts)
            found = result.best
            n_points, gap = len(found.points.Z), self.gap(found)
            history.append({"n_inducing": n_points, "lower_bound": found.elbo, "gap_per_row": gap})
            gained = np.inf if best is None else found.objective - best.best.objective
            if gained > 0.0:
                best = result
            if self.progress.stopped:
                return Growth(best, history, "stopped")
            is_certified = gap <= tol
            if is_certified and not self.learns:
                return Growth(result, history, "certified")
            contradicted = self.is_contradicted(found.theta)
            is_confirmed = before is not None and not contradicted
            gains_little = gained <= tol * model.total_weight
            if is_confirmed and gains_little and history[-2]["gap_per_row"] <= tol:
                return Growth(before, history, "certified")
            if n_points < size or size == max_points:
                end = "full_rank" if n_points < size else "max_inducing"
                end = "certified" if is_certified and best is result else end
                return Growth(best, history, end)
            gain = found.objective - model.constant_bound()
            if is_confirmed and gained <= max(PLATEAU * gain, model.tol):
                return Growth(best, history, "plateau")
            before, starts = (None, first) if contradicted else (result, [best.best.theta])
            size = min(2 * size, max_points)
