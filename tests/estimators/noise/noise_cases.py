"""Targets whose noise varies, and models of them."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sparsegpc import SparseGPRegressor
from tests.estimators.simple_kernel import simple_kernel

KERNEL = ConstantKernel(2.0) * RBF(1.0)
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def true_std(x):
    """Return the standard deviation of the noise of `trumpet`, from 0.05 to 1."""
    return np.exp(-1.5 + 0.75 * x)


def trumpet(n=250, seed=0):
    """Return one column between -2 and 2, and targets whose noise grows with it."""
    rng = np.random.RandomState(seed)
    x = rng.uniform(-2.0, 2.0, n)
    y = np.sin(2.0 * x) + true_std(x) * rng.standard_normal(n)
    x.flags.writeable = y.flags.writeable = False
    return x[:, None], y


def plane(n=80, seed=0):
    """Return two columns, and targets whose noise grows with the second one."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-1.0, 1.0, (n, 2)) * [1.0, 10.0]
    y = np.sin(3.0 * X[:, 0]) + np.exp(-2.0 + 0.1 * X[:, 1]) * rng.standard_normal(n)
    return X, y


def one_of_five(n=400, seed=0):
    """Return five columns, and targets whose noise depends on the first one only."""
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, 5))
    return X, X[:, 1] + np.exp(one_of_five_log_std(X)) * rng.standard_normal(n)


def one_of_five_log_std(X):
    """Return the logarithm of the standard deviation of the noise of `one_of_five`."""
    return -2.0 + 2.0 * np.sin(3.0 * X[:, 0])


def noise_log_density(log_variance, y):
    """Return the log density of a log noise variance under its prior, minus its maximum."""
    prior = norm(np.log(0.1 * np.var(y)), 2.0)
    return prior.logpdf(log_variance) - prior.logpdf(prior.mean())


def log_evidence_with_limits(covariance, y, event):
    """Return the log evidence of targets (N,) with this covariance, of which some are limits.

    It is a Gaussian density times the probability of a box of a Gaussian.
    """
    seen, hidden = event == 1, event != 1
    log_density = multivariate_normal.logpdf(y[seen], cov=covariance[np.ix_(seen, seen)])
    gain = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, hidden)])
    rest = covariance[np.ix_(hidden, hidden)] - covariance[np.ix_(hidden, seen)] @ gain
    # Below a limit z < 0, above it -z < 0, for z = number - limit.
    side = np.where(event[hidden] == -1, 1.0, -1.0)
    mean = side * (y[seen] @ gain - y[hidden])
    box = multivariate_normal(mean, rest * np.outer(side, side))
    return log_density + np.log(box.cdf(np.zeros(len(side)), rng=0))


def model_of(noise, **parameters):
    default = {"noise": noise, "n_inducing": 20, "selector": "hgv", "hyperparameters": "best"}
    return SparseGPRegressor(**{**default, **simple_kernel(parameters)})


def integral(model, x, factor):
    """Return the expectation of ``factor(z)`` for the target mean + std z at x.

    By the trapezoidal rule after z = sinh(t), which reaches far into the tails.
    """
    mean, std = (part[0] for part in model.predict([[x]], return_std=True))
    t = np.linspace(-6.0, 6.0, 3001)
    z = np.sinh(t)
    X = np.full((len(z), 1), x)
    density = std * np.exp(model.log_predictive_density(X, mean + std * z))
    return np.sum(factor(z) * density * np.cosh(t)) * (t[1] - t[0])
