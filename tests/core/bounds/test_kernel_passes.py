"""Passes over the kernel matrix against dense eigenvalues and products, and how they are made."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import eigh

from sparsegpc._core.bounds import kernel_passes as room
from sparsegpc._core.bounds.collapsed import collapse
from sparsegpc._core.bounds.features import RowFeatures
from sparsegpc._core.bounds.kernel_passes import kernel_product, residual_pass
from sparsegpc._core.bounds.log_determinants import log_det_bounds
from sparsegpc._core.bounds.slacks import TIGHT
from sparsegpc._core.bounds.upper_bounds import upper_bounds
from sparsegpc._core.kernels.algebra import Scaled
from sparsegpc._core.kernels.families import RBF, Constant, Matern12, Matern52
from sparsegpc._core.likelihoods.base import Sites
from sparsegpc._core.rows.blocks import RowBlocks
from sparsegpc._core.rows.sources import RowSource
from tests.core.helpers import Problem, Watched, free, random_problem


def _pass(problem, all_precisions=None, vectors=None, **rows):
    row_features = problem.features(**rows)
    all_sites = [problem.sites]
    if all_precisions is not None:
        all_sites = [problem.sites._replace(precision=p) for p in all_precisions]
    outputs = [(sites, collapse(row_features, sites, TIGHT, 0.0)) for sites in all_sites]
    vectors = np.ones((len(problem.X), 1)) if vectors is None else vectors
    return residual_pass(row_features, outputs, vectors)


def _missed(problem):
    Kuu, Kuf, K = problem.dense()
    return K - Kuf.T @ np.linalg.solve(Kuu, Kuf)


def _eigenvalues(problem, precision):
    """Eigenvalues of (Q + 1/p)^-1 (K - Q) at the rows of positive precision."""
    seen = precision > 0.0
    missed = _missed(problem)[np.ix_(seen, seen)]
    K = problem.dense()[2][np.ix_(seen, seen)]
    return eigh(missed, K - missed + np.diag(1.0 / precision[seen]), eigvals_only=True)


def _assert_moments(found, eigenvalues, rtol=1e-8):
    assert_allclose(found.trace, eigenvalues.sum(), rtol=rtol)
    assert_allclose(found.squares, (eigenvalues**2).sum(), rtol=rtol)


@given(seed=st.integers(0, 2**31), m=st.integers(1, 12), exponent=st.floats(0.0, 3.0))
def test_moments_are_those_of_the_dense_eigenvalues(seed, m, exponent):
    problem = random_problem(seed, n=30, m=m, log_precision=(-exponent, exponent))
    _, (found,) = _pass(problem)
    _assert_moments(found, _eigenvalues(problem, problem.sites.precision))
    assert found.n_rows == 30
    assert 0.0 < found.trace_error < 1e-9 * found.trace
    assert 0.0 < found.squares_error < 1e-7 * found.squares


def test_products_are_those_of_the_dense_matrix():
    problem = random_problem(0, n=24)
    vectors = np.random.RandomState(1).randn(24, 3)
    products, _ = _pass(problem, vectors=vectors, block_rows=7)
    assert_allclose(products, _missed(problem) @ vectors, rtol=1e-9, atol=1e-11)


def test_outputs_with_other_precisions_share_the_pass(rng):
    problem = random_problem(0, n=24)
    precisions = 10.0 ** rng.uniform(-2.0, 2.0, (3, 24))
    precisions[1, ::3] = 0.0
    _, all_moments = _pass(problem, precisions, block_rows=9)
    for found, precision in zip(all_moments, precisions, strict=True):
        _assert_moments(found, _eigenvalues(problem, precision))
    assert [found.n_rows for found in all_moments] == [24, 16, 24]


def test_rows_without_precision_add_nothing():
    problem = random_problem(0, n=24)
    _, (found,) = _pass(problem, [np.zeros(24)])
    assert found == (0.0, 0.0, 0.0, 0.0, 0)
    assert log_det_bounds(found, 0.0) == (0.0, 0.0)


@pytest.mark.parametrize("scale", [1e-140, 1e140])
def test_moments_do_not_depend_on_the_unit_of_f(scale):
    def found(scale):
        kernel = Scaled(Constant(), RBF())
        problem = random_problem(0, n=24, kernel=kernel)
        theta = problem.theta + np.array([2.0 * np.log(scale), 0.0])
        precision = problem.sites.precision / scale**2
        sites = Sites(precision, np.zeros(24), np.zeros(24))
        return _pass(problem._replace(theta=theta, sites=sites))[1][0]

    assert_allclose(found(scale), found(1.0), rtol=1e-9)


def test_a_row_is_as_much_as_its_copies():
    problem = random_problem(3, n=20)
    precision = np.repeat(problem.sites.precision / 2.0, 2)
    copies = problem._replace(
        X=np.repeat(problem.X, 2, axis=0), sites=Sites(precision, np.zeros(40), np.zeros(40))
    )
    _, (one,) = _pass(problem)
    _, (two,) = _pass(copies)
    assert_allclose(two[:2], one[:2], rtol=1e-9)


@pytest.mark.parametrize(
    "way",
    [
        {"block_rows": 7},
        {"block_rows": 7, "memory": 0},
        {"block_rows": 1},
        {"block_rows": 7, "n_threads": 3},
    ],
)
def test_tiles_memory_and_threads_do_not_change_the_result(way, monkeypatch):
    problem = random_problem(5, n=29)
    vectors = np.random.RandomState(1).randn(29, 2)
    whole, (expected,) = _pass(problem, vectors=vectors)
    monkeypatch.setattr(room, "TILE_ROWS", 5)
    products, (found,) = _pass(problem, vectors=vectors, **way)
    assert_allclose(products, whole, rtol=1e-9, atol=1e-12)
    assert_allclose(found, expected, rtol=1e-10)


def test_the_result_does_not_depend_on_the_number_of_threads():
    problem = random_problem(0, n=50)
    one, *others = (_pass(problem, block_rows=6, n_threads=n) for n in (1, 2, 5))
    for products, all_moments in others:
        assert_array_equal(products, one[0])
        assert all_moments == one[1]


def test_rows_may_come_from_a_file(tmp_path):
    problem = random_problem(0, n=30)
    path = tmp_path / "rows.npy"
    np.save(path, problem.X)
    source = RowSource(np.load(path, mmap_mode="r"))
    blocks = RowBlocks(30, 5, block_rows=8, memory=0)
    features = RowFeatures(blocks, problem.kernel, problem.theta, problem.Z, source, jitter=1e-9)
    output = problem.sites, collapse(features, problem.sites, TIGHT)
    products, (found,) = residual_pass(features, [output], np.ones((30, 1)))
    expected, (moments,) = _pass(problem)
    assert_allclose(products, expected, rtol=1e-9, atol=1e-12)
    assert_allclose(found, moments, rtol=1e-10)


def test_no_array_is_larger_than_a_tile_or_its_features(monkeypatch):
    monkeypatch.setattr(room, "TILE_ROWS", 8)
    problem = random_problem(0, n=29, m=3)
    row_features = problem.features(memory=0)
    output = problem.sites, collapse(row_features, problem.sites, TIGHT)
    kernel = row_features.kernel = Watched(row_features.kernel)
    residual_pass(row_features, [output], np.ones((29, 1)))
    assert {max(shape) for shape in kernel.shapes} == {5, 8}
    tiles = [shape for shape in kernel.shapes if shape[0] != 3]
    assert sum(a * b for a, b in tiles) == 29 * 29


# --------------------------------------------------------------------------------------------------
# Intervals that are nearly exact


def _curve(n, m, noise, *, kernel=RBF, length_scale=0.3, copies=1, seed=0):
    """Return noisy values of a curve, as a `Problem` whose points are evenly spaced rows."""
    rng = np.random.RandomState(seed)
    X = np.repeat(np.linspace(0.0, 1.0, n // copies), copies)[:, None]
    y = np.sin(6.0 * X[:, 0]) + np.sqrt(noise) * rng.randn(len(X))
    p = np.full(len(X), 1.0 / noise)
    sites = Sites(p, p * y, -0.5 * p * y**2 + 0.5 * np.log(p / (2.0 * np.pi)))
    Z = np.unique(X)[np.linspace(0, n // copies - 1, m).astype(int), None]
    theta = np.array([0.0, np.log(length_scale)])
    return Problem(free(Scaled(Constant(), kernel()), theta), theta, Z, X, sites)


def _evidence(problem):
    """Return the log density of the values, by a dense Cholesky factorisation."""
    precision, shift, _ = problem.sites
    factor = np.linalg.cholesky(problem.dense()[2] + np.diag(1.0 / precision))
    half = np.linalg.solve(factor, shift / precision)
    return -0.5 * half @ half - np.log(factor.diagonal() * np.sqrt(2.0 * np.pi)).sum()


def _interval(problem, method="two-moment", jitter=1e-12):
    row_features = problem.features(jitter=jitter)
    posterior = collapse(row_features, problem.sites, TIGHT, 0.0)
    (found,) = upper_bounds(row_features, [(problem.sites, posterior)], TIGHT, [method])
    return found.improved_lower, found.upper[method]


@pytest.mark.parametrize("method", ["two-moment", "conjugate-gradient"])
@pytest.mark.parametrize(
    ("n", "m", "noise", "width"),
    [
        (60, 12, 1e-2, 1e-9),
        (60, 20, 1e-2, 1e-9),
        (200, 12, 1e-2, 1e-9),
        (200, 15, 1e-2, 1e-9),
        (60, 60, 1e-2, 1e-9),
        (60, 20, 1e-6, 1e-5),
        (60, 60, 1e-10, 0.05),
        (60, 20, 1e-10, 0.05),
    ],
)
def test_a_tiny_interval_still_contains_the_evidence(n, m, noise, width, method):
    """Rounding widens it by what is stated; with small noise that is more."""
    problem = _curve(n, m, noise)
    low, high = _interval(problem, method)
    assert low <= _evidence(problem) <= high
    assert high - low < width


@pytest.mark.parametrize("kernel", [RBF, Matern12])
@pytest.mark.parametrize(("m", "copies"), [(1, 1), (8, 1), (8, 3), (40, 1), (13, 3)])
@pytest.mark.parametrize("noise", [1e-3, 0.1, 10.0])
def test_an_interval_contains_the_evidence(kernel, m, copies, noise):
    for seed in range(3):
        problem = _curve(40, m, noise, kernel=kernel, copies=copies, seed=seed)
        exact = _evidence(problem)
        low, high = _interval(problem)
        assert low - 1e-9 <= exact <= high + 1e-9
        tight = collapse(problem.features(), problem.sites, TIGHT, 0.0).bound
        assert tight <= low + 1e-9


def test_where_the_points_suffice_the_interval_is_narrow():
    problem = _curve(200, 14, 0.1, kernel=Matern52, length_scale=0.2)
    narrow, wide = np.ravel(np.diff([_interval(problem), _interval(problem, "one-pass")]))
    assert narrow < 0.1
    assert narrow < wide / 4.0


# --------------------------------------------------------------------------------------------------
# Products with the kernel matrix


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(
    "way", [{}, {"block_rows": 1}, {"block_rows": 7}, {"block_rows": 7, "n_threads": 3}]
)
@pytest.mark.parametrize("kernel", [None, Matern12()])
def test_kernel_product_is_the_dense_one(kernel, way, k):
    problem = random_problem(0, n=24, kernel=kernel)
    vectors = np.random.RandomState(1).randn(24, k)
    expected = problem.dense()[2] @ vectors
    assert_allclose(kernel_product(problem.features(**way), vectors), expected, rtol=1e-11)


def test_kernel_product_does_not_depend_on_the_number_of_threads():
    problem = random_problem(0, n=50)
    vectors = np.random.RandomState(1).randn(50, 2)
    one, *others = (
        kernel_product(problem.features(block_rows=6, n_threads=n), vectors) for n in (1, 2, 5)
    )
    for other in others:
        assert_array_equal(one, other)


def test_kernel_product_works_on_several_tiles_at_once():
    """Each of two threads waits for the other, in a kernel that only returns if both are there."""
    problem = random_problem(0, n=12)
    row_features = problem.features(block_rows=6, n_threads=2)
    both = threading.Barrier(2, timeout=30.0)

    class Meeting(Watched):
        def value(self, theta, Z, X):
            if Z is X:
                both.wait()
            return super().value(theta, Z, X)

    row_features.kernel = Meeting(problem.kernel)
    product = kernel_product(row_features, np.eye(12))
    assert_allclose(product, problem.dense()[2], rtol=1e-11)


def test_kernel_product_evaluates_each_pair_of_rows_once_in_tiles(monkeypatch):
    monkeypatch.setattr(room, "TILE_ROWS", 8)
    problem = random_problem(0, n=29)
    row_features = problem.features()
    kernel = row_features.kernel = Watched(problem.kernel)
    kernel_product(row_features, np.ones((29, 1)))
    assert max(max(shape) for shape in kernel.shapes) == 8
    # Tiles of 8, 8, 8 and 5 rows on and above the diagonal.
    assert sum(a * b for a, b in kernel.shapes) == (29**2 + 3 * 8**2 + 5**2) / 2
