"""Upper bounds against dense formulae and the exact marginal likelihood; what they imply.

The oracles see sites as noisy observations of a dense Gaussian process, as in a textbook.
"""

from decimal import Decimal, localcontext
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.linalg import eigh
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal, norm

from sparsegpc._core.bounds import upper_bounds as uppers
from sparsegpc._core.bounds.certificates import Certificate, certify, variance_ratios
from sparsegpc._core.bounds.collapsed import collapse, marginals
from sparsegpc._core.bounds.features import features
from sparsegpc._core.bounds.kernel_passes import kernel_product
from sparsegpc._core.bounds.slacks import SLACKS, STANDARD, TIGHT
from sparsegpc._core.bounds.upper_bounds import UPPER_BOUNDS, standard_bound, upper_bounds
from sparsegpc._core.kernels.algebra import Scaled, Sum
from sparsegpc._core.kernels.families import RBF, Constant, DotProduct, Matern12, Matern32
from sparsegpc._core.likelihoods.base import Sites
from tests.core.helpers import SLACK, Watched, random_problem

ALL = tuple(UPPER_BOUNDS)
SEED = st.integers(0, 2**31)
KERNEL = st.sampled_from(
    [None, RBF(2), Matern12(), Scaled(Constant(), Matern32(2)), Sum(Matern12(2), DotProduct())]
)
SIZES = st.tuples(st.integers(1, 25), st.integers(1, 25)).map(sorted)
EXPONENTS = st.tuples(st.floats(-3.0, 3.0), st.floats(-3.0, 3.0)).map(sorted)


def _observations(sites):
    """Return what the sites observe, the noise, and the log of the constants that are left."""
    precision, shift, log_scale = sites
    constants = log_scale + 0.5 * shift**2 / precision + 0.5 * np.log(2.0 * np.pi / precision)
    return shift / precision, 1.0 / precision, constants.sum()


def _exact(problem, prior_mean):
    """Return the log marginal likelihood."""
    y, noise, constants = _observations(problem.sites)
    K = problem.kernel.value(problem.theta, problem.X, problem.X)
    return constants + multivariate_normal(np.full(len(y), prior_mean), K + np.diag(noise)).logpdf(
        y
    )


def _exact_posterior(problem, prior_mean, new):
    """Return mean and variance of the exact posterior at new rows."""
    y, noise, _ = _observations(problem.sites)
    K = problem.kernel.value(problem.theta, problem.X, problem.X)
    cross = problem.kernel.value(problem.theta, problem.X, new)
    gain = np.linalg.solve(K + np.diag(noise), cross)
    variance = problem.kernel.diag(problem.theta, new) - (cross * gain).sum(axis=0)
    return prior_mean + gain.T @ (y - prior_mean), variance


