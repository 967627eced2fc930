"""Units of the targets: results follow them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._estimators.input.targets import centres, merged_targets
from tests.estimators.regression import NOISES, fixed_model, grid, model_of, quiet, two_waves, waves


@quiet
@pytest.mark.parametrize(
    ("noise", "normalize_y"), [*((noise, False) for noise in NOISES), ("homoscedastic", True)]
)
@pytest.mark.parametrize(("scale", "offset"), [(1000.0, -5e4), (1e-8, 0.0), (1e8, 1e9)])
def test_predictions_follow_the_units_of_the_targets(noise, normalize_y, scale, offset):
    """At the hyperparameters where a search starts, which are in units of the targets."""
    X, y = waves()
    given = {"optimizer": None, "normalize_y": normalize_y, "noise": noise}
    plain, scaled = model_of(**given).fit(X, y), model_of(**given).fit(X, scale * y + offset)
    mean, std = plain.predict(grid(), return_std=True)
    ours = scaled.predict(grid(), return_std=True)
    assert_allclose((ours[0] - offset) / scale, mean, atol=1e-4)
    assert_allclose(ours[1] / scale, std, rtol=1e-3)
    noise_std = scaled.predict_noise_std(grid()) / scale
    assert_allclose(noise_std, plain.predict_noise_std(grid()), rtol=1e-3)
    # A density of y is one per unit of y.
    shift = len(y) * np.log(scale)
    assert_allclose(scaled.lower_bound_, plain.lower_bound_ - shift, atol=1e-2)
    assert_allclose(scaled.lower_bounds_, plain.lower_bounds_ - shift, atol=1e-2)
    assert_allclose(
        scaled.log_predictive_density(X, scale * y + offset),
        plain.log_predictive_density(X, y) - np.log(scale),
        atol=1e-3,
    )
    ours, theirs = scaled.certificate(X, scale * y + offset), plain.certificate(X, y)
    assert_allclose(ours.upper_bound, theirs.upper_bound - shift, atol=1e-2)
    assert_allclose(ours.gap_per_row, theirs.gap_per_row, atol=1e-4)


def test_the_bound_that_is_learned_follows_the_units_of_the_targets():
    X, y = waves()
    plain, scaled = model_of().fit(X, y), model_of().fit(X, 1000.0 * y - 5e4)
    assert_allclose(scaled.lower_bound_, plain.lower_bound_ - 60 * np.log(1000.0), atol=1e-2)


def test_normalize_y_is_the_fit_to_normalised_targets():
    X, y = waves()
    y = 40.0 * y - 7.0
    inside = model_of(normalize_y=True, optimizer=None).fit(X, y)
    outside = model_of(optimizer=None).fit(X, (y - y.mean()) / y.std())
    assert_allclose(inside.kernel_.theta, outside.kernel_.theta, atol=1e-12)
    assert_allclose(inside.predict(grid()), y.mean() + y.std() * outside.predict(grid()), rtol=1e-6)
    assert_allclose(inside.noise_variance_, y.var() * outside.noise_variance_, rtol=1e-6)
    offset = len(y) * np.log(y.std())
    assert_allclose(inside.lower_bound_, outside.lower_bound_ - offset, rtol=1e-8)
    assert_allclose(inside.prior_mean_, y.mean() + y.std() * outside.prior_mean_, rtol=1e-6)


def test_normalize_y_uses_the_moments_of_the_weighted_targets():
    X, y = waves()
    weight = np.random.RandomState(0).randint(0, 4, len(y))
    repeated = np.repeat(np.arange(len(y)), weight)
    weighted = model_of(normalize_y=True).fit(X, 10.0 * y, sample_weight=weight)
    copies = model_of(normalize_y=True).fit(X[repeated], 10.0 * y[repeated])
    assert weighted.lower_bound_ == copies.lower_bound_


@pytest.mark.filterwarnings("ignore:a weight counts copies")
def test_without_a_learned_mean_normalised_targets_have_the_mean_of_the_weighted_ones(rng):
    X, Y = two_waves()
    weight = rng.uniform(0.0, 3.0, 60)
    model = fixed_model(normalize_y=True, fit_prior_mean=False).fit(X, Y, weight)
    mean = np.average(Y, axis=0, weights=weight)
    assert_allclose(model.prior_mean_, mean, rtol=1e-12)
    assert_allclose(model.predict([[1e6, 0.0]])[0], mean, rtol=1e-10)
    std = np.sqrt(np.average((Y - mean) ** 2, axis=0, weights=weight))
    variance = model.latent_mean_and_variance([[1e6, 0.0]])[1][0]
    assert_allclose(variance, 2.0 * std**2, rtol=1e-10)
    assert fixed_model(fit_prior_mean=False).fit(X, Y[:, 0], weight).prior_mean_ == 0.0


def test_what_growth_and_verbose_report_is_in_units_of_the_targets(capsys):
    X, y = waves()
    model = model_of(n_inducing="auto", normalize_y=True, verbose=1).fit(X, 1000.0 * y)
    assert_allclose(model.growth_[-1]["lower_bound"], model.lower_bound_, atol=1e-3)
    printed = capsys.readouterr().out.splitlines()
    *_, choice = (line for line in printed if " choice " in line)
    assert float(choice.split("bound ")[1]) == pytest.approx(model.lower_bound_, abs=1e-3)


def test_outputs_of_different_scales_are_equals_with_normalize_y():
    X, Y = two_waves()
    plain = model_of(normalize_y=True, optimizer=None).fit(X, Y)
    scaled = model_of(normalize_y=True, optimizer=None).fit(X, Y * [1e-6, 1e6] + [1e3, -1e6])
    assert_allclose(scaled.kernel_.theta, plain.kernel_.theta, atol=1e-6)
    expected = plain.predict(grid()) * [1e-6, 1e6] + [1e3, -1e6]
    assert_allclose(scaled.predict(grid()) - [1e3, -1e6], expected - [1e3, -1e6], rtol=1e-2)


def test_copies_but_for_rounding_count_with_their_weights_but_at_most_once(rng):
    X, y = rng.randn(40, 3), rng.randn(40, 2)
    all_X = np.concatenate([X, np.round(X[:20], 5)])
    all_y = np.concatenate([y, np.round(y[:20], 4)])
    weight = np.full(60, 0.4)
    weight[[0, 45, 30]] = 2.0, 0.9, 3.0
    found = merged_targets(all_X, all_y, weight, None).without_copies()
    order = np.lexsort(X.T[::-1])
    expected = np.repeat([0.8, 0.4], 20)
    expected[[0, 5, 30]] = 1.0
    assert_array_equal(found.places % 40, order)
    assert_allclose(found.weight, expected[order])
    assert_allclose(found.X, X[order], atol=1e-5)
    assert_allclose(found.y, y[order].T, atol=1e-4)


@pytest.mark.filterwarnings("ignore:the learned function is constant")
@pytest.mark.parametrize("normalize_y", [False, True])
@pytest.mark.parametrize("y", [np.full(9, 3.7), 3.5 + 4e-16 * np.arange(9)], ids=["sum", "targets"])
def test_targets_that_differ_by_rounding_are_constant(y, normalize_y):
    X, _ = waves()
    exact = model_of(normalize_y=normalize_y).fit(X[:9], np.full(9, 3.5))
    rounded = model_of(normalize_y=normalize_y).fit(X[:9], y)
    assert y.std() > 0.0
    std = [model.predict(grid(), return_std=True)[1] for model in (exact, rounded)]
    assert_array_equal(std[0], std[1])
    assert_allclose(rounded.predict(grid()), y[0], rtol=1e-14)


@pytest.mark.parametrize("constant", [0.1, 3.7])
def test_the_mean_of_many_equal_targets_is_their_value(constant):
    y = np.full((1, 1_000_000), constant)
    assert_allclose(centres(y, np.ones(y.size)), constant, rtol=1e-15)
