"""The posterior of f against dense Gaussian processes and an explicit q(u), whole and truncated.

The dense oracles see sites and the kernel's formula in scalar Python: they know no features, no
factors, and no code of the package.
"""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.bounds.collapsed import collapse, marginals
from sparsegpc._core.bounds.slacks import STANDARD, TIGHT
from sparsegpc._core.kernels.algebra import Scaled
from sparsegpc._core.kernels.families import RBF, Constant, DotProduct, Matern12
from sparsegpc._core.models import posterior as module
from sparsegpc._core.models.posterior import posterior_of, whitened_features
from sparsegpc._core.rows.blocks import RowBlocks, row_backend
from tests.core.helpers import COMPOSITES, STATIONARY, free, names, random_problem, read_only
from tests.core.models.model_cases import dense_kernel, evaluate, make_data, outputs

SEED = st.integers(0, 2**31)
# Prior means of three functions, the first of them learned.
PRIOR_MEANS = (None, 0.0, -0.8)
# With a diagonal that is constant, and with one that is not.
SHOWN = ("matern52 per column", "sum", "nested")
CASES = [case for case in STATIONARY + COMPOSITES if case.name in SHOWN]
KERNEL = pytest.mark.parametrize("case", CASES, ids=names(CASES))
WAY = pytest.mark.parametrize(
    "way", [{}, {"block_rows": 4}, {"block_rows": 3, "n_threads": 2, "memory": 0}]
)


def sites_of_functions(problem, seed):
    """Return the sites of three functions at the rows of a problem."""
    others = [random_problem(seed + k, n=len(problem.X)).sites for k in (1, 2)]
    return [problem.sites, *others]


def posterior_at(problem, sites, prior_means=PRIOR_MEANS, slack=TIGHT, **rows):
    """Return the `Posterior` of functions with these sites and prior means."""
    features = problem.features(**rows)
    functions = [
        collapse(features, own, slack, prior_mean)
        for own, prior_mean in zip(sites, prior_means, strict=True)
    ]
    return posterior_of(features, functions)


def dense_sparse(case, problem, sites, prior_mean, new):
    """Return mean and covariance of f at new rows, given what the points know of the rows.

    With S the inverse of Kuu + Kuf P Kfu, the covariance given u and S in place of that of u.
    """
    theta, Z, (precision, shift, _) = problem.theta, problem.Z, sites
    Kuu, Kuf, Kun = (case.matrix(theta, Z, X) for X in (Z, problem.X, new))
    Kuu += 1e-9 * Kuu.diagonal().mean() * np.eye(len(Z))
    S = np.linalg.inv(Kuu + (Kuf * precision) @ Kuf.T)
    mean = prior_mean + Kun.T @ S @ Kuf @ (shift - precision * prior_mean)
    given_u = case.matrix(theta, new, new) - Kun.T @ np.linalg.solve(Kuu, Kun)
    return mean, given_u + Kun.T @ S @ Kun


def dense_exact(case, problem, sites, prior_mean, new):
    """Return mean and covariance of f at new rows in regression on shift / precision."""
    theta, (precision, shift, _) = problem.theta, sites
    noisy = case.matrix(theta, problem.X, problem.X) + np.diag(1.0 / precision)
    cross = case.matrix(theta, problem.X, new)
    gain = np.linalg.solve(noisy, cross)
    mean = prior_mean + gain.T @ (shift / precision - prior_mean)
    return mean, case.matrix(theta, new, new) - cross.T @ gain


def with_flat_prior(dense, Q, sites, prior_mean, *arguments):
    """Return mean and covariance of f at new rows if the prior of the prior mean is flat.

    ``dense(sites, prior_mean, *arguments)`` returns those at a given prior mean. The mean of f is
    linear in it, and the log evidence of targets with the covariance Q + 1 / p quadratic.
    """
    mean, cov = dense(sites, prior_mean, *arguments)
    share = dense(sites, prior_mean + 1.0, *arguments)[0] - mean
    curvature = np.linalg.inv(Q + np.diag(1.0 / sites.precision)).sum()
    return mean, cov + np.outer(share, share) / curvature


# --------------------------------------------------------------------------------------------------
# Moments and covariances


