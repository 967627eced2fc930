"""What docstrings of displays promise is what drawing leaves on them."""

import inspect
import re

import numpy as np
import pytest
from sklearn.datasets import make_moons

from sparsegpc import SparseGPClassifier, SparseGPRegressor, displays
from sparsegpc.kernels import MainEffects

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(scope="module")
def drawn():
    X, y = make_moons(40, noise=0.25, random_state=0)
    classifier = SparseGPClassifier(n_inducing=6, optimizer=None).fit(X, y)
    regressor = SparseGPRegressor(n_inducing=6, optimizer=None).fit(X[:, :1], X[:, 1])
    effects = SparseGPRegressor(MainEffects(), n_inducing=6, optimizer=None).fit(X, X[:, 1])
    found = [
        displays.EffectsDisplay.from_estimator(effects, X),
        displays.ConvergenceDisplay.from_estimator(classifier),
        displays.InducingPointsDisplay.from_estimator(classifier, X, y, grid_resolution=9),
        displays.RegressionDisplay.from_estimator(regressor, X[:, :1], X[:, 1]),
        displays.SparsityDisplay.from_estimator(classifier, X, y),
    ]
    return {type(display).__name__: display for display in found}


@pytest.mark.parametrize("name", displays.__all__)
def test_attributes_are_those_that_are_documented(name, drawn):
    text = inspect.cleandoc(type(drawn[name]).__doc__)
    section = text.partition("Attributes\n----------\n")[2].partition("\n\nSee Also")[0]
    documented = set(re.findall(r"^(\w+) : ", section, re.MULTILINE))
    assert documented == {key for key in vars(drawn[name]) if key.endswith("_")}


@pytest.mark.parametrize("name", displays.__all__)
def test_parameters_are_stored_and_enough_to_draw_again(name, drawn):
    display = drawn[name]
    names = list(inspect.signature(type(display)).parameters)
    assert {key for key in vars(display) if not key.endswith("_")} == set(names)
    again = type(display)(**{key: getattr(display, key) for key in names}).plot()
    for key in names:
        np.testing.assert_array_equal(getattr(again, key), getattr(display, key))
    again.figure_.canvas.draw()


@pytest.mark.parametrize("name", displays.__all__)
def test_a_new_figure_is_made_only_where_none_is_given(name, drawn):
    before = plt.get_fignums()
    display = drawn[name].plot()
    assert len(plt.get_fignums()) == len(before) + 1
    display.plot(getattr(display, "axes_", None) if "axes_" in vars(display) else display.ax_)
    assert len(plt.get_fignums()) == len(before) + 1


@pytest.mark.parametrize("name", displays.__all__)
def test_the_legend_stands_outside_of_the_axes(name, drawn):
    display = drawn[name].plot()
    display.figure_.canvas.draw()
    axes = display.legend_.axes
    box = display.legend_.get_window_extent()
    assert box.y1 <= axes.xaxis.get_tightbbox().y0
    assert box.y0 >= 0.0
    assert box.x0 >= 0.0
    assert box.x1 <= display.figure_.bbox.x1
