"""Fits that go on from the last one."""

import warnings
from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from sparsegpc import SparseGPClassifier, SparseGPRegressor
from tests.estimators import many_classes, regression, two_classes


@pytest.fixture(scope="module")
def learned_classifier():
    """A classifier that has learned its kernel; not to be changed."""
    return two_classes.small_model().fit(*two_classes.moons())


# Two classes


def test_warm_start_with_labels_needs_fewer_evaluations_and_is_no_worse():
    model = two_classes.small_model(warm_start=True).fit(*two_classes.moons())
    evaluations, bound = model.n_evaluations_, model.lower_bound_
    model.fit(*two_classes.moons())
    assert model.n_evaluations_ < evaluations / 2
    assert model.lower_bound_ >= bound - 1e-6


def test_warm_start_begins_from_the_learned_kernel_and_points():
    X, y = two_classes.moons()
    model = two_classes.small_model(warm_start=True).fit(X, y)
    theta, points = model.kernel_.theta, model.inducing_points_
    X_new, y_new = two_classes.moons(80, seed=1)
    model.set_params(optimizer=None, max_reselections=0).fit(X_new, y_new)
    assert_allclose(model.kernel_.theta, theta, rtol=1e-12)
    assert_array_equal(model.inducing_points_, points)
    assert model.inducing_indices_ is None
    cold = clone(model).set_params(warm_start=False, kernel=RBF()).fit(X_new, y_new)
    assert not np.array_equal(cold.inducing_points_, points)


def test_warm_start_knows_a_kernel_whose_logarithms_are_rounded():
    X, y = two_classes.moons(40)
    for value in np.random.RandomState(0).uniform(0.1, 10.0, 5000):
        kernel = ConstantKernel(value) * RBF(1.0)
        if kernel.clone_with_theta(kernel.clone_with_theta(kernel.theta).theta) != kernel:
            break
    model = two_classes.fixed_model(kernel=kernel, warm_start=True).fit(X, y)
    bound = model.lower_bound_
    for _ in range(3):
        assert_allclose(model.fit(X, y).lower_bound_, bound, rtol=1e-6)


def test_points_given_as_an_array_come_before_those_of_the_last_fit(rng):
    X, y = two_classes.moons(60)
    model = two_classes.fixed_model(warm_start=True).fit(X, y)
    Z = rng.randn(4, 2)
    assert_array_equal(model.set_params(selector=Z).fit(X, y).inducing_points_, Z)


def test_warm_start_keeps_the_structure_of_a_given_kernel():
    X, y = two_classes.moons(60)
    kernel = ConstantKernel() * RBF()
    model = two_classes.small_model(kernel=kernel, warm_start=True, max_iter=5, tol=1e-2).fit(X, y)
    theta = model.kernel_.theta
    model.set_params(kernel=ConstantKernel(9.0) * RBF(0.1), optimizer=None).fit(X, y)
    assert_allclose(model.kernel_.theta, theta, rtol=1e-12)
    model.set_params(kernel=ConstantKernel() * Matern())
    with pytest.raises(ValueError, match=r"warm_start=True needs the kernel structure.*Matern"):
        model.fit(X, y)
    assert_allclose(model.kernel_.theta, theta, rtol=1e-12)


def test_warm_start_needs_the_same_columns():
    X, y = two_classes.moons(60)
    model = two_classes.fixed_model(warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match=r"warm_start=True needs the columns.*had 2, X has 1"):
        model.fit(X[:, :1], y)
    assert model.predict(X).shape == (60,)


def test_without_warm_start_the_past_is_forgotten(learned_classifier):
    model = clone(learned_classifier).fit(*two_classes.moons(60, seed=3))
    model.fit(*two_classes.moons())
    assert model.lower_bound_ == learned_classifier.lower_bound_


def test_warm_start_respects_a_lower_number_of_points(learned_classifier):
    model = (
        clone(learned_classifier)
        .fit(*two_classes.moons())
        .set_params(warm_start=True, n_inducing=5)
    )
    assert len(model.fit(*two_classes.moons()).inducing_points_) <= 5


@pytest.mark.parametrize("more", [{"n_inducing": 40}, {"n_inducing": "auto"}], ids=["40", "auto"])
def test_warm_start_chooses_more_points_if_it_may(more, rng):
    """Even if those of the last fit leave hardly any variance unexplained."""
    X = rng.uniform(0.0, 6.0, (200, 1))
    y = np.sin(X[:, 0]) + 0.3 * rng.randn(200)
    model = SparseGPRegressor("rbf", n_inducing=8, warm_start=True).fit(X, y)
    before = model.lower_bound_
    assert 1e-6 < model.cost_per_row_ < 1e-3
    model.set_params(**more, selection_tol=0.0, certificate_tol=1e-8).fit(X, y)
    assert len(model.inducing_points_) > 8
    assert model.cost_per_row_ < 1e-8
    assert model.lower_bound_ > before
    if model.growth_ is not None:
        assert model.growth_end_ == "certified"
        assert model.growth_[-1]["gap_per_row"] < 1e-8


def test_warm_start_takes_no_other_kernel_for_the_default():
    X, y = two_classes.moons()
    model = two_classes.small_model(kernel=ConstantKernel() * Matern(1.0, nu=1.5)).fit(X, y)
    with pytest.raises(ValueError, match="kernel structure of the last fit"):
        model.set_params(kernel=None, warm_start=True).fit(X, y)


