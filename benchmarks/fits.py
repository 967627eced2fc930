"""What a fit took: seconds, evaluations, passes and memory, and what one evaluation would take.

The unit of work is one value and gradient at fixed sites on all rows, with all points. A fit is
compared with it twice: by CPU seconds, and by operations. An evaluation with k passes of the site
solver takes (2 k + 5) N M^2 operations, one with Gaussian noise 6 N M^2; those on subsets count
with their own N and M, the choice of points does not count.
"""

import warnings
from unittest.mock import patch

import numpy as np
from measure import MIB, current_memory, peak_memory, restart_peak, steady_cost, timed
from sklearn.exceptions import ConvergenceWarning

from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.threads import single_threaded_blas

NUDGE = 1e-3


class Observer:
    """Context that notes each evaluation of the bound, and keeps the last on the most rows."""

    def __init__(self):
        self._work = []
        self._model = self._last = None

    def __enter__(self):
        evaluate = SparseModel.evaluate

        def noted(model, *args, **kwargs):
            result = evaluate(model, *args, **kwargs)
            n_iter = sum(solution.n_iter for solution in result.solutions)
            operations = 6 if model.likelihood.has_fixed_sites else 2 * n_iter + 5
            n_rows, n_points = len(model.weight), len(result.points.Z)
            self._work.append((n_rows, n_iter, operations * n_rows * n_points**2))
            if self._model is None or n_rows >= len(self._model.weight):
                self._model, self._last = model, result
            return result

        self._patch = patch.object(SparseModel, "evaluate", noted)
        self._patch.start()
        return self

    def __exit__(self, *error):
        self._patch.stop()

    def figures(self):
        """Return the counted work by name, and the cost of an evaluation at fixed sites."""
        n_rows, passes, operations = np.array(self._work, dtype=np.float64).T
        is_full = n_rows == n_rows.max()
        unit_operations = 6 if self._model.likelihood.has_fixed_sites else 7
        unit = unit_operations * n_rows.max() * len(self._last.points.Z) ** 2
        cost = self._cost_at_fixed_sites()
        return {
            "distinct_rows": int(n_rows.max()),
            "full_evaluations": int(is_full.sum()),
            "full_passes": int(passes[is_full].sum()),
            "work": float(operations.sum() / unit),
            "evaluation_wall": cost.wall,
            "evaluation_cpu": cost.cpu,
        }

    def _cost_at_fixed_sites(self):
        """Return the cost of a value and gradient: one pass, no search for sites."""
        model, last = self._model, self._last

        def evaluate(i):
            theta = last.theta + NUDGE * i  # so that nothing can be kept
            model.evaluate(theta, last.points, last.states, tol=np.inf, max_iter=1)

        with single_threaded_blas():
            return steady_cost(evaluate)


def measured_fit(model, X, y, count_work=True):
    """Fit any estimator and return figures by name, None for those that it does not have.

    Seconds; evaluations and passes in all and on all rows; ``work`` in evaluations at fixed sites
    by operations and ``ratio`` by CPU seconds; MiB of the process at its peak during the fit, and
    how much of that came on top of what was there before.
    """
    restart_peak()
    before = current_memory()
    with Observer() as observer, warnings.catch_warnings():
        # Speed does not depend on whether hyperparameters are at their bounds.
        warnings.simplefilter("ignore", ConvergenceWarning)
        cost = timed(lambda: model.fit(X, y))[1]
    peak = peak_memory()
    figures = {
        "fit_wall": cost.wall,
        "fit_cpu": cost.cpu,
        "peak_mib": peak / MIB,
        "fit_mib": None if before is None else (peak - before) / MIB,
        "bound": getattr(model, "lower_bound_", None),
        "evaluations": getattr(model, "n_evaluations_", None),
        "passes": getattr(model, "n_site_iterations_", None),
        "points": len(model.inducing_points_) if hasattr(model, "inducing_points_") else None,
    }
    if count_work:
        figures |= observer.figures()
        figures["ratio"] = figures["fit_cpu"] / figures["evaluation_cpu"]
    return figures


def prediction_rate(predict, X):
    """Return the rows per wall second of ``predict(X)``."""
    return len(X) / steady_cost(lambda i: predict(X), seconds=0.5).wall
