"""The start at principal components, and the search."""

import numpy as np
from numpy.testing import assert_allclose
from scipy.stats import norm

from sparsegpc._core.bounds.slacks import STANDARD, TIGHT
from sparsegpc._core.latent_inputs.collapsed_bound import LatentData, evaluate
from sparsegpc._core.latent_inputs.learning import learn, principal_start


def plane(n_rows=40, n_columns=5):
    """Return rows near a plane, with mean zero."""
    rng = np.random.RandomState(0)
    Y = rng.normal(size=(n_rows, 2)) @ rng.normal(size=(2, n_columns))
    Y += 0.01 * rng.normal(size=Y.shape)
    return Y - Y.mean(axis=0)


def start(Y, n_latent=2):
    return principal_start(LatentData(Y, TIGHT), n_latent, 8, np.random.RandomState(0))


def test_the_start_is_at_scaled_principal_components():
    Y = plane()
    _, vectors = np.linalg.eigh(Y @ Y.T)
    found = start(Y).mean
    assert_allclose(found.std(axis=0), 1.0)
    assert_allclose(np.abs((found * vectors[:, :-3:-1]).sum(axis=0)), len(Y) ** 0.5)


def test_missing_values_of_the_start_are_filled_from_the_components():
    Y = plane()
    holes = Y.copy()
    holes[::7, 1] = holes[::5, 3] = np.nan
    same = np.corrcoef(start(Y).mean[:, 0], start(holes).mean[:, 0])[0, 1]
    naive = np.corrcoef(start(Y).mean[:, 0], start(np.nan_to_num(holes)).mean[:, 0])[0, 1]
    assert abs(same) > max(abs(naive), 0.99)


def test_more_components_than_columns_start_somewhere():
    found = start(plane(n_columns=1), n_latent=3)
    assert np.isfinite(found.to_vector()).all()
    assert (found.mean.std(axis=0) > 0.5).all()


def bow():
    """Return rows near a curve, with mean zero."""
    t, rng = np.linspace(-2.0, 2.0, 30), np.random.RandomState(0)
    Y = np.stack([t, t**2, np.sin(2.0 * t), np.cos(t)], axis=1)
    Y += 0.2 * rng.normal(size=Y.shape)
    return Y - Y.mean(axis=0)


def test_the_search_ends_where_the_gradient_vanishes():
    Y = bow()
    data, begin = LatentData(Y, TIGHT), start(Y)
    learned = learn(data, begin, max_iter=1000, tol=1e-5)
    assert learned.converged
    assert learned.evaluation.value > evaluate(begin, data).value + 30.0
    assert np.abs(learned.evaluation.gradient).max() < 0.1
    assert_allclose(learned.evaluation.value, evaluate(learned.params, data).value)


def test_rows_far_from_their_places_return():
    Y = bow()
    data = LatentData(Y, TIGHT)
    learned = learn(data, start(Y, n_latent=1), max_iter=1000, tol=1e-5)
    moved = learned.params._replace(mean=learned.params.mean.copy())
    moved.mean[:3] = moved.mean[-3:]
    assert evaluate(moved, data).value < learned.evaluation.value - 10.0
    again = learn(data, moved, max_iter=1, tol=1e-5)
    assert_allclose(again.params.mean[:3], learned.params.mean[:3], atol=1.0)


def test_the_limit_of_iterations_is_kept():
    Y = plane()
    learned = learn(LatentData(Y, TIGHT), start(Y), max_iter=3, tol=0.0)
    assert (learned.n_iter, learned.converged) == (3, False)


def test_noise_with_missing_values_is_learned_as_noise():
    """The search from principal components ends several nats below."""
    for seed in (5, 16, 26):
        rng = np.random.RandomState(seed)
        Y = rng.uniform(size=(rng.randint(5, 70), 1))
        Y[rng.uniform(size=len(Y)) < 0.3] = np.nan
        Y = (Y - np.nanmean(Y)) / np.nanstd(Y)
        data = LatentData(Y, STANDARD)
        begin = principal_start(data, 2, 7, np.random.RandomState(0))
        learned = learn(data, begin, max_iter=200, tol=1e-4)
        assert learned.evaluation.value > np.nansum(norm.logpdf(Y)) - 0.1
        assert_allclose(learned.params.noise, 1.0, rtol=0.02)
