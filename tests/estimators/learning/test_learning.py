"""Learning of hyperparameters, and growth of the number of points."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

from sparsegpc import HomoscedasticNoise
from sparsegpc._core.models.model import SparseModel
from tests.estimators import many_classes, regression, two_classes


@pytest.fixture(scope="module")
def learned_classifier():
    """A classifier that has learned its kernel; not to be changed."""
    return two_classes.small_model().fit(*two_classes.moons())


@pytest.fixture(scope="module")
def learned_regressor():
    """A regressor that has learned its kernel; not to be changed."""
    return regression.model_of().fit(*regression.waves())


@pytest.mark.parametrize("options", [{"kernel": None}, {"n_inducing": "auto", "point_cost": 0.5}])
def test_every_evaluation_is_counted(options):
    """Those in comparisons, on few rows and after the search, too."""
    passes, evaluate = [], SparseModel.evaluate

    def counted(*args, **options):
        evaluation = evaluate(*args, **options)
        passes.append(sum(solution.n_iter for solution in evaluation.solutions))
        return evaluation

    X, y = two_classes.moons()
    with patch.object(SparseModel, "evaluate", counted):
        model = two_classes.small_model(**options).fit(X, y)
    assert model.n_evaluations_ == len(passes) > 20
    assert model.n_site_iterations_ == sum(passes)


# Hyperparameters


def test_optimizer_none_keeps_the_kernel():
    kernel = ConstantKernel(3.0) * RBF([0.7, 1.9])
    model = two_classes.fixed_model(kernel=kernel, n_restarts_optimizer=2).fit(*two_classes.moons())
    assert_array_equal(model.kernel_.theta, kernel.theta)
    assert model.n_iter_ == 0
    assert model.converged_


def test_fixed_hyperparameters_stay():
    kernel = ConstantKernel(3.0, "fixed") * RBF(1.7)
    model = two_classes.small_model(kernel=kernel).fit(*two_classes.moons())
    assert model.kernel_.k1.constant_value == 3.0
    assert model.kernel_.k2.length_scale != 1.7
    length = RBF(1.7, "fixed")
    model = two_classes.small_model(kernel=ConstantKernel(3.0) * length).fit(*two_classes.moons())
    assert model.kernel_.k2.length_scale == 1.7
    assert model.kernel_.k1.constant_value != 3.0


def test_a_kernel_of_labels_without_free_hyperparameters():
    model = two_classes.small_model(kernel=RBF(1.0, "fixed"), n_restarts_optimizer=1).fit(
        *two_classes.moons()
    )
    assert model.kernel_ == RBF(1.0, "fixed")
    bound, gradient = model.lower_bound(
        X=two_classes.moons()[0], y=two_classes.moons()[1], eval_gradient=True
    )
    assert_allclose(bound, model.lower_bound_)
    assert gradient.shape == (0,)


@pytest.mark.filterwarnings("ignore:the bound still rises:sklearn.exceptions.ConvergenceWarning")
def test_bounds_of_hyperparameters_are_respected():
    kernel = ConstantKernel(1.0, (0.5, 2.0)) * RBF(1.0, (0.9, 1.1))
    model = two_classes.small_model(kernel=kernel, n_restarts_optimizer=1, random_state=0).fit(
        *two_classes.moons()
    )
    low, high = kernel.bounds.T
    assert (model.kernel_.theta >= low - 1e-12).all()
    assert (model.kernel_.theta <= high + 1e-12).all()
    assert_array_equal(model.kernel_.bounds, kernel.bounds)


@pytest.mark.filterwarnings("ignore:the bound still rises where hyperparameters meet their limits")
def test_the_kernel_given_starts_outside_its_bounds_no_more_than_it_must():
    kernel = ConstantKernel(1.0) * RBF(1.0, (2.0, 50.0))
    model = two_classes.small_model(kernel=kernel).fit(*two_classes.moons(60))
    assert 2.0 - 1e-9 <= model.kernel_.k2.length_scale <= 50.0


def test_learning_again_and_again_is_the_same(learned_classifier):
    model = clone(learned_classifier)
    for _ in range(2):
        model.fit(*two_classes.moons())
        assert model.lower_bound_ == learned_classifier.lower_bound_
        assert_array_equal(
            model.predict_proba(two_classes.grid()),
            learned_classifier.predict_proba(two_classes.grid()),
        )


def test_the_learned_bound_is_a_local_maximum(learned_classifier):
    X, y = two_classes.moons()
    _, gradient = learned_classifier.lower_bound(X=X, y=y, eval_gradient=True)
    assert np.abs(gradient).max() < 0.3
    for step in (-0.3, 0.3):
        for k in range(2):
            theta = learned_classifier.kernel_.theta.copy()
            theta[k] += step
            assert learned_classifier.lower_bound(theta, X, y) < learned_classifier.lower_bound_


def test_the_best_choice_of_points_for_labels_is_kept(learned_classifier):
    assert len(learned_classifier.lower_bounds_) >= 2
    assert_allclose(
        learned_classifier.lower_bounds_.max(), learned_classifier.lower_bound_, atol=1e-3
    )


def test_optimizer_none_keeps_all_hyperparameters():
    X, y = regression.waves()
    model = regression.fixed_model(noise=HomoscedasticNoise(0.3)).fit(X, y)
    assert_array_equal(model.kernel_.theta, regression.KERNEL.theta)
    assert_allclose(model.noise_variance_, 0.3, rtol=1e-12)
    model = regression.fixed_model(
        kernel=regression.KERNEL + WhiteKernel(0.2), noise="homoscedastic"
    ).fit(X, y)
    assert_array_equal(model.kernel_.theta, regression.KERNEL.theta)
    assert_allclose(model.noise_variance_, 0.2, rtol=1e-12)
    assert model.n_iter_ == 0


def test_optimizer_none_keeps_a_noise_variance_outside_its_bounds_too():
    model = regression.fixed_model(noise=HomoscedasticNoise(5.0, (0.1, 1.0))).fit(
        *regression.waves()
    )
    assert_allclose(model.noise_variance_, 5.0, rtol=1e-12)


def test_a_kernel_of_targets_without_free_hyperparameters():
    kernel = ConstantKernel(2.0, "fixed") * RBF(1.5, "fixed")
    model = regression.model_of(kernel=kernel).fit(*regression.waves())
    assert 0.01 < model.noise_variance_ < 0.2
    assert len(model.kernel_.theta) == 0
    known = regression.model_of(kernel=kernel).fit(
        *regression.waves(), noise_variance=regression.NOISE
    )
    assert known.n_iter_ == 0
    bound, gradient = known.lower_bound(
        [], *regression.waves(), noise_variance=regression.NOISE, eval_gradient=True
    )
    assert_allclose(bound, known.lower_bound_, rtol=1e-10)
    assert gradient.shape == (0,)


def test_the_learned_noise_variance_is_a_local_maximum(learned_regressor):
    for factor in (0.9, 1.1):
        other = regression.fixed_model(
            kernel=learned_regressor.kernel_,
            noise=HomoscedasticNoise(factor * learned_regressor.noise_variance_),
            selector=learned_regressor.inducing_points_,
        ).fit(*regression.waves())
        assert other.lower_bound_ < learned_regressor.lower_bound_ - 0.05


def test_the_best_choice_of_points_for_targets_is_kept(learned_regressor):
    assert_allclose(
        learned_regressor.lower_bound_, learned_regressor.lower_bounds_.max(), atol=1e-3
    )


@regression.quiet
@pytest.mark.parametrize("frequency", [2.0, 20.0])
def test_a_function_that_varies_fast_is_found_without_a_hint(frequency):
    rng = np.random.RandomState(0)
    x = rng.uniform(-3.0, 3.0, 300)
    y = np.sin(frequency * x) + 0.2 * rng.standard_normal(300)
    hint = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(1.5 / frequency)
    quick = {"n_inducing": 80, "max_reselections": 1}
    told = regression.model_of(kernel=hint, **quick).fit(x[:, None], y)
    found = regression.model_of(**quick).fit(x[:, None], y)
    assert found.lower_bound_ > told.lower_bound_ - 5.0


def test_few_labels_of_a_class_are_learned_from():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((4000, 3))
    y = X[:, 0] + 0.3 * rng.standard_normal(4000) > 3.25
    assert y.sum() == 3
    kernel = ConstantKernel(1.0) * RBF(np.ones(3))
    model = two_classes.small_model(kernel=kernel, n_inducing=50, tol=1e-4).fit(X, y)
    share = y.mean()
    constant = 4000.0 * (share * np.log(share) + (1.0 - share) * np.log(1.0 - share))
    assert model.lower_bound_ > constant + 10.0


# Restarts


@pytest.mark.parametrize("seed", range(2))
def test_restarts_never_lower_the_bound_of_labels(seed):
    X, y = two_classes.moons(60, seed)
    model = two_classes.small_model(max_iter=10, tol=1e-3, max_reselections=1)
    plain = clone(model).fit(X, y)
    more = model.set_params(n_restarts_optimizer=2, random_state=seed).fit(X, y)
    assert more.lower_bound_ >= plain.lower_bound_ - 1e-9
    assert more.n_evaluations_ > plain.n_evaluations_


@regression.quiet
@settings(max_examples=3)
@given(seed=st.integers(0, 1000))
def test_restarts_never_lower_the_bound_of_targets(seed):
    X, y = regression.waves(60)
    kernel = ConstantKernel(1.0, (1e-2, 1e2)) * RBF(1.0, (1e-1, 1e2)) + WhiteKernel(1.0, (1e-3, 10))
    quick = {"max_iter": 10, "max_reselections": 0, "tol": 1e-3}
    plain = regression.model_of(kernel=kernel, **quick).fit(X, y)
    more = regression.model_of(
        kernel=kernel, n_restarts_optimizer=2, random_state=seed, **quick
    ).fit(X, y)
    assert more.lower_bound_ >= plain.lower_bound_ - 1e-9
    assert more.n_evaluations_ > plain.n_evaluations_


@regression.quiet
def test_restarts_with_a_noise_process():
    model = regression.model_of(
        noise="gp", n_restarts_optimizer=1, random_state=0, max_iter=5, tol=1e-2
    )
    assert np.isfinite(
        model.fit(*regression.waves(40)).predict(regression.grid(), return_std=True)
    ).all()


# Growth


@many_classes.some_likelihoods
@pytest.mark.parametrize("n_classes", [2, 3])
def test_growth_with_labels_stops_when_certified(likelihood, n_classes):
    X, y = many_classes.blobs(80, n_classes)
    model = many_classes.fixed_model(
        likelihood=likelihood, n_inducing="auto", certificate_tol=0.02
    ).fit(X, y)
    parts = [model] if model.estimators_ is None else model.estimators_
    for k, part in enumerate(parts):
        assert part.growth_end_ == "certified"
        assert part.growth_[-1]["gap_per_row"] <= 0.02
        assert all(step["gap_per_row"] > 0.02 for step in part.growth_[:-1])
        assert len(part.inducing_points_) == part.growth_[-1]["n_inducing"]
        assert_allclose(part.growth_[-1]["lower_bound"], part.lower_bound_, rtol=1e-6)
        if part is not model:
            assert model.growth_[k] == part.growth_
            assert model.growth_end_[k] == "certified"
    certificate = model.certificate(X, y)
    gaps = sum(part.growth_[-1]["gap_per_row"] for part in parts)
    assert certificate.gap_per_row <= gaps + 1e-6


def assert_gap(model, X, y):
    """The last gap of growth is that of a certificate, with or without "two-moment"."""
    gap = model.growth_[-1]["gap_per_row"]
    certificate = model.certificate(X, y)
    others = [bound for name, bound in certificate.upper_bounds.items() if name != "two-moment"]
    without = (min(others) - certificate.lower_bound) / certificate.total_weight
    rounding = 1e-3 * without + 1e-6
    assert min(abs(gap - certificate.gap_per_row), abs(gap - without)) <= rounding


def test_growth_ends_for_each_of_the_reasons():
    X, y = many_classes.blobs(120)
    narrow = ConstantKernel(5.0) * RBF(0.2)
    cases = {
        "max_inducing": {"certificate_tol": 1e-9, "max_inducing": 20},
        "full_rank": {"certificate_tol": 1e-16, "kernel": ConstantKernel(5.0) * RBF(2.0)},
        "plateau": {"certificate_tol": 1e-12, "kernel": ConstantKernel(5.0) * Matern(2.0, nu=1.5)},
        "certified": {"certificate_tol": 5.0, "kernel": narrow},
    }
    for end, parameters in cases.items():
        model = many_classes.fixed_model(n_inducing="auto", **parameters).fit(X, y)
        assert_gap(model, X, y)
        assert model.growth_end_ == end or (end, model.growth_end_) == ("plateau", "full_rank")
    grown = many_classes.fixed_model(n_inducing=5).fit(X, y)
    assert grown.growth_ is None
    assert grown.growth_end_ is None


def growing(tol, **parameters):
    X, y = regression.waves(150)
    model = regression.fixed_model(n_inducing="auto", certificate_tol=tol, **parameters)
    return model.fit(X, y), model.certificate(X, y)


def test_growth_with_targets_stops_when_certified():
    model, certificate = growing(1e-2)
    assert_gap(model, *regression.waves(150))
    assert model.growth_end_ == "certified"
    assert certificate.gap_per_row <= 1e-2
    assert len(model.inducing_points_) == model.growth_[-1]["n_inducing"]
    assert model.growth_[-1]["gap_per_row"] <= 1e-2
    assert all(step["gap_per_row"] > 1e-2 for step in model.growth_[:-1])
    assert_allclose(model.growth_[-1]["lower_bound"], model.lower_bound_, rtol=1e-8)


@pytest.mark.parametrize("n_rows", [150, 400])
def test_growth_that_learns_confirms_a_certificate_by_twice_as_many_points(n_rows):
    X, y = regression.waves(n_rows)
    model = regression.model_of(n_inducing="auto", certificate_tol=1e-2).fit(X, y)
    assert model.growth_end_ == "certified"
    certified, last = model.growth_[-2:]
    assert certified["n_inducing"] == len(model.inducing_points_)
    assert certified["gap_per_row"] <= 1e-2
    assert last["lower_bound"] <= certified["lower_bound"] + 1e-2 * n_rows
    assert_allclose(certified["lower_bound"], model.lower_bound_, rtol=1e-6)


def test_growth_stops_at_its_cap():
    model, certificate = growing(1e-9, max_inducing=20)
    assert model.growth_end_ == "max_inducing"
    assert [step["n_inducing"] for step in model.growth_] == [20]
    assert certificate.gap_per_row > 1e-9


def test_growth_doubles_and_stops_when_it_no_longer_pays():
    kernel = ConstantKernel(2.0) * RBF(1.0)
    model, certificate = growing(1e-16, kernel=kernel)
    assert model.growth_end_ in ("plateau", "full_rank")
    assert [step["n_inducing"] for step in model.growth_][:2] == [50, 100]
    bounds = [step["lower_bound"] for step in model.growth_]
    assert bounds == sorted(bounds)
    assert certificate.gap_per_row > 1e-16


def test_growth_stops_when_the_points_span_the_rows():
    model, certificate = growing(1e-30, kernel=DotProduct(1.0))
    # Without any residual the gap is zero, up to rounding.
    assert model.growth_end_ in ("certified", "full_rank")
    assert len(model.inducing_points_) == 3
    assert certificate.gap < 1e-6


def test_growth_is_left_alone_without_auto(learned_regressor):
    assert learned_regressor.growth_ is None
    assert learned_regressor.growth_end_ is None
    grown = regression.fixed_model(n_inducing="auto").fit(*regression.waves())
    assert grown.set_params(n_inducing=5).fit(*regression.waves()).growth_ is None
