"""Callbacks that are functions, and those of scikit-learn."""

from collections import Counter
from copy import deepcopy
from threading import Lock

import numpy as np
import pytest
from numpy.linalg import LinAlgError
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import SparseGPClassifier, SparseGPRegressor
from tests.estimators.messages.watched_fits import (
    COLUMNS,
    EVERY,
    FROM_MINIBATCHES,
    SINGLE,
    StopAt,
    fit_of,
    quiet,
    rows,
    watched,
)

# One of each kind of fit; the others in `EVERY` go through the same code with other settings.
KINDS = ["classifier", "one for each class", "noise process", "grown", *FROM_MINIBATCHES]

# Callbacks that are functions


@pytest.mark.parametrize("name", EVERY)
def test_the_callback_is_told_what_the_history_holds(name):
    model, steps = watched(name)
    histories = model.history_ if isinstance(model.history_, list) else [model.history_]
    told = Counter(step.label for step in steps)
    several = isinstance(model.history_, list)
    assert list(told) == (list(model.classes_) if several else [None])
    for label, history in zip(told, histories, strict=True):
        own = [step for step in steps if step.label == label]
        assert [step.iteration for step in own] == list(range(len(own)))
        for column in COLUMNS:
            assert_array_equal([getattr(step, column) for step in own], history[column])


@quiet
@pytest.mark.parametrize("name", EVERY)
def test_without_a_callback_the_fit_is_the_same_and_prints_nothing(name, capfd):
    (model, y), (other, _) = fit_of(name), watched(name)
    capfd.readouterr()
    assert model.fit(rows(), y).lower_bound_ == other.lower_bound_
    assert_array_equal(model.predict(rows()), other.predict(rows()))
    ours, theirs = ([h] if isinstance(h, dict) else h for h in (model.history_, other.history_))
    for one, again in zip(ours, theirs, strict=True):
        for column in COLUMNS - {"seconds"}:
            assert_array_equal(one[column], again[column])
    assert capfd.readouterr() == ("", "")


@quiet
@pytest.mark.parametrize("share", [0.0, 0.6])
@pytest.mark.parametrize("name", SINGLE)
def test_a_callback_can_stop_learning_anywhere(name, share):
    free = watched(name)[0]
    at = int(share * (free.n_evaluations_ - 1))
    stop = StopAt(at)
    model, y = fit_of(name, callback=stop)
    with pytest.warns(ConvergenceWarning, match="the callback asked to stop. The model is usable"):
        model.fit(rows(), y)
    assert stop.n_calls == at + 1
    assert model.converged_ is False
    # What is left is a choice and an evaluation for each stage that a model needs, and the end.
    assert at + 1 < model.n_evaluations_ <= at + 8
    assert np.isfinite(model.predict(rows())).all()
    history = model.history_
    assert_array_equal(history["lower_bound"][: at + 1], free.history_["lower_bound"][: at + 1])
    assert model.lower_bound_ in history["lower_bound"][-1:]


@quiet
@pytest.mark.parametrize("name", ["classifier", "regressor", "moved points"])
def test_after_a_stop_the_best_that_was_found_is_kept(name):
    # Where learning goes on from an earlier fit there is one start, and no ranking. Without a prior
    # the best has the highest bound.
    model, y = fit_of(name, max_iter=1, max_reselections=0, length_scales="common")
    early = model.fit(rows(), y).set_params(max_iter=10, max_reselections=2, warm_start=True)
    free = deepcopy(early).fit(rows(), y)
    assert free.n_evaluations_ > 6
    for at in range(0, free.n_evaluations_ - 1, 2):
        model = deepcopy(early).set_params(callback=StopAt(at))
        with pytest.warns(ConvergenceWarning, match="callback"):
            model.fit(rows(), y)
        # The last evaluation of a stage, here with another kernel, may be that of the model.
        assert len(model.history_["seconds"]) in (at + 1, at + 2)
        assert model.lower_bound_ >= free.history_["lower_bound"][: at + 1].max() - 1e-3


@quiet
def test_a_stop_at_the_very_end_is_a_stop():
    """The model is the same, but the callback might have ended what comes next."""
    free, y = fit_of("regressor", kernel=ConstantKernel() * RBF(), max_iter=10, max_reselections=2)
    n_all = free.fit(rows(), y).n_evaluations_
    model = clone(free).set_params(callback=StopAt(n_all - 1)).fit(rows(), y)
    assert free.converged_
    assert not model.converged_
    assert model.callback.n_calls == n_all
    assert_array_equal(model.kernel_.theta, free.kernel_.theta)
    assert model.lower_bound_ == free.lower_bound_


