"""GPyTorch's approximate Gaussian process as a classifier, by Adam on minibatches.

GPyTorch and PyTorch have to be installed; nothing else of the benchmarks needs them.
"""

from functools import cache

import numpy as np
from gpflow_peer import kmeans_centres
from measure import Stopwatch

# Rows of one block where there is nothing to learn.
BLOCK_ROWS = 4096
LEARNING_RATE = 0.01


@cache
def import_gpytorch():
    """Return the modules gpytorch and torch, and the class of the model and of its likelihood."""
    import gpytorch
    import torch
    from gpytorch.likelihoods.likelihood import _OneDimensionalLikelihood

    class Logistic(_OneDimensionalLikelihood):
        """Labels 0 and 1 by the logistic function; GPyTorch's own likelihood is the probit one."""

        def forward(self, f):
            return torch.distributions.Bernoulli(logits=f)

    class Model(gpytorch.models.ApproximateGP):
        """A constant mean and an isotropic squared exponential."""

        def __init__(self, Z, move_points, length_scale):
            q = gpytorch.variational.CholeskyVariationalDistribution(len(Z))
            super().__init__(
                gpytorch.variational.VariationalStrategy(
                    self, Z, q, learn_inducing_locations=move_points
                )
            )
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
            self.covar_module.outputscale = 1.0
            self.covar_module.base_kernel.lengthscale = length_scale

        def forward(self, X):
            mean, covariance = self.mean_module(X), self.covar_module(X)
            return gpytorch.distributions.MultivariateNormal(mean, covariance)

    return gpytorch, torch, Model, Logistic


class GPyTorchSVGP:
    """The sparse variational model with the logistic likelihood, in double precision.

    Points start from centres of k-means; Adam moves everything, on batches in random order.

    Parameters
    ----------
    n_inducing : int
    move_points : bool
        Learn the inducing points, too; else they stay.
    length_scale : float
        Where it starts; the variance starts at one.
    n_epochs, batch_size : int
    max_seconds : float
        CPU seconds after which no further epoch begins.
    n_threads : int
        Of PyTorch.
    seed : int

    Attributes
    ----------
    classes_, lower_bound_
        The bound is that of all rows at the end.
    n_steps_ : int
    trace_ : list of (CPU seconds since the start of the fit, estimate of the bound)
        For each epoch, from its batches.
    """

    def __init__(
        self,
        n_inducing,
        *,
        move_points=True,
        length_scale=1.0,
        n_epochs=50,
        batch_size=1024,
        max_seconds=np.inf,
        n_threads=1,
        seed=0,
    ):
        self.n_inducing, self.move_points = n_inducing, move_points
        self.length_scale, self.n_epochs = length_scale, n_epochs
        self.batch_size, self.max_seconds = batch_size, max_seconds
        self.n_threads, self.seed = n_threads, seed
        import_gpytorch()  # so that no fit takes the time of it

    def fit(self, X, y):
        gpytorch, torch, Model, Logistic = import_gpytorch()
        torch.set_num_threads(self.n_threads)
        torch.manual_seed(self.seed)
        watch = Stopwatch()
        self.classes_ = np.unique(y)
        Z = torch.as_tensor(kmeans_centres(X, self.n_inducing, self.seed))
        X, y = torch.as_tensor(X), torch.as_tensor(y, dtype=torch.float64)
        model = Model(Z, self.move_points, self.length_scale).double()
        likelihood = Logistic().double()
        objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(X))
        optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
        self.trace_, self.n_steps_ = [], 0
        for _ in range(self.n_epochs):
            total = 0.0
            for rows in torch.randperm(len(X)).split(self.batch_size):
                optimizer.zero_grad()
                loss = -objective(model(X[rows]), y[rows])
                loss.backward()
                optimizer.step()
                self.n_steps_ += 1
                total -= float(loss.detach()) * len(rows)
            self.trace_.append((watch.read().cpu, total))
            if watch.read().cpu > self.max_seconds:
                break
        self.model_, self.likelihood_ = model.eval(), likelihood.eval()
        self.lower_bound_ = self._bound(X, y)
        return self

    def _bound(self, X, y):
        """Return the bound on all rows."""
        torch = import_gpytorch()[1]
        with torch.no_grad():
            total = -float(self.model_.variational_strategy.kl_divergence())
            for rows in torch.arange(len(X)).split(BLOCK_ROWS):
                f = self.model_(X[rows])
                total += float(self.likelihood_.expected_log_prob(y[rows], f).sum())
        return total

    def predict_proba(self, X):
        """Return the probabilities of both classes, by GPyTorch's own quadrature."""
        torch = import_gpytorch()[1]
        with torch.no_grad():
            second = np.concatenate(
                [
                    self.likelihood_.log_marginal(torch.ones(len(part)), self.model_(part)).exp()
                    for part in torch.as_tensor(X).split(BLOCK_ROWS)
                ]
            )
        return np.stack([1.0 - second, second], axis=1)
