"""Fitted estimators that are written and read again: the same model, and a small one."""

import copy
import multiprocessing
import pickle
from functools import cache

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning, InconsistentVersionWarning

from sparsegpc import (
    BaseSparseGP,
    InducingPointSelector,
    SparseGPClassifier,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
)
from sparsegpc._estimators.minibatches import base as minibatches
from sparsegpc.likelihoods import Expectation, Likelihood
from tests.hardening.model_sizes import kinds
from tests.hardening.saved_models import (
    CASES,
    MINIBATCHES,
    QUICK,
    UNFITTED,
    VARIANTS,
    WAYS,
    OwnKernel,
    OwnLikelihood,
    answers,
    bounds,
    by_pickle,
    go_on,
    labels,
    outcome,
    regressor,
    rows,
    targets,
)

# Models stop early: what is learned is not the point.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.usefixtures("quick_batches"),
]


@cache
def made(name):
    """Return a fitted estimator, not to be changed."""
    return {**CASES, **VARIANTS}[name]()


@cache
def said_by(name):
    """Return what it says of new rows, and of those of fit."""
    return answers(made(name)), bounds(made(name))


@pytest.fixture(params=CASES)
def kind(request):
    """The name of one of each kind."""
    return request.param


@pytest.fixture
def fitted(kind):
    """One of each kind; not to be changed."""
    return made(kind)


@pytest.fixture
def said(kind):
    """What `fitted` says."""
    return said_by(kind)


@pytest.fixture(params=WAYS)
def way(request):
    """A way to save and load."""
    if request.param == "skops":
        pytest.importorskip("skops.io")
    return WAYS[request.param]


def assert_same_answers(one, other):
    assert one.keys() == other.keys()
    assert len(one) > 0
    for name in one:
        assert_array_equal(one[name], other[name], err_msg=name)


def assert_same_bounds(one, other):
    """To rounding: they are computed anew, and sums may depend on where arrays lie in memory."""
    assert one.keys() == other.keys()
    for name in one:
        assert_allclose(one[name], other[name], rtol=1e-12, err_msg=name)


def test_a_saved_model_says_the_same(fitted, said, way):
    other = way(fitted)
    assert type(other) is type(fitted)
    assert vars(other).keys() == vars(fitted).keys()
    for name, part in vars(fitted).items():
        assert type(vars(other)[name]) is type(part), name
    assert_same_answers(answers(other), said[0])
    assert_same_bounds(bounds(other), said[1])
    if not isinstance(fitted, InducingPointSelector):
        assert_same_histories(other.history_, fitted.history_)


def assert_same_histories(one, other):
    """Compare the histories of models, or lists of them, with the types of their columns."""
    one, other = ([part] if isinstance(part, dict) else part for part in (one, other))
    for ours, theirs in zip(one, other, strict=True):
        assert list(ours) == list(theirs)
        for name in ours:
            assert_array_equal(ours[name], theirs[name])
            assert ours[name].dtype == theirs[name].dtype


@pytest.mark.parametrize("name", VARIANTS)
def test_parameters_of_all_kinds_can_be_saved(name):
    assert_same_answers(answers(by_pickle(made(name))), answers(made(name)))


@pytest.mark.parametrize("name", UNFITTED)
def test_an_unfitted_estimator_keeps_its_parameters(name, way):
    model = UNFITTED[name]
    assert repr(way(model)) == repr(model)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol_does(protocol):
    model = by_pickle(made("noise process"), protocol)
    assert_same_answers(answers(model), said_by("noise process")[0])


@pytest.mark.parametrize("name", ["one for each class", "noise process", "selection"])
def test_a_saved_model_may_be_saved_again(name):
    assert_same_answers(answers(by_pickle(by_pickle(made(name)))), said_by(name)[0])


def test_a_copy_shares_its_arrays(fitted):
    for one, other in zip(arrays(fitted), arrays(copy.copy(fitted)), strict=True):
        assert one is other


def arrays(model):
    """Return the large arrays of a fitted estimator."""
    if isinstance(model, InducingPointSelector):
        return [model._Luu, model.inducing_points_]
    models = getattr(model, "estimators_", None) or [model]
    found = [model.inducing_points_ for model in models]
    for posterior in (model._posterior for model in models):
        found += [posterior.Z, posterior.Luu, *(q.LB for q in posterior.functions)]
    return found


