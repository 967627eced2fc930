"""The search by the bound: which candidate it chooses, and what it passes on."""

import pickle
import re
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sparsegpc import (
    BaseSparseGP,
    BoundSearch,
    SparseGPClassifier,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
    StochasticSparseGPRegressor,
)
from sparsegpc._estimators.meta_estimators.bound_search import spaced_by_target

KERNELS = [ConstantKernel() * RBF(), ConstantKernel() * Matern(nu=1.5)]
# Quick fits stop early; that is said elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
QUICK = {"n_inducing": 15, "max_iter": 5, "max_reselections": 1, "main_effects": False}


class Scripted(BaseSparseGP):
    """Learns nothing; its bound, its warning and its error are parameters."""

    def __init__(self, bound=0.0, bound_of_all=None, log_prior=0.0, says=None, fails_at=()):
        self.bound = bound
        self.bound_of_all = bound_of_all
        self.log_prior = log_prior
        self.says = says
        self.fails_at = fails_at

    def fit(self, X, y, sample_weight=None, labels=None):
        if len(X) in self.fails_at:
            raise FloatingPointError(f"bound {self.bound} with {len(X)} rows")
        if self.says is not None:
            warnings.warn(self.says, UserWarning, stacklevel=2)
        self.fitted_to_ = X[:, 0], y, sample_weight, labels
        is_all = len(X) == 100 and self.bound_of_all is not None
        self.lower_bound_ = self.bound_of_all if is_all else self.bound
        self.log_prior_ = self.log_prior
        return self


def hundred_rows():
    return np.arange(100.0)[:, None], np.arange(100.0)


def scripted_search(param_grid, **options):
    options = {"tol": 0.1, **options}
    return BoundSearch(Scripted(), param_grid, **options).fit(*hundred_rows())


# Which candidate is chosen


def test_the_highest_bound_is_chosen():
    search = scripted_search({"bound": [1.0, 3.0, 2.0]})
    assert (search.best_index_, search.best_params_) == (1, {"bound": 3.0})
    assert search.lower_bound_ == 3.0
    assert search.best_estimator_.bound == 3.0
    assert_array_equal(search.results_["bound"], [1.0, 3.0, 2.0])


def test_the_log_prior_counts():
    grid = [{"bound": [5.0], "log_prior": [-4.0]}, {"bound": [4.0], "log_prior": [-1.0]}]
    search = scripted_search(grid)
    assert (search.best_index_, search.lower_bound_, search.log_prior_) == (1, 4.0, -1.0)
    assert_array_equal(search.results_["bound"], [1.0, 3.0])


@pytest.mark.parametrize(("tol", "best"), [(0.0, 2), (0.1, 1), (1.0, 0)])
def test_of_equal_candidates_the_first_is_chosen(tol, best):
    assert scripted_search({"bound": [1.0, 1.95, 2.0]}, tol=tol).best_index_ == best


def test_only_the_best_on_few_rows_are_fitted_to_all():
    grid = [
        {"bound": [1.0], "bound_of_all": [99.0]},
        {"bound": [3.0], "bound_of_all": [10.0]},
        {"bound": [2.0], "bound_of_all": [20.0]},
    ]
    search = scripted_search(grid, n_screening_rows=40)
    assert search.best_index_ == 2
    assert_array_equal(search.results_["screening_bound"], [1.0, 3.0, 2.0])
    assert_array_equal(search.results_["bound"], [np.nan, 10.0, 20.0])
    assert (search.results_["screening_seconds"] > 0.0).all()
    assert_array_equal(search.results_["seconds"] > 0.0, [False, True, True])
    assert len(search.best_estimator_.fitted_to_[1]) == 100


def test_a_model_is_a_finalist_once():
    search = scripted_search({"bound": [3.0, 3.0, 2.0, 1.0]}, n_screening_rows=40, n_finalists=2)
    assert_array_equal(np.isfinite(search.results_["bound"]), [True, False, True, False])


@pytest.mark.parametrize("options", [{"n_screening_rows": 100}, {"n_finalists": 3}])
def test_without_need_there_is_no_screening(options):
    search = scripted_search({"bound": [1.0, 2.0, 3.0]}, **{"n_screening_rows": 40, **options})
    assert np.isnan(search.results_["screening_bound"]).all()
    assert_array_equal(search.results_["screening_seconds"], 0.0)
    assert_array_equal(search.results_["bound"], [1.0, 2.0, 3.0])


