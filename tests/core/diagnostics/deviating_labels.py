"""Labels that depend on a function which a fit takes for noise."""

import numpy as np

from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import PivotedSelector
from tests.core.learning.fit_cases import learn, make_model


def deviating(f, n=600, last_values=None):
    """Return a model of labels whose log-odds are 2 f(X), and a fit that is nearly constant."""
    rng = np.random.RandomState(0)
    X = rng.uniform(0.0, 10.0, (n, 3))
    if last_values is not None:
        X[:, 2] = rng.randint(last_values, size=n)
    labels = np.where(rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-4.0 * f(X))), 1.0, -1.0)
    model = make_model(X, labels)
    slow = np.array([[-6.0, 0.0], np.log([100.0, 1e3])])
    choose = PivotedSelector(argmax, 20)
    return model, learn(model, [slow.mean(axis=1)], bounds=slow, choose=choose)
