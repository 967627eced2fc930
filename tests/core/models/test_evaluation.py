"""What an evaluation says of itself."""

import numpy as np
import pytest
from scipy.stats import norm

from sparsegpc._core.selection.selectors import InducingPoints
from tests.core.helpers import central_difference
from tests.core.models.model_cases import evaluate, make_data, outputs


def test_an_evaluation_has_converged_if_all_outputs_have():
    model, theta = outputs(0.5, 1.7)
    Z = make_data()[3]
    done = evaluate(model, theta, Z)
    assert done.converged
    start = (done.states[0], model.initial_state()[1])
    half = model.evaluate(theta, InducingPoints(Z), start, tol=1e-6, max_iter=1)
    assert [solution.converged for solution in half.solutions] == [True, False]
    assert not half.converged


def test_what_is_maximised_counts_the_prior_of_the_noise_and_its_slope():
    model, theta = outputs(0.5, 1.7, noisy=True)
    Z = make_data()[3]
    found = evaluate(model, theta, Z)
    # The level of each noise has no prior; the other coefficient one of precision 1 / 4.
    expected = sum(norm.logpdf(a, 0.0, 2.0) - norm.logpdf(0.0, 0.0, 2.0) for a in theta[[3, 5]])
    assert expected < -0.01
    assert found.objective - found.elbo == pytest.approx(expected, rel=1e-9)
    slope = central_difference(lambda t: evaluate(model, t, Z).objective, theta)
    np.testing.assert_allclose(found.grad_theta, slope, rtol=1e-5, atol=1e-6)
