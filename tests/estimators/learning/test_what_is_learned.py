"""What a fit learns: cases in which too few points or rows once decided."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn import clone, config_context
from sklearn.datasets import make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import r2_score

from sparsegpc import (
    SparseGPClassifier,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
    StochasticSparseGPRegressor,
)
from sparsegpc._core.learning import default_points, growing_subsets
from sparsegpc._estimators.improvements import after_search, missed_functions
from sparsegpc._estimators.learning import point_selection
from tests.estimators.simple_kernel import SIMPLE


def season_and_trend(slope, amplitude, n=200):
    """Return `n` times, and a trend with a season of one unit, which has 20 rows."""
    t = np.sort(np.random.RandomState(0).uniform(0.0, n / 20.0, n))
    return t[:, None], slope * t + amplitude * np.sin(2.0 * np.pi * t)


def waves_over_an_area(seed, n=800):
    """Return places with a third column, log odds with waves and a trend, and labels."""
    rng = np.random.RandomState(100 + seed)
    X = np.column_stack([rng.uniform(0, 6, n), rng.uniform(0, 10, n), rng.normal(size=n)])
    f = 1.5 * np.sin(X[:, 0]) * np.cos(X[:, 1]) + X[:, 2] - 0.5
    return X, f, rng.uniform(size=n) < expit(f)


@pytest.mark.parametrize(
    ("estimator", "slope"),
    [
        (SparseGPRegressor(), 0.5),
        (SparseGPRegressor(), 3.0),
        (SparseGPRegressor(n_inducing="auto"), 0.5),
        (SparseGPRegressor(noise="polynomial"), 1.0),
        (StochasticSparseGPRegressor(n_epochs=1), 3.0),
    ],
    ids=str,
)
def test_a_season_beside_a_trend_is_not_taken_for_noise(estimator, slope, rng):
    X, f = season_and_trend(slope, 1.5)
    y = 10.0 + f + 0.2 * rng.randn(200)
    fitted = clone(estimator).fit(X, y)
    assert np.sqrt(np.mean((fitted.predict(X) - f - 10.0) ** 2)) < 0.15


@pytest.mark.filterwarnings("ignore:residuals of neighbouring rows")
def test_a_season_of_counts_or_labels_beside_a_trend_is_found(rng):
    """What is left is similar at neighbouring rows, although hardly any variance is unexplained."""
    X, f = season_and_trend(0.4, 1.0, 400)
    counts = rng.poisson(3.0 * np.exp(0.3 * f))
    fitted = SparseGPGeneralizedRegressor("rbf", likelihood="poisson").fit(X, counts)
    assert np.corrcoef(np.log(fitted.predict(X)) - 0.12 * X[:, 0], f - 0.4 * X[:, 0])[0, 1] > 0.8
    assert fitted.history_["lower_bound"][-1] == fitted.lower_bound_
    X, f = season_and_trend(0.8, 1.0)
    labels = f + 0.3 * rng.randn(200) > 4.0
    for n_inducing in (None, 50):
        fitted = SparseGPClassifier(n_inducing=n_inducing).fit(X, labels)
        given = SparseGPClassifier(20.0 * RBF(0.4), n_inducing=n_inducing).fit(X, labels)
        assert fitted.lower_bound_ > given.lower_bound_ - 2.0


@pytest.mark.parametrize(("n_periods", "most"), [(15, 0.06), (30, 0.08)])
def test_a_season_beside_a_trend_is_found_in_many_rows(n_periods, most, rng, monkeypatch):
    """Growing subsets have too few points for 15 periods, and the first 50 points for 30."""
    monkeypatch.setattr(growing_subsets, "MANY_ROWS", 800)
    monkeypatch.setattr(growing_subsets, "SMALLEST_SUBSET", 200)
    monkeypatch.setattr(growing_subsets, "FEWEST_POINTS", 10)
    monkeypatch.setattr(default_points, "FULL_COST_ROWS", 8000)
    for module in (default_points, point_selection):
        monkeypatch.setattr(module, "FIRST_POINTS", 50)
    X = rng.uniform(0.0, 10.0, (801, 1))
    f = 0.5 * X[:, 0] + 0.3 * np.sin(0.2 * np.pi * n_periods * X[:, 0])
    fitted = SparseGPRegressor().fit(X, f + 0.1 * rng.randn(801))
    assert (len(fitted.inducing_points_) > 50) == (n_periods == 30)
    assert np.sqrt(np.mean((fitted.predict(X) - f) ** 2)) < most


def test_a_season_in_the_logarithm_of_a_column_is_found(rng):
    """In the column as it is, the search for a faster function cannot find it."""
    logarithm = rng.uniform(0.0, 4.0, 600)
    f = 0.5 * logarithm + 0.3 * np.sin(20.0 * np.pi * logarithm)
    X, y = np.exp(logarithm)[:, None], f + 0.15 * rng.randn(600)
    fitted = SparseGPRegressor("rbf", log_transform="auto").fit(X, y)
    assert np.sqrt(np.mean((fitted.predict(X) - f) ** 2)) < 0.1


def test_a_fast_season_beside_a_trend_in_one_of_several_columns_is_found(rng):
    """Rows that are near in all columns are far apart for it, unlike rows near in this column."""
    X = np.column_stack([rng.uniform(0.0, 5.0, 350), rng.randn(350, 2)])
    f = 0.5 * X[:, 0] + 0.3 * np.sin(12.0 * np.pi * X[:, 0]) + 0.3 * X[:, 1]
    fitted = SparseGPRegressor().fit(X, f + 0.2 * rng.randn(350))
    assert np.sqrt(np.mean((fitted.predict(X) - f) ** 2)) < 0.12


@pytest.mark.parametrize(
    ("f", "labels"),
    [
        (lambda X: np.sin(3.0 * (X[:, 0] + X[:, 1])), True),
        (lambda X: np.sin(3.0 * (X[:, 0] - X[:, 1])) + X[:, 2], False),
        (lambda X: np.sin(2.0 * X[:, :3].sum(axis=1)), False),
    ],
    ids=["two", "two-and-a-line", "three"],
)
def test_a_fast_function_of_a_few_of_many_columns_is_found(f, labels, rng):
    X = rng.randn(500, 15)
    f, fitted_rows = 4.0 * f(X), slice(300)
    if labels:
        y = rng.uniform(size=500) < 1.0 / (1.0 + np.exp(-f))
        found = SparseGPClassifier().fit(X[fitted_rows], y[fitted_rows]).decision_function(X[300:])
    else:
        y = f + rng.randn(500)
        found = SparseGPRegressor().fit(X[fitted_rows], y[fitted_rows]).predict(X[300:])
    assert np.corrcoef(found, f[300:])[0, 1] > 0.7


@pytest.mark.parametrize(
    "options", [{}, {"main_effects": False, "length_scales": "tied"}, {"noise": "auto"}], ids=str
)
def test_a_faster_function_is_looked_for_once_in_what_is_kept(options, rng, monkeypatch):
    X = rng.randn(120, 3)
    y = X.prod(axis=1) + 0.1 * rng.randn(120)
    seen, missed_group = [], missed_functions.missed_group

    def counted(model, best, *args, **more):
        seen.append(best.theta)
        return missed_group(model, best, *args, **more)

    monkeypatch.setattr(missed_functions, "missed_group", counted)
    fitted = SparseGPRegressor(n_inducing=40, **options).fit(X, y)
    assert fitted.noise_variance_ is not None
    assert len(seen) == len({theta.tobytes() for theta in seen})


def test_the_number_of_points_grows_for_a_fast_function_of_two_columns(rng, monkeypatch):
    X = rng.randn(500, 15)
    y = np.sin(3.0 * (X[:, 0] + X[:, 1])) + 0.3 * rng.randn(500)
    model = SparseGPRegressor(n_inducing="auto", main_effects=False).fit(X, y)
    bound, sizes = model.lower_bound_, [step["n_inducing"] for step in model.growth_]
    assert sizes[-1] >= len(model.inducing_points_) >= 100
    assert model.score(X, y) > 0.7

    def failing(*args, **options):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(after_search, "search", failing)
    with pytest.warns(match="constant"):
        model.fit(X, y)
    assert model.lower_bound_ < bound - 100.0


WIDE = ConstantKernel(1.0, (1e-3, 1e6))


def nearly_equal_columns(n, rng):
    """Return four columns, two of them nearly equal, and a function of the difference of these."""
    X = rng.randn(n, 4)
    X[:, 1] = X[:, 0] + 0.06 * X[:, 1]
    return X, 25.0 * (X[:, 1] - X[:, 0])


@pytest.mark.parametrize(
    ("kernel", "labels"),
    [(None, True), (None, False), (WIDE * RBF([1.0] * 4, (1e-2, 1e3)), False)],
    ids=["labels", "targets", "own"],
)
@pytest.mark.filterwarnings("ignore:the bound still rises where")
def test_the_difference_of_nearly_equal_columns_is_found(kernel, labels, rng):
    """A small difference has steep slopes, which are far from where a search begins."""
    X, f = nearly_equal_columns(1300, rng)
    if labels:
        y = rng.uniform(size=1300) < 1.0 / (1.0 + np.exp(-f))
        fitted = SparseGPClassifier(kernel).fit(X[:300], y[:300])
        chance = fitted.predict_proba(X[300:])[:, 1]
        assert np.mean(np.abs(chance - 1.0 / (1.0 + np.exp(-f[300:])))) < 0.1
    else:
        y = f + 2.0 * rng.randn(1300)
        fitted = SparseGPRegressor(kernel).fit(X[:150], y[:150])
        assert r2_score(f[150:], fitted.predict(X[150:])) > 0.8


def test_one_relevant_column_among_many_is_found_with_few_rows(rng):
    X = rng.randn(200, 120)
    y = np.sin(2.0 * X[:, 7]) + 0.2 * rng.randn(200)
    fitted = SparseGPRegressor(warm_start=True).fit(X, y)
    assert fitted.feature_relevance_.argmax() == 7
    bound = fitted.lower_bound_
    assert fitted.fit(X, y).lower_bound_ > bound - 0.5
    X = rng.randn(300, 120)
    assert r2_score(np.sin(2.0 * X[:, 7]), fitted.predict(X)) > 0.85


def test_a_dense_function_of_many_columns_with_few_rows_has_one_length_scale(rng):
    X = rng.randn(100, 120)
    y = X.sum(axis=1) / 10.0 + 0.5 * rng.randn(100)
    fitted = SparseGPRegressor().fit(X, y)
    assert np.ndim(fitted.kernel_.k2.length_scale) == 0
    again = fitted.set_params(warm_start=True).fit(X, y)
    assert np.ndim(again.kernel_.k2.length_scale) == 0


def test_a_linear_mixture_of_many_collinear_columns_is_found():
    """Spectra of six substances; the first two determine the target."""
    rng = np.random.RandomState(0)
    at = np.linspace(0.0, 1.0, 300)
    peaks = zip(rng.uniform(0.1, 0.9, 6), rng.uniform(0.03, 0.15, 6), strict=True)
    pure = np.array([np.exp(-0.5 * ((at - centre) / width) ** 2) for centre, width in peaks])
    shares = rng.uniform(size=(260, 6))
    drift = 0.05 * (rng.randn(260, 1) + rng.randn(260, 1) * at)
    X = shares @ pure + drift + 0.003 * rng.randn(260, 300)
    f = 3.0 * shares[:, 0] + shares[:, 1]
    model = SparseGPRegressor().fit(X[:60], f[:60] + 0.05 * rng.randn(60))
    assert np.sqrt(np.mean((model.predict(X[60:]) - f[60:]) ** 2)) < 0.2


def test_a_cycle_in_one_column_beside_another_is_found(rng):
    """As a main effect whose length scale is a fiftieth of the column's range."""
    X = np.column_stack([rng.uniform(0.0, 30.0, 400), rng.uniform(10.0, 30.0, 400)])
    f = np.sin(2.0 * np.pi * X[:, 0]) + 0.01 * (X[:, 1] - 20.0) ** 2
    fitted = SparseGPRegressor().fit(X, f + 0.3 * rng.randn(400))
    assert np.sqrt(np.mean((fitted.predict(X) - f) ** 2)) < 0.25


