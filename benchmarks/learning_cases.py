"""Problems that fits were once found to learn poorly, with what they should reach.

Each function is one kind of failure. It yields a record of each case, see `record` and `bounds`.
"""

import warnings
from functools import partial

import numpy as np
from datasets import is_available, load_classification, permuted, split_classification
from kernel_settings import ONE_LENGTH_SCALE
from measure import timed
from random_problems import REFERENCES, make_problem, reference
from searches import allowance, fit_from_kernel
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_classification, make_friedman1
from sklearn.ensemble import AdaBoostClassifier
from sklearn.feature_selection import RFE
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel
from sklearn.metrics import r2_score, roc_auc_score

from sparsegpc import (
    HomoscedasticNoise,
    SparseGPClassifier,
    SparseGPRegressor,
    StochasticSparseGPRegressor,
)

SCORE, STREAM, WARNING, ROUNDING = 0.005, 0.05, 0.5, 1e-9
SEEDS = range(3)


class Fit:
    """A fitted model, its warnings, CPU seconds, and evaluations on all rows and on subsets."""

    def __init__(self, model, X, y, **weights):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.model, cost = timed(lambda: model.fit(X, y, **weights))
        self.texts = [str(warning.message) for warning in caught]
        sizes = model.history_["n_samples"] if hasattr(model, "history_") else np.zeros(0)
        on_all = int((sizes == sizes.max(initial=0)).sum())
        self.cost = {"on_all": on_all, "on_subsets": len(sizes) - on_all, "cpu": cost.cpu}

    @property
    def bound(self):
        return self.model.lower_bound_

    def warns(self, word):
        """Return whether a warning has the word."""
        return float(any(word in text for text in self.texts))


def record(problem, case, quantity, reached, should, tolerance, cost=None):
    """Return the record of a case; its shortfall is in units of the tolerance."""
    excess = (should - reached) / tolerance
    own = {"problem": problem, "case": str(case), "quantity": quantity, "reached": float(reached)}
    return own | {"should": float(should), "excess": float(excess)} | (cost or {})


def bounds(problem, case, fit, should, y):
    """Return the record of a bound on the log marginal likelihood of `y`."""
    return record(problem, case, "bound", fit.bound, should, allowance(should, y), fit.cost)


def standardised(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


def friedman(n_rows, seed, n_test=2000):
    """Return X, y, X_test, y_test; five of 20 columns matter."""
    X, y = make_friedman1(n_rows + n_test, 20, noise=1.0, random_state=seed)
    X, y = standardised(X), standardised(y)
    return X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:]


def labels(rng, f):
    """Return labels with log-odds f."""
    return (rng.uniform(size=len(f)) < 1.0 / (1.0 + np.exp(-f))).astype(int)


def full_model(kernel, X, y):
    """Return scikit-learn's fitted full model, with noise."""
    return GaussianProcessRegressor(kernel + WhiteKernel(0.1)).fit(X, y)


def certified_too_soon():
    """The certificate of few points holds at the long length scale that they prefer."""
    for n_rows, seed in ((800, 0), (800, 1), (800, 2), (2000, 0)):
        X, y, X_test, y_test = friedman(n_rows, seed)
        auto = SparseGPRegressor(n_inducing="auto", **ONE_LENGTH_SCALE)
        fit = Fit(auto, X, y)
        full = full_model(ConstantKernel() * RBF(5.0), X[:800], y[:800])
        should = full.log_marginal_likelihood_value_
        if n_rows > len(full.y_train_):
            full = fit_from_kernel(SparseGPRegressor(full.kernel_.k1, n_inducing=800), X, y)
            should = full.lower_bound_
        name, case = "auto, one length scale", f"{n_rows} rows, seed {seed}"
        yield bounds(name, case, fit, should - auto.certificate_tol * n_rows, y)
        scores = auto.score(X_test, y_test), full.score(X_test, y_test)
        yield record(name, case, "R^2", *scores, SCORE, fit.cost)


