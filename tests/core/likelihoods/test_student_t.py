"""The Student-t likelihood: its bound is one, it decreases, and its parameters are recovered."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.stats import norm, t

from sparsegpc._core.bounds.slacks import TIGHT
from sparsegpc._core.kernels.algebra import Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.likelihoods.student_t import StudentT
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.selection.selectors import InducingPoints
from tests.core.helpers import free

THETA = np.log([1.3, 0.9])


def value(y, mean, variance, log_df, log_scale):
    likelihood = StudentT().at(np.array([log_df, log_scale]))
    moments = [np.array([[float(part)]]) for part in (mean, variance)]
    expected = likelihood.expect(np.array([y]), np.ones(1), *moments, np.zeros(1), np.ones((1, 1)))
    return expected.value[0]


PARAMS = {"log_df": st.floats(-1.2, 6.9), "log_scale": st.floats(-3.0, 3.0)}


@given(error=st.floats(-30.0, 30.0), log_variance=st.floats(-9.0, 5.0), **PARAMS)
def test_it_is_below_the_expected_log_density(error, log_variance, log_df, log_scale):
    width = np.exp(0.5 * log_variance)

    # Intervals of z that are far shorter than the t density is wide.
    nodes, weight = np.polynomial.legendre.leggauss(16)
    centres = np.linspace(-9.0, 9.0, 8001)[1::2]
    z = centres[:, None] + 0.00225 * nodes
    density = norm.pdf(z) * t.logpdf(error - width * z, np.exp(log_df), 0.0, np.exp(log_scale))
    expected = 0.00225 * (density @ weight).sum()
    found = value(error, 0.0, width**2, log_df, log_scale)
    assert found <= expected + 1e-8
    # With no variance the two are one.
    assert_allclose(
        value(error, 0.0, 0.0, log_df, log_scale),
        t.logpdf(error, np.exp(log_df), 0.0, np.exp(log_scale)),
        rtol=1e-9,
        atol=1e-9,
    )


@given(error=st.floats(-1e3, 1e3), first=st.floats(0.0, 50.0), step=st.floats(0.0, 50.0), **PARAMS)
def test_it_does_not_increase_with_the_variance(error, first, step, log_df, log_scale):
    before, after = (value(error, 0.0, s, log_df, log_scale) for s in (first, first + step))
    assert after <= before + 1e-12 * abs(before)


def test_with_all_points_it_is_the_best_gaussian_posterior():
    """The bound at its maximum over all Gaussians q(f), by a general optimiser."""
    rng = np.random.RandomState(2)
    X, y = rng.uniform(-2.0, 2.0, (4, 1)), np.array([0.4, -0.3, 0.6, 6.0])
    params = np.array([0.9, -1.0])
    kernel = free(Scaled(Constant(), RBF()), THETA)
    model = SparseModel(kernel, StudentT(), X, [y], np.ones(4), slack=TIGHT, fit_prior_mean=False)
    found = model.evaluate(
        np.append(THETA, params),
        InducingPoints(X),
        model.initial_state(),
        tol=1e-12,
        max_iter=1000,
    )
    K = kernel.value(THETA, X, X)
    lower = np.tril_indices(4)
    nu, sigma = np.exp(params)

    def negative(x):
        m, L = x[:4], np.zeros((4, 4))
        L[lower] = x[4:]
        square = (y - m) ** 2 + (L**2).sum(axis=1)
        height = t.logpdf(0.0, nu, 0.0, sigma)
        expected = (height - 0.5 * (nu + 1.0) * np.log1p(square / (nu * sigma**2))).sum()
        trace = np.trace(np.linalg.solve(K, L @ L.T + np.outer(m, m)))
        log_ratio = np.linalg.slogdet(K)[1] - np.log(np.diag(L) ** 2).sum()
        return 0.5 * (trace - 4.0 + log_ratio) - expected

    start = np.append(np.clip(y, -0.5, 0.5), 0.3 * np.linalg.cholesky(K)[lower])
    best = minimize(negative, start, options={"gtol": 1e-8, "maxiter": 2000})
    assert_allclose(found.elbo, -best.fun, rtol=2e-6)
    assert_allclose(found.posterior.moments(X)[0][0], best.x[:4], atol=2e-3)


@pytest.mark.parametrize("df", [1.0, 3.0, 20.0])
@pytest.mark.parametrize("fit_prior_mean", [True, False])
def test_parameters_of_a_constant_maximise_likelihood_and_prior(df, fit_prior_mean):
    rng = np.random.RandomState(0)
    centre = 4.0 if fit_prior_mean else 0.0
    y, weight = centre + 2.0 * rng.standard_t(df, 300), rng.uniform(0.5, 1.5, 300)

    def negative(x):
        log_prior = -0.5 * (x[0] - 1.5) ** 2
        mean = x[2] if fit_prior_mean else 0.0
        return -weight @ t.logpdf(y, np.exp(x[0]), mean, np.exp(x[1])) - log_prior

    best = minimize(negative, [1.0, 0.5, centre], method="Nelder-Mead", options={"fatol": 1e-10})
    params = StudentT().constant_params(y, weight, fit_prior_mean)
    assert_allclose(params, best.x[:2], atol=2e-3)
    likelihood = StudentT().at(params)
    found = likelihood.constant_bound(y, weight, fit_prior_mean) + likelihood.log_prior()[0]
    assert_allclose(found, -best.fun, rtol=1e-7)


@pytest.mark.parametrize("y", [np.zeros(5), np.array([1.0]), np.array([0.0, 0.0, 0.0, 1e150])])
def test_odd_targets_have_finite_starts_and_constants(y):
    likelihood, weight = StudentT(), np.ones(len(y))
    start, bounds = likelihood.initial_params(y, weight), likelihood.params_bounds(y, weight)
    assert (bounds[:, 0] < start).all()
    assert (start < bounds[:, 1]).all()
    (state,) = likelihood.initial_states(y, weight)
    params = likelihood.constant_params(y, weight)
    values = [*state, params, likelihood.at(params).constant_bound(y, weight)]
    assert all(np.isfinite(part).all() for part in values)


def test_equal_targets_far_from_zero_are_no_more_precise_than_rounding():
    y = 5e-10 * (1.0 + np.finfo(float).eps * np.array([0.0, 1.0, -1.0, 0.0]))
    lowest = StudentT().params_bounds(y, np.ones(4))[1, 0]
    assert 1e-14 * 5e-10 < np.exp(lowest) < 1e-10 * 5e-10


def test_attributes_are_exponentials_of_the_parameters():
    assert (StudentT().df, StudentT().scale) == (None, None)
    found = StudentT().at(np.log([4.0, 0.1]))
    assert (found.df, found.scale) == (pytest.approx(4.0), pytest.approx(0.1))


def test_given_degrees_of_freedom_start_and_stay():
    y, weight = np.arange(6.0), np.ones(6)
    likelihood = StudentT(7.0)
    assert likelihood.df == 7.0
    assert likelihood.initial_params(y, weight)[0] == np.log(7.0)
    assert_allclose(likelihood.params_bounds(y, weight)[0], np.log(7.0))
    assert likelihood.constant_params(y, weight)[0] == np.log(7.0)
