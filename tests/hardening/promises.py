"""What every fit of a legal problem promises, checked; what is broken is said in words."""

import contextlib
import itertools
import pickle
import re
import warnings
from typing import NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sparsegpc import InducingPointSelector
from sparsegpc._core.models.model import FINAL_TOL_SHARE

EPSILON = np.finfo(float).eps
# Bounds are compared to this, relative to their size and to that of the data's log likelihood.
ROUNDING = 1e-7
# What the smallest variance that a kernel admits may cost a constant function, in nats per value.
SMALLEST_VARIANCE_COST = 2e-4
# With a kernel by name, the logarithm of a noise variance has a normal prior about a tenth of the
# variance of the targets, with this standard deviation.
NOISE_PRIOR = 0.1, 2.0
# Evaluations of the bound for each iteration that the limits admit, and for anything else.
LINE_SEARCH, OTHER_EVALUATIONS = 25, 300
CERTIFIED_ROWS = 500
# Dense algebra has few correct digits with matrices of a larger condition number.
LARGEST_CONDITION = 1e10
# A pass over the sites may gain hardly anything where several hundred would gain this share of the
# tolerance of the bound.
LEFT_BY_SITES = 100 * FINAL_TOL_SHARE
# Beside a larger variance a priori what is known of f is lost in rounding.
LARGEST_PRIOR = 1e8


class Outcome(NamedTuple):
    """What a fit did: ``broken`` promises in words, and figures."""

    broken: list
    n_evaluations: int
    warned: list


