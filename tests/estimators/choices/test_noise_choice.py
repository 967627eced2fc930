"""noise="auto": the bound decides between homoscedastic noise and noise that varies."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, Sum, WhiteKernel

from sparsegpc import SparseGPRegressor
from sparsegpc._core.learning import all_rows
from sparsegpc._estimators.choices import noise_choice
from sparsegpc._estimators.learning import search as learning
from tests.estimators.noise.noise_cases import model_of, quiet, trumpet


def varying(n=120):
    """Return targets whose noise varies."""
    return trumpet(n)


def steady(n=120):
    """Return targets whose noise is the same at all rows."""
    X, _ = varying(n)
    return X, np.sin(2.0 * X[:, 0]) + 0.2 * np.random.RandomState(3).standard_normal(n)


def bounds_are_those_of_given_noise(auto, X, y):
    """Check the bounds of a model that compared them, and return a dict of models."""
    given = {name: model_of(name).fit(X, y) for name in auto.noise_bounds_}
    for name, bound in auto.noise_bounds_.items():
        # Given noise with outliers is learned with another centre and scale of the targets.
        tolerance = 0.05 if name == "student-t" else 1e-5
        assert bound == pytest.approx(given[name].lower_bound_, abs=tolerance)
    return given


@pytest.mark.parametrize(("data", "chosen"), [(varying, "gp"), (steady, "homoscedastic")])
def test_the_chosen_noise_is_learned_as_if_it_was_given(data, chosen):
    X, y = data()
    calls = []
    auto = model_of("auto", callback=calls.append).fit(X, y)
    given = bounds_are_those_of_given_noise(auto, X, y)
    assert auto.lower_bound_ == pytest.approx(auto.noise_bounds_[chosen], abs=1e-5)
    assert_allclose(auto.predict_noise_std(X), given[chosen].predict_noise_std(X), rtol=1e-5)
    assert (auto.noise_variance_ is None) == (chosen == "gp")
    assert auto.history_["lower_bound"][-1] == calls[-1].lower_bound == auto.lower_bound_
    assert auto.certificate(X, y).lower_bound == pytest.approx(auto.lower_bound_)


@pytest.mark.parametrize("seed", [20, 21, 23])
def test_main_effects_that_show_beside_noise_that_varies_are_added(seed):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(1150, 6))
    X[:, 1], X[:, 3] = np.exp(X[:, 1]), X[:, 2] + 0.05 * rng.normal(size=1150)
    f = np.sin(2.0 * X[:, 0]) + 0.5 * np.log(X[:, 1]) + 0.7 * X[:, 2]
    y = f + 0.3 * np.exp(0.7 * X[:, 0]) * rng.normal(size=1150)
    auto, plain = (
        SparseGPRegressor(noise="gp", main_effects=effects).fit(X[:150], y[:150])
        for effects in ("auto", False)
    )
    assert isinstance(auto.kernel_, Sum)
    assert auto.lower_bound_ + auto.log_prior_ > plain.lower_bound_ + plain.log_prior_ + 2.5


def outlying(n=120):
    """Return targets with noise that is the same at all rows, but has outliers."""
    X, y = steady(n)
    y[::12] += np.random.RandomState(4).choice([-3.0, 3.0], len(y[::12]))
    return X, y


def test_noise_with_outliers_is_learned_as_if_it_was_given():
    X, y = outlying()
    calls = []
    auto = model_of("auto", callback=calls.append).fit(X, y)
    given = bounds_are_those_of_given_noise(auto, X, y)
    assert auto.noise_bounds_["student-t"] == max(auto.noise_bounds_.values())
    assert auto.history_["lower_bound"][-1] == calls[-1].lower_bound == auto.lower_bound_
    assert auto.noise_df_ == pytest.approx(given["student-t"].noise_df_, rel=0.02)
    assert_allclose(auto.predict(X), given["student-t"].predict(X), atol=0.02)
    assert auto.certificate(X, y).lower_bound == pytest.approx(auto.lower_bound_)


def test_among_equal_targets_outliers_are_not_looked_for():
    """A narrow Student-t distribution could describe the equal ones alone."""
    X, y = outlying()
    y[np.argsort(X[:, 0])[:30]] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        auto = model_of("auto").fit(X, y)
    assert list(auto.noise_bounds_) == ["homoscedastic", "gp"]


def test_noise_with_outliers_that_cannot_be_learned_is_left_out(monkeypatch):
    def fail(builder):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(noise_choice, "_learned_with_outliers", fail)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        auto = model_of("auto").fit(*outlying())
    assert list(auto.noise_bounds_) == ["homoscedastic", "gp"]
    assert auto.lower_bound_ == pytest.approx(max(auto.noise_bounds_.values()))
    assert auto.history_["lower_bound"][-1] == auto.lower_bound_


def test_most_targets_are_not_taken_for_free_of_noise():
    """Although a Student-t distribution of nearly no scale has the highest bound."""
    X, _ = steady(200)
    noise = np.random.RandomState(5).standard_normal(200)
    noise[np.arange(200) % 4 > 0] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        auto = model_of("auto").fit(X, np.sin(2.0 * X[:, 0]) + noise)
    assert auto.noise_bounds_["student-t"] > auto.lower_bound_ + 50.0
    assert auto.noise_df_ is None


def test_targets_with_outliers_may_be_rounded():
    X, y = outlying(240)
    auto = model_of("auto").fit(X, np.round(4.0 * y) / 4.0)
    assert auto.noise_df_ is not None


def test_a_part_of_many_rows_is_not_searched_for_outliers(monkeypatch):
    """Rows that are equal in X alone are merged for Gaussian noise, but not with outliers."""
    monkeypatch.setattr(all_rows, "LEARNING_ROWS", 60)
    monkeypatch.setattr(all_rows, "ENOUGH_ROWS_PER_POINT", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        auto = model_of("auto").fit(*outlying())
    assert "student-t" not in auto.noise_bounds_


@pytest.mark.parametrize("first", ["auto", "student-t"])
def test_a_warm_start_refuses_other_units(first):
    """Only noise that is given as Student-t noise has units that ignore outliers."""
    X, y = outlying()
    model = model_of(first, warm_start=True, normalize_y=True).fit(X, y)
    assert model.noise_df_ is not None
    other = {"auto": "student-t", "student-t": "auto"}[first]
    with pytest.raises(ValueError, match="warm_start=True needs the kind of noise"):
        model.set_params(noise=other).fit(X, y)


def below_zero(n=200):
    """Return targets that are zero at many rows, and at others have the same noise."""
    X = np.random.RandomState(0).uniform(-2.0, 2.0, (n, 2))
    f = X[:, 0] + np.sin(2.0 * X[:, 1])
    return X, np.where(f > 0.0, f + 0.1 * np.random.RandomState(1).standard_normal(n), 0.0)


def test_noise_that_vanishes_where_targets_are_equal_is_not_taken(monkeypatch):
    X, y = below_zero()
    learning = {"kernel": "rbf", "main_effects": False, "n_inducing": 40, "tol": 1e-3}
    auto = model_of("auto", **learning).fit(X, y)
    assert auto.noise_bounds_["gp"] > auto.noise_bounds_["homoscedastic"] + 50.0
    assert auto.noise_variance_ is not None
    assert auto.history_["lower_bound"][-1] == auto.lower_bound_
    monkeypatch.setattr(noise_choice, "MOST_VANISHING", 1.0)
    with warnings.catch_warnings():
        # Where the noise vanishes the sites may not converge.
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert auto.fit(X, y).noise_variance_ is None


def test_claims_keep_constant_noise():
    """The noise would vanish at less than a tenth of the rows, and f at nearly all of them."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(250, 4))
    has_claim = rng.uniform(size=250) < 1.0 / (1.0 + np.exp(0.7 - X[:, 0]))
    y = np.where(has_claim, np.exp(0.5 * X[:, 1] + 0.8 * rng.normal(size=250)), 0.0)
    learning = {"kernel": "rbf", "main_effects": False, "n_inducing": 40}
    auto = model_of("auto", **learning).fit(X, y)
    assert auto.noise_bounds_["gp"] > auto.noise_bounds_["homoscedastic"] + 50.0
    assert auto.noise_variance_ is not None
    assert auto.predict(X).mean() == pytest.approx(y.mean(), rel=0.1)