def test_effects_are_found_where_a_function_of_all_columns_is_not(rng):
    """The fit without main effects ends at a constant function."""
    X = rng.uniform(-1.0, 1.0, (300, 8))
    f = np.sin(7.0 * X + np.arange(8.0)).sum(axis=1)
    y = f + 0.4 * rng.randn(300)
    fitted = SparseGPRegressor().fit(X[:200], y[:200])
    assert r2_score(f[200:], fitted.predict(X[200:])) > 0.8


def test_a_week_in_months_of_days_is_found():
    """It is faster than what a twentieth of the rows tell."""
    x = np.arange(250.0)[:, None]
    f = 2.0 * np.sin(x[:, 0] / 150.0) + 0.8 * np.sin(2.0 * np.pi * x[:, 0] / 7.0)
    y = f + 0.3 * np.random.RandomState(0).randn(250)
    fitted = SparseGPRegressor().fit(x, y)
    assert np.sqrt(np.mean((fitted.predict(x) - f) ** 2)) < 0.25


def test_a_search_goes_on_after_a_step_over_an_edge():
    rng = np.random.RandomState(1401)
    x = rng.uniform(0.0, 10.0, 400)[:, None]
    y = np.sin(x[:, 0]) + 0.3 * np.cos(5.0 * x[:, 0]) + 1e-4 * rng.randn(400)
    fitted = SparseGPRegressor(warm_start=True).fit(x, y)
    reached = fitted.lower_bound_
    assert fitted.fit(x, y).lower_bound_ < reached + 1.0


