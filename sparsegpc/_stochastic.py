r"""Regression learned from minibatches of rows, of a data set or of a stream.

For Gaussian noise of one variance :math:`\lambda` the bound, before q(u) is collapsed, is a sum
over rows less a Kullback-Leibler divergence (Hensman, Fusi, Lawrence 2013; with the tight slack
Titsias 2025, equation 18),

.. math::
    \sum_n \{ w_n E_{q(u)}[\log N(y_n \mid E[f_n | u], \lambda)] + \mathrm{slack}_n \}
    - KL[q(u) \| p(u)],

so a batch of rows estimates it and its gradient. Weights w are powers of the likelihood.

q(u) is held by its natural parameters, which at the optimum are the sums over rows of `_bounds`.
Here they are *running* sums S over a window of n rows: what was there fades, then a batch of b rows
enters with weight one,

.. math::
    S \leftarrow \frac{n' - b}{n} S + S_{batch}, \qquad n' = \max(b, \min(n + b, limit)).

At n' = n this is a natural-gradient step of length b/n towards the estimate that the batch gives
for n rows. The sum never grows by more than a batch, so at one visit no row counts more than once:
q(u) is never surer than the rows in the window allow, hyperparameters are learned from the evidence
of as many rows, and at fixed hyperparameters one visit to each row ends at the collapsed optimum.

The running sums outlive the hyperparameters that they were computed with. Held as they are, in
whitened coordinates, they would speak of another function after each move of the kernel. What stays
is what the rows said of f at the inducing points: the sums are carried over as sites on f(Z),
:math:`S' = R S R^\top` with :math:`R = L'^{-1} K'(Z', Z) L^{-\top}` (the projection of Bui, Nguyen,
Turner 2017). That is exact for every change of the noise and of the scale of the kernel, and for
any change at all where the rows are the inducing points; else it is right for small moves, and the
window forgets the steps before.

Hyperparameters, and inducing points if asked for, follow the batch's estimate of the gradient at
fixed q(u) by Adam (Kingma and Ba 2015).
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._bounds import (
    RowSums,
    divergence,
    optimal_posterior,
    row_sums,
    shrinkage,
    slack_value,
)
from sparsegpc._features import RowFeatures, factor_inducing
from sparsegpc._gaussian import LOG_2PI
from sparsegpc._likelihoods import Sites
from sparsegpc._linalg import (
    JITTER_ATTEMPTS,
    mirrored,
    solve_cholesky,
    solve_lower,
    weighted_gram,
)
from sparsegpc._rows import DEFAULT_MEMORY, RowBlocks

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

    ``theta`` (P,) are the kernel's free parameters and then the logarithm of the noise variance;
    ``Z`` (M, D) the inducing points, with the factor ``Luu`` and its relative ``jitter``; ``sums``
    the `RowSums` of the window; ``n_rows`` how many rows they stand for, ``n_seen`` how many have
    come by.
    """

    theta: np.ndarray
    Z: np.ndarray
    Luu: np.ndarray
    jitter: float
    sums: RowSums
    n_rows: float
    n_seen: int
    ascent: Ascent

    @property
    def kernel_theta(self):
        return self.theta[:-1]

    @property
    def noise_variance(self):
        return float(np.exp(self.theta[-1]))


