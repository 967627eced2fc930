"""The regressor that learns from minibatches: that it finds what the one of all rows finds."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import HomoscedasticNoise, SparseGPRegressor, StochasticSparseGPRegressor
from sparsegpc._core.minibatches.stochastic_model import StochasticModel
from sparsegpc._estimators.minibatches import base as minibatches
from tests.estimators.simple_kernel import simple_kernel

KERNEL = ConstantKernel(2.0) * RBF(1.5)
BOUNDS = ["tight", "standard"]
SELECTORS = ["hgv", "rpcholesky", "greedy-variance", "kmeans", "uniform"]
NOISE_STD = 0.2
# Fits in milliseconds, where what is learned is not the point.
FIXED = {"kernel": KERNEL, "learning_rate": 0.0}
QUICK = {"batch_size": 20, "n_epochs": 2}
PUBLIC = (
    "noise_variance_",
    "prior_mean_",
    "inducing_points_",
    "lower_bound_",
    "log_prior_",
    "n_steps_",
    "n_samples_seen_",
)


def waves(n=60, seed=0, sign=1.0):
    """Return read-only rows in the square from -3 to 3, and targets with noise 0.2."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3.0, 3.0, (n, 2))
    y = sign * (np.sin(X[:, 0]) + 0.5 * X[:, 1]) + NOISE_STD * rng.standard_normal(n)
    X.flags.writeable = y.flags.writeable = False
    return X, y


def grid(n=4):
    """Return points on a grid that reaches beyond the rows of `waves`."""
    side = np.linspace(-4.0, 4.0, n)
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)


def model_of(**parameters):
    return StochasticSparseGPRegressor(
        **{"n_inducing": 12, "random_state": 0, **simple_kernel(parameters)}
    )


def fixed_model(**parameters):
    return model_of(**{**FIXED, **parameters})


def of_all_rows(model, X, y, sample_weight=None):
    """Return the regressor of all rows at the points and hyperparameters of a fitted model."""
    return SparseGPRegressor(
        model.kernel_,
        noise=HomoscedasticNoise(model.noise_variance_),
        selector=model.inducing_points_,
        bound=model.bound,
        fit_prior_mean=model.fit_prior_mean,
        optimizer=None,
    ).fit(X, y, sample_weight=sample_weight)


def stream(model, X, y, sizes, sample_weight=None):
    """Give a model the rows block by block."""
    ends = np.cumsum(sizes)
    assert ends[-1] == len(y)
    for last, size in zip(ends, sizes, strict=True):
        rows = slice(last - size, last)
        weight = None if sample_weight is None else sample_weight[rows]
        model.partial_fit(X[rows], y[rows], weight)
    return model


def mean_log_density(model, X, y):
    return model.log_predictive_density(X, y).mean()


def assert_same(one, other, rtol=1e-7, bound=True):
    """Compare predictions, the noise and, if asked for, the bound of two fitted regressors."""
    assert_allclose(one.noise_variance_, other.noise_variance_, rtol=rtol)
    assert_allclose(one.prior_mean_, other.prior_mean_, rtol=rtol, atol=1e-8)
    assert_allclose(
        one.predict(grid(), return_std=True),
        other.predict(grid(), return_std=True),
        rtol=rtol,
        atol=1e-8,
    )
    if bound:
        assert_allclose(one.lower_bound_, other.lower_bound_, rtol=rtol)


def assert_identical(one, other):
    """Compare everything that two fitted regressors show, to the last bit."""
    assert one.kernel_ == other.kernel_
    for name in PUBLIC:
        assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert_array_equal(one.predict(grid(), return_std=True), other.predict(grid(), return_std=True))


@pytest.fixture(scope="module")
def learned():
    """A regressor that has learned its kernel on `waves(200)`; not to be changed."""
    return model_of(batch_size=50).fit(*waves(200))


# With fixed hyperparameters: against other implementations


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("fit_prior_mean", [True, False])
@pytest.mark.parametrize("batch_size", [1, 7, 60, 1000])
def test_at_fixed_hyperparameters_it_is_the_regressor_of_all_rows(
    bound, fit_prior_mean, batch_size
):
    X, y = waves()
    y = 3.0 * y + 5.0
    model = fixed_model(bound=bound, fit_prior_mean=fit_prior_mean, batch_size=batch_size)
    model.fit(X, y)
    assert model.kernel_ == KERNEL
    assert len(model.inducing_points_) == 12
    assert_same(model, of_all_rows(model, X, y))


