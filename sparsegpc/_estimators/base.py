"""What the estimators share: from validated rows to a fitted sparse model, and its latent f."""

import numbers
import warnings
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions

from sparsegpc._core.bounds.collapsed import SLACKS
from sparsegpc._core.learning import inference
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.merging import MergedRows, find_rows
from sparsegpc._core.selection.choices import Chosen, FixedChoice
from sparsegpc._estimators.input.settings import row_options
from sparsegpc._estimators.input.validation import Range, checked_numbers
from sparsegpc._estimators.kernels.adapters import (
    AdaptedKernel,
    Spread,
    column_relevance,
    kernel_structure,
    start_values,
)
from sparsegpc._estimators.latent import LatentMixin
from sparsegpc._estimators.messages.callbacks import CallbackSupportMixin
from sparsegpc._estimators.messages.diagnosis import FRAMES_TO_USER, describe_fit
from sparsegpc._estimators.messages.progress import errors_of_callbacks, say
from sparsegpc._estimators.parameters import ParametersMixin
from sparsegpc._estimators.saving.state import SavedStateMixin
from sparsegpc._estimators.selector import (
    METHODS,
    InducingPointSelector,
    check_inducing_points,
    make_choice,
)


class Problem(NamedTuple):
    """What a model is learned from.

    ``rows`` are `MergedRows`, ``spread`` says how far they lie apart; ``kernel`` is that of f, as
    the user knows it; ``parameters`` is an `AdaptedKernel`, with the parameters of the likelihood
    behind those of the kernel; ``model`` is the core's; ``progress`` is told what is learned.
    """

    rows: MergedRows
    spread: Spread
    kernel: Kernel
    parameters: AdaptedKernel
    model: SparseModel
    progress: Progress

    @property
    def offset(self):
        """What the model's bound lacks to the one that the user is told, in nats."""
        return self.progress.offset * self.model.total_weight


