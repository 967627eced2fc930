"""What core test files share: slacks, differences, kernels with textbook formulae, problems."""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest

from sparsegpc._core.bounds.features import RowFeatures
from sparsegpc._core.bounds.slacks import SLACKS
from sparsegpc._core.kernels import algebra
from sparsegpc._core.kernels import families as kernels
from sparsegpc._core.kernels.main_effects import MainEffects
from sparsegpc._core.kernels.orthogonal_additive import OrthogonalAdditive
from sparsegpc._core.likelihoods.base import Sites
from sparsegpc._core.rows.blocks import RowBlocks
from sparsegpc._core.selection.rules import argmax, in_order, sample
from sparsegpc._core.selection.selectors import PivotedSelector


def slacks_where(condition):
    """Parametrise a test over the slacks that meet a condition, called by their public names."""
    found = {name: slack for name, slack in SLACKS.items() if condition(slack)}
    return pytest.mark.parametrize("slack", list(found.values()), ids=list(found))


SLACK = slacks_where(lambda slack: True)


def slack_value(slack, cost):
    """Return the slack of rows of these costs by the definition, at the scales that it takes."""
    v = np.broadcast_to(slack.scale(cost, cost.mean()), cost.shape)
    return -0.5 * (v * cost - np.log(v) + v - 1.0).sum()


def read_only(array):
    """Return `array` itself, protected from writing."""
    array.flags.writeable = False
    return array


def central_difference(function, point, step=3e-4):
    """Return the gradient of a scalar function at an array, by the five-point formula."""
    gradient = np.empty(point.shape)
    for index in np.ndindex(point.shape):
        values = []
        for multiple in (-2, -1, 1, 2):
            shifted = np.array(point)
            shifted[index] += multiple * step
            values.append(function(shifted))
        gradient[index] = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step)
    return gradient


def assert_slopes(function, point, gradient, n_directions=2, **tolerances):
    """Compare a gradient with differences along random directions, which see all entries at once.

    Where a value is costly this takes a fraction of the time of `central_difference`.
    """
    rng = np.random.RandomState(0)
    for _ in range(n_directions):
        direction = rng.randn(*point.shape)
        slope = central_difference(lambda t, d=direction: function(point + t * d), np.zeros(()))
        np.testing.assert_allclose(np.vdot(gradient, direction), slope, **tolerances)


NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(40)


def integral(function, edges):
    """Return the integral from the first edge to the last, by a Gauss-Legendre rule between each.

    `function` takes n nodes and returns an array of shape (n, ...).
    """
    half = 0.5 * np.diff(edges)[:, None]
    nodes, weights = edges[:-1, None] + half * (1.0 + NODES), half * NODE_WEIGHTS
    return np.tensordot(weights.ravel(), function(nodes.ravel()), 1)


class KernelCase(NamedTuple):
    """A kernel, parameters to try, and its formula for two points, in scalar Python.

    ``build(n_features)`` returns the kernel, ``n_params(n_features)`` how many parameters it
    should have, ``formula(params, z, x)`` the covariance. Without `everywhere`, the kernel is
    positive semi-definite for points on a line only. ``scikit_learn`` is a kernel of scikit-learn
    with the same formula, as text, with which the tests of the estimators compare it.
    """

    name: str
    build: Callable
    n_params: Callable
    formula: Callable
    everywhere: bool = True
    scikit_learn: str = ""

    def params(self, n_features, seed=0):
        return np.random.RandomState(seed).uniform(-0.6, 0.7, self.n_params(n_features))

    def matrix(self, params, Z, X):
        """Return the (M, N) matrix by a plain double loop."""
        return np.array([[self.formula(params, z, x) for x in X] for z in Z])

    def diagonal(self, params, X):
        return np.array([self.formula(params, x, x) for x in X])


def _distance(log_length_scales, z, x):
    scales = [math.exp(entry) for entry in log_length_scales]
    if len(scales) == 1:
        scales = scales * len(z)
    return math.sqrt(sum(((a - b) / scale) ** 2 for a, b, scale in zip(z, x, scales, strict=True)))


def _rbf(params, z, x):
    return math.exp(-(_distance(params, z, x) ** 2) / 2)


def _matern12(params, z, x):
    return math.exp(-_distance(params, z, x))


