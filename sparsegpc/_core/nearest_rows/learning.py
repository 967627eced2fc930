r"""Learn hyperparameters for predictions from nearest rows, without inducing points.

With few inducing points the bound takes for noise what the points leave unexplained, and prefers
long length scales. Predictions that also use the nearest rows need other hyperparameters, which are
learned here from blocks of neighbouring rows. Each block is an exact Gaussian process.

With Gaussian noise the objective is the log density of each row given the others of its block,

.. math::
    J(\theta) = \frac{W}{W_B} \sum_{\text{blocks}} \sum_n \log p(y_n | y_{\setminus n}, \theta)

with the total weight W of all rows and :math:`W_B` of those in blocks. Unlike the marginal
likelihood it only asks that each row is predicted well, so it is more robust where the model is
wrong (Bachoc, "Cross validation and maximum likelihood estimations of hyper-parameters of Gaussian
processes with model misspecification", CSDA 66, 2013). With other likelihoods, it is the sum of the
bounds of the blocks with an inducing point at each row.
"""

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.learning.maximization import Iterate
from sparsegpc._core.likelihoods.base import joint_log_prior
from sparsegpc._core.nearest_rows.left_out import left_out_density
from sparsegpc._core.optimisers.lbfgsb import maximize_lbfgsb
from sparsegpc._core.selection.selectors import InducingPoints

# The largest number of blocks and the number of their rows, with Gaussian noise and with other
# likelihoods.
GAUSSIAN_BLOCKS, OTHER_BLOCKS = (40, 200), (20, 100)
# The short search from each start: its blocks and iterations.
FIRST_BLOCKS, FIRST_ITERATIONS = 10, 5
# Largest number of iterations of the search on all blocks. It begins at the best of these ends, and
# ends after PATIENCE iterations in a row that gain less than TOL_PER_ROW nats a row.
MAX_ITERATIONS, TOL_PER_ROW, PATIENCE = 50, 1e-4, 2
# Parameters, which are logarithms, change by at most this from the start: a factor of 55.
FARTHEST = 4.0


def number_of_blocks(model):
    """Return how many blocks to use for a `SparseModel`, and the number of rows of each."""
    fixed = model.likelihood.has_fixed_sites
    most_blocks, most_rows = GAUSSIAN_BLOCKS if fixed else OTHER_BLOCKS
    size = min(most_rows, len(model.weight))
    # Twice as many rows as there are, since blocks overlap.
    return min(most_blocks, -(-2 * len(model.weight) // size)), size


def learn_from_neighbours(model, means, blocks, starts, limits):
    """Return the parameters (P,) that suit blocks of neighbouring rows.

    `model` has its rows in memory. `means` (K,) are the prior means of the functions, and `blocks`
    (n_blocks, n) holds the indices of the rows of each block. The search begins where the best
    short search from one of the `starts` ends, and keeps within `limits` (P, 2).

    Raises `LinAlgError` if the objective cannot be computed at any start. An evaluation costs
    O(n_blocks n^2 (n K + D)), and a few times that if the sites have to be searched for.
    """

    def search(blocks, start, box, max_iter):
        is_gaussian = model.likelihood.has_fixed_sites
        objective = LeftOut(model, means, blocks) if is_gaussian else BlockBounds(model, blocks)

        def evaluate(x, near=None):
            return Iterate(x, *objective(x), None)

        tol = TOL_PER_ROW * model.total_weight
        options = {"max_iter": max_iter, "tol": tol, "patience": PATIENCE}
        return maximize_lbfgsb(evaluate, evaluate(start), box, **options).best

    best, failure = None, None
    for start in starts:
        start = np.clip(start, *limits.T)
        box = np.clip(start[:, None] + [-FARTHEST, FARTHEST], limits[:, :1], limits[:, 1:])
        try:
            end = search(blocks[:FIRST_BLOCKS], start, box, FIRST_ITERATIONS)
        except LinAlgError as error:
            failure = error
            continue
        if best is None or end.value > best[0].value:
            best = end, box
    if best is None:
        raise failure
    end, box = best
    return search(blocks, end.x, box, MAX_ITERATIONS).x


class _Objective:
    """A sum over blocks, scaled to all rows, and the log priors of the noise and likelihood."""

    def __init__(self, model, blocks):
        self.model, self.blocks = model, blocks
        self._scale = model.total_weight / model.weight[blocks].sum()

    def __call__(self, theta):
        """Return the objective at theta (P,), in nats, and its gradient."""
        kernel_theta, likelihoods = self.model.kernel_theta(theta), self.model.likelihoods(theta)
        log_prior, slope = joint_log_prior(likelihoods)
        prior = self.model.prior.after(len(kernel_theta))
        log_prior += prior.log_density(theta)
        value, gradient = self._sum(kernel_theta, likelihoods, theta)
        value = self._scale * value + log_prior
        gradient = self._scale * gradient + prior.gradient(theta)
        gradient[len(kernel_theta) :] += slope
        return value, gradient


class LeftOut(_Objective):
    """The log density of each row given the others of its block, for Gaussian noise."""

    def __init__(self, model, means, blocks):
        super().__init__(model, blocks)
        self._means = means

    def _sum(self, kernel_theta, likelihoods, theta):
        model = self.model
        value, by_kernel = 0.0, np.zeros_like(kernel_theta)
        by_params = [np.zeros(likelihood.n_params) for likelihood in likelihoods]
        for rows in self.blocks:
            X, weight = model.X[rows], model.weight[rows]
            K, pullback = model.kernel.evaluate(kernel_theta, X, X)
            by_K = np.zeros_like(K)
            for k, (likelihood, y) in enumerate(zip(likelihoods, model.targets, strict=True)):
                precision = likelihood.sites(None, y[rows], weight).precision
                peak, log_height = likelihood.peaks(y[rows], weight)
                density, by_B = left_out_density(K, precision, peak - self._means[k])
                value += density.sum() + log_height.sum()
                root = np.sqrt(precision)
                by_K += by_B * root[:, None] * root
                if likelihood.n_params:
                    # Where the mean of f is at the peak and its variance is v, E[log site] is
                    # log_height - p v / 2. With this v its derivative is that of the objective.
                    variance = (1.0 + 2.0 * by_B.diagonal()) / precision
                    moments = peak[None], variance[None]
                    by_params[k] += likelihood.params_gradient(y[rows], weight, *moments)
            by_kernel += pullback(by_K)[0]
        return value, np.concatenate([by_kernel, *by_params])


class BlockBounds(_Objective):
    """The bounds of the blocks with an inducing point at each row, for any likelihood.

    The search for the sites of a block starts from those of the last evaluation.
    """

    def __init__(self, model, blocks):
        super().__init__(model, blocks)
        self._models = [model.subset(rows) for rows in blocks]
        self._points = [InducingPoints(each.X[:]) for each in self._models]
        self._states = [each.initial_state() for each in self._models]

    def _sum(self, kernel_theta, likelihoods, theta):
        value, gradient = 0.0, np.zeros_like(theta)
        for k, (model, points) in enumerate(zip(self._models, self._points, strict=True)):
            found = model.evaluate(theta, points, self._states[k])
            self._states[k] = found.states
            value += found.elbo
            gradient += found.grad_theta - model.prior.gradient(theta)
        # The gradient of each block includes that of the log prior of the likelihood.
        gradient[len(kernel_theta) :] -= len(self._models) * joint_log_prior(likelihoods)[1]
        return value, gradient
