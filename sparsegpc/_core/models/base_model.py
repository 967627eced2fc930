"""What models of all rows and models that learn from minibatches have in common."""

from sparsegpc._core.models.prior import ProductPrior
from sparsegpc._core.rows.blocks import DEFAULT_MEMORY


class BaseModel:
    """Base class of models: the kernel and settings, which stay the same during learning.

    The vector `theta` of learned hyperparameters begins with the parameters of the kernel.

    `fit_prior_mean` learns the constant prior mean of each f; otherwise it is zero. `prior` is the
    `ProductPrior` of theta, or None. For `n_threads` and `memory` see `RowBlocks`.
    """

    def __init__(
        self,
        kernel,
        *,
        slack,
        fit_prior_mean=True,
        prior=None,
        n_threads=1,
        memory=DEFAULT_MEMORY,
    ):
        self.kernel, self.slack, self.fit_prior_mean = kernel, slack, fit_prior_mean
        self.prior = ProductPrior() if prior is None else prior
        self._row_options = {"n_threads": n_threads, "memory": memory}

    @property
    def prior_mean(self):
        """The prior mean as an argument of `collapse`: zero, or None if it is learned."""
        return None if self.fit_prior_mean else 0.0

    def kernel_theta(self, theta):
        """Return the parameters of the kernel."""
        return theta[: self.kernel.n_params]
