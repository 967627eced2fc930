"""Several classes to be told apart, models of them, and the likelihoods that there are."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sparsegpc import SparseGPClassifier
from tests.estimators.simple_kernel import simple_kernel

BINARY = ("bernoulli-logit", "bernoulli-probit", "polya-gamma", "conditional-polya-gamma")
# One model of all classes, of a function for each class or of a single one.
JOINT = ("softmax", "logistic-softmax", "dirichlet", "ordinal-logit")
EVERY = (*JOINT, *BINARY)
# Likelihoods of one kind are tested by one of them where the code is the same for all.
SOME = ("softmax", "dirichlet", "polya-gamma")
every_likelihood = pytest.mark.parametrize("likelihood", EVERY)
some_likelihoods = pytest.mark.parametrize("likelihood", SOME)
# Two classes of every likelihood but those for more, and three of one by one against the rest.
every_kind = pytest.mark.parametrize(
    ("likelihood", "n_classes"),
    [
        *((name, 3) for name in JOINT),
        ("softmax", 2),
        *((name, 2) for name in BINARY),
        (BINARY[2], 3),
    ],
)
KERNEL = ConstantKernel(5.0) * RBF(1.0)


def blobs(n_samples=45, n_classes=3, seed=0):
    """Return rows around the corners of a polygon, and the numbers of the corners."""
    rng = np.random.RandomState(seed)
    y = rng.randint(n_classes, size=n_samples)
    y[:n_classes] = np.arange(n_classes)
    angle = 2.0 * np.pi * y / n_classes
    X = 1.5 * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.8 * rng.randn(n_samples, 2)
    X.flags.writeable = y.flags.writeable = False
    return X, y


def moons(n_samples=60):
    return make_moons(n_samples, noise=0.3, random_state=0)


def grid(n=5):
    side = np.linspace(-3.0, 3.0, n)
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)


def fixed_model(**parameters):
    return SparseGPClassifier(
        **{
            "kernel": KERNEL,
            "optimizer": None,
            "selector": "hgv",
            "n_inducing": 10,
            "selection_tol": 0,
            **parameters,
        }
    )


def quick_model(**parameters):
    """One that learns, a little."""
    return SparseGPClassifier(
        **{
            "selector": "hgv",
            "n_inducing": 10,
            "max_iter": 5,
            "max_reselections": 1,
            "tol": 1e-3,
            **simple_kernel(parameters),
        }
    )


def quietly(model, X, y, weight=None):
    """Fit, whatever there is to tell about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y, weight)