def test_a_stop_before_further_points_leaves_a_fit_incomplete(rng):
    X = rng.uniform(size=(300, 2))
    y, noise = np.sin(60.0 * X[:, 0]) * np.cos(60.0 * X[:, 1]), np.full(300, 1e-2)
    model = SparseGPRegressor(ConstantKernel() * RBF(0.05, "fixed"), random_state=0)
    n_points = model.fit(X, y, noise_variance=noise).history_["n_inducing"]
    first = np.flatnonzero(n_points > 200)[0]
    model.set_params(callback=StopAt(first - 1))
    with pytest.warns(ConvergenceWarning, match="callback asked to stop"):
        model.fit(X, y, noise_variance=noise)
    assert len(model.inducing_points_) == 200
    assert not model.converged_


def test_a_stop_while_points_grow_ends_growth():
    model, y = fit_of("grown", callback=StopAt(3))
    with pytest.warns(ConvergenceWarning, match="callback"):
        model.fit(rows(), y)
    assert model.growth_end_ == "stopped"
    assert len(model.growth_) == 1


def test_with_one_model_for_each_class_a_stop_is_of_that_class():
    steps = []

    def stop_the_second(step):
        steps.append(step.label)
        return step.label == 1

    model, y = fit_of("one for each class", callback=stop_the_second)
    with pytest.warns(ConvergenceWarning, match="class 1 against the rest: .* callback asked"):
        model.fit(rows(), y)
    assert [one.converged_ for one in model.estimators_] == [True, False, True]
    assert model.converged_ is False
    assert Counter(steps)[1] == 1
    assert min(Counter(steps).values()) == 1


@pytest.mark.parametrize("name", FROM_MINIBATCHES)
def test_from_minibatches_a_stop_skips_the_epochs_that_are_left(name):
    model, y = fit_of(name, callback=StopAt(1))
    text = "after 2 of 3 epochs: the callback asked to stop"
    with pytest.warns(ConvergenceWarning, match=text) as caught:
        model.fit(rows(), y)
    assert [one.filename for one in caught] == [__file__]
    assert model.n_steps_ == 2 * 3
    assert len(model.history_["seconds"]) == 3
    assert model.history_["n_samples"][-1] == 60
    assert model.lower_bound_ == model.history_["lower_bound"][-1]
    assert np.isfinite(model.predict(rows())).all()


@pytest.mark.parametrize("name", FROM_MINIBATCHES)
def test_from_minibatches_a_stop_at_the_last_epoch_is_none(name):
    model, y = fit_of(name, callback=StopAt(2))
    assert model.fit(rows(), y).n_steps_ == 3 * 3


class Fails:
    """Raise an error at the given step."""

    def __init__(self, iteration, error):
        self.iteration, self.error = iteration, error

    def __call__(self, step):
        if step.iteration == self.iteration:
            raise self.error


@quiet
@pytest.mark.parametrize("name", KINDS)
def test_an_error_of_the_callback_ends_the_fit(name):
    error, iteration = [(ValueError, 0), (KeyboardInterrupt, 2)][KINDS.index(name) % 2]
    raised = error("from the callback")
    model, y = fit_of(name, callback=Fails(iteration, raised))
    before = set(vars(model))
    with pytest.raises(error, match="from the callback") as caught:
        model.fit(rows(), y)
    assert caught.value is raised
    assert set(vars(model)) == before
    model.set_params(callback=None).fit(rows(), y)
    state = dict(vars(model))
    model.set_params(callback=Fails(iteration, raised))
    with pytest.raises(error, match="from the callback"):
        model.fit(rows()[::-1], y)
    after = dict(vars(model))
    assert after.keys() == state.keys()
    assert all(after[key] is state[key] for key in state if key.endswith("_"))


@pytest.mark.parametrize("name", ["regressor", "regressor from minibatches"])
def test_a_callback_that_raises_a_linalg_error_ends_the_fit_too(name):
    """The search takes a LinAlgError of its own for a step that is too long."""
    model, y = fit_of(name, callback=Fails(2, LinAlgError("from the callback")))
    with pytest.raises(RuntimeError, match="raised a LinAlgError: from the callback"):
        model.fit(rows(), y)