def _laplacian(params, z, x):
    scales = [math.exp(entry) for entry in params]
    if len(scales) == 1:
        scales = scales * len(z)
    return math.exp(-sum(abs(a - b) / scale for a, b, scale in zip(z, x, scales, strict=True)))


def _matern32(params, z, x):
    r = _distance(params, z, x)
    return (1 + math.sqrt(3) * r) * math.exp(-math.sqrt(3) * r)


def _matern52(params, z, x):
    r = _distance(params, z, x)
    return (1 + math.sqrt(5) * r + 5 * r**2 / 3) * math.exp(-math.sqrt(5) * r)


def _rational_quadratic(params, z, x):
    alpha = math.exp(params[0])
    return (1 + _distance(params[1:], z, x) ** 2 / (2 * alpha)) ** -alpha


def _periodic(params, z, x):
    length_scale, period = math.exp(params[0]), math.exp(params[1])
    distance = _distance([0.0], z, x)
    return math.exp(-2 * math.sin(math.pi * distance / period) ** 2 / length_scale**2)


def _constant(params, z, x):
    return math.exp(params[0])


def _linear(params, z, x):
    return math.exp(params[0]) ** 2 + sum(a * b for a, b in zip(z, x, strict=True))


def _main_effects(params, z, x, n_length_scales):
    length_scales = [math.exp(entry) for entry in params[:n_length_scales]]
    variances = [math.exp(entry) for entry in params[n_length_scales:]]
    if len(length_scales) == 1:
        length_scales = length_scales * len(z)
    if len(variances) == 1:
        variances = variances * len(z)
    effects = zip(z, x, length_scales, variances, strict=True)
    return sum(c * math.exp(-(((a - b) / scale) ** 2) / 2) for a, b, scale, c in effects)


def _orthogonal(params, z, x, n_length_scales, mean=0.0, deviation=1.0):
    """Sum over subsets of the columns of products of k(a, b) - E k(a, t) E k(t, b) / E k(t, t')."""
    length_scales = [math.exp(entry) for entry in params[:n_length_scales]]
    if len(length_scales) == 1:
        length_scales = length_scales * len(z)
    values = []
    for a, b, scale in zip(z, x, length_scales, strict=True):
        alone, removed = scale**2 + deviation**2, scale**2 + 2.0 * deviation**2
        distances = (a - mean) ** 2 + (b - mean) ** 2
        values.append(
            math.exp(-(((a - b) / scale) ** 2) / 2)
            - scale * math.sqrt(removed) / alone * math.exp(-distances / alone / 2)
        )
    return sum(
        math.exp(entry) * sum(map(math.prod, itertools.combinations(values, order)))
        for order, entry in enumerate(params[n_length_scales:], 1)
    )


def _one(D):
    return 1


def _two(D):
    return 2


def _each(D):
    return D


STATIONARY = [
    KernelCase("rbf", lambda D: kernels.RBF(), _one, _rbf),
    KernelCase("rbf per column", kernels.RBF, _each, _rbf),
    KernelCase("matern12", lambda D: kernels.Matern12(), _one, _matern12),
    KernelCase("matern12 per column", kernels.Matern12, _each, _matern12),
    KernelCase("laplacian", lambda D: kernels.Laplacian(), _one, _laplacian),
    KernelCase("laplacian per column", kernels.Laplacian, _each, _laplacian),
    KernelCase("matern32", lambda D: kernels.Matern32(), _one, _matern32),
    KernelCase("matern32 per column", kernels.Matern32, _each, _matern32),
    KernelCase(
        "matern52",
        lambda D: kernels.Matern52(),
        _one,
        _matern52,
        scikit_learn="Matern(0.7, nu=2.5)",
    ),
    KernelCase("matern52 per column", kernels.Matern52, _each, _matern52),
    KernelCase("rational", lambda D: kernels.RationalQuadratic(), _two, _rational_quadratic),
    KernelCase(
        "rational per column", kernels.RationalQuadratic, lambda D: D + 1, _rational_quadratic
    ),
    KernelCase("periodic", lambda D: kernels.ExpSineSquared(), _two, _periodic, everywhere=False),
]
LEAVES = [
    *STATIONARY,
    KernelCase("constant", lambda D: kernels.Constant(), _one, _constant),
    KernelCase("linear", lambda D: kernels.DotProduct(), _one, _linear),
    KernelCase(
        "main effects",
        lambda D: MainEffects(),
        _two,
        lambda p, z, x: _main_effects(p, z, x, 1),
    ),
    KernelCase(
        "main effects per column",
        lambda D: MainEffects(D, D),
        lambda D: 2 * D,
        lambda p, z, x: _main_effects(p, z, x, len(z)),
    ),
    KernelCase(
        "main effects, common length scale",
        lambda D: MainEffects(1, D),
        lambda D: D + 1,
        lambda p, z, x: _main_effects(p, z, x, 1),
    ),
    KernelCase(
        "main effects, common variance",
        lambda D: MainEffects(D, 1),
        lambda D: D + 1,
        lambda p, z, x: _main_effects(p, z, x, len(z)),
    ),
    KernelCase(
        "orthogonal additive",
        lambda D: OrthogonalAdditive(1, 3, 0.3, 1.7),
        lambda D: 4,
        lambda p, z, x: _orthogonal(p, z, x, 1, 0.3, 1.7),
    ),
    KernelCase(
        "orthogonal additive per column",
        lambda D: OrthogonalAdditive(D, 2),
        lambda D: D + 2,
        lambda p, z, x: _orthogonal(p, z, x, len(z)),
    ),
    KernelCase(
        "orthogonal additive, main effects only",
        lambda D: OrthogonalAdditive(D, 1),
        lambda D: D + 1,
        lambda p, z, x: _orthogonal(p, z, x, len(z)),
    ),
]

