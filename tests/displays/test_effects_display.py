"""The picture of the effects of single columns, against what the estimators say of them."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler

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


def test_the_grid_of_whole_numbers_may_have_others(rng):
    X = pd.DataFrame({"a": rng.randint(0, 30, 60), "b": rng.randint(0, 3, 60)})
    model = SparseGPRegressor(MainEffects(), n_inducing=10, optimizer=None)
    model.fit(X, np.sin(X["a"]))
    display = EffectsDisplay.from_estimator(model, X)
    points = pd.DataFrame({"a": np.linspace(X["a"].min(), X["a"].max(), 100), "b": 0.0})
    assert_allclose(display.means[0], model.effects(points, ["a"], X)[0][:, 0])


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
    points = np.column_stack([display.grids[0], *np.zeros((2, 100))])
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


# Pipelines that do not keep the columns of X


@pytest.fixture(scope="module")
def table():
    """A table with a constant column, one of text, and numbers on different scales."""
    rng = np.random.RandomState(1)
    X = pd.DataFrame(
        {
            "same": 7.0,
            "town": rng.choice(["Rome", "Oslo", "Bern"], 60),
            "age": rng.uniform(20.0, 80.0, 60),
            "rooms": rng.randint(1, 5, 60),
        }
    )
    return X, np.sin(X["age"] / 10.0) + (X["town"] == "Oslo") + 0.1 * rng.randn(60)


def tabular(table, search=False):
    gp = SparseGPRegressor(MainEffects(), n_inducing=20, optimizer=None)
    model = tabular_pipeline(gp, search=False)
    if search:
        model = BoundSearch(model, {"model__noise": ["homoscedastic"]})
    return model.fit(*table)


TOWNS = [f"categories__town_{town}" for town in ("Bern", "Oslo", "Rome")]


@pytest.mark.parametrize("kind", ["pandas", "polars", "objects"])
def test_effects_of_a_table_are_drawn_in_its_units_or_by_level(kind, table):
    X, y = table
    age, rooms, towns = X["age"].to_numpy(), X["rooms"].to_numpy(), TOWNS
    names = ["age", "rooms"]
    if kind == "polars":
        X = pytest.importorskip("polars").from_pandas(X)
    if kind == "objects":
        X, names, towns = X.to_numpy(), ["x2", "x3"], [name.replace("town", "x1") for name in TOWNS]
    model = tabular((X, y))
    display = EffectsDisplay.from_estimator(model, X, grid_resolution=11)
    assert display.names == names + towns
    assert_allclose(display.grids[0], np.linspace(age.min(), age.max(), 11))
    assert_array_equal(display.grids[1], [1.0, 2.0, 3.0, 4.0])
    for grid in display.grids[2:]:
        assert_array_equal(grid, [0.0, 1.0])
    # The last column tells that a town is known.
    points = np.zeros((11, 6))
    points[:, 0] = (display.grids[0] - age.mean()) / age.std()
    points[:4, 1] = (display.grids[1] - rooms.mean()) / rooms.std()
    points[1, 3] = 1.0
    mean, std = model[-1].effects(points, None, model[:-1].transform(X))
    assert_allclose(display.means[0], mean[:, 0], rtol=1e-9)
    assert_allclose(display.means[1], mean[:4, 1], rtol=1e-9)
    assert_allclose(display.means[3], mean[:2, 3], rtol=1e-9)
    assert_allclose(display.stds[3], std[:2, 3], rtol=1e-9)
    assert_allclose(display.deciles[0][4], np.median(age))


def test_columns_of_a_table_are_chosen_by_number_or_name(table):
    X, _ = table
    model = tabular(table)
    display = EffectsDisplay.from_estimator(model, X, features=[3, "age", TOWNS[1]])
    assert display.names == ["rooms", "age", TOWNS[1]]
    for feature in ("town", "same", 1):
        with pytest.raises(ValueError, match=rf"'(town|same)'.*names of transformed.*{TOWNS[0]}"):
            EffectsDisplay.from_estimator(model, X, features=[feature])
    with pytest.raises(ValueError, match=r"features must be .*'town'.*'categories__town_Bern'"):
        EffectsDisplay.from_estimator(model, X, features=["street"])


def test_missing_values_of_a_table(table):
    X, y = table
    X = X.assign(age=X["age"].where(np.arange(60) > 5), town=X["town"].where(np.arange(60) < 50))
    names = ["age", "numbers__missingindicator_age", "categories__town_None"]
    display = EffectsDisplay.from_estimator(tabular((X, y)), X, features=names)
    assert display.names == names
    assert_allclose(display.grids[0][[0, -1]], [X["age"].min(), X["age"].max()])
    assert_allclose(display.deciles[0][4], X["age"].median())
    for grid, n_missing, effect in zip(display.grids[1:], (6, 10), display.means[1:], strict=True):
        assert_allclose(effect @ [60 - n_missing, n_missing], 0.0, atol=1e-9)
        assert len(grid) == 2


def test_the_best_estimator_of_a_search_is_drawn(table):
    X, _ = table
    searched = EffectsDisplay.from_estimator(tabular(table, search=True), X, features=["age"])
    alone = EffectsDisplay.from_estimator(tabular(table), X, features=["age"])
    assert_allclose(searched.means[0], alone.means[0])
    with pytest.raises(NotFittedError, match="BoundSearch"):
        EffectsDisplay.from_estimator(BoundSearch(tabular(table), {}), X)


def test_steps_may_reorder_columns(data):
    X, y = data
    scale = make_column_transformer((StandardScaler(), ["weight"]), (NormalScores(), ["dose"]))
    gp = SparseGPRegressor(MainEffects(), n_inducing=10, optimizer=None)
    model = make_pipeline(scale, gp).fit(X, y)
    display = EffectsDisplay.from_estimator(model, X, features=["dose"])
    assert display.names == ["dose"]
    points = np.zeros((100, 2))
    points[:, 1] = scale.named_transformers_["normalscores"].transform(
        pd.DataFrame({"dose": display.grids[0]})
    )[:, 0]
    mean, _ = gp.effects(points, [1], scale.transform(X))
    assert_allclose(display.means[0], mean[:, 0], rtol=1e-9)


COLUMNS, PRODUCTS = ["dose", "weight", "group"], ["dose weight", "dose group", "weight group"]


@pytest.mark.parametrize(
    ("step", "names"),
    [
        (PCA(2), ["pca0", "pca1"]),
        (
            PolynomialFeatures(interaction_only=True, include_bias=False),
            [f"{name} (transformed)" for name in COLUMNS] + PRODUCTS,
        ),
        (FunctionTransformer(lambda X: X[:, :2] @ np.ones((2, 2))), None),
    ],
    ids=["components", "products", "without-names"],
)
def test_mixtures_of_columns_are_drawn_as_the_model_sees_them(step, names, data):
    X, y = data
    gp = SparseGPRegressor(MainEffects(), n_inducing=10, optimizer=None)
    model = make_pipeline(StandardScaler(), step, gp).fit(X, y)
    display = EffectsDisplay.from_estimator(model, X)
    assert display.names == (names or ["transformed x0", "transformed x1"])
    transformed = model[:-1].transform(X)
    for column, (grid, drawn) in enumerate(zip(display.grids, display.means, strict=True)):
        values = transformed[:, column]
        assert_allclose(grid[[0, -1]], [values.min(), values.max()])
        points = np.zeros((len(grid), transformed.shape[1]))
        points[:, column] = grid
        assert_allclose(drawn, gp.effects(points, [column], transformed)[0][:, 0], rtol=1e-9)


def test_a_frame_names_the_columns_of_a_model_of_an_array(table):
    X, _ = table
    model = tabular(table)
    rows = pd.DataFrame(model[:-1].transform(X), columns=model[:-1].get_feature_names_out())
    names = [name for name in rows.columns if name != "categories__town_is_known"]
    assert EffectsDisplay.from_estimator(model[-1], rows).names == names


def test_a_kernel_without_effects_is_refused(data):
    X, y = data
    model = SparseGPRegressor(n_inducing=5, optimizer=None).fit(X, y)
    with pytest.raises(ValueError, match="MainEffects"):
        EffectsDisplay.from_estimator(model, X)
