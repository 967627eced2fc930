"""Targets without noise: with a point at every row the model is the full Gaussian process."""

import warnings

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

from sparsegpc import HomoscedasticNoise, SparseGPRegressor

NOISE = 1e-10  # scikit-learn's default for alpha


def sparse(kernel, n_points, **options):
    options = {"optimizer": None, "fit_prior_mean": False, "selection_tol": 0.0} | options
    noise = HomoscedasticNoise(NOISE, "fixed")
    return SparseGPRegressor(kernel, noise=noise, n_inducing=n_points, **options)


def noisy_targets():
    """Of scikit-learn's example "Gaussian Processes regression: basic introductory example"."""
    X = np.linspace(0.0, 10.0, 1000)[:, None]
    rows = np.random.RandomState(1).choice(1000, size=6, replace=False)
    return X[rows], (X * np.sin(X))[rows, 0], X[::10]


def prior_and_posterior():
    """Of "Illustration of prior and posterior Gaussian process for different kernels"."""
    X = np.random.RandomState(4).uniform(0.0, 5.0, 10)[:, None]
    return X, np.sin((X[:, 0] - 2.5) ** 2), np.linspace(0.0, 5.0, 100)[:, None]


def decaying_wave(n=30):
    X = np.linspace(0.0, 10.0, n)[:, None]
    return X, 100.0 * np.sin(X[:, 0]) * np.exp(-0.1 * X[:, 0]), np.linspace(0.0, 10.0, 97)[:, None]


CASES = [
    (noisy_targets, 1.0 * sk.RBF(1.0)),
    (noisy_targets, 5.02**2 * sk.RBF(1.43)),
    (prior_and_posterior, 1.0 * sk.RBF(1.0)),
    (prior_and_posterior, 0.594**2 * sk.RBF(0.279)),
    (prior_and_posterior, 1.0 * sk.RationalQuadratic(1.0, 0.1)),
    (prior_and_posterior, 1.0 * sk.ExpSineSquared(1.0, 3.0)),
    (prior_and_posterior, 0.799**2 * sk.ExpSineSquared(0.791, 2.87)),
    (prior_and_posterior, 1.0 * sk.Matern(1.0, nu=1.5)),
    (prior_and_posterior, 0.609**2 * sk.Matern(0.484, nu=1.5)),
    (decaying_wave, 183.0**2 * sk.Matern(9.08, nu=1.5)),
    (decaying_wave, 316.0**2 * sk.Matern(1.0, nu=1.5)),
    (decaying_wave, 100.0**2 * sk.Matern(3.0, nu=2.5)),
    (decaying_wave, 100.0**2 * sk.RBF(0.5)),
    (lambda: decaying_wave(12), 50.0**2 * sk.Matern(2.0, nu=1.5)),
]


@pytest.mark.parametrize(("data", "kernel"), CASES)
def test_a_point_at_every_row_gives_the_model_of_scikit_learn(data, kernel):
    X, y, new = data()
    full = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None).fit(X, y)
    model = sparse(kernel, len(X)).fit(X, y)
    assert model.jitter_ == 0.0
    assert len(model.inducing_points_) == len(X)
    assert model.lower_bound_ == pytest.approx(full.log_marginal_likelihood_value_, rel=1e-6)
    mean, deviation = full.predict(new, return_std=True)
    found, variance = model.latent_mean_and_variance(new)
    assert_allclose(found, mean, rtol=0.0, atol=1e-6 * np.abs(mean).max())
    prior_deviation = np.sqrt(kernel.diag(new))
    assert np.abs(np.sqrt(variance) - deviation).max() < 1e-6 * prior_deviation.max()


def test_a_kernel_of_low_rank_gives_the_linear_model_of_its_features():
    """The squared dot product of the same example, for a parabola, at three points."""
    X, _, new = prior_and_posterior()
    kernel = 0.1 * sk.DotProduct(1.0) ** 2

    def phi(X):
        x = X[:, 0]
        return np.sqrt(0.1) * np.stack([np.ones(len(x)), np.sqrt(2.0) * x, x**2])

    weights = np.array([1.0, -2.0, 0.5])
    y = weights @ phi(X)
    model = sparse(kernel, len(X)).fit(X, y)
    assert len(model.inducing_points_) == 3
    # The evidence and the posterior of the weights, whose prior is standard Gaussian.
    S = phi(X) @ phi(X).T
    A = S + NOISE * np.eye(3)
    log_det = np.linalg.slogdet(A)[1] + (len(X) - 3) * np.log(NOISE)
    quad = weights @ S @ np.linalg.solve(A, weights)
    evidence = -0.5 * (quad + log_det + len(X) * np.log(2.0 * np.pi))
    assert model.lower_bound_ == pytest.approx(evidence, rel=1e-6)
    mean, variance = model.latent_mean_and_variance(new)
    assert_allclose(mean, weights @ phi(new), atol=1e-6)
    expected = NOISE * np.einsum("in,in->n", phi(new), np.linalg.solve(A, phi(new)))
    assert_allclose(np.sqrt(variance), np.sqrt(expected), atol=1e-6)