def fit_and_check(problem, kind=None):
    """Fit, predict and certify; return the `Outcome`. Any exception is a broken promise.

    `kind` is the class that checks, `Promises` unless given.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        promises = (kind or Promises)(problem, caught)
        with promises.kept("everything"):
            promises.check()
    told = []
    for one in caught:
        if issubclass(one.category, (ConvergenceWarning,)) or one.category is UserWarning:
            told.append(str(one.message))
        else:
            promises.broken.append(
                f"{one.category.__name__}: {one.message} ({one.filename}:{one.lineno})"
            )
    estimator = promises.estimator
    return Outcome(promises.broken, getattr(estimator, "n_evaluations_", 0), told)


class Promises:
    """The estimator of a problem, and the promises that it broke so far."""

    def __init__(self, problem, caught):
        self.problem, self.caught, self.broken = problem, caught, []
        self.estimator = clone(problem.estimator)

    @property
    def has_unsolved_sites(self):
        """Whether a warning said that the sites, or the noise, did not converge."""
        return any("did not converge in" in str(one.message) for one in self.caught)

    @contextlib.contextmanager
    def kept(self, what):
        """Note an exception of the block as a broken promise, with where it came from."""
        try:
            yield
        except Exception as error:
            places, trace = [], error.__traceback__
            while trace is not None:
                name = trace.tb_frame.f_code.co_filename
                if "sparsegpc" in name and "tests" not in name:
                    places.append(f"{name.rpartition('sparsegpc/')[2]}:{trace.tb_lineno}")
                trace = trace.tb_next
            self.broken.append(
                f"{what}: {type(error).__name__}: {str(error)[:300]} ({' '.join(places[-3:])})"
            )

    def require(self, condition, what):
        if not condition:
            self.broken.append(what)

    def check(self):
        model = self.estimator
        self._fit()
        if isinstance(model, InducingPointSelector):
            self._check_features(model)
            return
        if hasattr(model, "n_evaluations_"):
            self._check_effort(model)
            self._check_history(model)
        self._check_constant(model)
        self._check_rows_alone(model)
        if hasattr(model, "predict_proba"):
            self._check_probabilities(model)
        else:
            self._check_regression(model)
        self._check_latent(model)
        if hasattr(model, "certificate"):
            self._check_certificate(model)
        if hasattr(model, "truncate"):
            self._check_truncated(model)
        if hasattr(model, "partial_fit"):
            self._check_stream()

    def _fit(self):
        """Fit, again with a warm start, and look at what it leaves."""
        problem, model = self.problem, self.estimator
        before = pickle.dumps((np.asarray(problem.X), problem.y, problem.fit_params))
        model.fit(problem.X, problem.y, **problem.fit_params)
        if getattr(model, "warm_start", False):
            with self.kept("warm start"):
                model.fit(problem.X, problem.y, **problem.fit_params)
        after = pickle.dumps((np.asarray(problem.X), problem.y, problem.fit_params))
        self.require(before == after, "fit changed what the user gave it")
        self._check_attributes(model)

    def _check_attributes(self, model):
        """All attributes are finite, but what is documented not to be."""
        for name, value in vars(model).items():
            is_public = name.endswith("_") and not name.startswith("_")
            if is_public and name != "log_scales_":
                for path, leaf in leaves(name, value):
                    self.require(np.isfinite(leaf).all(), f"{path} is not finite: {leaf}")

    def _check_features(self, model):
        V = model.transform(self.problem.X_new)
        self.require(np.isfinite(V).all(), "features are not finite")
        prior = model.kernel_.diag(self.problem.X_new)
        worst = float(((V**2).sum(axis=1) - prior).max() / prior.max())
        self.require(worst < 1e-6, f"features exceed the kernel's diagonal by {worst:.2g}")

    def _check_effort(self, model):
        """A fit has a bounded number of evaluations."""
        n_runs = 4 + model.n_restarts_optimizer
        n_choices = model.max_reselections + 2
        n_models = len(model.classes_) if getattr(model, "estimators_", None) else 1
        n_sizes = 12 if model.n_inducing == "auto" else 1
        most = (
            n_models
            * n_sizes
            * (n_runs * n_choices * (LINE_SEARCH * model.max_iter + 2) + OTHER_EVALUATIONS)
        )
        self.require(
            model.n_evaluations_ <= most, f"{model.n_evaluations_} evaluations, more than {most}"
        )

    def _check_history(self, model):
        """The history has all evaluations."""
        histories = [model.history_] if isinstance(model.history_, dict) else model.history_
        lengths = [len(values) for history in histories for values in history.values()]
        n_told = sum(len(history["seconds"]) for history in histories)
        self.require(len(set(lengths)) <= len(histories), f"history of lengths {lengths}")
        self.require(
            n_told == model.n_evaluations_,
            f"history of {n_told} evaluations, n_evaluations_ {model.n_evaluations_}",
        )
        for history in histories:
            points = history["n_inducing"]
            self.require((points >= 1).all(), "history without inducing points")

    def _predictor(self, model):
        """Return the method whose predictions are finite and compared."""
        return getattr(model, "predict_proba", model.predict)

    def _check_rows_alone(self, model):
        """What is predicted at a row does not depend on the other rows."""
        X = self.problem.X_new
        predict = self._predictor(model)
        if model.kernel_.diag(X).max() > LARGEST_PRIOR:
            return
        together = predict(X)
        alone = predict(X[:1])
        self.require(
            np.allclose(together[:1], alone, rtol=1e-6, atol=1e-7 * np.abs(together).max()),
            f"predictions depend on the other rows: {together[:1]} and {alone}",
        )

    def _check_truncated(self, model):
        """Fewer points give a lower standard bound, and predictions all the same."""
        problem = self.problem
        data = {"X": problem.X, "y": problem.y, **problem.fit_params}
        if getattr(model, "estimators_", None):
            # Each of them is a model of whether y is its class.
            is_first = np.asarray(problem.y) == model.classes_[0]
            weight = row_weights(problem)
            model = model.estimators_[0]
            data = {"X": problem.X, "y": is_first.astype(int), "sample_weight": weight}
        with self.kept("truncate"):
            n_points = len(model.inducing_points_)
            fewer = model.truncate(1 + n_points // 2, **data)
            self.require(np.isfinite(fewer.lower_bound_), "truncated: bound not finite")
            predict = self._predictor(fewer)
            self.require(np.isfinite(predict(problem.X_new)).all(), "truncated: nan")
            if self.has_unsolved_sites:
                # Then bounds may be those of other sites.
                return
            rounding = ROUNDING * abs(model.lower_bound_) + self._lost_digits(model)
            if _slack(model) == "standard":
                self.require(
                    fewer.lower_bound_ <= model.lower_bound_ + rounding,
                    f"fewer points have a higher bound: {fewer.lower_bound_}, {model.lower_bound_}",
                )
            whole = model.truncate(n_points, **data)
            allowed = rounding
            if _has_sites(model):
                allowed += LEFT_BY_SITES * model.tol * row_weights(problem).sum()
            self.require(
                abs(whole.lower_bound_ - model.lower_bound_) <= allowed,
                f"not truncated: {whole.lower_bound_}, {model.lower_bound_}",
            )

    def _lost_digits(self, model):
        """Return what jitter and rounding may cost in nats: much only where noise is as small."""
        problem = self.problem
        weight = row_weights(problem)
        if hasattr(model, "classes_"):
            # Sites of labels have precisions of at most one.
            prior = _prior_variance(model, problem.X_new)
            ratio = weight.max() * model.jitter_ * prior
            n_values = len(problem.y) * np.size(model.prior_mean_)
            return 0.5 * n_values * float(np.log1p(ratio)) + ROUNDING * weight.sum()
        noise = problem.fit_params.get("noise_variance")
        if noise is None:
            noise = model.predict_noise_std(problem.X) ** 2
        prior = _prior_variance(model, problem.X_new)
        # Rounding of a covariance does what jitter does.
        jitter = model.jitter_ + len(problem.y) * EPSILON
        ratio = weight.max() * jitter * prior / np.min(noise)
        # The terms that cancel where f explains what noise would not.
        y = np.reshape(problem.y, (len(problem.y), -1)).astype(float)
        size = weight.max() * float(((y - y.mean(axis=0)) ** 2).sum()) / np.min(noise)
        # One digit of the prior mean of targets that are all equal.
        size_of_digit = weight.max() * float(((EPSILON * y) ** 2).sum()) / np.min(noise)
        return 0.5 * y.size * float(np.log1p(ratio)) + ROUNDING * size + size_of_digit

    def _check_constant(self, model):
        """A learned model is no worse than a constant function."""
        constant = _constant_bound(self.problem, model)
        if constant is None:
            return
        bound, total = model.lower_bound_, row_weights(self.problem).sum()
        n_outputs = 1 if hasattr(model, "predict_proba") else np.size(self.problem.y[0])
        allowed = ROUNDING * max(abs(bound), abs(constant))
        allowed += SMALLEST_VARIANCE_COST * total * n_outputs
        self.require(
            bound >= constant - allowed,
            f"worse than a constant: bound {bound:.8g}, constant {constant:.8g}, "
            f"{(constant - bound) / total:.2g} nats per row",
        )

    def _check_probabilities(self, model):
        X = self.problem.X_new
        p = model.predict_proba(X)
        self.require(p.shape == (len(X), len(model.classes_)), f"probabilities {p.shape}")
        self.require(bool(((p >= 0.0) & (p <= 1.0)).all()), f"probabilities {p.min()}, {p.max()}")
        self.require(np.allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-12), "do not sum to one")
        self.require(np.isin(model.predict(X), model.classes_).all(), "unknown label predicted")
        with self.kept("decision_function"):
            self.require(np.isfinite(model.decision_function(X)).all(), "decision not finite")
        logs = model.predict_log_proba(X)
        self.require(not np.isnan(logs).any() and (logs <= 0.0).all(), "log probabilities")
        with self.kept("predict_proba_interval"):
            low, high = model.predict_proba_interval(X)
            inside = (low >= 0.0) & (low <= high) & (high <= 1.0)
            self.require(bool(inside.all()), "intervals of probabilities")

    def _check_regression(self, model):
        X = self.problem.X_new
        noise = {}
        if "noise_variance" in self.problem.fit_params:
            noise["noise_variance"] = float(np.mean(self.problem.fit_params["noise_variance"]))
        mean, std = model.predict(X, return_std=True, **noise)
        self.require(np.isfinite(mean).all(), "mean is not finite")
        self.require(np.isfinite(std).all() and (std > 0.0).all(), f"deviation {std.min()}")
        if not noise:
            own = model.predict_noise_std(X)
            self.require(np.isfinite(own).all() and (own > 0.0).all(), f"noise {own.min()}")
            self.require((own <= std * (1.0 + 1e-12)).all(), "noise exceeds the deviation of y")
        _, covariance = model.predict(X[:20], return_cov=True, **noise)
        variance = np.einsum("ii...->i...", covariance)
        self.require(np.isfinite(covariance).all(), "covariance is not finite")
        self.require((variance >= 0.0).all(), f"variance {variance.min()}")
        # What is known of f is a small difference of what its prior says.
        prior = _prior_variance(model, X[:20])
        # In a mixture, so is what the means of its components add.
        digit = 4.0 * EPSILON * float(np.abs(mean[:20]).max() * std[:20].max())
        same = np.allclose(variance, std[:20] ** 2, rtol=1e-4, atol=1e-10 * prior + digit)
        self.require(same, "covariance and deviation disagree")
        samples = model.sample_y(X[:20], n_samples=2, **noise)
        self.require(np.isfinite(samples).all(), "samples of y are not finite")
        y = np.asarray(mean) + np.asarray(std)
        lower, upper = model.predict_interval(X, **noise)
        self.require(np.isfinite(lower).all() and np.isfinite(upper).all(), "interval not finite")
        # Of exact targets the interval may be shorter than the distance of two floats.
        self.require((lower <= mean).all() and (mean <= upper).all(), "mean not in its interval")
        density = model.log_predictive_density(X, y, **noise)
        self.require(np.isfinite(density).all(), "predictive density is not finite")

    def _check_latent(self, model):
        X = self.problem.X_new
        mean, variance = model.latent_mean_and_variance(X)
        self.require(np.isfinite(mean).all(), "mean of f is not finite")
        self.require(np.isfinite(variance).all(), "variance of f is not finite")
        self.require((variance >= 0.0).all(), f"variance of f {variance.min()}")
        if hasattr(model, "sample_f"):
            samples = model.sample_f(X[:20], n_samples=2)
            self.require(np.isfinite(samples).all(), "samples of f are not finite")

    def _check_certificate(self, model):
        problem = self.problem
        if len(problem.y) > CERTIFIED_ROWS or getattr(model, "estimators_", None):
            return
        if self.has_unsolved_sites:
            # Then a certificate says so instead.
            return
        with self.kept("certificate"):
            found = model.certificate(problem.X, problem.y, **problem.fit_params)
            scale = abs(found.lower_bound) + abs(found.upper_bound)
            self.require(
                found.lower_bound <= found.upper_bound + ROUNDING * scale,
                f"lower bound {found.lower_bound!r} above the upper {found.upper_bound!r}",
            )
            for name in ("gap", "kl", "mean_error", "coverage_error"):
                value = getattr(found, name)
                self.require(not np.isnan(value) and value >= 0.0, f"certificate: {name} {value}")
            self.require(bool(str(found)), "certificate without words")
            exact = _log_marginal_likelihood(problem, model)
            if exact is not None:
                low, high = found.interval
                allowed = ROUNDING * scale + self._lost_digits(model)
                self.require(
                    low - allowed <= exact <= high + allowed,
                    f"log marginal likelihood {exact!r} outside of {found.interval}",
                )

    def _check_stream(self):
        """`partial_fit` in three parts."""
        problem = self.problem
        model = clone(problem.estimator)
        if getattr(model, "class_weight", None) == "balanced":
            model.class_weight = None
        weight = problem.fit_params.get("sample_weight")
        X, y = np.asarray(problem.X), problem.y
        first = {"classes": np.unique(y)} if hasattr(model, "predict_proba") else {}
        for rows in np.array_split(np.arange(len(y)), 3):
            if len(rows) == 0 or (np.ndim(weight) and not np.any(weight[rows])):
                continue
            with self.kept("partial_fit"):
                own = weight[rows] if np.ndim(weight) else weight
                model.partial_fit(X[rows], y[rows], sample_weight=own, **first)
        if hasattr(model, "kernel_"):
            self._check_attributes(model)
            self._check_latent(model)
            if first:
                self._check_probabilities(model)


def leaves(name, value):
    """Yield the paths and values of all numbers in an attribute."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(f"{name}[{key!r}]", part)
    elif isinstance(value, (list, tuple)):
        for k, part in enumerate(value):
            yield from leaves(f"{name}[{k}]", part)
    elif hasattr(value, "get_params") and hasattr(value, "theta"):
        yield f"{name}.theta", np.exp(value.theta)
    elif isinstance(value, (int, float, np.ndarray, np.generic)):
        array = np.asarray(value)
        if array.dtype.kind in "biufc":
            yield name, array


