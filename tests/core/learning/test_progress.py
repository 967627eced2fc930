"""What learning tells as it goes, and how it is stopped."""

import numpy as np
import pytest

from sparsegpc._core.learning.progress import Progress
from tests.core.learning.fit_cases import (
    START,
    learn,
    make_divided,
    make_model,
)


def test_every_evaluation_is_told_of():
    model, steps = make_model(), []
    result = learn(model, progress=Progress(steps.append))
    assert [step.lower_bound for step in steps] == [bound for bound, _, _ in model.seen]
    assert [step.n_inducing for step in steps] == [n_points for _, _, n_points in model.seen]
    assert [step.iteration for step in steps] == list(range(len(steps)))
    assert {step.n_samples for step in steps} == {60}
    assert {step.label for step in steps} == {None}
    assert steps[-1].lower_bound == result.best.elbo
    assert steps[-1].choice >= len(result.lower_bounds) - 1


def test_subsets_are_told_of(early):
    model = make_divided()
    progress = Progress()
    learn(model, progress=progress)
    sizes = progress.history()["n_samples"]
    assert list(dict.fromkeys(sizes)) == [*model.sizes, len(model.weight)]
    assert len(sizes) == len(model.passes)


def test_work_is_counted(early):
    """With two outputs, the passes of both count."""
    model, progress = make_divided(), Progress()
    model.targets = model.targets * 2
    assert progress.site_iterations == progress.optimizer_iterations == 0
    learn(model, max_iter=3, max_reselections=0, progress=progress)
    assert progress.site_iterations == sum(model.passes)
    assert min(model.passes) >= 2
    assert 0 < progress.optimizer_iterations < len(model.passes)


def test_offset_and_label_are_those_given():
    model, steps = make_model(), []
    progress = Progress(steps.append, label="b")
    progress.offset = 0.5
    result = learn(model, progress=progress)
    assert steps[-1].lower_bound == result.best.elbo + 0.5 * 60
    assert steps[-1].label == "b"


@pytest.mark.parametrize("starts", [[START], [START, np.log([3.0, 0.5]), np.log([0.5, 2.0])]])
@pytest.mark.parametrize("at", [0, 1, 5, 9])
def test_learning_stops_when_asked_to_with_the_best_on_all_rows(starts, at):
    model, told = make_model(), []

    def stop(step):
        told.append(step)
        return step.iteration == at

    progress = Progress(stop)
    result = learn(model, starts, progress=progress)
    assert len(told) == at + 1
    if len(starts) == 1:
        assert at + 2 <= len(model.seen) <= at + 3
    else:
        # Few rows were learned from. One choice on all rows follows, and the end.
        assert 2 <= len(model.seen) <= at + 3
    assert progress.stopped
    assert len(result.best.points.Z) == model.seen[-1][2]
    if len(starts) == 1:
        assert result.best.objective >= max(bound for bound, _, _ in model.seen) - 1e-3


def test_learning_stops_on_a_subset_and_ends_on_all_rows(early):
    model = make_divided()
    progress = Progress(lambda step: step.iteration == 2)
    result = learn(model, progress=progress)
    sizes = progress.history()["n_samples"]
    assert (sizes[:3] == model.sizes[0]).all()
    assert (sizes[-2:] == len(model.weight)).all()
    # What the subset taught is where all rows begin.
    assert not np.array_equal(result.best.theta, START)


def test_an_error_of_the_listener_ends_learning():
    def fail(step):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        learn(make_model(), progress=Progress(fail))


def test_a_history_goes_on_from_the_past_and_keeps_the_last_entries():
    first = Progress()
    for bound in (1.0, 2.0):
        first.add(5, 3, bound)
    second = Progress(past=first.history())
    second.add(6, 3, 3.0)
    history = second.history(2)
    assert list(history["lower_bound"]) == [2.0, 3.0]
    assert list(history["n_samples"]) == [5, 6]
    assert (np.diff(second.history()["seconds"]) >= 0.0).all()
    assert len(second.history()["choice"]) == 3
    # Not a part of a longer array, which would be saved with it.
    assert all(column.base is None for column in history.values())
