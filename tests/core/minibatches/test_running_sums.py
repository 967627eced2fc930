"""Running sums over a window of rows."""

import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.minibatches.running_sums import (
    added,
    combined,
    no_rows,
    scaled,
    window,
)


def test_window_grows_by_batches_up_to_its_limits():
    assert window(0, 10, None, 0.0) == 10
    assert window(10, 10, None, 0.0) == 20
    assert window(100, 10, 60, 0.0) == 60
    assert window(1000, 10, None, 0.1) == pytest.approx(100)
    assert window(1000, 10, 50, 0.1) == 50
    assert window(0, 10, 5, 0.0) == 10
    assert window(1000, 10, None, 0.1, 20) == pytest.approx(200)
    assert window(1000, 30, None, 0.1, 20) == pytest.approx(300)


def random_sums(rng, m=3):
    A = rng.randn(m, m)
    return no_rows(m)._replace(
        VpV=A @ A.T, Vp=rng.randn(m), Vb=rng.randn(m), precision=2.0, log_scale=-1.0
    )


def test_sums_of_rows_add_up_and_count_as_often_as_asked(rng):
    one, other = random_sums(rng), random_sums(rng)
    both = added(scaled(one, 2.0), other)
    for name in one._fields:
        expected = 2.0 * getattr(one, name) + getattr(other, name)
        assert_allclose(getattr(both, name), expected, rtol=1e-12)
    for part, same in zip(added(no_rows(3), one), one, strict=True):
        assert_array_equal(part, same)


def test_sums_of_all_functions_are_combined_with_the_same_weights(rng):
    choices = [(random_sums(rng), random_sums(rng)) for _ in range(3)]
    found = combined([0.5, -1.0, 1.5], choices)
    assert len(found) == 2
    for k in range(2):
        a, b, c = (choice[k] for choice in choices)
        assert_allclose(found[k].VpV, 0.5 * a.VpV - b.VpV + 1.5 * c.VpV, rtol=1e-10, atol=1e-12)
        assert found[k].log_scale == pytest.approx(-1.0)
