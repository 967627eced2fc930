"""Where the search for hyperparameters starts, and the relevance of columns."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
)

from sparsegpc._core.diagnostics.similar_groups import SimilarGroup
from sparsegpc._estimators.kernels.hyperparameters import Entry
from sparsegpc._estimators.kernels.initialization import (
    NEARLY_LINEAR,
    group_starts,
    plain_starts,
    single_columns,
    start_values,
    steep_starts,
    summand_starts,
)
from sparsegpc._estimators.kernels.kernel_trees import summand_indices
from sparsegpc._estimators.kernels.length_scales import lengths_by_column
from sparsegpc._estimators.kernels.named_kernels import KernelChoice
from sparsegpc._estimators.kernels.relevance import column_relevance
from sparsegpc._estimators.kernels.sklearn_kernels import adapt_kernel
from sparsegpc._estimators.kernels.spread import measure_spread
from sparsegpc.kernels import Columns, MainEffects
from tests.estimators.kernels.kernel_cases import (
    CASES,
    EVERY_CASE,
    SCALES,
    WIDE,
    D,
    brute_force_spread,
    rows,
)


def starts_of(kernel, X):
    return start_values(adapt_kernel(kernel, X.shape[1]), measure_spread(X, np.ones(len(X))))


PRODUCTS = [
    ConstantKernel(2.3, WIDE) * RBF(0.01, WIDE),
    ConstantKernel(2.3, WIDE) * Matern(np.full(D, 0.01), WIDE, nu=1.5),
    ConstantKernel(2.3, WIDE) * RBF(np.full(D, 0.01), WIDE)
    + RationalQuadratic(0.01, 1.7, WIDE, WIDE),
]


# Start values


@EVERY_CASE
def test_every_start_is_within_the_bounds_and_has_their_shape(name, rng):
    kernel = CASES[name].kernel
    for X in (rng.randn(20, D), 1e12 * rng.randn(20, D), 1e-12 * rng.randn(20, D)):
        for theta in starts_of(kernel, X):
            assert theta.shape == kernel.theta.shape
            low, high = np.reshape(kernel.bounds, (-1, 2)).T
            assert (low <= theta).all()
            assert (theta <= high).all()


@EVERY_CASE
def test_first_start_is_the_own_theta_of_the_kernel(name, rng):
    kernel = CASES[name].kernel
    assert_array_equal(starts_of(kernel, 100.0 * rng.randn(20, D))[0], kernel.theta)


def test_first_start_is_moved_into_the_bounds(rng):
    kernel = ConstantKernel(1e3, (1e-2, 1e2)) * RBF(1e-3, (1e-1, 1e1))
    assert_allclose(starts_of(kernel, rng.randn(20, D))[0], np.log([1e2, 1e-1]))


@pytest.mark.parametrize("kernel", PRODUCTS, ids=str)
@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e3, 1e12])
def test_length_scales_of_the_starts_scale_along_with_the_data(kernel, scale, rng):
    X = rng.randn(20, D)
    moves = [c is not None for c in adapt_kernel(kernel, D).columns]
    original, scaled = starts_of(kernel, X), starts_of(kernel, scale * X)
    assert len(original) == len(scaled) > 2
    for one, other in zip(original[1:], scaled[1:], strict=True):
        assert_allclose(other - one, np.where(moves, np.log(scale), 0.0), atol=1e-9)


def test_each_length_scale_of_a_start_follows_its_own_column(rng):
    X, scales = rng.randn(20, D), np.array([1e-4, 1.0, 1e5])
    kernel = RBF(np.full(D, 0.01), WIDE)
    for one, other in zip(starts_of(kernel, X)[1:], starts_of(kernel, X * scales)[1:], strict=True):
        assert_allclose(other - one, np.log(scales), atol=1e-9)


@pytest.mark.parametrize("kernel", PRODUCTS, ids=str)
def test_a_common_offset_does_not_move_the_starts(kernel, rng):
    X = rng.randn(20, D)
    for one, other in zip(starts_of(kernel, X), starts_of(kernel, X + 1e6), strict=True):
        assert_allclose(other, one, atol=1e-6)


@pytest.mark.parametrize(("n_features", "shortest"), [(1, 0.05), (2, 0.05**0.5), (30, 60**-0.5)])
@pytest.mark.parametrize("per_column", [False, True])
def test_starts_go_from_the_distance_of_two_rows_to_that_of_close_ones(
    n_features, shortest, per_column, rng
):
    X = rng.randn(40, n_features)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    kernel = RBF(np.full(n_features, 1e-4) if per_column else 1e-4, WIDE)
    starts = np.array(starts_of(kernel, X)[1:])
    distance = brute_force_spread(X)[1]
    assert_allclose(starts[0], np.log(distance))
    assert_allclose(starts[-1], np.log(distance * shortest), atol=1e-12)
    steps = np.diff(starts, axis=0)
    assert (steps < 0.0).all()
    assert (steps >= -np.log(3.0)).all()


@EVERY_CASE
def test_entries_that_are_no_length_scales_are_left_alone(name, rng):
    kernel = CASES[name].kernel
    others = [c is None for c in adapt_kernel(kernel, D).columns]
    for theta in starts_of(kernel, 50.0 * rng.randn(20, D)):
        assert_array_equal(theta[others], kernel.theta[others])


@EVERY_CASE
def test_no_start_occurs_twice(name, rng):
    starts = starts_of(CASES[name].kernel, rng.randn(20, D))
    for k, start in enumerate(starts):
        assert all(np.abs(start - other).max() > 0.05 for other in starts[:k])


@pytest.mark.parametrize("length_scales", ["common", "free"])
def test_a_named_kernel_starts_where_a_start_from_the_data_would(length_scales, rng):
    """So that start is not offered again."""
    X = rng.randn(20, D)
    default = starts_of(
        KernelChoice(None, length_scales).resolve(measure_spread(X, np.ones(20))), X
    )
    lengths = 1e-4 if length_scales == "common" else np.full(D, 1e-4)
    other = starts_of(ConstantKernel() * RBF(lengths, WIDE), X)
    assert_allclose(default, other[1:])


def test_bounds_that_leave_no_room_give_one_start(rng):
    assert len(starts_of(RBF(1.0, (0.999, 1.001)), 1e6 * rng.randn(20, D))) == 1


@pytest.mark.parametrize("name", ["linear", "constant", "periodic", "rbf-fixed", "power"])
def test_kernels_without_known_length_scales_have_their_own_start_only(name, rng):
    assert len(starts_of(CASES[name].kernel, rng.randn(20, D))) == 1


@pytest.mark.parametrize("kernel", PRODUCTS, ids=str)
def test_starts_of_data_that_do_not_vary_are_finite(kernel):
    for theta in starts_of(kernel, np.full((5, D), 1e9)):
        assert np.isfinite(theta).all()


def test_further_parameters_keep_their_start_in_every_start(rng):
    adapted = adapt_kernel(ConstantKernel(2.0) * RBF(SCALES), D)
    more = adapted.extended(np.array([0.5]), np.array([[-2.0, 2.0]]), [Entry("noise")])
    spread = measure_spread(rows(rng, 20), np.ones(20))
    own, extended = start_values(adapted, spread), start_values(more, spread)
    assert len(own) == len(extended) > 1
    for start, longer in zip(own, extended, strict=True):
        assert_array_equal(longer, np.append(start, 0.5))


# How much each column matters


@pytest.mark.parametrize(
    ("kernel", "scales"),
    [
        (RBF(2.0), [2.0, 2.0, 2.0]),
        (ConstantKernel(7.0) * RBF(SCALES), SCALES),
        (Matern(SCALES, nu=1.5), SCALES),
        (ConstantKernel(7.0) * RationalQuadratic(3.0, 0.4), [3.0, 3.0, 3.0]),
        (RBF(SCALES) + ConstantKernel() * Matern(1.0), [0.7, 1.0, 1.0]),
        (RBF(SCALES) * DotProduct(), SCALES),
        (Exponentiation(RBF(SCALES), 2.0), SCALES),
    ],
    ids=str,
)
def test_relevance_is_the_deviation_in_the_shortest_length_scales(kernel, scales, rng):
    X = rng.randn(40, D) * [1.0, 10.0, 0.1]
    relevance = column_relevance(kernel, measure_spread(X, np.ones(40)))
    assert_allclose(relevance, X.std(axis=0) / scales)


def test_a_column_that_does_not_vary_has_no_relevance(rng):
    X = np.column_stack([rng.randn(20), np.full(20, 3.0)])
    spread = measure_spread(X, np.ones(20))
    assert_allclose(column_relevance(RBF([0.5, 0.1]), spread), [X[:, 0].std() / 0.5, 0.0])
    assert_array_equal(
        column_relevance(RBF(0.5), measure_spread(np.ones((5, 2)), np.ones(5))), [0.0, 0.0]
    )


@pytest.mark.parametrize("kernel", [DotProduct(), ConstantKernel(), ExpSineSquared()], ids=str)
def test_without_length_scales_nothing_is_said_of_relevance(kernel, rng):
    assert column_relevance(kernel, measure_spread(rng.randn(20, 1), np.ones(20))) is None


def test_single_columns_matter_by_themselves_only(rng):
    """The last column does not vary, and the bound of the second one is short."""
    X = np.column_stack([rng.randn(50, 2) * [1.0, 100.0], np.ones(50)])
    deviations = X.std(axis=0)
    bounds = [(1e-3, 1e4), (1e-3, 50.0), (1e-3, 1e4)]
    kernel = adapt_kernel(ConstantKernel(3.0) * RBF([1.0, 1.0, 1.0], bounds), 3)
    theta, values = single_columns(kernel, measure_spread(X, np.ones(50)))
    # Two columns vary, so the typical length scale is twice the deviation.
    assert_allclose(np.exp(theta[:3]), [3.0, 8.0 * deviations[0], 50.0])
    assert list(values) == [1, 2]
    assert_allclose(np.exp(values[1]), [0.3 * deviations[0], deviations[0]])
    assert_allclose(np.exp(values[2]), np.minimum([0.3 * deviations[1], deviations[1]], 50.0))


def test_a_common_length_scale_has_no_single_columns(rng):
    X = rng.randn(50, 3)
    kernel = adapt_kernel(ConstantKernel() * RBF(), 3)
    theta, values = single_columns(kernel, measure_spread(X, np.ones(50)))
    assert len(theta) == 2
    assert values == {}


# A nearly linear function


def test_one_start_is_nearly_linear_with_the_slopes_of_the_others(rng):
    X = rng.randn(40, 6) * 2.0
    adapted = adapt_kernel(ConstantKernel(2.0) * RBF(1.0), 6)
    spread = measure_spread(X, np.ones(40))
    *others, linear = plain_starts(adapted, spread)
    assert_array_equal(others, start_values(adapted, spread))
    longest = np.exp(others[1])
    assert_allclose(np.exp(linear) / longest, [NEARLY_LINEAR**2, NEARLY_LINEAR])
    # Along a line through the rows such a function deviates little from a line.
    kernel = ConstantKernel(np.exp(linear[0])) * RBF(np.exp(linear[1]))
    line = np.linspace(-4.0, 4.0, 9)[:, None] * np.ones(6) / np.sqrt(6.0)
    design = np.column_stack([np.ones(9), line[:, 0]])
    K = kernel(line)
    rest = np.eye(9) - design @ np.linalg.pinv(design)
    slope = np.linalg.pinv(design)[1]
    assert np.trace(rest @ K @ rest) < 0.01 * slope @ K @ slope


def test_without_a_variance_there_is_no_nearly_linear_start(rng):
    adapted, spread = adapt_kernel(RBF(1.0), 2), measure_spread(rng.randn(20, 2), np.ones(20))
    assert_array_equal(plain_starts(adapted, spread), start_values(adapted, spread))


# Starts for a function of a few columns


def test_the_columns_of_a_group_alone_or_beside_others_begin_at_their_distances(rng):
    X = rng.randn(50, 3) * [1.0, 2.0, 3.0]
    adapted = adapt_kernel(ConstantKernel(2.0) * RBF(np.ones(3)), 3)
    spread = measure_spread(X, np.ones(50))
    theta = np.log([5.0, 0.1, 30.0, 40.0])
    group = SimilarGroup([0, 1], np.array([0.2, 0.3]), 0.5, 1.0)
    alone, added = np.exp(group_starts(adapted, spread, theta, group))
    assert_allclose(alone[:3], [2.0, 0.2, 0.3])
    assert alone[3] > 3.0 * spread.deviations[2]
    # A shorter length scale stays.
    assert_allclose(added, [5.0, 0.1, 0.3, 40.0])


def test_a_column_may_have_several_length_scales_of_its_own(rng):
    spread = measure_spread(np.column_stack([rng.randn(20, 2), np.ones(20)]), np.ones(20))
    kernel = RBF(np.ones(3)) + Columns(RBF(1.0), [0]) + MainEffects()
    adapted = adapt_kernel(kernel, 3)
    assert lengths_by_column(adapted, spread) == {0: [0, 3], 1: [1]}
    group = SimilarGroup([0, 1], np.array([0.2, 0.3]), 0.5, 1.0)
    alone, added = np.exp(group_starts(adapted, spread, adapted.theta, group))
    for start in (alone, added):
        assert_allclose(start[[0, 1, 3]], [0.2, 0.3, 0.2])


@pytest.mark.parametrize("kernel", [RBF(1.0), DotProduct(1.0), RBF([1.0, 1.0], "fixed")])
def test_other_kernels_have_no_length_scales_of_single_columns(kernel, rng):
    spread = measure_spread(rng.randn(20, 2), np.ones(20))
    assert lengths_by_column(adapt_kernel(ConstantKernel(1.0) * kernel, 2), spread) == {}


# Summands


def test_each_start_of_a_summand_leaves_the_others_hardly_any_variance(rng):
    one, two = ConstantKernel(3.0) * RBF(0.3), ConstantKernel(0.2) * ExpSineSquared(1.0, 2.0)
    kernel = one + two + DotProduct(0.7, (1e-4, 1e4))
    X = rng.randn(30, D)
    hyperparameters, spread = adapt_kernel(kernel, D), measure_spread(X, np.ones(30))
    indices = summand_indices(kernel)
    assert indices == [[0, 1], [2, 3, 4], [5]]
    model = SimpleNamespace(kernel=hyperparameters.kernel, some_rows=lambda: X)
    usual = plain_starts(hyperparameters, spread)
    starts = summand_starts(hyperparameters, usual, model, indices)
    own = [start[:2] for start in usual]
    firsts = [start for start in starts if start[0] > np.log(1e-5)]
    assert_allclose([start[:2] for start in firsts], own)
    for start in starts:
        summands = [k.clone_with_theta(start[i]) for k, i in zip((one, two), indices, strict=False)]
        variances = [k.diag(X).mean() for k in summands] + [np.exp(2.0 * start[5])]
        assert sum(v < 1.1e-5 for v in variances) == 2


def test_only_sums_have_summands():
    for kernel in (RBF(), ConstantKernel() * (RBF() + RBF(2.0))):
        assert summand_indices(kernel) == []


@pytest.mark.parametrize("lengths", [1.0, [1.0, 1.0, 1.0]], ids=["common", "free"])
def test_a_steep_start_has_slopes_of_the_given_variance(lengths, rng):
    """The slopes of a smooth function have its variance over the squared length scale."""
    X = rows(rng, 50) * [1.0, 10.0, 0.1]
    spread = measure_spread(X, np.ones(50))
    kernel = ConstantKernel(2.0, (1e-9, 1e9)) * RBF(lengths, (1e-9, 1e9))
    (theta,) = steep_starts(adapt_kernel(kernel, 3), spread, 50.0)
    slopes = np.exp(theta[0] - 2.0 * theta[1:]) * spread.deviations**2
    assert_allclose(slopes.mean(), 50.0)


def test_a_kernel_without_a_variance_has_no_steep_start(rng):
    spread = measure_spread(rows(rng, 50), np.ones(50))
    assert steep_starts(adapt_kernel(RBF(), 3), spread, 50.0) == []
