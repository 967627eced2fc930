"""The picture of the effects of single columns, against what the estimators say of them."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

from sparsegpc import (
    BoundSearch,
    NormalScores,
    SparseGPClassifier,
    SparseGPRegressor,
    StochasticSparseGPRegressor,
    tabular_pipeline,
)
from sparsegpc.displays import EffectsDisplay
from sparsegpc.kernels import MainEffects

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    X = np.column_stack([rng.uniform(-2, 2, 60), 50.0 + 10.0 * rng.randn(60), np.arange(60) % 3])
    frame = pd.DataFrame(X, columns=["dose", "weight", "group"])
    return frame, np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 2] + 0.1 * rng.randn(60)


@pytest.fixture(scope="module")
def model(data):
    kernel = MainEffects([1.0, 0.5, 0.7], [0.6, 1.0, 1.5])
    gp = SparseGPRegressor(kernel, n_inducing=25, optimizer=None)
    return make_pipeline(StandardScaler(), gp).fit(*data)


def expected(model, X, column, grid, reference):
    """Return mean and standard deviation of an effect on a grid in the original units."""
    points = np.tile(X.mean().to_numpy(), (len(grid), 1))
    points[:, column] = grid
    scaler, gp = model
    points = scaler.transform(pd.DataFrame(points, columns=X.columns))
    mean, std = gp.effects(points, [column], scaler.transform(reference))
    return mean[:, 0], std[:, 0]


@pytest.mark.parametrize("coverage", [0.95, 0.5])
def test_curves_and_bands_are_those_of_the_estimator(coverage, model, data):
    X, _ = data
    display = EffectsDisplay.from_estimator(model, X, grid_resolution=9, coverage=coverage)
    z = norm.ppf(0.5 + coverage / 2.0)
    assert display.names == ["dose", "weight", "group"]
    for column, (grid, line) in enumerate(zip(display.grids, display.lines_, strict=True)):
        mean, std = expected(model, X, column, grid, X)
        assert_array_equal(line.get_xdata(), grid)
        assert_allclose(line.get_ydata(), mean, rtol=1e-9)
        paths = [path.vertices for path in display.bands_[column].get_paths()]
        heights = np.concatenate(paths)
        assert_allclose(heights[:, 1].max(), (mean + z * std).max(), rtol=1e-9)
        assert_allclose(heights[:, 1].min(), (mean - z * std).min(), rtol=1e-9)
    assert_allclose(display.grids[0], np.linspace(X["dose"].min(), X["dose"].max(), 9))
    # A line for each of few values.
    assert_array_equal(display.grids[2], [0.0, 1.0, 2.0])
    assert len(display.bands_[2].get_paths()) == 3
    texts = [text.get_text() for text in display.legend_.get_texts()]
    assert texts == [f"{100 * coverage:.4g} % band", "mean effect", "deciles"]


def test_each_effect_has_mean_zero_over_the_rows(model, data):
    X, _ = data
    display = EffectsDisplay.from_estimator(model, X, features=["group"])
    assert_allclose(display.means[0].mean(), 0.0, atol=1e-10)
    shares = np.bincount(X["group"].astype(int)[:40]) / 40
    shorter = EffectsDisplay.from_estimator(model, X[:40], features=["group"])
    assert_allclose(shares @ shorter.means[0], 0.0, atol=1e-10)


def test_whole_numbers_are_drawn_at_those_of_the_table(rng):
    """An encoder of codes knows no others."""
    codes = 3 * rng.randint(0, 30, 300)
    X = pd.DataFrame({"a": codes, "b": rng.randn(300)})
    encoder = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["a"]), remainder="passthrough"
    )
    gp = SparseGPRegressor(n_inducing=10, optimizer=None)
    model = make_pipeline(encoder, gp).fit(X, np.sin(codes))
    display = EffectsDisplay.from_estimator(model, X, features=["a"], grid_resolution=15)
    assert len(display.grids[0]) == 15
    assert set(display.grids[0]) <= set(codes)


def test_deciles_and_labels(model, data):
    X, _ = data
    display = EffectsDisplay.from_estimator(model, X, features=[1, "dose"])
    assert display.names == ["weight", "dose"]
    assert_allclose(display.decile_lines_[0].get_xdata()[4], X["weight"].median())
    left, right = display.axes_
    assert left.get_ylabel() == "effect on y"
    assert right.get_ylabel() == ""
    assert left.get_ylim() == right.get_ylim()


def test_six_columns_of_the_largest_effects(rng):
    X = rng.randn(80, 9)
    variances = [1.0, 1e-6, 1.0, 1.0, 1e-6, 1.0, 1.0, 1e-6, 1.0]
    y = X @ np.sqrt(variances)
    model = SparseGPRegressor(MainEffects(variances, 3.0), optimizer=None, n_inducing=80)
    display = EffectsDisplay.from_estimator(model.fit(X, y), X)
    assert display.names == ["x0", "x2", "x3", "x5", "x6", "x8"]
    assert len(display.figure_.axes) == 6
    few = EffectsDisplay.from_estimator(model, X, features=[0, 1, 2, 3])
    assert len(few.figure_.axes) == 4


def test_columns_that_do_not_vary_are_left_out(rng):
    X = np.column_stack([rng.randn(30), np.full(30, 2.0)])
    model = SparseGPRegressor(MainEffects(), n_inducing=10, optimizer=None).fit(X, X[:, 0])
    assert EffectsDisplay.from_estimator(model, X).names == ["x0"]


def test_classes_outputs_and_minibatches(data):
    X, y = data
    X = StandardScaler().fit_transform(X)
    options = {"kernel": MainEffects(), "n_inducing": 10}
    binary = SparseGPClassifier(optimizer=None, **options).fit(X, y > 0.5)
    assert EffectsDisplay.from_estimator(binary, X).ylabel == "effect on f"
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [0.0, 1.0])]
    several = SparseGPClassifier(optimizer=None, **options).fit(X, labels)
    display = EffectsDisplay.from_estimator(several, X, features=[0], target="low")
    place = list(several.classes_).index("low")
    points = np.column_stack([display.grids[0], *np.zeros((2, 50))])
    mean = several.effects(points, [0], X)[0]
    assert_allclose(display.means[0], mean[:, 0, place])
    assert display.ylabel == "effect on f, low"
    with pytest.raises(ValueError, match=r"target must be one of .*'middle'.*got None"):
        EffectsDisplay.from_estimator(several, X)
    two = SparseGPRegressor(optimizer=None, normalize_y=True, **options)
    two.fit(X, np.column_stack([y, 2.0 * y]))
    first, second = (EffectsDisplay.from_estimator(two, X, target=k).means[0] for k in (0, 1))
    assert_allclose(second, 2.0 * first, rtol=1e-6)
    stochastic = StochasticSparseGPRegressor(n_epochs=2, batch_size=20, **options).fit(X, y)
    assert EffectsDisplay.from_estimator(stochastic, X).names == ["x0", "x1", "x2"]


def test_axes_and_settings_of_the_user(model, data):
    X, _ = data
    figure, axes = plt.subplots(1, 3)
    display = EffectsDisplay.from_estimator(
        model,
        X,
        ax=axes,
        line_kw={"c": "black"},
        band_kw={"color": "red", "alpha": 1.0},
        decile_kw={"ms": 20.0},
        legend_kw={"loc": "best"},
    )
    assert display.figure_ is figure
    assert_array_equal(display.axes_, axes)
    assert {line.get_color() for line in display.lines_} == {"black"}
    assert all(band.get_alpha() == 1.0 for band in display.bands_)
    assert display.decile_lines_[0].get_markersize() == 20.0
    again = display.plot(axes[::-1])
    assert_array_equal(again.axes_, axes[::-1])
    with pytest.raises(ValueError, match="ax must hold 3 Axes, got 2"):
        display.plot(axes[:2])


# Tables


@pytest.fixture(scope="module")
def table():
    """A table with a constant column, one of text, and numbers on different scales."""
    rng = np.random.RandomState(1)
    X = pd.DataFrame(
        {
            "same": 7.0,
            "town": rng.choice(["Rome", "Oslo", "Bern"], 60, p=[0.5, 0.3, 0.2]),
            "age": rng.uniform(20.0, 80.0, 60),
            "rooms": rng.randint(1, 5, 60),
        }
    )
    return X, np.sin(X["age"] / 10.0) + (X["town"] == "Oslo") + 0.1 * rng.randn(60)


def tabular(table, search=False):
    model = tabular_pipeline(SparseGPRegressor(n_inducing=20, optimizer=None), search=False)
    if search:
        model = BoundSearch(model, {"model__noise": ["homoscedastic"]})
    return model.fit(*table)


def average(model, X, column, value):
    """Return the average effect of a value, from predictions of f of all rows."""
    predict = model.predict
    return float(np.mean(predict(X.assign(**{column: value})) - predict(X)))


@pytest.mark.parametrize("kind", ["pandas", "polars", "objects", "categories"])
def test_effects_of_a_table_are_averages_of_predictions(kind, table):
    frame, y = table
    X, names = frame, ["town", "age", "rooms"]
    model = tabular((frame, y))
    expected = {
        "town": [average(model, frame, "town", town) for town in ("Rome", "Oslo", "Bern")],
        "age": [average(model, frame, "age", age) for age in (frame["age"].min(), 30.0)],
        "rooms": [average(model, frame, "rooms", rooms) for rooms in (1, 2, 3, 4)],
    }
    if kind == "polars":
        X = pytest.importorskip("polars").from_pandas(X)
    if kind == "objects":
        X, names = X.to_numpy(), ["x1", "x2", "x3"]
    if kind == "categories":
        X = X.astype({"town": "category", "rooms": "Int64"})
    drawn = EffectsDisplay.from_estimator(tabular((X, y)), X, grid_resolution=11)
    assert drawn.names == names
    assert_array_equal(drawn.grids[0], ["Rome", "Oslo", "Bern"])
    assert_array_equal(drawn.grids[2], [1.0, 2.0, 3.0, 4.0])
    for name, means in zip(expected, drawn.means, strict=True):
        n = 1 if name == "age" else len(means)
        assert_allclose(means[:n], expected[name][:n], rtol=1e-6, atol=1e-9)
    labels = [label.get_text() for label in drawn.axes_[0].get_xticklabels()]
    assert labels == ["Rome", "Oslo", "Bern"]
    assert drawn.deciles[0] is None
    assert_allclose(drawn.deciles[1][4], np.median(frame["age"]))


def test_curves_for_the_values_of_another_column_are_averages_of_predictions(table):
    X, _ = table
    model = tabular(table)
    drawn = EffectsDisplay.from_estimator(model, X, by="town", grid_resolution=11)
    assert (drawn.by, drawn.levels, drawn.names) == (
        "town",
        ["Rome", "Oslo", "Bern"],
        ["age", "rooms"],
    )
    assert [means.shape for means in drawn.means] == [(3, 11), (3, 4)]
    for town, means in zip(drawn.levels, drawn.means[1], strict=True):
        in_town = X.assign(town=town)
        expected = [
            np.mean(model.predict(in_town.assign(rooms=rooms)) - model.predict(X))
            for rooms in (1, 2, 3, 4)
        ]
        assert_allclose(means, expected, rtol=1e-6, atol=1e-9)
    assert [line.get_label() for line in drawn.lines_[:3]] == [
        "town Rome",
        "town Oslo",
        "town Bern",
    ]
    texts = [text.get_text() for text in drawn.legend_.get_texts()]
    assert texts == ["95 % band", "town Rome", "town Oslo", "town Bern", "deciles"]
    # Points of the three towns are side by side.
    places = np.array([line.get_xdata() for line in drawn.lines_[3:]])
    assert (np.diff(places, axis=0) > 0.0).all()
    assert_allclose(places[1], [1.0, 2.0, 3.0, 4.0])


# In some of the rows that are drawn most ages are beyond those of the fit.
@pytest.mark.filterwarnings("ignore:most of these rows have values beyond those of all rows of fit")
def test_of_a_column_of_many_numbers_there_is_a_curve_for_three_deciles(table):
    X, _ = table
    drawn = EffectsDisplay.from_estimator(tabular(table), X, features=["town", "age"], by="age")
    expected = np.quantile(X["age"], [0.1, 0.5, 0.9], method="nearest")
    assert drawn.names == ["town"]
    assert drawn.levels == [f"{age:.3g}" for age in expected]
    zeros = X.assign(age=X["age"].where(np.arange(60) % 3 == 0, 0.0) + 1e6)
    drawn = EffectsDisplay.from_estimator(tabular(table), zeros, features=["town"], by="age")
    assert len(drawn.levels) == len(set(drawn.levels)) == 2
    with pytest.raises(ValueError, match="there must be a column of X beside 'age'"):
        EffectsDisplay.from_estimator(tabular(table), X, features=["age"], by="age")
    for by in ("street", 4, True):
        with pytest.raises(ValueError, match=f"by must be the number or the name .* got {by!r}"):
            EffectsDisplay.from_estimator(tabular(table), X, by=by)


def test_columns_of_a_table_are_chosen_by_number_or_name(table):
    X, _ = table
    model = tabular(table)
    display = EffectsDisplay.from_estimator(model, X, features=[3, "age", "town", "same"])
    assert display.names == ["rooms", "age", "town", "same"]
    assert_allclose(display.means[3], 0.0, atol=1e-12)
    with pytest.raises(ValueError, match=r"features must be .*'town'"):
        EffectsDisplay.from_estimator(model, X, features=["street"])


def test_missing_values_of_a_table(table):
    X, y = table
    X = X.assign(age=X["age"].where(np.arange(60) > 5), town=X["town"].where(np.arange(60) < 50))
    display = EffectsDisplay.from_estimator(tabular((X, y)), X, features=["age", "town"])
    assert_allclose(display.grids[0][[0, -1]], [X["age"].min(), X["age"].max()])
    assert_allclose(display.deciles[0][4], X["age"].median())
    assert set(display.grids[1]) == {"Rome", "Oslo", "Bern"}
    assert all(np.isfinite(mean).all() for mean in display.means)


def test_of_many_categories_the_most_frequent_are_drawn(rng):
    town = np.repeat([f"a town with a long name, {k}" for k in range(12)], np.arange(2, 14))
    X = pd.DataFrame({"town": town, "age": rng.uniform(20.0, 80.0, len(town))})
    display = EffectsDisplay.from_estimator(tabular((X, rng.randn(len(town)))), X)
    assert list(display.grids[0]) == [f"a town with a long name, {k}" for k in range(11, 1, -1)]
    label = display.axes_[0].get_xticklabels()[0]
    assert label.get_text() == "a town with a long name, 11"
    assert label.get_rotation() == 30.0


def test_the_best_estimator_of_a_search_is_drawn(table):
    X, _ = table
    searched = EffectsDisplay.from_estimator(tabular(table, search=True), X, features=["age"])
    alone = EffectsDisplay.from_estimator(tabular(table), X, features=["age"])
    assert_allclose(searched.means[0], alone.means[0])
    with pytest.raises(NotFittedError, match="BoundSearch"):
        EffectsDisplay.from_estimator(BoundSearch(tabular(table), {}), X)


@pytest.mark.parametrize(
    "step",
    [
        PCA(2),
        PolynomialFeatures(interaction_only=True, include_bias=False),
        make_column_transformer((StandardScaler(), ["weight"]), (NormalScores(), ["dose"])),
    ],
    ids=["components", "products", "two-of-three"],
)
def test_effects_are_those_of_the_columns_before_the_first_step(step, data):
    X, y = data
    gp = SparseGPRegressor(n_inducing=10, optimizer=None)
    model = make_pipeline(clone(step), gp).fit(X, y)
    display = EffectsDisplay.from_estimator(model, X)
    assert display.names == list(X.columns)
    for name, grid, means in zip(display.names, display.grids, display.means, strict=True):
        assert_allclose(means[0], average(model, X, name, grid[0]), rtol=1e-6, atol=1e-9)


# Models


def test_bands_cover_the_effects_of_a_model_of_any_kernel(rng):
    """A kernel of all columns takes over effects that have kernels of their own, too."""
    X = rng.randn(600, 4)
    slopes = np.array([1.2, 0.8, -0.6, 0.0])
    y = X @ slopes + 0.5 * rng.randn(600)
    for main_effects in (False, True):
        model = SparseGPRegressor(main_effects=main_effects).fit(X, y)
        display = EffectsDisplay.from_estimator(model, X, grid_resolution=9)
        for k, slope in enumerate(slopes):
            grid, mean, std = display.grids[k], display.means[k], display.stds[k]
            inner = (grid > -1.7) & (grid < 1.7)
            error = mean - slope * (grid - X[:, k].mean())
            assert np.polyfit(grid[inner], mean[inner], 1)[0] == pytest.approx(slope, abs=0.08)
            assert (np.abs(error) < 4.0 * std)[inner].all()


def test_rows_are_chosen_so_that_the_column_keeps_its_distribution(rng):
    X = np.sort(rng.standard_gamma(0.5, (3000, 2)), axis=0)
    model = SparseGPRegressor(MainEffects(1.0, 3.0), n_inducing=20, optimizer=None)
    display = EffectsDisplay.from_estimator(model.fit(X, X.sum(axis=1)), X)
    points = np.column_stack([display.grids[0]] * 2)
    mean, std = model.effects(points, [0], reference=X)
    assert_allclose(display.means[0], mean[:, 0], atol=0.02 * np.ptp(mean))
    assert_allclose(display.stds[0], std[:, 0], rtol=0.2)


def test_rows_of_other_columns_are_refused(model, data):
    X, _ = data
    with pytest.raises(ValueError, match="feature"):
        EffectsDisplay.from_estimator(model, X[["dose", "group"]])


def test_rows_with_a_period_are_not_all_of_one_phase(rng):
    """Every 24th row has the same hour; the two groups are the halves of the rows."""
    hour, group = np.arange(4800) % 24, np.arange(4800) // 2400
    X = np.column_stack([hour, group]).astype(float)
    y = np.cos(2.0 * np.pi * hour / 24.0) * (group - 0.5) + 0.1 * rng.randn(4800)
    model = SparseGPRegressor(main_effects=False, n_inducing=60).fit(X, y)
    display = EffectsDisplay.from_estimator(model, X, features=[1])
    assert_allclose(display.means[0], 0.0, atol=0.1)


def test_a_column_that_matters_at_high_levels_only_is_among_the_six(rng):
    level = rng.randint(0, 10, 400)
    X = np.column_stack([level, rng.randn(400, 7)]).astype(float)
    y = 2.0 * (level >= 5) + X[:, 1:] @ np.full(7, 0.05) + 0.1 * rng.randn(400)
    model = SparseGPRegressor(n_inducing=50).fit(X, y)
    assert "x0" in EffectsDisplay.from_estimator(model, X).names


def test_categories_with_an_order_keep_it(rng):
    size = pd.Categorical(
        rng.choice(["low", "mid", "high"], 80, p=[0.2, 0.6, 0.2]),
        categories=["low", "mid", "high", "none"],
        ordered=True,
    )
    X = pd.DataFrame({"size": size, "age": rng.randn(80)})
    display = EffectsDisplay.from_estimator(tabular((X, rng.randn(80))), X, features=["size"])
    assert list(display.grids[0]) == ["low", "mid", "high"]


def test_columns_of_other_kinds_may_be_beside(rng):
    when = pd.date_range("2026-01-01", periods=40)
    X = pd.DataFrame({"when": when, "age": rng.randn(40), "none": np.nan})
    keep = make_column_transformer((StandardScaler(), ["age"]))
    gp = SparseGPRegressor(n_inducing=10, optimizer=None)
    model = make_pipeline(keep, gp).fit(X, X["age"])
    assert EffectsDisplay.from_estimator(model, X).names == ["age"]
    for name in ("when", "none"):
        with pytest.raises(ValueError, match=f"column '{name}' of X, which holds no numbers or"):
            EffectsDisplay.from_estimator(model, X, features=[name])


def test_rows_that_are_all_equal_are_refused(model, data):
    X, _ = data
    with pytest.raises(ValueError, match="there must be a column of X that varies"):
        EffectsDisplay.from_estimator(model, X[:1])


def test_beside_another_column_there_are_six_panels_still(rng):
    X = rng.uniform(-1.0, 1.0, (60, 8))
    model = SparseGPRegressor(n_inducing=20, optimizer=None, main_effects=False).fit(
        X, X.sum(axis=1)
    )
    drawn = EffectsDisplay.from_estimator(model, X, by=0, grid_resolution=3)
    assert len(drawn.names) == 6
    assert "x0" not in drawn.names
