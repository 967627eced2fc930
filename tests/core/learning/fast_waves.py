"""Labels of a fast wave beside a trend, and a fit that takes the wave for noise."""

import numpy as np

from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import PivotedSelector
from tests.core.learning.fit_cases import learn, make_model

# The hyperparameters of the trend and of the wave, and bounds that keep length scales long.
SLOW, FAST = np.log([1.0, 3.0]), np.log([4.0, 0.4])
FEW_SHORT = np.array([[-3.0, 8.0], np.log([1.0, 1e2])])


def waves(n=300, seed=0):
    """Return a model of labels of a fast wave beside a trend."""
    rng = np.random.RandomState(seed)
    X = np.sort(rng.uniform(-5.0, 5.0, (n, 1)), axis=0)
    f = X[:, 0] + 2.0 * np.sin(6.0 * X[:, 0])
    return make_model(X, np.where(f + 0.3 * rng.randn(n) > 0.0, 1.0, -1.0))


def slow_fit(model):
    """Return the fit of a model with long length scales only."""
    return learn(model, [SLOW], bounds=FEW_SHORT, choose=PivotedSelector(argmax, 100))
