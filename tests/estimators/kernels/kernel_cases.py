"""Kernels of scikit-learn and of users, for all tests of what is made of them."""

from typing import NamedTuple

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sk
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
)

from sparsegpc.kernels import Laplacian, MainEffects, OrthogonalAdditive
from tests.core.helpers import LEAVES

D = 3
SCALES = [0.7, 1.3, 2.1]
FIXED = "fixed"
WIDE = (1e-30, 1e30)


class Laplace(sk.StationaryKernelMixin, sk.NormalizedKernelMixin, sk.Kernel):
    """A user's kernel: exp(-sum_d |x_d - y_d| / l_d), with a gradient of its own."""

    def __init__(self, length_scale=(1.0,), length_scale_bounds=(1e-5, 1e5)):
        self.length_scale = length_scale
        self.length_scale_bounds = length_scale_bounds

    @property
    def hyperparameter_length_scale(self):
        return sk.Hyperparameter(
            "length_scale", "numeric", self.length_scale_bounds, len(self.length_scale)
        )

    def __call__(self, X, Y=None, eval_gradient=False):
        Y = X if Y is None else Y
        parts = np.abs(X[:, None] - Y) / np.asarray(self.length_scale)
        K = np.exp(-parts.sum(axis=2))
        if not eval_gradient:
            return K
        if self.hyperparameter_length_scale.fixed:
            return K, np.empty((*K.shape, 0))
        return K, K[:, :, None] * parts


class SquaredRBF(RBF):
    """A subclass that computes something else than its parent."""

    def __call__(self, X, Y=None, eval_gradient=False):
        if not eval_gradient:
            return super().__call__(X, Y) ** 2
        K, gradient = super().__call__(X, Y, eval_gradient=True)
        return K**2, 2.0 * K[:, :, None] * gradient


class TwiceMatern(Matern):
    def __call__(self, X, Y=None, eval_gradient=False):
        if not eval_gradient:
            return 2.0 * super().__call__(X, Y)
        K, gradient = super().__call__(X, Y, eval_gradient=True)
        return 2.0 * K, 2.0 * gradient

    def diag(self, X):
        return 2.0 * super().diag(X)


class Wrapper(sk.StationaryKernelMixin, sk.Kernel):
    """A user's kernel made of another one."""

    def __init__(self, inner):
        self.inner = inner

    def __call__(self, X, Y=None, eval_gradient=False):
        return self.inner(X, Y)

    def diag(self, X):
        return self.inner.diag(X)


class Case(NamedTuple):
    """A kernel, and how accurate scikit-learn's own gradient of it is."""

    kernel: sk.Kernel
    gradient_rtol: float = 1e-9