def _prior_variance(model, X):
    """Return the largest variance that f has a priori at rows, in squared units of y or larger."""
    scale = float(np.max(getattr(model, "_y_scale", 1.0)))
    return model.kernel_.diag(X).max() * max(scale**2, 1.0)


def _slack(model):
    """Return the public name of the slack of the model's bound."""
    if model.bound != "auto":
        return model.bound
    return model._likelihood.slacks[0] if hasattr(model, "classes_") else "tight"


def _has_sites(model):
    """Return whether sites are solved for, to a tolerance."""
    is_robust = "student" in str(getattr(model, "noise", "")).lower()
    return is_robust or hasattr(model, "classes_") or hasattr(model, "likelihood_")


def row_weights(problem):
    n_rows = len(problem.y)
    weight = problem.fit_params.get("sample_weight")
    return np.ones(n_rows) if weight is None else np.broadcast_to(weight, n_rows).astype(float)


def least_variance(kernel):
    """Return the least variance of f that a kernel can learn; of a name or None it is 0."""
    if kernel is None or isinstance(kernel, str):
        return 0.0
    left = kernel.get_params().get("k1")
    if type(kernel).__name__ != "Product" or type(left).__name__ != "ConstantKernel":
        return np.inf
    bounds = left.constant_value_bounds
    return np.inf if isinstance(bounds, str) else bounds[0]


