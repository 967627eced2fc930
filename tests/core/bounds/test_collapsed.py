"""The collapsed bound against dense Gaussian algebra, quadrature and finite differences.

The dense oracles know neither V nor B: they see covariance matrices, as in a textbook.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import dblquad, quad
from scipy.stats import norm

from sparsegpc._core.bounds.collapsed import (
    MeanPrior,
    collapse,
    covariance,
    divergence,
    gradient,
    inducing_moments,
    marginals,
    optimal_posterior,
    row_sums,
)
from sparsegpc._core.bounds.features import features
from sparsegpc._core.bounds.slacks import SPHERICAL, STANDARD, TIGHT
from sparsegpc._core.kernels.algebra import Scaled
from sparsegpc._core.kernels.families import RBF, Constant, Matern12
from sparsegpc._core.likelihoods.base import Sites
from tests.core.helpers import SLACK, central_difference, random_problem, slacks_where

PRIOR_MEAN = pytest.mark.parametrize(
    "prior_mean", [None, 0.0, -0.8], ids=["learned", "zero", "-0.8"]
)
SEED = st.integers(0, 2**31)
# From sites that say nothing to sites that are all but observations without noise.
EXPONENTS = st.tuples(st.floats(-8.0, 8.0), st.floats(-8.0, 8.0)).map(sorted)


def _bound(problem, slack, prior_mean=None, **options):
    return collapse(problem.features(**options), problem.sites, slack, prior_mean).bound


def _log_normaliser(covariance_matrix, sites, prior_mean):
    """Return log of the integral of N(f; prior_mean, K) prod_n t_n(f_n), without inverting K."""
    precision, shift, log_scale = sites
    root = np.sqrt(precision)
    inner = np.eye(len(root)) + root[:, None] * covariance_matrix * root
    pull = shift - precision * prior_mean
    solved = np.linalg.solve(inner, root * (covariance_matrix @ pull)) / root
    constant = (prior_mean * shift - 0.5 * prior_mean**2 * precision + log_scale).sum()
    return constant - 0.5 * np.linalg.slogdet(inner)[1] + 0.5 * pull @ solved


def _gaussian_kl(mean, cov, prior_cov):
    """Return KL(N(mean, cov) || N(0, prior_cov))."""
    trace = np.trace(np.linalg.solve(prior_cov, cov))
    distance = mean @ np.linalg.solve(prior_cov, mean)
    logs = np.linalg.slogdet(prior_cov)[1] - np.linalg.slogdet(cov)[1]
    return 0.5 * (trace + distance - len(mean) + logs)


def _optimal_q(problem, prior_mean):
    """Return mean and covariance of the optimal q(u), in the coordinates of u."""
    Kuu, Kuf, _ = problem.dense()
    precision, shift, _ = problem.sites
    projection = np.linalg.solve(Kuu, Kuf)
    cov = np.linalg.inv(np.linalg.inv(Kuu) + (projection * precision) @ projection.T)
    return cov @ projection @ (shift - precision * prior_mean), cov


def _latent(problem, q_mean, q_cov, prior_mean):
    """Return mean and covariance of f at the rows of `problem` under q(u) p(f|u)."""
    Kuu, Kuf, Kff = problem.dense()
    projection = np.linalg.solve(Kuu, Kuf)
    cov = Kff - projection.T @ (Kuu - q_cov) @ projection
    return prior_mean + projection.T @ q_mean, cov


def _expected_log_sites(sites, mean, variance):
    precision, shift, log_scale = sites
    return (log_scale + shift * mean - 0.5 * precision * (mean**2 + variance)).sum()


def _uncollapsed(problem, q_mean, q_cov, prior_mean):
    """Return E_q[log t(f)] - KL(q(u) || p(u))."""
    mean, cov = _latent(problem, q_mean, q_cov, prior_mean)
    expected = _expected_log_sites(problem.sites, mean, cov.diagonal())
    return expected - _gaussian_kl(q_mean, q_cov, problem.dense()[0])


def _rough_problem(seed, **options):
    """Return a problem whose residual covariance is well conditioned."""
    return random_problem(seed, kernel=Scaled(Constant(), Matern12(2)), rows=False, **options)


# --------------------------------------------------------------------------------------------------
# The exact log normaliser


@pytest.mark.parametrize("prior_mean", [0.0, 0.7])
def test_the_dense_oracle_is_the_integral(prior_mean):
    cov = np.array([[1.3, 0.6], [0.6, 0.9]])
    sites = Sites(np.array([0.7, 2.1]), np.array([1.1, -0.4]), np.array([0.3, -0.2]))
    inverse = np.linalg.inv(cov)
    density = 1.0 / (2.0 * np.pi * np.sqrt(np.linalg.det(cov)))

    def integrand(f, g):
        centred = np.array([f, g]) - prior_mean
        site = sites.log_scale + sites.shift * [f, g] - 0.5 * sites.precision * np.square([f, g])
        return density * np.exp(site.sum() - 0.5 * centred @ inverse @ centred)

    value = dblquad(integrand, -9.0, 9.0, -9.0, 9.0, epsabs=1e-9, epsrel=1e-9)[0]
    assert_allclose(_log_normaliser(cov, sites, prior_mean), np.log(value), rtol=1e-8)


@SLACK
def test_one_row_and_one_point_give_the_integral(slack):
    problem = random_problem(0, n=1, m=1)
    variance = problem.kernel.diag(problem.theta, problem.X)[0]
    (p,), (b,), (log_scale,) = problem.sites
    value = quad(
        lambda f: np.exp(log_scale + b * f - 0.5 * p * f**2 - 0.5 * (f - 0.4) ** 2 / variance),
        -30.0,
        30.0,
        epsabs=1e-12,
    )[0] / np.sqrt(2.0 * np.pi * variance)
    assert_allclose(_bound(problem, slack, 0.4), np.log(value), rtol=1e-7)


@PRIOR_MEAN
@pytest.mark.parametrize("seed", range(3))
def test_divergence_is_that_of_dense_gaussians(prior_mean, seed):
    problem = random_problem(seed)
    posterior = collapse(problem.features(), problem.sites, TIGHT, prior_mean)
    q_mean, q_cov = _optimal_q(problem, posterior.prior_mean)
    expected = _gaussian_kl(q_mean, q_cov, problem.dense()[0])
    assert_allclose(divergence(posterior), expected, rtol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_given_prior_mean_is_returned_to_the_last_bit(seed):
    problem = random_problem(seed)
    assert collapse(problem.features(), problem.sites, TIGHT, 0.1).prior_mean == 0.1


@SLACK
@PRIOR_MEAN
@pytest.mark.parametrize("seed", range(3))
def test_all_rows_as_points_give_the_exact_log_normaliser(slack, prior_mean, seed):
    problem = random_problem(seed)
    problem = problem._replace(Z=problem.X[::-1].copy())
    posterior = collapse(problem.features(), problem.sites, slack, prior_mean)
    Kff = problem.dense()[2]
    exact = _log_normaliser(Kff, problem.sites, posterior.prior_mean)
    assert_allclose(posterior.bound, exact, rtol=1e-6, atol=1e-6)


@PRIOR_MEAN
@pytest.mark.parametrize("seed", range(3))
def test_standard_is_the_nystrom_log_normaliser_less_the_trace_term(prior_mean, seed):
    problem = random_problem(seed, n=20, m=6)
    posterior = collapse(problem.features(), problem.sites, STANDARD, prior_mean)
    Kuu, Kuf, Kff = problem.dense()
    nystrom = Kuf.T @ np.linalg.solve(Kuu, Kuf)
    trace_term = 0.5 * problem.sites.precision @ (Kff - nystrom).diagonal()
    expected = _log_normaliser(nystrom, problem.sites, posterior.prior_mean) - trace_term
    assert_allclose(posterior.bound, expected, rtol=1e-9, atol=1e-8)


def _dense_slack(slack, ratio):
    """Return what the scales imply; that of each slack by its formula is in `test_slacks`."""
    v = np.broadcast_to(slack.scale(ratio, ratio.mean()), ratio.shape)
    return -0.5 * (v * ratio - np.log(v) + v - 1.0).sum()


@SLACK
@given(seed=SEED, n=st.integers(1, 15), m=st.integers(1, 8), prior_mean=st.floats(-2.0, 2.0))
def test_bound_is_the_dense_one(slack, seed, n, m, prior_mean):
    """Of a kernel whose diagonal is not constant; more points than rows are allowed."""
    problem = random_problem(seed, n=n, m=m, rows=False)
    Kuu, Kuf, Kff = problem.dense()
    nystrom = Kuf.T @ np.linalg.solve(Kuu, Kuf)
    ratio = problem.sites.precision * np.maximum((Kff - nystrom).diagonal(), 0.0)
    expected = _log_normaliser(nystrom, problem.sites, prior_mean) + _dense_slack(slack, ratio)
    bound = _bound(problem, slack, prior_mean, block_rows=4)
    assert_allclose(bound, expected, rtol=1e-6, atol=1e-6)


@given(
    seed=SEED, n=st.integers(1, 15), m=st.integers(1, 15), d=st.integers(1, 3), exponents=EXPONENTS
)
def test_slacks_are_ordered_and_below_the_exact_value(seed, n, m, d, exponents):
    problem = random_problem(seed, n=n, m=min(m, n), d=d, log_precision=exponents)
    row_features, (precision, shift, log_scale) = problem.features(), problem.sites
    standard, spherical, tight = (
        collapse(row_features, problem.sites, slack, 0.2).bound
        for slack in (STANDARD, SPHERICAL, TIGHT)
    )
    exact = _log_normaliser(problem.dense()[2], problem.sites, 0.2)
    # The sizes of the terms that cancel: shift^2 / precision is the scale of h^T B^-1 h.
    rounding = 1e-10 * (
        n + np.abs(log_scale).sum() + (shift**2 / precision).sum() + precision.sum()
    )
    assert standard <= spherical + rounding
    assert spherical <= tight + rounding
    assert tight <= exact + rounding


@given(seed=SEED, exponents=EXPONENTS)
def test_slacks_agree_when_all_costs_are_zero(seed, exponents):
    """Rows that are all equal leave nothing to the residual but the jitter."""
    problem = random_problem(seed, m=1, log_precision=np.minimum(exponents, 0.0))
    problem = problem._replace(X=np.repeat(problem.Z, 15, axis=0))
    standard, tight = (_bound(problem, slack) for slack in (STANDARD, TIGHT))
    assert_allclose(standard, tight, rtol=1e-6, atol=1e-7)


# --------------------------------------------------------------------------------------------------
# The posterior


@SLACK
@pytest.mark.parametrize("prior_mean", [None, 0.6])
@pytest.mark.parametrize("seed", range(3))
def test_an_explicit_q_gives_the_same_predictions(slack, prior_mean, seed):
    problem = random_problem(seed, n=20, m=5)
    row_features = problem.features()
    posterior = collapse(row_features, problem.sites, slack, prior_mean)
    q_mean, q_cov = _optimal_q(problem, posterior.prior_mean)

    new = problem._replace(X=np.random.RandomState(seed).randn(7, 2))
    expected_mean, expected_cov = _latent(new, q_mean, q_cov, posterior.prior_mean)
    V, residual = features(problem.kernel, problem.theta, problem.Z, row_features.Luu, new.X)
    mean, variance = marginals(V, residual, posterior)
    assert_allclose(mean, expected_mean, rtol=1e-6, atol=1e-7)
    assert_allclose(variance, expected_cov.diagonal(), rtol=1e-6, atol=1e-7)
    K = problem.kernel.value(problem.theta, new.X, new.X)
    assert_allclose(covariance(K - V.T @ V, V, posterior), expected_cov, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_whitened_q_is_the_explicit_q(seed):
    problem = random_problem(seed)
    row_features = problem.features()
    posterior = collapse(row_features, problem.sites, TIGHT, -0.3)
    w, LB = posterior.w, posterior.LB
    q_mean, q_cov = _optimal_q(problem, posterior.prior_mean)
    Luu = row_features.Luu
    assert_allclose(Luu @ w, q_mean, rtol=1e-6, atol=1e-7)
    assert_allclose(Luu @ np.linalg.inv(LB @ LB.T) @ Luu.T, q_cov, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_all_rows_as_points_give_the_exact_posterior(seed):
    problem = random_problem(seed)
    problem = problem._replace(Z=problem.X)
    precision, shift, _ = problem.sites
    row_features = problem.features()
    posterior = collapse(row_features, problem.sites, TIGHT, 0.5)
    mean, variance = marginals(row_features.V(0), row_features.residual, posterior)
    Kff = problem.dense()[2]
    gain = np.linalg.solve(Kff + np.diag(1.0 / precision), Kff)
    assert_allclose(mean, 0.5 + gain.T @ (shift / precision - 0.5), rtol=1e-5, atol=1e-6)
    assert_allclose(variance, (Kff - Kff @ gain).diagonal(), rtol=1e-5, atol=1e-6)


@given(seed=SEED, exponents=EXPONENTS)
def test_covariance_and_marginals_agree(seed, exponents):
    problem = random_problem(seed, log_precision=exponents)
    row_features = problem.features()
    posterior = collapse(row_features, problem.sites, TIGHT)
    V, Kff = row_features.V(0), problem.dense()[2]
    mean, variance = marginals(V, row_features.residual, posterior)
    cov = covariance(Kff - V.T @ V, V, posterior)
    assert_allclose(cov.diagonal(), variance, rtol=1e-9, atol=1e-11)
    assert_allclose(cov, cov.T, rtol=1e-9, atol=1e-11)
    eigenvalues = np.linalg.eigvalsh(cov)
    assert eigenvalues[0] >= -1e-8 * Kff.diagonal().max()
    found_mean, inducing_variance = inducing_moments(V, posterior)
    assert_allclose(found_mean, mean)
    assert_allclose(inducing_variance + row_features.residual, variance)


def test_residuals_rounded_below_zero_leave_no_negative_variance():
    problem = random_problem(0, log_precision=(6.0, 8.0))
    row_features = problem.features()
    posterior = collapse(row_features, problem.sites, TIGHT)
    rounded = np.full((15, 15), -1e-3)
    cov = covariance(rounded, row_features.V(0), posterior)
    assert (cov.diagonal() >= 0.0).all()
    assert (cov.diagonal() == 0.0).any()


@given(seed=SEED, exponents=EXPONENTS)
def test_sites_never_widen_the_prior(seed, exponents):
    problem = random_problem(seed, log_precision=exponents)
    row_features = problem.features()
    posterior = collapse(row_features, problem.sites, TIGHT)
    variance = marginals(row_features.V(0), row_features.residual, posterior)[1]
    assert (variance >= 0.0).all()
    assert (variance <= problem.kernel.diag(problem.theta, problem.X) * (1.0 + 1e-12)).all()


def test_mean_ratio_is_that_of_the_rows():
    problem = random_problem(3)
    row_features = problem.features(block_rows=4)
    posterior = collapse(row_features, problem.sites, TIGHT)
    ratio = problem.sites.precision * row_features.residual
    assert_allclose(posterior.mean_ratio, ratio.mean(), rtol=1e-13)
    assert posterior.n_rows == 15


# --------------------------------------------------------------------------------------------------
# The bound as an optimum


@PRIOR_MEAN
@pytest.mark.parametrize("seed", range(3))
def test_standard_is_the_uncollapsed_bound_at_the_optimal_q(prior_mean, seed):
    problem = random_problem(seed)
    posterior = collapse(problem.features(), problem.sites, STANDARD, prior_mean)
    q_mean, q_cov = _optimal_q(problem, posterior.prior_mean)
    expected = _uncollapsed(problem, q_mean, q_cov, posterior.prior_mean)
    assert_allclose(posterior.bound, expected, rtol=1e-7, atol=1e-7)


@given(seed=SEED, log_size=st.floats(-2.0, 1.0))
def test_any_other_q_is_worse(seed, log_size):
    problem = _rough_problem(seed)
    bound = _bound(problem, STANDARD, 0.1)
    q_mean, q_cov = _optimal_q(problem, 0.1)
    rng, size = np.random.RandomState(seed), 10.0**log_size
    factor = np.linalg.cholesky(q_cov)
    moved = q_mean + size * factor @ rng.randn(len(q_mean))
    assert _uncollapsed(problem, moved, q_cov, 0.1) < bound
    tilted = factor + size * np.tril(factor @ rng.randn(*factor.shape))
    assert _uncollapsed(problem, q_mean, tilted @ tilted.T, 0.1) < bound


def _bound_with_scales(problem, v, prior_mean):
    """Return the bound where q(f|u) has the covariance R^1/2 diag(v) R^1/2 in units of the sites.

    R is the covariance of f given u, each row in units of its site's deviation. Nothing is
    simplified: a matrix square root, the diagonal of a matrix, the divergence of two Gaussians.
    """
    Kuu, Kuf, Kff = problem.dense()
    root = np.sqrt(problem.sites.precision)
    conditional = Kff - Kuf.T @ np.linalg.solve(Kuu, Kuf)
    R = root[:, None] * conditional * root
    eigenvalues, vectors = np.linalg.eigh(R)
    half = (vectors * np.sqrt(eigenvalues)) @ vectors.T
    scaled = (half * v) @ half

    q_mean, q_cov = _optimal_q(problem, prior_mean)
    mean, cov = _latent(problem, q_mean, q_cov, prior_mean)
    # The part of the variance that comes from q(u) stays; that given u is replaced.
    variance = (cov - conditional).diagonal() + scaled.diagonal() / problem.sites.precision
    expected = _expected_log_sites(problem.sites, mean, variance)
    given_u = _gaussian_kl(np.zeros(len(R)), scaled, R)
    return expected - _gaussian_kl(q_mean, q_cov, Kuu) - given_u


@SLACK
@pytest.mark.parametrize("seed", range(3))
def test_each_slack_is_that_of_its_scales(slack, seed):
    problem = _rough_problem(seed)
    row_features = problem.features()
    posterior = collapse(row_features, problem.sites, slack, 0.2)
    ratio = problem.sites.precision * row_features.residual
    v = np.broadcast_to(slack.scale(ratio, posterior.mean_ratio), ratio.shape)
    dense = _bound_with_scales(problem, v, 0.2)
    assert_allclose(posterior.bound, dense, rtol=1e-8, atol=1e-8)


@given(seed=SEED, size=st.floats(0.01, 2.0))
def test_any_other_scales_are_worse(seed, size):
    problem = _rough_problem(seed)
    row_features = problem.features()
    ratio = problem.sites.precision * row_features.residual
    best = 1.0 / (1.0 + ratio)
    moved = best * np.exp(size * np.random.RandomState(seed).randn(len(best)))
    assert _bound_with_scales(problem, moved, 0.2) < _bound(problem, TIGHT, 0.2)


@given(seed=SEED, size=st.floats(0.01, 2.0), sign=st.sampled_from([-1.0, 1.0]))
def test_any_other_common_scale_is_worse(seed, size, sign):
    problem = _rough_problem(seed)
    row_features = problem.features()
    posterior = collapse(row_features, problem.sites, SPHERICAL, 0.2)
    best = SPHERICAL.scale(None, posterior.mean_ratio)
    moved = np.full(len(problem.X), best * np.exp(sign * size))
    assert _bound_with_scales(problem, moved, 0.2) < posterior.bound


# --------------------------------------------------------------------------------------------------
# More inducing points


def _with_point(problem, row):
    return problem._replace(Z=np.concatenate([problem.Z, problem.X[row : row + 1]]))


@given(seed=SEED, row=st.integers(0, 14), exponents=st.tuples(st.floats(-4, 2), st.floats(-4, 2)))
@pytest.mark.parametrize("prior_mean", [None, 0.3])
def test_any_point_raises_standard(prior_mean, seed, row, exponents):
    problem = _rough_problem(seed, log_precision=sorted(exponents))
    before = _bound(problem, STANDARD, prior_mean)
    after = _bound(_with_point(problem, row), STANDARD, prior_mean)
    assert after >= before - 1e-7 * (1.0 + abs(before))


@given(seed=SEED, exponents=st.tuples(st.floats(-4, 2), st.floats(-4, 2)))
@pytest.mark.parametrize("prior_mean", [None, 0.3])
def test_the_dearest_point_raises_tight(prior_mean, seed, exponents):
    problem = _rough_problem(seed, log_precision=sorted(exponents))
    row_features = problem.features()
    before = collapse(row_features, problem.sites, TIGHT, prior_mean).bound
    row = int(np.argmax(problem.sites.precision * row_features.residual))
    after = _bound(_with_point(problem, row), TIGHT, prior_mean)
    assert after >= before - 1e-7 * (1.0 + abs(before))


@pytest.mark.parametrize("slack", [STANDARD, SPHERICAL, TIGHT])
@pytest.mark.parametrize("m", [1, 2, 9, 10])
def test_rows_that_do_not_know_each_other(slack, m):
    """Each point settles its own row: standard rises with m, tight is level, spherical falls.

    So spherical has no point that is sure to raise it; it rises again near m = N.
    """
    n, ones = 10, np.ones(10)
    X = 1e3 * np.arange(n)[:, None] + np.zeros((1, 2))
    problem = random_problem(0, n=n, kernel=Scaled(Constant(), Matern12(2)))
    problem = problem._replace(
        theta=np.zeros(3), X=X, Z=X[:m], sites=Sites(ones, 0 * ones, 0 * ones)
    )
    left = {
        STANDARD: -0.5 * (n - m),
        SPHERICAL: -0.5 * n * np.log(1.0 + (n - m) / n),
        TIGHT: -0.5 * (n - m) * np.log(2.0),
    }
    expected = -0.5 * m * np.log(2.0) + left[slack]
    assert_allclose(_bound(problem, slack, 0.0), expected, rtol=1e-7)


# --------------------------------------------------------------------------------------------------
# Fewer inducing points: q(u) of the first of them
#
# The points are factored with the jitter of all of them, relative to the mean diagonal of all of
# them, so models are compared at one and the same covariance: that of a stationary kernel, whose
# diagonal is constant, or a dense one.


def _stationary_problem(seed):
    return _rough_problem(seed, n=18, m=6)


def _first_points(problem, m):
    return problem._replace(Z=problem.Z[:m])


@SLACK
@PRIOR_MEAN
@pytest.mark.parametrize("rows", [{}, {"block_rows": 5, "n_threads": 2, "memory": 0}])
def test_q_of_the_first_points_is_that_of_their_model(slack, prior_mean, rows):
    problem = _stationary_problem(0)
    whole = collapse(problem.features(**rows), problem.sites, slack, prior_mean)
    for m in range(1, 7):
        ours = whole.truncated(m)
        small = _first_points(problem, m).features()
        theirs = collapse(small, problem.sites, slack, whole.prior_mean)
        assert ours.w.shape == (m,)
        assert ours.prior_mean == whole.prior_mean
        assert ours.n_rows == theirs.n_rows == 18
        assert_allclose(ours.mean_ratio, theirs.mean_ratio, rtol=1e-9)
        assert_allclose(ours.w, theirs.w, rtol=1e-7, atol=1e-9)
        assert_allclose(ours.LB, theirs.LB, rtol=1e-9, atol=1e-10)


@given(seed=SEED, n=st.integers(1, 15), m=st.integers(1, 8), prior_mean=st.floats(-2.0, 2.0))
def test_q_of_the_first_points_is_the_dense_one(seed, n, m, prior_mean):
    """Of a kernel whose diagonal is not constant, in the coordinates of u."""
    problem = random_problem(seed, n=n, m=m, rows=False)
    row_features = problem.features(block_rows=4)
    whole = collapse(row_features, problem.sites, TIGHT, prior_mean)
    Kuu, Kuf, _ = problem.dense()
    precision, shift, _ = problem.sites
    for k in range(1, m + 1):
        ours, Luu = whole.truncated(k), row_features.Luu[:k, :k]
        K, cross = Kuu[:k, :k], Kuf[:k]
        gain = np.linalg.solve(K + (cross * precision) @ cross.T, K).T
        q_mean = gain @ cross @ (shift - precision * prior_mean)
        half = np.linalg.solve(ours.LB, Luu.T)
        scale = K.diagonal().max()
        assert_allclose(Luu @ ours.w, q_mean, rtol=1e-5, atol=1e-6 * (1.0 + np.abs(q_mean).max()))
        assert_allclose(half.T @ half, gain @ K, rtol=1e-5, atol=1e-6 * scale)


@SLACK
@PRIOR_MEAN
def test_q_of_all_points_is_the_whole(slack, prior_mean):
    problem = _stationary_problem(1)
    whole = collapse(problem.features(), problem.sites, slack, prior_mean)
    ours = whole.truncated(6)
    assert ours.prior_mean == whole.prior_mean
    assert ours.mean_ratio == whole.mean_ratio
    assert_allclose(ours.w, whole.w, rtol=1e-12, atol=1e-14)
    assert_array_equal(ours.LB, whole.LB)


@given(seed=SEED, exponents=EXPONENTS)
def test_cost_of_the_first_points_falls_with_each_and_is_not_negative(seed, exponents):
    kernel = Scaled(Constant(), Matern12(2))
    problem = random_problem(seed, n=18, m=6, kernel=kernel, log_precision=exponents)
    whole = collapse(problem.features(), problem.sites, TIGHT)
    ratios = np.array([whole.truncated(m).mean_ratio for m in range(1, 7)])
    assert (ratios >= 0.0).all()
    assert (np.diff(ratios) <= 1e-14 * ratios[0]).all()


def test_truncating_twice_is_truncating_once():
    problem = _stationary_problem(3)
    whole = collapse(problem.features(), problem.sites, TIGHT)
    twice, once = whole.truncated(5).truncated(3), whole.truncated(3)
    assert_allclose(twice.w, once.w, rtol=1e-11, atol=1e-13)
    assert_array_equal(twice.LB, once.LB)
    assert twice.prior_mean == once.prior_mean
    assert twice.n_rows == once.n_rows
    assert_allclose(twice.mean_ratio, once.mean_ratio, rtol=1e-12)


def test_a_truncated_q_has_no_bound_and_leaves_the_whole_alone():
    """Its bound would need the rows."""
    problem = _stationary_problem(5)
    whole = collapse(problem.features(), problem.sites, TIGHT)
    w, LB = whole.w.copy(), whole.LB.copy()
    part = whole.truncated(3)
    assert np.isnan(part.bound)
    part.LB[:] = part.w[:] = 0.0
    assert_array_equal(whole.w, w)
    assert_array_equal(whole.LB, LB)


# --------------------------------------------------------------------------------------------------
# Derivatives


@SLACK
@PRIOR_MEAN
@pytest.mark.parametrize("rows", [True, False], ids=["rows", "other points"])
@pytest.mark.parametrize("seed", range(2))
def test_gradient(slack, prior_mean, rows, seed):
    problem = random_problem(seed, n=18, m=4, rows=rows)
    row_features = problem.features(block_rows=5)
    posterior = collapse(row_features, problem.sites, slack, prior_mean)
    grad_theta, grad_Z = gradient(
        row_features, [(problem.sites, posterior, None)], slack, wrt_Z=True
    )[:2]
    by_theta = central_difference(
        lambda theta: _bound(problem, slack, prior_mean, theta=theta), problem.theta
    )
    by_Z = central_difference(lambda Z: _bound(problem, slack, prior_mean, Z=Z), problem.Z)
    assert_allclose(grad_theta, by_theta, rtol=1e-5, atol=1e-5)
    assert_allclose(grad_Z, by_Z, rtol=1e-5, atol=1e-5)
    theta_only, nothing, no_moments = gradient(
        row_features, [(problem.sites, posterior, None)], slack
    )
    assert nothing is None
    assert no_moments is None
    assert_allclose(theta_only, grad_theta, rtol=1e-12)


@SLACK
@given(seed=SEED, exponents=st.tuples(st.floats(-4, 3), st.floats(-4, 3)))
def test_gradient_at_all_sizes_of_precision(slack, seed, exponents):
    problem = _rough_problem(seed, n=10, m=3, log_precision=sorted(exponents))
    row_features = problem.features()
    posterior = collapse(row_features, problem.sites, slack, 0.1)
    grad_theta, grad_Z = gradient(
        row_features, [(problem.sites, posterior, None)], slack, wrt_Z=True
    )[:2]
    by_theta = central_difference(
        lambda theta: _bound(problem, slack, 0.1, theta=theta), problem.theta
    )
    scale = 1.0 + np.abs(by_theta).max() + abs(posterior.bound)
    assert_allclose(grad_theta, by_theta, atol=1e-6 * scale)
    direction = np.random.RandomState(seed).randn(*problem.Z.shape)
    # Short steps: the kernel has a kink where a point meets a row.
    along = central_difference(
        lambda t: _bound(problem, slack, 0.1, Z=problem.Z + t * direction), np.zeros(()), 1e-5
    )
    scale = 1.0 + np.abs(grad_Z).max() + abs(posterior.bound)
    assert_allclose(np.vdot(grad_Z, direction), along, atol=1e-4 * scale)


@SLACK
@given(seed=SEED, exponents=EXPONENTS, step=st.floats(0.01, 10.0))
def test_the_learned_prior_mean_is_the_maximiser(slack, seed, exponents, step):
    problem = random_problem(seed, log_precision=exponents)
    row_features = problem.features()
    learned = collapse(row_features, problem.sites, slack)
    V = row_features.V(0)
    precision, shift, _ = problem.sites
    slope = (shift - precision * (learned.w @ V + learned.prior_mean)).sum()
    scale = np.abs(shift).sum() + precision.sum() * (1.0 + abs(learned.prior_mean))
    assert abs(slope) <= 1e-9 * scale
    for moved in (learned.prior_mean - step, learned.prior_mean + step):
        bound = collapse(row_features, problem.sites, slack, moved).bound
        rounding = 1e-12 * (scale * (1.0 + abs(moved)) + (shift**2 / precision).sum())
        assert bound <= learned.bound + rounding


@SLACK
@given(seed=SEED, mean=st.floats(-3.0, 3.0), precision=st.floats(1e-2, 1e2))
def test_a_prior_of_the_prior_mean_is_maximised_together_with_the_bound(
    slack, seed, mean, precision
):
    problem = random_problem(seed)
    row_features, prior = problem.features(), MeanPrior(mean, precision)
    learned = collapse(row_features, problem.sites, slack, mean_prior=prior)

    def objective(prior_mean):
        bound = collapse(row_features, problem.sites, slack, prior_mean).bound
        at = norm(mean, precision**-0.5).logpdf([prior_mean, mean])
        assert prior.log_density(prior_mean) == pytest.approx(at[0] - at[1])
        return bound + at[0]

    assert learned.bound == pytest.approx(_bound(problem, slack, learned.prior_mean), rel=1e-9)
    best = objective(learned.prior_mean)
    for step in (-1.0, -0.1, 0.1, 1.0):
        assert objective(learned.prior_mean + step) < best
    # The objective is quadratic, so at its maximum equal steps lower it equally.
    falls = [best - objective(learned.prior_mean + step) for step in (-1.0, 1.0)]
    assert falls[0] == pytest.approx(falls[1], rel=1e-6, abs=1e-9 * (1.0 + abs(best)))


def _second_sites(problem, seed):
    """Return other sites at the same rows: those of a second output."""
    return random_problem(seed, n=len(problem.X)).sites


@SLACK
@PRIOR_MEAN
@pytest.mark.parametrize("way", [{}, {"block_rows": 4, "memory": 0, "n_threads": 2}])
def test_gradient_of_several_outputs_is_the_sum(slack, prior_mean, way):
    problem = random_problem(0, n=18, m=4)
    row_features = problem.features(**way)
    outputs = [
        (sites, collapse(row_features, sites, slack, prior_mean), None)
        for sites in (problem.sites, _second_sites(problem, 1), _second_sites(problem, 2))
    ]
    whole = gradient(row_features, outputs, slack, wrt_Z=True)
    parts = [gradient(row_features, [output], slack, wrt_Z=True) for output in outputs]
    assert_allclose(whole.theta, sum(part.theta for part in parts), rtol=1e-9, atol=1e-9)
    assert_allclose(whole.Z, sum(part.Z for part in parts), rtol=1e-9, atol=1e-9)

    def total(theta):
        moved = problem.features(theta=theta)
        return sum(collapse(moved, sites, slack, prior_mean).bound for sites, *_ in outputs)

    assert_allclose(whole.theta, central_difference(total, problem.theta), rtol=1e-5, atol=1e-5)


@SLACK
@pytest.mark.parametrize("way", [{}, {"block_rows": 4, "memory": 0, "n_threads": 2}])
def test_moments_of_a_gradient_are_those_that_the_bound_sees(slack, way):
    """Half their second moment is the slope of the bound in minus the precision."""
    problem = _rough_problem(3, n=8, m=4)
    row_features = problem.features(**way)
    outputs = [
        (sites, collapse(row_features, sites, slack, 0.3), None)
        for sites in (problem.sites, _second_sites(problem, 4))
    ]
    moments = gradient(row_features, outputs, slack, moments=True).moments
    for (sites, *_), mean, variance in zip(outputs, *moments, strict=True):
        by_shift = central_difference(
            lambda b, sites=sites: (
                collapse(row_features, sites._replace(shift=b), slack, 0.3).bound
            ),
            sites.shift,
        )
        by_precision = central_difference(
            lambda log_p, sites=sites: (
                collapse(row_features, sites._replace(precision=np.exp(log_p)), slack, 0.3).bound
            ),
            np.log(sites.precision),
        )
        assert_allclose(mean, by_shift, rtol=1e-7, atol=1e-8)
        second = -2.0 * by_precision / sites.precision
        assert_allclose(mean**2 + variance, second, rtol=1e-6, atol=1e-7)


def test_moments_under_the_standard_slack_are_the_marginals():
    problem = random_problem(5)
    row_features = problem.features(block_rows=4)
    posterior = collapse(row_features, problem.sites, STANDARD)
    outputs = [(problem.sites, posterior, None)]
    (mean,), (variance,) = gradient(row_features, outputs, STANDARD, moments=True).moments
    V = np.concatenate([row_features.V(k) for k in range(4)], axis=1)
    expected = marginals(V, row_features.residual, posterior)
    assert_allclose(mean, expected[0], rtol=1e-10)
    assert_allclose(variance, expected[1], rtol=1e-9)


def test_variances_are_not_negative_where_precisions_are_large():
    kernel = Scaled(Constant(), RBF(1))
    for seed in range(40):
        problem = random_problem(seed, 12, 12, 1, kernel=kernel, log_precision=(0.0, 26.0))
        row_features = problem.features(jitter=None)
        outputs = [(problem.sites, collapse(row_features, problem.sites, TIGHT), None)]
        _, variance = gradient(row_features, outputs, TIGHT, moments=True).moments
        assert (variance >= 0.0).all()


@SLACK
@PRIOR_MEAN
def test_sums_over_rows_are_all_that_the_posterior_needs(slack, prior_mean):
    problem = random_problem(6)
    parts = [random_problem(6)._replace(X=problem.X[rows]) for rows in (slice(7), slice(7, None))]
    sums = [
        row_sums(part.features(), Sites(*(column[rows] for column in problem.sites)), slack)
        for part, rows in zip(parts, (slice(7), slice(7, None)), strict=True)
    ]
    added = type(sums[0])(*(a + b for a, b in zip(*sums, strict=True)))
    ours = optimal_posterior(added, len(problem.X), slack, prior_mean)
    theirs = collapse(problem.features(), problem.sites, slack, prior_mean)
    assert_allclose(ours.bound, theirs.bound, rtol=1e-10)
    assert_allclose(ours.w, theirs.w, rtol=1e-8, atol=1e-10)
    assert_allclose(ours.LB, theirs.LB, rtol=1e-10, atol=1e-11)
    assert_allclose([ours.prior_mean, ours.mean_ratio], [theirs.prior_mean, theirs.mean_ratio])


@SLACK
def test_sums_over_rows_by_loops(slack):
    problem = random_problem(7)
    row_features, (precision, shift, log_scale) = problem.features(block_rows=4), problem.sites
    whole = problem.features()
    V, ratio = whole.V(0), precision * whole.residual
    sums = row_sums(row_features, problem.sites, slack)
    assert_allclose(sums.VpV, sum(p * np.outer(v, v) for p, v in zip(precision, V.T, strict=True)))
    assert_allclose(sums.Vp, sum(p * v for p, v in zip(precision, V.T, strict=True)))
    assert_allclose(sums.Vb, sum(b * v for b, v in zip(shift, V.T, strict=True)))
    expected = [sum(precision), sum(shift), sum(log_scale), sum(ratio)]
    assert_allclose([sums.precision, sums.shift, sums.log_scale, sums.residual_ratio], expected)
    assert_allclose(sums.slack, sum(slack.row_term(np.array([c]))[0] for c in ratio))


# --------------------------------------------------------------------------------------------------
# Symmetries


@SLACK
@pytest.mark.parametrize("n_points", [2, 11])
def test_points_that_coincide_beside_next_to_no_noise_leave_a_bound(slack, n_points):
    """The identity in B is lost in the rounding of sums of 1e32."""
    one = random_problem(3, n=1, m=1)
    X = one.X
    p = np.array([5e32])
    sites = Sites(p, 0.3 * p, -0.5 * p * 0.3**2)
    problem = one._replace(Z=np.tile(X, (n_points, 1)), sites=sites)
    posterior = collapse(problem.features(), sites, slack, 0.0)
    variance = one.dense()[2][0, 0]
    # At this precision the site is a point mass up to a factor.
    exact = -0.5 * (0.3**2 / variance + np.log(p[0] * variance))
    assert np.isfinite(posterior.w).all()
    assert -np.inf < posterior.bound <= exact + 1e-9


@SLACK
def test_the_units_of_f_do_not_matter(slack):
    """The kernel times c^2, the precisions over c^2, shifts over c, the prior mean times c."""
    problem = random_problem(0, kernel=Scaled(Constant(), Matern12(2)))
    precision, shift, log_scale = problem.sites
    moved = problem._replace(
        theta=problem.theta + np.log(9.0) * np.eye(3)[0],
        sites=Sites(precision / 9.0, shift / 3.0, log_scale),
    )
    ours = collapse(problem.features(), problem.sites, slack)
    theirs = collapse(moved.features(), moved.sites, slack)
    assert_allclose(theirs.bound, ours.bound, rtol=1e-9)
    assert_allclose(theirs.prior_mean, 3.0 * ours.prior_mean, rtol=1e-7)
    assert_allclose(_bound(moved, slack, 0.6), _bound(problem, slack, 0.2), rtol=1e-9)


@SLACK
def test_the_zero_of_f_does_not_matter(slack):
    """Sites that see f - a, with a prior mean larger by a, are the same model."""
    problem, a = random_problem(1), 2.5
    precision, shift, log_scale = problem.sites
    moved = Sites(precision, shift + a * precision, log_scale - a * shift - 0.5 * a**2 * precision)
    row_features = problem.features()
    ours = collapse(row_features, problem.sites, slack)
    theirs = collapse(row_features, moved, slack)
    assert_allclose(theirs.bound, ours.bound, rtol=1e-9)
    assert_allclose(theirs.prior_mean, ours.prior_mean + a, rtol=1e-8)
    ours = marginals(row_features.V(0), row_features.residual, ours)
    theirs = marginals(row_features.V(0), row_features.residual, theirs)
    assert_allclose(theirs[0], ours[0] + a, rtol=1e-8)
    assert_allclose(theirs[1], ours[1], rtol=1e-10)


@SLACK
def test_the_sign_of_f_does_not_matter(slack):
    problem = random_problem(2)
    row_features, (precision, shift, log_scale) = problem.features(), problem.sites
    ours = collapse(row_features, problem.sites, slack)
    theirs = collapse(row_features, Sites(precision, -shift, log_scale), slack)
    assert_allclose(theirs.bound, ours.bound, rtol=1e-12)
    assert_allclose(theirs.prior_mean, -ours.prior_mean, rtol=1e-12)
    assert_allclose(theirs.w, -ours.w, rtol=1e-10)


@SLACK
def test_the_order_of_rows_and_of_points_does_not_matter(slack, rng):
    problem = random_problem(3)
    rows, points = rng.permutation(len(problem.X)), rng.permutation(len(problem.Z))
    moved = problem._replace(
        X=problem.X[rows], Z=problem.Z[points], sites=Sites(*(part[rows] for part in problem.sites))
    )
    assert_allclose(_bound(moved, slack), _bound(problem, slack), rtol=1e-8)


@SLACK
@pytest.mark.parametrize("way", [{"block_rows": 1}, {"block_rows": 4, "memory": 0, "n_threads": 3}])
def test_blocks_and_threads_do_not_change_the_bound_or_its_gradient(slack, way):
    problem = random_problem(4)
    whole, parts = problem.features(), problem.features(**way)
    ours, theirs = (collapse(part, problem.sites, slack) for part in (whole, parts))
    assert_allclose(theirs.bound, ours.bound, rtol=1e-11)
    assert_allclose(theirs.w, ours.w, rtol=1e-8, atol=1e-10)
    for mine, other in zip(
        gradient(whole, [(problem.sites, ours, None)], slack, wrt_Z=True)[:2],
        gradient(parts, [(problem.sites, theirs, None)], slack, wrt_Z=True)[:2],
        strict=True,
    ):
        assert_allclose(other, mine, rtol=1e-7, atol=1e-8)


@slacks_where(lambda slack: slack.is_sum_over_rows)
def test_a_site_that_says_nothing_changes_nothing(slack):
    problem = random_problem(5)
    more = problem._replace(
        X=np.concatenate([problem.X, [[9.0, -9.0]]]),
        sites=Sites(*(np.append(part, 0.0) for part in problem.sites)),
    )
    assert_allclose(_bound(more, slack), _bound(problem, slack), rtol=1e-12)


@SLACK
@given(seed=SEED)
def test_merging_equal_rows_never_lowers_the_bound(slack, seed):
    """Equal rows share one f: it is one model, and one row is its better description."""
    problem = random_problem(seed)
    split = problem._replace(
        X=np.repeat(problem.X, 2, axis=0),
        sites=Sites(*(np.repeat(0.5 * part, 2) for part in problem.sites)),
    )
    merged, apart = _bound(problem, slack), _bound(split, slack)
    assert apart <= merged + 1e-9 * (1.0 + abs(merged))
    if slack is STANDARD:
        assert_allclose(apart, merged, rtol=1e-9)


@SLACK
@pytest.mark.parametrize("constant", [-2.0, 5.0])
def test_own_terms_are_added(slack, constant):
    problem = random_problem(6)
    precision, shift, log_scale = problem.sites
    moved = problem._replace(sites=Sites(precision, shift, log_scale + constant))
    expected = _bound(problem, slack) + constant * len(log_scale)
    assert_allclose(_bound(moved, slack), expected, rtol=1e-11)


def test_sites_are_not_changed():
    """Their arrays are read-only here, so writing would raise."""
    problem = random_problem(7)
    row_features = problem.features(block_rows=4)
    posterior = collapse(row_features, problem.sites, TIGHT)
    before = [part.copy() for part in (posterior.w, posterior.LB, row_features.residual)]
    gradient(row_features, [(problem.sites, posterior, None)], TIGHT, wrt_Z=True, moments=True)
    for part, old in zip((posterior.w, posterior.LB, row_features.residual), before, strict=True):
        assert_array_equal(part, old)


@pytest.mark.parametrize("prior_mean", [None, 0.4])
def test_bound_is_the_same_from_the_peaks_of_the_sites(prior_mean):
    problem = random_problem(3)
    p, b, log_scale = problem.sites
    peaks = b / p, log_scale + 0.5 * b**2 / p
    ours, theirs = (
        collapse(problem.features(), problem.sites, TIGHT, prior_mean, given)
        for given in (peaks, None)
    )
    assert_allclose(ours.bound, theirs.bound, rtol=1e-10)
    assert_allclose(ours.prior_mean, theirs.prior_mean, rtol=1e-10)


@pytest.mark.parametrize("log_precision", [(2.0, 3.0), (8.0, 9.0), (9.0, 10.0)])
@pytest.mark.parametrize("log_variance", [0.0, np.log(1e4), np.log(1e6)])
def test_bound_is_that_of_its_own_posterior_where_sums_cancel(log_precision, log_variance):
    """In extended precision, as squared residuals, which no rounding can make too good."""
    kernel = Scaled(Constant(), RBF())
    problem = random_problem(0, n=400, m=12, d=1, kernel=kernel, log_precision=log_precision)
    rng = np.random.RandomState(1)
    y = np.sin(problem.X[:, 0]) + 0.3 * rng.standard_normal(400)
    p = problem.sites.precision
    sites = Sites(p, p * y, -0.5 * p * y**2)
    features = problem.features(theta=np.array([log_variance, 0.0]), jitter=1e-12)
    posterior = collapse(features, sites, TIGHT)
    wide = [np.asarray(a, dtype=np.longdouble) for a in (features.V(0), p, y, posterior.w)]
    V, p, y, w = wide
    value = -0.5 * (p * (y - posterior.prior_mean - w @ V) ** 2).sum() - 0.5 * w @ w
    value -= np.log(np.diag(posterior.LB)).sum() + 0.5 * np.log1p(p * features.residual).sum()
    assert_allclose(posterior.bound, float(value), rtol=1e-8, atol=1e-3)
    by_peaks = collapse(features, sites, TIGHT, posterior.prior_mean, (y, np.zeros(400))).bound
    assert_allclose(by_peaks, float(value), rtol=1e-11)
    # The prior mean is the best one, or the bound is flat in it.
    for step in (-0.1, 0.1):
        other = collapse(features, sites, TIGHT, posterior.prior_mean + step)
        assert other.bound <= posterior.bound + 1e-3
