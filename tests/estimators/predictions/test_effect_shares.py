"""Shares of columns and pairs in the variance of f, and effects that need no reference."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sparsegpc import SparseGPClassifier, SparseGPRegressor, StochasticSparseGPRegressor
from sparsegpc.kernels import Columns, MainEffects, OrthogonalAdditive

MEANS, STDS = np.array([1.0, -2.0, 0.0]), np.array([2.0, 0.5, 1.0])
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
FAST = {"n_inducing": 15, "optimizer": None}


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    X = MEANS + STDS * rng.randn(60, 3)
    x = (X - MEANS) / STDS
    return X, 2.0 * x[:, 0] + x[:, 1] ** 2 + x[:, 0] * x[:, 2] + 0.1 * rng.randn(60)


def kernel_of(variance=(1.0, 0.5), scales=(1.5, 1.0, 2.0)):
    return OrthogonalAdditive(np.multiply(scales, STDS), variance, MEANS, STDS)


def test_shares_are_those_of_predictions_over_the_densities(data):
    X, y = data
    model = SparseGPRegressor(0.7 * kernel_of(), **FAST).fit(X, y)
    grid = np.stack(np.meshgrid(NODES, NODES, NODES, indexing="ij"), axis=-1).reshape(-1, 3)
    f = model.predict(MEANS + STDS * grid).reshape(40, 40, 40)
    f -= np.einsum("ijk,i,j,k", f, WEIGHTS, WEIGHTS, WEIGHTS)
    total = np.einsum("ijk,i,j,k", f**2, WEIGHTS, WEIGHTS, WEIGHTS)
    main = [
        np.einsum("ijk,j,k->i", f, WEIGHTS, WEIGHTS),
        np.einsum("ijk,i,k->j", f, WEIGHTS, WEIGHTS),
        np.einsum("ijk,i,j->k", f, WEIGHTS, WEIGHTS),
    ]
    pair = np.einsum("ijk,j->ik", f, WEIGHTS) - np.add.outer(main[0], main[2])
    shares = model.effect_shares()
    assert len(shares) == 6
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    for d in range(3):
        assert_allclose(shares[(d,)], main[d] ** 2 @ WEIGHTS / total, rtol=1e-5)
    expected = np.einsum("ik,i,k", pair**2, WEIGHTS, WEIGHTS) / total
    assert_allclose(shares[0, 2], expected, rtol=1e-5)
    assert_allclose(sum(shares.values()), 1.0, rtol=1e-9)


def test_shares_of_a_known_function_are_found():
    """Of 2 a + (b^2 - 1) / sqrt(2) + a c, whose parts have the variances 4, 1 and 1."""
    rng = np.random.RandomState(1)
    X = rng.randn(400, 3)
    y = 2.0 * X[:, 0] + (X[:, 1] ** 2 - 1.0) / np.sqrt(2.0) + X[:, 0] * X[:, 2]
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    kernel = OrthogonalAdditive([1.0, 1.0, 1.0])
    model = SparseGPRegressor(kernel, n_inducing=60).fit(frame, y + 0.1 * rng.randn(400))
    shares = model.effect_shares()
    assert next(iter(shares)) == ("a",)
    for columns, share in {("a",): 4 / 6, ("b",): 1 / 6, ("a", "c"): 1 / 6}.items():
        assert shares.pop(columns) == pytest.approx(share, abs=0.03)
    assert sum(shares.values()) < 0.01


def test_effects_need_no_reference(data):
    X, y = data
    model = SparseGPRegressor(kernel_of(1.0), **FAST).fit(X, y)
    mean, std = model.effects(MEANS + STDS * NODES[:, None])
    assert_allclose(WEIGHTS @ mean, 0.0, atol=1e-7)
    assert_allclose(model.effects(X)[0].sum(axis=1) + model.prior_mean_, model.predict(X))
    assert (std > 0.0).all()
    shares, variances = model.effect_shares(), WEIGHTS @ mean**2
    assert_allclose([shares[(d,)] for d in range(3)], variances / variances.sum(), rtol=1e-6)


def test_larger_sets_have_what_is_missing(data):
    model = SparseGPRegressor(kernel_of((1.0, 0.5, 0.5)), **FAST).fit(*data)
    assert 0.5 < sum(model.effect_shares().values()) < 1.0 - 1e-6


def test_groups_of_columns(data):
    X, y = data
    scales, means, stds = (part[[2, 0]] for part in (np.array([2.0, 1.5, 2.0]), MEANS, STDS))
    inner = OrthogonalAdditive(scales, (1.0, 0.5), means, stds)
    model = SparseGPRegressor(Columns(ConstantKernel(2.0) * inner, [2, 0]), **FAST).fit(X, y)
    part = SparseGPRegressor(2.0 * inner, **FAST, selector=model.inducing_points_[:, [2, 0]])
    part.fit(X[:, [2, 0]], y)
    shares, expected = model.effect_shares(), part.effect_shares()
    assert set(shares) == {(0,), (2,), (2, 0)}
    assert_allclose(shares[(2,)], expected[(0,)], rtol=1e-4)
    assert_allclose(shares[2, 0], expected[0, 1], rtol=1e-4)


def test_several_functions(data):
    X, y = data
    both = SparseGPRegressor(kernel_of(), **FAST).fit(X, np.column_stack([y, X[:, 1]]))
    shares = both.effect_shares()
    assert_allclose(sum(shares.values()), [1.0, 1.0])
    assert shares[(1,)][1] > 0.8 > shares[(1,)][0]
    labels = np.digitize(y, [0.0, 2.0])
    each = SparseGPClassifier(kernel_of(), likelihood="bernoulli-logit", **FAST).fit(X, labels)
    expected = each.estimators_[1].effect_shares()[(0,)]
    assert each.effect_shares()[(0,)][1] == pytest.approx(expected)
    minibatches = StochasticSparseGPRegressor(kernel_of(), n_inducing=9, n_epochs=1).fit(X, y)
    assert sum(minibatches.effect_shares().values()) == pytest.approx(1.0)


def test_a_constant_function_has_no_shares(data):
    X, _ = data
    model = SparseGPRegressor(kernel_of(), **FAST).fit(X, np.ones(60))
    assert set(model.effect_shares().values()) == {0.0}


def test_what_is_refused(data):
    X, y = data
    with pytest.raises(NotFittedError):
        SparseGPRegressor(kernel_of()).effect_shares()
    for kernel in (RBF(), MainEffects(), kernel_of() + RBF(), kernel_of() * RBF()):
        model = SparseGPRegressor(kernel, **FAST).fit(X, y)
        with pytest.raises(ValueError, match="effect_shares needs a kernel that is Orthogonal"):
            model.effect_shares()
