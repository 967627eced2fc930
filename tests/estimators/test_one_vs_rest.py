"""Several classes by a model for each of them against all others."""

import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, CompoundKernel
from sklearn.multiclass import OneVsRestClassifier

from sparsegpc._estimators.one_vs_rest import OneVsRestLikelihood
from sparsegpc.likelihoods import NAMES
from tests.estimators.many_classes import (
    BINARY,
    KERNEL,
    blobs,
    fixed_model,
    grid,
    quick_model,
    quietly,
)


@pytest.mark.parametrize("likelihood", BINARY)
def test_one_versus_rest_is_a_binary_model_for_each_class(likelihood):
    X, y = blobs()
    model = quietly(quick_model(likelihood=likelihood), X, y)
    each = [quietly(quick_model(likelihood=likelihood), X, y == k) for k in range(3)]
    parts = np.stack([one.predict_proba(grid())[:, 1] for one in each], axis=1)
    assert_allclose(model.predict_proba(grid()), parts / parts.sum(axis=1, keepdims=True))
    assert_allclose(model.lower_bound_, sum(one.lower_bound_ for one in each), rtol=1e-12)
    moments = [one.latent_mean_and_variance(grid()) for one in each]
    assert_array_equal(model.latent_mean_and_variance(grid()), np.moveaxis(moments, 0, 2))
    assert model.kernel_ == CompoundKernel([one.kernel_ for one in each])
    assert_array_equal(model.prior_mean_, [one.prior_mean_ for one in each])
    assert model.n_evaluations_ == sum(one.n_evaluations_ for one in each)
    assert model.converged_ == all(one.converged_ for one in each)
    for k, one in enumerate(each):
        assert_array_equal(model.inducing_points_[k], one.inducing_points_)
        assert_array_equal(model.inducing_indices_[k], one.inducing_indices_)
        assert_array_equal(model.lower_bounds_[k], one.lower_bounds_)
        assert_array_equal(model.estimators_[k].classes_, [0, 1])
    assert_array_equal(
        model.feature_relevance_, np.max([one.feature_relevance_ for one in each], axis=0)
    )


def test_scikit_learn_one_versus_rest_is_ours():
    X, y = blobs()
    theirs = OneVsRestClassifier(fixed_model()).fit(X, y)
    ours = fixed_model(likelihood="bernoulli-logit").fit(X, y)
    assert_allclose(theirs.predict_proba(grid()), ours.predict_proba(grid()), rtol=1e-9)


def test_in_processes_and_in_threads_it_gives_the_same():
    X, y = blobs()
    model = fixed_model(likelihood="polya-gamma", selector="rpcholesky", random_state=0)
    alone = model.fit(X, y)
    expected = alone.predict_proba(grid()), alone.lower_bound_, alone.inducing_points_
    for backend in ("loky", "threading"):
        with joblib.parallel_backend(backend):
            other = clone(model).set_params(n_jobs=2).fit(X, y)
        assert other.lower_bound_ == expected[1]
        assert_array_equal(other.predict_proba(grid()), expected[0])
        for ours, theirs in zip(other.inducing_points_, expected[2], strict=True):
            assert_array_equal(ours, theirs)


def test_models_of_the_classes_know_the_names_of_the_columns():
    X, y = blobs()
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = fixed_model(likelihood="bernoulli-logit").fit(frame, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for one in model.estimators_:
            one.predict(frame)


def test_the_random_state_decides():
    X, y = blobs()
    model = fixed_model(likelihood="polya-gamma", selector="uniform", n_inducing=8)
    np.random.seed(3)
    one, same, other = (
        clone(model).set_params(random_state=seed).fit(X, y).inducing_points_ for seed in (0, 0, 1)
    )
    assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert not np.array_equal(one[0], one[1])
    assert np.random.uniform() == np.random.RandomState(3).uniform()


@pytest.mark.parametrize("name", ["bernoulli-logit", "bernoulli-probit"])
def test_probabilities_of_one_against_the_rest_where_all_of_them_underflow(name):
    f = np.array([[-1e3, 2.0, -4e3], [-2e3, 1.0, -4e3]])
    proba = OneVsRestLikelihood([NAMES[name]()] * len(f)).probabilities(f)
    assert_allclose(proba.sum(axis=1), 1.0)
    assert_allclose(proba[[0, 2]], [[1.0, 0.0], [0.5, 0.5]], atol=1e-12)


# Errors


class FailsAtTheThird(RBF):
    """A kernel whose third model, and every later one, cannot be fitted."""

    n_fits = 0

    def diag(self, X):
        FailsAtTheThird.n_fits += len(X) == 45
        if FailsAtTheThird.n_fits > 4:
            raise MemoryError("no room")
        return super().diag(X)


def test_nothing_half_fitted_stays_after_an_error_in_one_class():
    X, y = blobs()
    model = fixed_model(kernel=FailsAtTheThird(1.0), likelihood="polya-gamma")
    FailsAtTheThird.n_fits = 0
    with pytest.raises(MemoryError, match="no room"):
        model.fit(X, y)
    assert not [name for name in vars(model) if name.endswith("_")]
    model.set_params(kernel=KERNEL).fit(X, y)
    state, proba = dict(vars(model)), model.predict_proba(grid())
    FailsAtTheThird.n_fits = 0
    with pytest.raises(MemoryError, match="no room"):
        model.set_params(kernel=FailsAtTheThird(1.0), n_inducing=5).fit(X, y)
    assert vars(model).keys() == state.keys()
    assert all(vars(model)[name] is state[name] for name in state if name.endswith("_"))
    assert_array_equal(model.predict_proba(grid()), proba)