def test_learning_is_as_good_as_that_of_scikit_learn():
    X, y, _ = decaying_wave()
    kernel = sk.ConstantKernel(100.0, (1e-3, 1e6)) * sk.Matern(1.0, (1e-2, 1e2), nu=1.5)
    full = GaussianProcessRegressor(kernel, alpha=NOISE, n_restarts_optimizer=3, random_state=0)
    model = sparse(kernel, 30, optimizer="bfgs").fit(X, y)
    # The cost of jitter was 40 nats.
    assert model.lower_bound_ > full.fit(X, y).log_marginal_likelihood_value_ - 0.1


def test_the_gradient_keeps_its_digits():
    """Residuals of zero, times a precision of 1e10, would add errors of a hundred nats."""
    X, y, _ = decaying_wave()
    kernel = 316.0**2 * sk.Matern(1.0, nu=1.5)
    full = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None).fit(X, y)
    _, expected = full.log_marginal_likelihood(kernel.theta, eval_gradient=True)
    _, gradient = sparse(kernel, 30).fit(X, y).lower_bound(kernel.theta, X, y, eval_gradient=True)
    assert_allclose(gradient, expected, rtol=0.0, atol=1.0)


def extended_evidence(K, y):
    """The log marginal likelihood by elimination in extended precision."""
    A = K.astype(np.longdouble) + np.longdouble(NOISE) * np.eye(len(K))
    z, log_det = y.astype(np.longdouble), 0.0
    quad = np.longdouble(0.0)
    for i in range(len(A)):
        pivot = A[i, i]
        log_det += np.log(pivot)
        quad += z[i] ** 2 / pivot
        z[i + 1 :] -= A[i + 1 :, i] * (z[i] / pivot)
        A[i + 1 :, i + 1 :] -= np.outer(A[i + 1 :, i], A[i, i + 1 :]) / pivot
    return float(-0.5 * (quad + log_det + len(y) * np.log(2.0 * np.pi)))


KERNELS = [sk.RBF, sk.Matern, sk.RationalQuadratic, sk.ExpSineSquared]


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="no extended precision")
@pytest.mark.parametrize("bound", ["tight", "standard", "spherical"])
@given(seed=st.integers(0, 2**31), copies=st.booleans(), given_points=st.booleans())
@example(seed=210, copies=True, given_points=False)
@example(seed=220, copies=True, given_points=False)
def test_no_rounding_lifts_the_bound_above_the_exact_evidence(bound, seed, copies, given_points):
    """Of covariances down to singular ones, by more than rounding of K itself does."""
    rng = np.random.RandomState(seed)
    n, family = rng.randint(4, 50), KERNELS[rng.randint(4)]
    X = rng.uniform(-2.0, 2.0, (n, 1 if family is sk.ExpSineSquared else rng.randint(1, 4)))
    if copies:
        X[n // 2 :] = X[: n - n // 2] + 10.0 ** rng.uniform(-12, -3)
    variance = 10.0 ** rng.uniform(-4, 1)
    length_scale = 10.0 ** rng.uniform(-1.0, 1.5)
    kernel = sk.ConstantKernel(variance) * family(length_scale)
    y = np.sqrt(variance) * np.sin(X.sum(axis=1))
    options = {"bound": bound, "selector": X if given_points else "rpcholesky"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = sparse(kernel, n, **options).fit(X, y)
    posterior = model._posterior
    K = posterior.kernel.value(posterior.theta, X, X)
    values, vectors = np.linalg.eigh(K)
    # Squared distances by a product round more than scikit-learn's differences; the three matrices
    # of the bound, and K itself, each have such errors, which can leave K indefinite.
    rounding = n * variance * np.finfo(float).eps + np.linalg.norm(K - kernel(X), 2)
    errors = 4.0 * rounding - 2.0 * min(values[0], 0.0)
    alpha = vectors @ ((y @ vectors) / (np.maximum(values, 0.0) + NOISE))
    exact = extended_evidence(K + errors * np.eye(n), y)
    assert model.lower_bound_ <= exact + errors * (n / NOISE + alpha @ alpha) + 1e-12 * abs(exact)
