"""What is kept and printed of a fit: its history, and lines of text."""

import re
from time import perf_counter

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from sparsegpc import SparseGPRegressor
from sparsegpc._core.learning import growing_subsets
from tests.estimators.messages.watched_fits import (
    COLUMNS,
    FROM_MINIBATCHES,
    QUICK,
    SINGLE,
    StopAt,
    fit_of,
    quiet,
    rows,
    targets,
    watched,
)

# History


@pytest.mark.parametrize("name", SINGLE)
def test_the_history_has_an_entry_for_each_evaluation(name):
    model, _ = watched(name)
    history = model.history_
    assert set(history) == COLUMNS
    assert all(column.shape == (model.n_evaluations_,) for column in history.values())
    kinds = {column: values.dtype.kind for column, values in history.items()}
    assert kinds == dict.fromkeys(COLUMNS, "i") | {"lower_bound": "f", "seconds": "f"}
    assert history["choice"][0] == 0
    assert set(np.diff(history["choice"])) == {0, 1}
    assert (history["n_samples"] == 60).all()
    # Starts are learned with a point at every row.
    if model.growth_ is None:
        # Growth may go on after the model that it returns.
        assert history["n_inducing"][-1] == len(model.inducing_points_)
    assert np.isfinite(history["lower_bound"]).all()
    assert (np.diff(history["seconds"]) >= 0.0).all()
    assert 0.0 < history["seconds"][0] < history["seconds"][-1]


@pytest.mark.parametrize("name", SINGLE)
def test_the_bound_after_each_choice_is_in_the_history(name):
    """Without the prior of noise parameters, which is in what is maximised."""
    model, _ = watched(name)
    told = [*model.lower_bounds_, *(step["lower_bound"] for step in model.growth_ or ())]
    assert set(told) <= set(model.history_["lower_bound"])


@quiet
def test_steps_are_counted_up_to_a_stop():
    free, _ = watched("moved points")
    model, y = fit_of("moved points", callback=StopAt(free.n_evaluations_ - 3))
    model.fit(rows(), y)
    assert free.n_iter_ - 3 <= model.n_iter_ <= free.n_iter_


@pytest.mark.parametrize("name", SINGLE)
def test_the_last_entry_is_the_model(name):
    model, _ = watched(name)
    if name == "grown":
        # Twice the points may have gained nothing.
        assert model.lower_bound_ in model.history_["lower_bound"]
    else:
        assert model.history_["lower_bound"][-1] == pytest.approx(model.lower_bound_, abs=1e-9)


@quiet
def test_evaluations_on_subsets_are_in_the_history(monkeypatch):
    monkeypatch.setattr(growing_subsets, "MANY_ROWS", 400)
    monkeypatch.setattr(growing_subsets, "SMALLEST_SUBSET", 100)
    X, y = rows(400), targets(400)
    model = SparseGPRegressor(normalize_y=True, **QUICK).fit(X, y)
    history = model.history_
    assert set(history["n_samples"]) == {200, 100, 400}
    # A bound is that of its own rows in units of the targets, so it shifts with their unit.
    scaled = SparseGPRegressor(normalize_y=True, **QUICK).fit(X, 1024.0 * y).history_
    shift = history["lower_bound"] - scaled["lower_bound"]
    assert_allclose(shift, history["n_samples"] * np.log(1024.0), rtol=1e-9)


def test_equal_rows_are_counted_once():
    model = SparseGPRegressor(optimizer=None, **QUICK)
    model.fit(np.repeat(rows(), 2, axis=0), np.repeat(targets(), 2))
    assert (model.history_["n_samples"] == 60).all()


@quiet
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_with_one_model_for_each_class_each_has_a_history(n_jobs):
    model, y = fit_of("one for each class", n_jobs=n_jobs)
    model.fit(rows(), y)
    assert len(model.history_) == 3
    for history, one in zip(model.history_, model.estimators_, strict=True):
        assert history is one.history_
        assert history["lower_bound"][-1] == one.lower_bound_
        assert len(history["seconds"]) == one.n_evaluations_


def test_without_learning_there_is_one_choice():
    model = SparseGPRegressor(optimizer=None, **{**QUICK, "max_reselections": 0})
    assert not model.fit(rows(), targets()).history_["choice"].any()


@pytest.mark.parametrize("name", FROM_MINIBATCHES)
def test_from_minibatches_the_history_has_an_entry_for_each_epoch(name):
    model, y = fit_of(name)
    history = model.fit(rows(), y).history_
    assert set(history) == COLUMNS
    assert_array_equal(history["choice"], [0] * 4)
    assert_array_equal(history["n_inducing"], [8] * 4)
    assert history["n_samples"].dtype.kind == "i"
    assert (history["n_samples"] <= 60).all()
    assert history["n_samples"][-1] == 60
    assert history["lower_bound"][-1] == model.lower_bound_
    # With all rows remembered the epochs come close to the optimum.
    assert_allclose(history["lower_bound"][2], model.lower_bound_, rtol=0.2)
    assert (np.diff(history["seconds"]) > 0.0).all()


