"""Averages of predictions over draws of the hyperparameters, and over kernels."""

import numpy as np
from scipy.special import softmax
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions

from sparsegpc._core.learning.hyperparameter_draws import draw_hyperparameters, single_draw
from sparsegpc._estimators.base_estimator import with_parameters
from sparsegpc._estimators.predictions.mixtures import Component

# Rows, counted by their weights, and hyperparameters up to which "auto" averages. Draws of hundreds
# of hyperparameters have unequal weights, and their number of evaluations dominates the fit.
AVERAGING_ROWS, AVERAGED_PARAMETERS = 200, 100


@with_parameters
class HyperparameterDraws:
    """Base of estimators with the parameter `hyperparameters`, which keep draws of them.

    Parameters
    ----------
    hyperparameters : {"auto", "best", "average"}, default="auto"
        "best" predicts with the learned hyperparameters. "average" averages predictions over 16
        draws from their approximate posterior, which matters if few rows leave the hyperparameters
        uncertain: :ref:`user guide <averaging>`. "auto" does so in :class:`SparseGPRegressor` with
        at most 200 rows, counted by their weights, and at most 100 hyperparameters, and in no other
        estimator. With P hyperparameters it takes up to 4 P + 16 additional evaluations of the
        bound; predictions take 16 times the time, and the model 16 times the memory. For each of
        several kernels, see below, all of this is added.

        Except with "best", regressors that choose among kernels (``kernel=None``) also average over
        those that the data hardly tell apart: the best one, and others that are at least a
        twentieth as probable. ``kernel_weights_`` names them; for each kernel, there are draws as
        above, or what was learned. The inducing points, the other attributes and methods such as
        `certificate` are those of the best kernel and its learned hyperparameters.

    Attributes
    ----------
    hyperparameter_draws_ : ndarray of shape (n_draws, n_parameters)
        The draws with `kernel_` over which predictions are averaged: logarithms of its free
        hyperparameters, then the parameters of the noise or the likelihood, as they are learned,
        for example the logarithm of a noise variance, or logarithms of the gaps between cut points.
        A single one, what was learned, if there is no average. Those of a kernel object are within
        its bounds; those of a kernel given by name may exceed the limits of the search if they have
        a prior.
    hyperparameter_weights_ : ndarray of shape (n_draws,)
        Weights of the draws in predictions; they sum to one.
    ess_ : float
        Effective number of draws by their importance weights. If it is below 4, all draws have the
        same weight. 1 if there are no draws to average over, also if the bound can be computed at
        fewer than 4 of them.
    kernel_weights_ : dict of {str: float} or None
        Weights, which sum to one, of the kernels over which predictions are averaged, by their
        names; that of `kernel_` is the first. None if there is a single kernel.
    """

    hyperparameters: str = "auto"

    _parameter_constraints = {"hyperparameters": [StrOptions({"auto", "best", "average"})]}

    # Whether "auto" averages in models of few rows.
    _averages_few_rows = False

    def _store(self, fitted):
        super()._store(fitted)
        if fitted.stopped:
            return
        problem = fitted.problem
        averages = problem.learns and self._averages(problem)
        others = () if self.hyperparameters == "best" else fitted.alternatives
        if not averages and not others:
            return
        fits = [(fitted, 0.0), *others]
        kernel_weights = softmax([log_weight for _, log_weight in fits])
        rng = check_random_state(self.random_state)
        draws = [self._draws(fit, averages, rng) for fit, _ in fits]
        components = [
            Component(kernel_weight * weight, *kept)
            for kernel_weight, of_kernel in zip(kernel_weights, draws, strict=True)
            for weight, kept in zip(of_kernel.weights, of_kernel.kept, strict=True)
            if weight > 0
        ]
        self._keep_draws(draws[0], components)
        if others:
            names = [fit.problem.choice.kernel_name for fit, _ in fits]
            self.kernel_weights_ = dict(zip(names, kernel_weights.tolist(), strict=True))

    def _draws(self, fitted, averages, rng):
        """Return the `Draws` of a `FittedProblem`: what was learned, unless the fit averages."""
        problem, result = fitted.problem, fitted.result
        model = problem.model

        def keep(evaluation):
            if result.search_end is not None:
                # Those that remain after points were removed.
                theta, states = evaluation.theta, evaluation.states
                evaluation = model.solve(theta, result.best.points, states, wrt_theta=False)
            return [evaluation.posterior], self._observation_at(evaluation, model)

        if not averages:
            return single_draw(result.best.theta, keep(result.best))
        bounds = problem.hyperparameters.bounds
        return draw_hyperparameters(model, result.optimum, bounds, _limits(problem), rng, keep)

    def _averages(self, problem):
        if self.hyperparameters != "auto":
            return self.hyperparameters == "average"
        has_few_rows = problem.model.total_weight <= AVERAGING_ROWS
        has_few_parameters = len(problem.hyperparameters.theta) <= AVERAGED_PARAMETERS
        return self._averages_few_rows and has_few_rows and has_few_parameters

    def _store_posterior(self, evaluation, model, offset):
        super()._store_posterior(evaluation, model, offset)
        self._keep_draws(single_draw(evaluation.theta, None), None)

    def _keep_draws(self, draws, components):
        self.hyperparameter_draws_, self.hyperparameter_weights_ = draws.theta, draws.weights
        self.ess_, self._mixture, self.kernel_weights_ = draws.ess, components, None


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
