"""Fitted estimators that are written and read again: the same model, and a small one."""

import copy
import io
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from sparsegpc import (
    GPNoise,
    InducingPointSelector,
    PolynomialNoise,
    SparseGPClassifier,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPRegressor,
)
from sparsegpc._estimators import minibatches
from sparsegpc.likelihoods import DirichletTargets

# Models stop early: what is learned is not the point.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

KERNEL = ConstantKernel(2.0) * Matern(1.5, nu=2.5)
QUICK = {"n_inducing": 8, "max_iter": 3, "max_reselections": 1, "random_state": 0}
MINIBATCHES = {"n_inducing": 8, "n_epochs": 2, "batch_size": 30, "random_state": 0}


def rows(n=80):
    X = np.random.RandomState(0).uniform(-3.0, 3.0, (n, 2))
    X.flags.writeable = False
    return X


def labels(n_classes, X=None):
    X = rows() if X is None else X
    noise = np.random.RandomState(1).randn(len(X))
    return np.digitize(np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.2 * noise, [-0.4, 0.4][: n_classes - 1])


def targets(n_outputs=1, X=None):
    X = rows() if X is None else X
    noise = np.random.RandomState(1).randn(len(X)) * np.exp(0.3 * X[:, 1] - 1.5)
    y = np.sin(X[:, 0]) + noise
    return y if n_outputs == 1 else np.column_stack([y, np.cos(X[:, 1]) + noise])


# Every kind of fitted estimator: each brings other attributes.
CASES = {
    "binary": lambda: SparseGPClassifier(**QUICK).fit(rows(), labels(2)),
    "probit": lambda: SparseGPClassifier(likelihood="bernoulli-probit", **QUICK).fit(
        rows(), labels(2)
    ),
    "conditional": lambda: SparseGPClassifier(likelihood="conditional-polya-gamma", **QUICK).fit(
        rows(), labels(2)
    ),
    "text labels": lambda: SparseGPClassifier(kernel=KERNEL, **QUICK).fit(
        rows(), np.array(["no", "yes"])[labels(2)]
    ),
    "softmax": lambda: SparseGPClassifier(**QUICK).fit(rows(), labels(3)),
    "logistic-softmax": lambda: SparseGPClassifier(likelihood="logistic-softmax", **QUICK).fit(
        rows(), labels(3)
    ),
    "dirichlet": lambda: SparseGPClassifier(likelihood=DirichletTargets(0.05), **QUICK).fit(
        rows(), labels(3)
    ),
    "one for each class": lambda: SparseGPClassifier(likelihood="polya-gamma", **QUICK).fit(
        rows(), labels(3)
    ),
    "regression": lambda: SparseGPRegressor(**QUICK).fit(rows(), targets()),
    "single precision": lambda: SparseGPRegressor(working_dtype="float32", **QUICK).fit(
        rows(), targets()
    ),
    "several outputs": lambda: SparseGPRegressor(normalize_y=True, **QUICK).fit(rows(), targets(2)),
    "polynomial noise": lambda: SparseGPRegressor(noise=PolynomialNoise(1), **QUICK).fit(
        rows(), targets()
    ),
    "noise process": lambda: SparseGPRegressor(noise=GPNoise(RBF(2.0), n_inducing=5), **QUICK).fit(
        rows(), targets()
    ),
    "grown": lambda: SparseGPRegressor(
        **{**QUICK, "n_inducing": "auto"}, max_inducing=30, certificate_tol=1e-6
    ).fit(rows(), targets()),
    "selector of its own": lambda: SparseGPRegressor(
        selector=InducingPointSelector(n_components=6), **QUICK
    ).fit(rows(), targets()),
    "moved points": lambda: SparseGPRegressor(optimize_inducing=True, **QUICK).fit(
        rows(), targets()
    ),
    "classification from minibatches": lambda: StochasticSparseGPClassifier(**MINIBATCHES).fit(
        rows(), labels(3)
    ),
    "regression from minibatches": lambda: StochasticSparseGPRegressor(**MINIBATCHES).fit(
        rows(), targets()
    ),
    "selection": lambda: InducingPointSelector(n_components=6).fit(rows()),
}


