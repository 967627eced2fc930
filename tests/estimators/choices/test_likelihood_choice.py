"""likelihood="auto": the bound decides among the likelihoods of positive targets."""

import pickle
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

from sparsegpc import BoundSearch, LocalCorrection, SparseGPGeneralizedRegressor
from sparsegpc._estimators.choices import likelihood_choice
from sparsegpc._estimators.learning import search as learning
from sparsegpc.likelihoods import Gamma, LogNormal, Weibull
from tests.estimators.noise.noise_cases import quiet
from tests.estimators.simple_kernel import simple_kernel

POSITIVE, DURATIONS = {"gamma", "log-normal", "weibull"}, {"log-normal", "weibull"}
DRAWS = {
    "gamma": lambda rng, n: rng.gamma(1.5, size=n),
    "log-normal": lambda rng, n: np.exp(1.5 * rng.standard_normal(n)),
    "weibull": lambda rng, n: rng.weibull(4.0, n),
    "pareto": lambda rng, n: rng.pareto(1.5, n) + 1e-9,
}
KINDS = {"gamma": Gamma, "log-normal": LogNormal, "weibull": Weibull, "pareto": LogNormal}


def scale(X):
    return 8.0 + 0.5 * X[:, 0]


def targets(name, n=300, seed=0):
    """Return rows of two columns, and targets that are drawn from a distribution."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, 2))
    return X, np.exp(scale(X)) * DRAWS[name](rng, n)


def durations(name, n=300, seed=0):
    """Return rows, durations of which about a third is censored, and their events."""
    X, y = targets(name, n, seed)
    end = np.exp(scale(X)) * np.random.RandomState(seed + 1).uniform(0.2, 4.0, n)
    return X, np.minimum(y, end), y <= end


def model_of(**parameters):
    return SparseGPGeneralizedRegressor(**{"n_inducing": 20, **simple_kernel(parameters)})


@pytest.mark.parametrize("name", DRAWS)
def test_the_bound_decides_among_the_likelihoods_of_positive_targets(name):
    X, y = targets(name)
    model = model_of().fit(X, y)
    assert type(model.likelihood_) is KINDS[name]
    assert set(model.likelihood_bounds_) == POSITIVE
    best = max(model.likelihood_bounds_, key=model.likelihood_bounds_.get)
    assert KINDS[best] is KINDS[name]
    assert model.likelihood == "auto"


@pytest.mark.parametrize("name", ["log-normal", "weibull"])
def test_the_bound_decides_among_the_likelihoods_of_durations(name):
    X, y, event = durations(name)
    model = model_of().fit(X, y, event=event)
    assert type(model.likelihood_) is KINDS[name]
    assert set(model.likelihood_bounds_) == DURATIONS
    assert model.score(X, y, event=event) > 0.0


def test_f_is_found_under_a_heavy_tail():
    rng = np.random.RandomState(1)
    X = rng.normal(size=(3000, 4))
    y = np.exp(scale(X)) * (rng.pareto(1.5, 3000) + 1e-9)
    model = SparseGPGeneralizedRegressor().fit(X[:1000], y[:1000])
    mean, variance = model.latent_mean_and_variance(X[1000:])
    assert np.corrcoef(mean, scale(X[1000:]))[0, 1] > 0.9
    assert np.sqrt(variance.mean()) < 0.3


@pytest.mark.parametrize("name", ["gamma", "log-normal"])
def test_the_chosen_likelihood_is_learned_as_if_it_was_given(name):
    X, y = targets(name, 200)
    calls, best = [], {"hyperparameters": "best"}
    auto = model_of(callback=calls.append, **best).fit(X, y)
    given = model_of(likelihood=name, **best).fit(X, y)
    assert auto.lower_bound_ == pytest.approx(given.lower_bound_, abs=1e-2)
    assert_allclose(auto.predict(X), given.predict(X), rtol=1e-2)
    assert auto.history_["lower_bound"][-1] == calls[-1].lower_bound == auto.lower_bound_
    assert auto.certificate(X, y).lower_bound == pytest.approx(auto.lower_bound_)
    for other in (pickle.loads(pickle.dumps(auto)), clone(auto).fit(X, y)):
        assert_allclose(other.predict(X), auto.predict(X))
        assert other.likelihood_bounds_ == auto.likelihood_bounds_


@quiet
def test_few_rows_keep_the_usual_likelihood():
    X, y = targets("log-normal", 10)
    model = model_of().fit(X, y)
    assert type(model.likelihood_) is Gamma
    bounds = model.likelihood_bounds_
    assert max(bounds.values()) < bounds["gamma"] + likelihood_choice.LEAST_GAIN


def test_a_part_of_many_rows_decides_with_few_points(monkeypatch):
    sizes = []

    def search(problem):
        sizes.append(len(problem.model.weight))
        assert problem.estimator.n_inducing == likelihood_choice.DECIDING_POINTS
        return learning.search(problem)

    monkeypatch.setattr(likelihood_choice, "search", search)
    monkeypatch.setattr(likelihood_choice, "DECIDING_ROWS", 150)
    X, y, event = durations("gamma", 200)
    model_of(n_inducing=None, max_iter=2).fit(X, y)
    model_of(n_inducing="auto", max_inducing=20, max_iter=2).fit(X, y, event=event)
    assert sizes == [150, 150, 150]


@pytest.mark.parametrize("name", ["gamma", "log-normal"])
def test_a_warm_start_keeps_the_likelihood(name):
    X, y = targets(name)
    model = model_of(warm_start=True).fit(X, y)
    before, kind = model.lower_bound_, type(model.likelihood_)
    model.fit(X, y)
    assert type(model.likelihood_) is kind is KINDS[name]
    assert model.likelihood_bounds_ is None
    assert model.lower_bound_ > before - 0.1


@quiet
def test_a_warm_start_with_more_rows_compares_likelihoods_again():
    X, y = targets("pareto")
    model = model_of(warm_start=True).fit(X[:8], y[:8])
    assert type(model.likelihood_) is Gamma
    assert type(model.fit(X, y).likelihood_) is LogNormal
    assert set(model.likelihood_bounds_) == POSITIVE
    cold = model_of().fit(X, y)
    assert model.lower_bound_ > cold.lower_bound_ - 0.1


@quiet
def test_nothing_is_compared_where_nothing_is_learned_or_the_likelihood_is_known():
    X, y = targets("log-normal", 60)
    models = [
        model_of(optimizer=None).fit(X, y),
        model_of(kernel=RBF(), optimizer=None).fit(X, y),
        model_of(likelihood="gamma").fit(X, y),
        model_of(likelihood=Gamma()).fit(X, y),
        model_of().fit(X, np.ceil(np.log(y))),
    ]
    for model in models:
        assert model.likelihood_bounds_ is None
        assert type(model.likelihood_) is not LogNormal


@pytest.mark.parametrize("last", [1, 15, 40])
@pytest.mark.parametrize("kind", ["amounts", "durations"])
def test_a_fit_may_be_stopped_while_likelihoods_are_compared(last, kind):
    X, y, event = durations("gamma", 100)
    model = model_of(callback=lambda event: event.iteration >= last)
    with pytest.warns(match="callback"):
        model.fit(X, y, event=None if kind == "amounts" else event)
    assert np.isfinite(model.predict(X)).all()
    assert model.n_evaluations_ < last + 10


def test_the_comparison_is_printed(capsys):
    X, y = targets("log-normal", 200)
    model_of(verbose=1).fit(X, y)
    printed = capsys.readouterr().out
    number = r"-?\d+\.\d+"
    expected = (
        rf"likelihood: 200 rows, bounds gamma {number}, log-normal {number}, weibull {number}, "
        rf"gain of {np.log(200.0):.4f} needed: log-normal kept"
    )
    assert len(re.findall(expected, printed)) == 1


def test_a_likelihood_that_cannot_be_learned_is_left_out(monkeypatch):
    X, y = targets("log-normal")

    def search(problem):
        if type(problem.model.likelihood) is not Gamma:
            raise np.linalg.LinAlgError
        return learning.search(problem)

    monkeypatch.setattr(likelihood_choice, "search", search)
    monkeypatch.setattr(likelihood_choice, "best_run", lambda *data: None)
    model = model_of().fit(X, y)
    assert type(model.likelihood_) is Gamma
    assert set(model.likelihood_bounds_) == {"gamma"}


def test_meta_estimators_and_smaller_models_have_the_likelihood_that_was_chosen():
    X, y = targets("log-normal", 200)
    found = BoundSearch(model_of(), {"kernel": ["rbf", "matern32"]}).fit(X, y).best_estimator_
    assert type(found.likelihood_) is LogNormal
    corrected = LocalCorrection(model_of()).fit(X, y)
    assert type(corrected.estimator_.likelihood_) is LogNormal
    assert np.isfinite(corrected.log_predictive_density(X, y)).all()
    smaller = found.truncate(5, X, y)
    assert type(smaller.likelihood_) is LogNormal
    assert smaller.lower_bound_ <= found.lower_bound_ + 1e-6
