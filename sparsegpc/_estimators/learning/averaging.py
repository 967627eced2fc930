"""Draws of the hyperparameters, over which predictions are averaged."""

from sklearn.utils import check_random_state

from sparsegpc._core.learning.hyperparameter_draws import draw_hyperparameters, single_draw
from sparsegpc._estimators.predictions.mixtures import Component

# What the parameter `hyperparameters` may be.
HYPERPARAMETERS = {"best", "average"}


class HyperparameterDraws:
    """The part of an estimator with the parameter `hyperparameters` that keeps draws of them."""

    def _store(self, learned):
        super()._store(learned)
        problem, result = learned.problem, learned.result
        if self.hyperparameters == "best" or not problem.learns or learned.stopped:
            return
        model = problem.model

        def keep(evaluation):
            if result.search_end is not None:
                # Those that remain after points were removed.
                theta, states = evaluation.theta, evaluation.states
                evaluation = model.solve(theta, result.best.points, states, wrt_theta=False)
            return [evaluation.posterior], self._observation_at(evaluation, model)

        rng = check_random_state(self.random_state)
        draws = draw_hyperparameters(model, result.optimum, problem.parameters.bounds, rng, keep)
        parts = zip(draws.weights, draws.kept, strict=True)
        self._keep_draws(draws, [Component(weight, *kept) for weight, kept in parts if weight > 0])

    def _store_posterior(self, evaluation, model, offset):
        super()._store_posterior(evaluation, model, offset)
        self._keep_draws(single_draw(evaluation.theta, None), None)

    def _keep_draws(self, draws, components):
        self.hyperparameter_draws_, self.hyperparameter_weights_ = draws.theta, draws.weights
        self.ess_, self._mixture = draws.ess, components