@pytest.fixture(scope="module", params=CASES)
def fitted(request):
    """One of each kind; not to be changed."""
    return CASES[request.param]()


def by_pickle(model):
    return pickle.loads(pickle.dumps(model))


def by_joblib(model):
    stream = io.BytesIO()
    joblib.dump(model, stream, compress=3)
    stream.seek(0)
    return joblib.load(stream)


def by_skops(model):
    skops = pytest.importorskip("skops.io")
    data = skops.dumps(model)
    return skops.loads(data, trusted=skops.get_untrusted_types(data=data))


every_way = pytest.mark.parametrize("way", [by_pickle, by_joblib, copy.deepcopy, by_skops])


def answers(model):
    """Return all that a fitted estimator says of new rows, as a dict of arrays."""
    X = np.random.RandomState(2).uniform(-4.0, 4.0, (30, 2))
    calls = {
        "predict": (),
        "predict_proba": (),
        "decision_function": (),
        "latent_mean_and_variance": (),
        "predict_noise_std": (),
        "sample_f": (3,),
        "sample_y": (3,),
        "predict_proba_interval": (),
        "transform": (),
    }
    found = {
        name: getattr(model, name)(X, *arguments)
        for name, arguments in calls.items()
        if hasattr(model, name)
    }
    return {
        f"{name} {k}": np.asarray(part)
        for name, value in found.items()
        for k, part in enumerate(value if isinstance(value, tuple) else (value,))
    }


def assert_same_answers(one, other):
    assert one.keys() == other.keys()
    assert len(one) > 0
    for name in one:
        assert_array_equal(one[name], other[name], err_msg=name)


def bounds(model):
    """Return what a model says of the data it was fitted to."""
    if not hasattr(model, "certificate"):
        return {}
    n_outputs = np.ndim(model.prior_mean_) + 1
    y = targets(n_outputs) if isinstance(model, SparseGPRegressor) else None
    if y is None:
        y = model.classes_[labels(len(model.classes_))]
    certificate = model.certificate(rows(), y)
    return {
        "gap": certificate.gap,
        "lower": certificate.lower_bound,
        "at other values": model.lower_bound(0.1 + model.kernel_.theta, rows(), y),
    }


@every_way
def test_a_saved_model_says_the_same(fitted, way):
    other = way(fitted)
    assert type(other) is type(fitted)
    assert vars(other).keys() == vars(fitted).keys()
    assert_same_answers(answers(other), answers(fitted))
    assert bounds(other) == bounds(fitted)


@every_way
def test_a_saved_model_keeps_its_history(fitted, way):
    if isinstance(fitted, InducingPointSelector):
        pytest.skip("a selection has none")
    one, other = (
        model.history_ if isinstance(model.history_, list) else [model.history_]
        for model in (fitted, way(fitted))
    )
    for before, after in zip(one, other, strict=True):
        assert list(before) == list(after)
        for name in before:
            assert_array_equal(before[name], after[name])
            assert before[name].dtype == after[name].dtype


def test_a_fresh_process_predicts_the_same(tmp_path):
    models = {name: make() for name, make in CASES.items()}
    (tmp_path / "models").write_bytes(pickle.dumps(models))
    script = f"""
import pickle, sys
sys.path.insert(0, {str(__file__.rpartition("/")[0])!r})
from test_persistence import answers
folder = {str(tmp_path)!r}
with open(folder + "/models", "rb") as file:
    models = pickle.load(file)
with open(folder + "/answers", "wb") as file:
    pickle.dump({{name: answers(model) for name, model in models.items()}}, file)
"""
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    found = pickle.loads((tmp_path / "answers").read_bytes())
    assert found.keys() == CASES.keys()
    for name, model in models.items():
        assert_same_answers(found[name], answers(model))


# Going on from what was saved


@every_way
def test_a_stream_goes_on_after_it_was_saved(way):
    model = CASES["regression from minibatches"]()
    other = way(model)
    X = 0.9 * rows()
    assert_same_answers(
        answers(other.partial_fit(X, targets())), answers(model.partial_fit(X, targets()))
    )
    assert other.n_steps_ == model.n_steps_


