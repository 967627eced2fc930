"""Linear deviations against dense linear algebra, and against the distribution they should have."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegpc._core.diagnostics.linear_deviations import LinearDeviations, linear_deviations
from tests.core.models.model_cases import dense_kernel, evaluate, make_data, make_model, outputs


def dense(evaluation, X, Z):
    """Return the statistic, and the components' squares in units of G and their variances.

    The statistic is by how much columns beside a constant explain more in a generalised regression.
    """
    variance, length_scale = np.exp([1.0, -0.3])
    Kuf = dense_kernel(np.concatenate([Z, X]), variance, length_scale)[: len(Z)]
    Q = Kuf[:, len(Z) :].T @ np.linalg.solve(Kuf[:, : len(Z)], Kuf[:, len(Z) :])
    A = np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / X.std(axis=0)])
    total, squares, variances = 0.0, [], []
    for q, solution in zip(evaluation.posterior.functions, evaluation.solutions, strict=True):
        sites = solution.sites
        inverse = np.linalg.inv(Q + np.diag(1.0 / sites.precision))
        r = sites.shift / sites.precision - q.prior_mean

        def explained(B, inverse=inverse, r=r):
            h = B.T @ inverse @ r
            return h @ np.linalg.solve(B.T @ inverse @ B, h)

        total += explained(A) - explained(A[:, :1])
        projection = inverse - inverse @ np.outer(A[:, 0], A[:, 0]) @ inverse / inverse.sum()
        values, vectors = np.linalg.eigh(A[:, 1:].T @ projection @ A[:, 1:])
        squares.extend((vectors.T @ A[:, 1:].T @ projection @ r) ** 2 / values)
        variances.extend(values)
    return total, np.array(squares), np.array(variances)


def test_the_statistic_is_that_of_a_generalised_regression_on_the_columns():
    X, _, _, Z = make_data()
    model, theta = outputs(0.5, 1.7)
    evaluation = evaluate(model, theta, Z)
    found = linear_deviations(model, evaluation)
    statistic, squares, variances = dense(evaluation, X, Z)
    assert found.n_components == 4
    assert_allclose(found.chi_squared, statistic, rtol=1e-6)
    largest = squares.argmax()
    expected = max(squares[largest] - 1.0, 0.0) / variances[largest]
    assert_allclose(found.slope_variance, expected, rtol=1e-6)


@pytest.mark.parametrize("slope", [0.0, 8.0])
def test_labels_without_a_linear_signal_have_the_distribution_of_chance(slope):
    """The labels depend on the difference of two nearly equal columns, or on nothing."""
    n, found = 200, []
    for seed in range(60):
        rng = np.random.RandomState(seed)
        X = rng.randn(n, 1) + 0.1 * rng.randn(n, 2)
        chance = 1.0 / (1.0 + np.exp(-slope * (X[:, 1] - X[:, 0])))
        y = np.where(rng.uniform(size=n) < chance, 1.0, -1.0)
        model, _ = make_model(data=(X, y, np.ones(n), None))
        # A function that hardly varies.
        evaluation = evaluate(model, np.array([-12.0, 0.0]), X[:5], tol=1e-6)
        found.append(linear_deviations(model, evaluation))
    share = np.mean([each.is_significant for each in found])
    if slope:
        assert share > 0.9
        # The slopes of the difference have a variance of 64 per unit, and a column has one of 1.
        assert 20.0 < np.median([each.slope_variance for each in found]) < 200.0
    else:
        assert share < 0.05
        # Four standard errors of the mean of a chi-squared variable with two degrees of freedom.
        assert abs(np.mean([each.chi_squared for each in found]) - 2.0) < 4.0 * 2.0 / np.sqrt(60)


def test_columns_that_do_not_vary_or_are_equal_have_no_component():
    rng = np.random.RandomState(0)
    x, y = rng.randn(40), np.where(rng.randn(40) > 0.0, 1.0, -1.0)

    def found(*columns):
        X = np.column_stack(columns)
        model, theta = make_model(data=(X, y, np.ones(40), None))
        return linear_deviations(model, evaluate(model, theta, X[:1], tol=1e-6))

    assert found(x, x).n_components == found(x, np.ones(40)).n_components == 1
    assert found(np.ones(40), np.full(40, 0.1)) is None


def test_few_components_need_smaller_sums_of_squares():
    assert LinearDeviations(14.0, 2, 1.0).is_significant
    assert not LinearDeviations(13.0, 2, 1.0).is_significant
    assert not LinearDeviations(14.0, 3, 1.0).is_significant
