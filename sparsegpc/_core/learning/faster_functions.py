"""Search once more, from other starts, where a function was taken for noise (`diagnostics`).

A search that starts with long length scales may find only slow variation of f, and take the rest
for noise. With many rows, searches on a part of them tell which start is better, if any, and the
search on all rows continues from the end of the best.
"""

import numpy as np

from sparsegpc._core.learning.fit import with_final_sites
from sparsegpc._core.learning.runs import Run, Start
from sparsegpc._core.learning.single_start import MANY_ROWS, continue_run, fit_from
from sparsegpc._core.numerics.linalg import attempted

# Of many rows, this many tell from which start to continue.
RANKING_ROWS = 2000


def fit_faster(model, result, thetas, selector, settings):
    """Fit from `thetas`, of shape (P,) each, as well, and return the better `FitResult`."""
    best = result
    if len(model.weight) >= MANY_ROWS:
        starts = _found_in_part(model, result, thetas, selector, settings)
    else:
        starts = [Start.typical(model, theta) for theta in thetas]
    for start in starts:
        reached = best.best.objective
        found = attempted(fit_from, model, start, selector, settings, reached)
        if found is None:
            # Rows may lie too close together for another kernel.
            continue
        if found.best.objective > reached:
            best = result.followed_by(found)
        if settings.progress.stopped:
            break
    return with_final_sites(model, best, settings.progress)


def _found_in_part(model, result, thetas, selector, settings):
    """Return the `Start` for all rows at the best end of searches on a part of them.

    The list that holds it is empty if the search from the hyperparameters of `result` is the best.
    """
    part, best, winner = model.subsample(RANKING_ROWS), None, 0
    for k, theta in enumerate((result.best.theta, *thetas)):
        to_beat = -np.inf if best is None else best.objective
        run = attempted(continue_run, part, Run(theta), selector, settings, to_beat)
        if run is None:
            continue
        if run.objective > to_beat:
            best, winner = run, k
        if settings.progress.stopped:
            return []
    return [best.start_on(model)] if winner > 0 else []
