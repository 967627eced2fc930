"""Draws of the hyperparameters, over which predictions are averaged."""

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions

from sparsegpc._core.learning.hyperparameter_draws import draw_hyperparameters, single_draw
from sparsegpc._estimators.base_estimator import with_parameters
from sparsegpc._estimators.predictions.mixtures import Component

# Rows, counted by their weights, up to which "auto" averages.
AVERAGING_ROWS = 100


@with_parameters
class HyperparameterDraws:
    """Base of estimators with the parameter `hyperparameters`, which keep draws of them.

    Parameters
    ----------
    hyperparameters : {"auto", "best", "average"}, default="auto"
        "best" predicts with the learned hyperparameters. "average" averages predictions over 16
        draws from their approximate posterior, which matters if few rows leave the hyperparameters
        uncertain: :ref:`user guide <averaging>`. "auto" averages in :class:`SparseGPRegressor` with
        at most 100 rows, counted by their weights, and in no other estimator. With P
        hyperparameters averaging takes up to 4 P + 16 additional evaluations of the bound;
        predictions take 16 times the time, and the model 16 times the memory. The inducing points,
        the other attributes and methods such as `certificate` are those of the learned
        hyperparameters.

    Attributes
    ----------
    hyperparameter_draws_ : ndarray of shape (n_draws, n_parameters)
        The draws over which predictions are averaged: logarithms of the free hyperparameters of
        `kernel_`, then the parameters of the noise or the likelihood, as they are learned: for
        example the logarithm of a noise variance, or logarithms of the gaps between cut points. A
        single one, what was learned, if there is no average. Those of a kernel object are within
        its bounds; those of a kernel given by name may exceed the limits of the search if they have
        a prior.
    hyperparameter_weights_ : ndarray of shape (n_draws,)
        Weights of the draws in predictions; they sum to one.
    ess_ : float
        Effective number of draws by their importance weights. If it is below 4, all draws have the
        same weight. 1 if there is no average, also if the bound can be computed at fewer than 4
        draws.
    """

    hyperparameters: str = "auto"

    _parameter_constraints = {"hyperparameters": [StrOptions({"auto", "best", "average"})]}

    # Whether "auto" averages in models of few rows.
    _averages_few_rows = False

    def _store(self, fitted):
        super()._store(fitted)
        problem, result = fitted.problem, fitted.result
        model = problem.model
        if not self._averages(model.total_weight) or not problem.learns or fitted.stopped:
            return

        def keep(evaluation):
            if result.search_end is not None:
                # Those that remain after points were removed.
                theta, states = evaluation.theta, evaluation.states
                evaluation = model.solve(theta, result.best.points, states, wrt_theta=False)
            return [evaluation.posterior], self._observation_at(evaluation, model)

        rng = check_random_state(self.random_state)
        bounds = problem.hyperparameters.bounds
        draws = draw_hyperparameters(model, result.optimum, bounds, _limits(problem), rng, keep)
        pairs = zip(draws.weights, draws.kept, strict=True)
        self._keep_draws(draws, [Component(weight, *kept) for weight, kept in pairs if weight > 0])

    def _averages(self, total_weight):
        if self.hyperparameters == "auto":
            return self._averages_few_rows and total_weight <= AVERAGING_ROWS
        return self.hyperparameters == "average"

    def _store_posterior(self, evaluation, model, offset):
        super()._store_posterior(evaluation, model, offset)
        self._keep_draws(single_draw(evaluation.theta, None), None)

    def _keep_draws(self, draws, components):
        self.hyperparameter_draws_, self.hyperparameter_weights_ = draws.theta, draws.weights
        self.ess_, self._mixture = draws.ess, components


def _limits(problem):
    """Return the limits of the draws, (P, 2): the bounds, or none for some parameters.

    Bounds that the package chooses only keep a search away from useless values. They do not limit
    draws of parameters of the kernel that have a prior.
    """
    limits = problem.hyperparameters.bounds.copy()
    if problem.choice.is_named:
        indices = problem.model.prior.indices
        limits[indices[indices < problem.model.kernel.n_params]] = -np.inf, np.inf
    return limits
