"""Effects of single columns that larger effects of other columns have hidden are found."""

import numpy as np
import pytest

from sparsegpc import SparseGPRegressor


def levy(seed):
    """Return rows and a sum of an effect of each column; that of the last has ten fast waves."""
    w = np.random.RandomState(seed).uniform(-1.75, 3.25, (300, 4))
    smooth = (w[:, :3] - 1.0) ** 2 * (1.0 + 10.0 * np.sin(np.pi * w[:, :3] + 1.0) ** 2)
    fast = (w[:, 3] - 1.0) ** 2 * (1.0 + np.sin(2.0 * np.pi * w[:, 3]) ** 2)
    return w, np.sin(np.pi * w[:, 0]) ** 2 + smooth.sum(axis=1) + fast


@pytest.mark.filterwarnings("ignore:.*noise variance:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", [2, 3])
def test_a_hidden_fast_effect_is_found(seed):
    X, y = levy(seed)
    model = SparseGPRegressor().fit(X[:250], y[:250])
    assert np.std(model.predict(X[250:]) - y[250:]) < 1e-3 * y.std()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_hidden_fast_effect_is_found_before_noise_that_varies():
    X, y = levy(2)
    same, varying = (
        SparseGPRegressor(noise=noise).fit(X[:150], y[:150]) for noise in ("homoscedastic", "gp")
    )
    assert varying.lower_bound_ > same.lower_bound_
