"""Kernels by name, and the prior that ties their length scales."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from sparsegpc import SparseGPRegressor
from sparsegpc._estimators.kernels.named_kernels import (
    FEW_COLUMNS,
    MOST_COLUMNS,
    ROWS_PER_COLUMN,
    STATIONARY,
    UNSEEN_OFFSET,
    KernelChoice,
    has_name,
)
from sparsegpc._estimators.kernels.sklearn_kernels import adapt_kernel
from sparsegpc._estimators.kernels.spread import Spread, measure_spread
from sparsegpc.kernels import Laplacian
from tests.estimators.kernels.kernel_cases import D, brute_force_spread, rows


def spread_of(X):
    return measure_spread(X, np.ones(len(X)))


def prior_of(kernel, length_scales, X):
    spread = spread_of(X)
    choice = KernelChoice(kernel, length_scales)
    adapted = adapt_kernel(choice.resolve(spread), X.shape[1])
    return choice.prior(adapted, spread), adapted


# Kernels


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("name", [None, *STATIONARY])
def test_a_named_kernel_is_relative_to_the_spread(name, scale, rng):
    X = scale * rng.randn(30, D) * [1.0, 10.0, 0.1]
    kernel = KernelChoice(name, "free").resolve(spread_of(X))
    assert isinstance(kernel.k1, ConstantKernel)
    assert_allclose(kernel.k2.length_scale, np.sqrt(2.0 * D) * X.std(axis=0), rtol=1e-12)
    low, high = kernel.k2.length_scale_bounds.T
    assert (low <= 1e-2 * kernel.k2.length_scale).all()
    assert (high >= 1e2 * kernel.k2.length_scale).all()


KINDS = {
    None: RBF,
    "rbf": RBF,
    "matern12": partial(Matern, nu=0.5),
    "matern32": partial(Matern, nu=1.5),
    "matern52": partial(Matern, nu=2.5),
    "laplacian": Laplacian,
}


def test_names_stand_for_kernels(rng):
    assert KINDS.keys() - {None} == STATIONARY.keys()
    X = rng.randn(20, D)
    for name, kind in KINDS.items():
        kernel = KernelChoice(name, "free").resolve(spread_of(X))
        assert type(kernel.k2) is type(kind())
        assert_allclose(kernel.k2(X), kind(kernel.k2.length_scale)(X), rtol=1e-12)
        assert [other for other in STATIONARY if has_name(kernel.k2, other)] == [name or "rbf"]


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_a_common_length_scale_is_the_distance_of_two_rows(scale, rng):
    X = rng.randn(30, D)
    kernel = KernelChoice(None, "common").resolve(spread_of(scale * X))
    assert_allclose(kernel.k2.length_scale, scale * brute_force_spread(X)[1], rtol=1e-12)
    assert len(adapt_kernel(kernel, D).theta) == 2


def test_a_single_column_has_a_common_length_scale(rng):
    kernel = KernelChoice(None, "tied").resolve(spread_of(rng.randn(20, 1)))
    assert np.ndim(kernel.k2.length_scale) == 0


@pytest.mark.parametrize("main_effects", [True, False])
def test_very_many_columns_have_a_common_length_scale_unless_the_user_wants_more(main_effects):
    assert FEW_COLUMNS == 100
    X = np.random.RandomState(0).randn(5, FEW_COLUMNS + 2)
    X[:, 0] = 3.0
    n_columns = len(X[0])
    for first, length_scales, expected in (
        (0, "auto", 1),
        (1, "auto", 1),
        (2, "auto", FEW_COLUMNS),
        (0, "tied", n_columns),
        (0, "free", n_columns),
        (2, "common", 1),
    ):
        choice = KernelChoice(None, length_scales, main_effects)
        kernel = choice.resolve(spread_of(X[:, first:]))
        if main_effects:
            assert np.size(kernel.k2.length_scale) == np.size(kernel.k2.variance) == expected
            kernel = kernel.k1
        assert np.size(kernel.k2.length_scale) == expected


@pytest.mark.parametrize(
    ("n_rows", "n_columns", "expected"),
    [
        (ROWS_PER_COLUMN * 120, 120, 120),
        (ROWS_PER_COLUMN * 120 - 1, 120, 1),
        (ROWS_PER_COLUMN * 120, 121, 1),
        (10**6, MOST_COLUMNS, MOST_COLUMNS),
        (10**6, MOST_COLUMNS + 1, 1),
    ],
)
def test_more_columns_need_more_rows_for_a_length_scale_each(n_rows, n_columns, expected):
    spread = Spread(*np.ones((2, n_columns)), 1.0, np.ones(n_columns, dtype=bool), n_rows, {})
    choice = KernelChoice(None)
    kernel = choice.resolve(spread)
    assert np.size(kernel.k2.length_scale) == expected
    prior = choice.prior(adapt_kernel(kernel, n_columns), spread)
    assert len(prior.factors) == (expected > 1)


@pytest.mark.parametrize("length_scales", ["common", "free"])
def test_a_kernel_of_data_that_do_not_vary_is_usable(length_scales):
    kernel = KernelChoice(None, length_scales).resolve(spread_of(np.full((5, D), 1e9)))
    assert np.isfinite(kernel.theta).all()
    assert np.isfinite(kernel.bounds).all()


def test_a_named_kernel_is_relative_to_the_variance(rng):
    spread = spread_of(rows(rng, 20))
    plain = KernelChoice(None, "common").resolve(spread)
    assert plain.k1.constant_value == 1.0
    for variance in (1e-16, 0.3, 1e16):
        kernel = KernelChoice(None, "common").resolve(spread, variance)
        assert_allclose(kernel.k1.constant_value, variance)
        assert_allclose(kernel.k1.constant_value_bounds, variance * np.array([1e-4, 1e9]))
        assert kernel.k2.length_scale == plain.k2.length_scale
        assert_array_equal(kernel.k2.length_scale_bounds, plain.k2.length_scale_bounds)
    several = KernelChoice(None, "common").resolve(spread, np.array([1e-6, 3.0, 1e6])).k1
    assert_allclose(several.constant_value, (1e6 + 3.0 + 1e-6) / 3.0)
    assert_allclose(several.constant_value_bounds, (1e-10, 1e15))


def test_a_given_kernel_is_used_as_it_is(rng):
    kernel = ConstantKernel(2.0) * RBF(0.3)
    assert KernelChoice(kernel, "auto").resolve(spread_of(rng.randn(9, D)), 7.0) is kernel


# Priors


@pytest.mark.parametrize("length_scales", ["auto", "tied"])
def test_the_prior_ties_length_scales_in_units_of_the_spread(length_scales, rng):
    X = rng.randn(30, D) * [1.0, 10.0, 0.1]
    prior, adapted = prior_of(None, length_scales, X)
    equal = np.log([7.0, *(3.0 * X.std(axis=0))])
    assert prior.log_density(equal) == pytest.approx(0.0, abs=1e-12)
    for k, column in enumerate(adapted.columns):
        moved = equal + np.eye(len(equal))[k]
        assert (prior.log_density(moved) < -0.1) == (column is not None)


def test_columns_that_do_not_vary_are_not_tied(rng):
    X = rng.randn(30, D)
    X[:, 1] = 4.0
    prior, adapted = prior_of("matern32", "tied", X)
    gradient = prior.gradient(adapted.theta + np.arange(len(adapted.theta)))
    assert_array_equal(gradient != 0.0, [column in (0, 2) for column in adapted.columns])


@pytest.mark.parametrize("length_scales", ["free", "common"])
def test_only_tied_length_scales_have_a_prior(length_scales, rng):
    assert not prior_of(None, length_scales, rng.randn(30, D))[0].factors


@pytest.mark.parametrize(("length_scales", "count"), [("auto", 0), ("free", 0), ("tied", 2)])
def test_a_given_kernel_is_tied_on_demand(length_scales, count, rng):
    kernel = RBF(np.ones(D)) + ConstantKernel() * Matern(np.ones(D), nu=1.5)
    assert len(prior_of(kernel, length_scales, rng.randn(30, D))[0].factors) == count


@pytest.mark.parametrize("length_scales", ["tied", "free"])
def test_a_kernel_without_a_length_scale_per_column_cannot_be_tied(length_scales, rng):
    with pytest.raises(ValueError, match="one for each column"):
        prior_of(RBF(), length_scales, rng.randn(30, D))


@pytest.mark.parametrize("length_scales", ["tied", "free", "common"])
def test_the_length_scale_of_a_single_column_is_of_any_kind(length_scales, rng):
    prior, _ = prior_of(RBF([1.0]), length_scales, rng.randn(30, 1))
    assert prior.factors == ()


def test_a_kernel_with_a_length_scale_per_column_has_no_common_one(rng):
    with pytest.raises(ValueError, match="one for each"):
        prior_of(RBF(np.ones(D)), "common", rng.randn(30, D))


def test_bits_that_no_row_has_get_the_typical_length_scale_of_the_others(rng):
    X = np.hstack([rng.rand(100, 6) < 0.3, np.zeros((100, 4))]) * 1.0
    y = X[:, 0] - 2.0 * X[:, 1] + 0.1 * rng.randn(100)
    gp, without = (
        SparseGPRegressor("rbf", main_effects=False, hyperparameters="best", tol=1e-8).fit(rows, y)
        for rows in (X, X[:, :6])
    )
    lengths = np.log(gp.kernel_.k2.length_scale)
    assert_allclose(lengths[6:], lengths[:6].mean() + UNSEEN_OFFSET, atol=0.01)
    assert gp.lower_bound_ == pytest.approx(without.lower_bound_, abs=0.2)
    assert gp.log_prior_ == pytest.approx(without.log_prior_, abs=0.2)
    known, new = X.copy(), np.roll(X, 4, axis=1)
    variance, of_new = (gp.latent_mean_and_variance(rows)[1].mean() for rows in (known, new))
    assert of_new > 5.0 * variance


def test_a_column_for_known_levels_gets_the_typical_length_scale_of_the_levels(rng):
    group = rng.randint(4, size=120)
    X = np.column_stack([rng.randn(120), np.eye(4)[group], np.ones(120)])
    y = rng.randn(4)[group] + np.sin(X[:, 0]) + 0.1 * rng.randn(120)
    gp, without = (
        SparseGPRegressor("rbf", main_effects=True, n_inducing=60, tol=1e-8).fit(rows, y)
        for rows in (X, X[:, :-1])
    )
    effects, interaction = gp.kernel_.k2, gp.kernel_.k1.k2
    for values in (effects.length_scale, interaction.length_scale):
        expected = np.log(values[1:-1]).mean() + UNSEEN_OFFSET
        assert_allclose(np.log(values[-1]), expected, atol=0.01)
    assert_allclose(np.log(effects.variance[-1]), np.log(effects.variance[1:-1]).mean(), atol=0.01)
    assert gp.feature_relevance_[-1] == 0.0
    # It has no effect on what is learned.
    assert gp.lower_bound_ == pytest.approx(without.lower_bound_, abs=0.2)
    assert gp.log_prior_ == pytest.approx(without.log_prior_, abs=0.2)
