"""Hyperparameters learned from blocks of rows, against dense normal densities of all copies."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal

from sparsegpc._core.bounds.slacks import TIGHT
from sparsegpc._core.kernels.algebra import FreeKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.likelihoods.gaussian import GaussianNoise, noisy_targets
from sparsegpc._core.likelihoods.student_t import StudentT
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.models.prior import NormalPrior, ProductPrior
from sparsegpc._core.nearest_rows.learning import (
    FARTHEST,
    BlockBounds,
    LeftOut,
    learn_from_neighbours,
    number_of_blocks,
)
from sparsegpc._core.rows.merged_rows import merge_rows
from tests.core.helpers import central_difference
from tests.core.models.model_cases import dense_kernel, outputs

BLOCKS = np.array([[0, 1, 2, 3, 4, 5], [4, 5, 6, 7, 8, 9]])
# Log variance and log length scale of the kernel, log variance of the noise.
THETA = np.array([0.3, -0.4, -1.2])


def copies(n=14, seed=0):
    """Return rows, the first four of them twice, and targets."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2.0, 2.0, (n - 4, 2))
    X = np.concatenate([X, X[:4]])
    return X, np.sin(2.0 * X[:, 0]) + 0.3 * rng.randn(n)


def noisy_model(X, y, **options):
    """Return the model of targets with homoscedastic noise, and its `MergedRows`."""
    rows = merge_rows(X, np.ones(len(X)))
    targets = noisy_targets(y, np.ones(len(X)), np.ones((len(rows.X), 1)), rows)
    kernel = FreeKernel(Scaled(Constant(), RBF()), np.zeros(2), np.ones(2, dtype=bool))
    options = {"slack": TIGHT, **options}
    return SparseModel(kernel, GaussianNoise(1), rows.X, [targets], rows.weight, **options), rows


def log_marginal(X, y, mean=0.0):
    """Return the log density of targets at any rows under the exact process with `THETA`."""
    if not len(X):
        return 0.0
    variance, length_scale, noise = np.exp(THETA)
    K = dense_kernel(X, variance, length_scale) + noise * np.eye(len(X))
    return multivariate_normal.logpdf(y, np.full(len(X), mean), K)


def test_copies_of_a_row_are_left_out_together():
    X, y = copies()
    model, rows = noisy_model(X, y)
    place = np.empty(len(X), dtype=int)
    place[rows.order] = np.searchsorted(rows.starts, np.arange(len(X)), side="right") - 1
    expected = 0.0
    for block in BLOCKS:
        here = np.isin(place, block)
        for n in block:
            rest = here & (place != n)
            expected += log_marginal(X[here], y[here], 0.2) - log_marginal(X[rest], y[rest], 0.2)
    expected *= len(X) / model.weight[BLOCKS].sum()
    value, _ = LeftOut(model, [0.2], BLOCKS)(THETA)
    assert_allclose(value, expected, rtol=1e-9)


def test_the_bound_of_a_block_with_gaussian_noise_is_its_marginal_likelihood():
    X, y = copies()
    X, y = X[:10], y[:10]
    model, rows = noisy_model(X, y, fit_prior_mean=False)
    X, y = X[rows.order], y[rows.order]
    expected = sum(log_marginal(X[block], y[block]) for block in BLOCKS) * len(X) / BLOCKS.size
    value, _ = BlockBounds(model, BLOCKS)(THETA)
    assert_allclose(value, expected, rtol=1e-8)


def heavy_tails():
    X, y = copies()
    rows = merge_rows(X, np.ones(len(X)), targets=y)
    kernel = FreeKernel(Scaled(Constant(), RBF()), np.zeros(2), np.ones(2, dtype=bool))
    targets = StudentT().targets(y, np.ones(len(X)), rows)
    model = SparseModel(kernel, StudentT(), rows.X, targets, rows.weight, slack=TIGHT, tol=1e-10)
    return BlockBounds(model, BLOCKS), np.array([0.3, -0.4, 1.0, -1.0])


def varying_noise():
    model, theta = outputs(1.0, 2.0, noisy=True)
    return LeftOut(model, [0.1, -0.2], BLOCKS), theta


def prior_of_noise():
    X, y = copies()
    prior = ProductPrior((NormalPrior(np.array([2]), np.array([1.0]), 0.5),))
    return LeftOut(noisy_model(X, y, prior=prior)[0], [0.2], BLOCKS), THETA


