"""Simulated counts, positive numbers and durations, with scipy's distributions as oracles."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sparsegpc import SparseGPGeneralizedRegressor
from tests.estimators.simple_kernel import simple_kernel

KERNEL = ConstantKernel(1.0) * RBF(1.0)


class Response(NamedTuple):
    """A likelihood: the attribute with its parameter, a true value of it, and its argument."""

    likelihood: str
    attribute: str | None
    truth: float | None
    row_argument: str | None = None

    @property
    def is_discrete(self):
        return self.likelihood in ("poisson", "negative-binomial")

    @property
    def takes_exposure(self):
        return self.row_argument == "exposure"

    def distribution(self, f, exposure=1.0, parameter=None):
        """Return scipy's distribution of y at f, the truth by default."""
        k, rate = self.truth if parameter is None else parameter, np.exp(f)
        return {
            "poisson": lambda: stats.poisson(exposure * rate),
            "negative-binomial": lambda: stats.nbinom(k, k / (k + exposure * rate)),
            "gamma": lambda: stats.gamma(exposure * k, scale=rate / k),
            "weibull": lambda: stats.weibull_min(k, scale=rate),
            "log-normal": lambda: stats.lognorm(k, scale=rate),
        }[self.likelihood]()

    def learned(self, model, f, exposure=1.0):
        """Return scipy's distribution of y at f, as a model has learned it."""
        parameter = getattr(model.likelihood_, self.attribute) if self.attribute else None
        return self.distribution(f, exposure, parameter)


RESPONSES = [
    Response("poisson", None, None, "exposure"),
    Response("negative-binomial", "size", 3.0, "exposure"),
    Response("gamma", "shape", 4.0, "exposure"),
    Response("weibull", "shape", 2.0, "event"),
    Response("log-normal", "shape", 0.5, "event"),
]

BY_NAME = {response.likelihood: response for response in RESPONSES}
WITH_EVENTS = [response for response in RESPONSES if response.row_argument == "event"]
EACH = pytest.mark.parametrize("response", RESPONSES, ids=lambda response: response.likelihood)
# Of a standard Gaussian.
NODES = np.arange(-9.0, 9.01, 0.02)[:, None]
NODE_WEIGHTS = np.exp(-0.5 * NODES[:, 0] ** 2) / np.exp(-0.5 * NODES**2).sum()


def log_scale(X):
    return 1.0 + np.sin(2.0 * X[:, 0])


def simulated(response, n=150, seed=0, censored=0.0):
    """Return read-only rows, targets, and a dict of exposures, or of events if some are censored.

    Of durations, about a share `censored` is cut off at random times.
    """
    rng = np.random.RandomState(seed)
    X, row_arguments = rng.uniform(-3.0, 3.0, (n, 1)), {}
    exposure = 1.0
    if response.takes_exposure:
        exposure = row_arguments["exposure"] = rng.uniform(0.3, 3.0, n)
    y = response.distribution(log_scale(X), exposure).rvs(random_state=rng).astype(float)
    if response.row_argument == "event" and censored:
        end = np.exp(log_scale(X)) * rng.exponential(1.0 / censored - 1.0, n)
        row_arguments["event"] = y <= end
        y = np.minimum(y, end)
    for part in (X, y, *row_arguments.values()):
        part.flags.writeable = False
    return X, y, row_arguments


def model_of(response, **parameters):
    options = {"likelihood": response.likelihood, "n_inducing": 15}
    return SparseGPGeneralizedRegressor(**{**options, **simple_kernel(parameters)})


def fixed_model(response, **parameters):
    """One that learns nothing, in milliseconds."""
    return model_of(response, **{"kernel": KERNEL, "optimizer": None, **parameters})


def grid(n=9):
    return np.linspace(-3.5, 3.5, n)[:, None]