@pytest.mark.parametrize("bound", BOUNDS)
def test_with_all_rows_inducing_it_is_the_full_model(bound):
    X, y = waves(40)
    y = y + 7.0
    model = fixed_model(bound=bound, n_inducing=200, batch_size=9).fit(X, y)
    assert len(model.inducing_points_) == 40
    C = KERNEL(X) + model.noise_variance_ * np.eye(40)
    inverse = np.linalg.inv(C)
    mean = inverse.sum(axis=0) @ y / inverse.sum()
    assert_allclose(model.prior_mean_, mean, atol=1e-6)
    assert_allclose(
        model.lower_bound_, multivariate_normal(np.full(40, mean), C).logpdf(y), atol=1e-5
    )
    K = KERNEL(grid(), X)
    latent_mean, variance = model.latent_mean_and_variance(grid())
    assert_allclose(latent_mean, mean + K @ inverse @ (y - mean), atol=1e-5)
    # Kriging with an unknown mean.
    explained = np.einsum("ij,jk,ik->i", K, inverse, K)
    of_mean = (1.0 - K @ inverse.sum(axis=1)) ** 2 / inverse.sum()
    assert_allclose(variance, 2.0 - explained + of_mean, atol=1e-5)


@settings(max_examples=15)
@given(
    seed=st.integers(0, 10_000),
    n_inducing=st.integers(1, 40),
    batch_size=st.integers(1, 50),
    bound=st.sampled_from(BOUNDS),
    selector=st.sampled_from(SELECTORS),
)
def test_no_bound_exceeds_the_likelihood_of_the_full_model(
    seed, n_inducing, batch_size, bound, selector
):
    X, y = waves(40, seed)
    model = fixed_model(
        n_inducing=n_inducing,
        batch_size=batch_size,
        bound=bound,
        selector=selector,
        random_state=seed,
        fit_prior_mean=False,
    ).fit(X, y)
    C = KERNEL(X) + model.noise_variance_ * np.eye(40)
    assert model.lower_bound_ <= multivariate_normal(np.zeros(40), C).logpdf(y) + 1e-6


def test_the_tight_bound_is_the_higher_one():
    X, y = waves()
    tight, standard = (fixed_model(bound=bound, selector=grid()).fit(X, y) for bound in BOUNDS)
    assert tight.lower_bound_ > standard.lower_bound_ + 1e-3


