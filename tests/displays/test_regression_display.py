"""The picture of a regressor along one column, against its predictions."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm, weibull_min
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from sparsegpc import (
    BoundSearch,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
    StochasticSparseGPGeneralizedRegressor,
    StochasticSparseGPRegressor,
    tabular_pipeline,
)
from sparsegpc.displays import RegressionDisplay

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(scope="module")
def waves():
    rng = np.random.RandomState(0)
    X = rng.uniform(-3.0, 3.0, (80, 1))
    return X, np.sin(2.0 * X[:, 0]) + np.exp(0.5 * X[:, 0] - 2.0) * rng.randn(80)


@pytest.fixture(scope="module")
def model(waves):
    return SparseGPRegressor(n_inducing=15).fit(*waves)


def ends(band, grid):
    """Return the lower and the upper end of a band, from its outline."""
    vertices = band.get_paths()[0].vertices
    values = [vertices[np.isclose(vertices[:, 0], x), 1] for x in grid]
    return np.array([[v.min(), v.max()] for v in values]).T


@pytest.mark.parametrize(
    ("noise", "coverage"),
    [("homoscedastic", 0.95), ("polynomial", 0.5), ("gp", 0.95), ("student-t", 0.5)],
)
def test_bands_are_central_intervals(noise, coverage, waves):
    model = SparseGPRegressor(noise=noise, n_inducing=10, max_iter=10, tol=1e-3).fit(*waves)
    display = RegressionDisplay.from_estimator(model, *waves, coverage=coverage, grid_resolution=9)
    grid = display.grid[:, None]
    mean, f_variance = model.latent_mean_and_variance(grid)
    f_interval = norm.interval(coverage, mean, np.sqrt(f_variance))
    assert_allclose(display.line_.get_ydata(), mean)
    assert_allclose(ends(display.f_band_, display.grid), f_interval, rtol=1e-10)
    y_interval = model.predict_interval(grid, coverage)
    assert_allclose(ends(display.y_band_, display.grid), y_interval, rtol=1e-10)


def test_the_grid_spans_all_rows(model, waves):
    X, y = waves
    display = RegressionDisplay.from_estimator(model, X, y, grid_resolution=30)
    margin = 0.05 * np.ptp(X)
    assert_allclose(display.grid, np.linspace(X.min() - margin, X.max() + margin, 30))
    assert_allclose(display.ax_.get_xlim(), display.grid[[0, -1]])


def test_rows_and_points_are_drawn_where_they_are(model, waves):
    X, y = waves
    display = RegressionDisplay.from_estimator(model, X, y)
    assert_array_equal(display.scatter_.get_offsets(), np.column_stack([X[:, 0], y]))
    assert_array_equal(display.inducing_.get_xdata(), model.inducing_points_[:, 0])
    # The ticks stand at the bottom whatever the values of y.
    assert display.inducing_.get_transform() == display.ax_.get_xaxis_transform()
    texts = [text.get_text() for text in display.legend_.get_texts()]
    assert texts[:3] == ["95 % band of y", "95 % band of f", "mean"]
    assert f"{len(model.inducing_points_)} inducing points" in texts


def test_other_columns_are_held_at_their_medians(rng):
    X = rng.randn(60, 3) * [1.0, 10.0, 100.0]
    model = make_pipeline(StandardScaler(), SparseGPRegressor(n_inducing=20))
    model.fit(X, X[:, 0] + 0.1 * X[:, 1] + 0.1 * rng.randn(60))
    display = RegressionDisplay.from_estimator(model, X, X[:, 0], feature=1, grid_resolution=7)
    rows = np.tile(np.median(X, axis=0), (7, 1))
    rows[:, 1] = display.grid
    assert_allclose(display.mean, model.predict(rows))
    assert display.ax_.get_xlabel() == "x1"
    assert_allclose(display.inducing_points, X[model[-1].inducing_indices_, 1])
    reference = [0.5, np.pi, -3.0]
    display = RegressionDisplay.from_estimator(
        model, X, X[:, 0], feature=1, reference=reference, grid_resolution=7
    )
    rows[:, [0, 2]] = 0.5, -3.0
    assert_allclose(display.mean, model.predict(rows))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_frame_names_the_axes(frame, rng):
    X = frame({"age": rng.randn(40), "size": rng.randn(40)})
    y = pd.Series(rng.randn(40), name="price")
    model = make_pipeline(StandardScaler(), SparseGPRegressor(optimizer=None)).fit(X, y)
    display = RegressionDisplay.from_estimator(model, X, y, feature="size")
    assert display.ax_.get_xlabel() == "size"
    assert display.ax_.get_ylabel() == "price"
    assert_array_equal(display.x, np.asarray(X)[:, 1])
    # By its number it is the same.
    again = RegressionDisplay.from_estimator(model, X, y, feature=1)
    assert_array_equal(again.mean, display.mean)


def test_the_best_estimator_of_a_search_is_drawn(waves):
    X, y = waves
    model = make_pipeline(StandardScaler(), SparseGPRegressor(n_inducing=10, optimizer=None))
    search = BoundSearch(model, {"sparsegpregressor__kernel": ["rbf", "matern32"]}).fit(X, y)
    display = RegressionDisplay.from_estimator(search, X, y)
    assert_allclose(display.mean, search.predict(display.grid[:, None]))


def test_the_model_of_a_table_of_categories_is_drawn_in_its_own_columns(waves):
    X, y = waves
    table = pd.DataFrame({"x": X[:, 0], "side": np.where(X[:, 0] > 0.0, "right", "left")})
    model = tabular_pipeline(SparseGPRegressor(n_inducing=10, optimizer=None), search=False)
    model.fit(table, y)
    with pytest.raises(ValueError, match=r"step 'table', a TableTransformer, .*\(pipeline\[-1\]"):
        RegressionDisplay.from_estimator(model, table, y)
    display = RegressionDisplay.from_estimator(model[-1], model[:-1].transform(table), y, feature=0)
    assert_allclose(display.x, (X[:, 0] - X.mean()) / X.std())


def test_learning_from_minibatches_is_drawn_too(waves):
    model = StochasticSparseGPRegressor(n_inducing=8, n_epochs=2, batch_size=40).fit(*waves)
    display = RegressionDisplay.from_estimator(model, *waves)
    expected = model.predict_interval(display.grid[:, None], 0.7)
    assert_allclose(display.y_interval(0.7), expected)


@pytest.mark.parametrize(
    "kind", [SparseGPGeneralizedRegressor, StochasticSparseGPGeneralizedRegressor]
)
def test_the_bands_of_positive_targets_are_positive(kind, rng):
    X = rng.uniform(-2.0, 2.0, (60, 1))
    y = np.exp(2.0 * X[:, 0]) * rng.weibull(2.0, 60)
    model = kind(likelihood="weibull", n_inducing=10).fit(X, y)
    display = RegressionDisplay.from_estimator(model, X, y, coverage=0.9, grid_resolution=9)
    rows = display.grid[:, None]
    assert_allclose(display.line_.get_ydata(), model.predict(rows))
    lower, upper = ends(display.y_band_, display.grid)
    assert (lower > 0.0).all()
    assert_allclose([lower, upper], model.predict_interval(rows, 0.9), rtol=1e-10)
    # The mean of y at the quantiles of f.
    f_mean, f_variance = model.latent_mean_and_variance(rows)
    shape = model.likelihood_.shape
    expected = [
        weibull_min(shape, scale=np.exp(norm.ppf(level, f_mean, np.sqrt(f_variance)))).mean()
        for level in (0.05, 0.95)
    ]
    assert_allclose(ends(display.f_band_, display.grid), expected, rtol=1e-10)
    with pytest.raises(
        ValueError, match=r"noise_variance must be None for a .*SparseGPGeneralized"
    ):
        RegressionDisplay.from_estimator(model, X, y, noise_variance=0.1)


def test_noise_that_was_known_at_rows_only_has_no_band(waves):
    X, y = waves
    model = SparseGPRegressor(n_inducing=8, hyperparameters="best")
    model.fit(X, y, noise_variance=np.full(80, 0.05))
    display = RegressionDisplay.from_estimator(model, X, y)
    assert display.y_interval is None
    assert display.y_band_ is None
    assert "95 % band of y" not in [text.get_text() for text in display.legend_.get_texts()]
    display = RegressionDisplay.from_estimator(model, X, y, noise_variance=0.05)
    y_std = np.sqrt(model.latent_mean_and_variance(display.grid[:, None])[1] + 0.05)
    assert_allclose(display.y_interval(0.7), norm.interval(0.7, display.mean, y_std))


def test_bands_hold_the_share_of_targets_that_they_say(rng):
    X = rng.uniform(-3.0, 3.0, (400, 1))
    y = np.sin(X[:, 0]) + 0.3 * rng.randn(400)
    display = RegressionDisplay.from_estimator(
        SparseGPRegressor(n_inducing=15).fit(X, y), X, y, coverage=0.8
    )
    low, high = (
        np.interp(X[:, 0], display.grid, end) for end in ends(display.y_band_, display.grid)
    )
    assert 0.75 < ((low < y) & (y < high)).mean() < 0.85


def test_settings_take_the_place_of_defaults(model, waves):
    _, ax = plt.subplots()
    display = RegressionDisplay.from_estimator(
        model,
        *waves,
        ax=ax,
        line_kw={"c": "black", "ls": "--"},
        f_band_kw={"color": "red"},
        y_band_kw={"fc": "yellow", "alpha": 1.0, "label": "all"},
        scatter_kw={"c": waves[1], "cmap": "cividis"},
        inducing_kw={"ms": 20.0},
        legend_kw={"loc": "best"},
    )
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert display.line_.get_linestyle() == "--"
    assert_allclose(display.f_band_.get_facecolor()[0, :3], [1, 0, 0])
    assert_allclose(display.y_band_.get_facecolor(), [[1, 1, 0, 1]])
    assert_array_equal(display.scatter_.get_array(), waves[1])
    assert display.inducing_.get_markersize() == 20.0
    display.figure_.canvas.draw()
    again = display.plot(coverage=0.5)
    assert again is display
    assert display.ax_ is not ax


def test_wrong_input_is_refused(model, waves, rng):
    X, y = waves
    draw = RegressionDisplay.from_estimator
    for coverage in (0, 1.0, "95 %", np.nan):
        with pytest.raises(ValueError, match="coverage must be a number between 0 and 1, got"):
            draw(model, X, y, coverage=coverage)
    for feature in (1, -1, "age", True):
        with pytest.raises(ValueError, match=r"feature must be the number or the name .*\['x0'\]"):
            draw(model, X, y, feature=feature)
    with pytest.raises(ValueError, match=r"reference must have one value for each of the 1 "):
        draw(model, X, y, reference=[0.0, 1.0])
    with pytest.raises(ValueError, match=r"one target in one dimension, got y of shape \(80, 2\)"):
        draw(model, X, np.column_stack([y, y]))
    wide = SparseGPRegressor(optimizer=None).fit(rng.randn(20, 2), rng.randn(20, 2))
    with pytest.raises(ValueError, match="an estimator of 2: fit a model to one of them"):
        draw(wide, rng.randn(20, 2), rng.randn(20), feature=0)
    wide = SparseGPRegressor(optimizer=None).fit(rng.randn(20, 2), rng.randn(20))
    with pytest.raises(ValueError, match=r"feature is needed, because X has 2 columns.*'x0', 'x1'"):
        draw(wide, rng.randn(20, 2), rng.randn(20))
    with pytest.raises(TypeError, match="got a SVR"):
        draw(SVR().fit(X, y), X, y)
    with pytest.raises(NotFittedError):
        draw(SparseGPRegressor(), X, y)
