"""Effects of single columns against the algebra of an exact Gaussian process."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct

from sparsegpc import (
    HomoscedasticNoise,
    SparseGPClassifier,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPRegressor,
)
from sparsegpc._estimators.predictions import effects
from sparsegpc.kernels import Columns, MainEffects
from tests.estimators.regression import ALL_ROWS

VARIANCES, SCALES = [0.4, 1.3, 2.0], [0.7, 1.3, 2.1]
EFFECTS = MainEffects(VARIANCES, SCALES)
KERNEL = 0.8 * RBF(1.5) + EFFECTS
# The same effects of columns 2 and 0, and of column 1.
IN_GROUPS = Columns(
    RBF(1.5) + 0.5 * Columns(MainEffects([4.0, 0.8], [2.1, 0.7]), [1, 0]), [0, 2]
) + Columns(MainEffects(1.3, 1.3), [1])
# The same effects by kernels of single columns.
SINGLE = 0.4 * Columns(RBF(0.7), [0]) + Columns(1.3 * RBF(1.3), [1]) + 2.0 * Columns(RBF(2.1), [2])


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    X = rng.uniform(-2, 2, (25, 3))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.randn(25)


def fixed(kernel, **options):
    return SparseGPRegressor(kernel, optimizer=None, fit_prior_mean=False, **ALL_ROWS, **options)


def exact_effect(kernel, d, X, y, noise, at, weights):
    """Return mean and variance of linear functionals of f_d, from the joint Gaussian of all.

    A row of `weights` holds those of f_d at the values `at`.
    """
    scale = SCALES[d]

    def k(a, b):
        return VARIANCES[d] * np.exp(-0.5 * ((a[:, None] - b) / scale) ** 2)

    inverse = np.linalg.inv(kernel(X) + noise * np.eye(len(X)))
    cross = weights @ k(at, X[:, d])
    covariance = weights @ k(at, at) @ weights.T - cross @ inverse @ cross.T
    return cross @ inverse @ y, covariance.diagonal()


ADDED = [EFFECTS, KERNEL, DotProduct() + KERNEL, IN_GROUPS, SINGLE, RBF(1.5) + SINGLE]


@pytest.mark.parametrize("kernel", ADDED, ids=str)
def test_effects_with_a_point_at_each_row_are_exact(kernel, data):
    X, y = data
    model = fixed(kernel).fit(X, y, noise_variance=0.1)
    grid = np.linspace(-3, 3, 7)[:, None] * [1.0, 0.5, 2.0]
    mean, std = model.effects(grid)
    assert mean.shape == std.shape == (7, 3)
    for d in range(3):
        m, variance = exact_effect(kernel, d, X, y, 0.1, grid[:, d], np.eye(7))
        assert_allclose(mean[:, d], m, atol=1e-5)
        assert_allclose(std[:, d] ** 2, variance, atol=1e-5)


def test_columns_outside_of_all_groups_have_no_effects(data):
    kernel = RBF(1.5) + Columns(MainEffects(), [2])
    model = fixed(kernel).fit(*data)
    mean, std = model.effects(data[0], reference=data[0])
    assert not mean[:, :2].any()
    assert not std[:, :2].any()
    assert std[:, 2].min() > 0.0


def test_centred_effects_with_a_point_at_each_row_are_exact(data):
    X, y = data
    model = fixed(KERNEL).fit(X, y, noise_variance=0.1)
    grid = np.linspace(-3, 3, 7)[:, None] * np.ones(3)
    mean, std = model.effects(grid, [2, 0], reference=X)
    weights = np.hstack([np.eye(7), np.full((7, 25), -1 / 25)])
    for place, d in enumerate([2, 0]):
        at = np.append(grid[:, d], X[:, d])
        m, variance = exact_effect(KERNEL, d, X, y, 0.1, at, weights)
        assert_allclose(mean[:, place], m, atol=1e-5)
        assert_allclose(std[:, place] ** 2, variance, atol=1e-5)
    assert_allclose(model.effects(X, reference=X)[0].mean(axis=0), 0.0, atol=1e-10)
    # The constants are uncertain, too.
    assert model.effects(X, reference=X)[1].mean() < 0.8 * model.effects(X)[1].mean()


def test_effects_and_the_prior_mean_add_up(data):
    X, y = data
    model = SparseGPRegressor(EFFECTS, n_inducing=12, hyperparameters="best").fit(X, y)
    total = model.effects(X)[0].sum(axis=1) + model.prior_mean_
    assert_allclose(total, model.predict(X), rtol=1e-9)


def test_a_long_reference_is_summarised_by_quantiles(data, monkeypatch):
    X, y = data
    model = fixed(KERNEL).fit(X, y, noise_variance=0.1)
    reference = np.random.RandomState(1).randn(2000, 3)
    short = model.effects(X, reference=reference)
    monkeypatch.setattr(effects, "MOST_QUANTILES", 2000)
    for ours, exact in zip(short, model.effects(X, reference=reference), strict=True):
        assert_allclose(ours, exact, atol=2e-3)


def test_a_constant_factor_and_several_summands(data):
    X, y = data
    split = MainEffects([0.2, 0.65, 1.0], SCALES)
    kernel = split + ConstantKernel(0.5) * (MainEffects([0.4, 1.3, 2.0], SCALES) + RBF()) + RBF()
    other = EFFECTS + 0.5 * RBF() + RBF()
    ours, expected = (fixed(k).fit(X, y, noise_variance=0.1).effects(X) for k in (kernel, other))
    assert_allclose(ours, expected, rtol=1e-6, atol=1e-8)


def test_effects_are_in_units_of_y(data):
    X, y = data
    targets = np.column_stack([y, 3.0 * y - 5.0])
    options = {"n_inducing": 12, "optimizer": None, "normalize_y": True}
    both = SparseGPRegressor(KERNEL, **options).fit(X, targets)
    mean, std = both.effects(X, [1])
    assert mean.shape == std.shape == (25, 1, 2)
    assert_allclose(mean[..., 1], 3.0 * mean[..., 0], rtol=1e-6)
    assert_allclose(std[..., 1], 3.0 * std[..., 0], rtol=1e-6)


def test_each_class_has_its_effects(data):
    X, y = data
    labels = np.digitize(y, [-0.5, 0.5])
    one = SparseGPClassifier(EFFECTS, n_inducing=10, optimizer=None).fit(X, labels)
    each = SparseGPClassifier(
        EFFECTS, n_inducing=10, optimizer=None, likelihood="bernoulli-logit"
    ).fit(X, labels)
    for model in (one, each):
        mean, std = model.effects(X)
        assert mean.shape == std.shape == (25, 3, 3)
        f = model.latent_mean_and_variance(X)[0]
        constant = f - mean.sum(axis=1)
        assert_allclose(constant, np.broadcast_to(constant[0], f.shape), atol=1e-9)
    assert_allclose(each.effects(X)[0][..., 1], each.estimators_[1].effects(X)[0])


def test_effects_of_a_class_without_them_are_zero(data):
    X, y = data
    labels = np.digitize(y, [-0.5, 0.5])
    options = {"n_inducing": 10, "optimizer": None, "likelihood": "bernoulli-logit"}
    model = SparseGPClassifier(EFFECTS, **options).fit(X, labels)
    expected = np.array(model.effects(X, [0, 2]))
    model.estimators_[1].kernel_ = RBF()
    expected[..., 1] = 0.0
    assert_allclose(model.effects(X, [0, 2]), expected)
    for binary in model.estimators_:
        binary.kernel_ = RBF()
    with pytest.raises(ValueError, match="no effects of single columns"):
        model.effects(X)


@pytest.mark.filterwarnings("ignore:the learned model is poor")
@pytest.mark.parametrize("cls", [StochasticSparseGPClassifier, StochasticSparseGPRegressor])
def test_effects_of_models_from_minibatches(cls, data):
    X, y = data
    y = y > 0 if cls is StochasticSparseGPClassifier else y
    model = cls(EFFECTS, n_inducing=10, n_epochs=2, batch_size=10).fit(X, y)
    mean, _ = model.effects(X)
    total = mean.sum(axis=1) + model.prior_mean_
    assert_allclose(total, model.latent_mean_and_variance(X)[0], rtol=1e-9)


def test_columns_by_name(data):
    X, y = data
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = fixed(KERNEL).fit(frame, y, noise_variance=0.1)
    expected = model.effects(frame)[0][:, [2, 0]]
    assert_allclose(model.effects(frame, ["c", "a"])[0], expected)
    assert_allclose(model.effects(frame, np.array([2, 0]))[0], expected)
    with pytest.raises(ValueError, match=r"names \['a', 'b', 'c'\], got \['d'\]"):
        model.effects(frame, ["d"])


def test_what_is_refused(data):
    X, y = data
    with pytest.raises(NotFittedError):
        SparseGPRegressor(EFFECTS).effects(X)
    plain = SparseGPRegressor(RBF() * EFFECTS, optimizer=None, n_inducing=5).fit(X, y)
    with pytest.raises(
        ValueError, match=r"no effects of single columns.*kernel \+ .*MainEffects\("
    ):
        plain.effects(X)
    model = SparseGPRegressor(EFFECTS, optimizer=None, n_inducing=5).fit(X, y)
    for features in ([3], [-1], ["a"], [True], [], "a", 0, [[0]], [1.0], [(0, [1])]):
        with pytest.raises(ValueError, match="features must be a list of numbers of columns"):
            model.effects(X, features)
    with pytest.raises(ValueError, match="features"):
        model.effects(X[:, :2])
    with pytest.raises(ValueError, match="features"):
        model.effects(X, reference=X[:, :2])


# Differences of averages


@pytest.mark.parametrize("kernel", [KERNEL, ConstantKernel(2.0) * RBF(1.5), DotProduct(1.5)])
def test_a_difference_of_averages_is_that_of_the_exact_process(kernel, data):
    X, y = data
    rng = np.random.RandomState(1)
    rows, reference = rng.uniform(-3, 3, (7, 3)), rng.uniform(-3, 3, (4, 3))
    model = fixed(kernel, noise=HomoscedasticNoise(0.09, "fixed")).fit(X, y)
    both = np.concatenate([rows, reference])
    weights = np.repeat([1 / 7, -1 / 4], [7, 4])
    inverse = np.linalg.inv(kernel(X) + 0.09 * np.eye(len(X)))
    cross = weights @ kernel(both, X)
    mean, std = model.average_difference(rows, reference)
    assert mean == pytest.approx(cross @ inverse @ y, rel=1e-6)
    variance = weights @ kernel(both) @ weights - cross @ inverse @ cross
    assert std == pytest.approx(np.sqrt(variance), rel=1e-5)
    back = model.average_difference(reference, rows)
    assert back == pytest.approx((-mean, std), rel=1e-9)
    assert model.average_difference(rows, rows) == pytest.approx((0.0, 0.0), abs=1e-6)


def test_the_uncertain_prior_mean_cancels_in_a_difference(data):
    X, y = data
    model = SparseGPRegressor(RBF(0.3), optimizer=None, **ALL_ROWS).fit(X, y + 100.0)
    far, farther = np.full((1, 3), 50.0), np.full((1, 3), 90.0)
    mean, std = model.average_difference(far, farther)
    assert mean == pytest.approx(0.0, abs=1e-8)
    assert std == pytest.approx(np.sqrt(2.0), rel=1e-6)


def test_differences_of_several_functions(data):
    X, y = data
    two = SparseGPRegressor(RBF(1.0), optimizer=None, normalize_y=True).fit(X, np.c_[y, 2.0 * y])
    mean, std = two.average_difference(X[:5], X[5:9])
    assert mean.shape == std.shape == (2,)
    assert_allclose(mean[1], 2.0 * mean[0])
    assert_allclose(std[1], 2.0 * std[0])
    labels = np.digitize(y, [-0.5, 0.5])
    for likelihood in ("softmax", "polya-gamma"):
        model = SparseGPClassifier(RBF(1.0), likelihood=likelihood, optimizer=None).fit(X, labels)
        mean, std = model.average_difference(X[:5], X[5:9])
        f, _ = model.latent_mean_and_variance(X)
        assert_allclose(mean, f[:5].mean(axis=0) - f[5:9].mean(axis=0), atol=1e-10)
        assert (std > 0.0).all()
    with pytest.raises(ValueError, match="features"):
        two.average_difference(X[:, :2], X)


def test_many_rows_are_taken_in_parts():
    rng = np.random.RandomState(0)
    X = rng.randn(60, 2)
    model = SparseGPRegressor(RBF(1.0), optimizer=None, n_inducing=10).fit(X, X[:, 0])
    rows, reference = rng.randn(1200, 2), rng.randn(300, 2)
    repeated = np.repeat(rows, 2, axis=0), np.repeat(reference, 3, axis=0)
    found = model.average_difference(rows, reference)
    assert model.average_difference(*repeated) == pytest.approx(found, rel=1e-8)


def test_differences_are_averaged_over_hyperparameters_as_predictions_are(data):
    X, y = data
    model = SparseGPRegressor(kernel="rbf", main_effects=False, max_iter=20).fit(X, y)
    assert len(model.hyperparameter_weights_) > 1
    mean, std = model.average_difference(X[:5], X[5:9])
    f = model.predict(X)
    assert mean == pytest.approx(f[:5].mean() - f[5:9].mean(), rel=1e-9)
    each = [part.posteriors[0].difference_moments(X[:5], X[5:9]) for part in model._components]
    within = model.hyperparameter_weights_ @ [variance[0] for _, variance in each]
    between = model.hyperparameter_weights_ @ [(part[0] - mean) ** 2 for part, _ in each]
    assert between > 0.0
    assert std == pytest.approx(np.sqrt(within + between), rel=1e-9)
