"""Whitened features against dense numpy, and the way back from their adjoints."""

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.linalg import LinAlgError
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.bounds.collapsed import collapse, gradient
from sparsegpc._core.bounds.features import RowFeatures, factor_inducing, features
from sparsegpc._core.kernels.algebra import FiniteDifferenceKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant, Matern12
from sparsegpc._core.rows.blocks import RowBlocks
from tests.core.helpers import SLACK, central_difference, free, random_problem, symmetric

# How RowBlocks may be told to work; `memory` is in (M, N) arrays.
WAYS = {
    "one block": {},
    "small blocks": {"block_rows": 4},
    "blocks of one row": {"block_rows": 1},
    "threads": {"block_rows": 4, "n_threads": 3},
    "nothing kept": {"block_rows": 4, "memory": 0},
    "nothing kept, threads": {"block_rows": 4, "memory": 0, "n_threads": 3},
    "features kept, not pullbacks": {"block_rows": 4, "memory": 1},
}
WAY = pytest.mark.parametrize("way", WAYS.values(), ids=[w.replace(" ", "-") for w in WAYS])


def _row_options(problem, way):
    options = dict(way)
    if "memory" in options:
        options["memory"] *= 8 * len(problem.X) * len(problem.Z)
    return options


def _whole_V(row_features):
    blocks = row_features.blocks
    return np.concatenate([row_features.V(k) for k in range(len(blocks.slices))], axis=1)


def _dense(problem, jitter=1e-9):
    """Return V and the residual by numpy's general solver."""
    Kuu, Kuf, Kff = problem.dense(jitter=jitter)
    V = np.linalg.solve(np.linalg.cholesky(Kuu), Kuf)
    return V, Kff.diagonal() - (V**2).sum(axis=0)


def _adjoints(problem, rng):
    """Return derivatives of a scalar w.r.t. V and the residual, both arbitrary."""
    m, n = len(problem.Z), len(problem.X)
    return rng.randn(m, n), rng.randn(n)


def _pull_back(row_features, by_V, by_residual, wrt_Z=True):
    """Hand adjoints of V and the residual to `pull_back`, in the form that it asks for."""
    V = _whole_V(row_features)
    G = by_V - 2.0 * V * by_residual
    # V depends on Luu itself here, not on Luu Luu^T only: the derivative of the factor L of P P^T
    # is L times the lower triangle, with half the diagonal, of L^-1 d(Kuu) L^-T.
    lower = np.tril(G @ V.T)
    lower[np.diag_indices_from(lower)] *= 0.5
    return row_features.pull_back(
        lambda V, G: (G.copy(), (), ()),
        [G],
        by_residual,
        lambda _: -0.5 * (lower + lower.T),
        wrt_Z,
    )[:2]


@pytest.mark.parametrize("arrays", [0, 1, 100])
def test_features_die_with_their_last_reference(arrays):
    """A cycle would keep (M, N) arrays alive until the garbage collector runs."""
    problem = random_problem(6)
    blocks = RowBlocks(15, 5, block_rows=5, memory=8 * 15 * 5 * arrays)
    row_features = RowFeatures(blocks, problem.kernel, problem.theta, problem.Z, problem.X)
    _whole_V(row_features)
    alive = weakref.ref(row_features)
    gc.disable()
    try:
        del row_features
        assert alive() is None
    finally:
        gc.enable()


@WAY
@pytest.mark.parametrize("jitter", [1e-9, 1e-2])
def test_features_and_residual_are_the_dense_ones(way, jitter):
    problem = random_problem(0)
    row_features = problem.features(jitter=jitter, **_row_options(problem, way))
    V, residual = _dense(problem, jitter)
    assert row_features.jitter == jitter
    assert_allclose(_whole_V(row_features), V, atol=1e-10)
    assert_allclose(row_features.residual, residual, atol=1e-10)


def test_factor_is_that_of_the_jittered_matrix():
    problem = random_problem(1)
    (Luu, jitter), pullback = factor_inducing(problem.kernel, problem.theta, problem.Z, 1e-3)
    Kuu, _, _ = problem.dense(jitter=1e-3)
    assert jitter == 1e-3
    assert_array_equal(Luu, np.tril(Luu))
    assert_allclose(Luu @ Luu.T, Kuu, rtol=1e-12, atol=1e-13)
    adjoint = symmetric(np.random.RandomState(0), len(Kuu))
    expected = problem.kernel.evaluate(problem.theta, problem.Z, problem.Z)[1](adjoint)[0]
    assert_array_equal(pullback(adjoint)[0], expected)


