"""Streams: their first rows are kept until they suffice to choose points and hyperparameters."""

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sparsegpc import (
    HomoscedasticNoise,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPGeneralizedRegressor,
    StochasticSparseGPRegressor,
)
from sparsegpc._core.minibatches.stochastic_model import StochasticModel
from sparsegpc._core.rows.sources import RowSource
from sparsegpc._estimators.minibatches import base as minibatches

KINDS = pytest.mark.parametrize(
    "kind", [StochasticSparseGPRegressor, StochasticSparseGPClassifier], ids=["targets", "labels"]
)
# So many rows end the start of a stream if there are two points.
ENOUGH = 40
NEW = np.linspace(-2.5, 2.5, 9)[:, None] * [1.0, -0.5]
POINTS = np.stack(np.meshgrid([-3.0, -1.0, 1.0, 3.0], [-2.0, 2.0]), axis=-1).reshape(-1, 2)
FIXED = ConstantKernel(2.0, "fixed") * RBF(1.5, "fixed")


@pytest.fixture(autouse=True)
def few_rows_are_enough(monkeypatch):
    monkeypatch.setattr(minibatches, "START_ROWS", ENOUGH)


def waves(kind, n=ENOUGH):
    """Return rows in a square, and a sine of the first column with noise, or its sign."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-3.0, 3.0, (n, 2))
    y = np.sin(X[:, 0]) + 0.2 * rng.standard_normal(n)
    return X, (y > 0.0).astype(int) if kind is StochasticSparseGPClassifier else y


def learn(model, X, y, weight=None):
    classes = {"classes": [0, 1]} if hasattr(model, "predict_proba") else {}
    return model.partial_fit(X, y, sample_weight=weight, **classes)


def stream(model, X, y, size, weight=None):
    """Give a model the rows in blocks of a size; the last may be smaller."""
    weight = np.ones(len(y)) if weight is None else weight
    for first in range(0, len(y), size):
        rows = slice(first, first + size)
        learn(model, X[rows], y[rows], weight[rows])
    return model


def answers(model):
    """Return predictions, then the bound and the hyperparameters."""
    if hasattr(model, "predict_proba"):
        predictions = model.predict_proba(NEW)[:, 1]
    else:
        predictions = model.predict(NEW)
    return np.concatenate([predictions, [model.lower_bound_], model.kernel_.theta])


@KINDS
@pytest.mark.parametrize("size", [1, 7])
def test_blocks_of_any_size_start_as_one_block(kind, size):
    """Although their rows are sorted, so that the first labels are of one class."""
    X, y = waves(kind)
    order = np.argsort(y, kind="stable")
    model = stream(kind(n_inducing=2), X[order], y[order], size)
    whole = learn(kind(n_inducing=2), X, y)
    assert_allclose(answers(model), answers(whole), rtol=1e-8)
    assert_array_equal(model.inducing_points_, whole.inducing_points_)
    assert model.n_samples_seen_ == ENOUGH
    assert model.n_steps_ == len(model.history_["seconds"]) == -(-ENOUGH // size)


def test_a_column_may_be_constant_in_the_first_block():
    X, y = waves(StochasticSparseGPRegressor)
    X[:20, 0] = X[0, 0]
    model = StochasticSparseGPRegressor(RBF([1.0, 1.0]), n_inducing=2)
    answers_of_parts = answers(stream(model, X, y, 20))
    assert_allclose(answers_of_parts, answers(learn(clone(model), X, y)), rtol=1e-8)


@KINDS
def test_everything_is_learned_anew_when_the_rows_have_doubled(kind):
    X, y = waves(kind)
    model, n_points, thetas = kind(n_inducing=20), [], []
    for row in range(12):
        learn(model, X[[row]], y[[row]])
        n_points.append(len(model.inducing_points_))
        thetas.append(tuple(model.kernel_.theta))
    assert n_points == [1, 2, 2, *[4] * 4, *[8] * 5]
    changes = {row + 1 for row, (old, new) in enumerate(pairwise(thetas), 1) if old != new}
    assert {4, 8} <= changes <= {2, 4, 8}


@settings(max_examples=15)
@given(n=st.integers(2, 100), size=st.integers(3, 50), batch_size=st.integers(5, 70))
def test_no_row_is_lost_or_counted_twice(n, size, batch_size):
    """The regressor of all rows, at the same hyperparameters, is the same."""
    X, y = waves(StochasticSparseGPRegressor, n)
    weight = np.random.RandomState(1).randint(1, 4, n)
    model = StochasticSparseGPRegressor(
        FIXED, n_inducing=2, selector=POINTS, batch_size=batch_size, learning_rate=0.0
    )
    stream(model, X, y, size, weight)
    whole = SparseGPRegressor(
        FIXED, noise=HomoscedasticNoise(model.noise_variance_), selector=POINTS, optimizer=None
    ).fit(X, y, sample_weight=weight)
    assert_allclose(model.lower_bound_, whole.lower_bound_, rtol=1e-6)
    ours, theirs = (m.latent_mean_and_variance(NEW) for m in (model, whole))
    assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)
    assert model.n_samples_seen_ == n


@KINDS
def test_a_row_that_comes_again_counts_as_a_weight_of_two(kind):
    X, y = waves(kind, ENOUGH // 2 - 1)
    again = learn(learn(kind(n_inducing=2), X, y), X, y)
    heavy = learn(kind(n_inducing=2), X, y, np.full(len(y), 2.0))
    assert_array_equal(answers(again), answers(heavy))
    assert again.n_samples_seen_ == 2 * heavy.n_samples_seen_


@KINDS
def test_single_rows_after_the_start_teach_what_blocks_do(kind):
    X, y = waves(kind, ENOUGH + 120)
    start = kind(RBF(1.0), n_inducing=2, batch_size=20, selector=POINTS, learning_rate=0.05)
    learn(start, X[:ENOUGH], y[:ENOUGH])
    block, *others = (
        answers(stream(copy.deepcopy(start), X[ENOUGH:], y[ENOUGH:], size)) for size in (20, 5, 1)
    )
    moved = np.abs(block - answers(start))
    assert moved[-1] > 0.05
    for other in others:
        assert_allclose(other[-1], block[-1], atol=0.2 * moved[-1])
        assert_allclose(other[:9], block[:9], atol=0.05)


@KINDS
def test_memory_of_few_rows_ends_the_start(kind):
    X, y = waves(kind)
    model = stream(kind(memory=10), X, y, 4)
    assert len(model.inducing_points_) == 10
    assert model.history_["n_samples"].tolist() == [4, 8, *[10] * 8]


@pytest.mark.parametrize("size", [10, 1000])
@pytest.mark.parametrize(("old", "new"), [(0.2, 1.0), (1.0, 0.2)])
def test_the_noise_follows_within_five_times_the_memory(old, new, size, rng):
    """By a factor of 5, in blocks of any size, whatever came before."""
    memory = 200
    X = rng.uniform(-3.0, 3.0, (2000 + 5 * memory, 1))
    deviation = np.where(np.arange(len(X)) < 2000, old, new)
    y = np.sin(2.0 * X[:, 0]) + deviation * rng.standard_normal(len(X))
    model = StochasticSparseGPRegressor(n_inducing=12, memory=memory)
    stream(model, X[:2000], y[:2000], 1000)
    assert_allclose(np.sqrt(model.noise_variance_), old, rtol=0.2)
    stream(model, X[2000:], y[2000:], size)
    assert_allclose(np.sqrt(model.noise_variance_), new, rtol=0.2)


@pytest.mark.parametrize(("old", "new"), [(20.0, 2.0), (2.0, 20.0)])
def test_the_shape_of_positive_targets_follows(old, new, rng):
    memory = 200
    X = rng.uniform(-3.0, 3.0, (2000 + 5 * memory, 1))
    shape = np.where(np.arange(len(X)) < 2000, old, new)
    y = np.exp(np.sin(2.0 * X[:, 0])) * rng.gamma(shape) / shape
    model = StochasticSparseGPGeneralizedRegressor(n_inducing=12, memory=memory, likelihood="gamma")
    stream(model, X[:2000], y[:2000], 1000)
    assert_allclose(model.likelihood_.shape, old, rtol=0.3)
    stream(model, X[2000:], y[2000:], 100)
    assert_allclose(model.likelihood_.shape, new, rtol=0.3)


@KINDS
def test_a_stream_that_stays_the_same_is_learned_as_well_with_a_memory(kind, rng):
    X = rng.uniform(-3.0, 3.0, (6000, 1))
    f = np.sin(2.0 * X[:, 0])
    is_classifier = kind is StochasticSparseGPClassifier
    y = (rng.rand(6000) < expit(4.0 * f)).astype(int) if is_classifier else f
    y = y if is_classifier else y + 0.5 * rng.standard_normal(6000)
    model, places = kind(n_inducing=12, memory=500), np.linspace(-2.8, 2.8, 50)[:, None]
    errors = []
    for first in range(0, 6000, 500):
        learn(model, X[first : first + 500], y[first : first + 500])
        truth = np.sin(2.0 * places[:, 0])
        if is_classifier:
            found = model.predict_proba(places)[:, 1]
            errors.append(np.abs(found - expit(4.0 * truth)).mean())
        else:
            assert 0.42 < np.sqrt(model.noise_variance_) < 0.58
            errors.append(np.abs(model.predict(places) - truth).mean())
    assert max(errors) < 0.12


@KINDS
def test_a_large_first_block_is_more_than_enough(kind):
    X, y = waves(kind, 300)
    model = learn(kind(FIXED, n_inducing=2, selector=POINTS), X, y)
    assert model.history_["n_samples"].tolist() == [300]
    assert model.score(X, y) > 0.8


@KINDS
def test_a_large_block_on_disk_is_read_batch_by_batch(kind, tmp_path, monkeypatch):
    X, y = waves(kind, 300)
    on_disk = np.memmap(tmp_path / "rows", dtype=X.dtype, mode="w+", shape=X.shape)
    on_disk[:] = X
    read, numbers = RowSource.__getitem__, []

    def recorded(source, rows):
        numbers.append(len(read(source, rows)))
        return read(source, rows)

    monkeypatch.setattr(RowSource, "__getitem__", recorded)
    model = learn(kind(FIXED, n_inducing=2, batch_size=30), on_disk, y)
    # The values are checked first, by slices that are larger than this file.
    assert numbers.pop(0) == 300
    assert max(numbers) == ENOUGH
    assert numbers.count(30) >= 8
    assert model.n_samples_seen_ == 300


@KINDS
def test_the_first_rows_are_kept_until_they_are_enough(kind):
    X, y = waves(kind)
    X = np.hstack([X, np.random.RandomState(1).randn(ENOUGH, 50)])
    model = learn(kind(RBF(5.0, "fixed"), n_inducing=2), X[1:], y[1:])
    assert len(pickle.dumps(model)) > 8 * 50 * (ENOUGH - 1)
    assert len(pickle.dumps(learn(model, X[:1], y[:1]))) < 10_000


@KINDS
def test_a_saved_model_continues_its_start(kind):
    X, y = waves(kind)
    model = learn(kind(FIXED, n_inducing=2), X[:25], y[:25])
    other = pickle.loads(pickle.dumps(model))
    for each in (model, other):
        stream(each, X[25:], y[25:], 10)
    assert_array_equal(answers(other), answers(model))


@KINDS
def test_an_interrupted_call_leaves_the_first_rows_as_they_were(kind, monkeypatch):
    X, y = waves(kind)
    model, same = (learn(kind(FIXED, n_inducing=2), X[:25], y[:25]) for _ in range(2))
    with monkeypatch.context() as patch:
        patch.setattr(StochasticModel, "step", None)
        with pytest.raises(TypeError):
            learn(model, X[25:], y[25:])
    for each in (model, same):
        learn(each, X[25:], y[25:])
    assert_array_equal(answers(model), answers(same))


@KINDS
@pytest.mark.filterwarnings("ignore:the learned model is poor")
def test_fit_drops_the_first_rows(kind):
    X, y = waves(kind)
    model = learn(kind(FIXED, n_inducing=2, n_epochs=1), X[:30] + 1.0, y[:30]).fit(X, y)
    fresh = clone(model).fit(X, y)
    for each in (model, fresh):
        learn(each, X - 1.0, y)
    assert_array_equal(answers(model), answers(fresh))
    assert model.n_samples_seen_ == 2 * ENOUGH


@KINDS
def test_fewer_points_in_the_middle_of_the_start_may_end_it(kind):
    X, y = waves(kind, 120)
    model = learn(kind(FIXED, n_inducing=9), X[:80], y[:80])
    learn(model.set_params(n_inducing=2), X[80:], y[80:])
    assert len(model.inducing_points_) == 2
    assert model.history_["n_samples"].tolist() == [80, 120]


def unseen_probability(X, *, n_classes=2, block=None, weight=1.0, **options):
    """The probabilities of other classes after rows of class 0, from blocks of this many rows."""
    model = StochasticSparseGPClassifier(n_inducing=5, **options)
    for rows in np.split(X, range(block or len(X), len(X), block or len(X))):
        y, weights = np.zeros(len(rows)), np.full(len(rows), weight)
        model.partial_fit(rows, y, range(n_classes), weights)
    return model.predict_proba(NEW)[:, 1:]


@pytest.mark.parametrize("n", [1, 5, 30])
@pytest.mark.parametrize(
    ("likelihood", "n_classes"),
    [
        ("bernoulli-logit", 2),
        ("bernoulli-probit", 2),
        ("polya-gamma", 2),
        ("softmax", 4),
        ("ordinal-logit", 3),
    ],
)
def test_classes_that_have_not_occurred_have_about_the_probability_by_jeffreys(
    likelihood, n_classes, n, rng
):
    """The mean of a Dirichlet distribution after n counts; zero would be its maximum."""
    unseen = 0.5 * (n_classes - 1)
    expected = unseen / (n + unseen + 0.5)
    found = unseen_probability(rng.randn(n, 2), n_classes=n_classes, likelihood=likelihood)
    assert np.all(found.sum(axis=1) > 0.25 * expected)
    assert np.all(found.sum(axis=1) < 4.0 * expected)


@pytest.mark.parametrize(
    ("n", "block", "options"),
    [
        (2000, None, {"batch_size": 10}),
        (10, None, {"memory": 10, "batch_size": 10}),
        (20, None, {"memory": 20, "batch_size": 10}),
        (1000, 100, {"memory": 100}),
        (300, 1, {}),
    ],
    ids=str,
)
def test_a_class_that_has_not_occurred_is_possible_whatever_the_batches(n, block, options, rng):
    n_remembered = min(n, options.get("memory", n))
    found = unseen_probability(rng.randn(n, 2), block=block, **options)
    assert np.all((found > 0.1 / n_remembered) & (found < 10.0 / n_remembered))


@pytest.mark.filterwarnings("ignore:a weight counts copies")
@pytest.mark.parametrize("weight", [1e-6, 1e-3, 0.3, 1e6])
def test_a_class_that_has_not_occurred_is_never_the_prediction(weight, rng):
    found = unseen_probability(rng.randn(5, 2), weight=weight)
    assert np.all((found > 0.0) & (found < 0.5))


def test_of_many_classes_those_that_have_not_occurred_are_equally_probable(rng):
    model = StochasticSparseGPClassifier(n_inducing=5, likelihood="softmax", memory=50)
    model.partial_fit(rng.randn(50, 2), np.arange(50) % 2, classes=range(10))
    found = model.predict_proba(NEW)
    assert np.all(found[:, :2] > 0.35)
    assert_allclose(found[:, 2:], found[:, 2:3] @ np.ones((1, 8)), rtol=1e-3)
    assert np.all(found[:, 2:] > 1e-4)


@pytest.mark.filterwarnings("ignore:the class 0 has a share of 0")
def test_a_class_that_comes_late_is_learned(rng):
    model = StochasticSparseGPClassifier(n_inducing=5, batch_size=10)
    model.partial_fit(rng.randn(1000, 2), np.zeros(1000), classes=[0, 1])
    before = model.predict_proba(NEW)[:, 1]
    model.partial_fit(rng.randn(50, 2), np.ones(50))
    after = model.predict_proba(NEW)[:, 1]
    assert np.all((before < 0.01) & (after > 0.1))


@pytest.mark.parametrize("likelihood", ["poisson", "negative-binomial"])
@pytest.mark.parametrize("n", [1, 30])
def test_the_rate_of_counts_is_above_zero_after_zeros(likelihood, n, rng):
    model = StochasticSparseGPGeneralizedRegressor(n_inducing=5, likelihood=likelihood)
    model.partial_fit(rng.randn(n, 2), np.zeros(n), exposure=np.full(n, 2.0))
    rate = model.predict(NEW)
    assert np.all((rate > 0.1 / n) & (rate < 1.0 / n))


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_positive_targets_have_no_scale_in_a_stream(scale, rng):
    X, y = rng.randn(5, 2), np.exp(0.1 * rng.randn(5))
    model = StochasticSparseGPGeneralizedRegressor(n_inducing=5, likelihood="gamma")
    expected = clone(model).partial_fit(X, y).predict(NEW)
    assert_allclose(model.partial_fit(X, scale * y).predict(NEW), scale * expected, rtol=1e-3)


def test_a_rare_class_costs_no_more_than_its_frequency_tells(rng):
    """Predictions before each row, against those of its frequency in the rows so far."""
    X, y = rng.randn(120, 2), rng.uniform(size=120) < 0.05
    model = StochasticSparseGPClassifier(n_inducing=10).partial_fit(X[:1], y[:1], classes=[0, 1])
    losses, references = [], []
    for k in range(1, len(y)):
        losses.append(-np.log(model.predict_proba(X[k : k + 1])[0, int(y[k])]))
        of_this = np.count_nonzero(y[:k] == y[k])
        references.append(-np.log((of_this + 0.5) / (k + 1.0)))
        model.partial_fit(X[k : k + 1], y[k : k + 1])
    assert np.mean(losses) < np.mean(references) + 0.1
    assert max(losses) < max(references) + 1.0


def of_two_classes(n, rng):
    X = rng.randn(n, 2)
    return X, (X[:, 0] + 0.5 * rng.randn(n) > 0.0).astype(int)


SHORT = {"n_inducing": 10, "learning_rate": 0.0}


def test_labels_in_order_are_reported(rng):
    X, y = of_two_classes(5000, rng)
    order = np.argsort(y, kind="stable")
    # After all rows of the first class.
    first = order[:2500]
    model = stream(StochasticSparseGPClassifier(**SHORT), X[first], y[first], 500)
    with pytest.warns(UserWarning, match="the class 0 has a share of 0 in the rows of this call"):
        model.partial_fit(X[order[-500:]], y[order[-500:]])
    # The memory says that classes may change.
    recent = StochasticSparseGPClassifier(memory=2000, **SHORT)
    stream(recent, X[order], y[order], 500)


def test_labels_in_order_are_reported_after_a_fit_to_all_rows(rng):
    X, y = of_two_classes(200, rng)
    model = StochasticSparseGPClassifier(n_epochs=0, **SHORT).fit(X, y)
    with pytest.warns(UserWarning, match="the class 1 has a share of 1 in .* and of 0.4"):
        model.partial_fit(X[y == 1], y[y == 1])


def test_labels_in_random_order_are_not_reported(rng):
    X, y = of_two_classes(4000, rng)
    y[:] = rng.uniform(size=4000) < 0.01
    stream(StochasticSparseGPClassifier(**SHORT), X, y, 500)
    # Nor are blocks of few rows, or the first rows, which are learned from in random order.
    few = stream(StochasticSparseGPClassifier(**SHORT), X[:2500], y[:2500], 500)
    few.partial_fit(X[:19], np.ones(19, dtype=int))
    order = np.argsort(y[:1500], kind="stable")
    stream(StochasticSparseGPClassifier(**SHORT), X[order], y[order], 10)