def test_priors_of_the_noise_count_and_those_of_the_kernel_do_not():
    X, y = copies()
    of_noise = NormalPrior(np.array([2]), np.array([1.0]), 0.5)
    of_kernel = NormalPrior(np.array([0, 1]), np.array([5.0, 5.0]), 0.5)
    for objective in (lambda m: LeftOut(m, [0.2], BLOCKS), lambda m: BlockBounds(m, BLOCKS)):
        without, both = (
            objective(noisy_model(X, y, prior=ProductPrior(factors))[0])(THETA)[0]
            for factors in ((), (of_kernel, of_noise))
        )
        assert both - without == pytest.approx(ProductPrior((of_noise,)).log_density(THETA))


@pytest.mark.parametrize("case", [varying_noise, heavy_tails, prior_of_noise])
def test_the_gradient_is_that_of_the_objective(case):
    """Of several outputs with varying noise, whose coefficients have a prior, and of outliers."""
    objective, theta = case()
    gradient = objective(theta)[1]
    assert np.abs(gradient).max() > 1.0
    expected = central_difference(lambda theta: objective(theta)[0], theta)
    assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)


def drawn(n=600, seed=0):
    """Return a model of targets from a process with length scale .3 and noise variance .01."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3.0, 3.0, (n, 1))
    K = dense_kernel(X, 1.0, 0.3)
    f = np.linalg.cholesky(K + 1e-8 * np.eye(n)) @ rng.randn(n)
    return noisy_model(X, f + 0.1 * rng.randn(n))[0]


WIDE = np.tile([-12.0, 12.0], (3, 1))
START = np.log([3.0, 2.0, 0.5])


def test_it_finds_the_hyperparameters_of_the_data():
    model = drawn()
    assert number_of_blocks(model) == (6, 200)
    order = np.argsort(model.X[:, 0])
    blocks = np.array([order[k : k + 200] for k in range(0, 600, 200)])
    found = learn_from_neighbours(model, [0.0], blocks, [START], WIDE)
    length_scale, noise = np.exp(found[1:])
    assert 0.2 < length_scale < 0.45
    assert 0.007 < noise < 0.014
    objective = LeftOut(model, [0.0], blocks)
    assert objective(found)[0] > objective(np.log([1.0, 0.3, 0.01]))[0] - 1e-3


def test_parameters_stay_within_their_limits_and_near_the_start():
    model = drawn(200)
    blocks = np.arange(200)[None]
    limits = np.log([[1e-3, 1e3], [0.7, 1e3], [0.1, 1.0]])
    found = learn_from_neighbours(model, [0.0], blocks, [START], limits)
    assert_allclose(found[1:], limits[1:, 0])
    far = np.log([1.0, 0.3, 0.01 * np.exp(-FARTHEST - 2.0)])
    found = learn_from_neighbours(model, [0.0], blocks, [far], WIDE)
    assert_allclose(found[2], far[2] + FARTHEST)


def test_a_start_beyond_the_limits_is_moved_within_them():
    model = drawn(100)
    limits = np.log([[1e-3, 1e3], [1e-2, 1e2], [0.5, 0.5]])
    found = learn_from_neighbours(model, [0.0], np.arange(100)[None], [np.zeros(3)], limits)
    assert_array_equal(found[2], np.log(0.5))


def test_the_search_begins_at_the_best_start():
    """At a nearly constant function the density is flat."""
    model, blocks = drawn(200), np.arange(200)[None]
    flat = np.log([1e-5, 1e3, 1.0])
    stays = learn_from_neighbours(model, [0.0], blocks, [flat], WIDE)
    found = learn_from_neighbours(model, [0.0], blocks, [flat, START], WIDE)
    assert stays[2] > np.log(0.3)
    assert_allclose(found, learn_from_neighbours(model, [0.0], blocks, [START], WIDE))


def test_starts_that_fail_are_left_out():
    model, blocks = drawn(200), np.arange(200)[None]
    nowhere = np.full(3, np.nan)
    found = learn_from_neighbours(model, [0.0], blocks, [nowhere, START], WIDE)
    assert_allclose(found, learn_from_neighbours(model, [0.0], blocks, [START], WIDE))
    with pytest.raises(np.linalg.LinAlgError):
        learn_from_neighbours(model, [0.0], blocks, [nowhere], WIDE)
