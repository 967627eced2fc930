"""What searches take and return: settings, starts, runs of a search, and results of a fit."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sparsegpc._core.learning.maximization import typical_hessian
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.models.evaluation import Evaluation
from sparsegpc._core.models.prior import NormalPrior
from sparsegpc._core.optimisers.bfgs import BFGSHessian
from sparsegpc._core.selection.selectors import InducingPoints


class FitSettings(NamedTuple):
    """Settings of a fit.

    ``bounds`` (P, 2) holds the lower and upper bounds of theta. ``max_iter`` limits the iterations
    of one search over theta; if it is 0, theta stays fixed. ``max_reselections`` limits the
    selections after the first. ``progress`` records all evaluations, including those on subsets.
    Once ``progress.stopped`` is true, the sites of the best evaluation are solved on all rows and
    the fit ends.

    ``weak_prior``, a `NormalPrior`, is a further prior of theta in fits of a part of the rows,
    which may say little about some entries: where they prefer an infinite length scale, its
    gradient vanishes, and more rows could not make it finite. ``shorter_lengths`` are the
    alternatives that `bring_back` tries for columns that were pruned. ``report(n_selections,
    n_points, bound)`` is called after each selection of points. Each of these may be None.
    """

    bounds: np.ndarray
    max_iter: int
    max_reselections: int
    progress: Progress
    weak_prior: NormalPrior | None = None
    shorter_lengths: dict | None = None
    report: Callable | None = None


class Start(NamedTuple):
    """The start of a fit: hyperparameters ``theta``, and optionally more.

    If ``states`` is None, the fit starts from the model's initial states. If ``hessian`` is None,
    it uses the line search of L-BFGS-B. If ``points`` is None, it selects its first points.
    """

    theta: np.ndarray
    states: tuple | None = None
    hessian: BFGSHessian | None = None
    points: InducingPoints | None = None

    @classmethod
    def typical(cls, model, theta, states=None):
        """Return a start with a typical Hessian, where none has been learned or measured."""
        return cls(theta, states, typical_hessian(model, len(theta)))


class Run(NamedTuple):
    """A run of the search: theta where it begins, its best evaluation, and the Hessian it learned.

    The last two are None before the search.
    """

    begin: np.ndarray
    end: Evaluation | None = None
    hessian: BFGSHessian | None = None

    @property
    def objective(self):
        return self.end.objective

    def start_on(self, model):
        """Return the `Start` of quasi-Newton steps from the end on a model of other rows."""
        if self.end is None:
            return Start.typical(model, self.begin)
        states = model.states_from(self.end.theta, self.end.posterior)
        return Start(self.end.theta, states, self.hessian)


class StartOptions(NamedTuple):
    """Where a fit starts.

    ``values``
        A list of candidate values of theta (P,), the user's own first. If there are several, fits
        of a few rows decide from which of them to fit all rows.
    ``points``
        The first `InducingPoints`, or None to select them. If they are given, the fit begins at the
        best value itself, not at the end of a run on a part of the rows.
    ``run``
        The `Run` from the only value if it has begun on a part of the rows, else None.
    ``on_all_rows``
        Values from which the model is fitted in any case; each search stops early if it is
        unlikely to come near the best fit.
    ``restarts``
        Values from which searches run to their end, after everything else, so that they cannot
        lower the objective.
    ``fallbacks``
        Values from which the model is fitted only if no other fit is better than a constant
        function.
    ``simpler``
        Values at which a single summand of the kernel matters. The model is fitted from the best of
        them if few rows prefer it to what was learned.
    ``single_columns``
        A value at which no column matters, and a dict of length scales to try, one at a time; or
        None. With few rows, the columns that matter by themselves give one more simpler value.
    """

    values: list
    points: InducingPoints | None = None
    run: Run | None = None
    on_all_rows: list | tuple = ()
    restarts: list | tuple = ()
    fallbacks: list | tuple = ()
    simpler: list | tuple = ()
    single_columns: tuple | None = None


class FitResult(NamedTuple):
    """The result of a fit.

    ``best``
        The best evaluation.
    ``lower_bounds``
        The bound after each selection of points.
    ``message``
        Why the search did not converge; empty if it did. `Progress` tells whether it was stopped.
    ``hessian``
        What quasi-Newton steps learned, or None if there were none.
    ``has_moved``
        Whether the points were moved from where they were selected.
    ``trivial``
        Whether the fit is no better than a constant function; false before the fit is finished.
    ``search_end``
        The evaluation at the end of the search if ``best``, which may have more rows or fewer
        points, is another one; else None.
    """

    best: Evaluation
    lower_bounds: list
    message: str = ""
    hessian: BFGSHessian | None = None
    has_moved: bool = False
    trivial: bool = False
    search_end: Evaluation | None = None

    @property
    def converged(self):
        return not self.message

    @property
    def optimum(self):
        """The evaluation where the hyperparameters maximise the objective."""
        return self.best if self.search_end is None else self.search_end

    def start(self):
        """Return the `Start` from the best evaluation."""
        best = self.best
        return Start(best.theta, best.states, self.hessian, best.points)

    def start_on(self, model):
        """Return the `Start` from the best evaluation on a model of other rows."""
        states = model.states_from(self.best.theta, self.best.posterior)
        # If the points did not move, they are rows of the other model.
        points = self.best.points._replace(indices=None)
        return Start(self.best.theta, states, self.hessian, points)

    def followed_by(self, later):
        """Return a later result, with the lower bounds of this one before its own."""
        return later._replace(lower_bounds=[*self.lower_bounds, *later.lower_bounds])

    def moved(self, best, message):
        """Return the result after a search that moved the points, which ended at `best`."""
        lower_bounds = [*self.lower_bounds, best.elbo]
        return self._replace(best=best, lower_bounds=lower_bounds, message=message, has_moved=True)