def test_a_certificate_can_be_saved(way):
    certificate = made("regression").certificate(rows(), targets())
    assert way(certificate) == certificate


def test_a_subclass_of_a_user_keeps_what_it_adds(way):
    model = Subclass(**QUICK).fit(rows(), targets())
    model._units = [{"kind": "metres", "model": "own"}, ("a", 1)]
    assert way(model)._units == model._units
    assert_same_answers(answers(way(model)), answers(model))


class Subclass(SparseGPRegressor):
    """A user's estimator."""


def test_an_estimator_of_a_user_under_a_likelihood_of_theirs_can_be_saved(way):
    y = np.round(np.exp(targets()))
    model = Counts(**QUICK).fit(rows(), y)
    other = way(model)
    assert type(other._likelihood) is Poisson
    for one, again in (
        (other, model),
        (other.truncate(4, rows(), y), model.truncate(4, rows(), y)),
    ):
        assert_same_answers(answers(one), answers(again))
    assert other.certificate(rows(), y) == model.certificate(rows(), y)


class Poisson(Likelihood):
    """Counts with the rate exp(f), but for the constants log y!."""

    merges_unequal_targets = True

    def targets(self, y, weight, rows):
        return [rows.mean(y, weight)]

    def expect(self, y, weight, mean, inducing_variance, residual, v):
        rate = weight * np.exp(mean[0] + 0.5 * (inducing_variance[0] + v[0] * residual))
        value, slope = weight * y * mean[0] - rate, weight * y - rate
        return Expectation(value, slope[None], rate[None], v * rate)


class Counts(BaseSparseGP):
    """A user's estimator of counts."""

    def fit(self, X, y):
        return self._fit_likelihood(Poisson(), X, y)

    def predict(self, X):
        mean, variance = self.latent_mean_and_variance(X)
        return np.exp(mean + 0.5 * variance)


# Other processes


def test_a_fresh_process_takes_models_and_gives_them_back():
    models = {name: made(name) for name in CASES}
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        others, said = pool.apply(give_back, (models,))
    assert said.keys() == CASES.keys()
    for name in models:
        assert_same_answers(said[name], said_by(name)[0])
        assert_same_answers(answers(others[name]), said[name])


def give_back(models):
    return models, {name: answers(model) for name, model in models.items()}


# Going on from what was saved


def test_a_stream_goes_on_after_it_was_saved(way):
    model, other = (w(made("regression from minibatches")) for w in (copy.deepcopy, way))
    X = 0.9 * rows()
    assert_same_answers(
        answers(other.partial_fit(X, targets())), answers(model.partial_fit(X, targets()))
    )
    assert other.n_steps_ == model.n_steps_


@pytest.mark.parametrize("name", ["one for each class", "noise process"])
def test_learning_goes_on_after_it_was_saved(way, name):
    model, other = copy.deepcopy(made(name)), way(made(name))
    assert_same_answers(go_on(other), go_on(model))


@pytest.mark.parametrize("name", ["several outputs", "noise process", "softmax"])
def test_a_saved_model_can_be_truncated(way, name):
    model = made(name)
    one, other = (m.truncate(4, rows(), outcome(m)) for m in (model, way(model)))
    assert_same_answers(answers(other), answers(one))


def test_a_model_whose_arrays_are_mapped_from_disk_works(fitted, said, tmp_path):
    joblib.dump(fitted, tmp_path / "model")
    other = joblib.load(tmp_path / "model", mmap_mode="r")
    points = other.inducing_points_
    assert isinstance(points[0] if isinstance(points, list) else points, np.memmap)
    assert_same_answers(answers(other), said[0])
    assert_same_bounds(bounds(other), said[1])


@pytest.mark.parametrize("name", ["one for each class", "noise process", "stream of labels"])
def test_learning_goes_on_from_arrays_that_can_only_be_read(name, tmp_path):
    model = copy.deepcopy(made(name))
    joblib.dump(model, tmp_path / "model")
    other = joblib.load(tmp_path / "model", mmap_mode="r")
    assert_same_answers(go_on(other), go_on(model))


# Other versions


@pytest.mark.parametrize("name", ["regression", "softmax", "selection"])
@pytest.mark.parametrize("version", ["7.8.9", None])
def test_a_file_of_another_version_warns_as_scikit_learn_does(name, version):
    model = made(name)
    state = model.__getstate__()
    del state["_sparsegpc_version"]
    if version is not None:
        state["_sparsegpc_version"] = version
    other = type(model).__new__(type(model))
    text = f"{type(model).__name__} from version sparsegpc {version or 'unknown'} when using"
    with pytest.warns(InconsistentVersionWarning, match=text):
        other.__setstate__(state)
    assert_same_answers(answers(other), answers(model))


