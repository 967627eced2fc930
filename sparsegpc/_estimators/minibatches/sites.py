"""Base class of the estimators that learn from minibatches with any likelihood."""

from sklearn.utils._param_validation import StrOptions

from sparsegpc._core.bounds.slacks import SLACKS, sums_over_rows
from sparsegpc._core.likelihoods.base import Likelihood
from sparsegpc._core.minibatches.site_batches import SiteBatches
from sparsegpc._core.rows.merged_rows import merge_rows
from sparsegpc._estimators.base_estimator import with_parameters
from sparsegpc._estimators.input.settings import resolve_slack
from sparsegpc._estimators.kernels.named_kernels import KernelChoice
from sparsegpc._estimators.kernels.spread import measure_spread
from sparsegpc._estimators.learning.problem_builders import likelihood_model
from sparsegpc._estimators.minibatches.base import BaseMinibatches
from sparsegpc._estimators.minibatches.first_model import FirstModel


@with_parameters
class SiteMinibatches(BaseMinibatches):
    """Learn from minibatches with a likelihood, whose sites may depend on f.

    A subclass defines `_initial_likelihood`.

    Parameters
    ----------
    bound : {"auto", "tight", "standard"}, default="auto"
        How the bound accounts for the residual variance, the part of the prior variance of f that
        the inducing points do not explain. "standard" counts all of it, and "tight" reduces it by
        the best factor for each row. "auto" means "tight".
    likelihood : str or Likelihood, default="auto"
        Distribution of the targets given f.
    """

    bound: str = "auto"
    likelihood: str | Likelihood = "auto"

    _parameter_constraints = {
        **BaseMinibatches._parameter_constraints,
        "bound": [StrOptions({"auto", *sums_over_rows(SLACKS)})],
    }

    def _initial_likelihood(self):
        """Return the likelihood before anything is learned."""
        raise NotImplementedError

    def _first_model(self, X, y, weight):
        self._likelihood = self._initial_likelihood()
        y, weight = y[: len(X)], weight[: len(X)]
        targets = None if self._likelihood.merges_unequal_targets else y
        rows = merge_rows(X, weight, targets=targets)
        spread = measure_spread(rows.X, rows.weight).of_first_rows()
        choice = KernelChoice.of(self)
        found = likelihood_model(self, choice, self._likelihood, y, weight, rows, spread)
        return FirstModel(*found, spread, choice)

    @property
    def _slack(self):
        return resolve_slack(self.bound, self._likelihood, in_batches=True)

    def _batches(self, kernel, of_stream, **options):
        precision = self._likelihood.mean_deviation**-2 if of_stream else 0.0
        return SiteBatches(kernel, self._likelihood, mean_precision=precision, **options)

    def _store(self, model):
        super()._store(model)
        # Predictions use the learned parameters of the likelihood.
        self._likelihood = self.likelihood_ = model.likelihoods(self._state.theta)[0]
        means = self._posterior.prior_means
        self.prior_mean_ = float(means[0]) if len(means) == 1 else means