def _log_marginal_likelihood(problem, model):
    """Return the log marginal likelihood of a regression by dense algebra, at what it learned.

    None for labels and for noise that is a process or not Gaussian: their certificates compare
    models of the same sites. None also where dense algebra has too few correct digits.
    """
    noise = str(getattr(model, "noise", "another likelihood"))
    if getattr(model, "_mixture", None) is not None:
        # Certificates are of the best kernel and hyperparameters, the noise is an average.
        return None
    if getattr(model, "_without_copies", False):
        # The certificate is that of fewer rows.
        return None
    if not re.match("homoscedastic|polynomial|excess", noise.lower()):
        return None
    X, weight = np.asarray(problem.X, dtype=np.float64), row_weights(problem)
    y = np.asarray(problem.y, dtype=np.float64).reshape(len(X), -1)
    known = problem.fit_params.get("noise_variance")
    noise = model.predict_noise_std(X) ** 2 if known is None else known
    noise = np.reshape(noise, (1 if np.ndim(noise) == 0 else len(X), -1))
    if model.noise == "excess":
        noise = noise + model.noise_variance_
    if model._transform is not None:
        # The kernel sees logarithms of skewed columns.
        X = model._transform(X)
    if model.kernel_.is_stationary():
        # scikit-learn's distances lose digits in columns with a large offset.
        X = X - np.median(X, axis=0)
    K, prior_mean, total = model.kernel_(X), np.atleast_1d(model.prior_mean_), 0.0
    for k, target in enumerate(y.T):
        scale = model._y_scale[k] ** 2
        variance = np.broadcast_to(noise, (len(X), y.shape[1]))[:, k]
        root = np.sqrt(weight / variance)
        B = np.eye(len(X)) + root[:, None] * (scale * K) * root
        is_exact = variance.min() > (EPSILON * np.abs(target).max()) ** 2
        if not is_exact or np.linalg.cond(B) > LARGEST_CONDITION:
            return None
        error = root * (target - prior_mean[k])
        total -= 0.5 * (np.linalg.slogdet(B)[1] + error @ np.linalg.solve(B, error))
        total -= 0.5 * weight @ np.log(2.0 * np.pi * variance)
    return total


