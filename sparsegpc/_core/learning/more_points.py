"""Continue a fit with more inducing points, or better ones, where the first are too few."""

from numpy.linalg import LinAlgError

from sparsegpc._core.learning.curvature import measured_hessian
from sparsegpc._core.learning.fit import with_final_sites
from sparsegpc._core.learning.growing_subsets import subset_for_moves
from sparsegpc._core.learning.maximization import typical_hessian
from sparsegpc._core.learning.moved_points import N_PAIRS, move, move_on_all_rows
from sparsegpc._core.learning.runs import Run, Start
from sparsegpc._core.learning.single_start import fit_from
from sparsegpc._core.numerics.linalg import attempted
from sparsegpc._core.optimisers.lbfgs import CorrectionPairs

# Largest number of iterations of a search that moves the points, and the expected gain of a step,
# in nats a row, below which it ends.
MOST_MOVES, LEAST_GAIN_PER_ROW = 30, 1e-4


def fit_with_more_points(model, result, selector, settings):
    """Continue a fit with other inducing points, and return the better `FitResult`.

    The search begins at the hyperparameters and sites of `result`, with its Hessian if that is not
    measured (`curvature`).
    """
    before, hessian = result.best, result.hessian
    if settings.max_iter:
        end = Run(before.theta, before)
        hessian = measured_hessian(model, end, selector, settings) or hessian
    if hessian is None:
        hessian = typical_hessian(model, len(before.theta))
    best, start = result._replace(hessian=hessian), Start(before.theta, before.states, hessian)
    # Many points may lie too close together where fewer did not.
    found = attempted(fit_from, model, start, selector, settings)
    if found is not None:
        is_better = found.best.objective > before.objective
        # Even a search that finds nothing better learns about the Hessian.
        best = result.followed_by(found) if is_better else best._replace(hessian=found.hessian)
    return with_final_sites(model, best, settings.progress)


def fit_moved(model, result, settings):
    """Move the inducing points of a fit for a few iterations, and return the better `FitResult`.

    There are at most `MOST_MOVES` iterations instead of ``settings.max_iter``. If there are many
    rows for each point, most of them are on a part of the rows.
    """
    settings = settings._replace(max_iter=MOST_MOVES)
    tol = LEAST_GAIN_PER_ROW * model.total_weight
    small = subset_for_moves(model, len(result.best.points.Z))
    try:
        if small is None:
            found = move(model, result.start(), settings, tol=tol)
        else:
            pairs, small_tol = CorrectionPairs(N_PAIRS), LEAST_GAIN_PER_ROW * small.total_weight
            end = move(small, result.start_on(small), settings, tol=small_tol, pairs=pairs).best
            at_end = result._replace(best=end)
            found = move_on_all_rows(model, small, at_end, settings, tol=tol, pairs=pairs)
        if found.best.objective > result.best.objective:
            result = result.moved(found.best, result.message)
    except LinAlgError:
        # Where they are, the points are good enough to compute the bound.
        pass
    return with_final_sites(model, result, settings.progress)