class _Dense:
    """The matrices that the formulae are written in, and upper bounds in terms of `quad`."""

    def __init__(self, problem, prior_mean):
        Kuu, Kuf, self.K = problem.dense()
        y, noise, constants = _observations(problem.sites)
        self.y, self.Lambda = y - prior_mean, np.diag(noise)
        self.Q = Kuf.T @ np.linalg.solve(Kuu, Kuf)
        self.missed = self.K - self.Q
        determinant = np.linalg.slogdet(2.0 * np.pi * (self.Q + self.Lambda))[1]
        self.start = constants - 0.5 * determinant
        self.alpha = self.solve(self.Q + self.Lambda)

    def solve(self, matrix):
        return np.linalg.solve(matrix, self.y)

    def bound(self, quadratic):
        return self.start - 0.5 * quadratic

    def trace(self):
        noise = self.Lambda + np.trace(self.missed) * np.eye(len(self.y))
        return self.bound(self.y @ self.solve(self.Q + noise))

    def of_multiple(self, b):
        a = self.y @ self.alpha
        return self.bound(a**2 / (a + b))

    def best_multiple(self):
        """Return alpha times the number for which the quadratic form is largest."""
        A = self.K + self.Lambda
        return self.alpha * (self.y @ self.alpha) / (self.alpha @ A @ self.alpha)

    def cauchy_schwarz(self):
        return self.of_multiple((np.abs(self.alpha) @ np.sqrt(self.missed.diagonal())) ** 2)

    def one_pass(self):
        return self.of_multiple(self.alpha @ self.missed @ self.alpha)

    def converged(self):
        return self.bound(self.y @ self.solve(self.K + self.Lambda))

    def two_moment(self):
        return self.one_pass() - 0.5 * self.log_det_bounds()[0]

    def conjugate_gradient(self, quadratic=None):
        """Return the bound of a quadratic form, by default that of the converged iteration."""
        upper = self.converged() if quadratic is None else self.bound(quadratic)
        return upper - 0.5 * self.log_det_bounds()[0]

    def tight_log_det(self):
        return np.log1p(self.missed.diagonal() / self.Lambda.diagonal()).sum()

    def log_det_bounds(self):
        """Bounds on log|K + Lambda| - log|Q + Lambda| by the moments of generalised eigenvalues."""
        found = eigh(self.missed, self.Q + self.Lambda, eigvals_only=True)
        n, first, second = len(found), found.sum(), (found**2).sum()
        low = first**2 / second * np.log(1.0 + second / first)
        chord = first - np.sqrt(second) + np.log(1.0 + np.sqrt(second))
        return low, min(chord, n * np.log(1.0 + first / n), self.tight_log_det())

    def improved_lower(self, x, *, of_moments):
        r = self.y - (self.K + self.Lambda) @ x
        quadratic = 2.0 * x @ self.y - x @ (self.K + self.Lambda) @ x
        quadratic += r @ np.linalg.solve(self.Q + self.Lambda, r)
        quadratic = min(quadratic, self.y @ self.solve(self.Q + self.Lambda))
        log_det = self.log_det_bounds()[1] if of_moments else self.tight_log_det()
        return self.bound(quadratic) - 0.5 * log_det


def _solved(problem, slack=TIGHT, prior_mean=0.4, **rows):
    row_features = problem.features(**rows)
    return row_features, collapse(row_features, problem.sites, slack, prior_mean)


def _uppers(problem, methods=ALL, slack=TIGHT, prior_mean=0.4, rows=None, **options):
    """Return the `UpperBounds` of a problem with one output."""
    row_features, posterior = _solved(problem, slack, prior_mean, **(rows or {}))
    outputs = [(problem.sites, posterior)]
    return upper_bounds(row_features, outputs, slack, methods, **options)[0]


def _certificate(problem, methods=ALL, slack=TIGHT, prior_mean=0.4, **options):
    row_features, posterior = _solved(problem, slack, prior_mean)
    outputs = [(problem.sites, posterior)]
    n_rows = float(len(problem.X))
    return certify(row_features, outputs, slack, methods, total_weight=n_rows, **options)[0]


# --------------------------------------------------------------------------------------------------
# Upper bounds


@given(seed=SEED, sizes=SIZES, kernel=KERNEL, exponents=EXPONENTS)
def test_order_of_the_bounds(seed, sizes, kernel, exponents):
    m, n = sizes
    problem = random_problem(seed, n=n, m=m, kernel=kernel, log_precision=exponents)
    exact = _exact(problem, 0.4)
    uppers, lower = _uppers(problem)
    rounding = 1e-7 * (1.0 + abs(exact))
    for name in ALL:
        assert uppers[name] >= exact - rounding, name
    chain = ("conjugate-gradient", "two-moment", "one-pass", "cauchy-schwarz")
    ordered = [uppers[name] for name in chain]
    assert ordered == sorted(ordered)
    assert lower <= exact + rounding
    assert lower >= _solved(problem)[1].bound


@SLACK
@pytest.mark.parametrize("seed", range(5))
def test_bounds_are_those_of_the_dense_formulae(slack, seed):
    problem = random_problem(seed, n=20, m=4, kernel=[None, Matern12(2)][seed % 2])
    dense = _Dense(problem, -0.7)
    uppers, _ = _uppers(problem, slack=slack, prior_mean=-0.7, cg_tol=0.0, cg_max_iter=100)
    expected = {
        "trace": dense.trace(),
        "cauchy-schwarz": dense.cauchy_schwarz(),
        "one-pass": dense.one_pass(),
        "two-moment": dense.two_moment(),
        "conjugate-gradient": dense.conjugate_gradient(),
    }
    assert list(uppers) == list(ALL)
    for name in ALL:
        assert_allclose(uppers[name], expected[name], rtol=1e-8, err_msg=name)