@pytest.mark.parametrize("main_effects", [False, True])
def test_a_column_that_is_constant_in_training_has_no_effect(main_effects, rng):
    X = np.column_stack([rng.randn(100, 2), np.full(100, 7.0)])
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.randn(100)
    fitted = SparseGPRegressor(main_effects=main_effects, n_inducing=40).fit(X, y)
    other = X + np.array([0.0, 0.0, 3.0])
    expected = fitted.predict(X, return_std=True)
    np.testing.assert_allclose(fitted.predict(other, return_std=True), expected, atol=1e-6)


@pytest.mark.parametrize("name", ["gamma", "weibull", "log-normal"])
def test_a_season_of_positive_numbers_is_not_taken_for_noise(name, rng):
    X, f = season_and_trend(0.4, 1.0)
    y = np.exp(f) * rng.gamma(25.0, size=200) / 25.0
    fitted = SparseGPGeneralizedRegressor(likelihood=name).fit(X, y)
    assert np.abs(np.log(fitted.predict(X)) - f).mean() < 0.15


def test_a_fast_function_of_one_column_is_found_under_labels():
    rng = np.random.RandomState(1003)
    X = rng.uniform(-2.0, 2.0, (400, 1))
    y = np.sin(10.0 * X[:, 0] + 4.0) > 0.0
    fitted = SparseGPClassifier().fit(X, y)
    # That of a constant function is -277.
    assert fitted.lower_bound_ > -70.0
    assert fitted.score(X, y) > 0.98