@every_way
@pytest.mark.parametrize("name", ["one for each class", "noise process"])
def test_learning_goes_on_after_it_was_saved(way, name):
    model = CASES[name]()
    y = labels(3) if name == "one for each class" else targets()
    other = way(model)
    for one in (model, other):
        one.set_params(warm_start=True).fit(rows(), y)
    assert_same_answers(answers(other), answers(model))


@every_way
def test_a_saved_model_can_be_truncated(way):
    model = CASES["several outputs"]()
    assert_same_answers(answers(way(model).truncate(4)), answers(model.truncate(4)))


# Size


COLUMNS, POINTS = 10, 50
LARGEST = 100_000
FIXED = {"kernel": ConstantKernel() * RBF(3.0), "n_inducing": POINTS, "random_state": 0}
# Estimators, and the number of classes that they tell apart.
LARGE = {
    "classifier": (SparseGPClassifier(optimizer=None, max_reselections=0, **FIXED), 2),
    "regressor": (SparseGPRegressor(optimizer=None, max_reselections=0, **FIXED), None),
    "learned": (SparseGPRegressor(max_iter=5, max_reselections=1, **FIXED), None),
    "noise process": (
        SparseGPRegressor(
            noise=GPNoise(RBF(3.0), n_inducing=20), optimizer=None, max_reselections=0, **FIXED
        ),
        None,
    ),
    "classifier from minibatches": (StochasticSparseGPClassifier(learning_rate=0.0, **FIXED), 2),
    "regressor from minibatches": (StochasticSparseGPRegressor(learning_rate=0.0, **FIXED), None),
}


def size_of_fit(name, n_rows):
    model, n_classes = LARGE[name]
    X = np.random.RandomState(0).randn(n_rows, COLUMNS)
    y = X[:, 0] + 0.1 * np.random.RandomState(1).randn(n_rows)
    return len(pickle.dumps(model.fit(X, y if n_classes is None else y > 0.0)))


@pytest.mark.parametrize("name", LARGE)
def test_a_fitted_model_is_small_whatever_the_number_of_rows(name):
    """The rows alone would be 1.6 MB."""
    small, large = (size_of_fit(name, n_rows) for n_rows in (2_000, 20_000))
    assert large < LARGEST
    # Learning may take a few evaluations more, of which five numbers each are kept.
    assert abs(large - small) < 2_000


def test_a_stream_does_not_let_a_model_grow(monkeypatch):
    monkeypatch.setattr(minibatches, "LONGEST_HISTORY", 5)
    model = StochasticSparseGPClassifier(**MINIBATCHES)
    sizes = []
    for _ in range(10):
        model.partial_fit(rows(), labels(3), classes=[0, 1, 2])
        sizes.append(len(pickle.dumps(model)))
    assert len(model.history_["seconds"]) == 5
    assert max(sizes[5:]) - min(sizes[5:]) < 100


# What skops asks


def test_the_types_to_be_trusted_are_those_of_this_package_and_kernels(fitted):
    skops = pytest.importorskip("skops.io")
    names = skops.get_untrusted_types(data=skops.dumps(fitted))
    ours = ("sparsegpc.", "sklearn.gaussian_process.kernels.")
    assert [name for name in names if not name.startswith(ours)] == []
    assert len(names) > 0


# Callbacks


STEPS = []


def remember(step):
    STEPS.append(step)


@pytest.mark.parametrize("way", [by_pickle, by_joblib, copy.deepcopy])
def test_a_model_with_a_callback_of_a_module_can_be_saved(way):
    STEPS.clear()
    model = SparseGPRegressor(callback=remember, **QUICK).fit(rows(), targets())
    assert len(STEPS) == model.n_evaluations_
    assert way(model).callback is remember


def test_a_model_with_a_callback_that_cannot_be_saved_can_be_saved_without_it():
    model = SparseGPRegressor(callback=lambda step: None, **QUICK).fit(rows(), targets())
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(model)
    other = by_pickle(model.set_params(callback=None))
    assert_same_answers(answers(other), answers(model))


def test_what_is_said_of_a_fit_is_not_said_again_by_a_saved_model(recwarn):
    model = CASES["regression"]()
    recwarn.clear()
    answers(by_pickle(model))
    assert not [one for one in recwarn if one.category is ConvergenceWarning]
