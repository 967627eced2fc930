"""References for what a fit learns: searches from given start values, with the same model."""

import warnings

import numpy as np
from sklearn.base import clone

# A bound is short if it is more than a nat, and more than this share of what its reference gains
# over a constant function, below its reference.
NATS, SHARE = 1.0, 0.01
# A search is given up if after so many evaluations it has less than half of the gain that another
# one reached.
PATIENCE = 12


def fit_from_kernel(model, X, y, callback=None):
    """Return a copy of the estimator, fitted from the values of its kernel on all rows.

    With `warm_start` a fit goes on from the last one, which kept the kernel's values, and tries no
    other start unless it ends at a constant function. Its warnings are not shown.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(model).set_params(optimizer=None).fit(X, y)
        return model.set_params(optimizer="bfgs", warm_start=True, callback=callback).fit(X, y)


def give_up_below(best, constant):
    """Return a callback that ends a search that is clearly worse than the bound `best`."""
    threshold = constant + 0.5 * (best - constant)
    return lambda step: step.iteration >= PATIENCE and step.lower_bound < threshold


def constant_bound(y):
    """Return the log-likelihood of the best constant function of labels or targets, in nats."""
    if np.issubdtype(np.asarray(y).dtype, np.floating):
        return -0.5 * len(y) * (np.log(2.0 * np.pi * np.var(y)) + 1.0)
    counts = np.bincount(y)
    counts = counts[counts > 0]
    return float((counts * np.log(counts / len(y))).sum())


def allowance(should, y):
    """Return by how many nats a bound may be below its reference."""
    return max(NATS, SHARE * (should - constant_bound(y)))