def pruned_columns():
    """Columns that a subset finds irrelevant do not come back."""
    good = np.r_[1.5, 1.5, 1.5, 6.0, 6.0, np.full(15, 50.0)]
    sizes = [(800, 200, SEEDS), (2000, 200, [0]), (4900, 100, [0]), (5100, 100, SEEDS)]
    for n_rows, n_points, seeds in [*sizes, (20_000, 100, [0])]:
        for seed in seeds:
            X, y, X_test, y_test = friedman(n_rows, seed)
            start = SparseGPRegressor(ConstantKernel(5.0) * RBF(good), n_inducing=n_points)
            fit = Fit(clone(start).set_params(kernel=1.0 * RBF(np.ones(20))), X, y)
            best = fit_from_kernel(start, X, y)
            name = f"a length scale per column, {n_rows} rows"
            yield bounds(name, seed, fit, best.lower_bound_, y)
            if n_rows == 800:
                best = fit_from_kernel(start.set_params(n_inducing=n_rows), X, y)
            scores = fit.model.score(X_test, y_test), best.score(X_test, y_test)
            yield record(name, seed, "R^2", *scores, SCORE, fit.cost)


def start_values():
    """The user's start values lose a ranking with 50 points."""
    for seed in SEEDS:
        rng = np.random.RandomState(seed)
        X = rng.uniform(-2.0, 2.0, (1500, 3))
        y = labels(rng, 2.0 * (X[:, 0] + np.sin(3.0 * X[:, 1]) * np.cos(2.0 * X[:, 2])))
        limited = Fit(SparseGPClassifier(7.0 * RBF(0.75, (0.5, 1.2))), X, y)
        fit = Fit(SparseGPClassifier(7.0 * RBF(0.75)), X, y)
        yield bounds("start at the right length scale", seed, fit, limited.bound, y)


def memorising_weights():
    """Weights that are no counts make the evidence memorise, or forget."""
    for seed in range(6):
        X, y = make_classification(
            2000, 8, n_informative=4, weights=[0.97], flip_y=0.02, random_state=seed
        )
        X, y, X_test, y_test = X[:1000], y[:1000], X[1000:], y[1000:]
        balanced = Fit(SparseGPClassifier(class_weight="balanced"), X, y)
        plain = Fit(SparseGPClassifier(), X, y)
        scores = [
            roc_auc_score(y_test, fit.model.predict_proba(X_test)[:, 1])
            for fit in (balanced, plain)
        ]
        yield record("class_weight='balanced'", seed, "AUC", *scores, SCORE, balanced.cost)
    for weight in (50.5, 1.0 / len(y)):
        fit = Fit(SparseGPClassifier(), X, y, sample_weight=np.full(len(y), weight))
        warns = fit.warns("multiply them by")
        yield record("weights, no counts", f"{weight:.3g}", "warns", warns, 1.0, WARNING, fit.cost)


def scales_of_targets():
    """Outputs of unlike scale, and targets beyond the limits of a kernel."""
    for seed in SEEDS:
        X, y, X_test, y_test = friedman(500, seed)
        default = SparseGPRegressor(**ONE_LENGTH_SCALE)
        plain = Fit(clone(default), X, y).model.score(X_test, y_test)
        fit = Fit(default, X, np.c_[y, 1e4 * y])
        found = r2_score(y_test, fit.model.predict(X_test)[:, 0])
        yield record("outputs of unlike scale", seed, "R^2", found, plain, SCORE, fit.cost)
        fit = Fit(SparseGPRegressor(1.0 * RBF()), X, 7e4 * y)
        found = fit.model.score(X_test, 7e4 * y_test)
        if found < plain - SCORE and fit.warns("normalize_y"):
            yield record("deviation 7e4", seed, "warns", 1.0, 1.0, WARNING, fit.cost)
        else:
            yield record("deviation 7e4", seed, "R^2", found, plain, SCORE, fit.cost)


def sums():
    """A sum ends below one of its summands."""
    if not is_available("ida_splice"):
        return
    data = load_classification("ida_splice")
    for seed in range(2):
        X, y = split_classification(data, *permuted(len(data.y), seed))[:2]
        alone = ConstantKernel() * RBF(np.ones(X.shape[1]))
        linear = ConstantKernel() * DotProduct(0.0, "fixed")
        fit = Fit(SparseGPClassifier(alone + linear), X, y)
        should = Fit(SparseGPClassifier(alone), X, y).bound
        yield bounds("ida_splice, RBF + linear", seed, fit, should, y)