@KERNEL
@WAY
@pytest.mark.parametrize("seed", range(3))
def test_moments_are_those_of_the_dense_sparse_process(case, way, seed):
    problem = random_problem(seed, n=14, m=5, kernel=case.build(2), rows=False)
    sites = sites_of_functions(problem, seed)
    posterior = posterior_at(problem, sites)
    new = read_only(1.5 * np.random.RandomState(seed).randn(9, 2))
    mean, variance = posterior.moments(new, **way)
    joint_mean, cov = posterior.covariance(new)
    assert mean.shape == variance.shape == joint_mean.shape == (3, 9)
    assert cov.shape == (3, 9, 9)
    Kuu, Kuf = (case.matrix(problem.theta, problem.Z, X) for X in (problem.Z, problem.X))
    Q = Kuf.T @ np.linalg.solve(Kuu, Kuf)
    dense = partial(dense_sparse, case, problem)
    for k, prior_mean in enumerate(posterior.prior_means):
        expected_mean, expected = dense(sites[k], prior_mean, new)
        if PRIOR_MEANS[k] is None:
            expected_mean, expected = with_flat_prior(dense, Q, sites[k], prior_mean, new)
        for found in (mean[k], joint_mean[k]):
            assert_allclose(found, expected_mean, rtol=1e-6, atol=1e-7)
        assert_allclose(variance[k], expected.diagonal(), rtol=1e-6, atol=1e-7)
        assert_allclose(cov[k], expected, rtol=1e-6, atol=1e-7)


@KERNEL
@pytest.mark.parametrize("seed", range(3))
def test_all_rows_as_points_give_the_exact_process(case, seed):
    problem = random_problem(seed, n=12, kernel=case.build(2))
    problem = problem._replace(Z=problem.X)
    sites = sites_of_functions(problem, seed)
    posterior = posterior_at(problem, sites)
    new = np.random.RandomState(seed).randn(7, 2)
    mean, cov = posterior.covariance(new)
    K, dense = case.matrix(problem.theta, problem.X, problem.X), partial(dense_exact, case, problem)
    for k, prior_mean in enumerate(posterior.prior_means):
        expected_mean, expected = dense(sites[k], prior_mean, new)
        if PRIOR_MEANS[k] is None:
            expected_mean, expected = with_flat_prior(dense, K, sites[k], prior_mean, new)
        assert_allclose(mean[k], expected_mean, rtol=1e-5, atol=1e-6)
        assert_allclose(cov[k], expected, rtol=1e-5, atol=1e-6)


def test_a_learned_prior_mean_is_as_uncertain_as_a_constant_in_the_kernel():
    """As a constant function of large variance, added to f, in exact regression."""
    case, problem = CASES[0], random_problem(2, n=12, kernel=CASES[0].build(2))
    problem = problem._replace(Z=problem.X)
    posterior = posterior_at(problem, [problem.sites], [None])
    new = 3.0 * np.random.RandomState(2).randn(7, 2)
    mean, cov = posterior.covariance(new)
    theta, (precision, shift, _), c = problem.theta, problem.sites, 1e6
    noisy = case.matrix(theta, problem.X, problem.X) + c + np.diag(1.0 / precision)
    cross = case.matrix(theta, problem.X, new) + c
    gain = np.linalg.solve(noisy, cross)
    assert_allclose(mean[0], gain.T @ (shift / precision), rtol=1e-4, atol=1e-4)
    expected = case.matrix(theta, new, new) + c - cross.T @ gain
    assert_allclose(cov[0], expected, rtol=1e-4, atol=1e-4)


def test_a_shift_of_the_prior_mean_moves_f_by_its_share():
    problem = random_problem(7)
    (q,) = posterior_at(problem, [problem.sites], [None]).functions
    posterior = posterior_of(problem.features(), [q._replace(mean_shift=0.4)])
    raised = q._replace(prior_mean=q.prior_mean + 0.4, w=q.w - 0.4 * q.w_p)
    expected = posterior_of(problem.features(), [raised])
    new = np.random.RandomState(7).randn(6, 2)
    assert_allclose(posterior.moments(new), expected.moments(new), rtol=1e-10)
    for ours, theirs in zip(posterior.covariance(new), expected.covariance(new), strict=True):
        assert_allclose(ours, theirs, rtol=1e-10)
    cross, variance = np.ones((len(posterior.Z), 2)), np.full(2, 30.0)
    ours, without = (p.part_moments(cross.copy(), variance) for p in (posterior, expected))
    assert_allclose(ours, without, rtol=1e-10)


