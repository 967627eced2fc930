"""The density of each target given the others, against a process fitted without it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import norm

from sparsegpc._core.nearest_rows.left_out import left_out_density
from tests.core.helpers import central_difference
from tests.core.models.model_cases import dense_kernel


def problem(n=12, seed=0):
    """Return a kernel matrix, and the precisions and deviations of sites."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2.0, 2.0, (n, 1))
    return (
        dense_kernel(X, 2.0, 0.7),
        rng.uniform(0.5, 20.0, n),
        np.sin(3.0 * X[:, 0]) + 0.3 * rng.randn(n),
    )


def test_it_is_the_density_under_a_process_without_the_row():
    K, precision, deviation = problem()
    log_density, _ = left_out_density(K, precision, deviation)
    for n in range(len(K)):
        others = np.arange(len(K)) != n
        A = K[np.ix_(others, others)] + np.diag(1.0 / precision[others])
        solved = np.linalg.solve(A, np.stack([deviation[others], K[others, n]], axis=1))
        mean, explained = K[n, others] @ solved
        variance = K[n, n] - explained + 1.0 / precision[n]
        expected = norm.logpdf(deviation[n], mean, np.sqrt(variance))
        # A site of height one is the normal density divided by its maximum.
        expected += 0.5 * np.log(2.0 * np.pi / precision[n])
        assert_allclose(log_density[n], expected, rtol=1e-9)


def test_the_adjoint_is_the_derivative_by_the_scaled_kernel_matrix():
    K, precision, deviation = problem(6)
    root = np.sqrt(precision)
    scaled = K * root[:, None] * root

    def total(scaled):
        scaled = 0.5 * (scaled + scaled.T)
        return left_out_density(scaled / root[:, None] / root, precision, deviation)[0].sum()

    _, adjoint = left_out_density(K, precision, deviation)
    assert_allclose(adjoint, adjoint.T)
    assert_allclose(adjoint, central_difference(total, scaled), rtol=1e-6, atol=1e-8)


@given(st.integers(0, 10**6))
def test_rows_of_precision_zero_change_nothing(seed):
    K, precision, deviation = problem(seed=seed)
    precision[:4] = 0.0
    log_density, adjoint = left_out_density(K, precision, deviation)
    expected, by_B = left_out_density(K[4:, 4:], precision[4:], deviation[4:])
    assert_allclose(log_density, np.append(np.zeros(4), expected), atol=1e-12)
    assert_allclose(adjoint[4:, 4:], by_B, atol=1e-12)
