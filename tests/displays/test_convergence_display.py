"""The picture of the bound on the way of a fit, against the history that it is made of."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import (
    BoundSearch,
    SparseGPClassifier,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPGeneralizedRegressor,
    StochasticSparseGPRegressor,
)
from sparsegpc.displays import ConvergenceDisplay

pytest.importorskip("matplotlib")

HISTORY = {
    "choice": np.array([0, 0, 1, 1, 2, 2, 2, 3]),
    "n_samples": np.array([10, 10, 20, 20, 40, 40, 40, 40]),
    "n_inducing": np.array([5, 5, 5, 5, 8, 8, 8, 8]),
    "lower_bound": np.array([-30.0, -20.0, -36.0, -34.0, -60.0, -56.0, -52.0, -50.0]),
    "seconds": np.array([0.5, 1.0, 2.0, 3.0, 5.0, 6.0, 7.0, 9.0]),
}


def drawn(line):
    """Return the points of a line between its gaps."""
    x, y = line.get_data()
    kept = ~np.isnan(y)
    return x[kept], y[kept]


def places(vertical_lines):
    return [segment[0, 0] for segment in vertical_lines.get_segments()]


def test_bounds_are_per_row_and_apart_for_subsets():
    display = ConvergenceDisplay(**HISTORY).plot()
    x, y = drawn(display.line_)
    assert x.tolist() == [5, 6, 7, 8]
    np.testing.assert_allclose(y, [-1.5, -1.4, -1.3, -1.25])
    x, y = drawn(display.subset_line_)
    assert x.tolist() == [1, 2, 3, 4]
    np.testing.assert_allclose(y, [-3.0, -2.0, -1.8, -1.7])
    assert [text.get_text() for text in display.legend_.get_texts()] == [
        "all 40 rows",
        "fewer rows: 10 to 20",
        "points chosen again",
    ]
    assert "nats per row" in display.ax_.get_ylabel()


def test_subsets_of_one_size_are_labelled_with_this_size():
    history = {name: values[2:] for name, values in HISTORY.items()}
    labels = [text.get_text() for text in ConvergenceDisplay(**history).plot().legend_.get_texts()]
    assert labels[:2] == ["all 40 rows", "20 rows"]


def test_lines_are_not_joined_across_a_choice_of_points():
    display = ConvergenceDisplay(**HISTORY).plot()
    x, y = display.line_.get_data()
    between = np.isnan(y) & (np.arange(len(y)) > 0)
    assert between[np.flatnonzero(x == 8)[0] - 1]
    assert not between[np.flatnonzero(x == 6)[0]]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [2.5, 4.5, 7.5]),
        ({"against": "seconds"}, [1.5, 4.0, 8.0]),
        ({"subsets": False}, [7.5]),
    ],
)
def test_vertical_lines_stand_where_points_were_chosen_again(settings, expected):
    display = ConvergenceDisplay(**HISTORY).plot(**settings)
    assert places(display.choice_lines_) == expected
    labels = [text.get_text() for text in display.legend_.get_texts()]
    assert "points chosen again" in labels


def test_time_runs_along_the_axis_if_asked_for():
    display = ConvergenceDisplay(**HISTORY).plot(against="seconds")
    assert drawn(display.line_)[0].tolist() == [5.0, 6.0, 7.0, 9.0]
    assert display.ax_.get_xlabel().endswith(", s")


def test_subsets_may_be_left_out():
    display = ConvergenceDisplay(**HISTORY).plot(subsets=False)
    assert display.subset_line_ is None
    assert [text.get_text() for text in display.legend_.get_texts()] == [
        "all 40 rows",
        "points chosen again",
    ]


def test_a_legend_does_not_tell_of_choices_that_were_not_made():
    history = {name: values[4:7] for name, values in HISTORY.items()}
    display = ConvergenceDisplay(**history).plot()
    assert places(display.choice_lines_) == []
    assert [text.get_text() for text in display.legend_.get_texts()] == ["all 40 rows"]


def test_a_few_low_values_do_not_take_the_axis():
    bounds = np.r_[-1e6, np.linspace(-20.0, -10.0, 19)]
    history = {name: np.full(20, 10) for name in ("n_samples", "n_inducing")}
    display = ConvergenceDisplay(
        **history, choice=np.zeros(20, int), lower_bound=bounds, seconds=np.arange(20.0)
    ).plot()
    low, high = display.ax_.get_ylim()
    assert -2.0 < low < -1.8
    assert -1.0 < high < -0.9


def test_all_values_are_seen_where_none_is_far_below():
    display = ConvergenceDisplay(**HISTORY).plot()
    low, high = display.ax_.get_ylim()
    assert low < -3.0
    assert high > -1.25


def test_two_fits_in_one_picture_are_both_seen():
    first = ConvergenceDisplay(**HISTORY).plot(line_kw={"color": "black"})
    lower = {**HISTORY, "lower_bound": 3.0 * HISTORY["lower_bound"]}
    second = ConvergenceDisplay(**lower).plot(first.ax_)
    assert second.ax_ is first.ax_
    assert second.figure_ is first.figure_
    low, high = second.ax_.get_ylim()
    assert low < -9.0
    assert high > -1.25


def test_settings_take_the_place_of_defaults_also_by_their_abbreviations():
    display = ConvergenceDisplay(**HISTORY).plot(
        line_kw={"c": "black", "lw": 3.0},
        subset_kw={"marker": "x"},
        choice_kw={"ls": "dotted", "color": "red"},
        legend_kw={"loc": "upper left", "title": "a fit"},
    )
    assert display.line_.get_color() == "black"
    assert display.line_.get_linewidth() == 3.0
    assert display.subset_line_.get_marker() == "x"
    np.testing.assert_allclose(display.choice_lines_.get_color()[0], [1.0, 0.0, 0.0, 1.0])
    assert display.legend_.get_title().get_text() == "a fit"


@pytest.mark.parametrize(
    "estimator", [SparseGPClassifier, SparseGPRegressor, SparseGPGeneralizedRegressor]
)
def test_a_fit_ends_at_its_bound(estimator, rng):
    X = rng.uniform(-2.0, 2.0, (60, 1))
    y = (np.sin(3.0 * X[:, 0]) > 0.0).astype(float)
    model = estimator(n_inducing=10).fit(X, y)
    display = ConvergenceDisplay.from_estimator(model)
    x, values = drawn(display.line_)
    assert len(x) == len(model.history_["choice"])
    np.testing.assert_allclose(values[-1], model.lower_bound_ / 60, rtol=1e-10)
    n_choices = len(np.unique(model.history_["choice"]))
    assert len(places(display.choice_lines_)) == n_choices - 1


@pytest.mark.parametrize(
    "estimator",
    [
        StochasticSparseGPClassifier,
        StochasticSparseGPRegressor,
        StochasticSparseGPGeneralizedRegressor,
    ],
)
def test_learning_from_minibatches_is_drawn_too(estimator, rng):
    X = rng.uniform(-2.0, 2.0, (60, 1))
    y = (np.sin(3.0 * X[:, 0]) > 0.0).astype(float)
    model = estimator(n_inducing=10, batch_size=20, n_epochs=3).fit(X, y)
    display = ConvergenceDisplay.from_estimator(make_pipeline(StandardScaler(), model))
    np.testing.assert_allclose(drawn(display.line_)[1][-1], model.lower_bound_ / 60, rtol=1e-10)


def test_a_pipeline_is_about_its_last_step(rng):
    X, y = rng.randn(30, 2), rng.randn(30)
    model = make_pipeline(None, StandardScaler(), SparseGPRegressor(optimizer=None)).fit(X, y)
    display = ConvergenceDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.seconds, model[-1].history_["seconds"])


def test_a_search_is_about_its_best_estimator(rng):
    X, y = rng.randn(30, 2), rng.randn(30)
    search = BoundSearch(SparseGPRegressor(optimizer=None), {}).fit(X, y)
    display = ConvergenceDisplay.from_estimator(search)
    np.testing.assert_array_equal(display.seconds, search.best_estimator_.history_["seconds"])


def test_other_estimators_are_refused(rng):
    X, y = rng.randn(20, 1), np.arange(20) % 2
    with pytest.raises(TypeError, match=r"estimator must be a fitted .* got a LogisticRegression"):
        ConvergenceDisplay.from_estimator(LogisticRegression().fit(X, y))
    with pytest.raises(NotFittedError, match="SparseGPRegressor"):
        ConvergenceDisplay.from_estimator(make_pipeline(StandardScaler(), SparseGPRegressor()))


def test_a_model_for_each_class_is_drawn_one_by_one(rng):
    X, y = rng.randn(30, 1), np.arange(30) % 3
    model = SparseGPClassifier(likelihood="polya-gamma", optimizer=None).fit(X, y)
    with pytest.raises(ValueError, match=r"one for each of 3 classes: give estimator.estimators_"):
        ConvergenceDisplay.from_estimator(model)
    display = ConvergenceDisplay.from_estimator(model.estimators_[1])
    assert display.lower_bound[-1] == model.history_[1]["lower_bound"][-1]


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match=r"against must be one of .* got 'rows'"):
        ConvergenceDisplay(**HISTORY).plot(against="rows")