@given(
    seed=SEED,
    n_new=st.integers(1, 20),
    exponents=st.tuples(st.floats(-8.0, 8.0), st.floats(-8.0, 8.0)).map(sorted),
)
def test_the_diagonal_of_the_covariance_is_the_variance(seed, n_new, exponents):
    problem = random_problem(seed, log_precision=exponents)
    posterior = posterior_at(problem, sites_of_functions(problem, seed))
    new = np.random.RandomState(seed).randn(n_new, 2)
    # Rows that are points and rows that come twice, too.
    new = np.concatenate([new, new[:1], problem.Z[:2]])
    mean, variance = posterior.moments(new)
    joint_mean, cov = posterior.covariance(new)
    scale = problem.kernel.diag(problem.theta, new).max()
    assert_allclose(joint_mean, mean, rtol=1e-11, atol=1e-11)
    for own, diagonal in zip(cov, variance, strict=True):
        assert_allclose(own.diagonal(), diagonal, rtol=1e-9, atol=1e-11 * scale)
        assert_allclose(own, own.T, rtol=1e-9, atol=1e-11 * scale)
        assert np.linalg.eigvalsh(own)[0] >= -1e-8 * scale


def test_functions_do_not_see_one_another():
    problem = random_problem(4)
    sites = sites_of_functions(problem, 4)
    together = posterior_at(problem, sites)
    new = np.random.RandomState(4).randn(6, 2)
    for k, own in enumerate(sites):
        alone = posterior_at(problem, [own], PRIOR_MEANS[k : k + 1])
        for ours, theirs in zip(alone.moments(new), together.moments(new), strict=True):
            assert_array_equal(ours[0], theirs[k])
        for ours, theirs in zip(alone.covariance(new), together.covariance(new), strict=True):
            assert_array_equal(ours[0], theirs[k])


def test_rows_may_be_used_again_by_who_gave_them():
    """What works over the rows may keep them: it gets an object of its own, of the same values."""
    problem = random_problem(5)
    posterior = posterior_at(problem, [problem.sites], [0.0])
    new, seen = np.random.RandomState(5).randn(8, 2), []

    def make_blocks(X, n_columns, **options):
        seen.append((X, n_columns, options))
        return RowBlocks(len(X), n_columns, **options)

    expected = posterior.moments(new)
    with row_backend(make_blocks):
        found = posterior.moments(new, block_rows=3)
    ((X, n_columns, options),) = seen
    assert X is not new
    assert np.shares_memory(X, new)
    assert (n_columns, options) == (5, {"block_rows": 3})
    for ours, theirs in zip(found, expected, strict=True):
        assert_allclose(ours, theirs, rtol=1e-12)


def dense_predictions(evaluation, k, X, X_new):
    """Return mean and covariance of the k-th f at new rows: q(u) explicitly, then p(f|u)."""
    Z, posterior = evaluation.points.Z, evaluation.solutions[k].posterior
    parameters = np.exp(evaluation.theta[:2])
    rows = np.concatenate([Z, X_new])
    K = dense_kernel(rows, *parameters)
    Kuu, Kuf, Kff = K[:6, :6], K[:6, 6:], K[6:, 6:]
    L = evaluation.posterior.Luu
    q_mean = L @ posterior.w
    q_cov = L @ np.linalg.inv(posterior.LB @ posterior.LB.T) @ L.T
    projection = np.linalg.solve(Kuu, Kuf)
    cov = Kff + projection.T @ (q_cov - Kuu) @ projection
    # How much f rises with the prior mean if the sites stay, by the same q(u) in dense algebra.
    sites = evaluation.solutions[k].sites
    A = np.linalg.solve(Kuu, dense_kernel(np.concatenate([Z, X]), *parameters)[:6, 6:])
    share = 1.0 - projection.T @ q_cov @ (A @ sites.precision)
    noisy = A.T @ Kuu @ A + np.diag(1.0 / sites.precision)
    cov += np.outer(share, share) / np.linalg.inv(noisy).sum()
    return posterior.prior_mean + projection.T @ q_mean, cov