@quiet
def test_an_error_of_the_callback_in_another_process_ends_the_fit():
    raised = ValueError("from the callback")
    model, y = fit_of("one for each class", callback=Fails(3, raised), n_jobs=2)
    with pytest.raises(ValueError, match="from the callback"):
        model.fit(rows(), y)
    assert not [key for key in vars(model) if key.endswith("_")]


@quiet
def test_a_callback_goes_with_a_search():
    steps = []
    model, y = fit_of("moved points", callback=lambda step: steps.append(step))
    search = GridSearchCV(model, {"n_inducing": [4, 8]}, cv=2).fit(rows(), y)
    assert search.best_estimator_.callback is model.callback
    assert len(steps) >= search.best_estimator_.n_evaluations_


def test_a_clone_has_the_same_callback():
    model = SparseGPClassifier(callback=print)
    assert clone(model).callback is print


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("callback", [3, "print", [print]])
def test_a_callback_must_be_callable(name, callback):
    model, y = fit_of(name, callback=callback)
    with pytest.raises(ValueError, match=r"The .callback. parameter of .* must be a callable or"):
        model.fit(rows(), y)


@quiet
def test_a_callback_is_shared_by_the_models_of_all_classes():
    """It may hold what cannot be copied, as progress bars do."""

    class Locked(StopAt):
        def __init__(self):
            super().__init__(np.inf)
            self.lock = Lock()

    callback = Locked()
    model, y = fit_of("one for each class", callback=callback, warm_start=True)
    for _ in range(2):
        model.fit(rows(), y)
        # Or it would be saved with them after it is set to None.
        assert {one.callback for one in model.estimators_} == {None}
    assert callback.n_calls > model.n_evaluations_


# Callbacks of scikit-learn


class Recorder:
    """A callback of scikit-learn's that keeps what it is told, and may ask to stop."""

    def __init__(self, stop_at=np.inf):
        self.events, self.stop_at, self.n_leaves = [], stop_at, 0

    def setup(self, estimator, context):
        self.events.append(("setup", context.task_name))

    def on_fit_task_begin(self, estimator, context):
        self.events.append(("begin", context.task_name, id(context)))

    def on_fit_task_end(self, estimator, context):
        self.events.append(("end", context.task_name, id(context)))
        self.n_leaves += context.max_subtasks == 0
        return context.max_subtasks == 0 and self.n_leaves >= self.stop_at

    def teardown(self, estimator, context):
        self.events.append(("teardown", context.task_name))

    def count(self, event, task):
        return sum(entry[:2] == (event, task) for entry in self.events)


def needs_callbacks():
    return pytest.importorskip("sklearn.callback", reason="from scikit-learn 1.9 on")


@pytest.mark.parametrize("name", EVERY)
def test_before_scikit_learn_has_callbacks_nothing_is_promised(name):
    try:
        import sklearn.callback  # noqa: F401
    except ImportError:
        assert not hasattr(fit_of(name)[0], "set_callbacks")
    else:
        assert callable(fit_of(name)[0].set_callbacks)


@quiet
@pytest.mark.parametrize("name", KINDS)
def test_the_tasks_of_a_fit_are_told_of_in_order(name):
    needs_callbacks()
    recorder = Recorder()
    model, y = fit_of(name)
    model.set_callbacks(recorder).fit(rows(), y)
    assert recorder.events[0] == ("setup", "fit")
    assert recorder.events[-1] == ("teardown", "fit")
    stack = []
    for event, *task in recorder.events[1:-1]:
        if event == "begin":
            stack.append(task)
        else:
            assert stack.pop() == task
    assert stack == []
    assert recorder.count("begin", "fit") == 1
    if name in FROM_MINIBATCHES:
        assert recorder.count("end", "epoch") == 4
    else:
        assert recorder.count("end", "evaluation") == model.n_evaluations_
    if name == "one for each class":
        assert [recorder.count("end", f"class {k} against the rest") for k in range(3)] == [1] * 3
    assert not [key for key in vars(model) if key.startswith("_callback")]


@pytest.mark.parametrize("name", ["classifier", "noise process", *FROM_MINIBATCHES])
def test_a_callback_of_scikit_learn_can_stop_learning(name):
    needs_callbacks()
    recorder = Recorder(stop_at=2)
    model, y = fit_of(name)
    with pytest.warns(ConvergenceWarning, match="callback asked to stop"):
        model.set_callbacks(recorder).fit(rows(), y)
    assert recorder.n_leaves == 2
    assert recorder.events[-1] == ("teardown", "fit")