def _constant_bound(problem, model):
    """Return the objective of the best constant function, or None where it is not admitted.

    It is the log likelihood, and the log density of the prior of the noise.
    """
    if getattr(model, "optimizer", "bfgs") is None or getattr(model, "learning_rate", 1.0) == 0.0:
        return None
    if getattr(model, "_without_copies", False):
        # The bound is that of fewer rows.
        return None
    least = least_variance(model.kernel)
    if least > 1e-4:
        return None
    weight = row_weights(problem)
    if hasattr(model, "predict_proba"):
        if model.likelihood in ("dirichlet", "logistic-softmax"):
            return None
        classes, codes = np.unique(problem.y, return_inverse=True)
        total = np.bincount(codes, weight)
        if model.likelihood == "ordinal-logit":
            shares = total / total.sum()
            if not model.fit_prior_mean:
                # At f = 0 the first class has the probability one half.
                shares = 0.5 * np.append(1.0, total[1:] / total[1:].sum())
            return float(total @ np.log(shares))
        if len(classes) == 2:
            pairs = [total]
        elif getattr(model, "estimators_", None):
            pairs = [np.array([one, total.sum() - one]) for one in total]
        else:
            # One against each, whose bound is a sum over pairs of classes.
            pairs = [np.array(pair) for pair in itertools.combinations(total, 2)]
        return sum(_best_of_pair(pair, model.fit_prior_mean) for pair in pairs)
    if "noise_variance" in problem.fit_params or getattr(model, "noise", "homoscedastic") not in (
        "homoscedastic",
        "polynomial",
        "gp",
        "auto",
    ):
        return None
    if "WhiteKernel" in str(model.kernel):
        return None
    y = np.asarray(problem.y, dtype=np.float64).reshape(len(problem.y), -1)
    centre = np.zeros(y.shape[1])
    if model.fit_prior_mean or getattr(model, "normalize_y", False):
        centre = weight @ y / weight.sum()
    variance = weight @ (y - centre) ** 2 / weight.sum()
    if (variance <= 1e-12 * (centre**2 + (y**2).mean(axis=0))).any():
        return None
    if least > 1e-4 * variance.min() and not getattr(model, "normalize_y", False):
        return None
    log_likelihood = -0.5 * weight.sum() * float((np.log(2.0 * np.pi * variance) + 1.0).sum())
    if not (model.kernel is None or isinstance(model.kernel, str)):
        return log_likelihood
    share, deviation = NOISE_PRIOR
    about_mean = weight @ (y - weight @ y / weight.sum()) ** 2 / weight.sum()
    with np.errstate(divide="ignore"):
        distance = (np.log(variance) - np.log(share * about_mean)) / deviation
    return log_likelihood - 0.5 * float((distance**2).sum())


def _best_of_pair(total, learned):
    """Return the log likelihood of two labels by the best probability, or by a half."""
    share = total / total.sum() if learned else np.array([0.5, 0.5])
    return float((total * np.log(share)).sum())