@pytest.mark.parametrize("rows", [{}, {"block_rows": 4}, {"block_rows": 3, "n_threads": 2}])
def test_predictions_of_several_outputs(rows):
    model, theta = outputs(0.5, 1.7, noisy=True)
    evaluation = evaluate(model, theta, make_data()[3])
    X_new = np.random.RandomState(1).randn(11, 2)
    posterior = evaluation.posterior
    mean, variance = posterior.moments(X_new, **rows)
    joint_mean, cov = posterior.covariance(X_new)
    assert mean.shape == variance.shape == joint_mean.shape == (2, 11)
    assert cov.shape == (2, 11, 11)
    for k in range(2):
        expected_mean, expected_cov = dense_predictions(evaluation, k, model.X, X_new)
        assert_allclose(mean[k], expected_mean, rtol=1e-7, atol=1e-8)
        assert_allclose(variance[k], expected_cov.diagonal(), rtol=1e-7, atol=1e-8)
        assert_allclose(joint_mean[k], expected_mean, rtol=1e-7, atol=1e-8)
        assert_allclose(cov[k], expected_cov, rtol=1e-7, atol=1e-8)


def test_predictions_at_the_rows_are_the_marginals():
    model, theta = outputs(0.5, 1.7)
    evaluation = evaluate(model, theta, make_data()[3])
    features = model.row_features(model.kernel, theta, evaluation.points.Z)
    posterior = evaluation.posterior
    moments = posterior.moments(model.X)
    for k, q in enumerate(posterior.functions):
        mean, variance = marginals(features.V(0), features.residual, q)
        share = 1.0 - q.w_p @ features.V(0)
        mean, variance = mean + q.mean_shift * share, variance + q.mean_variance * share**2
        for ours, theirs in zip(moments, (mean, variance), strict=True):
            assert_allclose(ours[k], theirs, rtol=1e-12, atol=1e-13)
    place = posterior.kernel, posterior.theta, posterior.Z, posterior.Luu
    phi = whitened_features(*place, model.X, block_rows=7)
    assert_allclose(phi, features.V(0).T, rtol=1e-12, atol=1e-13)


def test_prior_means_are_those_of_the_functions():
    model, theta = outputs(0.5, 1.7)
    evaluation = evaluate(model, theta, make_data()[3])
    expected = [solution.posterior.prior_mean for solution in evaluation.solutions]
    assert_array_equal(evaluation.posterior.prior_means, expected)


# --------------------------------------------------------------------------------------------------
# The first points only


@pytest.mark.parametrize("n_points", [1, 2, 5])
def test_the_first_points_have_the_posterior_of_a_fresh_model(n_points):
    """At the same sites, prior mean and covariance of the points: u by dense algebra, no rows."""
    problem = random_problem(3, n=20, m=5, rows=False)
    features = problem.features()
    whole = posterior_of(features, [collapse(features, problem.sites, STANDARD)])
    part = whole.truncated(n_points)
    (q,) = part.functions
    assert part.Z.shape == (n_points, 2)
    assert q.prior_mean == whole.functions[0].prior_mean
    Kuu, Kuf, _ = problem.dense()
    Kuu, Kuf = Kuu[:n_points, :n_points], Kuf[:n_points]
    A = np.linalg.solve(Kuu, Kuf)
    S = np.linalg.inv(np.linalg.inv(Kuu) + (A * problem.sites.precision) @ A.T)
    mean_u = S @ A @ (problem.sites.shift - q.prior_mean * problem.sites.precision)
    new = np.random.RandomState(0).randn(7, 2)
    kernel, theta = problem.kernel, problem.theta
    W = np.linalg.solve(Kuu, kernel.value(theta, problem.Z[:n_points], new))
    mean, variance = part.moments(new)
    assert_allclose(mean[0], q.prior_mean + W.T @ mean_u, rtol=1e-6, atol=1e-8)
    given_u = kernel.diag(theta, new) - np.einsum("mn,mn->n", W, Kuu @ W)
    expected = given_u + np.einsum("mn,mn->n", W, S @ W)
    assert_allclose(variance[0], expected, rtol=1e-6, atol=1e-8)


def test_all_points_are_the_posterior_itself():
    model, theta = outputs(0.5, 1.7)
    posterior = evaluate(model, theta, make_data()[3]).posterior
    known = posterior._replace(functions=tuple(q.at_prior_mean() for q in posterior.functions))
    ours, theirs = posterior.truncated(6).moments(model.X), known.moments(model.X)
    assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("n_points", range(1, 7))