def test_warm_start_takes_new_limits():
    X, y = two_classes.moons()
    model = two_classes.small_model(kernel=ConstantKernel() * RBF(1.0, (0.01, 0.1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    before = model.lower_bound_
    wide = ConstantKernel() * RBF(1.0, (1e-3, 1e3))
    model.set_params(kernel=wide, warm_start=True).fit(X, y)
    assert model.lower_bound_ > before + 1.0
    assert model.kernel_.k2.length_scale > 0.2


def test_warm_start_with_few_points_does_not_stay_trivial(rng):
    X = rng.randn(200, 2)
    y = X[:, 0] * X[:, 1] + 0.3 * rng.randn(200) > 0
    model = (
        SparseGPClassifier(warm_start=True, n_inducing=60)
        .fit(X, y)
        .set_params(n_inducing=5)
        .fit(X, y)
    )
    cold = SparseGPClassifier(n_inducing=5).fit(X, y)
    assert model.lower_bound_ > cold.lower_bound_ - 15.0


def test_warm_start_asks_a_fixed_selector_for_its_number_of_points():
    X, y = two_classes.moons()
    model = two_classes.fixed_model(
        selector="uniform", n_inducing=10, selection_tol=0, random_state=0
    ).fit(X, y)
    model.set_params(warm_start=True, n_inducing=20).fit(X, y)
    assert len(model.inducing_points_) == 20


# Many classes


@many_classes.some_likelihoods
def test_warm_start_goes_on_from_the_last_fit(likelihood):
    X, y = many_classes.blobs()
    model = many_classes.quietly(
        many_classes.quick_model(likelihood=likelihood, warm_start=True, max_iter=20), X, y
    )
    theta, points, bound = model.kernel_.theta, model.inducing_points_, model.lower_bound_
    model.set_params(optimizer=None, max_reselections=0).fit(X, y)
    assert_allclose(model.kernel_.theta, theta, rtol=1e-12)
    for ours, theirs in zip(model.inducing_points_, points, strict=True):
        assert_array_equal(ours, theirs)
    assert_allclose(model.lower_bound_, bound, rtol=1e-5)


@many_classes.some_likelihoods
def test_warm_start_refuses_other_classes_and_columns(likelihood):
    X, y = many_classes.blobs()
    model = many_classes.fixed_model(likelihood=likelihood, warm_start=True).fit(X, y)
    before = model.predict_proba(many_classes.grid())
    for labels in (y + 1, np.minimum(y, 1), y.astype(str)):
        with pytest.raises(ValueError, match="warm_start=True needs the classes of the last fit"):
            model.fit(X, labels)
    with pytest.raises(ValueError, match=r"needs the columns of the last fit: it had 2, X has 1"):
        model.fit(X[:, :1], y)
    assert_array_equal(model.predict_proba(many_classes.grid()), before)
    assert model.set_params(warm_start=False).fit(X, y + 1).classes_[0] == 1


@pytest.mark.parametrize(("first", "second"), [*permutations(many_classes.SOME, 2)])
def test_warm_start_with_another_likelihood_works_or_starts_afresh(first, second):
    X, y = many_classes.blobs()
    model = many_classes.fixed_model(likelihood=first, warm_start=True).fit(X, y)
    model.set_params(likelihood=second).fit(X, y)
    plain = many_classes.fixed_model(likelihood=second).fit(X, y)
    assert (model.estimators_ is None) == (second in many_classes.JOINT)
    assert_allclose(model.lower_bound_, plain.lower_bound_, rtol=0.05)
    assert_allclose(model.lower_bound(X=X, y=y), model.lower_bound_, rtol=1e-9)


# Regression


@regression.quiet
@pytest.mark.parametrize(
    ("parameters", "known"),
    [
        *(({"noise": noise}, False) for noise in regression.NOISES),
        ({"n_inducing": "auto"}, False),
        ({"kernel": regression.KERNEL + WhiteKernel(0.1)}, False),
        ({}, True),
    ],
    ids=str,
)
def test_warm_start_with_targets_needs_fewer_evaluations_and_is_no_worse(parameters, known):
    X, y = regression.waves()
    variance = regression.NOISE if known else None
    model = regression.model_of(warm_start=True, **parameters).fit(X, y, noise_variance=variance)
    bound, evaluations = model.lower_bound_, model.n_evaluations_
    model.fit(X, y, noise_variance=variance)
    assert model.lower_bound_ > bound - 1e-2
    assert model.n_evaluations_ < evaluations


@regression.quiet
@pytest.mark.parametrize("noise", regression.NOISES)
def test_warm_start_without_optimizer_keeps_what_was_learned(noise):
    X, y = regression.waves()
    model = regression.model_of(noise=noise, warm_start=True).fit(X, y)
    bound, std = model.lower_bound_, model.predict_noise_std(regression.grid())
    model.set_params(optimizer=None).fit(X, y)
    assert_allclose(model.lower_bound_, bound, atol=1e-3)
    assert_allclose(model.predict_noise_std(regression.grid()), std, rtol=1e-2)


@regression.quiet
def test_warm_start_refuses_another_noise_or_another_number_of_outputs():
    X, Y = regression.two_waves()
    model = regression.model_of(warm_start=True, max_iter=5).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="number of outputs"):
        model.fit(X, Y)
    with pytest.raises(ValueError, match="kind of noise"):
        model.fit(X, Y[:, 0], noise_variance=1.0)
    with pytest.raises(ValueError, match="kind of noise"):
        model.set_params(noise="polynomial").fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="warm_start=False to start afresh"):
        model.set_params(noise="gp").fit(X, Y[:, 0])
    assert model.set_params(warm_start=False, noise="polynomial").fit(X, Y).noise_variance_ is None