def test_a_fast_function_of_one_of_ten_columns_is_found_under_few_labels():
    rng = np.random.RandomState(5)
    X = rng.uniform(-2.0, 2.0, size=(90, 10))
    y = np.sin(8.0 * X[:, 0]) + 0.5 * rng.randn(90) > 0.0
    alone = SparseGPClassifier(ConstantKernel() * RBF()).fit(X[:, :1], y)
    model = SparseGPClassifier(ConstantKernel() * RBF(np.ones(10))).fit(X, y)
    assert model.lower_bound_ > alone.lower_bound_ - 0.1


@pytest.mark.parametrize("seed", range(4))
def test_waves_over_an_area_are_found_under_labels(seed):
    X, f, y = waves_over_an_area(seed)
    fitted = SparseGPClassifier().fit(X, y)
    near = 0.8 * RBF([1.3, 1.3, 2.5])
    reference = SparseGPClassifier(near, n_inducing=200).fit(X, y)
    assert fitted.lower_bound_ > reference.lower_bound_ - 2.0
    low, high = fitted.predict_proba_interval(X)
    covered = (low[:, 1] < expit(f)) & (expit(f) < high[:, 1])
    assert covered.mean() > 0.9


@pytest.mark.filterwarnings("ignore:the bound still rises where hyperparameters meet")
@pytest.mark.parametrize("variance", [3.0, ConstantKernel(20.0, (0.01, 0.1))])
def test_a_start_beyond_its_limits_is_not_kept(variance, rng):
    X = rng.normal(size=(300, 2))
    y = np.sin(2.0 * X[:, 0]) > 0.5 * rng.normal(size=300)
    kernel = variance * RBF(0.9, (5.0, 50.0))
    theta = SparseGPClassifier(kernel).fit(X, y).kernel_.theta
    assert (kernel.bounds[:, 0] <= theta).all()
    assert (theta <= kernel.bounds[:, 1]).all()


def test_the_start_of_the_user_is_not_lost_to_a_poorer_one():
    rng = np.random.RandomState(1)
    X = rng.uniform(-2.0, 2.0, (600, 3))
    f = X[:, 0] + np.sin(3.0 * X[:, 1]) * np.cos(2.0 * X[:, 2])
    y = f + 0.5 * rng.randn(600) > 0.0
    free = SparseGPClassifier(7.0 * RBF(0.75), n_inducing=100).fit(X, y)
    bounded = SparseGPClassifier(7.0 * RBF(0.75, (0.5, 1.5)), n_inducing=100).fit(X, y)
    assert free.lower_bound_ > bounded.lower_bound_ - 1.0