def test_truncated_is_the_posterior_on_the_first_points(n_points):
    """Of a kernel whose diagonal is constant, so that the jitter is the same."""
    problem = random_problem(6, m=6, kernel=Scaled(Constant(), Matern12(2)), rows=False)
    sites = sites_of_functions(problem, 6)
    whole = posterior_at(problem, sites)
    small = problem._replace(Z=problem.Z[:n_points])
    theirs = posterior_at(small, sites, whole.prior_means)
    ours = whole.truncated(n_points)
    assert ours.kernel is whole.kernel
    assert_array_equal(ours.theta, whole.theta)
    assert_array_equal(ours.Z, small.Z)
    assert_array_equal(ours.prior_means, whole.prior_means)
    assert ours.jitter == whole.jitter
    assert_allclose(ours.Luu, theirs.Luu, rtol=1e-12, atol=1e-14)
    new = np.random.RandomState(6).randn(9, 2)
    for found, expected in zip(ours.moments(new), theirs.moments(new), strict=True):
        assert_allclose(found, expected, rtol=1e-9, atol=1e-10)
    for found, expected in zip(ours.covariance(new), theirs.covariance(new), strict=True):
        assert_allclose(found, expected, rtol=1e-9, atol=1e-10)


@given(seed=SEED, first=st.integers(1, 5), second=st.integers(1, 5))
def test_truncating_twice_is_truncating_once(seed, first, second):
    problem = random_problem(seed)
    whole = posterior_at(problem, sites_of_functions(problem, seed))
    more, fewer = max(first, second), min(first, second)
    twice, once = whole.truncated(more).truncated(fewer), whole.truncated(fewer)
    new = np.random.RandomState(seed).randn(5, 2)
    assert_array_equal(twice.Luu, once.Luu)
    for ours, theirs in zip(twice.moments(new), once.moments(new), strict=True):
        assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9)
    assert len(whole.Z) == len(whole.Luu) == len(whole.functions[0].w) == 5


@given(seed=SEED)
def test_no_number_of_points_widens_the_prior(seed):
    problem = random_problem(seed)
    whole = posterior_at(problem, sites_of_functions(problem, seed))
    new = np.random.RandomState(seed).randn(6, 2)
    prior = problem.kernel.diag(problem.theta, new)
    for m in range(1, 6):
        variance = whole.truncated(m).moments(new)[1]
        assert (variance >= 0.0).all()
        assert (variance <= prior * (1.0 + 1e-9)).all()


# --------------------------------------------------------------------------------------------------
# Draws


class Zeros:
    """A random generator all of whose normal numbers are zero."""

    standard_normal = staticmethod(np.zeros)


class Basis:
    """A generator whose draws are the basis vectors: what they become is the whole of a root.

    The numbers of a function that successive calls return are different entries of these vectors.
    """

    def __init__(self, size):
        self._size, self._used = size, 0

    def standard_normal(self, shape):
        assert shape[0] == self._size
        columns = np.arange(self._used, self._used + shape[1])
        self._used = (self._used + shape[1]) % self._size
        return np.eye(self._size)[:, columns]


@KERNEL
@pytest.mark.parametrize("seed", range(3))
def test_draws_are_made_with_a_root_of_the_dense_covariance(case, seed):
    problem = random_problem(seed, n=14, m=5, kernel=case.build(2), rows=False)
    sites = sites_of_functions(problem, seed)
    posterior = posterior_at(problem, sites)
    new = read_only(1.5 * np.random.RandomState(seed).randn(9, 2))
    Kuu, Kuf = (case.matrix(problem.theta, problem.Z, X) for X in (problem.Z, problem.X))
    Q = Kuf.T @ np.linalg.solve(Kuu, Kuf)
    n = len(new) + len(problem.Z) + 1
    samples = posterior.draws(new, n, Basis(n))
    assert samples.shape == (3, n, 9)
    for k, prior_mean in enumerate(posterior.prior_means):
        dense = partial(dense_sparse, case, problem)
        mean, covariance = dense(sites[k], prior_mean, new)
        if PRIOR_MEANS[k] is None:
            mean, covariance = with_flat_prior(dense, Q, sites[k], prior_mean, new)
        moved = samples[k] - mean
        assert_allclose(moved.T @ moved, covariance, rtol=1e-6, atol=1e-7)


