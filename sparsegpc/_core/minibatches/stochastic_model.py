r"""The base class of models that learn from minibatches of the rows of a data set or a stream.

Before q(u) is collapsed, the bound is a sum over rows less a Kullback-Leibler divergence (Hensman,
Fusi, Lawrence 2013; Hensman, Matthews, Ghahramani 2015; for the tight slack `slacks`),

.. math::
    \sum_n \{ \omega_n E_{q(f_n)}[\log p(y_n \mid f_n)] + \mathrm{slack}_n \} - KL[q(u) \| p(u)],

so a batch of rows gives an estimate of the bound and of its gradient. The weights :math:`\omega_n`
are powers of the likelihood.

q(u) is stored by its natural parameters. At the optimum they are the sums over rows of the sites of
`collapsed`. Here they are *running* sums T over a window of :math:`N_w` rows. The old sums shrink,
then a batch of :math:`N_b` rows enters with weight one:

.. math::
    T \leftarrow \frac{N_w^{new} - N_b}{N_w} T + T_{batch}, \qquad
    N_w^{new} = \max(N_b, \min(N_w + N_b, limit)).

If :math:`N_w^{new} = N_w`, this is a natural-gradient step of length :math:`N_b / N_w` towards the
estimate that the batch gives for :math:`N_w` rows (Khan and Lin 2017 for sites that depend on q).
The weight of the window never grows by more than a batch, so in one visit no row counts more than
once. Hence q(u) is never more certain than the rows of the window justify, and the hyperparameters
are learned from the evidence of that many rows.

The running sums are in whitened coordinates, which change with the kernel. After a change of the
hyperparameters or the points, the sums are projected so that they remain those of the same sites on
f at the old inducing points (Bui, Nguyen, Turner 2017): :math:`V P V^\top` becomes
:math:`J V P V^\top J^\top` with :math:`J = L_{new}^{-1} K_{new} L_{old}^{-\top}`, where
:math:`K_{new}` is the new covariance between the new points and the old ones. This is exact if only
the scale of the kernel changes, or if the rows are the inducing points. Otherwise it is accurate
for small changes, and the window drops the sums of earlier steps.

The hyperparameters, and the inducing points if `learn_Z` is true, are updated by Adam (Kingma and
Ba 2015) with the gradient of the batch at fixed q(u). The gradients of batches that are too small
for a step of Adam are added up.
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.bounds.features import RowFeatures, factor_inducing
from sparsegpc._core.minibatches.running_sums import no_rows, scaled, window
from sparsegpc._core.models.base_model import BaseModel
from sparsegpc._core.models.model import clearly_exceeds
from sparsegpc._core.models.posterior import Posterior
from sparsegpc._core.numerics.linalg import solve_lower
from sparsegpc._core.numerics.triangles import reduced
from sparsegpc._core.optimisers.adam import AdamState, adam_step, no_steps
from sparsegpc._core.optimisers.bfgs import projected_gradient
from sparsegpc._core.rows.blocks import RowBlocks

NO_BOUNDS = np.array([[-np.inf, np.inf]])


class StochasticState(NamedTuple):
    """The state of learning after some batches.

    ``theta`` (P,) holds the free parameters of the kernel, then those of the likelihood. ``Z``
    (M, D) holds the inducing points, with the Cholesky factor ``Luu`` of their covariance and its
    relative ``jitter``. ``sums`` holds the `RowSums` of the window for each function. ``n_rows`` is
    the number of rows in the window, and ``n_seen`` that of all rows so far. ``gradient`` is the
    sum of the gradients w.r.t. theta, then Z, over the ``n_gradient`` rows since the last step of
    Adam; without such rows both are 0. ``adam`` is what Adam remembers of earlier gradients.
    """

    theta: np.ndarray
    Z: np.ndarray
    Luu: np.ndarray
    jitter: float
    sums: tuple
    n_rows: float
    n_seen: int
    gradient: np.ndarray | float
    n_gradient: int
    adam: AdamState

    def __reduce__(self):
        return reduced(self, "Luu")


class StochasticModel(BaseModel):
    """Base class of models that learn from batches: the kernel and settings of a model.

    A subclass defines the likelihood. It sets ``n_functions``, and defines the methods that raise
    NotImplementedError here.

    `learn_Z` moves the inducing points with the hyperparameters. `bounds` of theta, which includes
    the parameters of the likelihood, have the shape (P, 2), or (1, 2) if all are equal. The other
    `options` are those of `BaseModel`. The `slack` must be a sum over rows. Prior means are learned
    in closed form.
    """

    n_functions = 1

    def __init__(self, kernel, *, learn_Z=False, bounds=NO_BOUNDS, **options):
        super().__init__(kernel, **options)
        self.learn_Z, self.bounds = learn_Z, bounds

    def start(self, theta, Z):
        """Return the initial state at `theta` (P,) and inducing points `Z` (M, D)."""
        theta = self._within_bounds(theta)
        (Luu, jitter), _ = factor_inducing(self.kernel, self.kernel_theta(theta), Z)
        sums = (no_rows(len(Z)),) * self.n_functions
        adam = no_steps(theta.size + Z.size)
        return StochasticState(theta, Z, Luu, jitter, sums, 0, 0, 0.0, 0, adam)

    def step(self, state, X, y, weight, *, n_total=None, learning_rate=0.0, rows_per_move=1):
        """Return the state after a batch of N_b rows.

        `n_total` is the largest number of rows in the window: the size of the data set from which
        batches are drawn, or the length of a stream to remember; None sets no limit.
        `learning_rate` is about the length of a step in the logarithmic parameters theta; 0 keeps
        theta and Z. If it is positive, the window holds at most 1 / `learning_rate` times as many
        rows as the batch, or as `rows_per_move` if that is more: the number of rows whose gradients
        are added up before theta and Z move.

        Cost 2 N_b M^2 for each visit to the batch; the likelihood determines their number. A
        positive learning rate adds about 6 N_b M^2 + 10 M^3.
        """
        features = self._features(state, X)
        n_rows = window(state.n_rows, len(y), n_total, learning_rate, rows_per_move)
        share = (n_rows - len(y)) / state.n_rows if state.n_rows else 0.0
        kept = tuple(scaled(sums, share) for sums in state.sums)
        sums, found = self._absorb(state, features, y, weight, kept)
        state = state._replace(sums=sums, n_rows=n_rows, n_seen=state.n_seen + len(y))
        if learning_rate == 0.0:
            return state
        grad_theta, grad_Z = self._gradient(state, features, found)
        # Each batch gets its share of the gradient of the prior, which counts once for all rows.
        n_all = state.n_seen if n_total is None else n_total
        grad_theta = grad_theta + self.log_prior(state.theta)[1] * (len(y) / max(n_all, len(y)))
        if not self.learn_Z:
            grad_Z = np.zeros(state.Z.shape)
        gradient = state.gradient + np.append(grad_theta, grad_Z)
        state = state._replace(gradient=gradient, n_gradient=state.n_gradient + len(y))
        return state if state.n_gradient < rows_per_move else self._move(state, learning_rate)

    def posteriors(self, state):
        """Return the `FunctionPosterior` of each f given the rows in the window, at least one."""
        raise NotImplementedError

    def bound(self, state):
        """Return the bound on the evidence of the rows in the window; it is exact after `solve`."""
        return sum(q.bound for q in self.posteriors(state))

    def posterior(self, state):
        """Return the `Posterior` of all f given the rows in the window."""
        theta, functions = self.kernel_theta(state.theta), tuple(self.posteriors(state))
        return Posterior(self.kernel, theta, state.Z, state.Luu, state.jitter, functions)

    def solve(self, state, X, y, weight, batch_size):
        """Return the optimal state for the given rows at its theta and Z.

        Its posteriors and their bounds are the collapsed ones. A model that visits each row once
        takes `batch_size` rows at a time.
        """
        raise NotImplementedError

    def constant_bound(self, y, weight):
        """Return the bound, in nats, at the best constant functions."""
        raise NotImplementedError

    def is_trivial(self, state, y, weight):
        """Return whether the solved state of all rows is no better than a constant function.

        As in `SparseModel`, the prior of the noise does not count.
        """
        of_noise = self.prior.after(self.kernel.n_params).log_density(state.theta)
        objective = self.bound(state) + self.log_prior(state.theta)[0] - of_noise
        return not clearly_exceeds(objective, self.constant_bound(y, weight), weight.sum())

    def constant_theta(self, theta, X, y, weight):
        """Return `theta` moved, within its bounds, to where f is nearest to a constant.

        The prior variance of f is minimised at the rows `X`.
        """
        n_params = self.kernel.n_params
        kernel_theta = self.kernel.least_variance(theta[:n_params], self.bounds[:n_params], X)
        return self._within_bounds(np.append(kernel_theta, self._constant_params(y, weight)))

    def _constant_params(self, y, weight):
        """Return the parameters of the likelihood that are optimal for a constant f."""
        return []

    def log_prior(self, theta):
        """Return the log prior of theta, in nats, and its gradient (P,)."""
        return self.prior.log_density(theta), self.prior.gradient(theta)

    def _absorb(self, state, features, y, weight, kept):
        """Return the sums after a batch, and a tuple that `_gradient` needs.

        `kept` holds the shrunk sums of the earlier batches.
        """
        raise NotImplementedError

    def _gradient(self, state, features, found):
        """Return the gradients of the batch's bound at fixed q(u) w.r.t. theta and Z (or None)."""
        raise NotImplementedError

    def _carried(self, sums, old, new):
        """Return the sums of sites for a change of theta from `old` to `new`."""
        return sums

    def _features(self, state, X):
        blocks = RowBlocks(len(X), len(state.Z), n_read=X.shape[1], **self._row_options)
        theta = self.kernel_theta(state.theta)
        return RowFeatures(blocks, self.kernel, theta, state.Z, X, jitter=state.jitter)

    def _move(self, state, learning_rate):
        """Return the state after a step of theta and Z by Adam, with the mean gradient per row."""
        theta, Z = state.theta, state.Z
        # Points move in units of 0.3 times the standard deviation of their columns.
        unit = 0.3 * Z.std(axis=0)
        gradient = state.gradient / state.n_gradient
        # Adam must not remember the gradient of parameters that cannot move.
        by_theta = projected_gradient(theta, gradient[: len(theta)], self.bounds)
        by_Z = gradient[len(theta) :].reshape(Z.shape) * unit
        adam, direction = adam_step(state.adam, np.append(by_theta, by_Z))
        step = learning_rate * direction
        if self.learn_Z:
            Z = Z + unit * step[len(theta) :].reshape(Z.shape)
        theta = self._within_bounds(theta + step[: len(theta)])
        state = state._replace(gradient=0.0, n_gradient=0, adam=adam)
        return self.carry(state, theta, Z)

    def carry(self, state, theta, Z):
        """Return the state at other hyperparameters and points, with projected sums.

        Raises `LinAlgError` if Kuu cannot be factored there. Cost 6 M^3 for one function.
        """
        kernel_theta = self.kernel_theta(theta)
        (Luu, jitter), _ = factor_inducing(self.kernel, kernel_theta, Z)
        if Z is state.Z:
            J = solve_lower(state.Luu, Luu).T
        else:
            K = self.kernel.value(kernel_theta, Z, state.Z)
            J = solve_lower(state.Luu, solve_lower(Luu, K).T).T
        sums = tuple(
            part._replace(VpV=J @ part.VpV @ J.T, Vp=J @ part.Vp, Vb=J @ part.Vb)
            for part in self._carried(state.sums, state.theta, theta)
        )
        return state._replace(theta=theta, Z=Z, Luu=Luu, jitter=jitter, sums=sums)

    def _within_bounds(self, theta):
        return np.clip(theta, *self.bounds.T)
