"""Odd but legal input of the regressor gives a right answer; an interruption changes nothing."""

import copy
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sparsegpc import (
    SparseGPRegressor,
)

N, ROW = 40, 3
KERNEL = ConstantKernel(2.0) * RBF(1.5)
FIXED = {"selector": "hgv", "kernel": KERNEL, "optimizer": None, "n_inducing": 10}


def data(n_outputs=None):
    rng = np.random.RandomState(0)
    X = rng.uniform(-3.0, 3.0, (N, 2))
    noise = rng.standard_normal(N if n_outputs is None else (N, n_outputs))
    y = (np.sin(X[:, 0]) + 0.2 * noise.T).T
    X.flags.writeable = y.flags.writeable = False
    return X, y


X, Y = data()
VARIANCE = np.linspace(0.05, 0.5, N)


def changed(array, value):
    """Return a copy with one entry of row `ROW` set."""
    array = np.array(array, dtype=np.float64)
    array[ROW if array.ndim == 1 else (ROW, 0)] = value
    return array


def state_of(model):
    return {name: value for name, value in vars(model).items() if name not in model.get_params()}


@pytest.fixture(scope="module")
def reference():
    """A fitted regressor that is not to be changed."""
    return SparseGPRegressor(**FIXED).fit(X, Y)


@pytest.fixture(scope="module")
def known():
    """A regressor fitted to known noise that is not to be changed."""
    return SparseGPRegressor(**FIXED).fit(X, Y, noise_variance=VARIANCE)


@pytest.mark.parametrize("calls", [1, 20, 60])
def test_a_fit_that_is_interrupted_leaves_the_last_one_as_it_was(calls, reference):
    class Interrupted(RBF):
        """Is asked for values so many times only."""

        count = 0

        def __call__(self, X, Y=None, eval_gradient=False):
            Interrupted.count += 1
            if Interrupted.count > calls:
                raise KeyboardInterrupt
            return super().__call__(X, Y)

    fitted = copy.deepcopy(reference)
    state = state_of(fitted)
    with pytest.raises(KeyboardInterrupt):
        fitted.set_params(kernel=Interrupted(), optimizer="bfgs", noise="gp").fit(X, 2.0 * Y)
    after = state_of(fitted)
    assert after.keys() == state.keys()
    assert all(after[name] is state[name] for name in state)


# Calls of a fitted model


def test_the_mean_of_a_model_of_known_noise_needs_no_noise(known):
    assert np.isfinite(known.predict(X)).all()
    assert np.isfinite(known.latent_mean_and_variance(X)).all()
    assert known.score(X, Y) > 0.5
    assert known.truncate(3, X, Y, noise_variance=VARIANCE).predict(X).shape == (N,)


def test_numpy_integers_truncate(reference):
    assert len(reference.truncate(np.int64(3), X, Y).inducing_points_) == 3


def test_absurd_hyperparameters_have_a_bound_of_minus_infinity(reference):
    for theta in ([800.0, 800.0], [80.0, -800.0], [-800.0, 800.0]):
        bound, gradient = reference.lower_bound(theta, X, Y, eval_gradient=True)
        assert bound == -np.inf or np.isfinite(bound)
        assert np.isfinite(gradient).all()
    assert reference.lower_bound([800.0, 800.0], X, Y) == -np.inf


def test_targets_beyond_all_bounds_have_a_log_density_of_minus_infinity(reference):
    density = reference.log_predictive_density(X[:2], [1e300, 0.0])
    assert density[0] == -np.inf
    assert np.isfinite(density[1])


def test_rows_far_away_are_predicted_as_the_prior(reference):
    far = np.full((1, 2), 1e200)
    mean, std = reference.predict(far, return_std=True)
    assert_allclose(mean, reference.prior_mean_)
    (q,) = reference._posterior.functions
    assert_allclose(std**2, 2.0 + q.mean_variance + reference.noise_variance_)


# What must work


RNG = np.random.RandomState(1)
LEGAL = {
    "constant targets": (X, np.full(N, 3.0)),
    "zero targets": (X, np.zeros(N)),
    "constant targets of many digits": (X, np.full(N, 0.1) * 3),
    "offset and tiny variance": (X, 1e6 + 1e-3 * Y),
    "tiny targets": (X, 1e-8 * Y),
    "huge targets": (X, 1e8 * Y),
    "targets near the limit": (X, 1e145 * Y),
    "small integers": (X, np.round(Y)),
    "binary targets": (X, (Y > 0).astype(float)),
    "one row": (X[:1], Y[:1]),
    "two rows": (X[:2], Y[:2]),
    "two equal rows": (X[[0, 0]], Y[:2]),
    "equal rows": (np.repeat(X[:1], N, axis=0), Y),
    "repeated rows with other targets": (np.repeat(X[:8], 5, axis=0), Y),
    "repeated rows": (np.tile(X, (2, 1)), np.tile(Y, 2)),
    "one constant column": (np.column_stack([X, np.full(N, 7.3)]), Y),
    "all columns constant": (np.zeros((N, 2)), Y),
    "unscaled columns": (X * [1e-6, 1e6], Y),
    "offset of the columns": (X + 1e9, Y),
    "one far row": (np.concatenate([X, [[1e9, -1e9]]]), np.append(Y, 1.0)),
    "one extreme target": (X, changed(Y, 1e6)),
    "more columns than rows": (RNG.standard_normal((15, 60)), Y[:15]),
    "duplicated columns": (np.tile(X, (1, 3)), Y),
    "noise only": (X, RNG.standard_normal(N)),
    "no noise": (X, np.sin(X[:, 0])),
    "linear": (X, X @ [2.0, -1.0]),
    "two outputs, one constant": (X, np.column_stack([Y, np.full(N, 2.0)])),
    "two outputs of different scales": (X, np.column_stack([1e-4 * Y, 1e4 * Y])),
}
CAUSES = (
    "stopped before its bound converged",
    "the learned function is constant",
    "the learned model is poor",
    "the bound still rises where hyperparameters meet their limits",
    "has standard deviation",
    "blur predictions",
    "the standard deviation of the residuals is",
)


