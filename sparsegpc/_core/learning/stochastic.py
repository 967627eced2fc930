r"""Learning from minibatches of rows, of a data set or of a stream: what all likelihoods share.

Before q(u) is collapsed the bound is a sum over rows less a Kullback-Leibler divergence (Hensman,
Fusi, Lawrence 2013; Hensman, Matthews, Ghahramani 2015; for the tight slack Titsias 2025),

.. math::
    \sum_n \{ w_n E_{q(f_n)}[\log p(y_n \mid f_n)] + \mathrm{slack}_n \} - KL[q(u) \| p(u)],

so a batch of rows estimates it and its gradient. Weights w are powers of the likelihood.

q(u) is held by its natural parameters, which at the optimum are the sums over rows of the sites of
`collapsed`. Here they are *running* sums S over a window of n rows: what was there fades, then a
batch of b rows enters with weight one,

.. math::
    S \leftarrow \frac{n' - b}{n} S + S_{batch}, \qquad n' = \max(b, \min(n + b, limit)).

At n' = n this is a natural-gradient step of length b/n towards the estimate that the batch gives
for n rows (Khan and Lin 2017 for sites that depend on q). The sum never grows by more than a batch,
so at one visit no row counts more than once: q(u) is never surer than the rows in the window allow,
and hyperparameters are learned from the evidence of as many rows.

The running sums outlive the hyperparameters that they were computed with. Held as they are, in
whitened coordinates, they would speak of another function after each move of the kernel. What stays
is what the rows said of f at the inducing points: the sums are carried over as sites on f(Z),
:math:`S' = R S R^\top` with :math:`R = L'^{-1} K'(Z', Z) L^{-\top}` (the projection of Bui, Nguyen,
Turner 2017). That is exact for every change of the scale of the kernel, and for any change at all
where the rows are the inducing points; else it is right for small moves, and the window forgets the
steps before.

Hyperparameters, and inducing points if asked for, follow the batch's estimate of the gradient at
fixed q(u) by Adam (Kingma and Ba 2015).
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.bounds.collapsed import RowSums
from sparsegpc._core.bounds.features import RowFeatures, factor_inducing
from sparsegpc._core.learning.inference import trivial_gain
from sparsegpc._core.models.model import FEW_ROWS
from sparsegpc._core.numerics.linalg import (
    JITTER_ATTEMPTS,
    inverse_from_cholesky,
    solve_cholesky,
    solve_lower,
)
from sparsegpc._core.rows.blocks import DEFAULT_MEMORY, RowBlocks
from sparsegpc._core.rows.sources import spaced_rows

# Of the slacks of `collapsed` those that are sums over rows.
SLACKS = ("tight", "standard")
LEARNING_RATE = 0.1
# While hyperparameters move, the window holds this many batches over the learning rate: the time
# in which Adam, at its fastest, changes one by a factor of e. A wider one keeps what was said of
# functions long left, a narrower one learns from too few rows.
WINDOW = 1.0
# Of a stream: the number of steps after which the learning rate is half of what it was.
HALVING_STEPS = 20
# Adam's weights of the last step in the running means of the gradient and of its square.
MEAN_WEIGHT, SQUARE_WEIGHT = 0.1, 0.05
# Inducing points move in units of this share of their columns' deviation.
POINT_UNIT = 0.3
TINY = np.finfo(np.float64).tiny


class Ascent(NamedTuple):
    """Adam's running means of the gradient and of its square, and the number of steps so far.

    One entry for each of theta, then of Z.
    """

    n_steps: int
    mean: np.ndarray
    square: np.ndarray


class StochasticState(NamedTuple):
    """What is known after some batches.

    ``theta`` (P,) are the kernel's free parameters and then those of the likelihood; ``Z`` (M, D)
    the inducing points, with the factor ``Luu`` and its relative ``jitter``; ``sums`` the `RowSums`
    of the window, one for each function; ``n_rows`` how many rows they stand for, ``n_seen`` how
    many have come by.
    """

    theta: np.ndarray
    Z: np.ndarray
    Luu: np.ndarray
    jitter: float
    sums: tuple
    n_rows: float
    n_seen: int
    ascent: Ascent


class StochasticModel:
    """Everything that stays the same while a model is learned from batches.

    A subclass knows the likelihood: it says by ``slacks`` which slacks it has and by
    ``n_functions`` how many functions, and has the methods that raise NotImplementedError here.

    Parameters
    ----------
    kernel : FreeKernel
    slack : {"tight", "standard"}
    fit_prior_mean : bool
        Learn the constant prior mean of each f, in closed form; else it is zero.
    learn_Z : bool
        Whether the inducing points move with the hyperparameters.
    bounds : ndarray of shape (P, 2) or None
        Of theta, the likelihood's parameters included.
    n_threads, memory
        See `RowBlocks`.
    """

    slacks = SLACKS
    n_functions = 1

    def __init__(
        self,
        kernel,
        *,
        slack,
        fit_prior_mean=True,
        learn_Z=False,
        bounds=None,
        n_threads=1,
        memory=DEFAULT_MEMORY,
    ):
        if slack not in self.slacks:
            raise ValueError(f"slack must be one of {self.slacks}, sums over rows, got {slack!r}")
        self.kernel, self.slack = kernel, slack
        self.fit_prior_mean, self.learn_Z = fit_prior_mean, learn_Z
        self.bounds = bounds
        self._row_options = {"n_threads": n_threads, "memory": memory}

    @property
    def prior_mean(self):
        """None where the prior mean is learned."""
        return None if self.fit_prior_mean else 0.0

    def kernel_theta(self, state):
        """Return the kernel's parameters of a state."""
        return state.theta[: self.kernel.n_params]

    def start(self, theta, Z):
        """Return the state before any row, at `theta` (P,) and inducing points `Z` (M, D)."""
        theta = self._within_bounds(theta)
        (Luu, jitter), _ = factor_inducing(
            self.kernel, theta[: self.kernel.n_params], Z, attempts=JITTER_ATTEMPTS
        )
        still = np.zeros(theta.size + Z.size)
        sums = (no_rows(len(Z)),) * self.n_functions
        return StochasticState(theta, Z, Luu, jitter, sums, 0, 0, Ascent(0, still, still))

    def step(self, state, X, y, weight, *, n_total=None, learning_rate=0.0):
        """Return the state after a batch.

        Parameters
        ----------
        state : StochasticState
        X : ndarray of shape (b, D)
        y, weight : ndarray of shape (b,)
        n_total : int or None
            Most rows that the window may hold: the size of the data set that batches are drawn
            from, or how much of a stream is to be remembered. None remembers all.
        learning_rate : float
            About the length of the step in theta, which is logarithmic. 0 keeps theta and Z. While
            it is positive the window holds at most b `WINDOW` / `learning_rate` rows, too.

        Returns
        -------
        StochasticState

        Notes
        -----
        Cost 2 b M^2 for each visit to the batch that the likelihood needs; a learning rate adds
        about 6 b M^2 + 10 M^3.
        """
        features = self._features(state, X)
        n_rows = window(state.n_rows, len(y), n_total, learning_rate)
        share = (n_rows - len(y)) / state.n_rows if state.n_rows else 0.0
        kept = tuple(scaled(sums, share) for sums in state.sums)
        sums, found = self._absorb(state, features, y, weight, kept)
        state = state._replace(sums=sums, n_rows=n_rows, n_seen=state.n_seen + len(y))
        if learning_rate == 0.0:
            return state
        grad_theta, grad_Z = self._gradient(state, features, found)
        return self._move(state, grad_theta, grad_Z, len(y), learning_rate)

    def posteriors(self, state):
        """Return the `Posterior` of each f from the rows in the window, after at least one batch.

        The sum of their ``bound`` is that of the rows' weighted evidence; it is exact after
        `settle`.
        """
        raise NotImplementedError

    def estimate_bound(self, state, posteriors, X, y, weight, n_total):
        """Return what some rows say of the bound on the evidence of all `n_total`, in nats.

        Unbiased for rows drawn at random, at any q(u). Cost 2 b M^2 + 2 M^3 for one function.
        """
        raise NotImplementedError

    def settle(self, state, X, y, weight, batch_size):
        """Return the state that is optimal for the given rows at its theta and Z.

        Its posteriors, bound included, are the collapsed ones.
        """
        raise NotImplementedError

    def constant_bound(self, y, weight):
        """Return the log likelihood of the best constant functions."""
        raise NotImplementedError

    def constant_theta(self, theta, X, y, weight):
        """Return `theta` moved within its bounds to where the model is nearest to these.

        Rows `X` say where their variance is least.
        """
        n_params = self.kernel.n_params
        flat = self.kernel.flattest(theta[:n_params], self.bounds[:n_params], X)
        return self._within_bounds(np.append(flat, self._constant_params(y, weight)))

    def _constant_params(self, y, weight):
        """Return the likelihood's parameters for a constant f."""
        return []

    def _absorb(self, state, features, y, weight, kept):
        """Return the sums with a batch added to those that are kept, and what `_gradient` needs."""
        raise NotImplementedError

    def _gradient(self, state, features, found):
        """Return the gradient of the batch's bound at fixed q(u) w.r.t. theta and Z (or None)."""
        raise NotImplementedError

    def _carried(self, sums, old, new):
        """Return sums of sites at other parameters of the likelihood; `old` and `new` are theta."""
        return sums

    def _features(self, state, X):
        blocks = RowBlocks(len(X), len(state.Z), n_read=X.shape[1], **self._row_options)
        return RowFeatures(
            blocks, self.kernel, self.kernel_theta(state), state.Z, X, jitter=state.jitter
        )

    def _move(self, state, grad_theta, grad_Z, n_batch, learning_rate):
        """Return the state after a step of hyperparameters and points along a batch's gradient."""
        theta, Z = state.theta, state.Z
        unit = POINT_UNIT * Z.std(axis=0)
        moves = grad_Z * (unit / n_batch) if self.learn_Z else np.zeros(Z.shape)
        gradient = np.append(self._projected(theta, grad_theta) / n_batch, moves)
        ascent, direction = climb(state.ascent, gradient)
        step = learning_rate * direction
        if self.learn_Z:
            Z = Z + unit * step[len(theta) :].reshape(Z.shape)
        theta = self._within_bounds(theta + step[: len(theta)])
        return self.carry(state._replace(ascent=ascent), theta, Z)

    def carry(self, state, theta, Z):
        """Return the state at other hyperparameters and points; see the module's text.

        Raises `LinAlgError` if Kuu cannot be factored there. Cost 6 M^3 for one function.
        """
        kernel_theta = theta[: self.kernel.n_params]
        (Luu, jitter), _ = factor_inducing(
            self.kernel, kernel_theta, Z, state.jitter, attempts=JITTER_ATTEMPTS
        )
        if Z is state.Z:
            R = solve_lower(state.Luu, Luu).T
        else:
            K = self.kernel.value(kernel_theta, Z, state.Z)
            R = solve_lower(state.Luu, solve_lower(Luu, K).T).T
        sums = tuple(
            part._replace(VpV=R @ part.VpV @ R.T, Vp=R @ part.Vp, Vb=R @ part.Vb)
            for part in self._carried(state.sums, state.theta, theta)
        )
        return state._replace(theta=theta, Z=Z, Luu=Luu, jitter=jitter, sums=sums)

    def _within_bounds(self, theta):
        return theta if self.bounds is None else np.clip(theta, *self.bounds.T)

    def _projected(self, theta, gradient):
        """Return the gradient without what points out of the bounds, or Adam would remember it."""
        if self.bounds is None:
            return gradient
        low, high = self.bounds.T
        outward = ((theta <= low) & (gradient < 0.0)) | ((theta >= high) & (gradient > 0.0))
        return np.where(outward, 0.0, gradient)


