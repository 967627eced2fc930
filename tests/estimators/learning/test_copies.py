"""Copies of rows are left out if the noise vanishes because of them."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF

from sparsegpc import HomoscedasticNoise, SparseGPGeneralizedRegressor, SparseGPRegressor
from sparsegpc._estimators import whole_fit
from sparsegpc._estimators.choices import vanishing_noise

LEFT_OUT = "30 rows, counted by their weights, repeat others"


def noisy(n=60):
    """Return inputs and targets with noise of variance .09."""
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(n, 2))
    return X, np.sin(5.0 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(n)


def with_copies(X, y, n=30):
    return np.concatenate([X, X[:n]]), np.concatenate([y, y[:n]])


@pytest.mark.parametrize("noise", ["homoscedastic", "student-t"])
def test_the_model_is_the_one_without_copies_that_hide_the_noise(noise):
    X, y = noisy()
    model = SparseGPRegressor(noise=noise)
    expected = SparseGPRegressor(noise=noise).fit(X, y)
    with pytest.warns(UserWarning, match=LEFT_OUT):
        model.fit(*with_copies(X, y))
    assert model.lower_bound_ == pytest.approx(expected.lower_bound_, rel=1e-3)
    assert model.noise_variance_ == pytest.approx(expected.noise_variance_, rel=0.01)
    assert 0.06 < model.noise_variance_ < 0.12
    again = model.lower_bound(None, *with_copies(X, y))
    assert again == pytest.approx(model.lower_bound_, rel=1e-9)
    np.testing.assert_allclose(model.predict(X), expected.predict(X), atol=0.01)


def test_copies_that_were_rounded_are_left_out_as_well():
    """As after conversion of a part of the data to other units and back, or by a table of text."""
    X, y = noisy()
    model = SparseGPRegressor(hyperparameters="best")
    expected = clone(model).fit(X, y)
    all_X, all_y = np.concatenate([X, np.round(X, 5)]), np.concatenate([y, np.round(y, 4)])
    with pytest.warns(UserWarning, match="60 rows, counted by their weights, repeat others"):
        model.fit(all_X, all_y)
    assert model.noise_variance_ == pytest.approx(expected.noise_variance_, rel=0.01)
    assert 0.06 < model.noise_variance_ < 0.12
    # Fitted bounds are for the same rows.
    again = model.lower_bound(None, all_X, all_y)
    assert again == pytest.approx(model.lower_bound_, rel=1e-9)


def test_exact_targets_of_dense_rows_are_not_taken_for_copies():
    x = np.random.RandomState(0).uniform(0.0, 6.0, 400)
    with pytest.warns(ConvergenceWarning, match="noise variance"):
        model = SparseGPRegressor().fit(x[:, None], np.sin(3.0 * x))
    assert model.noise_variance_ < 1e-6
    assert np.abs(model.predict(x[:, None]) - np.sin(3.0 * x)).max() < 1e-3


def test_noise_that_vanishes_at_copies_alone_is_learned_without_them():
    X, y = noisy(80)
    model = SparseGPRegressor(noise="gp", length_scales="common", main_effects=False)
    expected = clone(model).fit(X, y)
    with pytest.warns(UserWarning, match=LEFT_OUT):
        model.fit(*with_copies(X, y))
    assert model.lower_bound_ == pytest.approx(expected.lower_bound_, rel=1e-3)
    assert model.predict_noise_std(X).min() > 0.1


@pytest.mark.parametrize("likelihood", ["gamma", "log-normal"])
def test_positive_targets_are_learned_without_copies_that_hide_the_noise(likelihood):
    X, y = noisy()
    model = SparseGPGeneralizedRegressor(likelihood=likelihood)
    expected = SparseGPGeneralizedRegressor(likelihood=likelihood).fit(X, np.exp(y))
    with pytest.warns(UserWarning, match=LEFT_OUT):
        model.fit(*with_copies(X, np.exp(y)))
    assert model.lower_bound_ == pytest.approx(expected.lower_bound_, rel=1e-6)
    np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol=1e-3)


def few_copies(n):
    """Return 60 rows of four columns, and `n` copies, which outweigh the prior of the noise."""
    rng = np.random.RandomState(1)
    X = rng.uniform(size=(60, 4))
    y = np.sin(5.0 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(60)
    return with_copies(X, y, n)


def test_a_prior_that_keeps_noise_from_its_limit_does_not_hide_copies():
    X, y = few_copies(6)
    robust = SparseGPRegressor(noise="student-t", hyperparameters="best")
    positive = SparseGPGeneralizedRegressor(likelihood="log-normal")
    for model, target in ((robust, y), (positive, np.exp(y))):
        with pytest.warns(UserWarning, match="6 rows, counted by their weights, repeat others"):
            model.fit(X, target)
    assert robust.noise_scale_ > 0.1
    assert positive._likelihood.shape > 0.1
    constant = SparseGPRegressor(hyperparameters="best")
    with pytest.warns(UserWarning, match="8 rows, counted by their weights, repeat others"):
        constant.fit(*few_copies(8))
    assert constant.noise_variance_ > 0.01


def test_weights_that_are_counts_have_the_effect_of_copies():
    X, y = noisy()
    copied, weighted = SparseGPRegressor(), SparseGPRegressor()
    with pytest.warns(UserWarning, match=LEFT_OUT):
        copied.fit(*with_copies(X, y))
    with pytest.warns(UserWarning, match=LEFT_OUT):
        weighted.fit(X, y, np.where(np.arange(60) < 30, 2.0, 1.0))
    assert weighted.lower_bound_ == copied.lower_bound_


def test_the_noise_is_learned_from_a_few_copies_that_leave_it_alone(recwarn):
    X, y = noisy(200)
    model = SparseGPRegressor(kernel=1.0 * RBF(0.5, (0.1, 10.0))).fit(*with_copies(X, y, 2))
    assert not [each for each in recwarn if "repeat others" in str(each.message)]
    copies = with_copies(X, y, 2)
    assert model.lower_bound(None, *copies) == pytest.approx(model.lower_bound_, rel=1e-9)
    assert model.lower_bound(None, X, y) != pytest.approx(model.lower_bound_, rel=1e-6)


def test_copies_of_exact_targets_count():
    X = np.random.RandomState(0).uniform(size=(40, 1))
    y = np.sin(5.0 * X[:, 0])
    once, copied = SparseGPRegressor(hyperparameters="best"), SparseGPRegressor()
    with pytest.warns(ConvergenceWarning, match="the targets look free of noise"):
        once.fit(X, y)
    with pytest.warns(ConvergenceWarning, match="the targets look free of noise"):
        copied.fit(*with_copies(X, y))
    # Each copy has a density of 1 / sqrt(2 pi) standard deviations, of 1e-4.
    assert copied.lower_bound_ > once.lower_bound_ + 200.0
    assert copied.history_["lower_bound"][-1] == copied.lower_bound_


def test_weights_of_small_noise_count():
    """The noise is a little below the limit with them, and a little above it without them."""
    rng = np.random.RandomState(4)
    X = rng.uniform(size=(60, 1))
    y = np.sin(6.0 * X[:, 0])
    y = y + np.sqrt(1.1e-3 * y.var()) * rng.standard_normal(60)
    models = SparseGPRegressor("rbf"), SparseGPRegressor("rbf")
    models[0].fit(X, y, np.where(np.arange(60) < 20, 2.0, 1.0))
    models[1].fit(X, y)
    assert models[0].noise_variance_ < 1e-3 * y.var() < models[1].noise_variance_
    assert not models[0]._without_copies


def test_copies_of_exact_targets_count_with_noise_that_varies(recwarn):
    X = np.random.RandomState(0).uniform(size=(30, 1))
    y = np.sin(5.0 * X[:, 0])
    SparseGPRegressor(noise="gp", kernel="rbf").fit(*with_copies(X, y))
    assert not [each for each in recwarn if "repeat others" in str(each.message)]


@pytest.mark.parametrize(
    ("first", "second", "leaves_out"),
    [({"a", "b"}, {"a"}, True), ({"a"}, {"a"}, False), ({"a"}, {"b"}, False), (set(), None, False)],
)
def test_an_exact_output_does_not_hide_copies_of_another(monkeypatch, first, second, leaves_out):
    found = iter([first, second])
    monkeypatch.setattr(vanishing_noise, "_free_of_noise", lambda fitted: next(found))
    X, y = noisy(20)
    model = SparseGPRegressor(1.0 * RBF(), optimizer=None).fit
    if leaves_out:
        with pytest.warns(UserWarning, match="5 rows, counted by their weights"):
            model(*with_copies(X, y, 5))
    else:
        model(*with_copies(X, y, 5))


def test_a_mean_of_one_up_to_rounding_is_no_copy(monkeypatch, recwarn):
    found = iter([{"a"}, set()])
    monkeypatch.setattr(vanishing_noise, "_free_of_noise", lambda fitted: next(found))
    X, y = noisy(20)
    weight = np.ones(20)
    weight[0] += 1e-12
    SparseGPRegressor(1.0 * RBF(), optimizer=None).fit(X, y, weight)
    assert not [each for each in recwarn if "repeat others" in str(each.message)]


def test_a_second_fit_that_fails_leaves_the_first(monkeypatch):
    X, y = noisy()
    fitted, learn = [], whole_fit.learn

    def failing(decision):
        fitted.append(decision)
        if len(fitted) > 1:
            raise np.linalg.LinAlgError
        return learn(decision)

    monkeypatch.setattr(whole_fit, "learn", failing)
    with pytest.warns(ConvergenceWarning, match="the targets look free of noise"):
        model = SparseGPRegressor(hyperparameters="best").fit(*with_copies(X, y))
    assert len(fitted) == 2
    assert model.history_["lower_bound"][-1] == model.lower_bound_


def test_copies_count_where_the_user_limits_the_noise():
    X, y = noisy()
    noise = HomoscedasticNoise(variance=0.5, variance_bounds=(0.5, 1.0))
    once, copied = SparseGPRegressor(noise=noise), SparseGPRegressor(noise=noise)
    with pytest.warns(ConvergenceWarning, match="lower limit"):
        once.fit(X, y)
    with pytest.warns(ConvergenceWarning, match="lower limit"):
        copied.fit(*with_copies(X, y))
    assert copied.predict(X, return_std=True)[1].mean() < once.predict(X, return_std=True)[1].mean()