@pytest.mark.parametrize("name", ALL)
def test_a_bound_does_not_depend_on_which_others_are_asked_for(name):
    problem = random_problem(0)
    (alone,) = _uppers(problem, methods=[name]).upper.values()
    assert_allclose(alone, _uppers(problem).upper[name], rtol=1e-12)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    "way", [{"block_rows": 4}, {"block_rows": 4, "n_threads": 3}, {"block_rows": 3, "memory": 0}]
)
def test_blocks_memory_and_threads_do_not_change_a_bound(name, way):
    problem = random_problem(1, n=22)
    whole, in_blocks = (_uppers(problem, methods=[name], rows=rows) for rows in (None, way))
    assert_allclose(in_blocks.upper[name], whole.upper[name], rtol=1e-10)
    assert_allclose(in_blocks.improved_lower, whole.improved_lower, rtol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_all_rows_as_points_close_the_bracket(seed):
    problem = random_problem(seed)
    problem = problem._replace(Z=problem.X)
    certificate = _certificate(problem)
    exact = _exact(problem, 0.4)
    for name, bound in certificate.upper_bounds.items():
        assert_allclose(bound, exact, atol=1e-5, err_msg=name)
    assert 0.0 <= certificate.gap <= certificate.kl < 1e-5


def test_a_gap_is_never_negative():
    """Where nothing is missed, up to the last bit."""
    problem = random_problem(0, kernel=DotProduct())
    for seed in range(20):
        certificate = _certificate(random_problem(seed, kernel=DotProduct()), cg_tol=0.0)
        assert min(certificate.upper_bounds.values()) >= certificate.lower_bound
        assert certificate.lower_bound >= certificate.standard_bound
    assert _certificate(problem).kl < 1e-6


def test_sites_that_say_nothing_but_their_width():
    """Without shifts alpha is zero: every bound misses at most the log determinant."""
    problem = random_problem(0)
    problem = problem._replace(sites=problem.sites._replace(shift=np.zeros(15)))
    uppers = _uppers(problem, prior_mean=0.0).upper
    dense = _Dense(problem, 0.0)
    for name in ALL:
        expected = dense.bound(0.0)
        if name in ("two-moment", "conjugate-gradient"):
            expected -= 0.5 * dense.log_det_bounds()[0]
        assert_allclose(uppers[name], expected, rtol=1e-9, err_msg=name)


def _with_silent_rows(problem, silent, shift=0.0):
    precision, shifts = problem.sites.precision.copy(), problem.sites.shift.copy()
    precision[silent], shifts[silent] = 0.0, shift
    return problem._replace(sites=Sites(precision, shifts, problem.sites.log_scale))


@given(seed=SEED, silent=st.lists(st.integers(0, 14), min_size=1, max_size=14))
@example(seed=27512, silent=[1]).via("the number of rows entered a bound of the log determinant")
def test_rows_without_precision_and_shift_do_not_count(seed, silent):
    problem = _with_silent_rows(random_problem(seed), silent)
    active = problem.sites.precision > 0.0
    others = problem._replace(X=problem.X[active], sites=Sites(*(s[active] for s in problem.sites)))
    ours = _uppers(problem)
    theirs = _uppers(others)
    log_scale = problem.sites.log_scale[~active].sum()
    for name in ALL:
        assert_allclose(ours.upper[name], theirs.upper[name] + log_scale, rtol=1e-7, atol=1e-7)
    assert_allclose(ours.improved_lower, theirs.improved_lower + log_scale, rtol=1e-7, atol=1e-7)


def test_a_shift_without_precision_is_the_limit_of_a_small_precision():
    """Such a site is exp(b f)."""
    problem = _with_silent_rows(random_problem(2), [1, 7], shift=0.6)
    precision = problem.sites.precision.copy()
    precision[[1, 7]] = 1e-9
    nearly = problem._replace(sites=problem.sites._replace(precision=precision))
    ours = _uppers(problem)
    theirs = _uppers(nearly)
    for name in ALL:
        assert_allclose(ours.upper[name], theirs.upper[name], rtol=1e-6, err_msg=name)
        assert ours.upper[name] >= _exact(nearly, 0.4) - 1e-5
    assert_allclose(ours.improved_lower, theirs.improved_lower, rtol=1e-6)
    precision[[1, 7]] = 1e-320
    uppers = _uppers(problem._replace(sites=problem.sites._replace(precision=precision))).upper
    assert_allclose(uppers["conjugate-gradient"], ours.upper["conjugate-gradient"], rtol=1e-9)


def test_very_unequal_precisions():
    problem = random_problem(3, n=30, m=6, log_precision=(-8.0, 8.0))
    uppers, lower = _uppers(problem, cg_max_iter=200, cg_tol=1e-3)
    exact = _exact(problem, 0.4)
    rounding = 1e-7 * abs(exact)
    assert lower - rounding <= exact
    assert exact <= uppers["conjugate-gradient"] + rounding
    assert uppers["trace"] >= exact - rounding


# --------------------------------------------------------------------------------------------------
# Conjugate gradients


def _rough(seed=0):
    """Return a problem whose points are far too few."""
    return random_problem(seed, n=40, m=3, kernel=Matern12(2), log_precision=(-1.0, 2.0))


@pytest.mark.parametrize("seed", range(3))
def test_each_iteration_lowers_the_bound(seed):
    problem = _rough(seed)
    bounds = [
        _uppers(problem, ["conjugate-gradient"], cg_tol=0.0, cg_max_iter=k) for k in range(12)
    ]
    uppers = [bound.upper["conjugate-gradient"] for bound in bounds]
    dense = _Dense(problem, 0.4)
    assert_allclose(uppers[0], dense.two_moment(), rtol=1e-9)
    assert (np.diff(uppers) < 0.0).all()
    assert uppers[-1] >= dense.conjugate_gradient() - 1e-9
    # The first step is the best one along the preconditioned residual of the best multiple.
    x = dense.best_multiple()
    A = dense.K + dense.Lambda
    direction = np.linalg.solve(dense.Q + dense.Lambda, dense.y - A @ x)
    x = x + direction * (direction @ (dense.y - A @ x)) / (direction @ A @ direction)
    quadratic = 2.0 * x @ dense.y - x @ A @ x
    assert_allclose(uppers[1], dense.conjugate_gradient(quadratic), rtol=1e-9)
    expected = dense.improved_lower(x, of_moments=True)
    assert_allclose(bounds[1].improved_lower, expected, rtol=1e-9)
    # Iterations end at half the square of the residual in that metric.
    r = dense.y - A @ x
    left = 0.5 * r @ np.linalg.solve(dense.Q + dense.Lambda, r)
    for tol, expected in ((1.0001 * left, uppers[1]), (0.9999 * left, uppers[2])):
        options = {"cg_tol": tol, "cg_max_iter": 2}
        bound = _uppers(problem, ["conjugate-gradient"], **options).upper["conjugate-gradient"]
        assert_allclose(bound, expected, rtol=1e-12)


def test_a_vector_that_does_not_improve_the_lower_bound_is_ignored():
    problem = _rough(1)
    dense, fitted = _Dense(problem, 0.4), _solved(problem)[1].bound
    x = dense.best_multiple()
    assert_allclose(dense.improved_lower(x, of_moments=False), fitted, rtol=1e-12)
    assert _uppers(problem, ["one-pass"]).improved_lower == fitted
    expected = dense.improved_lower(x, of_moments=True)
    for methods in (["two-moment"], ["conjugate-gradient"]):
        found = _uppers(problem, methods, cg_max_iter=0).improved_lower
        assert found >= fitted
        assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("tol", [1.0, 1e-2, 1e-4])
def test_iterations_stop_within_the_tolerance_and_not_later(monkeypatch, tol):
    problem = _rough()
    row_features, posterior = _solved(problem)
    products = []

    def counted(features, vectors):
        products.append(1)
        return kernel_product(features, vectors)

    monkeypatch.setattr(uppers, "kernel_product", counted)
    outputs = [(problem.sites, posterior)]

    def upper(**options):
        (bounds,) = upper_bounds(row_features, outputs, TIGHT, ["conjugate-gradient"], **options)
        return bounds.upper["conjugate-gradient"]

    stopped, n_products = upper(cg_tol=tol, cg_max_iter=100), len(products)
    converged = _Dense(problem, 0.4).conjugate_gradient()
    assert converged - 1e-9 <= stopped <= converged + tol
    # An iteration less would not have met the tolerance.
    n_iter = n_products
    assert 0 < n_iter < 40
    assert upper(cg_tol=tol, cg_max_iter=n_iter) == stopped
    products.clear()
    upper(cg_tol=0.0, cg_max_iter=n_iter - 1)
    assert len(products) == n_iter - 1
    assert upper(cg_tol=tol, cg_max_iter=n_iter - 1) > stopped


@pytest.mark.parametrize("seed", range(3))
def test_the_converged_vector_leaves_the_determinant_only(seed):
    problem = _rough(seed)
    bounds = _uppers(problem, cg_tol=0.0, cg_max_iter=100)
    dense = _Dense(problem, 0.4)
    x = np.linalg.solve(dense.K + dense.Lambda, dense.y)
    expected = dense.improved_lower(x, of_moments=True)
    assert_allclose(bounds.improved_lower, expected, rtol=1e-9)
    assert bounds.improved_lower > _solved(problem)[1].bound + 1.0


def test_the_lower_bound_is_improved_only_by_methods_that_see_the_kernel_matrix():
    problem = _rough()
    cheap = _uppers(problem, ["trace", "cauchy-schwarz"])
    assert cheap.improved_lower == _solved(problem)[1].bound
    dense = _Dense(problem, 0.4)
    x = dense.best_multiple()
    one_pass = _uppers(problem, ["one-pass"])
    expected = dense.improved_lower(x, of_moments=False)
    assert_allclose(one_pass.improved_lower, expected, rtol=1e-9)
    assert one_pass.improved_lower > cheap.improved_lower + 1.0


# --------------------------------------------------------------------------------------------------
# Several outputs


def _two_outputs(rng):
    problem = _rough()
    second = Sites(rng.uniform(0.1, 9.0, 40), 3.0 * rng.randn(40), np.zeros(40))
    row_features = problem.features()
    return row_features, [
        (sites, collapse(row_features, sites, TIGHT, mean))
        for sites, mean in ((problem.sites, 0.4), (second, None))
    ]


def test_outputs_share_the_first_pass_over_the_kernel_matrix(rng):
    row_features, outputs = _two_outputs(rng)
    kernel = row_features.kernel = Watched(row_features.kernel)
    methods = ALL[:-1]
    together = upper_bounds(row_features, outputs, TIGHT, methods)
    # The pass: the tile, and the features of its rows.
    assert kernel.shapes == [(3, 40), (40, 40)]
    for ours, output in zip(together, outputs, strict=True):
        (theirs,) = upper_bounds(row_features, [output], TIGHT, methods)
        assert_allclose(list(ours.upper.values()), list(theirs.upper.values()), rtol=1e-9)
        assert_allclose(ours.improved_lower, theirs.improved_lower, rtol=1e-9)


def test_certificates_of_outputs_add_up(rng):
    row_features, outputs = _two_outputs(rng)
    methods = ["trace", "one-pass", "two-moment"]
    parts = certify(row_features, outputs, TIGHT, methods, total_weight=40.0)
    both = reduce(add, parts)
    assert both.total_weight == 40.0
    assert_allclose(both.lower_bound, sum(posterior.bound for _, posterior in outputs))
    assert_allclose(both.standard_bound, sum(part.standard_bound for part in parts))
    assert_allclose(both.improved_lower_bound, sum(part.improved_lower_bound for part in parts))
    for name in methods:
        assert_allclose(both.upper_bounds[name], sum(part.upper_bounds[name] for part in parts))
    assert all(both.kl >= part.kl and both.gap >= part.gap for part in parts)


def test_certificates_add_the_bounds_that_they_share():
    first = Certificate(5.0, -3.0, -4.0, {"trace": 1.0, "cauchy-schwarz": 2.0}, -3.0)
    second = Certificate(5.0, -1.0, -1.5, {"trace": 0.5}, -0.5)
    assert first + second == Certificate(5.0, -4.0, -5.5, {"trace": 1.5}, -3.5)


def test_a_change_of_units_shifts_every_bound_and_no_error():
    first = Certificate(
        5.0, -3.0, -4.0, {"trace": 1.0, "cauchy-schwarz": 2.0}, -2.5, "of something"
    )
    bounds = {"trace": 1.25, "cauchy-schwarz": 2.25}
    moved = first.shifted(0.25)
    assert moved == Certificate(5.0, -2.75, -3.75, bounds, -2.25, "of something")
    assert (moved.gap, moved.kl) == (first.gap, first.kl)


def test_certificates_of_different_rows_do_not_add():
    certificate = Certificate(5.0, -3.0, -4.0, {"trace": 1.0}, -3.0)
    with pytest.raises(ValueError, match="got 5 and 6"):
        certificate + Certificate(6.0, -3.0, -4.0, {"trace": 1.0}, -3.0)


# --------------------------------------------------------------------------------------------------
# What a bracket implies

GAMMAS = [0.0, 1e-30, 1e-12, 9e-7, 1e-6, 1.1e-6, 1e-3, 0.2, 1.0, 5.0, 100.0, 700.0, 1e5, 1e6]


def _root_by_bisection(gamma, low, high):
    """Return the root of rho - 1 - log rho = gamma between two points, as a Decimal.

    It bisects the logarithm of rho, which may be too small for a float.
    """

    def excess(log_rho):
        return log_rho.exp() - 1 - log_rho - Decimal(gamma)

    low, high = Decimal(low), Decimal(high)
    rising = excess(high) > 0
    for _ in range(230):
        middle = (low + high) / 2
        if (excess(middle) > 0) == rising:
            high = middle
        else:
            low = middle
    return low.exp()


@pytest.mark.parametrize("gamma", GAMMAS)
def test_variance_ratios_against_bisection(gamma):
    with localcontext() as context:
        context.prec = 60
        expected = (
            float(_root_by_bisection(gamma, -2 * gamma - 2, 0)),
            float(_root_by_bisection(gamma, 0, 20)),
        )
    # The smaller root is as accurate as its logarithm.
    assert_allclose(variance_ratios(gamma)[0], expected[0], rtol=4e-16 * (2.0 + min(gamma, 745.0)))
    assert_allclose(variance_ratios(gamma)[1], expected[1], rtol=5e-16)


@given(exponent=st.floats(-20.0, 6.0))
def test_variance_ratios_solve_their_equation(exponent):
    gamma = 10.0**exponent
    low, high = variance_ratios(gamma)
    assert 0.0 <= low <= 1.0 <= high
    # The equation in terms of rho - 1, whose rounding is that of rho.
    assert_allclose((high - 1.0) - np.log1p(high - 1.0), gamma, rtol=1e-12, atol=1e-15)
    if low > 0.0:
        assert_allclose((low - 1.0) - np.log(low), gamma, rtol=1e-12, atol=1e-15)


def test_nothing_is_known_of_an_infinite_divergence():
    assert variance_ratios(np.inf) == (0.0, np.inf)
    certificate = Certificate(10.0, -5.0, -6.0, {"cauchy-schwarz": np.inf}, -5.0)
    assert certificate.mean_error == np.inf
    assert certificate.coverage_error == 1.0


def _between(gap, kl, n_rows=10.0):
    """Return a certificate with these distances."""
    return Certificate(n_rows, -1.0, -1.0 - (kl - gap), {"trace": -1.0 + gap}, -1.0)


def _divergence(error, ratio):
    """KL of N(error, 1) from N(0, 1 / ratio): `error` in deviations of the first."""
    return 0.5 * (ratio - 1.0 - np.log(ratio) + ratio * error**2)


@pytest.mark.parametrize("gap", [1e-4, 0.01, 0.3, 2.0, 20.0])
def test_mean_error_is_the_largest_at_that_divergence(gap):
    """The largest error over all ratios of variances, each error found from the divergence."""

    def minus_error(log_ratio):
        ratio = np.exp(log_ratio)
        left = gap - _divergence(0.0, ratio)
        return -np.sqrt(max(left, 0.0) * 2.0 / ratio)

    low, high = np.log(variance_ratios(2.0 * gap))
    worst = minimize_scalar(minus_error, bounds=(low, high), options={"xatol": 1e-10})
    assert_allclose(_between(gap, gap + 1.0).mean_error, -worst.fun, rtol=1e-7)


@pytest.mark.parametrize("kl", [1e-4, 0.01, 0.3, 2.0, 20.0])
def test_variance_ratio_is_the_largest_at_that_divergence(kl):
    for ratio in _between(0.5 * kl, kl).variance_ratio:
        assert_allclose(_divergence(0.0, ratio), kl, rtol=1e-9)


@pytest.mark.parametrize("kl", [1e-6, 1e-3, 0.1, 1.0, 3.0])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_coverage_error_bounds_the_total_variation(kl, share):
    """Of two Gaussians whose divergence is due to their means by this share, else to variances."""
    ratio = variance_ratios(2.0 * (1.0 - share) * kl)[1]
    error = np.sqrt(max(kl - _divergence(0.0, ratio), 0.0) * 2.0 / ratio)
    assert_allclose(_divergence(error, ratio), kl, rtol=1e-9)
    first, second = norm(error, 1.0), norm(0.0, ratio**-0.5)
    total_variation = (
        0.5
        * quad(
            lambda x: abs(first.pdf(x) - second.pdf(x)), -30.0, 30.0, limit=400, points=[0.0, error]
        )[0]
    )
    bound = _between(0.5 * kl, kl).coverage_error
    assert total_variation <= bound <= 1.0
    if share == 1.0 and kl < 0.2:
        assert bound < 1.3 * total_variation


def test_coverage_error_is_at_most_one():
    assert _between(1.0, 2.1).coverage_error == 1.0


def test_means_rely_on_the_fitted_bound_and_variances_on_the_standard_one():
    certificate = _between(0.1, 0.5)
    assert_allclose((certificate.gap, certificate.kl), (0.1, 0.5))
    assert_allclose(certificate.gap_per_row, 0.01)
    assert_allclose(certificate.mean_error, _between(0.1, 9.0).mean_error)
    assert_allclose(certificate.variance_ratio, _between(0.0, 0.5).variance_ratio)
    assert_allclose(certificate.coverage_error, _between(0.0, 0.5).coverage_error)


@SLACK
def test_standard_bound_is_that_of_a_fit_with_the_standard_slack(slack):
    problem = random_problem(4)
    row_features, posterior = _solved(problem, slack, block_rows=4)
    expected = collapse(row_features, problem.sites, STANDARD, 0.4).bound
    ours = standard_bound(row_features, problem.sites, posterior, slack)
    assert_allclose(ours, expected, rtol=1e-12)


@given(
    seed=SEED,
    sizes=SIZES,
    kernel=KERNEL,
    method=st.sampled_from(ALL),
    slack=st.sampled_from(list(SLACKS.values())),
)
def test_predictions_err_by_no_more_than_is_certified(seed, sizes, kernel, method, slack):
    m, n = sizes
    problem = random_problem(seed, n=n, m=m, kernel=kernel, log_precision=(-1.0, 2.0))
    rng = np.random.RandomState(seed)
    new = np.concatenate([problem.X, 1.5 * rng.randn(20, 2)])
    row_features, posterior = _solved(problem, slack)
    certificate = _certificate(problem, [method], slack)
    V, residual = features(problem.kernel, problem.theta, problem.Z, row_features.Luu, new)
    mean, variance = marginals(V, residual, posterior)
    exact_mean, exact_variance = _exact_posterior(problem, 0.4, new)
    rounding = 1e-6
    assert (
        np.abs(mean - exact_mean) <= certificate.mean_error * np.sqrt(variance) + rounding
    ).all()
    low, high = certificate.variance_ratio
    assert (variance >= low * exact_variance - rounding).all()
    assert (variance <= high * exact_variance + rounding).all()
    ends = rng.randn(2, len(new))
    ours, theirs = (
        np.diff(norm(m, np.sqrt(v)).cdf(np.sort(ends, axis=0)), axis=0)
        for m, v in ((mean, variance), (exact_mean, exact_variance))
    )
    assert (np.abs(ours - theirs) <= certificate.coverage_error + rounding).all()


@pytest.mark.parametrize("seed", range(4))
def test_certified_divergence_is_at_least_the_true_one(seed):
    """Of the joint law of f at the rows: two Gaussians, both known."""
    problem = random_problem(seed, n=20, m=6)
    kl = _certificate(problem, cg_tol=1e-9).kl
    row_features, posterior = _solved(problem)
    K = problem.kernel.value(problem.theta, problem.X, problem.X)
    V = row_features.V(0)
    explained = np.linalg.solve(np.linalg.cholesky(posterior.LB @ posterior.LB.T), V)
    cov = K - V.T @ V + explained.T @ explained
    y, noise, _ = _observations(problem.sites)
    gain = np.linalg.solve(K + np.diag(noise), K)
    exact_cov = K - K @ gain
    error = posterior.w @ V - gain.T @ (y - 0.4)
    true = 0.5 * (
        np.trace(np.linalg.solve(exact_cov, cov))
        + error @ np.linalg.solve(exact_cov, error)
        - len(K)
        + np.linalg.slogdet(exact_cov)[1]
        - np.linalg.slogdet(cov)[1]
    )
    assert true <= kl
    assert kl < 2.0 * true + 1.0


# --------------------------------------------------------------------------------------------------
# In words


def test_a_certificate_in_words():
    bounds = {"trace": -101.5, "cauchy-schwarz": -103.0, "conjugate-gradient": -104.96}
    certificate = Certificate(2000.0, -105.0, -105.01, bounds, -104.99)
    first, means, variances, intervals, bound, title, *lines = str(certificate).split("\n")
    assert first == "within 0.05 nats of the exact posterior (2.5e-05 per row)"
    assert means == "means off by at most 0.29 posterior standard deviations"
    assert variances == "variances between 0.61 and 1.52 times the exact ones"
    assert intervals == "probabilities of any interval off by at most 0.16"
    assert bound == "log marginal likelihood between -104.990 and -104.960"
    assert title == "upper bounds by method:"
    assert [line.split()[:2] for line in lines] == [
        ["-104.960", "conjugate-gradient:"],
        ["-103.000", "cauchy-schwarz:"],
        ["-101.500", "trace:"],
    ]
    for line, name in zip(lines, ("conjugate-gradient", "cauchy-schwarz", "trace"), strict=True):
        assert line.endswith(UPPER_BOUNDS[name])


def test_the_interval_in_words_is_rounded_outwards():
    text = str(Certificate(10.0, -0.12341, -1.0, {"trace": 1234.56781}, -0.12341))
    assert "between -0.124 and 1234.568" in text
    assert "  1234.568  trace:" in text
    text = str(Certificate(10.0, -7.1, -7.1, {"trace": np.inf}, -7.1))
    assert "between -7.100 and inf" in text
    # Three decimals stay as they are, although floats do not represent them.
    text = str(Certificate(10.0, -7.007, -7.1, {"trace": -7.003}, -7.007))
    assert "between -7.007 and -7.003" in text
    text = str(Certificate(10.0, -1.5e30, -1.5e30, {"trace": -0.0001}, -1.5e30))
    assert f"between {-1.5e30:.3f} and 0.000" in text


def test_small_errors_are_not_rounded_away():
    text = str(Certificate(10.0, 0.0, 0.0, {"trace": 1.96e-12}, 0.0))
    assert "within 2e-12 nats of the exact posterior (2e-13 per row)" in text
    assert "between 0.9999972 and 1.0000029 times" in text


def test_no_error_at_all():
    text = str(_between(0.0, 0.0))
    assert "within 0 nats" in text
    assert "between 1 and 1 times" in text


@pytest.mark.parametrize("kl", [4.0, 50.0, 1e5, np.inf])
def test_text_without_a_useful_bound(kl):
    """The text leaves out useless numbers, such as 1e43 standard deviations."""
    certificate = Certificate(10.0, -1.0, -1.0, {"trace": -1.0 + kl}, -1.0)
    assert str(certificate).split("\n")[1] == (
        "no useful bound on errors of single predictions: use more inducing points or another "
        "method"
    )


def test_text_with_a_useful_bound_on_the_mean_only():
    means, others = str(_between(0.2, 2.5)).split("\n")[1:3]
    assert means == "means off by at most 0.71 posterior standard deviations"
    assert others == ("no useful bound on other errors: use more inducing points or another method")


@given(exponent=st.floats(-12.0, 1.0))
def test_words_never_promise_more_than_the_numbers(exponent):
    certificate = _between(10.0**exponent, 10.0**exponent)
    words = str(certificate).partition("log marginal")[0].split("\n", 1)[1].split()
    rounding = 1.0 + 1e-8
    if "means" in words:
        assert float(words[words.index("means") + 5]) * rounding >= certificate.mean_error
    if "between" in words:
        low, high = certificate.variance_ratio
        told_low = float(words[words.index("between") + 1])
        told_high = float(words[words.index("between") + 3])
        assert told_low <= low * rounding
        assert told_high * rounding >= high
    if "interval" in words:
        told = float(words[words.index("interval") + 5])
        assert told * rounding >= certificate.coverage_error
