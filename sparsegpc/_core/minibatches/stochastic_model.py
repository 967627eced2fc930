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

from sparsegpc._core.bounds.features import RowFeatures, factor_inducing
from sparsegpc._core.bounds.slacks import SLACKS, sums_over_rows
from sparsegpc._core.minibatches.running_sums import no_rows, scaled, window
from sparsegpc._core.models.posterior import Posterior
from sparsegpc._core.numerics.linalg import JITTER_ATTEMPTS, solve_lower
from sparsegpc._core.optimisers.adam import AdamMemory, adam_step, no_steps
from sparsegpc._core.rows.blocks import DEFAULT_MEMORY, RowBlocks


class StochasticState(NamedTuple):
    """What is known after some batches.

    ``theta`` (P,) are the kernel's free parameters and then those of the likelihood; ``Z`` (M, D)
    the inducing points, with the factor ``Luu`` and its relative ``jitter``; ``sums`` the `RowSums`
    of the window, one for each function; ``n_rows`` how many rows they stand for, ``n_seen`` how
    many have come by; ``ascent`` has an entry for each of theta, then of Z.
    """

    theta: np.ndarray
    Z: np.ndarray
    Luu: np.ndarray
    jitter: float
    sums: tuple
    n_rows: float
    n_seen: int
    ascent: AdamMemory


class StochasticModel:
    """Everything that stays the same while a model is learned from batches.

    A subclass knows the likelihood: it says by ``slacks`` the public names of the slacks that it
    has and by ``n_functions`` how many functions, and has the methods that raise
    NotImplementedError here.

    Parameters
    ----------
    kernel : FreeKernel
    slack : Slack
        One that is a sum over rows.
    fit_prior_mean : bool
        Learn the constant prior mean of each f, in closed form; else it is zero.
    learn_Z : bool
        Whether the inducing points move with the hyperparameters.
    bounds : ndarray of shape (P, 2) or None
        Of theta, the likelihood's parameters included.
    n_threads, memory
        See `RowBlocks`.
    """

    slacks = sums_over_rows(SLACKS)
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
        if slack not in [SLACKS[name] for name in self.slacks]:
            given = [name for name, other in SLACKS.items() if other is slack] or [slack]
            raise ValueError(
                f"slack must be one of {self.slacks}, sums over rows, got {given[0]!r}"
            )
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
        sums = (no_rows(len(Z)),) * self.n_functions
        ascent = no_steps(theta.size + Z.size)
        return StochasticState(theta, Z, Luu, jitter, sums, 0, 0, ascent)

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
            it is positive the window holds at most b / `learning_rate` rows, too.

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
        # The prior counts once in all rows.
        n_all = state.n_seen if n_total is None else n_total
        grad_theta = grad_theta + self.log_prior(state.theta)[1] * (len(y) / max(n_all, len(y)))
        return self._move(state, grad_theta, grad_Z, len(y), learning_rate)

    def posteriors(self, state):
        """Return the `FunctionPosterior` of each f from the rows in the window, after a batch.

        The sum of their ``bound`` is that of the rows' weighted evidence; it is exact after
        `solve`.
        """
        raise NotImplementedError

    def posterior(self, state):
        """Return the `Posterior` of all f from the rows in the window, after a batch."""
        kernel_theta, functions = self.kernel_theta(state), tuple(self.posteriors(state))
        return Posterior(self.kernel, kernel_theta, state.Z, state.Luu, state.jitter, functions)

    def estimate_bound(self, state, posteriors, X, y, weight, n_total):
        """Return what some rows say of the bound on the evidence of all `n_total`, in nats.

        Unbiased for rows drawn at random, at any q(u). Cost 2 b M^2 + 2 M^3 for one function.
        """
        raise NotImplementedError

    def solve(self, state, X, y, weight, batch_size):
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
        flat = self.kernel.least_variance(theta[:n_params], self.bounds[:n_params], X)
        return self._within_bounds(np.append(flat, self._constant_params(y, weight)))

    def _constant_params(self, y, weight):
        """Return the likelihood's parameters for a constant f."""
        return []

    def log_prior(self, theta):
        """Return the log prior of the likelihood's parameters, in nats, and its slope in theta."""
        return 0.0, np.zeros(len(theta))

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
        # Points move in units of a share of their columns' deviation.
        unit = 0.3 * Z.std(axis=0)
        moves = grad_Z * (unit / n_batch) if self.learn_Z else np.zeros(Z.shape)
        gradient = np.append(self._projected(theta, grad_theta) / n_batch, moves)
        ascent, direction = adam_step(state.ascent, gradient)
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