class SparseGPBase(
    SavedStateMixin, LatentMixin, CallbackSupportMixin, ParametersMixin, BaseEstimator
):
    """Parameters, learning and latent predictions of a sparse Gaussian process.

    A subclass states the `Problem`, calls `_learn` within `announced_fit` and
    `single_threaded_blas`, and turns moments of f into predictions.
    """

    _parameter_constraints = {
        "kernel": [Kernel, None],
        "n_inducing": [Range(numbers.Integral, 1, None, closed="left")],
        "selector": [StrOptions(set(METHODS)), InducingPointSelector, "array-like"],
        "selection_tol": [Range(numbers.Real, 0, None, closed="left")],
        "bound": [StrOptions({"auto", *SLACKS})],
        "fit_prior_mean": ["boolean"],
        "optimizer": [StrOptions({"bfgs"}), None],
        "n_restarts_optimizer": [Range(numbers.Integral, 0, None, closed="left")],
        "max_iter": [Range(numbers.Integral, 1, None, closed="left")],
        "tol": [Range(numbers.Real, 0, None, closed="neither")],
        "max_reselections": [Range(numbers.Integral, 0, None, closed="left")],
        "optimize_inducing": ["boolean"],
        "warm_start": ["boolean"],
        "working_dtype": [StrOptions({"float64", "float32"})],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "callback": [callable, None],
    }

    # Whether f may vary much faster than the rows are apart.
    _expects_fast = True

    def _learn(self, problem, rng, starts=None):
        """Learn the hyperparameters that `optimizer` allows to, and set the attributes.

        Parameters
        ----------
        problem : Problem
        rng : RandomState
        starts : list of ndarray of shape (P,) or None
            Where to start; None takes the values of the last fit if `warm_start` says so, else
            those of the kernel and some that follow from the data.

        Returns
        -------
        list of Warned
            What there is to tell about the fit, see `_tell`.
        """
        warm = starts is None and self.warm_start and hasattr(self, "_theta")
        if warm:
            self._check_same_kind(problem)
        result = self._search(problem, rng, warm, starts)
        self._store(result, problem)
        return describe_fit(self, result, problem)

    def _tell(self, warned):
        """Warn the user, who called `fit`, which called this."""
        for category, message, _ in warned:
            warnings.warn(message, category, stacklevel=FRAMES_TO_USER)

    def _search(self, problem, rng, warm=False, starts=None, choose=None):
        """Return the `FitResult` of the learning loop for the parameters of the estimator."""
        parameters = problem.parameters
        learns = self._learns(parameters)
        if self._moves_points:
            check_points_may_move(parameters.kernel, problem.rows.X)
        choose = self._choice(problem, rng) if choose is None else choose
        cold = [parameters.theta]
        if learns:
            cold = start_values(parameters, problem.spread, self._expects_fast)
        if starts is None:
            starts = [self._theta] if warm else cold
        with errors_of_callbacks():
            return inference.fit(
                problem.model,
                starts,
                parameters.bounds,
                choose,
                max_iter=self.max_iter if learns or self._moves_points else 0,
                max_reselections=self.max_reselections,
                move_points=self._moves_points,
                restarts=self._restarts(problem, rng) if learns else [],
                spares=cold if warm and learns else [],
                first=self._warm_points(choose, problem.rows) if warm else None,
                report=partial(self._report, problem) if self.verbose else None,
                progress=problem.progress,
            )

    def _learns(self, parameters):
        return self.optimizer is not None and len(parameters.theta) > 0

    @property
    def _moves_points(self):
        return self.optimizer is not None and self.optimize_inducing

    def _restarts(self, problem, rng):
        """Return starts drawn log-uniformly within the bounds."""
        n_restarts, bounds = self.n_restarts_optimizer, problem.parameters.bounds
        if n_restarts and not np.isfinite(bounds).all():
            raise ValueError(
                f"n_restarts_optimizer={n_restarts} draws hyperparameters between their bounds, so "
                f"all bounds of kernel {problem.kernel} must be finite and positive, got "
                f"{np.exp(bounds).tolist()}: give others, or no restarts"
            )
        return [rng.uniform(*bounds.T) for _ in range(n_restarts)]

    def _model_options(self, likelihood):
        """Return the options of `SparseModel` that the parameters imply."""
        return {
            "slack": self._slack(likelihood),
            "fit_prior_mean": self.fit_prior_mean,
            "tol": self.tol,
            "dtype": np.dtype(self.working_dtype).type,
            **row_options(),
        }

    def _slack(self, likelihood):
        if self.bound == "auto":
            return likelihood.slacks[0]
        if self.bound not in likelihood.slacks:
            raise ValueError(
                f"bound={self.bound!r} is not available for {type(likelihood).__name__}: choose "
                f"'auto' or one of {likelihood.slacks}"
            )
        return self.bound

    def _choice(self, problem, rng):
        """Return the `choices` object that `selector` asks for."""
        selector, rows, n_functions = self.selector, problem.rows, problem.model.n_functions
        if isinstance(selector, str):
            return make_choice(
                selector,
                self.n_inducing,
                self.selection_tol,
                rows.X,
                rows.weight,
                rng,
                n_functions=n_functions,
            )
        if not isinstance(selector, InducingPointSelector):
            points = check_inducing_points(selector, self.n_features_in_, n_functions)
            return FixedChoice(points)
        selector._validate_params()
        for name in ("kernel", "weighting"):
            if getattr(selector, name) is not None:
                raise ValueError(
                    f"selector.{name} must be None within {type(self).__name__}, which supplies "
                    f"what it learns itself, got {getattr(selector, name)!r}: leave it out"
                )
        if selector.random_state is not None:
            rng = check_random_state(selector.random_state)
        return make_choice(
            selector.method,
            selector.n_components,
            selector.tol,
            rows.X,
            rows.weight,
            rng,
            n_functions=n_functions,
            name="selector.n_components",
        )

    def _check_same_kind(self, problem):
        """Refuse to start from a fit to other columns or with another kind of kernel."""
        n_columns = self.inducing_points_.shape[1]
        if n_columns != self.n_features_in_:
            raise ValueError(
                f"warm_start=True needs the columns of the last fit: it had {n_columns}, X has "
                f"{self.n_features_in_}; set warm_start=False to start afresh"
            )
        if kernel_structure(problem.kernel) != kernel_structure(self.kernel_):
            raise ValueError(
                f"warm_start=True needs the kernel structure of the last fit: it had "
                f"{self.kernel_} with {_free(self.kernel_)} free, kernel is {problem.kernel} with "
                f"{_free(problem.kernel)} free; set warm_start=False to start afresh"
            )

    def _warm_points(self, choose, rows):
        """Return the points of the last fit, or None if the parameters want others."""
        points = self.inducing_points_
        if choose.fixed or len(points) > choose.n_points:
            return None
        return Chosen(points, find_rows(points, rows.X), None)

    def _store(self, result, problem):
        best, counts = result.best, problem.model.counts
        self._theta = best.theta
        self._posteriors = [solution.posterior for solution in best.solutions]
        self.kernel_ = problem.kernel.clone_with_theta(best.theta[: problem.model.kernel.n_params])
        self.inducing_points_ = best.chosen.Z
        indices = best.chosen.indices
        self.inducing_indices_ = None if indices is None else problem.rows.first[indices]
        self.lower_bound_ = best.evidence + problem.offset
        self.lower_bounds_ = np.array(result.bounds) + problem.offset
        self.history_ = problem.progress.history()
        self.converged_ = result.converged
        # A search that starts at the optimum has looked at least.
        self.n_iter_ = max(counts.optimizer_iterations, int(self._learns(problem.parameters)))
        self.n_evaluations_ = counts.evaluations
        self.n_site_iterations_ = counts.site_iterations
        self.jitter_ = best.jitter
        self._Luu = best.Luu
        self._rows_per_weight = len(problem.rows.X) / problem.model.total_weight
        self._set_cost()
        self.feature_relevance_ = column_relevance(self.kernel_, problem.spread)

    def _set_cost(self):
        cost = 0.5 * sum(posterior.mean_cost for posterior in self._posteriors)
        self.cost_per_row_ = float(cost * self._rows_per_weight)

    def _report(self, problem, n_choices, n_points, bound):
        text = f"choice {n_choices}: {n_points} points, bound {bound + problem.offset:.4f}"
        say(self, text, problem.progress.label)

    def _bound_at(self, model, theta, chosen, eval_gradient):
        """Return the bound of a model at all its parameters and given points, and the gradient.

        Minus infinity, with a gradient of zero, where the kernel cannot be factored.
        """
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                states = self._learned_states(model)
                solved = inference.settle(model, theta, chosen, states, self.jitter_, eval_gradient)
        except np.linalg.LinAlgError:
            return (-np.inf, np.zeros_like(theta)) if eval_gradient else -np.inf
        return (solved.evidence, solved.grad_theta) if eval_gradient else solved.evidence

    def _learned_states(self, model):
        """Return where to solve for the sites of given rows: the learned posterior's.

        Where a bound has several optima it leads back to the one that was learned.
        """
        return model.states_from(self._theta, self.inducing_points_, self._posteriors, self.jitter_)

    def _check_theta(self, theta):
        """Return the kernel's parameters that a user gives, or the learned ones for None."""
        learned = self.kernel_.theta
        if theta is None:
            return learned
        theta = checked_numbers(theta, "theta", allow_nd=True, ensure_all_finite=False)
        if theta.shape != learned.shape:
            raise ValueError(
                f"theta must have the shape {learned.shape} of kernel_.theta, got {theta.shape}: "
                "give the logarithms of the free hyperparameters"
            )
        if not np.isfinite(theta).all():
            raise ValueError(f"theta must be finite, got {theta}: give logarithms")
        return theta


def _free(kernel):
    return [h.name for h in kernel.hyperparameters if not h.fixed] or "nothing"


def check_points_may_move(kernel, X):
    """Raise ValueError if a kernel has no derivatives w.r.t. the points."""
    theta = np.zeros(kernel.n_params)
    try:
        kernel.evaluate(theta, X[:1], X[:1])[1](np.ones((1, 1)), wrt_Z=True)
    except NotImplementedError as error:
        raise ValueError(f"optimize_inducing=True is not possible: {error}") from error
