"""Learning of a Bayesian GP-LVM: the start, and the search."""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.latent_inputs.collapsed_bound import LatentEvaluation, LatentParams, evaluate
from sparsegpc._core.latent_inputs.new_rows import project
from sparsegpc._core.optimisers.lbfgsb import maximize_lbfgsb

# A row can be far from its best place, with no uphill path to it. So the search is interrupted
# after this many iterations, then after twice as many, and so on. Each row then moves to the place
# of another row if that fits it better, and the search continues.
FIRST_ROUND = 50
# Largest and smallest variances of q(x), squared length scales, and variances of f and of noise, of
# columns whose mean square is one.
VARIANCES, WIDTHS, SIGNALS, NOISES = (1e-8, 1e2), (1e-4, 1e8), (1e-4, 1e4), (1e-6, 1e2)
# The start: variances of q(x), and the length scale of the first component, whose scores have unit
# variance.
START_VARIANCE, START_LENGTH_SCALE = 0.1, 2.0
# Rounds in which missing values are replaced by their reconstructions from principal components.
FILLING_ROUNDS = 10


class Learned(NamedTuple):
    """The parameters, the evaluation there, and how the search ended."""

    params: LatentParams
    evaluation: LatentEvaluation
    converged: bool
    n_iter: int


def principal_start(data, n_latent, n_points, rng):
    """Return the `LatentParams` at the principal components of the columns.

    The points are random rows; `rng` is a RandomState. Cost N D min(N, D). Components beyond the
    rank are random.
    """
    n_rows, n_columns = data.Y.shape
    missing = data.patterns[data.pattern_of].T == 0.0
    filled = data.Y.copy()
    rank = min(n_latent, n_rows, n_columns)
    for _ in range(FILLING_ROUNDS if missing.any() else 1):
        left, singular, right = np.linalg.svd(filled, full_matrices=False)
        reconstruction = (left[:, :rank] * singular[:rank]) @ right[:rank]
        filled[missing] = reconstruction[missing]
    left, squares = left[:, :rank], np.maximum(singular**2, 1e-8 * (singular**2).sum() + 1e-300)
    # The sign of a singular vector is arbitrary.
    left *= np.sign(left[np.abs(left).argmax(axis=0), np.arange(rank)])
    mean = rng.normal(size=(n_rows, n_latent))
    mean[:, :rank] = left * n_rows**0.5
    Z = mean[rng.permutation(n_rows)[:n_points]]
    Z += 0.01 * rng.normal(size=Z.shape)
    widths = np.full(n_latent, START_LENGTH_SCALE**2 * squares[0] / squares[rank - 1])
    widths[:rank] = START_LENGTH_SCALE**2 * squares[0] / squares[:rank]
    noise = np.clip(squares[rank:].sum() / squares.sum(), 0.01, 1.0)
    variance = np.full(mean.shape, START_VARIANCE)
    return LatentParams(mean, variance, Z, np.clip(widths, *WIDTHS), 1.0, float(noise))


def learn(data, params, *, max_iter, tol):
    """Maximise the bound from a start, and return `Learned`.

    If it ends below the bound of noise alone, the search goes on from there. There are at most
    `max_iter` iterations of L-BFGS-B in all. The search ends when an iteration, or a move of all
    rows, gains less than `tol` nats. Raises `LinAlgError` if the bound cannot be computed at the
    start.
    """
    learned = _learn_from(data, params, max_iter, tol)
    noise = _noise_alone(params)
    evaluation, n_left = evaluate(noise, data), max_iter - learned.n_iter
    if evaluation.value <= learned.evaluation.value:
        return learned
    if n_left == 0:
        return Learned(noise, evaluation, False, learned.n_iter)
    other = _learn_from(data, noise, n_left, tol)
    return other._replace(n_iter=learned.n_iter + other.n_iter)


def _noise_alone(params):
    """Return `LatentParams` at which f is nearly zero, and q(X) nearly the prior."""
    return params._replace(
        # Where the means are zero, so is the gradient.
        mean=0.01 * params.mean,
        variance=np.ones(params.mean.shape),
        widths=np.ones(len(params.widths)),
        signal=SIGNALS[0],
        noise=1.0,
    )


def _learn_from(data, params, max_iter, tol):
    """Return what `learn` returns for a single start."""
    start, bounds, n_iter, length = params, _bounds(params), 0, FIRST_ROUND
    current = evaluate(params, data)
    while True:
        search = maximize_lbfgsb(
            lambda x, near: evaluate(start.from_vector(x), data),
            current,
            bounds,
            max_iter=min(length, max_iter - n_iter),
            tol=tol,
            patience=5,
        )
        n_iter, length = n_iter + search.n_iter, 2 * length
        params = start.from_vector(search.best.x)
        rows = project(
            data.given,
            search.best.posterior,
            data.slack,
            (params.mean, params.variance),
            own=(params.mean, params.variance),
            max_iter=FIRST_ROUND,
            tol=1e-3 * tol / len(data.Y),
            **data.options,
        )
        params = params._replace(mean=rows.mean, variance=np.clip(rows.variance, *VARIANCES))
        current = evaluate(params, data)
        converged = search.converged and current.value - search.best.value <= tol
        if converged or n_iter >= max_iter:
            return Learned(params, current, converged, n_iter)


def _bounds(params):
    """Return the bounds (P, 2) of the vector of parameters."""
    free, positive = [(-np.inf, np.inf)], np.log([VARIANCES, WIDTHS, SIGNALS, NOISES])
    n_latent, n_points = len(params.widths), params.Z.size
    q_mean, q_variance = free * params.mean.size, [positive[0]] * params.mean.size
    return np.vstack([q_mean, q_variance, free * n_points, [positive[1]] * n_latent, positive[2:]])
