"""What the estimators share: from validated rows to a fitted sparse model, and its latent f."""

import numbers
import warnings

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from sparsegpc import _inference
from sparsegpc._adapters import (
    adapt_kernel,
    default_kernel,
    kernel_structure,
    measure_spread,
    start_values,
)
from sparsegpc._bounds import SLACKS, Posterior
from sparsegpc._choices import Chosen, FixedChoice
from sparsegpc._diagnosis import describe_fit
from sparsegpc._merging import find_rows, merge_rows
from sparsegpc._model import SparseModel, predict_moments
from sparsegpc._selector import (
    METHODS,
    InducingPointSelector,
    check_inducing_points,
    make_choice,
)
from sparsegpc._settings import row_options


class SparseGPBase(BaseEstimator):
    """Parameters, learning and latent predictions of a sparse Gaussian process.

    A subclass turns targets into what its likelihood needs, calls `_learn` within `all_or_nothing`
    and `single_threaded_blas`, and turns moments of f into predictions.
    """

    _parameter_constraints = {
        "kernel": [Kernel, None],
        "n_inducing": [Interval(numbers.Integral, 1, None, closed="left")],
        "selector": [StrOptions(set(METHODS)), InducingPointSelector, "array-like"],
        "selection_tol": [Interval(numbers.Real, 0, None, closed="left")],
        "bound": [StrOptions({"auto", *SLACKS})],
        "fit_prior_mean": ["boolean"],
        "optimizer": [StrOptions({"l-bfgs-b"}), None],
        "n_restarts_optimizer": [Interval(numbers.Integral, 0, None, closed="left")],
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "tol": [Interval(numbers.Real, 0, None, closed="neither")],
        "max_reselections": [Interval(numbers.Integral, 0, None, closed="left")],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def _learn(self, X, target, weight, likelihood, refuse_white):
        """Fit the sparse model and set the attributes.

        Parameters
        ----------
        X : ndarray of shape (N, D)
        target : ndarray of shape (N,)
        weight : ndarray of shape (N,)
            Positive.
        likelihood : likelihood of `_likelihoods`
        refuse_white : str or None
            See `adapt_kernel`.
        """
        rng = check_random_state(self.random_state)
        rows = merge_rows(X, weight)
        spread = measure_spread(rows.X, rows.weight)
        kernel = default_kernel(spread) if self.kernel is None else self.kernel
        adapted = adapt_kernel(kernel, self.n_features_in_, refuse_white=refuse_white)
        model = self._sparse_model(adapted.kernel, likelihood, rows, rows.mean(target, weight))
        choose = self._choice(rows, rng)
        warm = self.warm_start and hasattr(self, "kernel_")
        if warm:
            self._check_same_kind(kernel)
        learns = self.optimizer is not None and len(adapted.theta) > 0
        cold = start_values(adapted, spread) if learns else [adapted.theta]
        result = _inference.fit(
            model,
            [self.kernel_.theta] if warm else cold,
            adapted.bounds,
            choose,
            max_iter=self.max_iter if learns else 0,
            max_reselections=self.max_reselections,
            restarts=self._restarts(kernel, adapted.bounds, rng) if learns else [],
            spares=cold if warm and learns else [],
            first=self._warm_points(choose, rows) if warm else None,
            report=self._report if self.verbose else None,
        )
        self._store(result, model.counts, kernel, rows)
        for category, message in describe_fit(self, result, adapted, spread):
            # From here up to the user's call of `fit`.
            warnings.warn(message, category, stacklevel=4)

    def _restarts(self, kernel, bounds, rng):
        """Return starts drawn log-uniformly within the bounds."""
        n_restarts = self.n_restarts_optimizer
        if n_restarts and not np.isfinite(bounds).all():
            raise ValueError(
                f"n_restarts_optimizer={n_restarts} draws hyperparameters between their bounds, so "
                f"all bounds of kernel {kernel} must be finite and positive"
            )
        return [rng.uniform(*bounds.T) for _ in range(n_restarts)]

    def _sparse_model(self, kernel, likelihood, rows, target):
        """Return the core's model of merged rows and their mean targets."""
        return SparseModel(
            kernel,
            likelihood,
            rows.X,
            target,
            rows.weight,
            slack=self._slack(likelihood),
            fit_prior_mean=self.fit_prior_mean,
            tol=self.tol,
            **row_options(),
        )

    def _slack(self, likelihood):
        if self.bound == "auto":
            return likelihood.slacks[0]
        if self.bound not in likelihood.slacks:
            raise ValueError(
                f"bound={self.bound!r} is not available for {type(likelihood).__name__}: choose "
                f"'auto' or one of {likelihood.slacks}"
            )
        return self.bound

    def _choice(self, rows, rng):
        """Return the `_choices` object that `selector` asks for."""
        selector = self.selector
        if isinstance(selector, str):
            return make_choice(
                selector, self.n_inducing, self.selection_tol, rows.X, rows.weight, rng
            )
        if not isinstance(selector, InducingPointSelector):
            return FixedChoice(check_inducing_points(selector, self.n_features_in_))
        selector._validate_params()
        for name in ("kernel", "weighting"):
            if getattr(selector, name) is not None:
                raise ValueError(
                    f"selector.{name} must be None within {type(self).__name__}, which supplies "
                    f"what it learns itself, got {getattr(selector, name)!r}"
                )
        if selector.random_state is not None:
            rng = check_random_state(selector.random_state)
        return make_choice(
            selector.method, selector.n_components, selector.tol, rows.X, rows.weight, rng
        )

    def _check_same_kind(self, kernel):
        """Refuse to start from a fit to other columns or with another kind of kernel."""
        n_columns = self.inducing_points_.shape[1]
        if n_columns != self.n_features_in_:
            raise ValueError(
                f"warm_start=True needs the columns of the last fit: it had {n_columns}, X has "
                f"{self.n_features_in_}; set warm_start=False to start afresh"
            )
        if kernel_structure(kernel) != kernel_structure(self.kernel_):
            raise ValueError(
                f"warm_start=True needs the kernel structure of the last fit: it had "
                f"{self.kernel_}, kernel is {kernel}; set warm_start=False to start afresh"
            )

    def _warm_points(self, choose, rows):
        """Return the points of the last fit, or None if the parameters want others."""
        points = self.inducing_points_
        if choose.fixed or len(points) > choose.n_points:
            return None
        return Chosen(points, find_rows(points, rows.X), None)

    def _store(self, result, counts, kernel, rows):
        best = result.best
        posterior = best.solution.posterior
        self.kernel_ = kernel.clone_with_theta(best.theta)
        self.prior_mean_ = posterior.prior_mean
        self.inducing_points_ = best.chosen.Z
        indices = best.chosen.indices
        self.inducing_indices_ = None if indices is None else rows.first[indices]
        self.lower_bound_ = best.bound
        self.lower_bounds_ = np.array(result.bounds)
        self.converged_ = result.converged
        self.n_iter_ = counts.optimizer_iterations
        self.n_evaluations_ = counts.evaluations
        self.n_site_iterations_ = counts.site_iterations
        self.jitter_ = best.jitter
        self._Luu, self._q_mean, self._q_chol = best.Luu, posterior.w, posterior.LB

    def _report(self, n_choices, n_points, bound):
        text = f"choice {n_choices}: {n_points} points, bound {bound:.4f}"
        print(f"[{type(self).__name__}] {text}")  # noqa: T201, asked for by verbose

    def _bound_at(self, theta, rows, likelihood, target, eval_gradient):
        """Return the bound for merged rows at the fitted points, and its gradient if asked for.

        Minus infinity, with a gradient of zero, where the kernel cannot be factored.
        """
        adapted = adapt_kernel(self.kernel_, self.n_features_in_)
        theta = adapted.theta if theta is None else np.asarray(theta, dtype=np.float64)
        if theta.shape != adapted.theta.shape:
            raise ValueError(
                f"theta must have the shape {adapted.theta.shape} of kernel_.theta, got "
                f"{theta.shape}"
            )
        if not np.isfinite(theta).all():
            raise ValueError(f"theta must be finite, got {theta}")
        model = self._sparse_model(adapted.kernel, likelihood, rows, target)
        points = Chosen(self.inducing_points_, None, None)
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                solved = _inference.settle(
                    model, theta, points, model.initial_state(), self.jitter_, eval_gradient
                )
        except np.linalg.LinAlgError:
            return (-np.inf, np.zeros_like(theta)) if eval_gradient else -np.inf
        return (solved.bound, solved.grad_theta) if eval_gradient else solved.bound

    def _latent_moments(self, X):
        """Return mean and variance of f at the rows of validated `X`, shape (N,) each."""
        adapted = adapt_kernel(self.kernel_, self.n_features_in_)
        posterior = Posterior(self._q_mean, self._q_chol, self.prior_mean_)
        return predict_moments(
            adapted.kernel,
            adapted.theta,
            self.inducing_points_,
            self._Luu,
            posterior,
            X,
            **row_options(),
        )