def streams():
    """Small first blocks of a stream, and single rows."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-2.0, 2.0, (1500, 2))
    y = np.sin(2.0 * X[:, 0]) * np.cos(2.0 * X[:, 1]) + 0.1 * rng.randn(1500)
    X, y, X_test, y_test = X[:500], y[:500], X[500:], y[500:]
    should = StochasticSparseGPRegressor().fit(X, y).score(X_test, y_test)
    for n_rows in (1, 10, 50):
        model = StochasticSparseGPRegressor()

        def learn(model=model, n_rows=n_rows):
            for first in range(0, len(y), n_rows):
                block = slice(first, first + n_rows)
                model.partial_fit(X[block], y[block])

        cost = {"cpu": timed(learn)[1].cpu}
        found = model.score(X_test, y_test)
        yield record("partial_fit", f"blocks of {n_rows}", "R^2", found, should, STREAM, cost)


def columns():
    """One length scale per column contains one for all."""
    for name in filter(is_available, ("ida_image", "ida_waveform", "electricity")):
        data = load_classification(name)
        X, y = split_classification(data, *permuted(len(data.y), 0))[:2]
        X, y = X[:8000], y[:8000]
        one = Fit(SparseGPClassifier(**ONE_LENGTH_SCALE), X, y).model.kernel_
        same = one.k1 * RBF(np.full(X.shape[1], one.k2.length_scale))
        fit = Fit(SparseGPClassifier(1.0 * RBF(np.ones(X.shape[1]))), X, y)
        should = fit_from_kernel(SparseGPClassifier(same), X, y).lower_bound_
        yield bounds("per column, from one for all", name, fit, should, y)


def fast_functions():
    """Fast functions of one to three columns, under labels."""
    for seed in range(1000, 1006):
        rng = np.random.RandomState(seed)
        shift = rng.uniform(0.0, 6.0)
        X = rng.uniform(-2.0, 2.0, (400, 3))
        waves = np.sin(2.5 * X + shift)
        made = {
            "wave, 100 rows": (X[:100, :1], np.sin(10.0 * X[:100, 0] + shift) > 0.0),
            "wave, 400 rows": (X[:, :1], np.sin(10.0 * X[:, 0] + shift) > 0.0),
            "squares": (X[:, :2], waves[:, :2].prod(axis=1) > 0.0),
            "cubes": (X, waves.prod(axis=1) > 0.0),
            "rings": (X[:, :2], np.sin(8.0 * np.hypot(X[:, 0], X[:, 1]) + shift) > 0.0),
            "stripes of three classes": (X[:, :1], np.floor(6.0 * X[:, 0] + shift) % 3),
        }
        for name, (columns, y) in made.items():
            y = y.astype(int)
            model = SparseGPClassifier(n_inducing=len(y), **ONE_LENGTH_SCALE)
            fit = Fit(model, columns, y)
            should = max(
                fit_from_kernel(model.set_params(kernel=10.0 * RBF(scale)), columns, y).lower_bound_
                for scale in (0.1, 0.3, 1.0)
            )
            yield bounds(f"fast: {name}", seed, fit, should, y)


def functions_of_few_columns():
    """Fast functions of two or three of many columns, which no single column shows."""
    for seed in SEEDS:
        rng = np.random.RandomState(seed)
        X = rng.randn(500, 20)
        made = {
            "sine of a sum of two": np.sin(3.0 * X[:, :2].sum(axis=1)),
            "sine of a difference, line": np.sin(3.0 * (X[:, 0] - X[:, 1])) + X[:, 2],
            "product of two waves": np.cos(3.0 * X[:, :2]).prod(axis=1),
            "sine of a sum of three": np.sin(2.0 * X[:, :3].sum(axis=1)),
        }
        for name, f in made.items():
            lengths = np.where(np.arange(20) < 3, 0.5, 10.0)
            y = f + 0.3 * rng.randn(500)
            pairs = (SparseGPRegressor, y), (SparseGPClassifier, labels(rng, 4.0 * f))
            for make, target in pairs:
                fit = Fit(make(1.0 * RBF(np.ones(20)), n_inducing=200), X, target)
                own = make(1.0 * RBF(lengths), n_inducing=200)
                should = fit_from_kernel(own, X, target).lower_bound_
                case = f"{make.__name__[8:]}, seed {seed}"
                yield bounds(f"of few columns: {name}", case, fit, should, target)


def trends():
    """Beside a trend, a season or a small fast function is taken for noise."""
    for seed in SEEDS:
        rng = np.random.RandomState(seed)
        t = np.sort(rng.uniform(0.0, 20.0, 400))
        season = np.sin(2.0 * np.pi * t)
        noise = 0.1 * rng.randn(400)
        for slope in (0.2, 0.5, 1.0, 3.0):
            y = slope * t + season + noise
            fit = Fit(SparseGPRegressor(**ONE_LENGTH_SCALE), t[:, None], y)
            kernel = 10.0 * RBF(0.5)
            should = fit_from_kernel(
                fit.model.set_params(kernel=kernel), t[:, None], y
            ).lower_bound_
            yield bounds(f"season, slope {slope}", seed, fit, should, y)


def exact_targets():
    """Jitter costs nearly exact targets much of the bound."""
    for n_rows in (12, 30):
        X = np.linspace(0.0, 10.0, n_rows)[:, None]
        y = 100.0 * np.sin(X[:, 0]) * np.exp(-0.1 * X[:, 0])
        kernel = ConstantKernel(1.0, (1e-5, 1e9)) * Matern(nu=1.5)
        noise = HomoscedasticNoise(1e-10, "fixed")
        fit = Fit(SparseGPRegressor(kernel, noise=noise, fit_prior_mean=False), X, y)
        full = GaussianProcessRegressor(kernel, n_restarts_optimizer=5, random_state=0).fit(X, y)
        should = full.log_marginal_likelihood_value_
        yield bounds("noise fixed at 1e-10", f"{n_rows} rows", fit, should, y)


def few_points():
    """Few points depend on one draw, and a noise model ends below the one that it contains."""
    rng = np.random.RandomState(13)
    X = rng.randint(0, 4, (150, 2)).astype(float)
    f = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.3 * rng.randn(150)
    y = (f > np.median(f)).astype(int)
    draws = range(8)

    def best(estimator, targets):
        """Return the best bound of searches from three length scales, for each draw."""
        starts = [
            estimator(3.0 * RBF(scale), n_inducing=10, random_state=seed)
            for scale in (0.5, 1.0, 2.0)
            for seed in draws
        ]
        return max(fit_from_kernel(start, X, targets).lower_bound_ for start in starts)

    best_regressor, best_classifier = best(SparseGPRegressor, f), best(SparseGPClassifier, y)
    for seed in draws:
        options = {"n_inducing": 10, "random_state": seed} | ONE_LENGTH_SCALE
        plain = Fit(SparseGPRegressor(**options), X, f)
        yield bounds("10 points, best of 8 draws", seed, plain, best_regressor, f)
        polynomial = Fit(SparseGPRegressor(noise="polynomial", **options), X, f)
        yield bounds("10 points, polynomial noise", seed, polynomial, plain.bound, f)
        classes = Fit(SparseGPClassifier(**options), X, y)
        yield bounds("10 points, classes", seed, classes, best_classifier, y)


def random_ones():
    """Small random problems, see `random_problems`."""
    for number in range(20):
        problem = make_problem(number)
        fit = Fit(problem.model, problem.X, problem.y)
        name = f"random, {'few' if number % 5 == 4 else 'enough'} points"
        yield bounds(name, number, fit, reference(problem, REFERENCES), problem.y)


def meta_estimators():
    """Boosting with weights that sum to one, and elimination of columns."""
    for seed in SEEDS:
        X, y = make_blobs(300, 2, centers=3, cluster_std=2.0, random_state=seed)
        booster = AdaBoostClassifier(SparseGPClassifier(n_inducing=30), n_estimators=3)
        fit = Fit(booster, X, y)
        warns = fit.warns("multiply them by")
        yield record("AdaBoost", seed, "warns", warns, 1.0, WARNING, fit.cost)
        X, y = friedman(500, seed)[:2]
        search = RFE(
            SparseGPRegressor(n_inducing=50),
            n_features_to_select=5,
            step=5,
            importance_getter="feature_relevance_",
        )
        fit = Fit(search, X, y)
        found = search.support_[:5].mean()
        yield record("RFE", seed, "columns", found, 1.0, SCORE, fit.cost)


def rare_labels():
    """About one label in a thousand is of the other class."""
    for n_rows, seed in (*((4000, seed) for seed in SEEDS), (6000, 0), (20_000, 0)):
        rng = np.random.RandomState(seed)
        X = rng.standard_normal((n_rows, 3))
        y = (X[:, 0] + 0.3 * rng.standard_normal(n_rows) > 3.25).astype(int)
        fit = Fit(SparseGPClassifier(1.0 * RBF(np.ones(3)), n_inducing=100), X, y)
        should = max(
            fit_from_kernel(SparseGPClassifier(start, n_inducing=100), X, y).lower_bound_
            for start in (16.0 * RBF([2.0, 30.0, 30.0]), 100.0 * RBF([4.0, 30.0, 30.0]))
        )
        case = f"{y.sum()} of {n_rows}, seed {seed}"
        yield bounds("rare labels", case, fit, should, y)


def hostile_rows():
    """Nearly all columns are irrelevant, rows repeat or follow time, their number is at a limit."""

    def columns(rng, n_columns=200):
        X, lengths = rng.standard_normal((400, n_columns)), np.full(n_columns, 1e3)
        lengths[7] = 0.5
        return X, np.sin(3.0 * X[:, 7]), lengths

    def repeated(rng):
        X = np.repeat(rng.uniform(-2.0, 2.0, (150, 2)), 10, axis=0)
        return X, np.sin(3.0 * X[:, 0]) + np.cos(2.0 * X[:, 1]), [0.5, 0.7]

    def in_time(rng, n_rows):
        time = np.sort(rng.uniform(0.0, 1.0, n_rows))
        X = np.column_stack([time, rng.standard_normal(n_rows)])
        return X, np.sin(40.0 * time**2) + np.tanh(X[:, 1]), [0.02, 1.5]

    def at_limit(rng, n_rows):
        X = rng.uniform(-2.0, 2.0, (n_rows, 3))
        return X, np.sin(3.0 * X[:, 0]) * np.cos(2.0 * X[:, 1]), [0.6, 0.9, 20.0]

    problems = {
        "one of 200 columns": columns,
        "each row ten times": repeated,
        "1500 rows in order of time": partial(in_time, n_rows=1500),
        "6000 rows in order of time": partial(in_time, n_rows=6000),
        "4999 rows": partial(at_limit, n_rows=4999),
        "5001 rows": partial(at_limit, n_rows=5001),
    }
    for name, draw in problems.items():
        for seed in SEEDS:
            rng = np.random.RandomState(seed)
            X, f, lengths = draw(rng)
            noisy, classes = f + 0.3 * rng.standard_normal(len(f)), labels(rng, 4.0 * f)
            for estimator, y, variance in (
                (SparseGPRegressor, noisy, 1.0),
                (SparseGPClassifier, classes, 16.0),
            ):
                model = estimator(1.0 * RBF(np.ones(X.shape[1])), n_inducing=100)
                fit = Fit(model, X, y)
                good = clone(model).set_params(kernel=variance * RBF(lengths))
                case = f"{estimator.__name__}, seed {seed}"
                yield bounds(name, case, fit, fit_from_kernel(good, X, y).lower_bound_, y)
                if seed == 0:
                    rows = rng.permutation(len(y))
                    again = Fit(clone(model), X[rows], y[rows])
                    change = abs(again.bound - fit.bound)
                    yield record(f"{name}, shuffled", case, "-change", -change, 0.0, ROUNDING)


def nearly_equal_columns():
    """A function of the difference of two nearly equal columns, whose slopes are steep."""
    for seed in SEEDS:
        for n_rows, apart in ((200, 0.2), (400, 0.06)):
            rng = np.random.RandomState(seed)
            X = rng.standard_normal((n_rows, 6))
            X[:, 1] = X[:, 0] + apart * X[:, 1]
            f = 1.5 * (X[:, 1] - X[:, 0]) / apart + 0.5 * X[:, 2]
            noisy, classes = f + 2.0 * rng.standard_normal(n_rows), labels(rng, f)
            for estimator, y in ((SparseGPRegressor, noisy), (SparseGPClassifier, classes)):
                fit = Fit(estimator(), X, y)
                good = estimator((25.0 / apart**2) * RBF(np.full(6, 5.0)), length_scales="tied")
                reference = fit_from_kernel(good, X, y)
                # The prior that ties the length scales is a part of what is maximised.
                reached, should = (m.lower_bound_ + m.log_prior_ for m in (fit.model, reference))
                case = f"{estimator.__name__}, {n_rows} rows, seed {seed}"
                where = "nearly equal columns", case, "objective"
                yield record(*where, reached, should, allowance(should, y), fit.cost)


KINDS = (
    *(certified_too_soon, pruned_columns, start_values, memorising_weights, scales_of_targets),
    *(sums, streams, columns, fast_functions, exact_targets, few_points, random_ones),
    *(meta_estimators, trends, functions_of_few_columns, rare_labels, hostile_rows),
    nearly_equal_columns,
)
