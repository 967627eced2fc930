"""What learning tells as it goes: the evaluations of the bound, one by one."""

from time import perf_counter
from typing import NamedTuple

import numpy as np

# Numbers that a history holds of each step, and their types.
COLUMNS = {
    "choice": np.intp,
    "n_samples": np.intp,
    "n_inducing": np.intp,
    "lower_bound": np.float64,
    "seconds": np.float64,
}


class Step(NamedTuple):
    """One step of learning, as it is told to a callback.

    ``iteration`` counts the steps from 0; ``choice`` the choices of inducing points; ``n_samples``
    rows, a subset of all perhaps, had the ``lower_bound`` in nats; ``seconds`` have gone since the
    beginning; ``label`` is the class where there is one model for each of them, else None.
    """

    iteration: int
    choice: int
    n_samples: int
    n_inducing: int
    lower_bound: float
    seconds: float
    label: object = None


class Progress:
    """The steps of learning so far, told as they happen, and whether it is to stop.

    Parameters
    ----------
    on_step : callable or None
        Called as ``on_step(step)`` with each `Step`; learning is asked to stop if it returns what
        is true, and it is called no more.
    label : object
        Of each `Step`.
    past : dict or None
        A history to go on from, times included.
    """

    def __init__(self, on_step=None, label=None, past=None):
        self._on_step, self.label, self._past = on_step, label, past
        self._steps, self._n_selections = [], 0
        self._begin = perf_counter()
        if past is not None:
            self._begin -= float(past["seconds"][-1])
        # What bounds lack to those that users are told, in nats per unit of weight.
        self.offset = 0.0
        self.stopped = False

    def count_selection(self):
        """Count a selection of inducing points, to which the next steps belong."""
        self._n_selections += 1

    def evaluated(self, model, evaluation):
        """Tell of an `Evaluation` of a `SparseModel`."""
        bound = evaluation.elbo + self.offset * model.total_weight
        self.add(len(model.weight), len(evaluation.points.Z), bound)

    def add(self, n_samples, n_inducing, lower_bound):
        """Tell of a step."""
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
        """Return a dict of arrays, an entry for each step, of at most the `longest` last ones."""
        new = {
            name: np.array([getattr(step, name) for step in self._steps], dtype=dtype)
            for name, dtype in COLUMNS.items()
        }
        if self._past is not None:
            new = {name: np.append(self._past[name], new[name]) for name in COLUMNS}
        return new if longest is None else {name: new[name][-longest:].copy() for name in new}