def test_draws_are_about_the_mean_with_its_shift(rng):
    problem = random_problem(4)
    posterior = posterior_at(problem, sites_of_functions(problem, 4))
    shifted = [q._replace(mean_shift=0.3) for q in posterior.functions]
    new = rng.randn(7, 2)
    without = posterior.covariance(new)[0]
    posterior = posterior._replace(functions=shifted)
    mean = posterior.covariance(new)[0]
    assert np.abs(mean - without).max() > 0.01
    assert_allclose(posterior.draws(new, 1, Zeros())[:, 0], mean, atol=1e-12)


def test_draws_share_one_factorisation(rng, monkeypatch):
    problem = random_problem(3)
    posterior = posterior_at(problem, sites_of_functions(problem, 3))
    shapes, root = [], module.semidefinite_root

    def counted(A, tolerance):
        shapes.append(A.shape)
        return root(A, tolerance)

    monkeypatch.setattr(module, "semidefinite_root", counted)
    assert posterior.draws(rng.randn(7, 2), 50, rng).shape == (3, 50, 7)
    assert shapes == [(7, 7)]


def test_rounding_errors_of_a_large_prior_variance_are_not_drawn(rng):
    """Their square root, which eigenvectors keep, may exceed the standard deviation of f."""
    problem = random_problem(0, n=60, m=60, d=1)
    theta = np.log([1e9, 10.0])
    problem = problem._replace(kernel=free(Scaled(Constant(), RBF()), theta), theta=theta)
    posterior = posterior_at(problem, [problem.sites], (0.0,))
    new = np.linspace(-1.0, 1.0, 300)[:, None]
    draws = posterior.draws(new, 4000, rng)[0]
    # Neighbours are nearly equal, as the length scale is a thousand times their distance.
    roughness = np.diff(draws, 2, axis=1).std()
    assert roughness < 2e-3 * draws.std(axis=0).mean()


def test_draws_without_variance_are_the_mean(rng):
    """The kernel is zero at zero, and a linear function has no other uncertainty."""
    problem = random_problem(0)
    theta = np.array([-400.0])
    problem = problem._replace(kernel=free(DotProduct(), theta), theta=theta)
    posterior = posterior_at(problem, [problem.sites], (0.7,))
    samples = posterior.draws(np.zeros((3, 2)), 5, rng)
    assert_array_equal(samples, np.full((1, 5, 3), 0.7))


def test_the_number_of_random_numbers_does_not_depend_on_the_rank(rng):
    problem = random_problem(2)
    posterior = posterior_at(problem, [problem.sites], (0.0,))
    ends = []
    for new in (rng.randn(6, 2), np.repeat(rng.randn(1, 2), 6, axis=0)):
        generator = np.random.RandomState(0)
        posterior.draws(new, 3, generator)
        ends.append(generator.standard_normal())
    assert ends[0] == ends[1]


def test_draws_of_a_posterior_have_its_moments(rng):
    """Each function alone, and none with another; at rows that are equal they are equal."""
    problem = random_problem(7)
    posterior = posterior_at(problem, sites_of_functions(problem, 7))
    new = rng.randn(4, 2)
    new[3] = new[0]
    mean, cov = posterior.covariance(new)
    n = 40_000
    samples = posterior.draws(new, n, rng)
    assert_allclose(samples[..., 3], samples[..., 0], atol=1e-5)
    deviation = np.sqrt(cov.diagonal(axis1=1, axis2=2))
    # Five standard errors: 1 / sqrt(n) of a mean, at most sqrt(2 / n) of a covariance.
    assert (np.abs(samples.mean(axis=1) - mean) < 5.0 / np.sqrt(n) * deviation).all()
    z = ((samples - mean[:, None]) / deviation[:, None])[..., :3]
    z = np.moveaxis(z, 1, 2).reshape(9, n)
    expected = np.zeros((9, 9))
    for k, own in enumerate(cov[:, :3, :3] / deviation[:, :3, None] / deviation[:, None, :3]):
        expected[3 * k : 3 * k + 3, 3 * k : 3 * k + 3] = own
    assert_allclose(z @ z.T / n, expected, atol=5.0 * np.sqrt(2.0 / n))
