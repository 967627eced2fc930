"""Warnings about targets that the noise does not suit, and about copies of records."""

import numpy as np
import pytest
from scipy.stats import lognorm, qmc

from sparsegpc import SparseGPClassifier, SparseGPGeneralizedRegressor, SparseGPRegressor
from sparsegpc._estimators.messages.target_warnings import skewness_warnings
from tests.estimators.messages.test_fit_warnings import texts_of

SKEWED, REPEATED = "positive and skewed", "counts as new evidence"


def amounts(noise, seed=0, n=300):
    """Return inputs, and positive targets whose logarithms have this noise."""
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, 2))
    return X, np.exp(X[:, 0] + np.sin(X[:, 1]) + noise * rng.standard_normal(n))


@pytest.mark.parametrize("seed", range(3))
def test_skewed_amounts_are_reported_once_with_the_class_that_suits_them(seed):
    X, y = amounts(1.0, seed)
    texts = texts_of(SparseGPRegressor(), X, y)
    assert len(texts) == 1
    assert SKEWED in texts[0]
    assert "SparseGPGeneralizedRegressor" in texts[0]
    assert not any(SKEWED in text for text in texts_of(SparseGPGeneralizedRegressor(), X, y))


@pytest.mark.parametrize(
    "change",
    [lambda y: y - y.min(), np.log, lambda y: y + 1e4],
    ids=["zeros", "logarithms", "far from zero"],
)
def test_other_targets_are_not_called_skewed(change):
    X, y = amounts(1.0)
    y = change(y)
    assert not any(SKEWED in text for text in texts_of(SparseGPRegressor(), X, y))


def test_skewed_targets_that_f_explains_are_not_reported():
    X, y = amounts(0.01)
    assert not any(SKEWED in text for text in texts_of(SparseGPRegressor(), X, y))


def test_the_gain_is_that_of_the_log_normal_distribution():
    rng = np.random.RandomState(0)
    y = rng.lognormal(1.0, 1.5, (2, 50))
    weight = rng.randint(1, 4, 50).astype(float)
    expected = 0.0
    for output in y:
        centre = np.average(np.log(output), weights=weight)
        shape = np.sqrt(np.average((np.log(output) - centre) ** 2, weights=weight))
        expected += weight @ lognorm(shape, scale=np.exp(centre)).logpdf(output)
    (warning,) = skewness_warnings(y, weight, bound=-1e4)
    spread = np.sqrt(
        [np.average((o - np.average(o, weights=weight)) ** 2, weights=weight) for o in y]
    )
    normal = -weight.sum() * (np.log(spread) + 0.5 * np.log(2.0 * np.pi) + 0.5).sum()
    assert f"by {expected - normal:.0f} nats" in warning.message
    least = max(10.0, 0.02 * weight.sum())
    assert skewness_warnings(y, weight, bound=expected - least + 1.0) == []
    assert len(skewness_warnings(y, weight, bound=expected - least - 1.0)) == 1


@pytest.mark.parametrize(("n", "factor"), [(3, 100.0), (6, 10.0), (15, 5.0)])
def test_outliers_are_not_called_skewed(n, factor):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((300, 1))
    y = 10.0 + 2.0 * np.sin(X[:, 0]) + 0.5 * rng.standard_normal(300)
    y[:n] *= factor
    texts = texts_of(SparseGPRegressor(), X, y)
    assert any('set noise="student-t"' in text for text in texts)
    assert not any(SKEWED in text for text in texts)


@pytest.mark.parametrize("outlier", [1e3, 1e4, 1e6])
def test_one_outlier_among_positive_targets_is_called_an_outlier(outlier):
    """The Branin function, of which logarithms are rather normal, and one failed value."""
    X = qmc.LatinHypercube(2, seed=0).random(30)
    x, z = 15.0 * X[:, 0] - 5.0, 15.0 * X[:, 1]
    valley = z - 5.1 / (4.0 * np.pi**2) * x**2 + 5.0 / np.pi * x - 6.0
    y = valley**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(x) + 10.0
    y[-1] = outlier
    texts = texts_of(SparseGPRegressor(normalize_y=True), X, y)
    assert not any(SKEWED in text for text in texts)
    if outlier > 1e3:
        assert any('set noise="student-t"' in text for text in texts)