def test_the_choice_is_that_of_fits_by_hand():
    rng = np.random.RandomState(0)
    X = rng.uniform(-2, 2, (80, 1))
    y = np.abs(X[:, 0]) + 0.05 * rng.normal(size=80)
    search = BoundSearch(SparseGPRegressor(n_inducing=40), {"kernel": KERNELS}).fit(X, y)
    models = [SparseGPRegressor(kernel, n_inducing=40).fit(X, y) for kernel in KERNELS]
    bounds = [model.lower_bound_ + model.log_prior_ for model in models]
    assert_allclose(search.results_["bound"], bounds, rtol=1e-12)
    assert search.best_index_ == np.argmax(bounds) == 1
    assert_array_equal(search.predict(X), models[1].predict(X))


# What bounds can be compared


@pytest.mark.parametrize(
    ("noise", "normalize_y"), [("homoscedastic", False), ("polynomial", True), ("gp", False)]
)
def test_every_noise_has_the_bound_of_a_density_in_units_of_y(noise, normalize_y):
    rng = np.random.RandomState(1)
    X = rng.uniform(-2, 2, (60, 1))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=60)
    model = SparseGPRegressor(noise=noise, normalize_y=normalize_y, n_inducing=20)
    bound = model.fit(X, y).lower_bound_
    # The density of 1000 y is that of y divided by 1000, for each of the 60 rows.
    assert_allclose(model.fit(X, 1000 * y).lower_bound_, bound - 60 * np.log(1000), atol=0.05)


def test_likelihoods_of_the_same_targets_are_compared(rng):
    X, exposure = rng.uniform(-2.0, 2.0, (80, 1)), rng.uniform(0.5, 3.0, 80)
    y = rng.poisson(exposure * np.exp(1.0 + X[:, 0]) * rng.gamma(2.0, 0.5, 80))
    model = SparseGPGeneralizedRegressor(1.0 * RBF(), **QUICK)
    search = BoundSearch(model, {"likelihood": ["poisson", "negative-binomial"]})
    search.fit(X, y, exposure=exposure)
    assert search.best_params_ == {"likelihood": "negative-binomial"}
    expected = search.best_estimator_.predict(X, exposure)
    assert_array_equal(search.predict(X, exposure=exposure), expected)
    search = BoundSearch(model, {"likelihood": ["log-normal", "weibull", "gamma"]})
    y = np.exp(X[:, 0]) * rng.weibull(3.0, 80)
    assert search.fit(X, y).best_params_ == {"likelihood": "weibull"}
    model.set_params(optimizer=None)
    mixed = BoundSearch(model, {"likelihood": ["poisson", "gamma"]})
    with pytest.raises(ValueError, match=r"the same values .*for counts and for targets: "):
        mixed.fit(X, 1.0 + np.round(y))


@pytest.mark.parametrize(
    ("likelihoods", "named"),
    [
        (["softmax", "dirichlet"], "for Dirichlet targets of concentration 0.01 and for labels: "),
        (["softmax", "polya-gamma"], "for labels and for labels of each class against the rest: "),
    ],
)
def test_bounds_for_different_values_are_refused(likelihoods, named):
    X, y = np.random.RandomState(0).randn(30, 2), np.arange(30) % 3
    search = BoundSearch(SparseGPClassifier(optimizer=None), {"likelihood": likelihoods})
    with pytest.raises(ValueError, match=f"the same values .*{named}"):
        search.fit(X, y)
    assert not hasattr(search, "best_estimator_")


def test_bounds_with_and_without_copies_are_said_to_be_for_different_rows(rng):
    X = rng.uniform(size=(60, 1))
    y = np.sin(5.0 * X[:, 0]) + 0.3 * rng.standard_normal(60)
    X, y = np.concatenate([X, X[:40]]), np.concatenate([y, y[:40]])
    # A smooth function cannot do without noise.
    grid = {"kernel": [1.0 * RBF(1.0, "fixed"), 1.0 * RBF(1e-3, "fixed")]}
    with pytest.warns(UserWarning, match="their bounds are for different rows"):
        BoundSearch(SparseGPRegressor(n_inducing=100), grid).fit(X, y)