class StochasticModel:
    """Everything that stays the same while a model is learned from batches.

    Parameters
    ----------
    kernel : FreeKernel
    slack : {"tight", "standard"}
        Of the slacks of `_bounds` those that are sums over rows.
    fit_prior_mean : bool
        Learn the constant prior mean of f, in closed form; else it is zero.
    learn_Z : bool
        Whether the inducing points move with the hyperparameters.
    bounds : ndarray of shape (P, 2) or None
        Of theta, the logarithm of the noise variance included.
    n_threads, memory
        See `RowBlocks`.
    """

    def __init__(
        self,
        kernel,
        *,
        slack="tight",
        fit_prior_mean=True,
        learn_Z=False,
        bounds=None,
        n_threads=1,
        memory=DEFAULT_MEMORY,
    ):
        if slack not in SLACKS:
            raise ValueError(f"slack must be one of {SLACKS}, sums over rows, got {slack!r}")
        self.kernel, self.slack = kernel, slack
        self.fit_prior_mean, self.learn_Z = fit_prior_mean, learn_Z
        self.bounds = bounds
        self._row_options = {"n_threads": n_threads, "memory": memory}

    def start(self, kernel_theta, noise_variance, Z):
        """Return the state before any row; `Z` are the inducing points, shape (M, D)."""
        theta = self._within_bounds(np.append(kernel_theta, np.log(noise_variance)))
        (Luu, jitter), _ = factor_inducing(self.kernel, theta[:-1], Z, attempts=JITTER_ATTEMPTS)
        nothing = np.zeros(len(Z))
        sums = RowSums(np.zeros((len(Z), len(Z))), nothing, nothing, 0.0, 0.0, 0.0, 0.0, 0.0)
        still = np.zeros(theta.size + Z.size)
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
        A batch of all `n_total` rows gives their collapsed posterior. Cost 2 b M^2, with a learning
        rate about 6 b M^2 + 10 M^3.
        """
        features = self._features(state, X)
        sites = gaussian_sites(y, weight, state.theta[-1])
        batch = row_sums(features, sites, self.slack)
        n_rows = window(state.n_rows, len(y), n_total, learning_rate)
        kept = (n_rows - len(y)) / state.n_rows if state.n_rows else 0.0
        sums = RowSums(*(kept * old + new for old, new in zip(state.sums, batch, strict=True)))
        state = state._replace(sums=sums, n_rows=n_rows, n_seen=state.n_seen + len(y))
        if learning_rate == 0.0:
            return state
        grad_theta, grad_Z = batch_gradient(
            features, sites, batch, state.theta[-1], self.slack, self.posterior(state), self.learn_Z
        )
        return self._move(state, grad_theta, grad_Z, len(y), learning_rate)

    def posterior(self, state):
        """Return the `Posterior` of the rows in the window, after at least one batch.

        ``bound`` is that of their weighted evidence, exact if hyperparameters have not moved.
        """
        prior_mean = None if self.fit_prior_mean else 0.0
        return optimal_posterior(state.sums, state.n_rows, self.slack, prior_mean)

    def estimate_bound(self, state, posterior, X, y, weight, n_total):
        """Return what some rows say of the bound on the evidence of all `n_total`, in nats.

        Unbiased for rows drawn at random, at any q(u). Cost 2 b M^2 + 2 M^3.
        """
        features = self._features(state, X)
        sites = gaussian_sites(y, weight, state.theta[-1])
        batch = row_sums(features, sites, self.slack)
        return n_total / len(y) * batch_bound(batch, self.slack, posterior) - divergence(posterior)

    def _features(self, state, X):
        blocks = RowBlocks(len(X), len(state.Z), **self._row_options)
        return RowFeatures(blocks, self.kernel, state.kernel_theta, state.Z, X, jitter=state.jitter)

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
        return carry(self.kernel, state._replace(ascent=ascent), theta, Z)

    def _within_bounds(self, theta):
        return theta if self.bounds is None else np.clip(theta, *self.bounds.T)

    def _projected(self, theta, gradient):
        """Return the gradient without what points out of the bounds, or Adam would remember it."""
        if self.bounds is None:
            return gradient
        low, high = self.bounds.T
        outward = ((theta <= low) & (gradient < 0.0)) | ((theta >= high) & (gradient > 0.0))
        return np.where(outward, 0.0, gradient)


def gaussian_sites(y, weight, log_noise):
    """Return the sites of targets with one noise variance; the formula is in `_gaussian`."""
    precision = weight * np.exp(-log_noise)
    own = -0.5 * (weight * (LOG_2PI + log_noise) + precision * y**2)
    return Sites(precision, precision * y, own)


def with_noise(sums, old, new):
    """Return the sums of such sites at another logarithm of the noise variance.

    ``log_cost`` stays: it would need the rows.
    """
    ratio, total_weight = np.exp(old - new), sums.precision * np.exp(old)
    squares = -2.0 * sums.own - total_weight * (LOG_2PI + old)
    own = -0.5 * (total_weight * (LOG_2PI + new) + ratio * squares)
    scaled = RowSums(*(ratio * part for part in sums))
    return scaled._replace(own=own, log_cost=sums.log_cost)


def window(n_rows, n_batch, n_total, learning_rate):
    """Return how many rows the running sums stand for after a batch; see the module's text."""
    limit = np.inf if n_total is None else n_total
    if learning_rate > 0.0:
        limit = min(limit, n_batch * WINDOW / learning_rate)
    return max(n_batch, min(n_rows + n_batch, limit))


def expected_log_likelihood(sums, posterior, explained):
    """Return the first sum of the bound, without slack, at any q(u).

    From the `RowSums` and, of shape (M, M), ``explained = B^-1 VpV``.
    """
    w, mean = posterior.w, posterior.prior_mean
    pull = sums.Vb - mean * sums.Vp
    return float(
        sums.own
        + mean * sums.shift
        - 0.5 * mean**2 * sums.precision
        + w @ (pull - 0.5 * sums.VpV @ w)
        - 0.5 * explained.trace()
    )


