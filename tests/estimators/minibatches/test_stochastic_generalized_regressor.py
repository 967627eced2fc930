"""The generalised regressor from minibatches: that it finds what the one of all rows finds."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sparsegpc import SparseGPGeneralizedRegressor, StochasticSparseGPGeneralizedRegressor
from sparsegpc._estimators.minibatches import base as minibatches
from sparsegpc.likelihoods import Gamma, NegativeBinomial, Weibull
from tests.estimators.responses import (
    BY_NAME,
    EACH,
    KERNEL,
    grid,
    log_scale,
    simulated,
)

POINTS = np.linspace(-3.0, 3.0, 9)[:, None]
FIXED_KERNEL = ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")
# So many first rows of a stream are kept in the tests of its start.
ENOUGH = 40


def model_of(response, **parameters):
    options = {"likelihood": response.likelihood, "n_inducing": 15, **parameters}
    return StochasticSparseGPGeneralizedRegressor(**options)


def fixed_model(response, **parameters):
    """One that learns nothing but the function."""
    fixed = {"kernel": KERNEL, "learning_rate": 0.0, "selector": POINTS}
    return model_of(response, **{**fixed, **parameters})


def rows_of(row_arguments, rows):
    return {name: values[rows] for name, values in row_arguments.items()}


def stream(model, X, y, row_arguments, blocks, weight=None):
    weight = np.ones(len(y)) if weight is None else weight
    for rows in blocks:
        model.partial_fit(X[rows], y[rows], weight[rows], **rows_of(row_arguments, rows))
    return model


def in_blocks(n, size):
    return np.split(np.arange(n), range(size, n, size))


def answers(model):
    """Return the mean of y, then the bound, the hyperparameters and those of the likelihood."""
    own = [getattr(model.likelihood_, name, 0.0) for name in ("size", "shape")]
    return np.concatenate([model.predict(grid()), [model.lower_bound_], model.kernel_.theta, own])


@pytest.fixture
def few_rows_are_enough(monkeypatch):
    monkeypatch.setattr(minibatches, "START_ROWS", ENOUGH)


# Beside the regressor of all rows


@EACH
@pytest.mark.parametrize("bound", ["auto", "standard"])
def test_at_fixed_hyperparameters_it_is_the_regressor_of_all_rows(response, bound, rng):
    X, y, row_arguments = simulated(response, censored=0.3)
    weight = rng.uniform(0.5, 2.0, len(y))
    model = fixed_model(response, bound=bound).fit(X, y, weight, **row_arguments)
    whole = SparseGPGeneralizedRegressor(
        KERNEL, likelihood=response.likelihood, selector=POINTS, bound=bound, optimizer=None
    ).fit(X, y, weight, **row_arguments)
    assert_allclose(model.lower_bound_, whole.lower_bound_, rtol=1e-5)
    assert_allclose(model.prior_mean_, whole.prior_mean_, rtol=1e-2)
    for ours, theirs in zip(
        model.latent_mean_and_variance(grid()), whole.latent_mean_and_variance(grid()), strict=True
    ):
        assert_allclose(ours, theirs, atol=3e-3)
    assert_allclose(model.predict(grid()), whole.predict(grid()), rtol=1e-2)


@pytest.mark.parametrize("name", ["negative-binomial", "log-normal"])
def test_learning_comes_close_to_the_regressor_of_all_rows(name):
    """In batches and in a stream: function, kernel and the parameter of the likelihood."""
    response = BY_NAME[name]
    X, y, row_arguments = simulated(response, n=600, censored=0.3)
    whole = SparseGPGeneralizedRegressor(
        KERNEL, likelihood=response.likelihood, selector=POINTS
    ).fit(X, y, **row_arguments)
    options = {"kernel": KERNEL, "selector": POINTS, "batch_size": 100, "n_epochs": 5}
    batches = model_of(response, **options).fit(X, y, **row_arguments)
    assert whole.lower_bound_ - 8.0 < batches.lower_bound_ <= whole.lower_bound_ + 0.1
    streamed = stream(model_of(response, **options), X, y, row_arguments, in_blocks(600, 200))
    X_new, y_new, row_arguments = simulated(response, n=1000, seed=1, censored=0.3)
    best, *others = (
        model.log_predictive_density(X_new, y_new, **row_arguments).mean()
        for model in (whole, batches, streamed)
    )
    assert_allclose(others, best, atol=0.01)
    learned = [getattr(model.likelihood_, response.attribute) for model in (whole, batches)]
    assert_allclose(learned[1], learned[0], rtol=0.1)


def test_steps_learn_what_the_first_rows_do_not_tell(monkeypatch):
    # Without the search among the first rows, everything is learned from batches.
    monkeypatch.setattr(minibatches, "learn_theta", lambda first, n: first.hyperparameters.theta)
    response = BY_NAME["negative-binomial"]
    X, y, row_arguments = simulated(response, n=900)
    model = model_of(response, kernel=KERNEL, selector=POINTS, batch_size=60)
    start, end = (clone(model).set_params(n_epochs=n).fit(X, y, **row_arguments) for n in (0, 8))
    # For a constant f the counts vary more.
    assert start.likelihood_.size < 2.0
    assert_allclose(end.likelihood_.size, 3.0, rtol=0.2)
    assert end.lower_bound_ > start.lower_bound_ + 20.0


# Rows and weights


@EACH
def test_weights_are_copies_to_the_last_bit(response, rng):
    X, y, row_arguments = simulated(response, n=60, censored=0.3)
    weight = rng.randint(0, 4, 60)
    copies = rng.permutation(np.repeat(np.arange(60), weight))
    model = fixed_model(response, selector="rpcholesky", n_inducing=8)
    weighted = clone(model).fit(X, y, weight, **row_arguments)
    repeated = clone(model).fit(X[copies], y[copies], **rows_of(row_arguments, copies))
    assert_array_equal(answers(repeated), answers(weighted))
    assert weighted.n_samples_seen_ == np.count_nonzero(weight)


@EACH
def test_rows_that_differ_in_exposure_or_event_only_stay_apart(response):
    X, y = np.zeros((4, 1)), np.array([2.0, 2.0, 3.0, 3.0])
    given = {"exposure": [1.0, 2.0, 1.0, 1.0], "event": [1, 0, 1, 1]}
    row_arguments = {name: given[name] for name in [response.row_argument] if name}
    model = fixed_model(response).fit(X, y, **row_arguments)
    assert model.n_samples_seen_ == (3 if row_arguments else 2)


@pytest.mark.parametrize("name", ["negative-binomial", "weibull"])
@pytest.mark.usefixtures("few_rows_are_enough")
def test_blocks_of_any_size_start_as_one_block(name):
    """With exposures and events that differ between blocks, and some rows twice."""
    response = BY_NAME[name]
    X, y, row_arguments = simulated(response, n=ENOUGH // 2, censored=0.4)
    twice = np.tile(np.arange(ENOUGH // 2), 2)
    data = X[twice], y[twice], rows_of(row_arguments, twice)
    start = model_of(response, kernel=FIXED_KERNEL, n_inducing=2)
    whole = stream(clone(start), *data, [slice(None)])
    for size in (1, 7):
        model = stream(clone(start), *data, in_blocks(ENOUGH, size))
        assert_allclose(answers(model), answers(whole), rtol=1e-7)
        assert model.n_samples_seen_ >= whole.n_samples_seen_ == ENOUGH // 2


@pytest.mark.usefixtures("few_rows_are_enough")
def test_a_saved_model_continues_its_start():
    response = BY_NAME["weibull"]
    X, y, row_arguments = simulated(response, n=100, censored=0.3)
    blocks = in_blocks(100, 15)
    model = stream(fixed_model(response, n_inducing=2), X, y, row_arguments, blocks[:2])
    other = pickle.loads(pickle.dumps(model))
    assert_array_equal(other.survival_function(grid(), [1.0]), model.survival_function(grid(), [1]))
    for each in (model, other):
        stream(each, X, y, row_arguments, blocks[2:])
    assert_array_equal(answers(other), answers(model))


def test_rows_on_disk_are_learned_as_those_in_memory(tmp_path):
    response = BY_NAME["negative-binomial"]
    X, y, row_arguments = simulated(response, n=300)
    X.tofile(tmp_path / "rows")
    on_disk = np.memmap(tmp_path / "rows", dtype=float, mode="r", shape=X.shape)
    model = fixed_model(response).fit(X, y, **row_arguments)
    other = clone(model).fit(on_disk, y, **row_arguments)
    assert_allclose(other.lower_bound_, model.lower_bound_, rtol=1e-6)
    stream(other, on_disk, y, row_arguments, [slice(None)])
    assert other.n_samples_seen_ == 600


# Rows that say little


def test_durations_without_an_upper_limit_may_begin_a_stream():
    response = BY_NAME["weibull"]
    X, y, row_arguments = simulated(response, n=600, censored=0.5)
    censored_first = np.argsort(row_arguments["event"], kind="stable")
    blocks = [censored_first[:1], censored_first[1:20], censored_first[20:]]
    model = stream(model_of(response), X, y, row_arguments, blocks[:2])
    assert (model.predict(grid()) > y.max()).all()
    stream(model, X, y, row_arguments, blocks[2:])
    inside = np.linspace(-2.8, 2.8, 20)[:, None]
    mean, variance = model.latent_mean_and_variance(inside)
    assert (np.abs(mean - log_scale(inside)) < 4.0 * np.sqrt(variance)).all()


# What is refused


@pytest.mark.parametrize(
    ("y", "event", "expected"),
    [
        ([0.0, 3.0, 7.0], None, NegativeBinomial),
        ([0.5, 3.0, 7.0], None, Gamma),
        ([1.0, 3.0, 7.0], [1, 0, 1], Weibull),
    ],
    ids=["whole", "positive", "durations"],
)
def test_the_first_targets_choose_the_likelihood(y, event, expected):
    X = [[0.0], [1.0], [2.0]]
    model = StochasticSparseGPGeneralizedRegressor(FIXED_KERNEL, learning_rate=0.0)
    model.partial_fit(X, y, event=event)
    assert type(model.likelihood_) is expected
    if expected is NegativeBinomial:
        before = dict(vars(model))
        with pytest.raises(ValueError, match=r"y must hold counts.*NegativeBinomial.*got 0\.5"):
            model.partial_fit(X, [1.0, 0.5, 2.0])
        with pytest.raises(ValueError, match="event is not an argument of the likelihood"):
            model.partial_fit(X, [1.0, 2.0, 2.0], event=[1, 1, 0])
        assert all(vars(model)[name] is value for name, value in before.items())
    fitted = clone(model).fit(X, y, event=event)
    assert type(fitted.likelihood_) is expected


@pytest.mark.parametrize(
    ("parameters", "changes", "message"),
    [
        ({}, {"y": [1, -1, 2]}, "y must hold counts.*got -1 in row 1"),
        ({}, {"y": None}, "requires y"),
        ({}, {"exposure": [1, 0, 1]}, "exposure must be from .*, got 0 in row 1"),
        ({"likelihood": "weibull"}, {"event": [0, 0, 0]}, "event must be 1 in some row"),
        ({"likelihood": "weibull"}, {"exposure": 2.0}, "exposure is not an argument"),
        ({"bound": "spherical"}, {}, "'bound' parameter"),
        ({"likelihood": "student"}, {}, "'likelihood' parameter"),
        ({"main_effects": "auto"}, {}, "'main_effects' parameter"),
    ],
    ids=str,
)
def test_what_fit_refuses_leaves_no_trace(parameters, changes, message):
    data = {"X": [[0.0], [1.0], [2.0]], "y": [1, 2, 3], **changes}
    model = StochasticSparseGPGeneralizedRegressor(FIXED_KERNEL, **parameters)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=message):
        model.fit(**data)
    assert vars(model) == before