class Broken(Recorder):
    """A callback of scikit-learn's that raises an error at a task."""

    def __init__(self, task, error):
        super().__init__()
        self.task, self.error = task, error

    def on_fit_task_end(self, estimator, context):
        if context.task_name == self.task:
            raise self.error
        return super().on_fit_task_end(estimator, context)


@quiet
@pytest.mark.parametrize(
    ("error", "task"),
    [
        (ValueError, "evaluation"),
        (KeyboardInterrupt, "evaluation"),
        (ValueError, "fit"),
    ],
)
@pytest.mark.parametrize("name", ["classifier", "regressor", "one for each class"])
def test_an_error_of_a_callback_of_scikit_learn_ends_the_fit(name, task, error):
    needs_callbacks()
    raised = error("from the callback")
    model, y = fit_of(name)
    recorder = Broken(task, raised)
    with pytest.raises(error, match="from the callback") as caught:
        model.set_callbacks(recorder).fit(rows(), y)
    assert caught.value is raised
    # Told of the end all the same, and nothing is left.
    assert recorder.events[-1] == ("teardown", "fit")
    assert not [key for key in vars(model) if key.endswith("_") or key.startswith("_callback")]


def test_bad_input_is_the_end_of_a_task_too():
    needs_callbacks()
    recorder = Recorder()
    with pytest.raises(ValueError, match="NaN"):
        SparseGPRegressor().set_callbacks(recorder).fit([[np.nan]], [1.0])
    assert [entry[:2] for entry in recorder.events] == [
        ("setup", "fit"),
        ("begin", "fit"),
        ("teardown", "fit"),
    ]


@quiet
def test_models_of_classes_do_not_keep_the_callbacks_of_all():
    needs_callbacks()
    model, y = fit_of("one for each class")
    model.set_callbacks(Recorder()).fit(rows(), y)
    assert not [one for one in model.estimators_ if hasattr(one, "_skl_callbacks")]


@quiet
@pytest.mark.parametrize("sample_weight", [None, 2.0, [1.0, 3.0] * 30])
def test_a_scoring_monitor_sees_the_fitted_model_and_the_weights(sample_weight):
    callback = needs_callbacks()
    monitor = callback.ScoringMonitor(scoring="r2")
    model, y = fit_of("regressor")
    model.set_callbacks(monitor).fit(rows(), y, sample_weight=sample_weight)
    [entry] = monitor.get_logs().data
    weight = None if sample_weight == 2.0 else sample_weight
    assert entry["r2"] == model.score(rows(), y, sample_weight=weight)


@quiet
@pytest.mark.parametrize("name", ["regressor", "one for each class", *FROM_MINIBATCHES])
def test_the_progress_bar_of_scikit_learn_shows_every_estimator(name, capsys):
    callback = needs_callbacks()
    pytest.importorskip("rich")
    model, y = fit_of(name)
    model.set_callbacks(callback.ProgressBar()).fit(rows(), y)
    out = capsys.readouterr().out
    assert f"{type(model).__name__} - fit" in out
    assert "100%" in out


@quiet
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_the_progress_bar_of_a_search_shows_the_pipeline_and_the_estimator(n_jobs, capsys):
    callback = needs_callbacks()
    pytest.importorskip("rich")
    model, y = fit_of("regressor", max_iter=2, max_reselections=0, main_effects=False)
    pipeline = make_pipeline(StandardScaler(), model)
    search = GridSearchCV(pipeline, {"sparsegpregressor__n_inducing": [4, 8]}, cv=2, n_jobs=n_jobs)
    search.set_callbacks(callback.ProgressBar(max_propagation_depth=None)).fit(rows(), y)
    out = capsys.readouterr().out
    assert "Pipeline - fit" in out
    assert "SparseGPRegressor" in out


@quiet
def test_a_callback_reaches_the_estimator_through_a_pipeline():
    needs_callbacks()
    recorder = Recorder()
    recorder.max_propagation_depth = None
    model, y = fit_of("classifier")
    pipeline = make_pipeline(StandardScaler(), model).set_callbacks(recorder).fit(rows(), y)
    assert recorder.count("end", "evaluation") == pipeline[-1].n_evaluations_
    assert not [key for key in vars(pipeline[-1]) if "callback" in key and key != "callback"]