def no_rows(n_points):
    """Return the `RowSums` of no rows."""
    nothing = np.zeros(n_points)
    return RowSums(np.zeros((n_points, n_points)), nothing, nothing, 0.0, 0.0, 0.0, 0.0, 0.0)


def scaled(sums, factor):
    """Return the `RowSums` of rows of which each counts `factor` times."""
    return RowSums(*(factor * part for part in sums))


def added(first, second):
    """Return the `RowSums` of the rows of both."""
    return RowSums(*(one + other for one, other in zip(first, second, strict=True)))


def window(n_rows, n_batch, n_total, learning_rate):
    """Return how many rows the running sums stand for after a batch; see the module's text."""
    limit = np.inf if n_total is None else n_total
    if learning_rate > 0.0:
        limit = min(limit, n_batch * WINDOW / learning_rate)
    return max(n_batch, min(n_rows + n_batch, limit))


def expected_log_sites(sums, posterior):
    """Return the expectation of the logarithm of sites, own terms included, at any q(u).

    Of f without its residual. Cost 2 M^3.
    """
    w, mean = posterior.w, posterior.prior_mean
    pull = sums.Vb - mean * sums.Vp
    return float(
        sums.own
        + mean * sums.shift
        - 0.5 * mean**2 * sums.precision
        + w @ (pull - 0.5 * sums.VpV @ w)
        - 0.5 * solve_cholesky(posterior.LB, sums.VpV).trace()
    )