@pytest.mark.parametrize("name", FROM_MINIBATCHES)
def test_of_a_stream_the_history_has_an_entry_for_each_call(name):
    model, y = fit_of(name)
    classes = {"classes": [0, 1]} if "classifier" in name else {}
    for k in range(1, 4):
        model.partial_fit(rows(), y, **classes)
        assert len(model.history_["seconds"]) == k
        assert model.history_["n_samples"][-1] > 0
        assert model.history_["lower_bound"][-1] == model.lower_bound_
    assert (np.diff(model.history_["seconds"]) > 0.0).all()
    begin = perf_counter()
    seconds = clone(model).partial_fit(rows(), y, **classes).history_["seconds"]
    assert 0.0 < seconds[-1] < perf_counter() - begin
    assert len(model.fit(rows(), y).history_["seconds"]) == 4
    assert len(model.partial_fit(rows(), y).history_["seconds"]) == 5


# Lines of text


EVALUATION = re.compile(
    r"\[(\w+)\] (?:class (\w+), )?evaluation (\d+): (\d+) rows, (\d+) points, bound (-?[\d.]+), "
    r"([\d.]+) s"
)
CHOICE = re.compile(r"\[(\w+)\] (?:class (\w+), )?choice (\d+): (\d+) points, bound (-?[\d.]+)")


@quiet
@pytest.mark.parametrize("name", ["classifier", "noise process", "grown"])
def test_the_first_level_has_a_line_for_each_choice_of_points(name, capsys):
    model, y = fit_of(name, verbose=1)
    model.fit(rows(), y)
    printed = capsys.readouterr().out.splitlines()
    others = (" certificate ", " main effects: ", " matern32: ", " matern12: ", " laplacian: ")
    lines = [
        CHOICE.fullmatch(line) for line in printed if not any(other in line for other in others)
    ]
    assert len(lines) >= len(model.lower_bounds_)
    for line in lines:
        assert line[1] == type(model).__name__
        assert line[2] is None


@quiet
def test_growth_has_a_line_for_the_gap_of_each_size_and_for_each_long_pass(capsys):
    model, y = fit_of("grown", verbose=1)
    model.fit(rows(), y)
    told = [line for line in capsys.readouterr().out.splitlines() if " certificate " in line]
    gaps = [line for line in told if " gap " in line]
    assert gaps == [
        f"[{type(model).__name__}] certificate of {step['n_inducing']} points: "
        f"gap {step['gap_per_row']:.3g} nats per row"
        for step in model.growth_
    ]
    others = {line for line in told if line not in gaps}
    assert all(
        line.endswith(" points: one pass over the kernel matrix with all points") for line in others
    )


@quiet
@pytest.mark.parametrize("name", ["classifier", "regressor"])
def test_the_second_level_has_a_line_for_each_evaluation_as_well(name, capsys):
    model, y = fit_of(name, verbose=2)
    model.fit(rows(), y)
    lines = capsys.readouterr().out.splitlines()
    told = [EVALUATION.fullmatch(line) for line in lines if " evaluation " in line]
    assert [int(line[3]) - 1 for line in told] == list(range(model.n_evaluations_))
    for group, column in ((4, "n_samples"), (5, "n_inducing")):
        assert_array_equal([int(line[group]) for line in told], model.history_[column])
    for group, column in ((6, "lower_bound"), (7, "seconds")):
        printed = [float(line[group]) for line in told]
        assert_allclose(printed, model.history_[column], atol=0.006)
    kinds = (" evaluation ", " main effects: ", " matern32: ", " matern12: ", " laplacian: ")
    others = [line for line in lines if not any(kind in line for kind in kinds)]
    assert len(others) == len([line for line in others if CHOICE.fullmatch(line)]) > 0


@quiet
def test_lines_of_one_model_for_each_class_name_the_class(capsys):
    model, y = fit_of("one for each class", main_effects="auto", verbose=2)
    model.fit(rows(), np.array(["bad", "fair", "good"])[y])
    lines = capsys.readouterr().out.splitlines()
    told = [
        EVALUATION.fullmatch(line) or CHOICE.fullmatch(line)
        for line in lines
        if " main effects: " not in line
    ]
    compared = [line.split()[2].rstrip(",") for line in lines if " main effects: " in line]
    assert compared == ["bad", "fair", "good"]
    assert list(dict.fromkeys(line[2] for line in told)) == ["bad", "fair", "good"]
    assert {line[1] for line in told} == {"SparseGPClassifier"}


@pytest.mark.parametrize("name", FROM_MINIBATCHES)
def test_from_minibatches_there_is_a_line_for_each_epoch(name, capsys):
    model, y = fit_of(name, verbose=1)
    model.fit(rows(), y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    for k, line in enumerate(lines):
        where = f"epoch {k + 1} of 3" if k < 3 else "all rows at the end"
        bound = model.history_["lower_bound"][k]
        begin = f"[{type(model).__name__}] {where}: bound {bound:.4f} of "
        assert line.startswith(begin)
    model.partial_fit(rows(), y)
    assert capsys.readouterr().out == ""