def test_rounded_targets_may_have_noise_that_varies():
    X, y = varying()
    assert model_of("auto").fit(X, np.round(y, 1)).noise_variance_ is None


@pytest.mark.parametrize("deviation", [0.04, 0.06])
def test_the_share_of_rows_at_which_noise_vanishes(deviation):
    # The second value is one away from its neighbour, and the last is not shared.
    y = np.array([0.0, 1.0, 1.0, 5.0, 5.0, 9.0])
    weight = np.array([1.0, 2.0, 1.0, 1.0, 1.0, 4.0])
    share = noise_choice._vanishing_share(y, weight, weight / deviation**2)
    assert share == pytest.approx((3.0 * (deviation < 0.05) + 2.0) / 10.0)
    assert noise_choice._vanishing_share(np.ones(3), np.ones(3), np.full(3, 1e9)) == 0.0


def test_bounds_of_scaled_targets_are_in_the_units_of_the_user():
    X, y = varying()
    auto = model_of("auto", normalize_y=True).fit(X, 1000.0 * y)
    assert auto.lower_bound_ == pytest.approx(auto.noise_bounds_["gp"], rel=1e-9)
    assert auto.noise_bounds_["gp"] > auto.noise_bounds_["homoscedastic"]


@pytest.mark.parametrize("data", [varying, steady, outlying])
def test_a_warm_start_keeps_the_noise(data):
    X, y = data()
    model = model_of("auto", warm_start=True).fit(X, y)
    before, varies = model.lower_bound_, model.noise_variance_ is None
    model.fit(X, y)
    assert (model.noise_variance_ is None) == varies
    assert (model.noise_df_ is None) == (data is not outlying)
    assert model.noise_bounds_ is None
    assert model.lower_bound_ > before - 0.1