def test_auto_is_not_content_with_points_that_favour_a_long_length_scale():
    """Fifty points certify a length scale at which fifty points suffice."""
    X, y = make_friedman1(700, 20, noise=1.0, random_state=0)
    X = (X - X[:400].mean(axis=0)) / X[:400].std(axis=0)
    few, auto, all_points = (
        SparseGPRegressor("rbf", n_inducing=n, **SIMPLE).fit(X[:400], y[:400])
        for n in (50, "auto", 400)
    )
    scores = [fitted.score(X[400:], y[400:]) for fitted in (few, auto, all_points)]
    assert scores[1] > scores[2] - 0.01 > scores[0] + 0.02
    assert auto.growth_[0]["gap_per_row"] < 0.01


@pytest.mark.filterwarnings("ignore:the bound still rises:sklearn.exceptions.ConvergenceWarning")
def test_no_column_that_matters_is_pruned_by_a_subset(monkeypatch):
    monkeypatch.setattr(growing_subsets, "MANY_ROWS", 1600)
    X, y = make_friedman1(1700, 10, noise=1.0, random_state=0)
    fitted = SparseGPRegressor(1.0 * RBF(np.ones(10)), n_inducing=60).fit(X, y)
    assert fitted.feature_relevance_[:5].min() > 10.0 * fitted.feature_relevance_[5:].max()


def test_no_column_that_matters_is_pruned_by_the_first_rows_of_minibatches():
    rng = np.random.RandomState(6)
    X = rng.randn(1000, 8)
    y = np.sin(6.0 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.1 * rng.randn(1000)
    fitted = StochasticSparseGPRegressor(n_inducing=100, n_epochs=1).fit(X[:800], y[:800])
    assert fitted.score(X[800:], y[800:]) > 0.9


@pytest.mark.parametrize(("noise", "seed"), [("polynomial", 0), ("gp", 1)])
def test_noise_that_varies_is_no_worse_than_noise_that_does_not(noise, seed):
    rng = np.random.RandomState(13)
    X = rng.randint(0, 4, (150, 2)).astype(float)
    y = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.3 * rng.randn(150)
    model = SparseGPRegressor("rbf", n_inducing=10, random_state=seed, **SIMPLE)
    bounds = [
        clone(model).set_params(noise=kind).fit(X, y).lower_bound_
        for kind in ("homoscedastic", noise)
    ]
    # The noise process costs a little even where it is constant.
    assert bounds[1] > bounds[0] - 0.5


def test_rows_on_disk_that_do_not_fit_into_memory_are_learned_from(tmp_path):
    rng = np.random.RandomState(0)
    X = np.memmap(tmp_path / "X", dtype=np.float64, mode="w+", shape=(250, 80))
    X[:] = rng.randn(250, 80)
    with config_context(working_memory=0.1):
        model = SparseGPRegressor(n_inducing=20, **SIMPLE)
        fitted = model.fit(X, X[:, 0] + 0.1 * rng.randn(250))
    assert np.isfinite(fitted.lower_bound_)


def test_a_callback_that_stops_on_few_rows_keeps_what_they_taught():
    rng = np.random.RandomState(0)
    X = rng.uniform(-2.0, 2.0, (1000, 1))
    y = np.sin(8.0 * X[:, 0]) + 0.1 * rng.randn(1000)
    stopped = SparseGPRegressor(callback=lambda step: step.iteration == 25)
    with pytest.warns(ConvergenceWarning, match="the callback asked to stop"):
        stopped.fit(X, y)
    assert (stopped.history_["n_samples"][:20] == 200).all()
    assert stopped.score(X, y) > 0.9


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_column_with_a_fast_effect_is_brought_back_after_the_search_has_pruned_it():
    rng = np.random.RandomState(4)
    X = rng.normal(size=(4000, 5))
    y = np.sin(6.0 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=4000)
    model = SparseGPRegressor(n_inducing=100, main_effects=False, max_reselections=2)
    assert model.fit(X, y).feature_relevance_.argmax() == 0
    # Without the column its effect counts as noise, of variance 0.5.
    assert model.noise_variance_ < 0.015
