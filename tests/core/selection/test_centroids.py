"""Centroids of the rows around chosen rows, beside sums over all pairs."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.kernels.algebra import FreeKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant, DotProduct
from sparsegpc._core.likelihoods.base import Sites
from sparsegpc._core.rows.blocks import RowBlocks
from sparsegpc._core.selection import centroids as module
from sparsegpc._core.selection.centroids import centroids
from sparsegpc._core.selection.selectors import InducingPoints
from tests.core.helpers import read_only

THETA = np.log([2.0, 0.7, 1.9])
KERNEL = FreeKernel(Scaled(Constant(), RBF(2)), THETA, np.ones(3, dtype=bool))


def problem(n=40, n_points=6, n_functions=1, seed=0):
    """Return chosen rows, all rows, and sites of both signs."""
    rng = np.random.RandomState(seed)
    X = read_only(rng.uniform(-2.0, 2.0, (n, 2)))
    sites = [Sites(rng.uniform(0.1, 1.0, n), rng.randn(n), np.zeros(n)) for _ in range(n_functions)]
    indices = rng.permutation(n)[:n_points]
    return InducingPoints(X[indices], indices, X[:1]), X, sites


def value(x, z):
    lengths = np.array([0.7, 1.9])
    return 2.0 * np.exp(-0.5 * (((x - z) / lengths) ** 2).sum())


def group(sites, n):
    shifts = [site.shift[n] for site in sites]
    return shifts[0] > 0.0 if len(shifts) == 1 else max(range(len(shifts)), key=shifts.__getitem__)


def one_pass(Z, groups, X, sites):
    """Lloyd's step by loops: every row goes to the nearest point of its group."""
    members = [[] for _ in Z]
    for n, x in enumerate(X):
        own = [m for m in range(len(Z)) if groups[m] == group(sites, n)]
        if own:
            members[min(own, key=lambda m: 4.0 - 2.0 * value(x, Z[m]))].append(n)
    moved = np.array(Z)
    for m, rows in enumerate(members):
        weight = [sum(site.precision[n] for site in sites) * value(X[n], Z[m]) for n in rows]
        if rows:
            moved[m] = np.average(X[rows], axis=0, weights=weight)
    return moved


@pytest.mark.parametrize("n_functions", [1, 3])
@pytest.mark.parametrize("n_passes", [1, 4])
def test_each_pass_takes_the_mean_of_the_nearest_rows_of_the_same_group(
    monkeypatch, n_functions, n_passes
):
    monkeypatch.setattr(module, "N_PASSES", n_passes)
    points, X, sites = problem(n_functions=n_functions)
    groups = [group(sites, n) for n in points.indices]
    expected = points.Z
    for _ in range(n_passes):
        expected = one_pass(expected, groups, X, sites)
    found = centroids(points, KERNEL, THETA, X, sites)
    assert_allclose(found.Z, expected, rtol=1e-10)
    assert np.abs(found.Z - points.Z).max() > 0.1


def test_centroids_are_no_rows_and_leave_the_chosen_rows_as_they_are():
    points, X, sites = problem()
    before = points.Z.copy()
    found = centroids(points, KERNEL, THETA, X, sites)
    assert found.indices is None
    assert found.Z_noise is points.Z_noise
    assert_array_equal(points.Z, before)


def test_a_point_at_every_row_stays():
    _, X, sites = problem(n=12)
    points = InducingPoints(X, np.arange(12))
    assert_allclose(centroids(points, KERNEL, THETA, X, sites).Z, X, atol=1e-12)


def test_a_point_stays_if_its_rows_have_no_covariance_with_it():
    """Of a dot product only rows at an acute angle count."""
    X = np.array([[1.0], [2.0], [-3.0], [-1.0]])
    kernel = FreeKernel(DotProduct(), np.zeros(1), np.ones(1, dtype=bool))
    sites = [Sites(np.ones(4), np.ones(4), np.zeros(4))]
    points = InducingPoints(X[:1], np.array([0]))
    found = centroids(points, kernel, np.array([-np.inf]), X[[0, 2, 3]], [Sites(*3 * [np.ones(3)])])
    assert_allclose(found.Z, X[:1])
    both = centroids(points, kernel, np.array([-np.inf]), X, sites)
    assert_allclose(both.Z, [[5.0 / 3.0]])


def test_blocks_of_rows_do_not_matter(monkeypatch):
    points, X, sites = problem()
    whole = centroids(points, KERNEL, THETA, X, sites).Z
    monkeypatch.setattr(module, "RowBlocks", partial(RowBlocks, block_rows=3))
    assert_allclose(centroids(points, KERNEL, THETA, X, sites).Z, whole, rtol=1e-12)


def test_many_rows_are_thinned_out_evenly(monkeypatch):
    monkeypatch.setattr(module, "ROWS_PER_POINT", 2)
    points, X, sites = problem(n=133)
    some = np.linspace(0, 132, 12).astype(int)
    groups = [group(sites, n) for n in points.indices]
    thin = [Sites(*(field[some] for field in site)) for site in sites]
    expected = points.Z
    for _ in range(module.N_PASSES):
        expected = one_pass(expected, groups, X[some], thin)
    assert_allclose(centroids(points, KERNEL, THETA, X, sites).Z, expected, rtol=1e-10)