def kernel_gradient(features, posteriors, slope, precision, residual_cost, wrt_Z=False):
    """Return the gradient of the sum over rows of the bound at fixed q(u), in whitened coordinates.

    Parameters
    ----------
    features : RowFeatures
        Of the batch.
    posteriors : list of Posterior
        Any q(u), one for each of K functions.
    slope, precision, residual_cost : ndarray of shape (K, b)
        Derivative of the sum w.r.t. the mean of f, and minus twice those w.r.t. the variance that
        comes from q(u) and w.r.t. the residual.
    wrt_Z : bool
        Whether to return the gradient w.r.t. the inducing points.

    Returns
    -------
    grad_theta : ndarray of shape (P,)
        W.r.t. the kernel's free parameters.
    grad_Z : ndarray of shape (M, D) or None

    Notes
    -----
    The adjoint of V is, summed over functions,
    ``G = -B^-1 V diag(precision) + w slope^T + V diag(residual_cost)``. Away from the optimum of
    these rows G V^T is not symmetric: since Luu is lower triangular, the adjoint of Kuu is then
    minus half the lower triangle, mirrored (Murray 2016, section 3.1). Cost (2 K + 4) b M^2.
    """
    small = [(q.w, inverse_from_cholesky(q.LB)) for q in posteriors]
    g = residual_cost.sum(axis=0)

    def adjoint_V(V, slope, precision, g):
        G = V * g
        for (w, B_inverse), alpha, p in zip(small, slope, precision, strict=True):
            G -= (B_inverse @ V) * p
            G += w[:, None] * alpha
        return G, (G @ V.T,), ()

    def adjoint_Kuu(sums):
        lower = np.tril(sums[0])
        return -0.5 * (lower + np.tril(lower, -1).T)

    inputs = [slope, precision, g]
    grad_theta, grad_Z, _ = features.pull_back(adjoint_V, inputs, -0.5 * g, adjoint_Kuu, wrt_Z)
    return grad_theta, grad_Z


