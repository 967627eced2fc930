"""Fits give the same answer whatever happens to the order of sums; see `same_answer`."""

import pytest

from tests.hardening import same_answer, same_cases

CASES, SAME_BITS, SAME_NUMBERS = same_cases.SHORT, same_cases.SAME_BITS, same_cases.SAME_NUMBERS
# How far apart, relative to their size, bounds and predictions at given hyperparameters may be, and
# the bounds of searches, whose ends differ by as much as they leave to be gained.
GIVEN, LEARNED_BOUND = 1e-12, 1e-3
# All circumstances are tried on models that are quick, some on models that learn.
QUICK = [
    "classifier, given",
    "regressor, given",
    "regressor, polynomial noise, given",
    "regressor, process noise, given",
    "regressor, groups of columns, given",
]
LEARNED = [
    "classifier, hgv",
    "classifier, moving points",
    "classes, dirichlet",
    "counts, negative-binomial",
    "regressor, length scales",
    "stochastic classifier",
    "neighbours, given",
]


@pytest.fixture(scope="module")
def plain():
    """Plain answers, each computed once."""
    return same_answer.answers({name: CASES[name] for name in [*QUICK, *LEARNED]})


def fit(name, way, plain):
    case = CASES[name]
    return way(case.estimator, *same_cases.load(case.data), plain[name])


@pytest.mark.parametrize("name", QUICK)
def test_circumstances_do_not_change_a_bit(name, plain):
    # Two threads are tried on what is learned.
    for way in [way for way in SAME_BITS if way != "2 threads"]:
        assert same_cases.is_same(*fit(name, SAME_BITS[way], plain)), way


@pytest.mark.parametrize("name", LEARNED)
def test_circumstances_do_not_change_a_bit_of_what_is_learned(name, plain):
    assert same_cases.is_same(*fit(name, SAME_BITS["rows permuted"], plain))
    # By two threads, and by one in the same blocks.
    found, expected = fit(name, SAME_BITS["2 threads"], plain)
    assert same_cases.is_same(found, expected)
    # Other sums hardly change the bound that is learned.
    bound, _ = same_cases.far(expected, plain[name])
    assert bound < LEARNED_BOUND


# Rows on disk and of Dask are read in blocks of 200, too.
@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("way", [way for way in SAME_NUMBERS if way != "blocks of 200"])
def test_other_sums_change_nothing_but_rounding(name, way, plain):
    if way.endswith("Dask array"):
        pytest.importorskip("dask.array")
    bound, predictions = same_cases.far(*fit(name, SAME_NUMBERS[way], plain))
    assert bound < GIVEN
    assert predictions < GIVEN


def test_another_process_gives_the_same_bits(plain):
    names = [*QUICK, "classifier, hgv", "classes, dirichlet", "stochastic classifier"]
    found = same_answer.elsewhere(names, long=False, PYTHONHASHSEED="1")
    for name in names:
        assert same_cases.is_same(found[name], plain[name]), name


def test_another_blas_gives_the_same_bound_at_given_hyperparameters(plain):
    """Where numpy comes with another BLAS than OpenBLAS this is the same as the last test."""
    found = same_answer.elsewhere(QUICK, long=False, OPENBLAS_CORETYPE="Prescott")
    for name in QUICK:
        bound, predictions = same_cases.far(found[name], plain[name])
        assert bound < GIVEN, name
        assert predictions < GIVEN, name
