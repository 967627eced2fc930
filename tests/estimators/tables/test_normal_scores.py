"""Normal scores of columns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm, rankdata

from sparsegpc import NormalScores


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
