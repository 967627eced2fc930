"""Certificates of models against dense evidence, and what they are made of."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.bounds.certificates import OF_SITES
from sparsegpc._core.bounds.slacks import SLACKS
from sparsegpc._core.bounds.upper_bounds import UPPER_BOUNDS
from sparsegpc._core.models import fixed_sites
from sparsegpc._core.models.fixed_sites import at_fixed_sites, certificate_of, gap_per_row
from tests.core.helpers import SLACK, slack_value
from tests.core.models.model_cases import dense_kernel, evaluate, make_data, make_model, outputs


def dense_evidence(K, sites, prior_mean):
    """Return the log of the integral of Gaussian sites of precision above zero, log scales too."""
    noise = 1.0 / sites.precision
    target = sites.shift * noise
    S = K + np.diag(noise)
    error = target - prior_mean
    log_normal = np.linalg.slogdet(2.0 * np.pi * S)[1] + error @ np.linalg.solve(S, error)
    log_scale = sites.log_scale + 0.5 * (sites.shift * target + np.log(2.0 * np.pi * noise))
    return log_scale.sum() - 0.5 * log_normal


@pytest.mark.parametrize("method", ["auto", *UPPER_BOUNDS])
@SLACK
def test_the_bracket_holds_the_evidence_of_a_regression(method, slack):
    model, theta = outputs(0.5, 1.7, noisy=True)
    model.slack = slack
    evaluation = evaluate(model, theta, make_data()[3])
    found = certificate_of(model, evaluation, method)
    K = dense_kernel(model.X, *np.exp(theta[:2]))
    exact = sum(
        dense_evidence(K, solution.sites, solution.posterior.prior_mean)
        for solution in evaluation.solutions
    )
    assert found.lower_bound == pytest.approx(evaluation.elbo)
    assert found.lower_bound < exact < found.upper_bound
    assert found.standard_bound <= found.lower_bound + 1e-9
    assert found.total_weight == pytest.approx(model.total_weight)
    assert found.of == "log marginal likelihood"
    assert method == "auto" or set(found.upper_bounds) == {method}


@SLACK
def test_the_bracket_of_labels_is_that_of_their_sites(slack):
    """Shifted by what the likelihood's own bound has beyond that of its sites."""
    name = next(name for name, other in SLACKS.items() if other is slack)
    model, theta = make_model(slack=name)
    evaluation = evaluate(model, theta, make_data()[3])
    found = certificate_of(model, evaluation)
    assert found.of == OF_SITES
    assert found.lower_bound == pytest.approx(evaluation.elbo)
    # With a point at every row and the same sites nothing is missed.
    (solution,) = evaluation.solutions
    K, prior_mean = dense_kernel(model.X, *np.exp(theta)), solution.posterior.prior_mean
    exact = dense_evidence(K, solution.sites, prior_mean)
    Kuf = dense_kernel(np.concatenate([evaluation.points.Z, model.X]), *np.exp(theta))
    Kuu, Kuf = Kuf[:6, :6] + 1e-12 * np.exp(theta[0]) * np.eye(6), Kuf[:6, 6:]
    Q = Kuf.T @ np.linalg.solve(Kuu, Kuf)
    cost = solution.sites.precision * (K - Q).diagonal()
    sparse = dense_evidence(Q, solution.sites, prior_mean) + slack_value(slack, cost)
    assert sparse < exact
    assert evaluation.elbo + (exact - sparse) < found.upper_bound + 1e-6


def test_a_pass_is_made_for_few_rows_only(monkeypatch):
    model, theta = outputs(0.5, noisy=True)
    evaluation = evaluate(model, theta, make_data()[3])
    assert {"one-pass", "two-moment"} < set(certificate_of(model, evaluation).upper_bounds)
    monkeypatch.setattr(fixed_sites, "PASS_ROWS", 29)
    few = certificate_of(model, evaluation)
    assert set(few.upper_bounds) == {"trace", "cauchy-schwarz"}
    assert gap_per_row(model, evaluation, 1e-9, pytest.fail) == few.gap_per_row


def test_a_gap_takes_the_second_pass_only_if_it_can_decide():
    model, theta = outputs(0.5, 1.7, noisy=True)
    evaluation = evaluate(model, theta, make_data()[3])
    one_pass = certificate_of(model, evaluation, "one-pass").gap_per_row
    two_moment = certificate_of(model, evaluation, "two-moment").gap_per_row
    passes = []

    def gap(tol):
        passes.clear()
        return gap_per_row(model, evaluation, tol, lambda: passes.append(1))

    assert gap(1.01 * one_pass) == pytest.approx(one_pass)
    assert passes == []
    # Between the two the second pass certifies what the first does not.
    assert gap(0.5 * (one_pass + two_moment)) == pytest.approx(two_moment)
    assert gap(0.99 * two_moment) == pytest.approx(two_moment)
    assert passes == [1]
    assert gap(1e-9) == pytest.approx(one_pass)
    assert passes == []


def test_features_are_those_of_the_evaluation():
    model, theta = make_model()
    evaluation = evaluate(model, theta, make_data()[3])
    features, _ = at_fixed_sites(model, evaluation)
    assert_array_equal(features.Z, evaluation.points.Z)
    assert features.jitter == evaluation.jitter
    assert_allclose(features.Luu, evaluation.posterior.Luu, rtol=1e-12)
