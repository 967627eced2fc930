"""What a search says of a likelihood whose expectations are not those of a log-concave density."""

import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sparsegpc._core.likelihoods.base import Likelihood, Sites, SiteState
from sparsegpc._core.likelihoods.checks import MOST_ROWS, initial_states, refuse_negative
from sparsegpc._core.likelihoods.multiclass import Softmax
from sparsegpc._core.rows.merged_rows import merge_rows
from tests.core.likelihoods.own_counts import OwnPoisson

N = 7


class Spoilt(OwnPoisson):
    """Counts, one field of whose expectations is spoilt by a function."""

    def __init__(self, field=None, spoil=None):
        self.field, self.spoil = field, spoil

    def expect(self, y, weight, *moments):
        found = super().expect(y, weight, *moments)
        if self.field is None:
            return found
        return found._replace(**{self.field: self.spoil(getattr(found, self.field))})


def counts(n=N):
    y = np.zeros(n, dtype=[("count", float), ("constant", float)])
    y["count"] = np.arange(n) % 5
    return y, np.linspace(0.5, 2.0, n)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("field", ["value", "slope", "precision", "residual_cost"])
def test_numbers_that_are_not_finite_are_refused_by_name(field, value):
    def spoil(values):
        return np.where(np.arange(N) == 3, value, values)

    with pytest.raises(ValueError, match=rf"Spoilt\(.*expect returned {field} {value} at a row"):
        initial_states(Spoilt(field, spoil), *counts())


@pytest.mark.parametrize(
    ("field", "spoil", "shape"),
    [
        ("value", np.sum, ()),
        ("value", lambda values: values[None], (1, N)),
        ("slope", lambda values: values[0], (N,)),
        ("slope", lambda values: values[:, 1:], (1, N - 1)),
        ("precision", lambda values: values.T, (N, 1)),
        ("residual_cost", lambda values: None, ()),
    ],
)
def test_wrong_shapes_are_refused_with_the_right_ones(field, spoil, shape):
    right = (N,) if field == "value" else (1, N)
    text = re.escape(f"{field} of shape {shape}, but it must be {right}")
    with pytest.raises(ValueError, match=rf"Spoilt\(.*expect returned {text}"):
        initial_states(Spoilt(field, spoil), *counts())


def test_a_residual_cost_may_be_that_of_all_functions():
    states = initial_states(Spoilt("residual_cost", lambda cost: cost[0]), *counts())
    assert_array_equal(states[0].precision, OwnPoisson().initial_states(*counts())[0].precision)


def test_a_negative_precision_is_refused_with_what_to_do():
    with pytest.raises(ValueError, match=r"Spoilt\(.*precision is -.*log-concave.*np\.maximum"):
        initial_states(Spoilt("precision", np.negative), *counts())


@pytest.mark.parametrize("factor", [-1.0, 0.0, 0.5, 1.03])
def test_slopes_that_are_not_derivatives_are_refused_with_what_they_should_be(factor):
    initial_states(OwnStart("slope", lambda slope: (1.0 + 1e-4) * slope), *counts())
    text = r"returned slope .* but the value rises by .* per unit of the mean"
    with pytest.raises(ValueError, match=rf"OwnStart\(.*{text}"):
        initial_states(OwnStart("slope", lambda slope: factor * slope), *counts())


class OwnStart(Spoilt):
    """Counts with initial sites of the user's own."""

    def initial_states(self, y, weight):
        return [SiteState(weight, 0.1 * weight)]


def test_expectations_are_checked_whatever_the_initial_states():
    initial_states(OwnStart(), *counts())
    with pytest.raises(ValueError, match="a precision is -1"):
        initial_states(OwnStart("precision", lambda p: np.minimum(p, -1.0)), *counts())


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ([], r"list of 0, but n_functions is 1"),
        ([SiteState(np.ones(N - 1), np.ones(N))], r"initial_states returned precision of shape"),
        ([SiteState(np.ones(N), np.full(N, np.nan))], "initial_states returned shift nan"),
        ([SiteState(-np.ones(N), np.ones(N))], "a precision is -1"),
    ],
)
def test_initial_states_are_checked(states, message):
    likelihood = OwnStart()
    likelihood.initial_states = lambda y, weight: states
    with pytest.raises(ValueError, match=rf"likelihood OwnStart\(\): .*{message}"):
        initial_states(likelihood, *counts())


def test_initial_precisions_that_are_negative_by_rounding_become_zero():
    likelihood = OwnStart()
    precision = np.append(np.ones(N - 1), -1e-12)
    likelihood.initial_states = lambda y, weight: [SiteState(precision, np.ones(N))]
    (state,) = initial_states(likelihood, *counts())
    assert_array_equal(state.precision, np.append(np.ones(N - 1), 0.0))


def test_fixed_sites_are_checked():
    class Fixed(Likelihood):
        has_fixed_sites = True
        shift = np.ones(N)
        precision = np.ones(N)

        def sites(self, state, y, weight):
            return Sites(self.precision, self.shift, np.zeros(N))

    likelihood = Fixed()
    assert initial_states(likelihood, *counts()) == [None]
    likelihood.precision = -np.ones(N)
    with pytest.raises(ValueError, match=r"Fixed\(\): a precision is -1"):
        initial_states(likelihood, *counts())
    likelihood.precision = np.ones((N, 1))
    with pytest.raises(ValueError, match=r"sites returned precision of shape \(7, 1\)"):
        initial_states(likelihood, *counts())


def test_many_rows_are_not_taken_at_once():
    seen = []

    class Watched(OwnStart):
        def expect(self, y, weight, *moments):
            seen.append(len(weight))
            return super().expect(y, weight, *moments)

    initial_states(Watched(), *counts(5 * MOST_ROWS + 1))
    assert seen
    assert max(seen) <= MOST_ROWS


def test_only_precisions_beyond_rounding_are_negative():
    for scale in (1e-9, 1.0, 1e9):
        precision = scale * np.array([[2.0, 0.0, -1e-7], [1.0, 3.0, 0.0]])
        refuse_negative(OwnPoisson(), precision)
        precision[1, 2] = -1e-4 * scale
        with pytest.raises(ValueError, match="log-concave"):
            refuse_negative(OwnPoisson(), precision)


def test_the_slope_of_each_of_several_functions_is_checked():
    """Those of a softmax add up to zero, whatever their signs."""

    class OwnSoftmax(Softmax):
        sign = 1.0

        def expect(self, *arguments):
            found = super().expect(*arguments)
            return found._replace(slope=self.sign * found.slope)

        def initial_states(self, y, weight):
            zeros = np.zeros(len(weight))
            return [SiteState(0.2 * weight, zeros) for _ in range(self.n_functions)]

    rows = merge_rows(np.arange(12.0)[:, None], np.ones(12))
    likelihood = OwnSoftmax().for_classes(3)
    (y,) = likelihood.targets(np.arange(12) % 3, np.ones(12), rows)
    initial_states(likelihood, y, np.ones(12))
    likelihood.sign = -1.0
    with pytest.raises(ValueError, match="returned slope"):
        initial_states(likelihood, y, np.ones(12))