def batch_bound(sums, slack, posterior):
    """Return the sum over rows of expected log likelihood and slack, from `RowSums`. Cost 2 M^3."""
    explained = solve_cholesky(posterior.LB, sums.VpV)
    paid = slack_value(slack, sums.cost, sums.log_cost, None)
    return expected_log_likelihood(sums, posterior, explained) + paid


def batch_gradient(features, sites, sums, log_noise, slack, posterior, wrt_Z=False):
    """Return the gradient of `batch_bound` at fixed q(u), in whitened coordinates.

    Parameters
    ----------
    features : RowFeatures
        Of the batch.
    sites : Sites
        Of the batch, those of `gaussian_sites`.
    sums : RowSums
        The same, summed.
    log_noise : float
    slack : {"tight", "standard"}
    posterior : Posterior
        Any q(u).
    wrt_Z : bool
        Whether to return the gradient w.r.t. the inducing points.

    Returns
    -------
    grad_theta : ndarray of shape (P,)
        W.r.t. the kernel's free parameters and the logarithm of the noise variance.
    grad_Z : ndarray of shape (M, D) or None

    Notes
    -----
    The adjoint G of V is that of `_bounds.gradient`. Away from the optimum of these rows G V^T is
    not symmetric: since Luu is lower triangular, the adjoint of Kuu is then minus half the lower
    triangle, mirrored (Murray 2016, section 3.1). Cost 4 b M^2 + 4 M^3.
    """
    w, LB, prior_mean = posterior.w, posterior.LB, posterior.prior_mean
    g = sites.precision * shrinkage(slack, sites.precision * features.residual, None)

    def adjoint_V(V, p, shift, g):
        G = solve_cholesky(LB, V)
        G *= -p
        G += V * g
        G += w[:, None] * (shift - p * (w @ V + prior_mean))
        return G, (), ()

    G_V = np.outer(w, sums.Vb - prior_mean * sums.Vp - sums.VpV @ w)
    explained = solve_cholesky(LB, sums.VpV)
    G_V -= explained
    G_V += sums.VpV if slack == "standard" else _gram(features, g)
    lower = np.tril(G_V)
    bracket = lower + np.tril(lower, -1).T
    grad_kernel, grad_Z, _ = features.pull_back(
        adjoint_V,
        [sites.precision, sites.shift, g],
        -0.5 * g,
        lambda _: -0.5 * bracket,
        wrt_Z,
    )
    # All precisions are weights over the noise variance.
    total_weight = sums.precision * np.exp(log_noise)
    expected = expected_log_likelihood(sums, posterior, explained)
    misfit = -total_weight * (LOG_2PI + log_noise) - 2.0 * expected
    grad_noise = 0.5 * (misfit - total_weight + g @ features.residual)
    return np.append(grad_kernel, grad_noise), grad_Z


def _gram(features, g):
    """Return V diag(g) V^T of shape (M, M)."""
    (gram,) = features.sum(lambda V, g: (weighted_gram(V, g),), g)
    return mirrored(gram)


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


def carry(kernel, state, theta, Z):
    """Return the state at other hyperparameters and points; see the module's text.

    Raises `LinAlgError` if Kuu cannot be factored there. Cost 6 M^3.
    """
    (Luu, jitter), _ = factor_inducing(
        kernel, theta[:-1], Z, state.jitter, attempts=JITTER_ATTEMPTS
    )
    if Z is state.Z:
        R = solve_lower(state.Luu, Luu).T
    else:
        K = kernel.value(theta[:-1], Z, state.Z)
        R = solve_lower(state.Luu, solve_lower(Luu, K).T).T
    sums = with_noise(state.sums, state.theta[-1], theta[-1])
    sums = sums._replace(VpV=R @ sums.VpV @ R.T, Vp=R @ sums.Vp, Vb=R @ sums.Vb)
    return state._replace(theta=theta, Z=Z, Luu=Luu, jitter=jitter, sums=sums)


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
        Called as ``report(epoch, state)`` after each epoch.

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
        if report is not None:
            report(epoch, state)
    return state


def settle(model, state, X, y, weight, batch_size):
    """Return the state that is optimal for the given rows at its hyperparameters, and their number.

    Its posterior, bound included, is the collapsed one. Cost N M^2.
    """
    n_seen = state.n_seen
    state = state._replace(n_rows=0)
    for first in range(0, len(y), batch_size):
        rows = slice(first, first + batch_size)
        state = model.step(state, X[rows], y[rows], weight[rows])
    return state._replace(n_seen=n_seen)
