"""The picture of a classifier of two columns, against its predictions."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_moons
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC

from sparsegpc import (
    BoundSearch,
    SparseGPClassifier,
    StochasticSparseGPClassifier,
    tabular_pipeline,
)
from sparsegpc.displays import InducingPointsDisplay

plt = pytest.importorskip("matplotlib.pyplot")

SMALL = {"grid_resolution": 12}


@pytest.fixture(scope="module")
def moons():
    return make_moons(100, noise=0.25, random_state=0)


@pytest.fixture(scope="module")
def model(moons):
    return SparseGPClassifier(n_inducing=12).fit(*moons)


def grid_of(display):
    return np.column_stack([display.xx0.ravel(), display.xx1.ravel()])


def texts(legend):
    return [text.get_text() for text in legend.get_texts()]


def test_shading_is_the_probability_of_the_second_class(model, moons):
    X, y = moons
    display = InducingPointsDisplay.from_estimator(model, X, y, **SMALL)
    assert display.xx0.shape == display.values.shape == (12, 12)
    expected = model.predict_proba(grid_of(display))[:, 1].reshape(12, 12)
    assert_allclose(display.values, expected)
    # scikit-learn's display of the same grid.
    theirs = DecisionBoundaryDisplay.from_estimator(
        model, grid_of(display), response_method="predict_proba", grid_resolution=12, eps=0.0
    )
    assert_allclose(theirs.response, display.values)


def test_the_grid_spans_all_rows_whatever_their_units(model, moons):
    X, y = moons
    display = InducingPointsDisplay.from_estimator(model, X, y, **SMALL)
    for axis, column, limits in (
        (display.xx0, X[:, 0], display.ax_.get_xlim()),
        (display.xx1, X[:, 1], display.ax_.get_ylim()),
    ):
        margin = 0.05 * np.ptp(column)
        assert_allclose(limits, (axis.min(), axis.max()))
        assert_allclose(limits, (column.min() - margin, column.max() + margin))


def test_the_boundary_is_where_both_classes_are_equally_probable(model, moons):
    X, y = moons
    display = InducingPointsDisplay.from_estimator(model, X, y, grid_resolution=80)
    points = np.concatenate([path.vertices for path in display.boundary_.get_paths()])
    assert_allclose(model.predict_proba(points)[:, 1], 0.5, atol=0.01)
    assert "decision boundary" in texts(display.legend_)


def test_without_a_boundary_none_is_drawn(model, moons):
    X, y = moons
    surest = X[model.predict_proba(X)[:, 1].argmax()]
    display = InducingPointsDisplay.from_estimator(model, surest + 0.01 * X, y, **SMALL)
    assert display.boundary_ is None
    assert "decision boundary" not in texts(display.legend_)


def test_polya_gamma_variance_is_its_formula(model, moons):
    display = InducingPointsDisplay.from_estimator(model, *moons, response="pg_variance", **SMALL)
    mean, variance = model.latent_mean_and_variance(grid_of(display))
    c = np.sqrt(mean**2 + variance)
    assert_allclose(display.values.ravel(), 2.0 * c / np.tanh(c / 2.0), rtol=1e-12)
    assert (display.values >= 4.0).all()
    assert "Pólya-Gamma variance" in display.colorbar_.ax.get_ylabel()


def test_polya_gamma_variance_is_four_where_f_is_zero():
    from sparsegpc.displays._inducing_points import _uncertainty

    values = _uncertainty("pg_variance", np.zeros(2), np.array([0.0, 1e-20]))
    assert_allclose(values, 4.0, rtol=1e-12)


def test_standard_deviation_of_f(model, moons):
    display = InducingPointsDisplay.from_estimator(model, *moons, response="latent_std", **SMALL)
    _, variance = model.latent_mean_and_variance(grid_of(display))
    assert_allclose(display.values.ravel(), np.sqrt(variance))


def test_rows_and_points_are_drawn_where_they_are(model, moons):
    X, y = moons
    display = InducingPointsDisplay.from_estimator(model, X, y, **SMALL)
    for scatter, label in zip(display.scatter_, (0, 1), strict=True):
        assert_array_equal(scatter.get_offsets(), X[y == label])
    assert_array_equal(display.inducing_.get_offsets(), model.inducing_points_)
    assert {"class 0", "class 1", "12 inducing points"} <= set(texts(display.legend_))
    assert display.colorbar_.ax.get_ylabel() == "probability of class 1"


def test_a_frame_names_the_axes_and_labels_in_words_stand_by_themselves(moons):
    X = pd.DataFrame(moons[0], columns=["width", "height"])
    y = np.array(["no", "yes"])[moons[1]]
    model = make_pipeline(StandardScaler(), SparseGPClassifier(n_inducing=8)).fit(X, y)
    display = InducingPointsDisplay.from_estimator(model, X, pd.Series(y), **SMALL)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("width", "height")
    assert {"no", "yes"} <= set(texts(display.legend_))
    assert display.colorbar_.ax.get_ylabel() == "probability of yes"


def test_points_of_a_pipeline_are_mapped_back(moons):
    X, y = 1e3 * moons[0] + 5.0, moons[1]
    model = make_pipeline(
        StandardScaler(), "passthrough", PCA(), SparseGPClassifier(n_inducing=8, selector="hgv")
    )
    model.fit(X, y)
    display = InducingPointsDisplay.from_estimator(model, X, y, **SMALL)
    assert_allclose(display.inducing_points, X[model[-1].inducing_indices_])
    expected = model.predict_proba(grid_of(display))[:, 1]
    assert_allclose(display.values.ravel(), expected)


def test_a_pipeline_may_end_in_a_pipeline(moons):
    X, y = 1e3 * moons[0] + 5.0, moons[1]
    inner = make_pipeline(PCA(), SparseGPClassifier(n_inducing=8, optimizer=None))
    model = make_pipeline(StandardScaler(), inner).fit(X, y)
    display = InducingPointsDisplay.from_estimator(model, X, y, **SMALL)
    assert_allclose(display.inducing_points, X[inner[-1].inducing_indices_])
    expected = model.predict_proba(grid_of(display))[:, 1]
    assert_allclose(display.values.ravel(), expected)


def test_a_step_without_a_way_back_is_named(moons):
    model = make_pipeline(
        StandardScaler(), PolynomialFeatures(), SparseGPClassifier(n_inducing=8, optimizer=None)
    ).fit(*moons)
    with pytest.raises(ValueError, match=r"step 'polynomialfeatures', a PolynomialFeatures, has"):
        InducingPointsDisplay.from_estimator(model, *moons)


def test_the_model_of_a_table_of_categories_is_drawn_in_its_own_columns(moons):
    X, y = pd.DataFrame(moons[0], columns=["a", "b"]), moons[1]
    X["b"] = np.where(X["b"] > 0.5, "high", "low")
    gp = SparseGPClassifier(n_inducing=8, optimizer=None)
    model = BoundSearch(tabular_pipeline(gp, search=False), {}).fit(X, y)
    with pytest.raises(ValueError, match=r"step 'table', a TableTransformer, .*\(pipeline\[-1\]"):
        InducingPointsDisplay.from_estimator(model, X, y)
    one_column = OneHotEncoder(drop="if_binary", sparse_output=False)
    pipeline = model.best_estimator_.set_params(table__categories__encode=one_column)
    pipeline.fit(X, y)
    rows = pipeline[:-1].transform(X)
    display = InducingPointsDisplay.from_estimator(pipeline[-1], rows, y, **SMALL)
    assert_array_equal(display.X, rows)


def test_learning_from_minibatches_is_drawn_too(moons):
    model = StochasticSparseGPClassifier(n_inducing=8, n_epochs=2, batch_size=50).fit(*moons)
    display = InducingPointsDisplay.from_estimator(model, *moons, response="latent_std", **SMALL)
    assert_array_equal(display.inducing_points, model.inducing_points_)


@pytest.mark.parametrize("likelihood", ["softmax", "logistic-softmax", "dirichlet"])
def test_likelihoods_with_a_function_for_each_class_have_probabilities_only(likelihood, moons):
    model = SparseGPClassifier(likelihood=likelihood, n_inducing=8, optimizer=None).fit(*moons)
    display = InducingPointsDisplay.from_estimator(model, *moons, **SMALL)
    assert_allclose(display.values.ravel(), model.predict_proba(grid_of(display))[:, 1])
    for response in ("pg_variance", "latent_std"):
        with pytest.raises(ValueError, match=f"response='{response}' needs a likelihood .* got"):
            InducingPointsDisplay.from_estimator(model, *moons, response=response)


def test_the_f_of_two_ordered_classes_is_drawn_like_that_of_two_others(moons):
    shadings = []
    for likelihood in ("ordinal-logit", "bernoulli-logit"):
        model = SparseGPClassifier(likelihood=likelihood, n_inducing=8, optimizer=None, tol=1e-9)
        for response in ("pg_variance", "latent_std"):
            display = InducingPointsDisplay.from_estimator(
                model.fit(*moons), *moons, response=response, **SMALL
            )
            shadings.append(display.values)
    assert_allclose(shadings[:2], shadings[2:], rtol=1e-4)


def test_the_f_of_a_probit_is_no_log_odds(moons):
    model = SparseGPClassifier(likelihood="bernoulli-probit", optimizer=None).fit(*moons)
    InducingPointsDisplay.from_estimator(model, *moons, response="latent_std", **SMALL)
    with pytest.raises(ValueError, match=r"of which f is the log-odds.* got 'bernoulli-probit'"):
        InducingPointsDisplay.from_estimator(model, *moons, response="pg_variance")


def test_settings_take_the_place_of_defaults(model, moons):
    _, axes = plt.subplots(1, 2, figsize=(14, 5), layout="constrained")
    display = InducingPointsDisplay.from_estimator(
        model,
        *moons,
        ax=axes[1],
        surface_kw={"cmap": "cividis", "levels": 5},
        boundary_kw={"colors": "red", "linewidths": 3.0},
        scatter_kw={"c": "black", "s": 5},
        inducing_kw={"ec": "red"},
        colorbar_kw={"label": "p"},
        legend_kw={"ncols": 4},
        **SMALL,
    )
    assert display.ax_ is axes[1]
    assert display.surface_.get_cmap().name == "cividis"
    assert_allclose(display.boundary_.get_edgecolor()[0], [1, 0, 0, 1])
    assert_allclose(display.scatter_[1].get_facecolor(), [[0, 0, 0, 1]])
    assert display.scatter_[0].get_sizes().tolist() == [5]
    assert_allclose(display.inducing_.get_edgecolor(), [[1, 0, 0, 1]])
    assert display.colorbar_.ax.get_ylabel() == "p"
    display.plot(axes[0], surface_kw={"colors": ["white", "black"], "levels": [0, 0.5, 1]})
    assert display.figure_ is axes[0].figure
    display.figure_.canvas.draw()


def test_wrong_input_is_refused(model, moons):
    X, y = moons
    draw = InducingPointsDisplay.from_estimator
    with pytest.raises(ValueError, match=r"response must be one of .* got 'variance'"):
        draw(model, X, y, response="variance")
    with pytest.raises(ValueError, match=r"y must hold labels of the classes \[0 1\] .* got \[2\]"):
        draw(model, X, np.where(y == 1, 2, y))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        draw(model, X, y[1:])
    with pytest.raises(ValueError, match="X must have 2 columns, got 3"):
        draw(SparseGPClassifier(optimizer=None).fit(X[:, [0, 1, 1]], y), X[:, [0, 1, 1]], y)
    with pytest.raises(ValueError, match="two classes, but estimator has 3"):
        draw(SparseGPClassifier(optimizer=None).fit(X, np.arange(100) % 3), X, y)
    with pytest.raises(TypeError, match="got a SVC"):
        draw(SVC().fit(X, y), X, y)
    with pytest.raises(NotFittedError):
        draw(SparseGPClassifier(), X, y)