# Where scikit-learn itself takes forward differences, with a step of 1e-10.
FORWARD = 3e-5
# Where our derivatives are central differences.
CENTRAL = 1e-7
CASES = {
    "rbf": Case(RBF(0.8)),
    "rbf-per-column": Case(RBF(SCALES)),
    "rbf-length-one-array": Case(RBF(np.array([0.8]))),
    "rbf-fixed": Case(RBF(0.8, FIXED)),
    "rbf-per-column-fixed": Case(RBF(SCALES, FIXED)),
    "matern12": Case(Matern(0.8, nu=0.5)),
    "matern12-per-column": Case(Matern(SCALES, nu=0.5)),
    "matern32": Case(Matern(0.8, nu=1.5)),
    "matern32-per-column": Case(Matern(SCALES, nu=1.5)),
    "matern52": Case(Matern(0.8, nu=2.5)),
    "matern52-per-column": Case(Matern(SCALES, nu=2.5)),
    "matern-inf": Case(Matern(0.8, nu=np.inf)),
    "matern-inf-per-column": Case(Matern(SCALES, nu=np.inf)),
    "matern07": Case(Matern(0.8, nu=0.7), FORWARD),
    "matern07-per-column": Case(Matern(SCALES, nu=0.7), FORWARD),
    "matern07-fixed": Case(Matern(0.8, FIXED, nu=0.7)),
    "rational": Case(RationalQuadratic(0.8, 1.7)),
    "rational-fixed-alpha": Case(RationalQuadratic(0.8, 1.7, alpha_bounds=FIXED)),
    "rational-fixed-length": Case(RationalQuadratic(0.8, 1.7, length_scale_bounds=FIXED)),
    "periodic": Case(ExpSineSquared(0.8, 2.7)),
    "periodic-fixed-length": Case(ExpSineSquared(0.8, 2.7, length_scale_bounds=FIXED)),
    "periodic-fixed-period": Case(ExpSineSquared(0.8, 2.7, periodicity_bounds=FIXED)),
    "linear": Case(DotProduct(0.6)),
    "linear-fixed": Case(DotProduct(0.6, FIXED)),
    "constant": Case(ConstantKernel(2.3)),
    "constant-fixed": Case(ConstantKernel(2.3, FIXED)),
    "constant-times": Case(ConstantKernel(2.3) * RBF(SCALES)),
    "times-constant": Case(Matern(SCALES, nu=1.5) * ConstantKernel(2.3)),
    "fixed-constant-times": Case(ConstantKernel(2.3, FIXED) * RBF(SCALES)),
    "times-fixed-constant": Case(DotProduct(0.6) * ConstantKernel(2.3, FIXED)),
    "constant-times-fixed": Case(ConstantKernel(2.3) * RBF(0.8, FIXED)),
    "number-times": Case(4.0 * RBF(0.8) * 0.5),
    "constant-times-constant": Case(ConstantKernel(2.3) * ConstantKernel(0.4)),
    "constants-and-a-kernel": Case(ConstantKernel(2.3) * (RBF(0.8) * ConstantKernel(0.4))),
    "constant-times-sum": Case(ConstantKernel(2.3) * (RBF(0.8) + DotProduct(0.6))),
    "sum-with-constant": Case(ConstantKernel(0.3) + RBF(SCALES)),
    "sum-fixed-left": Case(RBF(SCALES, FIXED) + Matern(0.8, nu=1.5)),
    "sum-fixed-right": Case(RBF(SCALES) + Matern(0.8, FIXED, nu=1.5)),
    "product": Case(RBF(SCALES) * RationalQuadratic(0.8, 1.7)),
    "product-fixed-left": Case(RBF(0.8, FIXED) * ExpSineSquared(1.3, 2.7)),
    "quadratic": Case(DotProduct(0.6) * DotProduct(1.2)),
    "nested": Case(
        ConstantKernel(2.3) * RBF(SCALES) * DotProduct(0.6)
        + ConstantKernel(0.4) * (Matern(0.8, nu=2.5) + RationalQuadratic(1.1, 0.5))
    ),
    "nested-fixed": Case(
        (RBF(0.8, FIXED) + DotProduct(0.6))
        * (ConstantKernel(2.3, FIXED) * Matern(SCALES, nu=0.5) + RBF(0.3, FIXED))
        + ExpSineSquared(0.8, 2.7, periodicity_bounds=FIXED)
    ),
    "laplacian": Case(Laplacian(0.8)),
    "laplacian-per-column": Case(Laplacian(SCALES)),
    "laplacian-fixed": Case(Laplacian(SCALES, FIXED)),
    "laplacian-within": Case(2.3 * Laplacian(SCALES) * RBF(0.8) + Laplacian(0.5) * 0.4),
    "effects": Case(MainEffects(1.3, 0.8)),
    "effects-per-column": Case(MainEffects([0.4, 1.3, 2.0], SCALES)),
    "effects-common-variance": Case(MainEffects(1.3, SCALES)),
    "effects-fixed-variance": Case(MainEffects([0.4, 1.3, 2.0], SCALES, FIXED)),
    "effects-fixed": Case(MainEffects(1.3, 0.8, FIXED, FIXED)),
    "effects-beside": Case(ConstantKernel(2.3) * RBF(SCALES) + MainEffects([0.4, 1.3, 2.0], 0.8)),
    "effects-times": Case(MainEffects(1.3, SCALES) * RBF(0.8) + ConstantKernel() * MainEffects()),
    "orthogonal": Case(OrthogonalAdditive(0.8)),
    "orthogonal-per-column": Case(
        OrthogonalAdditive(SCALES, [0.4, 1.3, 2.0], 0.3, [0.5, 1.2, 2.0])
    ),
    "orthogonal-main-effects": Case(2.3 * OrthogonalAdditive(SCALES, 1.3, [0.3, 0.0, -1.0])),
    "orthogonal-fixed-variance": Case(OrthogonalAdditive(SCALES, variance_bounds=FIXED) + RBF()),
    "orthogonal-fixed-length": Case(OrthogonalAdditive(SCALES, length_scale_bounds=FIXED)),
    "power": Case(Exponentiation(RBF(SCALES), 2), CENTRAL),
    "power-of-a-sum": Case((RBF(0.8, FIXED) + DotProduct(0.6)) ** 2, CENTRAL),
    "power-within": Case(ConstantKernel(2.3) * RBF(0.8) ** 3 + DotProduct(0.6), CENTRAL),
    "pairwise": Case(PairwiseKernel(0.8, metric="rbf"), FORWARD),
    "pairwise-fixed": Case(PairwiseKernel(0.8, FIXED, metric="rbf")),
    "pairwise-within": Case(
        ConstantKernel(2.3) * PairwiseKernel(0.8, metric="laplacian") + RBF(0.5), FORWARD
    ),
    "of-the-user": Case(Laplace(SCALES), CENTRAL),
    "of-the-user-fixed": Case(Laplace(SCALES, FIXED)),
    "of-the-user-within": Case(
        ConstantKernel(2.3) * Laplace(SCALES) + Laplace((0.5, 1.0, 2.0), FIXED) * RBF(SCALES),
        CENTRAL,
    ),
    "subclass": Case(SquaredRBF(0.8), CENTRAL),
    "subclass-per-column": Case(ConstantKernel(2.3) * SquaredRBF(SCALES), CENTRAL),
    "subclass-diag": Case(TwiceMatern(0.8, nu=1.5) * RBF(SCALES), CENTRAL),
}
# Kernels of the core by their own table, where scikit-learn's gradient may be by differences.
CASES |= {
    f"core-{case.name}": Case(eval(case.scikit_learn, vars(sk)), FORWARD)
    for case in LEAVES
    if case.scikit_learn
}
EVERY_CASE = pytest.mark.parametrize("name", CASES)


def read_only(array):
    array.flags.writeable = False
    return array


def rows(rng, n):
    return read_only(rng.randn(n, D))


def brute_force_spread(X):
    """Standard deviations, and the root mean square distance over all pairs of rows."""
    distances = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    return X.std(axis=0), np.sqrt(np.mean(distances**2))