@settings(max_examples=10)
@given(
    cuts=st.sets(st.integers(1, 59), max_size=6),
    batch_size=st.integers(1, 70),
    bound=st.sampled_from(BOUNDS),
)
def test_a_stream_of_any_blocks_ends_at_the_regressor_of_all_rows(cuts, batch_size, bound):
    X, y = waves()
    sizes = np.diff([0, *sorted(cuts), 60])
    model = fixed_model(selector=grid(), bound=bound, batch_size=batch_size)
    stream(model, X, y, sizes)
    assert_same(model, of_all_rows(model, X, y), rtol=1e-6)
    assert model.n_steps_ == sum(-(-size // batch_size) for size in sizes)
    assert model.n_samples_seen_ == 60


def test_a_stream_is_the_fit_where_both_start_alike():
    X, y = waves()
    # Three blocks of the same rows have targets of the same variance, from which the noise starts.
    X, y = np.vstack([X, X + 0.1, X - 0.1]), np.tile(y, 3)
    parts = stream(fixed_model(selector=grid()), X, y, [60, 60, 60])
    assert_same(parts, fixed_model(selector=grid(), batch_size=50).fit(X, y))


def test_a_stream_with_weights_is_the_regressor_of_all_weighted_rows(rng):
    X, y = waves()
    weight = rng.randint(0, 4, 60)
    model = fixed_model(selector=grid())
    stream(model, X, y, [20, 10, 30], weight)
    assert_same(model, of_all_rows(model, X, y, weight))
    assert model.n_samples_seen_ == np.count_nonzero(weight)


@pytest.mark.filterwarnings("ignore:a weight counts copies")
def test_memory_keeps_as_much_evidence_as_that_many_rows():
    X, y = waves(300)
    model = fixed_model(selector=grid(), memory=50)
    stream(model, X, y, [50] * 6)
    assert_same(model, of_all_rows(model, X[-50:], y[-50:]))
    # In smaller blocks what came earlier fades: it is weights that fall with age.
    model = fixed_model(selector=grid(), memory=50, bound="standard")
    stream(model, X, y, [25] * 12)
    weight = np.repeat(0.5 ** np.append(10, np.arange(10, -1, -1)), 25)
    assert_same(model, of_all_rows(model, X, y, weight), bound=False)
    assert model.n_samples_seen_ == 300


def test_without_memory_of_anything_else_the_last_block_counts():
    X, y = waves()
    model = stream(fixed_model(selector=grid(), memory=1), X, y, [30, 30])
    assert_same(model, of_all_rows(model, X[30:], y[30:]))


# What is learned


@pytest.mark.parametrize("bound", BOUNDS)
def test_learning_comes_close_to_the_regressor_of_all_rows(bound):
    X, y = waves(1500)
    points = X[:30]
    kernel = ConstantKernel() * RBF([1.0, 1.0])
    full = SparseGPRegressor(kernel, selector=points, bound=bound).fit(X, y)
    model = model_of(kernel=kernel, selector=points, bound=bound, batch_size=150).fit(X, y)
    assert model.lower_bound_ < full.lower_bound_ + 0.1
    assert model.lower_bound_ > full.lower_bound_ - 0.02 * len(y)
    assert_allclose(model.noise_variance_, full.noise_variance_, rtol=0.1)
    assert_array_equal(model.inducing_points_, points)
    # The bound is that of what was learned, for all rows.
    assert_same(model, of_all_rows(model, X, y), rtol=1e-6)


def test_learning_moves_bad_starts_to_where_all_rows_lead():
    X, y = waves(600)
    kernel = ConstantKernel(30.0) * RBF(0.3)
    fixed = model_of(kernel=kernel, learning_rate=0.0, selector=X[:30]).fit(X, y)
    few, many = (
        model_of(
            kernel=kernel, selector=X[:30], batch_size=100, n_epochs=n_epochs, learning_rate=0.3
        ).fit(X, y)
        for n_epochs in (0, 10)
    )
    assert few.lower_bound_ > fixed.lower_bound_ + 10.0
    assert many.lower_bound_ > few.lower_bound_ - 1.0


@pytest.mark.filterwarnings("ignore:the learned model is poor")
def test_epochs_learn_what_the_first_rows_do_not_tell(monkeypatch):
    X, y = waves(600)
    # Without the search among the first rows, everything is learned from batches.
    monkeypatch.setattr(
        "sparsegpc._estimators.minibatches.base.learn_theta",
        lambda first, n_inducing: first.hyperparameters.theta,
    )
    bounds = [
        model_of(kernel=ConstantKernel() * RBF(0.4), selector=X[:30], batch_size=60, n_epochs=n)
        .fit(X, y)
        .lower_bound_
        for n in (0, 1, 4, 12)
    ]
    assert (np.diff(bounds) > [50.0, 5.0, -3.0]).all(), bounds


def test_moving_the_points_raises_the_bound():
    X, y = waves(400)
    points = 0.5 * X[:8]
    still, moved = (
        model_of(selector=points, batch_size=50, n_epochs=15, optimize_inducing=optimize).fit(X, y)
        for optimize in (False, True)
    )
    assert_array_equal(still.inducing_points_, points)
    assert np.abs(moved.inducing_points_ - points).max() > 0.1
    assert moved.lower_bound_ > still.lower_bound_ + 20.0
    assert_same(moved, of_all_rows(moved, X, y), rtol=1e-6)


def test_points_stay_where_hyperparameters_do():
    X, y = waves()
    model = fixed_model(selector=X[:5], optimize_inducing=True).fit(X, y)
    assert_array_equal(model.inducing_points_, X[:5])


def test_a_stream_learns():
    X, y = waves(1200)
    test = waves(300, seed=1)
    model = model_of(n_inducing=30)
    densities = []
    for first in range(0, 1200, 60):
        model.partial_fit(X[first : first + 60], y[first : first + 60])
        densities.append(mean_log_density(model, *test))
    best = norm.logpdf(test[1], np.sin(test[0][:, 0]) + 0.5 * test[0][:, 1], NOISE_STD).mean()
    assert densities[-1] > densities[0] + 0.1
    assert min(densities[-5:]) > best - 0.05
    assert max(densities) < best + 0.05
    assert_allclose(model.predict_noise_std(grid()), NOISE_STD, rtol=0.15)
    assert model.n_steps_ == 20


def test_a_large_block_is_learned_as_evenly_as_small_ones():
    X, y = waves(1200)
    kernel = ConstantKernel(1.0, "fixed") * RBF(0.5, "fixed")
    for size in (60, 1200):
        model = model_of(kernel=kernel, n_inducing=80, batch_size=60, learning_rate=0.5)
        stream(model, X, y, [size] * (1200 // size))
        # The function is known no better on one side of the first column than on the other.
        variance = model.latent_mean_and_variance(X)[1]
        left, right = variance[X[:, 0] < -2.0].mean(), variance[X[:, 0] > 2.0].mean()
        assert 0.5 < left / right < 2.0


def test_memory_forgets_a_function_that_has_changed():
    before, after, test = waves(600), waves(300, seed=1, sign=-1.0), waves(200, 2, sign=-1.0)
    errors = {}
    for memory in (None, 100):
        model = fixed_model(n_inducing=30, memory=memory)
        stream(model, *before, [100] * 6)
        assert model.score(*test) < -1.0
        stream(model, *after, [100] * 3)
        errors[memory] = np.abs(model.predict(test[0]) - test[1]).mean()
    assert errors[100] < 0.3 < 0.6 < errors[None]


def test_partial_fit_goes_on_from_fit():
    X, y = waves(300)
    model = fixed_model(selector=grid(), batch_size=40).fit(X[:200], y[:200])
    model.partial_fit(X[200:], y[200:])
    assert_same(model, of_all_rows(model, X, y))
    assert model.n_steps_ == 3
    assert model.n_samples_seen_ == 300


def test_points_may_begin_to_move_in_the_middle_of_a_stream(monkeypatch):
    X, y = waves(350)
    monkeypatch.setattr(minibatches, "START_ROWS", 250)
    model = stream(model_of(batch_size=20), X[:300], y[:300], [150, 150])
    points = model.inducing_points_
    model.set_params(optimize_inducing=True).partial_fit(X[300:], y[300:])
    assert np.abs(model.inducing_points_ - points).max() > 1e-3
    points = model.inducing_points_
    model.set_params(optimize_inducing=False).partial_fit(X, y)
    assert_array_equal(model.inducing_points_, points)


def test_fit_begins_anew():
    X, y = waves(100)
    model = model_of(**QUICK)
    model.fit(X + 1.0, 2.0 * y).partial_fit(X, y).fit(X, y)
    assert_identical(model, model_of(**QUICK).fit(X, y))
    model.fit(X[:, :1], y)
    assert model.n_features_in_ == 1


# What does not matter


def test_weights_are_repetition(rng):
    X, y = waves(90)
    weight = rng.randint(0, 4, 90)
    copies = np.repeat(np.arange(90), weight)
    rng.shuffle(copies)
    for model in (model_of(**QUICK), model_of(**QUICK, bound="standard", selector="kmeans")):
        weighted = clone(model).fit(X, y, sample_weight=weight)
        assert_identical(weighted, clone(model).fit(X[copies], y[copies]))
        assert_identical(
            weighted, clone(model).fit(X[weight > 0], y[weight > 0], weight[weight > 0])
        )
        plain = clone(model).fit(X, y)
        assert np.abs(weighted.predict(grid()) - plain.predict(grid())).max() > 1e-3
    streamed, repeated = (model_of(batch_size=20) for _ in range(2))
    streamed.partial_fit(X, y, weight).partial_fit(X, y, weight)
    repeated.partial_fit(X[copies], y[copies]).partial_fit(X[copies], y[copies])
    assert_identical(streamed, repeated)


def test_different_targets_of_one_row_are_weighed_against_each_other():
    X, y = waves(20)
    model = fixed_model(selector=X).fit(np.vstack([X, X, X]), np.concatenate([y, y, y + 3.0]))
    same = fixed_model(selector=X).fit(
        np.vstack([X, X]), np.concatenate([y, y + 3.0]), [2] * 20 + [1] * 20
    )
    assert_identical(model, same)
    assert_allclose(model.prior_mean_, of_all_rows(model, X, y + 1.0).prior_mean_, atol=0.1)


@pytest.mark.parametrize("selector", ["hgv", "rpcholesky", "kmeans"])
def test_the_order_of_rows_does_not_matter_at_all(selector, rng):
    X, y = waves(100)
    order = rng.permutation(100)
    model = model_of(selector=selector, **QUICK)
    assert_identical(clone(model).fit(X[order], y[order]), model.fit(X, y))
    assert_identical(clone(model).partial_fit(X[order], y[order]), clone(model).partial_fit(X, y))


def test_results_follow_the_random_state_and_leave_the_global_one_alone():
    X, y = waves(100)
    np.random.seed(5)
    expected = np.random.RandomState(5).uniform()
    one, same, other = (model_of(random_state=seed, **QUICK).fit(X, y) for seed in (0, 0, 1))
    assert np.random.uniform() == expected
    assert_identical(one, same)
    assert one.kernel_ != other.kernel_
    instance = model_of(random_state=np.random.RandomState(0), **QUICK)
    assert_identical(instance.fit(X, y), one)


@pytest.mark.parametrize("scale", [1e-5, 1e5])
def test_results_follow_the_units_of_the_targets(scale):
    X, y = waves(200)
    model = model_of(batch_size=50, n_epochs=3).fit(X, y)
    scaled = model_of(batch_size=50, n_epochs=3).fit(X, scale * y)
    assert_allclose(scaled.noise_variance_, scale**2 * model.noise_variance_, rtol=1e-4)
    assert_allclose(scaled.prior_mean_, scale * model.prior_mean_, rtol=1e-4)
    assert_allclose(scaled.lower_bound_, model.lower_bound_ - 200 * np.log(scale), atol=1e-3)
    assert_allclose(
        scaled.predict(grid(), return_std=True),
        scale * np.array(model.predict(grid(), return_std=True)),
        rtol=1e-3,
        atol=1e-3 * scale,
    )


def test_a_large_offset_of_the_targets_costs_no_digits():
    X, y = waves(200)
    model = model_of(batch_size=50, n_epochs=3).fit(X, y)
    far = model_of(batch_size=50, n_epochs=3).fit(X, y + 2.0**30)
    assert_allclose(far.noise_variance_, model.noise_variance_, rtol=1e-4)
    assert_allclose(far.predict(grid()) - 2.0**30, model.predict(grid()), atol=1e-4)
    assert_allclose(far.prior_mean_ - 2.0**30, model.prior_mean_, atol=1e-3)
    assert_allclose(far.lower_bound_, model.lower_bound_, atol=1e-3)


def test_results_do_not_depend_on_the_way_a_stream_is_saved():
    X, y = waves(200)
    straight, saved = model_of(batch_size=30), model_of(batch_size=30)
    for first in range(0, 200, 50):
        rows = slice(first, first + 50)
        straight.partial_fit(X[rows], y[rows])
        saved = pickle.loads(pickle.dumps(saved.partial_fit(X[rows], y[rows])))
    assert_identical(saved, straight)
    assert_array_equal(saved.sample_y(grid()), straight.sample_y(grid()))


def test_a_copy_of_a_stream_goes_its_own_way():
    X, y = waves(100)
    model = model_of(optimize_inducing=True, batch_size=20).partial_fit(X[:50], y[:50])
    copy = pickle.loads(pickle.dumps(model))
    early = model.predict(grid())
    copy.partial_fit(X[50:], y[50:])
    assert_array_equal(model.predict(grid()), early)
    assert np.abs(copy.predict(grid()) - early).max() > 1e-6


def test_nothing_that_was_given_is_changed():
    X, y = (array.copy() for array in waves())
    weight, points = np.ones(60), X[:8].copy()
    kernel = ConstantKernel() * RBF(1.0)
    given = [X, y, weight, points]
    before = [array.copy() for array in given]
    model = model_of(kernel=kernel, selector=points, optimize_inducing=True, **QUICK)
    model.fit(X, y, weight).partial_fit(X, y, weight)
    for array, old in zip(given, before, strict=True):
        assert_array_equal(array, old)
    assert kernel == ConstantKernel() * RBF(1.0) != model.kernel_
    predictions = model.predict(grid())
    for array in given:
        array += 1.0
    assert_array_equal(model.predict(grid()), predictions)


# Predictions agree with each other


def test_the_variance_of_targets_is_that_of_f_and_the_noise(learned):
    mean, std = learned.predict(grid(), return_std=True)
    same, covariance = learned.predict(grid(), return_cov=True)
    latent_mean, variance = learned.latent_mean_and_variance(grid())
    noise = learned.predict_noise_std(grid())
    for values in (mean, std, noise, variance):
        assert values.shape == (16,)
    assert_array_equal(learned.predict(grid()), mean)
    assert_array_equal(latent_mean, mean)
    assert_allclose(same, mean, atol=1e-10)
    assert_allclose(noise**2, learned.noise_variance_, rtol=1e-12)
    assert_allclose(std**2, variance + noise**2, rtol=1e-10)
    assert_allclose(covariance.diagonal(), std**2, rtol=1e-8)
    assert_allclose(covariance, covariance.T, atol=1e-12)
    assert_allclose(
        learned.predict(grid(), return_std=True, noise_variance=0.7)[1] ** 2, variance + 0.7
    )


def test_the_log_density_is_that_of_a_normal_distribution(learned):
    X, y = waves(30, seed=4)
    mean, std = learned.predict(X, return_std=True)
    assert_allclose(learned.log_predictive_density(X, y), norm.logpdf(y, mean, std), rtol=1e-10)


def test_draws_have_the_moments_of_the_prediction(learned):
    n = 20_000
    draws = learned.sample_y(grid(3), n, random_state=1)
    assert draws.shape == (9, n)
    mean, covariance = learned.predict(grid(3), return_cov=True)
    std = np.sqrt(covariance.diagonal())
    assert np.abs(draws.mean(axis=1) - mean).max() < 5.0 * std.max() / n**0.5
    assert np.abs((np.cov(draws) - covariance) / np.outer(std, std)).max() < 0.06
    assert learned.sample_y(grid()).shape == (16, 1)


def test_far_from_the_rows_the_prior_returns(learned):
    mean, variance = learned.latent_mean_and_variance([[1e6, 0.0]])
    assert_allclose(mean, learned.prior_mean_)
    (q,) = learned._posterior.functions
    assert_allclose(variance, learned.kernel_.diag(np.zeros((1, 2))) + q.mean_variance)


# Choice of points


@pytest.mark.parametrize("selector", SELECTORS)
def test_points_are_chosen_among_the_rows(selector):
    X, y = waves(150)
    model = fixed_model(selector=selector).fit(X, y)
    assert model.inducing_points_.shape == (12, 2)
    assert len(np.unique(model.inducing_points_, axis=0)) == 12
    if selector != "kmeans":
        assert {tuple(point) for point in model.inducing_points_} <= {tuple(row) for row in X}


def test_points_of_a_stream_come_from_its_first_rows(monkeypatch):
    X, y = waves(300)
    monkeypatch.setattr(minibatches, "START_ROWS", 100)
    model = stream(fixed_model(n_inducing=5), X, y, [20, 80, 200])
    points = {tuple(point) for point in model.inducing_points_}
    assert points <= {tuple(row) for row in X[:100]}
    assert not points <= {tuple(row) for row in X[:20]}


def test_points_given_as_a_list_are_used_as_they_are():
    X, y = waves()
    model = fixed_model(selector=grid(3).tolist(), n_inducing=2).fit(X, y)
    assert_array_equal(model.inducing_points_, grid(3))


def test_more_points_than_rows_are_silently_all_of_them():
    X, y = waves(10)
    for method in ("fit", "partial_fit"):
        model = getattr(model_of(n_inducing=50), method)(np.vstack([X, X]), np.append(y, y))
        assert len(model.inducing_points_) == 10
        assert np.isfinite(model.predict(grid(), return_std=True)).all()


# Attributes


def test_the_public_attributes(learned):
    names = {name for name in vars(learned) if name.endswith("_") and not name.startswith("_")}
    assert names == {*PUBLIC, "history_", "kernel_", "n_features_in_"}
    assert isinstance(learned.noise_variance_, float)
    assert isinstance(learned.lower_bound_, float)
    assert np.isscalar(learned.prior_mean_)
    assert learned.inducing_points_.shape == (12, 2)
    assert learned.n_steps_ == 10 * 4
    assert learned.n_features_in_ == 2


def test_optional_hyperparameters_stay_where_they_are_fixed():
    X, y = waves(200)
    kernel = ConstantKernel(2.0, "fixed") * Matern(1.0, nu=1.5)
    model = model_of(kernel=kernel, batch_size=50, n_epochs=2).fit(X, y)
    assert model.kernel_.k1 == kernel.k1
    assert model.kernel_.k2 != kernel.k2
    fixed = ConstantKernel(2.0, "fixed") * RBF(1.5, "fixed")
    model = model_of(kernel=fixed, batch_size=50, n_epochs=2).fit(X, y)
    assert model.kernel_ == fixed
    assert_same(model, of_all_rows(model, X, y))


def test_hyperparameters_stay_within_their_bounds():
    X, y = waves(200)
    kernel = ConstantKernel(1.0, (0.5, 1.5)) * RBF(1.0, (0.9, 1.1))
    model = model_of(kernel=kernel, batch_size=20, learning_rate=1.0).fit(X, y)
    low, high = kernel.bounds.T
    assert (model.kernel_.theta >= low).all()
    assert (model.kernel_.theta <= high).all()
    assert np.isclose(model.kernel_.theta, high).any()


def test_no_training_rows_are_kept_but_the_inducing_points():
    X, y = waves(2000)
    model = fixed_model().fit(X, y).partial_fit(X, y)
    assert len(pickle.dumps(model)) < 10_000


# With the rest of scikit-learn


def test_a_clone_is_not_fitted(learned):
    copy = clone(learned)
    assert copy.get_params() == learned.get_params()
    assert set(vars(copy)) == set(copy.get_params())


# A single point is worse than none.
@pytest.mark.filterwarnings("ignore:.*worse for all rows than a constant")
def test_cross_validation_and_grid_search_in_a_pipeline():
    X, y = waves(200)
    pipeline = make_pipeline(StandardScaler(), model_of(n_inducing=20, batch_size=50, n_epochs=2))
    predictions = cross_val_predict(pipeline, 100.0 * X, y, cv=3)
    assert np.std(y - predictions) < 0.3
    name = "stochasticsparsegpregressor__n_inducing"
    search = GridSearchCV(pipeline, {name: [1, 20]}, cv=2).fit(X, y)
    assert search.best_params_ == {name: 20}


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("predict", (grid(),)),
        ("latent_mean_and_variance", (grid(),)),
        ("predict_noise_std", (grid(),)),
        ("log_predictive_density", (grid(), np.zeros(16))),
        ("predict_quantiles", (grid(), 0.5)),
        ("predict_interval", (grid(),)),
        ("sample_y", (grid(),)),
        ("score", (grid(), np.zeros(16))),
    ],
)
def test_methods_need_a_fit(method, arguments):
    with pytest.raises(NotFittedError, match="StochasticSparseGPRegressor instance is not fitted"):
        getattr(model_of(), method)(*arguments)


# Bad and odd input

ROWS, TARGETS = waves(30)
REFUSED = {
    "points of other columns": ({"selector": np.zeros((3, 5))}, {}, "5 columns, but X has 2"),
    "points not finite": ({"selector": [[np.nan, 0.0]]}, {}, "selector contains NaN"),
    "no such selector": ({"selector": "best"}, {}, "'selector' parameter"),
    "white kernel": (
        {"kernel": RBF() + WhiteKernel()},
        {},
        "always learned: leave the WhiteKernel",
    ),
    "length scales": ({"kernel": RBF([1.0, 1.0, 1.0])}, {}, "3"),
    "learning rate": ({"learning_rate": 1.5}, {}, r"'learning_rate' .* in the range \[0.0, 1.0\]"),
    "negative rate": ({"learning_rate": -0.1}, {}, "'learning_rate' parameter"),
    "epochs": ({"n_epochs": -1}, {}, "'n_epochs' parameter"),
    "batch size": ({"batch_size": 0}, {}, "'batch_size' parameter"),
    "memory": ({"memory": 0}, {}, "'memory' parameter"),
    "spherical": ({"bound": "spherical"}, {}, "'bound' parameter"),
    "two targets": ({}, {"y": np.column_stack([TARGETS, TARGETS])}, "1d array"),
    "target not finite": ({}, {"y": np.where(TARGETS > 1.0, np.inf, TARGETS)}, "infinity"),
    "row not finite": ({}, {"X": np.where(ROWS > 2.0, np.nan, ROWS)}, "NaN"),
    "lengths": ({}, {"y": TARGETS[:-1]}, "inconsistent numbers of samples"),
    "huge targets": ({}, {"y": 1e200 * TARGETS}, "whose square overflows"),
    "negative weight": ({}, {"sample_weight": -np.ones(30)}, "must not be negative"),
    "no weight": ({}, {"sample_weight": np.zeros(30)}, "non-zero number"),
    "no rows": ({}, {"X": ROWS[:0], "y": TARGETS[:0], "sample_weight": None}, "0 sample"),
}


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_leaves_no_trace(case, method):
    parameters, data, message = REFUSED[case]
    model = model_of(**parameters)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(**{"X": ROWS, "y": TARGETS, **data})
    assert vars(model) == before


def test_a_block_that_is_refused_leaves_the_stream_as_it_was():
    model, same = (model_of(batch_size=10).partial_fit(ROWS, TARGETS) for _ in range(2))
    for data, message in (
        ({"X": ROWS[:, :1]}, "X has 1 features, but .* is expecting 2"),
        ({"y": TARGETS[:-1]}, "inconsistent numbers of samples"),
        ({"y": np.column_stack([TARGETS, TARGETS])}, "1d array"),
        ({"y": np.full(30, np.nan)}, "NaN"),
        ({"sample_weight": np.zeros(30)}, "non-zero number"),
    ):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(**{"X": ROWS, "y": TARGETS, **data})
        assert_identical(model, same)
    X, y = waves(40, seed=1)
    assert_identical(model.partial_fit(X, y), same.partial_fit(X, y))


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("fitted", [False, True])
def test_an_interruption_leaves_the_model_as_it_was(method, fitted, monkeypatch):
    model = model_of(**QUICK)
    if fitted:
        model.partial_fit(ROWS, TARGETS)
    before, original, calls = dict(vars(model)), StochasticModel.step, []

    def interrupted(self, *args, **kwargs):
        calls.append(None)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(self, *args, **kwargs)

    monkeypatch.setattr(StochasticModel, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        getattr(model, method)(*waves(60, seed=1))
    after = vars(model)
    assert set(after) == set(before)
    assert all(after[name] is before[name] for name in before)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("value", [0.0, 0.3, -1e6])
def test_constant_targets_are_predicted_as_they_are(method, value):
    X, _ = waves(32)
    model = getattr(model_of(**QUICK), method)(X, np.full(32, value))
    assert_allclose(model.predict(grid()), value, rtol=1e-12)
    std = model.predict(X, return_std=True)[1]
    assert (std > 0.0).all()
    assert (std < 1.0).all()


@pytest.mark.parametrize("value", [1e6 + 0.1])
def test_constant_targets_do_not_vary_by_the_rounding_of_their_mean(value):
    X, _ = waves(101)
    model = model_of(**QUICK).fit(X, np.full(101, value))
    zero = model_of(**QUICK).fit(X, np.zeros(101))
    assert_allclose(model.noise_variance_, zero.noise_variance_)


def test_rows_and_batches_are_counted_alike():
    X, y = waves(100)
    model = model_of(batch_size=25, n_epochs=3).fit(X, y)
    assert model.n_samples_seen_ == 100
    assert model.n_steps_ == 12


ODD = {
    "one row": (ROWS[:1], TARGETS[:1]),
    "two rows": (ROWS[:2], TARGETS[:2]),
    "equal rows": (np.zeros((30, 2)), TARGETS),
    "constant column": (ROWS * [1.0, 0.0], TARGETS),
    "columns of different units": (ROWS * [1e6, 1e-6], TARGETS),
    "an outlier": (ROWS, np.append(TARGETS[:-1], 1e4)),
}


@pytest.mark.filterwarnings("ignore:.*worse for all rows than a constant")
# One length scale for columns of different units hides one of them.
@pytest.mark.filterwarnings(
    "ignore:residuals of neighbouring:sklearn.exceptions.ConvergenceWarning"
)
@pytest.mark.filterwarnings("ignore:the learned (function is constant|model is poor)")
@pytest.mark.parametrize("name", ODD)
def test_odd_data_are_fitted_with_finite_results(name):
    X, y = ODD[name]
    model = model_of(optimize_inducing=True, batch_size=7, n_epochs=3)
    for method in (model.fit, clone(model).partial_fit, model.partial_fit):
        fitted = method(X, y)
        assert np.isfinite(fitted.predict(ROWS, return_std=True)).all()
        assert np.isfinite([fitted.lower_bound_, fitted.noise_variance_, fitted.prior_mean_]).all()


def test_a_stream_may_begin_with_a_single_row():
    X, y = waves(200)
    model = stream(fixed_model(selector=grid()), X, y, [1, 199])
    assert_same(model, of_all_rows(model, X, y))
