"""Warnings about weights that are whole numbers, but no counts of records."""

import numpy as np
import pytest

from sparsegpc import (
    SparseGPClassifier,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPGeneralizedRegressor,
    StochasticSparseGPRegressor,
)
from sparsegpc._core.rows.merged_rows import merge_with_targets
from sparsegpc._estimators.messages.weight_warnings import weight_warnings

RECORDS = "a weight of k counts as k records with equal targets"
TARGETS = {
    "labels": lambda rng, f: rng.uniform(size=len(f)) < 1.0 / (1.0 + np.exp(-f)),
    "counts": lambda rng, f: rng.poisson(np.exp(f)),
    "numbers": lambda rng, f: f + rng.standard_normal(len(f)),
}


def survey(rng, n=300, mean=10.0, kind="labels", are_answers=True):
    """Return columns, targets and rounded weights of n answers, of age, sex and a region."""
    X = np.column_stack(
        [rng.randint(18, 90, n), rng.randint(0, 2, n), rng.randint(0, 5, n)]
        if are_answers
        else rng.standard_normal((3, n))
    ).astype(float)
    weight = np.maximum(1.0, np.round(mean * rng.lognormal(-0.25, 0.7, n)))
    return X, TARGETS[kind](rng, (X[:, 0] - X[:, 0].mean()) / X[:, 0].std()), weight


def table_of_counts(X, y):
    """Return columns, targets and counts of the different records."""
    X, counts = np.unique(np.column_stack([X, y]), axis=0, return_counts=True)
    return X[:, :-1], X[:, -1], counts.astype(float)


def is_warned(X, y, weight):
    """Return whether weights are reported, which does not depend on whether rows are merged."""
    merged = merge_with_targets(X, y, weight)
    found = [len(weight_warnings(weight, rows)) for rows in ((X, y, weight), merged)]
    assert found[0] == found[1]
    return bool(found[0])


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("n", [200, 1000])
@pytest.mark.parametrize("are_answers", [True, False])
def test_rounded_weights_of_records_are_reported(kind, n, are_answers, rng):
    X, y, weight = survey(rng, n, kind=kind, are_answers=are_answers)
    assert is_warned(X, y, weight)
    assert is_warned(X, y, 100.0 * weight)
    factor = weight.sum() / (weight**2).sum()
    (warning,) = weight_warnings(weight, (X, y, weight))
    assert warning.category is UserWarning
    assert warning.message.startswith(RECORDS)
    assert f"add up to {1.0 / factor:.3g} times" in warning.message
    assert f"multiply them by {factor:.3g};" in warning.message
    assert not is_warned(X, y, np.ones(n))
    assert weight_warnings(factor * weight, (X, y, factor * weight)) == []


@pytest.mark.parametrize("kind", ["labels", "counts"])
@pytest.mark.parametrize("n", [2000, 20_000])
@pytest.mark.parametrize("effect", [0.3, 2.0])
def test_counts_of_equal_records_are_not_reported(kind, n, effect, rng):
    X, _, _ = survey(rng, n)
    X = X[:, :2]
    y = TARGETS[kind](rng, effect * (X[:, 0] - 54.0) / 21.0)
    X, y, counts = table_of_counts(X, y)
    # There are enough copies to be suspicious.
    assert counts.sum() > 1.5 * counts.sum() ** 2 / (counts**2).sum()
    assert not is_warned(X, y, counts)
    # Nor if a column is then left out, which does not nearly determine the targets.
    if kind == "labels" or effect < 1.0:
        assert not is_warned(X[:, :1], y, counts)


@pytest.mark.parametrize("n_places", [10, 100])
@pytest.mark.parametrize("log_odds", [0.0, -4.0])
@pytest.mark.parametrize("slope", [1.0, 3.0])
def test_successes_of_trials_are_not_reported(n_places, log_odds, slope, rng):
    x = rng.uniform(-2.0, 2.0, (n_places, 1))
    trials = rng.randint(1, 20, n_places)
    successes = rng.binomial(trials, 1.0 / (1.0 + np.exp(-log_odds - slope * x[:, 0])))
    weight = np.concatenate([successes, trials - successes]).astype(float)
    present = weight > 0.0
    rows = np.concatenate([x, x])[present], np.repeat([1, 0], n_places)[present]
    assert not is_warned(*rows, weight[present])


MODELS = {
    "classifier": (SparseGPClassifier, "labels"),
    "one for each class": (lambda **kw: SparseGPClassifier("rbf", **kw), "labels"),
    "generalised regressor": (SparseGPGeneralizedRegressor, "counts"),
    "regressor": (SparseGPRegressor, "numbers"),
    "stochastic classifier": (StochasticSparseGPClassifier, "labels"),
    "stochastic regressor": (StochasticSparseGPRegressor, "numbers"),
    "stochastic generalised regressor": (StochasticSparseGPGeneralizedRegressor, "counts"),
}


def small(name):
    """Return a model that is fitted fast, and the kind of its targets."""
    kind, targets = MODELS[name]
    settings = {"n_epochs": 1} if "stochastic" in name else {"optimizer": None}
    if name == "one for each class":
        settings["likelihood"] = "polya-gamma"
    return kind(n_inducing=5, **settings), targets


@pytest.mark.parametrize("name", MODELS)
def test_each_estimator_reports_weights_of_records_once(name, rng):
    model, kind = small(name)
    X, y, weight = survey(rng, 200, kind=kind, are_answers=False)
    if name == "one for each class":
        y = y + 1 * (X[:, 1] > 0.5)
    weight[1] = 0.0
    with pytest.warns(UserWarning, match=RECORDS) as caught:
        model.fit(X, y, sample_weight=weight)
    (found,) = [item for item in caught if RECORDS in str(item.message)]
    assert found.filename == __file__


def test_a_stream_reports_weights_of_records(rng):
    X, y, weight = survey(rng, 200, are_answers=False)
    model = StochasticSparseGPClassifier(n_inducing=5)
    with pytest.warns(UserWarning, match="multiply the weights of all calls by") as caught:
        model.partial_fit(X, y, [False, True], sample_weight=weight)
    assert RECORDS in str(caught[0].message)


def test_weights_that_hide_the_noise_are_reported_in_other_words_only(rng):
    X, y, weight = survey(rng, 200, kind="numbers", are_answers=False)
    with pytest.warns(UserWarning, match="look free of noise") as caught:
        SparseGPRegressor("rbf", hyperparameters="best").fit(X, y, sample_weight=weight)
    assert not any(RECORDS in str(item.message) for item in caught)
