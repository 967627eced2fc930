"""Learning from a data set in shuffled batches, and the final pass over all rows."""

import numpy as np

from sparsegpc._core.models.model import VARIANCE_ROWS, trivial_gain
from sparsegpc._core.optimisers.adam import cosine_annealing
from sparsegpc._core.rows.sources import spaced_rows


def epochs(model, state, X, y, weight, *, n_epochs, batch_size, rng, learning_rate=0.1):
    """Learn from all rows in shuffled batches, `n_epochs` times; yield the state after each epoch.

    Each batch reads its rows of `X` (N, D) in increasing order. The learning rate decreases to
    zero, see `StochasticModel.step`. An epoch costs 6 N M^2 + 10 N M^3 / N_b with batches of N_b
    rows.
    """
    n_rows = len(y)
    n_batches = -(-n_rows // batch_size)
    for epoch in range(n_epochs):
        batches = np.array_split(rng.permutation(n_rows), n_batches)
        for k, batch in enumerate(batches):
            rows = np.sort(batch)
            rate = cosine_annealing(learning_rate, (epoch + k / n_batches) / n_epochs)
            state = model.step(
                state, X[rows], y[rows], weight[rows], n_total=n_rows, learning_rate=rate
            )
        yield state


def solve_best(model, state, start, X, y, weight, batch_size):
    """Return the optimal state for all rows at the learned hyperparameters, or at better ones.

    The noise of the batches may lead to poor hyperparameters. If their bound is below that of the
    best constant function, the initial hyperparameters are tried, and then those for which f is
    nearest to a constant. `state` and `start` are the end and the beginning of the search. Return,
    too, whether the learned hyperparameters were clearly worse than those of the best state.
    """

    def objective(solved):
        return model.bound(solved) + model.log_prior(solved.theta)[0]

    best = model.solve(state, X, y, weight, batch_size)
    constant, end = model.constant_bound(y, weight), objective(best)
    if end >= constant:
        return best, False
    some_rows = X[spaced_rows(X, VARIANCE_ROWS)]
    for theta in (start.theta, model.constant_theta(start.theta, some_rows, y, weight)):
        begin = model.start(theta, start.Z)._replace(n_seen=state.n_seen)
        solved = model.solve(begin, X, y, weight, batch_size)
        if objective(solved) > objective(best):
            best = solved
        if objective(best) >= constant:
            break
    return best, objective(best) - end > trivial_gain(weight.sum())
