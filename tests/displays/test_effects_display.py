"""The picture of the effects of single columns, against what the estimators say of them."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import SparseGPClassifier, SparseGPRegressor, StochasticSparseGPRegressor
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


def test_a_pipeline_that_mixes_columns_is_refused(data):
    X, y = data
    kernel = MainEffects()
    for before in (PCA(), PCA(2)):
        model = make_pipeline(before, SparseGPRegressor(kernel, optimizer=None)).fit(X, y)
        with pytest.raises(ValueError, match="treat each column by itself"):
            EffectsDisplay.from_estimator(model, X, features=[0])


def test_a_kernel_without_effects_is_refused(data):
    X, y = data
    model = SparseGPRegressor(n_inducing=5, optimizer=None).fit(X, y)
    with pytest.raises(ValueError, match="MainEffects"):
        EffectsDisplay.from_estimator(model, X)
