"""Maximisation of many functions of few variables at once, by BFGS.

Each row has its own function and its own search; only the evaluations are shared. So the result of
a row does not depend on the other rows.
"""

import numpy as np

# A step is accepted if it gains this fraction of what the slope promises, up to rounding errors.
SUFFICIENT, ROUNDING = 1e-4, 1e-12
# A search ends where steps have become shorter than this fraction of the quasi-Newton step.
SHORTEST = 1e-6
# Largest change of a variable in one step.
LONGEST = 1.0


def maximize_many(function, x, inverse_curvature, *, max_iter, tol):
    """Maximise the function of each row, from x (N, P).

    ``function(x, rows)`` returns the values (n,) and the gradients (n, P) at ``x`` (n, P) of the
    functions of the rows with the indices ``rows`` (n,). `inverse_curvature` (N, P) guesses the
    inverse of minus the second derivatives. The search of a row ends when the expected gain of its
    next step is less than `tol`, or after `max_iter` evaluations.

    Return the maxima (N, P), the values there (N,), and whether each search ended before
    `max_iter`, (N,). Memory N P^2, and as much time for each evaluation beyond that of the
    functions.
    """
    x, running = x.copy(), np.arange(len(x))
    values, gradients = function(x, running)
    inverses = inverse_curvature[:, :, None] * np.eye(x.shape[1])
    lengths = np.ones(len(x))
    for _ in range(max_iter):
        steps = np.einsum("nij,nj->ni", inverses[running], gradients[running])
        slopes = np.einsum("ni,ni->n", steps, gradients[running])
        goes_on = (0.5 * slopes > tol) & (lengths[running] > SHORTEST)
        running, steps, slopes = running[goes_on], steps[goes_on], slopes[goes_on]
        if not len(running):
            break
        cut = np.minimum(lengths[running], LONGEST / np.abs(steps).max(axis=1))
        steps *= cut[:, None]
        trials, trial_gradients = function(x[running] + steps, running)
        old = values[running]
        needed = SUFFICIENT * cut * slopes - ROUNDING * (1.0 + np.abs(old))
        accepted = trials - old >= needed
        lengths[running] = np.where(accepted, 1.0, 0.3 * cut)
        rows, steps = running[accepted], steps[accepted]
        falls = gradients[rows] - trial_gradients[accepted]
        x[rows] += steps
        values[rows], gradients[rows] = trials[accepted], trial_gradients[accepted]
        inverses[rows] = _updated(inverses[rows], steps, falls)
    converged = np.ones(len(x), dtype=bool)
    converged[running] = False
    return x, values, converged


def _updated(inverses, steps, falls):
    """Return the BFGS updates of the inverses, or the old ones where no curvature is seen."""
    curvature = np.einsum("ni,ni->n", steps, falls)
    positive = curvature > 1e-10 * np.linalg.norm(steps, axis=1) * np.linalg.norm(falls, axis=1)
    inverse_curvature = np.where(positive, 1.0 / np.where(positive, curvature, 1.0), 0.0)
    ahead = np.einsum("nij,nj->ni", inverses, falls)
    weight = inverse_curvature * (1.0 + inverse_curvature * np.einsum("ni,ni->n", falls, ahead))
    cross = inverse_curvature[:, None, None] * ahead[:, :, None] * steps[:, None, :]
    squares = weight[:, None, None] * steps[:, :, None] * steps[:, None, :]
    return inverses + squares - cross - cross.transpose(0, 2, 1)
