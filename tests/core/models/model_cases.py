"""Models of small data that several test files evaluate: labels, or targets with varying noise."""

import numpy as np

from sparsegpc._core.bounds.slacks import SLACKS, TIGHT
from sparsegpc._core.kernels.algebra import FreeKernel, Product, Scaled, Sum
from sparsegpc._core.kernels.families import (
    RBF,
    Constant,
    DotProduct,
    ExpSineSquared,
    Matern12,
    Matern32,
    Matern52,
    RationalQuadratic,
)
from sparsegpc._core.likelihoods.binary import PolyaGammaLogit
from sparsegpc._core.likelihoods.gaussian import GaussianNoise, noisy_targets
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.merged_rows import merge_rows
from sparsegpc._core.selection.selectors import InducingPoints

KERNELS = {
    "rbf": (Scaled(Constant(), RBF()), [1.0, -0.3]),
    "rbf per column": (Scaled(Constant(), RBF(2)), [0.8, -0.2, 0.4]),
    "matern 1/2": (Scaled(Constant(), Matern12(2)), [1.0, 0.3, 0.6]),
    "matern 3/2": (Scaled(Constant(), Matern32()), [0.5, 0.2]),
    "matern 5/2": (Scaled(Constant(), Matern52(2)), [1.2, 0.1, -0.2]),
    "rational quadratic": (Scaled(Constant(), RationalQuadratic(2)), [1.0, 0.2, 0.4, -0.3]),
    "linear plus rbf": (Sum(DotProduct(), Scaled(Constant(), RBF())), [0.3, 0.9, -0.4]),
    "periodic times rbf": (Product(ExpSineSquared(), RBF()), [0.2, 0.9, 0.5]),
}


def make_data(seed=0, n=30):
    rng = np.random.RandomState(seed)
    X = rng.randn(n, 2)
    y = np.where(np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.4 * rng.randn(n) > -0.3, 1.0, -1.0)
    weight = rng.uniform(0.4, 2.5, size=n)
    Z = rng.randn(6, 2)
    for array in (X, y, weight, Z):
        array.flags.writeable = False
    return X, y, weight, Z


def make_model(
    name="rbf", slack="tight", *, data=None, fixed=(), likelihood=PolyaGammaLogit, **options
):
    X, y, weight, _ = make_data() if data is None else data
    kernel, params = KERNELS[name]
    free = ~np.isin(np.arange(len(params)), fixed)
    free_kernel = FreeKernel(kernel, np.array(params), free)
    model = SparseModel(free_kernel, likelihood(), X, [y], weight, slack=SLACKS[slack], **options)
    return model, np.array(params)[free]


def evaluate(model, theta, Z, states=None, **options):
    """The evaluation with the sites solved as far as rounding lets them."""
    options = {"tol": 1e-12, "max_iter": 1000, **options}
    states = model.initial_state() if states is None else states
    return model.evaluate(theta, InducingPoints(Z), states, **options)


def dense_kernel(X, variance, length_scale):
    squares = ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)
    return variance * np.exp(-0.5 * squares / length_scale**2)


def outputs(*factors, noisy=False):
    """A model with one output for each factor, and its parameters; with noise, two for each."""
    X, y, weight, _ = make_data()
    kernel, params = KERNELS["rbf"]
    free_kernel = FreeKernel(kernel, np.array(params), np.ones(2, dtype=bool))
    if not noisy:
        # Labels of several models: the sign of one column or another.
        targets = [np.where(X @ [1.0, factor] > 0.3, 1.0, -1.0) for factor in factors]
        model = SparseModel(free_kernel, PolyaGammaLogit(), X, targets, weight, slack=TIGHT)
        return model, np.array(params)
    rows = merge_rows(X, weight)
    basis = np.stack([np.ones(len(rows.X)), rows.X[:, 0]], axis=1)
    ys = [np.sin(factor * X[:, 0]) + 0.3 * y for factor in factors]
    targets = [noisy_targets(column, weight, basis, rows) for column in ys]
    model = SparseModel(free_kernel, GaussianNoise(2), rows.X, targets, rows.weight, slack=TIGHT)
    own = [[-1.0 - 0.1 * factor, 0.2 * factor] for factor in factors]
    return model, np.concatenate([params, *own])
