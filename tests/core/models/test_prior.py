"""The prior of hyperparameters."""

import numpy as np
import pytest
from scipy.stats import norm

from sparsegpc._core.learning.inducing_points import select_points
from sparsegpc._core.models.prior import NormalPrior
from sparsegpc._core.selection.selectors import PivotedSelector
from tests.core.learning.fit_cases import START, make_model

PRIOR = NormalPrior(np.array([0.3, -1.2]), 1.7)


def evaluate(model, theta):
    states = model.initial_state()
    points = select_points(model, PivotedSelector("argmax", 8), START, states)
    return model.evaluate(theta, points, states, tol=1e-10, max_iter=500)


def parts_of(prior):
    model = make_model()
    return model.subset(np.arange(0, len(model.weight), 2), prior)


def test_the_log_density_is_added_to_the_objective_but_not_to_the_bound():
    theta = np.array([0.7, -0.4])
    without, with_prior = evaluate(parts_of(None), theta), evaluate(parts_of(PRIOR), theta)
    assert with_prior.elbo == without.elbo
    densities = [norm.logpdf(at, PRIOR.mean, 1.7).sum() for at in (theta, PRIOR.mean)]
    added = with_prior.objective - without.objective
    assert added == pytest.approx(densities[0] - densities[1])


def test_the_gradient_is_that_of_the_objective():
    model, theta, step = parts_of(PRIOR), np.array([0.7, -0.4]), 1e-5
    for k in range(2):
        up, down = (evaluate(model, theta + sign * step * np.eye(2)[k]) for sign in (1, -1))
        slope = (up.objective - down.objective) / (2.0 * step)
        assert evaluate(model, theta).grad_theta[k] == pytest.approx(slope, rel=1e-4, abs=1e-5)


def test_all_rows_have_no_prior():
    model = make_model()
    model.subset(np.arange(10), PRIOR)
    assert evaluate(model, START).log_prior == 0.0