def test_likelihoods_of_labels_are_compared():
    X, y = np.random.RandomState(0).randn(40, 2), np.arange(40) % 2
    grid = {"likelihood": ["polya-gamma", "bernoulli-logit", "bernoulli-probit", "softmax"]}
    search = BoundSearch(SparseGPClassifier(optimizer=None), grid, tol=0.0).fit(X, y)
    assert np.isfinite(search.results_["bound"]).all()


@pytest.mark.parametrize(
    "estimator",
    [
        Ridge(),
        make_pipeline(StandardScaler(), Ridge()),
        TransformedTargetRegressor(SparseGPRegressor(), func=np.log, inverse_func=np.exp),
    ],
)
def test_estimators_without_comparable_bounds_are_refused(estimator):
    with pytest.raises(TypeError, match="estimator must be an estimator of sparsegpc"):
        BoundSearch(estimator, {}).fit(*hundred_rows())


def test_a_last_step_among_the_candidates_is_checked():
    pipeline = make_pipeline(StandardScaler(), Scripted())
    with pytest.raises(TypeError, match=r"got Ridge\(\)"):
        BoundSearch(pipeline, {"scripted": [Scripted(), Ridge()]}).fit(*hundred_rows())


def test_the_estimators_from_minibatches_may_be_searched():
    X, y = np.random.RandomState(0).randn(60, 2), np.arange(60.0)
    estimator = StochasticSparseGPRegressor(n_inducing=10, n_epochs=1)
    search = BoundSearch(estimator, {"kernel": KERNELS}).fit(X, y)
    assert search.lower_bound_ == search.best_estimator_.lower_bound_


# Bad input, failures and warnings


def test_a_search_needs_a_candidate():
    with pytest.raises(ValueError, match="param_grid must hold a candidate or more"):
        BoundSearch(Scripted(), []).fit(*hundred_rows())


def test_an_unknown_parameter_is_refused():
    with pytest.raises(ValueError, match="Invalid parameter 'kernels'"):
        BoundSearch(SparseGPRegressor(), {"kernels": KERNELS}).fit(*hundred_rows())


def test_a_candidate_that_fails_is_reported_and_passed_over():
    grid = [{"bound": [9.0], "fails_at": [(100,)]}, {"bound": [1.0, 2.0]}]
    with pytest.warns(FitFailedWarning, match="1 of 3 candidates failed, the first, number 0"):
        search = scripted_search(grid)
    assert search.best_params_ == {"bound": 2.0}
    assert_array_equal(search.results_["bound"], [np.nan, 1.0, 2.0])
    assert search.results_["error"] == [
        "FloatingPointError: bound 9.0 with 100 rows",
        "",
        "",
    ]


def test_a_candidate_that_fails_on_few_rows_is_no_finalist():
    grid = [{"bound": [9.0], "fails_at": [(40,)]}, {"bound": [1.0, 2.0]}]
    with pytest.warns(FitFailedWarning, match="with 40 rows"):
        search = scripted_search(grid, n_screening_rows=40)
    assert_array_equal(search.results_["bound"], [np.nan, 1.0, 2.0])


@pytest.mark.parametrize("n_rows", [40, 100])
def test_if_all_fail_the_error_is_that_of_the_first(n_rows):
    grid = {"bound": [1.0, 2.0, 3.0], "fails_at": [(n_rows,)]}
    first = "bound 1.0 with 40 rows" if n_rows == 40 else "bound 2.0 with 100 rows"
    with pytest.raises(FloatingPointError, match=first) as caught:
        scripted_search(grid, n_screening_rows=40)
    [note] = caught.value.__notes__
    which = "All candidates" if n_rows == 40 else "All the best 2 of 3 candidates"
    assert note == f"{which} of BoundSearch failed, this one first."


def test_only_warnings_of_the_chosen_candidate_are_shown():
    grid = [{"bound": [1.0], "says": ["the worse"]}, {"bound": [2.0], "says": ["the better"]}]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scripted_search(grid, n_screening_rows=40, n_finalists=1)
    [warning] = caught
    assert str(warning.message) == "candidate 1 (bound=2.0, says='the better'): the better"
    assert warning.category is UserWarning
    assert warning.filename == __file__


