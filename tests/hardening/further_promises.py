"""What fits of the problems of `further_problems` promise, beside what all fits do."""

import pickle
import time
import warnings

import numpy as np
from scipy import stats
from scipy.optimize import minimize
from sklearn.base import clone

from sparsegpc import BoundSearch, LocalCorrection
from sparsegpc._core.likelihoods.student_t import DF_RANGE, LIMITS
from sparsegpc.decomposition import BayesianGPLVM
from tests.hardening.promises import (
    ROUNDING,
    SMALLEST_VARIANCE_COST,
    Promises,
    least_variance,
    leaves,
    row_weights,
)

LEVELS = (0.01, 0.2, 0.5, 0.8, 0.99)
# Fits of more rows, or that take more seconds, are not repeated in other ways.
FEW_ROWS, SHORT_FIT = 300, 3.0
# How much less, in nats per value of y and in all, a fit may reach than an obvious alternative, as
# searches end at local maxima.
LOST_PER_VALUE, LOST = 0.02, 2.0
# How far apart bounds of searches may be that differ in rounding only, see `test_same_answer`.
LEARNED_BOUND = 1e-3


class FurtherPromises(Promises):
    """Promises of all models, of repeated fits, and of fits by obvious alternatives."""

    def check(self):
        begin = time.perf_counter()
        model = self.estimator
        if isinstance(model, BayesianGPLVM):
            self._check_latent_variables(model)
            return
        self._fit()
        self.seconds = time.perf_counter() - begin
        if isinstance(model, LocalCorrection):
            self._check_predictions(model.corrected_estimator_)
            self._check_round_trip(model)
            self._check_repeated(model)
            self.estimator = model.estimator_
            self._check_model(model.estimator_)
            return
        if isinstance(model, BoundSearch):
            self._check_search(model)
            self._check_predictions(model.best_estimator_)
            self._check_round_trip(model)
            self.estimator = model.best_estimator_
            return
        if hasattr(model, "n_evaluations_"):
            self._check_history(model)
        self._check_model(model)
        self._check_predictions(model)
        self._check_round_trip(model)
        if self.seconds < SHORT_FIT:
            self._check_repeated(model)
            self._check_order(model)
            self._check_copies(model)
            self._check_alternatives(model)
        if hasattr(model, "partial_fit"):
            self._check_stream()

    def _check_attributes(self, model):
        """All attributes are finite, but what is documented not to be."""
        for name, value in vars(model).items():
            is_allowed = name in ("results_", "noise_variance_", "log_scales_")
            if name.endswith("_") and not name.startswith("_") and not is_allowed:
                for path, leaf in leaves(name, value):
                    self.require(np.isfinite(leaf).all(), f"{path} is not finite: {leaf}")

    def _predictor(self, model):
        if hasattr(model, "classes_") or not hasattr(model, "likelihood_"):
            return super()._predictor(model)
        # Means of y are infinite where they overflow, as documented.
        return lambda X: model.latent_mean_and_variance(X)[0]

    # One model

    def _check_model(self, model):
        self._check_latent(model)
        self._check_rows_alone(model)
        self._check_constant(model)
        if hasattr(model, "truncate"):
            self._check_own_bound(model)
            self._check_certificate(model)
            self._check_truncated(model)

    def _check_own_bound(self, model):
        """The bound at the learned hyperparameters is that of the fit."""
        if getattr(model, "estimators_", None) or self.has_unsolved_sites:
            return
        problem = self.problem
        with self.kept("lower_bound"):
            data = {"X": problem.X, "y": problem.y, **problem.fit_params}
            found = model.lower_bound(model.kernel_.theta, **data)
            allowed = ROUNDING * (1.0 + abs(found)) + self._lost_digits(model)
            # Sites are solved for to this tolerance.
            allowed += model.tol * row_weights(problem).sum()
            self.require(
                abs(found - model.lower_bound_) <= allowed,
                f"lower_bound() {found!r}, lower_bound_ {model.lower_bound_!r}",
            )

    def _lost_digits(self, model):
        if (
            hasattr(model, "predict_noise_std")
            and np.isfinite(model.predict_noise_std(self.problem.X)).all()
        ):
            return super()._lost_digits(model)
        if hasattr(model, "classes_"):
            return super()._lost_digits(model)
        prior = float(model.kernel_.diag(self.problem.X_new).max())
        weight = row_weights(self.problem)
        jitter = model.jitter_ + len(weight) * np.finfo(float).eps
        precision = 1.0 / getattr(model, "_y_scale", np.ones(1)).min() ** 2
        if hasattr(model, "likelihood_"):
            precision = max(1.0, getattr(model.likelihood_, "shape", None) or 1.0)
        ratio = weight.max() * precision * jitter * prior
        size = abs(model.lower_bound_) + weight.sum() * precision
        return 0.5 * len(weight) * float(np.log1p(ratio)) + ROUNDING * size

    # Predictions

    def _check_predictions(self, model):
        if hasattr(model, "predict_proba"):
            self._check_probabilities(model)
            return
        if hasattr(model, "likelihood_"):
            self._check_responses(model)
        else:
            self._check_numbers(model)

    def _check_quantiles(self, model, **arguments):
        X = self.problem.X_new
        quantiles = model.predict_quantiles(X, list(LEVELS), **arguments)
        self.require(np.isfinite(quantiles).all(), "quantiles are not finite")
        self.require((np.diff(quantiles, axis=-1) >= 0.0).all(), "quantiles that fall")
        low, high = model.predict_interval(X, **arguments)
        self.require(bool((low <= high).all()), "interval of negative length")
        thresholds = np.median(quantiles.reshape(-1, len(LEVELS)), axis=0)
        exceedance = model.predict_exceedance(X, thresholds, **arguments)
        inside = (exceedance >= 0.0) & (exceedance <= 1.0)
        self.require(bool(inside.all()), "exceedance is no probability")
        self.require((np.diff(exceedance, axis=-1) <= 1e-9).all(), "exceedance that rises")

    def _check_responses(self, model):
        X, problem = self.problem.X_new, self.problem
        mean, std = model.predict(X, return_std=True)
        self.require(bool((mean >= 0.0).all()), f"mean {mean.min()}")
        self.require(not np.isnan(std).any() and bool((std >= 0.0).all()), "deviation of y")
        self._check_quantiles(model)
        y = np.median(problem.y)
        y = np.full(len(X), np.floor(y) if (np.asarray(problem.y) % 1 == 0).all() else y)
        density = model.log_predictive_density(X, y)
        self.require(not np.isnan(density).any(), "predictive density is nan")
        self.require(not np.isposinf(density).any(), "predictive density is infinite")
        if hasattr(model, "sample_y"):
            with self.kept("sample_y"):
                if not hasattr(self.estimator, "corrected_estimator_"):
                    samples = model.sample_y(X[:20], n_samples=2)
                    self.require(np.isfinite(samples).all(), "samples of y are not finite")
        if getattr(model.likelihood_, "has_survival", False):
            times = np.quantile(problem.y, [0.0, 0.3, 0.6, 1.0]) * [0.5, 1.0, 1.0, 2.0]
            survival = model.survival_function(X, times)
            inside = (survival >= 0.0) & (survival <= 1.0)
            self.require(bool(inside.all()), "survival is no probability")
            rises = np.diff(survival, axis=1).max()
            self.require(rises <= 1e-12, f"survival that rises by {rises:.2g}")

    def _check_numbers(self, model):
        X = self.problem.X_new
        mean, std = model.predict(X, return_std=True)
        self.require(np.isfinite(mean).all(), "mean is not finite")
        # That of Student-t noise of few degrees of freedom is infinite.
        self.require(not np.isnan(std).any() and bool((std > 0.0).all()), "deviation of y")
        self._check_quantiles(model)
        density = model.log_predictive_density(X, mean)
        self.require(np.isfinite(density).all(), "predictive density is not finite")
        if not isinstance(self.estimator, LocalCorrection):
            samples = model.sample_y(X[:20], n_samples=2)
            self.require(np.isfinite(samples).all(), "samples of y are not finite")

    # The same again

    def _answer(self, model, X=None):
        """Return the bound, and predictions as one array."""
        X = self.problem.X_new if X is None else X
        predict = getattr(model, "predict_proba", model.predict)
        bound = getattr(getattr(model, "estimator_", model), "lower_bound_", 0.0)
        return float(bound), np.asarray(predict(X))

    def _fitted(self, estimator, X=None, y=None, fit_params=None):
        problem = self.problem
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return (
                clone(estimator)
                .set_params()
                .fit(
                    problem.X if X is None else X,
                    problem.y if y is None else y,
                    **(problem.fit_params if fit_params is None else fit_params),
                )
            )

    def _require_same_bits(self, found, expected, what):
        self.require(found[0] == expected[0], f"{what}: bound {found[0]!r}, {expected[0]!r}")
        self.require(np.array_equal(found[1], expected[1]), f"{what}: other predictions")

    def _check_round_trip(self, model):
        loaded = pickle.loads(pickle.dumps(model))
        self._require_same_bits(self._answer(loaded), self._answer(model), "pickle")
        self.require(str(clone(model)) == str(self.problem.estimator), "clone: other parameters")

    def _is_repeatable(self, model):
        return not getattr(model, "warm_start", False)

    def _check_repeated(self, model):
        inner = getattr(model, "estimator", model)
        if self._is_repeatable(inner):
            found = self._answer(self._fitted(self.problem.estimator))
            self._require_same_bits(found, self._answer(model), "fit again")

    def _rows_of(self, rows):
        """Return X, y and the other arguments of fit, of these rows."""
        problem, n = self.problem, len(self.problem.y)
        params = {
            name: value[rows] if np.ndim(value) and len(value) == n else value
            for name, value in problem.fit_params.items()
        }
        return np.asarray(problem.X, dtype=np.float64)[rows], problem.y[rows], params

    def _check_order(self, model):
        """The order of the rows does not matter; sums of weights of equal rows may round."""
        if hasattr(model, "partial_fit") or not self._is_repeatable(model):
            return
        n_rows = len(self.problem.y)
        if isinstance(self.problem.X, np.memmap):
            # Rows on disk are not sorted.
            return
        rows = np.random.RandomState(self.problem.seed).permutation(n_rows)
        if len(np.unique(np.asarray(self.problem.X), axis=0)) < n_rows:
            return
        found = self._answer(self._fitted(self.problem.estimator, *self._rows_of(rows)))
        self._require_same_bits(found, self._answer(model), "rows in another order")

    def _check_copies(self, model):
        """A weight that is a count has the effect of as many copies of the row."""
        weight = self.problem.fit_params.get("sample_weight")
        if hasattr(model, "partial_fit") or not self._is_repeatable(model):
            return
        if np.ndim(weight) != 1 or np.asarray(weight).dtype.kind != "i":
            return
        X, y, params = self._rows_of(np.repeat(np.arange(len(weight)), weight))
        del params["sample_weight"]
        found = self._answer(self._fitted(self.problem.estimator, X, y, params))[0]
        expected = model.lower_bound_
        allowed = LEARNED_BOUND if model.optimizer else ROUNDING
        allowed *= abs(expected) + weight.sum()
        allowed += self._lost_digits(model)
        self.require(abs(found - expected) <= allowed, f"copies: bound {found}, {expected}")

    # Obvious alternatives

    def _check_constant(self, model):
        if getattr(model, "point_cost", 0.0) > 0.0:
            # Points may go that are worth less than they cost.
            return
        if hasattr(model, "classes_") or isinstance(getattr(model, "noise", None), str):
            super()._check_constant(model)
        constant = _constant_bound(self.problem, model)
        if constant is None:
            return
        bound, total = model.lower_bound_, row_weights(self.problem).sum()
        # A search may end within its tolerance, and the shape has a prior.
        allowed = ROUNDING * (abs(bound) + abs(constant)) + SMALLEST_VARIANCE_COST * total
        allowed += LOST
        self.require(
            bound >= constant - allowed,
            f"worse than a constant: bound {bound:.8g}, constant {constant:.8g}, "
            f"{(constant - bound) / total:.2g} nats per row",
        )

    def _check_alternatives(self, model):
        """A learned model is not clearly worse than what the user might have tried instead."""
        problem = self.problem
        if getattr(model, "optimizer", None) is None or len(problem.y) > FEW_ROWS:
            return
        if model.point_cost > 0.0 or getattr(model, "estimators_", None) or not model.converged_:
            return
        n_values = row_weights(problem).sum() * np.size(problem.y[0])
        for name, found, bound, cost in self._alternatives(model):
            allowed = LOST + LOST_PER_VALUE * n_values + cost
            allowed += ROUNDING * (abs(found) + abs(bound)) + self._lost_digits(model)
            self.require(found >= bound - allowed, f"worse than {name}: {found:.8g}, {bound:.8g}")

    def _alternatives(self, model):
        """Yield names of alternatives, what the model and they reach, and what limits may cost."""
        problem, kernel = self.problem, model.kernel
        data = {"X": problem.X, "y": problem.y, **problem.fit_params}
        is_object = hasattr(kernel, "theta")
        if is_object and "WhiteKernel" not in str(kernel) and len(kernel.theta):
            # The length scales have no prior, and that of the likelihood has the same value.
            bound = model.lower_bound(kernel.theta, **data)
            yield "the values of the kernel", model.lower_bound_, bound, 0.0
        least, others = {}, {}
        if isinstance(model.selector, str) and model.n_inducing != "auto" and model.n_inducing > 3:
            others["half the points"] = {"n_inducing": model.n_inducing // 2}
        if is_object and type(kernel).__name__ == "Sum" and "WhiteKernel" not in str(kernel):
            for one, other in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
                # Otherwise the sum cannot be nearly one of its terms.
                if least_variance(other) <= 1e-4:
                    name = f"the summand {one}"
                    others[name], least[name] = {"kernel": one}, least_variance(other)
        common = _with_common_length(kernel) if is_object else None
        if common is not None:
            others["one length scale"] = {"kernel": common}
        elif not is_object and kernel is not None and model.length_scales == "free":
            others["one length scale"] = {"length_scales": "common"}
        found = model.lower_bound_ + model.log_prior_
        for name, changes in others.items():
            other = self._fitted(clone(problem.estimator).set_params(**changes))
            if other._without_copies != model._without_copies:
                # Their bounds are for different rows.
                continue
            cost = self._cost_of_variance(other, least.get(name, 0.0))
            yield name, found, other.lower_bound_ + other.log_prior_, cost

    def _cost_of_variance(self, model, variance):
        """Return what a variance of f, as small as the kernel admits, may cost in nats."""
        weight = row_weights(self.problem)
        terms = np.log1p(variance / self._noise(model)).sum(axis=1)
        return 0.5 * float(weight @ np.broadcast_to(terms, len(weight)))

    def _noise(self, model):
        """Return the variance of the noise in units of f, by row and output or for all rows."""
        problem = self.problem
        if hasattr(model, "classes_"):
            # Sites of labels have precisions of at most one.
            return np.ones((1, np.size(model.prior_mean_)))
        if hasattr(model, "likelihood_"):
            likelihood = model.likelihood_
            shape = getattr(likelihood, "shape", None)
            noise = {
                "LogNormal": lambda: shape**2,
                "Weibull": lambda: shape**-2.0,
                "Gamma": lambda: 1.0 / shape,
            }.get(type(likelihood).__name__, lambda: 1.0 / max(1.0, np.max(problem.y)))
            return np.array([[noise()]])
        if model.noise_scale_ is not None:
            return np.reshape(model.noise_scale_ / model._y_scale, (1, -1)) ** 2
        known = problem.fit_params.get("noise_variance")
        noise = model.predict_noise_std(problem.X) ** 2 if known is None else known
        return np.reshape(noise, (np.size(noise) // len(model._y_scale), -1)) / model._y_scale**2

    # Streams

    def _check_stream(self):
        problem = self.problem
        model = clone(problem.estimator)
        for rows in np.array_split(np.arange(len(problem.y)), 3):
            X, y, params = self._rows_of(rows)
            weight = params.get("sample_weight")
            if len(rows) == 0 or (np.ndim(weight) and not np.any(weight)):
                continue
            with self.kept("partial_fit"):
                model.partial_fit(X, y, **params)
        if hasattr(model, "kernel_"):
            self._check_attributes(model)
            self._check_latent(model)
            self._check_predictions(model)

    # Searches and latent variables

    def _check_search(self, search):
        bounds = np.asarray(search.results_["bound"])
        chosen = bounds[search.best_index_]
        self.require(np.isfinite(chosen), "the chosen candidate has no bound")
        self.require(chosen >= np.nanmax(bounds) - search.tol, f"another is better: {bounds}")
        errors = [text for text in search.results_["error"] if text]
        self.require(not errors, f"candidates failed: {errors}")

    def _check_latent_variables(self, model):
        X = self.problem.X
        before = X.copy()
        model.fit(X)
        self.require(np.array_equal(X, before, equal_nan=True), "fit changed X")
        self._check_attributes(model)
        mean, std = model.transform(X[:60], return_std=True)
        self.require(np.isfinite(mean).all(), "latent means are not finite")
        self.require(np.isfinite(std).all() and (std > 0.0).all(), "latent deviations")
        columns, error = model.inverse_transform(mean, return_std=True)
        self.require(np.isfinite(columns).all(), "columns are not finite")
        self.require(np.isfinite(error).all() and (error > 0.0).all(), "deviations of columns")
        scores = model.score_samples(self.problem.X_new)
        self.require(np.isfinite(scores).all(), "scores are not finite")
        again = pickle.loads(pickle.dumps(model))
        self.require(np.array_equal(again.transform(X[:60]), mean), "pickle: other places")
        again = clone(model).fit(X)
        self.require(again.lower_bound_ == model.lower_bound_, "fit again: another bound")
        self.require(np.array_equal(again.embedding_, model.embedding_), "fit again: other places")
        present = ~np.isnan(X)
        square = ((X - model.mean_)[present] ** 2).mean()
        converged = not any("stopped after max_iter" in str(one.message) for one in self.caught)
        if converged and square > 1e-12 * (model.mean_**2).max():
            constant = -0.5 * present.sum() * (np.log(2.0 * np.pi * square) + 1.0)
            allowed = LOST + SMALLEST_VARIANCE_COST * present.sum()
            self.require(
                model.lower_bound_ >= constant - allowed,
                f"worse than a constant: bound {model.lower_bound_:.8g}, {constant:.8g}",
            )


def _with_common_length(kernel):
    """Return a kernel with one length scale for all columns.

    Return None if the kernel has no other, or if no length is within the limits of all columns.
    """
    constant, part = (getattr(kernel, name, None) for name in ("k1", "k2"))
    if type(kernel).__name__ != "Product" or not getattr(part, "anisotropic", False):
        return None
    length = float(np.exp(np.log(part.length_scale).mean()))
    limits = part.length_scale_bounds
    if not isinstance(limits, str):
        low, high = np.reshape(limits, (-1, 2)).T
        limits = float(low.max()), float(high.min())
        if limits[0] > limits[1]:
            return None
    return constant * clone(part).set_params(length_scale=length, length_scale_bounds=limits)


def _constant_bound(problem, model):
    """Return the log likelihood of responses or of Student-t noise by the best constant function.

    None where the model has another likelihood, or does not admit a constant.
    """
    if getattr(model, "optimizer", "bfgs") is None or getattr(model, "learning_rate", 1.0) == 0.0:
        return None
    if not _admits_constant(model):
        return None
    if hasattr(model, "classes_"):
        return None
    weight, y = row_weights(problem), np.asarray(problem.y, dtype=float)
    if hasattr(model, "likelihood_"):
        exposure = problem.fit_params.get("exposure", np.ones(len(y)))
        event = np.asarray(problem.fit_params.get("event", np.ones(len(y)))) > 0
        name = type(model.likelihood_).__name__
        if name == "LogNormal" and event.all() and model.fit_prior_mean:
            return _log_normal(y, weight)
        if name == "Poisson":
            rate = (weight @ y) / (weight @ exposure) if model.fit_prior_mean else 1.0
            present = weight > 0.0
            likely = stats.poisson.logpmf(y[present], (rate * exposure)[present])
            return float(weight[present] @ likely)
        return None
    if getattr(model, "noise", None) == "student-t" and y.ndim == 1 and model.fit_prior_mean:
        return _student_t(y, weight)
    return None


def _admits_constant(model):
    kernel = model.kernel
    return kernel is None or isinstance(kernel, str) or least_variance(kernel) <= 1e-4


def _log_normal(y, weight):
    logs = np.log(y)
    centre = weight @ logs / weight.sum()
    variance = weight @ (logs - centre) ** 2 / weight.sum()
    # The prior of the shape, and its limits, count against the smallest deviations.
    variance = max(variance, 1e-2)
    value = -0.5 * weight @ ((logs - centre) ** 2 / variance + np.log(2.0 * np.pi * variance))
    return float(value - weight @ logs)


def _student_t(y, weight):
    """Return the highest log likelihood of Student-t noise, within the package's limits."""
    centre = np.median(y)
    deviation = np.median(np.abs(y - centre)) * 1.4826
    if deviation <= 1e-9 * np.abs(y).max():
        return None

    def fall(params):
        df, scale = (
            np.exp(np.clip(params[1], *np.log(DF_RANGE))),
            deviation * np.exp(np.clip(params[2], *np.log(LIMITS))),
        )
        location = centre + deviation * params[0]
        return -float(weight @ stats.t.logpdf(y, df, location, scale))

    return -minimize(fall, [0.0, 1.5, 0.0], method="Nelder-Mead").fun
