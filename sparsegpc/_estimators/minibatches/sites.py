"""Base class of the estimators that learn from minibatches with any likelihood."""

from sklearn.utils._param_validation import StrOptions

from sparsegpc._core.bounds.slacks import SLACKS, sums_over_rows
from sparsegpc._core.minibatches.site_batches import SiteBatches
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.unique_rows import unique_rows
from sparsegpc._estimators.input.settings import row_options
from sparsegpc._estimators.kernels.named_kernels import KernelChoice
from sparsegpc._estimators.kernels.sklearn_kernels import NO_WHITE_NOISE, adapt_kernel
from sparsegpc._estimators.kernels.spread import measure_spread
from sparsegpc._estimators.learning.problem import resolve_slack, with_likelihood
from sparsegpc._estimators.minibatches.base import START_ROWS, BaseMinibatches, n_first_rows


class SiteMinibatches(BaseMinibatches):
    """Learn from minibatches with a likelihood, whose sites may depend on f.

    A subclass defines `_initial_likelihood`.
    """

    _parameter_constraints = {
        **BaseMinibatches._parameter_constraints,
        "bound": [StrOptions({"auto", *sums_over_rows(SLACKS)})],
    }

    def _initial_likelihood(self):
        """Return the likelihood before anything is learned."""
        raise NotImplementedError

    def _suffice(self, y):
        """Return whether hyperparameters can be learned from these targets."""
        return True

    def _start_anywhere(self, X, y, weight, rng):
        """Return the state before any batch, from some rows at random."""
        first = self._shuffled(y, rng)[: n_first_rows(self.n_inducing)]
        return self._start(X[first], y[first], weight[first], rng)[0]

    def _start(self, X, y, weight, rng):
        """Return the state before any batch, from some shuffled rows, and no warnings."""
        self._likelihood = self._initial_likelihood()
        y_some, weight_some = y[:START_ROWS], weight[:START_ROWS]
        targets = None if self._likelihood.merges_unequal_targets else y_some
        some = unique_rows(X[:START_ROWS], weight_some, targets=targets)
        spread = measure_spread(some.X, some.weight).of_first_rows()
        choice = KernelChoice.of(self)
        kernel = choice.resolve(spread)
        parameters = adapt_kernel(kernel, self.n_features_in_, refuse_white=NO_WHITE_NOISE)
        model = SparseModel(
            parameters.kernel,
            self._likelihood,
            some.X,
            self._likelihood.targets(y_some, weight_some, some),
            some.weight,
            slack=self._slack(),
            fit_prior_mean=self.fit_prior_mean and self._likelihood.has_prior_mean,
            prior=choice.prior(parameters, spread),
            **row_options(),
        )
        parameters = with_likelihood(parameters, model)
        suffice = self._suffice(y_some)
        return self._first_state(model, kernel, parameters, spread, X, weight, rng, suffice), []

    def _slack(self):
        return resolve_slack(self.bound, self._likelihood, in_batches=True)

    def _model(self):
        """Return the core's model for the current kernel."""
        return SiteBatches(
            adapt_kernel(self.kernel_, self.n_features_in_).kernel,
            self._likelihood,
            slack=self._slack(),
            fit_prior_mean=self.fit_prior_mean,
            learn_Z=self.optimize_inducing,
            bounds=self._bounds,
            prior=self._prior,
            **row_options(),
        )

    def _store(self, model):
        super()._store(model)
        # Predictions use the learned parameters of the likelihood.
        self._likelihood = self.likelihood_ = model.likelihoods(self._state.theta)[0]
        means = self._posterior.prior_means
        self.prior_mean_ = float(means[0]) if len(means) == 1 else means