def climb(ascent, gradient):
    """Return Adam's memory after another gradient, and the direction that it implies."""
    mean = ascent.mean + MEAN_WEIGHT * (gradient - ascent.mean)
    square = ascent.square + SQUARE_WEIGHT * (gradient**2 - ascent.square)
    n_steps = ascent.n_steps + 1
    # The running means began at zero; these are the weights of what they have seen.
    seen_by_mean = 1.0 - (1.0 - MEAN_WEIGHT) ** n_steps
    seen_by_square = 1.0 - (1.0 - SQUARE_WEIGHT) ** n_steps
    direction = (mean / seen_by_mean) / np.sqrt(square / seen_by_square + TINY)
    return Ascent(n_steps, mean, square), direction


def annealed(learning_rate, share):
    """Return the learning rate after a `share` of all steps of a known number: half a cosine."""
    return 0.5 * learning_rate * (1.0 + np.cos(np.pi * share))


def halving(learning_rate, n_steps):
    """Return the learning rate after `n_steps` of a stream, whose sum over steps is unbounded."""
    return learning_rate / (1.0 + n_steps / HALVING_STEPS)


def learn(
    model,
    state,
    X,
    y,
    weight,
    *,
    n_epochs,
    batch_size,
    rng,
    learning_rate=LEARNING_RATE,
    report=None,
):
    """Learn from all rows in shuffled batches, `n_epochs` times.

    Parameters
    ----------
    model : StochasticModel
    state : StochasticState
    X : array of shape (N, D)
        Indexed batch by batch, in the order of the rows within each.
    y, weight : ndarray of shape (N,)
    n_epochs, batch_size : int
    rng : numpy.random.RandomState
    learning_rate : float
        At the start; see `StochasticModel.step`. It falls to zero.
    report : callable or None
        Called as ``report(epoch, state)`` after each epoch. If it returns what is true no more
        follow.

    Returns
    -------
    StochasticState

    Notes
    -----
    Cost of an epoch 6 N M^2 + 10 N M^3 / b.
    """
    n_rows = len(y)
    n_batches = -(-n_rows // batch_size)
    for epoch in range(n_epochs):
        batches = np.array_split(rng.permutation(n_rows), n_batches)
        for k, batch in enumerate(batches):
            rows = np.sort(batch)
            rate = annealed(learning_rate, (epoch + k / n_batches) / n_epochs)
            state = model.step(
                state, X[rows], y[rows], weight[rows], n_total=n_rows, learning_rate=rate
            )
        if report is not None and report(epoch, state):
            break
    return state


def settle_best(model, state, start, X, y, weight, batch_size):
    """Return the state that is optimal for all rows at what was learned, or at better.

    What batches say may lead a search astray. Where it ends below the best constant function its
    beginning is tried, and then the hyperparameters nearest to a constant.

    Parameters
    ----------
    model : StochasticModel
    state, start : StochasticState
        The end and the beginning of the search.
    X : array of shape (N, D)
    y, weight : ndarray of shape (N,)
    batch_size : int

    Returns
    -------
    settled : StochasticState
    astray : bool
        Whether the search ended well below a constant function.
    """

    def bound(settled):
        return sum(posterior.bound for posterior in model.posteriors(settled))

    best = model.settle(state, X, y, weight, batch_size)
    constant, end = model.constant_bound(y, weight), bound(best)
    if end >= constant:
        return best, False
    few = X[spaced_rows(X, FEW_ROWS)]
    for theta in (start.theta, model.constant_theta(start.theta, few, y, weight)):
        begin = model.start(theta, start.Z)._replace(n_seen=state.n_seen)
        settled = model.settle(begin, X, y, weight, batch_size)
        if bound(settled) > bound(best):
            best = settled
        if bound(best) >= constant:
            break
    return best, bound(best) - end > trivial_gain(weight.sum())