def test_features_of_new_rows_are_the_dense_ones(rng):
    problem = random_problem(2)
    Luu = problem.features().Luu
    new = problem._replace(X=rng.randn(7, 2))
    V, residual = features(problem.kernel, problem.theta, problem.Z, Luu, new.X)
    V_dense, residual_dense = _dense(new)
    assert_allclose(V, V_dense, atol=1e-10)
    assert_allclose(residual, residual_dense, atol=1e-10)


@given(seed=st.integers(0, 2**31), n=st.integers(1, 12), d=st.integers(1, 4), m=st.integers(1, 12))
def test_residual_is_between_zero_and_the_prior_variance(seed, n, d, m):
    problem = random_problem(seed, n=n, m=min(m, n), d=d)
    residual = problem.features().residual
    assert (residual >= 0.0).all()
    diag = problem.kernel.diag(problem.theta, problem.X)
    assert (residual <= diag).all()
    again = features(problem.kernel, problem.theta, problem.Z, problem.features().Luu, problem.X)[1]
    assert (again >= 0.0).all()


def test_residual_is_not_negative_by_rounding():
    """At the inducing points, without the jitter that would hide it."""
    problem = random_problem(0, n=30, kernel=Matern12(2))
    problem = problem._replace(Z=problem.X)
    row_features = problem.features(jitter=0.0)
    new = features(problem.kernel, problem.theta, problem.Z, row_features.Luu, problem.X)[1]
    for residual in (row_features.residual, new):
        assert residual.min() == 0.0
        assert_allclose(residual, 0.0, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_residual_vanishes_at_the_inducing_points(seed):
    problem = random_problem(seed, n=12, m=12)
    assert_allclose(problem.features().residual, 0.0, atol=1e-7)


def test_equal_inducing_points_are_factored():
    problem = random_problem(3)
    doubled = problem._replace(Z=np.concatenate([problem.Z, problem.Z]))
    row_features = doubled.features()
    assert_allclose(row_features.residual, problem.features().residual, atol=1e-6)


def test_a_matrix_that_is_no_covariance_is_refused():
    kernel = FiniteDifferenceKernel(
        lambda params, Z, X: -RBF().evaluate(params, Z, X)[0],
        lambda params, X: -np.ones(len(X)),
        1,
        "Minus",
    )
    problem = random_problem(0)
    with pytest.raises(LinAlgError, match="covariance of 5 inducing points"):
        RowFeatures(RowBlocks(15, 5), free(kernel, np.zeros(1)), np.zeros(1), problem.Z, problem.X)


@WAY
def test_blocks_memory_and_threads_do_not_change_results(way):
    problem = random_problem(4, n=22)
    by_V, by_residual = _adjoints(problem, np.random.RandomState(0))
    reference, ours = problem.features(), problem.features(**_row_options(problem, way))
    assert_allclose(_whole_V(ours), _whole_V(reference), rtol=1e-11, atol=1e-12)
    assert_allclose(ours.residual, reference.residual, rtol=1e-10, atol=1e-12)
    for mine, theirs in zip(
        _pull_back(ours, by_V, by_residual), _pull_back(reference, by_V, by_residual), strict=True
    ):
        assert_allclose(mine, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("memory", [0, 1, 100])
def test_the_number_of_threads_does_not_change_a_bit(memory):
    problem = random_problem(5, n=40)
    by_V, by_residual = _adjoints(problem, np.random.RandomState(0))
    results = []
    for n_threads in (1, 2, 5):
        way = {"block_rows": 3, "memory": memory, "n_threads": n_threads}
        row_features = problem.features(**_row_options(problem, way))
        gradients = _pull_back(row_features, by_V, by_residual)
        results.append((_whole_V(row_features), row_features.residual, *gradients))
    for other in results[1:]:
        for mine, theirs in zip(other, results[0], strict=True):
            assert_array_equal(mine, theirs)


def test_features_are_kept_or_computed_again_as_the_memory_allows():
    problem = random_problem(6)
    calls = []

    class Counted:
        def value(self, *args):
            calls.append("value")
            return problem.kernel.value(*args)

        def evaluate(self, *args):
            calls.append("evaluate")
            return problem.kernel.evaluate(*args)

        diag, diag_pullback = problem.kernel.diag, problem.kernel.diag_pullback
        n_arrays = problem.kernel.n_arrays

    def visits(arrays):
        blocks = RowBlocks(15, 5, block_rows=5, memory=8 * 15 * 5 * arrays)
        row_features = RowFeatures(blocks, Counted(), problem.theta, problem.Z, problem.X)
        calls.clear()
        for _ in range(2):
            _whole_V(row_features)
        return list(calls)

    assert visits(1 + problem.kernel.n_arrays) == []
    assert visits(1) == []
    assert visits(0) == ["value"] * 6


@WAY
@pytest.mark.parametrize("jitter", [1e-9, 1e-2])
@pytest.mark.parametrize("kernel", [None, RBF(2), Scaled(Constant(), Matern12())])
def test_pull_back_of_arbitrary_adjoints(way, jitter, kernel):
    """Against differences of a linear function of V and the residual, computed densely."""
    problem = random_problem(0, kernel=kernel, rows=False)
    by_V, by_residual = _adjoints(problem, np.random.RandomState(0))

    def objective(theta, Z):
        V, residual = _dense(problem._replace(theta=theta, Z=Z), jitter)
        return np.vdot(by_V, V) + by_residual @ residual

    row_features = problem.features(jitter=jitter, **_row_options(problem, way))
    grad_theta, grad_Z = _pull_back(row_features, by_V, by_residual)
    by_theta = central_difference(lambda theta: objective(theta, problem.Z), problem.theta)
    by_Z = central_difference(lambda Z: objective(problem.theta, Z), problem.Z)
    assert_allclose(grad_theta, by_theta, rtol=1e-5, atol=1e-6)
    assert_allclose(grad_Z, by_Z, rtol=1e-5, atol=1e-6)
    theta_only, nothing = _pull_back(row_features, by_V, by_residual, wrt_Z=False)
    assert nothing is None
    assert_allclose(theta_only, grad_theta, rtol=1e-12)


@pytest.mark.parametrize("memory", [0, 1, 100])
def test_pull_back_does_not_touch_the_features(memory):
    problem = random_problem(7)
    row_features = problem.features(**_row_options(problem, {"block_rows": 4, "memory": memory}))
    V, residual = _whole_V(row_features).copy(), row_features.residual.copy()
    by_V, by_residual = _adjoints(problem, np.random.RandomState(0))
    first = _pull_back(row_features, by_V, by_residual)
    second = _pull_back(row_features, by_V, by_residual)
    assert_array_equal(_whole_V(row_features), V)
    assert_array_equal(row_features.residual, residual)
    assert_array_equal(first[0], second[0])
    assert_array_equal(first[1], second[1])


@SLACK
@pytest.mark.parametrize(
    "kernel", [None, Scaled(Constant(), Matern12(2))], ids=["sum", "scaled matern12"]
)
def test_a_large_jitter_moves_with_the_parameters(slack, kernel):
    """It is relative to the mean of the diagonal, which is seen in the gradient of a bound."""
    problem = random_problem(8, kernel=kernel, rows=False)

    def bound(theta, Z):
        row_features = problem.features(theta=theta, Z=Z, jitter=1e-2)
        return collapse(row_features, problem.sites, slack, 0.3).bound

    row_features = problem.features(jitter=1e-2)
    posterior = collapse(row_features, problem.sites, slack, 0.3)
    grad_theta, grad_Z, _ = gradient(
        row_features, [(problem.sites, posterior, None)], slack, wrt_Z=True
    )
    by_theta = central_difference(lambda theta: bound(theta, problem.Z), problem.theta)
    by_Z = central_difference(lambda Z: bound(problem.theta, Z), problem.Z)
    assert_allclose(grad_theta, by_theta, rtol=1e-6, atol=1e-6)
    assert_allclose(grad_Z, by_Z, rtol=1e-6, atol=1e-6)