COMPOSITES = [
    KernelCase(
        "sum",
        lambda D: algebra.Sum(kernels.RBF(D), kernels.DotProduct()),
        lambda D: D + 1,
        lambda p, z, x: _rbf(p[:-1], z, x) + _linear(p[-1:], z, x),
    ),
    KernelCase(
        "product",
        lambda D: algebra.Product(kernels.DotProduct(), kernels.RationalQuadratic(D)),
        lambda D: D + 2,
        lambda p, z, x: _linear(p[:1], z, x) * _rational_quadratic(p[1:], z, x),
    ),
    KernelCase(
        "quadratic",
        lambda D: algebra.Product(kernels.DotProduct(), kernels.DotProduct()),
        _two,
        lambda p, z, x: _linear(p[:1], z, x) * _linear(p[1:], z, x),
    ),
    KernelCase(
        "scaled",
        lambda D: algebra.Scaled(kernels.Constant(), kernels.Matern32(D)),
        lambda D: D + 1,
        lambda p, z, x: math.exp(p[0]) * _matern32(p[1:], z, x),
    ),
    KernelCase(
        "scaled on the right",
        lambda D: algebra.Scaled(kernels.DotProduct(), kernels.Constant()),
        _two,
        lambda p, z, x: _linear(p[:1], z, x) * math.exp(p[1]),
    ),
    KernelCase(
        "scaled constant",
        lambda D: algebra.Scaled(kernels.Constant(), kernels.Constant()),
        _two,
        lambda p, z, x: math.exp(p[0]) * math.exp(p[1]),
    ),
    KernelCase(
        "some columns",
        lambda D: algebra.Sum(
            algebra.OnColumns(kernels.RBF(), range(D - 1, -1, -2)),
            algebra.OnColumns(kernels.DotProduct(), [0]),
        ),
        _two,
        lambda p, z, x: _rbf(p[:1], z[::-1][::2], x[::-1][::2]) + _linear(p[1:], z[:1], x[:1]),
    ),
    KernelCase(
        "nested",
        lambda D: algebra.Sum(
            algebra.Scaled(
                kernels.Constant(), algebra.Product(kernels.RBF(D), kernels.DotProduct())
            ),
            algebra.Sum(kernels.Constant(), algebra.Product(kernels.Matern12(), kernels.RBF())),
        ),
        lambda D: D + 5,
        lambda p, z, x: (
            math.exp(p[0]) * _rbf(p[1:-4], z, x) * _linear(p[-4:-3], z, x)
            + math.exp(p[-3])
            + _matern12(p[-2:-1], z, x) * _rbf(p[-1:], z, x)
        ),
    ),
]


def names(cases):
    """Return the identifiers of parametrised cases."""
    return [case.name.replace(" ", "-") for case in cases]


def symmetric(rng, n):
    """Return a random symmetric matrix."""
    A = rng.randn(n, n)
    return A + A.T


RULES = ["argmax", "sample", "order"]


