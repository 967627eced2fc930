"""Features kept in single precision: what is lost, and what must not be."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

from sparsegpc._core.bounds.collapsed import collapse, gradient
from sparsegpc._core.bounds.features import RowFeatures
from sparsegpc._core.bounds.slacks import TIGHT
from sparsegpc._core.kernels.algebra import Scaled
from sparsegpc._core.kernels.families import RBF, Constant, Matern32
from sparsegpc._core.likelihoods.binary import (
    BernoulliLogit,
    BernoulliProbit,
    ConditionalPolyaGamma,
    PolyaGammaLogit,
)
from sparsegpc._core.likelihoods.gaussian import GaussianNoise, noisy_targets
from sparsegpc._core.likelihoods.multiclass import Softmax
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.blocks import RowBlocks
from sparsegpc._core.rows.merging import merge_rows
from sparsegpc._core.selection.choices import Chosen, PivotedChoice
from tests.core.helpers import SLACK, free, random_problem, slack_value

N, M = 500, 60
PER_ROW = 1e-6
SLOPE = 1e-4
LIKELIHOODS = {
    "gaussian": lambda: GaussianNoise(1),
    "polya-gamma": PolyaGammaLogit,
    "conditional polya-gamma": ConditionalPolyaGamma,
    "logit": BernoulliLogit,
    "probit": BernoulliProbit,
    "softmax": lambda: Softmax().for_classes(3),
}
LIKELIHOOD = pytest.mark.parametrize("name", LIKELIHOODS)


class Counted:
    """A kernel that counts how often rows meet the points."""

    def __init__(self, kernel):
        self._kernel, self.n_calls, self.n_arrays = kernel, 0, kernel.n_arrays

    def evaluate(self, theta, Z, X):
        self.n_calls += 1
        return self._kernel.evaluate(theta, Z, X)

    def value(self, theta, Z, X):
        self.n_calls += 1
        return self._kernel.value(theta, Z, X)

    def diag(self, theta, X):
        return self._kernel.diag(theta, X)

    def diag_pullback(self, theta, X, adjoint):
        return self._kernel.diag_pullback(theta, X, adjoint)


def make_model(name, dtype, slack=TIGHT, **options):
    """A smooth kernel, whose points are so close that Kuu is singular but for its jitter."""
    rng = np.random.RandomState(0)
    X, weight = rng.randn(N, 2), rng.uniform(0.5, 2.0, N)
    f = np.sin(2.0 * X[:, 0]) + X[:, 1]
    kernel = free(Scaled(Constant(), RBF(2)), [0.5, 0.3, 0.6])
    if name == "gaussian":
        rows = merge_rows(X, weight)
        y = f + 0.05 * rng.randn(N)
        targets = [noisy_targets(y, weight, np.ones((len(rows.X), 1)), rows)]
        X, weight, own = rows.X, rows.weight, [np.log(0.01)]
    else:
        f += 0.3 * rng.randn(N)
        y = np.where(f > 0.0, 1.0, -1.0)
        if name == "softmax":
            y = np.eye(3)[np.digitize(f, [-0.7, 0.7])]
        targets, own = [y], []
    model = SparseModel(
        kernel, LIKELIHOODS[name](), X, targets, weight, slack=slack, dtype=dtype, **options
    )
    theta = np.append(kernel.params, own)
    return model, theta, PivotedChoice("argmax", M)


def choose(model, choice, theta):
    precision = model.precision(theta, model.initial_state())
    return choice(model.kernel, model.split(theta)[0], model.rows, precision)


def evaluate(name, dtype, slack=TIGHT, **options):
    model, theta, choice = make_model(name, dtype, slack)
    chosen = choose(model, choice, theta)
    return model.evaluate(theta, chosen, model.initial_state(), **options), model


def dense_bound(problem, slack):
    """The bound without a prior mean by dense linear algebra: N(t; 0, Q + P^-1) and the slack."""
    Kuu, Kuf, Kff = problem.dense()
    Q = Kuf.T @ np.linalg.solve(Kuu, Kuf)
    p, b, own = problem.sites
    cost = p * (Kff - Q).diagonal()
    root = np.sqrt(p)
    B = np.eye(len(p)) + root[:, None] * Q * root
    fitted = Q @ b - Q @ (root * np.linalg.solve(B, root * (Q @ b)))
    return -0.5 * np.linalg.slogdet(B)[1] + 0.5 * b @ fitted + own.sum() + slack_value(slack, cost)


def single(problem, **rows):
    blocks = RowBlocks(len(problem.X), len(problem.Z), **rows)
    return RowFeatures(
        blocks, problem.kernel, problem.theta, problem.Z, problem.X, jitter=1e-9, dtype=np.float32
    )


def whole_V(features):
    return features.rows(lambda V: (V,))[0]


@pytest.mark.parametrize("memory", [0, 0.5, 100])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_features_are_rounded_once_and_the_residual_is_not(memory, n_threads):
    problem = random_problem(0, n=300, m=20)
    exact = problem.features(block_rows=70)
    memory = int(8 * memory * len(problem.X) * len(problem.Z))
    rounded = single(problem, block_rows=70, memory=memory, n_threads=n_threads)
    V = whole_V(rounded)
    assert V.dtype == np.float32
    assert_array_equal(V, whole_V(exact).astype(np.float32))
    assert rounded.residual.dtype == np.float64
    assert_array_equal(rounded.residual, exact.residual)


@SLACK
def test_bound_is_that_of_dense_double_precision(slack):
    problem = random_problem(1, n=400, m=30, log_precision=(-1.0, 3.0))
    bound = collapse(single(problem), problem.sites, slack, 0.0).bound
    exact = dense_bound(problem, slack)
    assert_allclose(collapse(problem.features(), problem.sites, slack, 0.0).bound, exact, rtol=1e-9)
    assert_allclose(bound, exact, rtol=0.0, atol=PER_ROW * len(problem.X))


@pytest.mark.parametrize("memory", [0, 10**9])
@SLACK
def test_gradient_is_that_of_double_precision(slack, memory):
    problem = random_problem(2, n=400, m=30)
    found = []
    for features in (problem.features(), single(problem, memory=memory, block_rows=90)):
        posterior = collapse(features, problem.sites, slack)
        outputs = [(problem.sites, posterior, None)]
        found.append(gradient(features, outputs, slack, wrt_Z=True, moments=True))
    exact, rounded = found
    assert_allclose(rounded.theta, exact.theta, atol=SLOPE * np.abs(exact.theta).max())
    assert_allclose(rounded.Z, exact.Z, atol=SLOPE * np.abs(exact.Z).max())
    for part, expected in zip(rounded.moments[0], exact.moments[0], strict=True):
        assert part.dtype == np.float64
        assert_allclose(part, expected, atol=1e-5)


@LIKELIHOOD
def test_sites_converge_to_those_of_double_precision(name):
    exact, _ = evaluate(name, np.float64)
    rounded, model = evaluate(name, np.float32)
    assert rounded.converged
    assert model.counts.site_iterations <= exact.solutions[0].n_iter * len(exact.solutions) + 2
    assert_allclose(rounded.bound, exact.bound, rtol=0.0, atol=PER_ROW * N + 0.1 * model.tol)
    scale = np.abs(exact.grad_theta).max()
    assert_allclose(rounded.grad_theta, exact.grad_theta, rtol=0.0, atol=SLOPE * scale + 1e-3)
    for one, other in zip(rounded.solutions, exact.solutions, strict=True):
        assert one.posterior.LB.dtype == one.posterior.w.dtype == np.float64
        assert one.sites.precision.dtype == np.float64
        assert_allclose(one.sites.precision, other.sites.precision, rtol=1e-2)


def test_gradient_keeps_its_digits_where_the_points_nearly_coincide():
    """Kuu is as good as singular: only what is pulled back in double precision survives it."""
    found = []
    for dtype in (np.float64, np.float32):
        model, theta, choice = make_model("gaussian", dtype)
        theta[1:3] = 1.3, 1.5
        chosen = choose(model, choice, theta)
        found.append(model.evaluate(theta, chosen, model.initial_state()))
    exact, rounded = found
    assert exact.posterior.Luu.diagonal().min() < 1e-4
    scale = np.abs(exact.grad_theta).max()
    assert_allclose(rounded.grad_theta, exact.grad_theta, rtol=0.0, atol=1e-5 * scale)


@LIKELIHOOD
def test_sites_stop_at_a_tolerance_below_the_rounding(name):
    evaluation, _ = evaluate(name, np.float32, tol=1e-12, max_iter=200)
    assert all(solution.n_iter < 200 for solution in evaluation.solutions)


@pytest.mark.parametrize("kernel", [RBF(), Matern32()])
@pytest.mark.parametrize(
    ("arrays", "dtype", "n_calls"),
    [(0.6, np.float32, 0), (0.6, np.float64, 5), (1.0, np.float64, 0), (0.4, np.float32, 5)],
)
def test_features_of_single_precision_take_half_the_memory(kernel, arrays, dtype, n_calls):
    problem = random_problem(3, n=200, m=20, kernel=kernel)
    counted = Counted(problem.kernel)
    blocks = RowBlocks(200, 20, memory=int(8 * arrays * 200 * 20), block_rows=40)
    features = RowFeatures(
        blocks, counted, problem.theta, problem.Z, problem.X, jitter=1e-9, dtype=dtype
    )
    before = counted.n_calls
    features.sum(lambda V: (V.sum(),))
    assert counted.n_calls - before == n_calls


@pytest.mark.parametrize("name", ["gaussian", "polya-gamma", "logit"])
def test_an_optimum_is_one_in_single_precision(name):
    """Whatever the processor: where unfinished searches end hangs on their last digits."""

    def objective_of(dtype):
        model, start, choice = make_model(name, dtype)
        chosen = Chosen(choose(model, choice, start).Z, None, None)
        states = model.initial_state()

        def objective(theta):
            evaluation = model.evaluate(theta, chosen, states, attempts=6)
            return -evaluation.bound, -evaluation.grad_theta

        return objective, start

    (double, start), (single, _) = objective_of(np.float64), objective_of(np.float32)
    options = {"jac": True, "method": "L-BFGS-B"}
    best = minimize(double, start, **options, options={"maxiter": 300})
    assert single(best.x)[0] == pytest.approx(best.fun, rel=1e-5)
    # A search in single precision is not led away from it.
    end = minimize(single, best.x, **options, options={"maxiter": 25})
    assert double(end.x)[0] <= best.fun + 1e-5 * abs(best.fun)