def test_verbose_prints_a_line_for_each_fit(capsys):
    grid = [{"bound": [1.0, 2.0]}, {"fails_at": [(40,)]}]
    options = {"n_screening_rows": 40, "n_finalists": 1}
    with pytest.warns(FitFailedWarning):
        scripted_search(grid, **options, verbose=1)
    lines = [re.sub(r"\d+\.\d s$", "T s", line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "[BoundSearch] candidate 0 (bound=1.0): bound 1.00, 40 rows, T s",
        "[BoundSearch] candidate 1 (bound=2.0): bound 2.00, 40 rows, T s",
        "[BoundSearch] candidate 2 (fails_at=(40,)): failed (bound 0.0 with 40 rows), 40 rows, T s",
        "[BoundSearch] candidate 1 (bound=2.0): bound 2.00, 100 rows, T s",
    ]
    scripted_search({})
    assert capsys.readouterr().out == ""


def test_a_failed_search_keeps_its_state():
    search = scripted_search({"bound": [1.0]})
    before = dict(vars(search))
    with pytest.raises(FloatingPointError):
        search.set_params(param_grid={"fails_at": [(100,)]}).fit(*hundred_rows())
    before["param_grid"] = search.param_grid
    assert vars(search) == before


# Rows and arguments


@given(
    counts=st.lists(st.integers(1, 60), min_size=1, max_size=5),
    share=st.floats(0.02, 1.0),
    seed=st.integers(0, 10),
)
def test_screening_rows_hold_the_classes_in_their_proportions(counts, share, seed):
    labels = np.repeat(np.arange(len(counts)), counts)
    y = np.random.RandomState(seed).permutation(labels)
    n_rows = max(1, int(share * len(y)))
    rows = spaced_by_target(y, n_rows, is_label=True)
    assert (np.diff(rows) > 0).all()
    assert n_rows <= len(rows) <= n_rows + len(counts)
    found = np.bincount(y[rows], minlength=len(counts))
    assert found.min() >= 1
    # One more where the first row of a class, which is always among them, is not its turn.
    assert (np.abs(found - np.array(counts) * n_rows / len(y)) <= 2.0).all()


@given(seed=st.integers(0, 100), n_rows=st.integers(1, 50))
def test_screening_rows_are_evenly_spaced_in_the_order_of_numbers(seed, n_rows):
    y = np.random.RandomState(seed).randn(50)
    rows = spaced_by_target(y, n_rows, is_label=False)
    ranks = np.sort(np.argsort(np.argsort(y))[rows])
    assert len(rows) == n_rows
    assert (np.abs(ranks - (np.arange(n_rows) + 0.5) * 50 / n_rows) <= 1.0).all()


def test_several_outputs_are_ordered_by_the_first():
    y = np.column_stack([np.arange(50.0)[::-1], np.zeros(50)])
    assert_array_equal(spaced_by_target(y, 5, False), [4, 14, 24, 34, 44])


def test_arguments_with_an_entry_for_each_row_follow_the_rows():
    X, y = hundred_rows()
    search = BoundSearch(Scripted(), {"bound": [1.0, 2.0]}, n_screening_rows=40, n_finalists=1)
    seen = []

    class Watched(Scripted):
        def fit(self, X, y, sample_weight=None, labels=None):
            seen.append((X[:, 0], y, sample_weight, labels))
            return super().fit(X, y, sample_weight, labels)

    search.set_params(estimator=Watched())
    search.fit(X, y, sample_weight=2 * y + 1, labels={"a": "dictionary"})
    assert [len(fit[0]) for fit in seen] == [40, 40, 100]
    for rows, targets, weight, labels in seen:
        assert_array_equal(rows, targets)
        assert_array_equal(weight, 2 * targets + 1)
        assert labels == {"a": "dictionary"}


def test_rows_of_weight_zero_are_no_screening_rows():
    X, y = hundred_rows()
    weight = np.where(y < 50, 0.0, 1.0)
    grid = {"bound": [1.0, 2.0, 3.0]}
    search = BoundSearch(Scripted(), grid, n_screening_rows=20, n_finalists=1)
    rows = search._screening_rows(X, y, weight, 3)
    assert len(rows) == 20
    assert y[rows].min() >= 50
    assert search.set_params(n_screening_rows=60)._screening_rows(X, y, weight, 3) is None


def test_weights_reach_the_last_step_of_a_pipeline():
    X, y = hundred_rows()
    pipeline = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), Scripted()))
    search = BoundSearch(pipeline, {}).fit(X, y, sample_weight=y + 1)
    assert_array_equal(search.best_estimator_[-1][-1].fitted_to_[2], y + 1)


