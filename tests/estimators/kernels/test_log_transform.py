"""The logarithmic transform of skewed columns, against its definition and a plain grid search."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from sparsegpc import SparseGPRegressor
from sparsegpc._core.rows.sources import RowSource
from sparsegpc._estimators.kernels.log_transform import SHARES, LogTransform, find_log_transforms


def found(X, weight=None):
    """Return the transform of rows of which all columns vary by enough."""
    weight = np.ones(len(X)) if weight is None else weight
    transforms = find_log_transforms(X, weight, np.ones(X.shape[1], dtype=bool))
    return transforms[0] if transforms else None


def skewed_and_other_columns(rng, n=400):
    """Return rows with the skewed columns 0 and 2, and 6 with two tails; the others stay."""
    return np.column_stack(
        [
            rng.lognormal(size=n),
            rng.randn(n),
            5.0 - rng.lognormal(sigma=2.0, size=n),
            rng.uniform(size=n),
            rng.randint(2, size=n),
            np.full(n, 3.0),
            2.0 + rng.standard_t(1.2, size=n),
        ]
    )


def test_only_skewed_columns_are_transformed(rng):
    X = skewed_and_other_columns(rng)
    transform = found(X)
    scales = transform.scales(X.shape[1])
    assert_array_equal(np.isfinite(scales), [True, False, True, False, False, False, True])
    Z = transform(X)
    assert_array_equal(Z[:, [1, 3, 4, 5]], X[:, [1, 3, 4, 5]])
    median = np.quantile(X[:, 6], 0.5, method="inverted_cdf")
    for k, centre in ((0, X[:, 0].min()), (2, X[:, 2].max()), (6, median)):
        z = np.arcsinh((X[:, k] - centre) / scales[k])
        assert_allclose(Z[:, k], z * X[:, k].std() / z.std())
    # The transform keeps the order of the rows, and makes the columns more symmetric.
    for k in (0, 2):
        assert_array_equal(np.argsort(Z[:, k]), np.argsort(X[:, k]))
        skews = [np.mean(((x - x.mean()) / x.std()) ** 3) for x in (X[:, k], Z[:, k])]
        assert abs(skews[1]) < 0.25 * abs(skews[0])


def test_nothing_is_transformed_if_no_column_is_skewed(rng):
    X = skewed_and_other_columns(rng)[:, [1, 3, 4, 5]]
    assert found(X) is None


def best_by_density(x):
    """Return the centre and scale with the highest density of a Gaussian transformed column."""
    tried = []
    for centre in (x.min(), np.quantile(x, 0.5, method="inverted_cdf"), x.max()):
        for scale in np.quantile(np.abs(x - centre), SHARES, method="inverted_cdf"):
            z = np.arcsinh((x - centre) / scale)
            slope = 1.0 / np.hypot(x - centre, scale)
            tried.append((np.sum(norm.logpdf(z, z.mean(), z.std()) + np.log(slope)), centre, scale))
    return max(tried)[1:]


@pytest.mark.parametrize("tail", ["right", "left", "both"])
def test_centre_and_scale_maximise_the_gaussian_likelihood(tail, rng):
    x = rng.lognormal(sigma=1.2, size=500) if tail != "both" else rng.standard_cauchy(500)
    x = -x if tail == "left" else x
    centre, scale = best_by_density(x)
    transform = found(x[:, None])
    assert_allclose(transform.scales(1), [scale])
    z = np.arcsinh((x - centre) / scale)
    assert_allclose(transform(x[:, None])[:, 0], z * x.std() / z.std())


@given(st.integers(0, 2**31), st.floats(1e-3, 1e3), st.floats(-1e3, 1e3))
def test_it_does_not_depend_on_units_or_on_the_order_of_rows(seed, unit, origin):
    rng = np.random.RandomState(seed)
    X, order = rng.lognormal(sigma=1.5, size=(60, 1)), rng.permutation(60)
    first, other = (found(rows) for rows in (X, origin + unit * X[order]))
    assert_allclose(other(origin + unit * X), unit * first(X), rtol=1e-6, atol=1e-6 * unit)


@given(st.integers(0, 2**31))
def test_weights_count_copies_of_rows(seed):
    rng = np.random.RandomState(seed)
    X, weight = rng.lognormal(sigma=1.5, size=(40, 2)), rng.randint(1, 5, size=40)
    first = found(X, weight.astype(float))
    other = found(np.repeat(X, weight, axis=0))
    assert_array_equal(first.scales(2), other.scales(2))


@given(st.integers(0, 2**31))
def test_the_inverse_returns_the_rows(seed):
    rng = np.random.RandomState(seed)
    X = 10.0 * rng.standard_cauchy(size=(20, 3))
    scales, factors = rng.uniform(0.1, 10.0, (2, 2))
    transform = LogTransform(np.array([0, 2]), rng.randn(2), scales, factors)
    Z = transform(X)
    assert_allclose(transform.inverse(Z), X, rtol=1e-9, atol=1e-9)
    assert_array_equal(Z[:, 1], X[:, 1])


def test_rows_of_a_source_are_transformed_as_they_are_read(rng):
    X = skewed_and_other_columns(rng)
    transform = found(RowSource(X))
    source = transform(RowSource(X))
    assert isinstance(source, RowSource)
    assert_array_equal(source[10:50], transform(X)[10:50])
    assert_array_equal(source.subset(np.arange(5, 90))[np.array([3, 7])], transform(X)[[8, 12]])


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_columns_of_one_sign_that_span_decades_may_become_logarithms(sign, rng):
    x, other = 10.0 ** rng.uniform(-6.0, 0.0, 40), rng.lognormal(size=40) - 0.5
    X = np.column_stack([sign * x, other])
    first, logarithms = find_log_transforms(X, np.ones(40), np.ones(2, dtype=bool))
    Z = logarithms(X)
    assert_allclose(Z[:, 1], first(X)[:, 1])
    # New values below the least one are as usual as others.
    near = sign * x.min() * np.array([0.1, 1.0, 10.0])
    low, middle, high = logarithms(np.column_stack([near, np.zeros(3)]))[:, 0]
    assert_allclose(middle - low, high - middle, rtol=1e-2)
    slope, _ = np.polyfit(np.log(x), Z[:, 0], 1)
    assert_allclose(Z[:, 0].std(), x.std())
    assert_allclose(np.diff(Z[:, 0]), slope * np.diff(np.log(x)), rtol=1e-3)


def test_other_columns_have_no_logarithms(rng):
    x = rng.lognormal(size=(400, 1))
    for column in (1.0 + x, x - 0.5, np.maximum(x - 1.0, 0.0)):
        assert len(find_log_transforms(column, np.ones(400), np.ones(1, dtype=bool))) == 1


@pytest.mark.filterwarnings("ignore:the bound still rises")
def test_a_parameter_that_was_sampled_on_a_logarithmic_scale_is_learned_as_its_logarithm():
    rate = 10.0 ** np.random.RandomState(0).uniform(-6.0, 0.0, 30)
    new = 10.0 ** np.linspace(-6.0, 0.0, 200)
    y, y_new = ((np.log10(rates) + 3.0) ** 2 for rates in (rate, new))
    model = SparseGPRegressor(normalize_y=True).fit(rate[:, None], y)
    # Errors were .01 with the least value as the origin.
    assert_allclose(model.predict(new[:, None]), y_new, atol=1e-3)
