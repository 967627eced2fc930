"""Whether residuals have heavy tails."""

from types import SimpleNamespace

import numpy as np
import pytest

from sparsegpc._estimators.learning.problem_builders import RegressionBuilder
from sparsegpc._estimators.noise import outliers


def fit_with(residuals, weight):
    """Return what stands for a `FittedProblem` of two outputs whose f is zero."""
    normal = np.random.RandomState(1).standard_normal(len(residuals))
    y = np.stack([residuals, normal])
    X, targets = np.zeros((len(residuals), 1)), [{"mean": output} for output in y]
    posterior = SimpleNamespace(moments=lambda X: np.zeros((2, 2, len(X))))
    builder = RegressionBuilder.__new__(RegressionBuilder)
    builder._data = SimpleNamespace(y=y)
    model = SimpleNamespace(X=X, weight=weight, targets=targets)
    result = SimpleNamespace(best=SimpleNamespace(posterior=posterior))
    return SimpleNamespace(problem=SimpleNamespace(model=model, builder=builder), result=result)


@pytest.mark.parametrize("seed", range(3))
def test_tails_are_heavy_where_a_few_residuals_are_large(seed):
    rng = np.random.RandomState(seed)
    weight, y = rng.randint(1, 4, 1000) * 1.0, rng.standard_normal(1000)
    assert not outliers.has_heavy_tails(fit_with(y, weight))
    y[:50] *= 8.0
    assert outliers.has_heavy_tails(fit_with(y, weight))
    # Rows that hardly count do not matter.
    weight[:50] = 0.01
    assert not outliers.has_heavy_tails(fit_with(y, weight))


def test_few_residuals_tell_nothing():
    y = np.append(np.zeros(28), 100.0)
    assert not outliers.has_heavy_tails(fit_with(y, np.ones(29)))


def test_targets_of_which_many_are_equal_are_left_out():
    rng = np.random.RandomState(0)
    y = rng.standard_t(2.0, 1000)
    assert outliers.has_heavy_tails(fit_with(y, np.ones(1000)))
    y[:190] = 0.0
    assert outliers.has_heavy_tails(fit_with(y, np.ones(1000)))
    y[:210] = 0.0
    assert not outliers.has_heavy_tails(fit_with(y, np.ones(1000)))