def rule_of(name, rng=None, order=None):
    """Return a rule of selection with what it takes beside the factor."""
    if name == "argmax":
        return argmax
    return partial(sample, rng=rng) if name == "sample" else partial(in_order, order=order)


def selector_of(name, n_points, rng=None, order=None):
    """Return the `PivotedSelector` of a rule."""
    return PivotedSelector(rule_of(name, rng, order), n_points, fixed=name == "order")


class Problem(NamedTuple):
    """Rows, inducing points, a kernel that is a function of `theta`, and sites."""

    kernel: algebra.FreeKernel
    theta: np.ndarray
    Z: np.ndarray
    X: np.ndarray
    sites: Sites

    def features(self, *, theta=None, Z=None, jitter=1e-9, **rows):
        """Return the features, at other parameters or points if given; `rows` for RowBlocks."""
        theta = self.theta if theta is None else theta
        Z = self.Z if Z is None else Z
        blocks = RowBlocks(len(self.X), len(Z), **rows)
        return RowFeatures(blocks, self.kernel, theta, Z, self.X, jitter=jitter)

    def dense(self, *, jitter=1e-9):
        """Return Kuu with its jitter, Kuf and Kff."""
        Kuu = self.kernel.value(self.theta, self.Z, self.Z)
        Kuu = Kuu + jitter * Kuu.diagonal().mean() * np.eye(len(Kuu))
        Kuf = self.kernel.value(self.theta, self.Z, self.X)
        return Kuu, Kuf, self.kernel.value(self.theta, self.X, self.X)


def with_uncertain_mean(posterior, known, moments):
    """Return a `Posterior` with uncertain prior means, and what ``moments(posterior)`` must become.

    `known` holds w_p (M,) of each function, whose prior means are known in `posterior`. The moments
    (2, K, n) of any posterior are linear in the prior means, as long as w follows.
    """
    variance, shift = np.array([0.7, 1.9]), np.array([-0.3, 0.2])
    raised = [
        q._replace(prior_mean=q.prior_mean + 1.0, w=q.w - w_p)
        for q, w_p in zip(posterior.functions, known, strict=True)
    ]
    mean, expected_variance = moments(posterior)
    share = moments(posterior._replace(functions=tuple(raised)))[0] - mean
    uncertain = [
        q._replace(mean_variance=v, mean_shift=d, w_p=w_p)
        for q, v, d, w_p in zip(posterior.functions, variance, shift, known, strict=True)
    ]
    expected = mean + shift[:, None] * share, expected_variance + variance[:, None] * share**2
    return posterior._replace(functions=tuple(uncertain)), np.stack(expected)


def free(kernel, params):
    """Return `kernel` as a function of all its parameters."""
    return algebra.FreeKernel(kernel, np.array(params), np.ones(len(params), dtype=bool))


def random_problem(seed, n=15, m=5, d=2, *, kernel=None, log_precision=(-1.0, 1.0), rows=True):
    """Return a `Problem`; its inducing points are rows unless `rows` is false.

    The default kernel is a sum whose diagonal depends on the parameters and on the points. The
    exponents of ten of the precisions are uniform on `log_precision`.
    """
    rng = np.random.RandomState(seed)
    if kernel is None:
        stationary = algebra.Scaled(kernels.Constant(), kernels.Matern52(d))
        kernel = algebra.Sum(stationary, kernels.DotProduct())
    theta = rng.uniform(-0.5, 0.7, kernel.n_params)
    X = rng.randn(n, d)
    Z = X[rng.permutation(n)[:m]] if rows else rng.randn(m, d)
    precision = 10.0 ** rng.uniform(*log_precision, n)
    # Shifts as if each site saw a value of order one, to its own accuracy.
    shift = precision * rng.randn(n) + np.sqrt(precision) * rng.randn(n)
    sites = Sites(read_only(precision), read_only(shift), read_only(rng.randn(n)))
    return Problem(free(kernel, theta), read_only(theta), read_only(Z), read_only(X), sites)


class Watched:
    """A kernel that notes the shapes of the matrices it is asked for."""

    def __init__(self, kernel):
        self._kernel, self.shapes = kernel, []

    def __getattr__(self, name):
        return getattr(self._kernel, name)

    def value(self, theta, Z, X):
        K = self._kernel.value(theta, Z, X)
        self.shapes.append(K.shape)
        return K