@quiet
def test_a_warm_start_with_more_rows_compares_the_noise_again():
    X, y = varying()
    model = model_of("auto", warm_start=True).fit(X[:8], y[:8])
    assert model.noise_variance_ is not None
    cold = model_of("auto").fit(X, y)
    assert model.fit(X, y).noise_variance_ is None
    assert model.lower_bound_ > cold.lower_bound_ - 0.1
    assert model.noise_bounds_ == pytest.approx(cold.noise_bounds_, abs=0.1)


def test_a_warm_start_with_more_rows_takes_noise_only_that_does_not_vanish(monkeypatch):
    """Although the bound of noise that vanishes is higher."""
    X, y = below_zero()
    learning = {"kernel": "rbf", "main_effects": False, "n_inducing": 40, "tol": 1e-3}
    model = model_of("auto", warm_start=True, **learning)
    with monkeypatch.context() as patch, warnings.catch_warnings():
        patch.setattr(noise_choice, "MOST_VANISHING", 1.0)
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert model.fit(X[:100], y[:100]).noise_variance_ is None
    assert model.fit(X, y).noise_variance_ is not None


def test_nothing_is_compared_where_nothing_is_learned():
    X, y = trumpet()
    fixed = model_of("auto", optimizer=None).fit(X, y)
    known = model_of("auto").fit(X, y, noise_variance=0.1)
    stopped = model_of("auto", callback=lambda event: event.iteration >= 2).fit
    with pytest.warns(match="callback"):
        stopped = stopped(X, y)
    for model in (fixed, known, stopped):
        assert model.noise_bounds_ is None
    assert fixed.noise_variance_ == pytest.approx(0.1 * np.var(y), rel=1e-2)
    with pytest.raises(ValueError, match="leave one of them out"):
        model_of("auto", kernel=RBF() + WhiteKernel()).fit(X, y)


def test_varying_noise_that_cannot_be_learned_leaves_the_homoscedastic_fit(monkeypatch):
    X, y = steady()
    homoscedastic = model_of("homoscedastic").fit(X, y)

    def search(problem, *args, **options):
        if problem.model.noise_selector is not None:
            raise np.linalg.LinAlgError
        return learning.search(problem, *args, **options)

    monkeypatch.setattr(noise_choice, "search", search)
    with pytest.warns(ConvergenceWarning, match="could not be computed, so noise='auto'"):
        auto = model_of("auto").fit(X, y)
    assert list(auto.noise_bounds_) == ["homoscedastic"]
    assert auto.history_["lower_bound"][-1] == auto.lower_bound_
    assert auto.lower_bound_ == pytest.approx(homoscedastic.lower_bound_, rel=1e-9)
    assert auto.noise_variance_ == pytest.approx(homoscedastic.noise_variance_, rel=1e-6)


def noise_alone():
    X, y = trumpet()
    return X, y - np.sin(2.0 * X[:, 0])


@quiet
@pytest.mark.parametrize(("data", "share"), [(steady, 0.0), (noise_alone, 0.5)])
def test_noise_that_varies_starts_beside_a_constant_too_where_f_explains_nothing(
    data, share, monkeypatch
):
    starts = []

    def search(problem, given=None):
        if problem.model.noise_selector is not None:
            starts.extend(given.values)
        return learning.search(problem, given)

    monkeypatch.setattr(noise_choice, "search", search)
    model = model_of("auto").fit(*data())
    lowest = np.log(model.kernel_.k1.constant_value_bounds[0])
    is_constant = [theta[0] == pytest.approx(lowest) for theta in starts]
    assert np.mean(is_constant) == share