def test_known_noise_is_passed_to_a_pipeline():
    rng = np.random.RandomState(0)
    X, noise = rng.uniform(-2, 2, (60, 1)), rng.uniform(0.01, 0.1, 60)
    y = X[:, 0] ** 2 + np.sqrt(noise) * rng.normal(size=60)
    pipeline = make_pipeline(StandardScaler(), SparseGPRegressor(**QUICK))
    grid = {"sparsegpregressor__kernel": KERNELS}
    search = BoundSearch(pipeline, grid, n_screening_rows=30, n_finalists=1)
    search.fit(X, y, sparsegpregressor__noise_variance=noise)
    expected = search.best_estimator_.fit(X, y, sparsegpregressor__noise_variance=noise)
    assert search.lower_bound_ == expected[-1].lower_bound_


def test_an_argument_given_twice_is_refused():
    X, y = hundred_rows()
    search = BoundSearch(make_pipeline(Scripted()), {})
    with pytest.raises(TypeError, match="scripted__sample_weight and sample_weight, which are the"):
        search.fit(X, y, sample_weight=y + 1, scripted__sample_weight=y + 1)


def test_metadata_is_routed():
    X, y = hundred_rows()
    with config_context(enable_metadata_routing=True):
        last = Scripted().set_fit_request(sample_weight=True, labels=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        search = BoundSearch(make_pipeline(scaler, last), {})
        search.fit(X, y, sample_weight=y + 1, labels=-y)
        fitted = search.best_estimator_[-1].fitted_to_
        assert_array_equal(fitted[2], y + 1)
        assert_array_equal(fitted[3], -y)


def test_requests_are_those_of_the_estimator():
    X, y = hundred_rows()
    with config_context(enable_metadata_routing=True):
        model = SparseGPRegressor(RBF(1.0), optimizer=None).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        search = BoundSearch(model, {})
        assert not hasattr(search, "set_fit_request")
        search.fit(X, y, sample_weight=y + 1)
        params = {"params": {"sample_weight": y + 1}, "cv": 2}
        assert_array_equal(
            cross_val_score(search, X, y, **params), cross_val_score(model, X, y, **params)
        )
    assert search.lower_bound_ == model.fit(X, y, sample_weight=y + 1).lower_bound_


def test_data_frames_keep_their_columns():
    pandas = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    frame = pandas.DataFrame({"a": rng.randn(60), "b": rng.randn(60)}, index=rng.permutation(60))
    search = BoundSearch(SparseGPRegressor(**QUICK), {"kernel": KERNELS}, n_screening_rows=30)
    search.set_params(n_finalists=1).fit(frame, frame["a"])
    assert list(search.feature_names_in_) == ["a", "b"]


# The fitted search


def test_methods_are_those_of_the_estimator():
    classifier = BoundSearch(SparseGPClassifier(), {})
    regressor = BoundSearch(SparseGPRegressor(), {})
    for method in ("predict", "score"):
        assert hasattr(classifier, method)
        assert hasattr(regressor, method)
    for method in ("predict_proba", "predict_log_proba", "decision_function"):
        assert hasattr(classifier, method)
        assert not hasattr(regressor, method)
    assert not hasattr(classifier, "classes_")


def test_predictions_are_those_of_the_best_estimator():
    rng = np.random.RandomState(0)
    X = rng.randn(40, 2)
    y = np.where(X[:, 0] > 0, "yes", "no")
    search = BoundSearch(SparseGPClassifier(**QUICK), {"kernel": KERNELS}).fit(X, y)
    best = search.best_estimator_
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        assert_array_equal(getattr(search, method)(X), getattr(best, method)(X))
    assert search.score(X, y) == best.score(X, y)
    assert list(search.classes_) == ["no", "yes"]
    assert search.n_features_in_ == 2


def test_intervals_of_probabilities_and_survival_are_those_of_the_best_estimator():
    rng = np.random.RandomState(0)
    X = rng.randn(40, 2)
    labelled = SparseGPClassifier(n_inducing=15, optimizer=None)
    search = BoundSearch(make_pipeline(StandardScaler(), labelled), {})
    assert not hasattr(search, "survival_function")
    *before, best = search.fit(X, X[:, 0] > 0).best_estimator_
    expected = best.predict_proba_interval(before[0].transform(X), 0.5)
    assert_array_equal(search.predict_proba_interval(X, 0.5), expected)
    durations = SparseGPGeneralizedRegressor(likelihood="weibull", optimizer=None)
    search = BoundSearch(make_pipeline(StandardScaler(), durations), {}).fit(X, np.exp(X[:, 0]))
    assert not hasattr(search, "predict_proba_interval")
    *before, best = search.best_estimator_
    expected = best.survival_function(before[0].transform(X), [1.0, 2.0])
    assert_array_equal(search.survival_function(X, [1.0, 2.0]), expected)
    expected = best.survival_interval(before[0].transform(X), [1.0, 2.0], 0.5)
    assert_array_equal(search.survival_interval(X, [1.0, 2.0], 0.5), expected)


def test_arguments_of_predict_are_passed_on():
    X, y = np.random.RandomState(0).randn(40, 2), np.arange(40.0)
    search = BoundSearch(SparseGPRegressor(**QUICK), {}).fit(X, y)
    mean, std = search.predict(X, return_std=True)
    assert mean.shape == std.shape == (40,)


def test_quantiles_intervals_and_densities_are_those_of_the_chosen_model():
    X, y = np.random.RandomState(0).randn(40, 2), np.arange(40.0)
    search = BoundSearch(SparseGPRegressor(**QUICK), {}).fit(X, y)
    best = search.best_estimator_
    assert_array_equal(
        search.predict_quantiles(X, [0.1, 0.7]), best.predict_quantiles(X, [0.1, 0.7])
    )
    assert_array_equal(search.predict_interval(X), best.predict_interval(X))
    steps = make_pipeline(StandardScaler(), SparseGPRegressor(**QUICK))
    search = BoundSearch(steps, {}).fit(X, y)
    scaler, best = search.best_estimator_
    expected = best.predict_interval(scaler.transform(X), 0.5)
    assert_array_equal(search.predict_interval(X, 0.5), expected)
    assert_array_equal(search.predict_quantiles(X, 0.25), expected[0])
    alone = BoundSearch(make_pipeline(SparseGPRegressor(**QUICK)), {}).fit(X, y)
    assert alone.predict_interval(X)[0].shape == (40,)
    density = search.log_predictive_density(X, y)
    assert_array_equal(density, best.log_predictive_density(scaler.transform(X), y))
    for without in (SparseGPClassifier(), make_pipeline(StandardScaler(), SparseGPClassifier())):
        assert not hasattr(BoundSearch(without, {}), "log_predictive_density")
        assert not hasattr(BoundSearch(without, {}), "predict_quantiles")
        assert not hasattr(BoundSearch(without, {}), "predict_interval")


def test_before_fit_it_says_so():
    with pytest.raises(NotFittedError):
        BoundSearch(SparseGPRegressor(), {}).predict([[0.0]])


def test_processes_give_the_same():
    X, y = np.random.RandomState(0).randn(40, 2), np.arange(40.0)
    search = BoundSearch(SparseGPRegressor(**QUICK), {"kernel": KERNELS})
    alone = search.fit(X, y).results_["bound"]
    assert_array_equal(search.set_params(n_jobs=2).fit(X, y).results_["bound"], alone)


def test_a_saved_search_predicts_the_same():
    X, y = np.random.RandomState(0).randn(40, 2), np.arange(40.0)
    search = BoundSearch(SparseGPRegressor(**QUICK), {"kernel": KERNELS}).fit(X, y)
    loaded = pickle.loads(pickle.dumps(search))
    assert_array_equal(loaded.predict(X), search.predict(X))


def test_it_works_inside_cross_validation():
    rng = np.random.RandomState(0)
    X = rng.randn(60, 2)
    steps = make_pipeline(FunctionTransformer(), SparseGPRegressor(optimizer=None))
    grid = {"functiontransformer": [FunctionTransformer(), StandardScaler()]}
    search = BoundSearch(steps, grid)
    assert cross_val_score(search, X, X[:, 0], cv=2).min() > 0.5
    outer = GridSearchCV(search, {"estimator__sparsegpregressor__n_inducing": [5, 10]}, cv=2)
    assert outer.fit(X, X[:, 0]).best_estimator_.n_features_in_ == 2