def test_a_file_of_this_version_does_not_warn(recwarn):
    by_pickle(made("regression"))
    assert not [one for one in recwarn if one.category is InconsistentVersionWarning]


# Size


@pytest.mark.parametrize("name", kinds([3]))
def test_a_file_has_the_documented_size_whatever_the_number_of_rows(name):
    sized = kinds([3])[name]
    for n_points, n_columns in ((12, 2), (60, 2), (60, 25)):
        sizes = [sized.measured(n_rows, n_points, n_columns) for n_rows in (100, 300)]
        rests = [size - sized.formula(found, n_columns) for size, found in sizes]
        assert all(0 < rest < sized.rest for rest in rests)
        # Numbers of rows take a byte more or less.
        assert abs(rests[0] - rests[1]) < 20


def test_learning_adds_its_history_only():
    """Which has an entry for each evaluation of the bound; rows would be 48 kB and more."""
    found = []
    for n_rows in (300, 3000):
        X = np.random.RandomState(0).randn(n_rows, 2)
        model = SparseGPRegressor(**{**QUICK, "max_iter": 20}).fit(X, np.sin(X[:, 0]))
        found.append(len(pickle.dumps(model)) - 8 * 5 * model.n_evaluations_)
    assert abs(found[0] - found[1]) < 500


def test_a_stream_does_not_let_a_model_grow(monkeypatch):
    monkeypatch.setattr(minibatches, "LONGEST_HISTORY", 5)
    monkeypatch.setattr(minibatches, "START_ROWS", 200)
    model = StochasticSparseGPClassifier(**{**MINIBATCHES, "batch_size": 80})
    sizes = []
    for _ in range(10):
        model.partial_fit(rows(), labels(3), classes=[0, 1, 2])
        sizes.append(len(pickle.dumps(model)))
    assert len(model.history_["seconds"]) == 5
    assert max(sizes[5:]) - min(sizes[5:]) < 100


# Objects of users


def test_own_kernels_and_likelihoods_come_back_as_they_are(way):
    kernel, likelihood = (way(made(f"own {name}")) for name in ("kernel", "likelihood"))
    assert type(kernel.kernel_) is OwnKernel
    assert type(likelihood.likelihood) is type(likelihood._likelihood) is OwnLikelihood


STEPS = []


def remember(step):
    STEPS.append(step)


def test_a_model_with_a_callback_of_a_module_can_be_saved(way):
    STEPS.clear()
    model = regressor(callback=remember)
    assert len(STEPS) == model.n_evaluations_
    assert way(model).callback is remember
    assert pickle.loads(pickle.dumps(STEPS)) == STEPS


def test_a_model_with_a_callback_that_cannot_be_saved_can_be_saved_without_it():
    model = regressor(callback=lambda step: None)
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(model)
    other = by_pickle(model.set_params(callback=None))
    assert_same_answers(answers(other), answers(model))


def test_a_model_with_callbacks_of_scikit_learn_can_be_saved(way, capsys):
    callbacks = pytest.importorskip("sklearn.callback")
    pytest.importorskip("rich")
    model = SparseGPClassifier(**QUICK)
    model.set_callbacks(callbacks.ProgressBar())
    assert type(way(model)._skl_callbacks[0]) is callbacks.ProgressBar
    model.fit(rows(), labels(2))
    other = way(model)
    assert_same_answers(answers(other), answers(model))
    assert_same_answers(answers(other.fit(rows(), labels(2))), answers(model))


def test_what_is_said_of_a_fit_is_not_said_again_by_a_saved_model(recwarn):
    model = CASES["regression"]()
    recwarn.clear()
    answers(by_pickle(model))
    assert not [one for one in recwarn if one.category is ConvergenceWarning]


def test_pictures_keep_their_data():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from sparsegpc.displays import ConvergenceDisplay, SparsityDisplay

    model = regressor()
    for display in (
        ConvergenceDisplay.from_estimator(model),
        SparsityDisplay.from_estimator(model, rows(), targets()),
    ):
        other = by_pickle(display)
        assert vars(other).keys() == vars(display).keys()
        assert other.plot().figure_ is not None
    matplotlib.pyplot.close("all")