# Other kinds of noise share most of the way with constant noise.
SOME = ["constant targets", "one row", "equal rows", "repeated rows with other targets"]
SOME += ["unscaled columns", "huge targets", "one extreme target", "two outputs, one constant"]


@pytest.mark.parametrize(
    ("name", "noise"),
    [(name, "homoscedastic") for name in LEGAL]
    + [(name, "gp") for name in SOME]
    + [(name, ("polynomial", "known")[k % 2]) for k, name in enumerate(SOME)],
)
def test_odd_data_are_fitted_with_finite_results(name, noise, capfd):
    rows, targets = LEGAL[name]
    variance = None
    if noise == "known":
        noise, variance = "homoscedastic", 0.1 * max(targets.var(), 1e-6)
    model = SparseGPRegressor(
        noise=noise, selector="hgv", n_inducing=10, max_iter=5, max_reselections=1, tol=1e-3
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(rows, targets, noise_variance=variance)
        mean, std = model.predict(rows, return_std=True, noise_variance=variance)
        density = model.log_predictive_density(rows, targets, noise_variance=variance)
        draws = model.sample_y(rows, noise_variance=variance)
        certificate = model.certificate(rows, targets, noise_variance=variance)
        short = model.truncate(1, rows, targets, noise_variance=variance)
    texts = [str(item.message) for item in caught]
    counts = [sum(cause in text for text in texts) for cause in CAUSES]
    assert sum(counts) == len(texts), texts
    assert max(counts) <= 1, texts
    assert {item.category for item in caught} <= {ConvergenceWarning, UserWarning}
    for values in (mean, std, density, draws, model.lower_bounds_, short.predict(rows)):
        assert np.isfinite(values).all()
    assert (std > 0.0).all()
    assert np.abs(mean).max() <= 10.0 * np.abs(targets).max() + 1e-300
    bounds = [certificate.lower_bound, certificate.upper_bound]
    assert np.isfinite(bounds).all()
    assert bounds[1] >= bounds[0] - 1e-6 * max(1.0, abs(bounds[0]))
    assert short.lower_bound_ <= certificate.upper_bound + 1e-6 * max(1.0, abs(bounds[1]))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "noise"),
    [
        ("constant targets", "gp"),
        ("one row", "homoscedastic"),
        ("equal rows", "gp"),
        ("no noise", "homoscedastic"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_odd_data_with_growth_and_normalised_targets(name, noise):
    rows, targets = LEGAL[name]
    model = SparseGPRegressor(
        noise=noise, n_inducing="auto", normalize_y=True, max_iter=10, max_reselections=1, tol=1e-3
    ).fit(rows, targets)
    assert np.isfinite(model.predict(rows, return_std=True)).all()
    assert model.growth_end_ in ("certified", "plateau", "max_inducing", "full_rank")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("normalize_y", [False, True])
def test_constant_targets_are_predicted_exactly(normalize_y):
    model = SparseGPRegressor(n_inducing=10, normalize_y=normalize_y).fit(X, np.full(N, 3.0))
    mean, std = model.predict(10.0 * X, return_std=True)
    assert_allclose(mean, 3.0, rtol=1e-10)
    assert (std < 1e-2).all()


def test_a_large_offset_of_the_targets_costs_no_digits():
    """Known noise, so that both models have the same hyperparameters."""
    plain = SparseGPRegressor(**FIXED).fit(X, Y, noise_variance=0.04)
    moved = SparseGPRegressor(**FIXED).fit(X, Y + 1e6, noise_variance=0.04)
    assert_allclose(moved.predict(X) - 1e6, plain.predict(X), atol=1e-8)
    assert_allclose(moved.lower_bound_, plain.lower_bound_, atol=1e-5)


@pytest.mark.parametrize("variance", [1e-12, 1e12])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_extreme_known_noise(variance):
    model = SparseGPRegressor(n_inducing=N, selection_tol=0.0, max_iter=10)
    mean, variance_of_f = model.fit(X, Y, noise_variance=variance).latent_mean_and_variance(X)
    assert np.isfinite(mean).all()
    assert (variance_of_f >= 0.0).all()
    assert np.abs(mean - (Y if variance < 1.0 else Y.mean())).max() < 1e-3


def test_known_noise_over_many_orders_of_magnitude(rng):
    variance = rng.permutation(np.logspace(-8, 8, N))
    model = SparseGPRegressor(
        KERNEL, optimizer=None, n_inducing=N, selection_tol=0.0, fit_prior_mean=False
    ).fit(X, Y, noise_variance=variance)
    full = GaussianProcessRegressor(KERNEL, alpha=variance, optimizer=None).fit(X, Y)
    mean, std = full.predict(X, return_std=True)
    assert_allclose(model.predict(X), mean, atol=1e-4)
    assert_allclose(model.latent_mean_and_variance(X)[1], std**2, atol=1e-4)
    assert_allclose(model.lower_bound_, full.log_marginal_likelihood_value_, rtol=1e-4)