def test_of_several_outputs_logarithms_can_be_learned():
    X, y = amounts(1.0)
    texts = texts_of(SparseGPRegressor(), X, np.column_stack([y, y[::-1]]))
    (text,) = [text for text in texts if SKEWED in text]
    assert "SparseGPGeneralizedRegressor" not in text


def test_amounts_of_many_orders_of_magnitude_are_reported():
    X, y = amounts(1.0)
    assert any(SKEWED in text for text in texts_of(SparseGPRegressor(), X, y**12))


def test_equal_targets_are_not_called_skewed():
    assert skewness_warnings(np.full((1, 20), 1e-6), np.ones(20), bound=0.0) == []


def labels(n=100):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((n, 3))
    return X, X[:, 0] + rng.standard_normal(n) > 0.0


@pytest.mark.parametrize("likelihood", ["auto", "polya-gamma"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_copies_of_labelled_rows_are_reported_once(likelihood, n_classes):
    X, y = labels()
    y = y + (X[:, 1] > 0.5) * (n_classes - 2)
    model = SparseGPClassifier(likelihood=likelihood)
    texts = texts_of(model, np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert sum(REPEATED in text for text in texts) == 1
    assert any("100 of 200 rows repeat others" in text for text in texts)


def test_copies_of_counts_are_reported():
    X, _ = labels()
    y = np.random.RandomState(1).poisson(np.exp(X[:, 0]))
    model = SparseGPGeneralizedRegressor(likelihood="poisson")
    texts = texts_of(model, np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert any(REPEATED in text for text in texts)


def test_few_copies_are_not_reported():
    X, y = labels()
    texts = texts_of(SparseGPClassifier(), np.vstack([X, X[:10]]), np.append(y, y[:10]))
    assert texts == []


@pytest.mark.parametrize("n_places", [12, 40])
@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_replicates_of_a_design_are_no_copies(n_places, rate):
    rng = np.random.RandomState(0)
    X = np.repeat(rng.standard_normal((n_places, 2)), 15, axis=0)
    texts = texts_of(SparseGPClassifier(), X, rng.uniform(size=len(X)) < rate)
    assert not any(REPEATED in text for text in texts)


def test_rows_of_few_values_may_repeat():
    X, _ = labels()
    texts = texts_of(SparseGPClassifier(), np.round(X[:, :2]), X[:, 0] > 0.5)
    assert not any(REPEATED in text for text in texts)


@pytest.mark.parametrize("seed", range(6))
def test_replicates_of_a_small_factorial_are_no_copies(seed):
    rng = np.random.RandomState(seed)
    X = np.tile([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]], (8, 1))
    is_defect = rng.uniform(size=32) < 0.1
    is_defect[:2] = [True, False]
    texts = texts_of(SparseGPClassifier(n_inducing=4), X, is_defect)
    assert not any(REPEATED in text for text in texts)


def test_rows_measured_twice_with_different_labels_are_no_copies():
    X, y = labels()
    other = np.random.RandomState(2).permutation(y)
    texts = texts_of(SparseGPClassifier(), np.vstack([X, X]), np.append(y, other))
    assert not any(REPEATED in text for text in texts)


def test_copies_that_hide_the_noise_are_reported_in_their_own_words():
    X, y = amounts(0.5, n=100)
    texts = texts_of(SparseGPRegressor(), np.repeat(X, 2, axis=0), np.repeat(np.log(y), 2))
    assert len(texts) == 1
    assert "look free of noise" in texts[0]
