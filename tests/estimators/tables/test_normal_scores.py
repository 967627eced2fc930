"""Normal scores of columns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm, rankdata
from sklearn.compose import TransformedTargetRegressor

from sparsegpc import NormalScores, SparseGPRegressor


@given(values=st.lists(st.integers(-5, 5) | st.floats(-1e6, 1e6), min_size=1, max_size=40))
def test_scores_are_normal_quantiles_of_ranks(values):
    values = np.array(values, dtype=float)
    scores = NormalScores().fit_transform(values[:, None])[:, 0]
    expected = norm.ppf((rankdata(values) - 0.5) / len(values))
    assert_allclose(scores, expected, atol=1e-12)


@given(
    values=st.lists(st.floats(-100, 100), min_size=1, max_size=30, unique=True),
    places=st.lists(st.floats(-200, 200), min_size=2, max_size=10),
)
def test_scores_of_new_values_rise_and_stay_in_range(values, places):
    transformer = NormalScores().fit(np.array(values)[:, None])
    scores = transformer.transform(np.sort(places)[:, None])[:, 0]
    assert (np.diff(scores) >= 0.0).all()
    assert scores.min() >= transformer.scores_[0][0]
    assert scores.max() <= transformer.scores_[0][-1]


def test_an_increasing_function_changes_nothing():
    X = np.random.RandomState(0).randn(50, 3)
    assert_array_equal(NormalScores().fit_transform(X), NormalScores().fit_transform(np.exp(X)))


def test_the_inverse_returns_the_values():
    X = np.exp(3.0 * np.random.RandomState(0).normal(size=(50, 2)))
    X[:10, 0] = X[0, 0]
    scores = NormalScores().fit(X)
    assert_allclose(scores.inverse_transform(scores.transform(X)), X, rtol=1e-12)
    ends = scores.inverse_transform([[-99.0, np.nan], [99.0, 0.0]])
    assert_allclose(ends[:, 0], [X[:, 0].min(), X[:, 0].max()])
    assert np.isnan(ends[0, 1])
    with pytest.raises(ValueError, match="must have 2 columns of scores"):
        scores.inverse_transform(X[:, :1])


def test_skewed_targets_may_be_transformed():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(80, 1))
    y = np.exp(2.0 * np.sin(X[:, 0]) + 0.1 * rng.normal(size=80))
    regressor = SparseGPRegressor(n_inducing=20)
    model = TransformedTargetRegressor(regressor, transformer=NormalScores()).fit(X, y)
    assert np.corrcoef(np.log(model.predict(X)), np.log(y))[0, 1] > 0.98


def test_missing_values_stay_missing_and_have_no_rank():
    X = np.array([[3.0], [np.nan], [1.0], [2.0]])
    scores = NormalScores().fit_transform(X)[:, 0]
    assert np.isnan(scores[1])
    assert_allclose(np.delete(scores, 1), norm.ppf([5 / 6, 1 / 6, 3 / 6]))


def test_a_column_of_missing_values_stays_missing():
    X = np.array([[1.0, np.nan], [2.0, np.nan]])
    transformer = NormalScores().fit(X)
    assert np.isnan(transformer.transform([[1.0, 7.0]])[0, 1])


def test_few_values_stand_for_many():
    X = np.random.RandomState(0).standard_cauchy((5000, 1))
    few, all_values = NormalScores(max_values=1000).fit(X), NormalScores().fit(X)
    assert len(few.values_[0]) == 1000
    assert_allclose(few.transform(X), all_values.transform(X), atol=0.5)
    middle = np.abs(X) < 10
    assert_allclose(few.transform(X)[middle], all_values.transform(X)[middle], atol=0.01)


def test_infinite_values_are_refused():
    with pytest.raises(ValueError, match="infinity"):
        NormalScores().fit([[1.0], [np.inf]])
