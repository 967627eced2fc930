"""A record of the evaluations of the bound during a fit, which are also passed to a callback."""

from time import perf_counter
from typing import NamedTuple

import numpy as np

# Columns of a history and their types.
COLUMNS = {
    "choice": np.intp,
    "n_samples": np.intp,
    "n_inducing": np.intp,
    "lower_bound": np.float64,
    "seconds": np.float64,
}


class Step(NamedTuple):
    """One evaluation of the bound, the argument of a callback.

    ``iteration`` counts the evaluations and ``choice`` the selections of points, both from 0.
    ``lower_bound`` is the bound in nats on ``n_samples`` rows, which may be a subset of all rows,
    with ``n_inducing`` points. ``seconds`` is the time since the start of the fit. ``label`` is the
    class if each class has its own model, else None.
    """

    iteration: int
    choice: int
    n_samples: int
    n_inducing: int
    lower_bound: float
    seconds: float
    label: object = None


class Progress:
    """Records the steps of a fit, passes each to a callback, and stores whether to stop.

    ``on_step(step)`` is called after each `Step`, which has the given `label`. Once it returns a
    true value, ``stopped`` is true and there are no further calls. The record continues `past`, the
    history of an earlier fit, with its times. ``site_iterations`` and ``optimizer_iterations`` sum
    the passes of the site solver and the iterations of the optimisers.
    """

    def __init__(self, on_step=None, label=None, past=None):
        self._on_step, self.label, self._past = on_step, label, past
        self._steps, self._n_selections = [], 0
        self._begin = perf_counter()
        if past is not None:
            self._begin -= float(past["seconds"][-1])
        # A constant that is added to the bound in each step, in nats per unit of weight.
        self.offset = 0.0
        self.stopped = False
        self.site_iterations = self.optimizer_iterations = 0

    def evaluate(self, model, theta, points, states, *, has_new_points=False, **options):
        """Evaluate a `SparseModel` with these options, record the `Evaluation` and return it."""
        evaluation = model.evaluate(theta, points, states, **options)
        self.evaluated(model, evaluation, has_new_points=has_new_points)
        return evaluation

    def evaluated(self, model, evaluation, *, has_new_points=False):
        """Record an `Evaluation` of a `SparseModel`, with which a choice of points may begin."""
        self._n_selections += has_new_points
        self.site_iterations += sum(solution.n_iter for solution in evaluation.solutions)
        bound = evaluation.elbo + self.offset * model.total_weight
        self.add(len(model.weight), len(evaluation.points.Z), bound)

    def add(self, n_samples, n_inducing, lower_bound):
        """Record a step and call the callback."""
        step = Step(
            len(self._steps),
            max(self._n_selections - 1, 0),
            n_samples,
            n_inducing,
            float(lower_bound),
            perf_counter() - self._begin,
            self.label,
        )
        self._steps.append(step)
        if self._on_step is not None and not self.stopped:
            self.stopped = bool(self._on_step(step))

    def history(self, longest=None):
        """Return a dict of arrays with one entry per step, at most the last `longest` steps."""
        new = {
            name: np.array([getattr(step, name) for step in self._steps], dtype=dtype)
            for name, dtype in COLUMNS.items()
        }
        if self._past is not None:
            new = {name: np.append(self._past[name], new[name]) for name in COLUMNS}
        return new if longest is None else {name: new[name][-longest:].copy() for name in new}
