"""Ordered classes, from labels to predictions; other tests treat them as one more likelihood."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV

from sparsegpc import BoundSearch, SparseGPClassifier, StochasticSparseGPClassifier
from sparsegpc._core.likelihoods import ordinal
from sparsegpc.likelihoods import OrdinalLogit
from tests.core.helpers import central_difference, read_only
from tests.core.likelihoods.ordered_classes import probabilities
from tests.estimators.many_classes import fixed_model, quick_model, quietly
from tests.estimators.simple_kernel import SIMPLE

CUTS = np.array([-2.0, 0.5, 1.0, 4.0])


def f_of(X):
    return 3.0 * np.sin(X[:, 0]) + 1.0


def grades(n=300, seed=0, n_classes=5):
    """Return rows of one column, and their classes, numbered."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3.0, 3.0, (n, 1))
    y = np.digitize(f_of(X) + rng.logistic(size=n), CUTS[: n_classes - 1])
    y[:n_classes] = np.arange(n_classes)
    return read_only(X), read_only(y)


def grid():
    return np.linspace(-3.0, 3.0, 31)[:, None]


def ordered(**parameters):
    return SparseGPClassifier(likelihood="ordinal-logit", **{**SIMPLE, **parameters})


@pytest.fixture(scope="module")
def learned():
    """A model of many rows; not to be changed."""
    return ordered(n_inducing=20).fit(*grades(3000))


# What is learned


def test_cut_points_and_probabilities_are_recovered(learned):
    cuts = learned.likelihood_.cut_points
    assert_allclose(cuts, CUTS - CUTS[0], atol=0.35)
    exact = probabilities(f_of(grid()) - CUTS[0], np.log(np.diff(CUTS)))
    assert np.abs(learned.predict_proba(grid()) - exact).max() < 0.06
    mean, variance = learned.latent_mean_and_variance(grid())
    assert mean.shape == variance.shape == (31,)
    assert np.ndim(learned.prior_mean_) == 0


def test_order_helps(learned):
    X, y = grades(150)
    test = grades(2000, seed=1)
    losses = [
        log_loss(
            test[1], SparseGPClassifier(likelihood=name, **SIMPLE).fit(X, y).predict_proba(test[0])
        )
        for name in ("ordinal-logit", "softmax")
    ]
    assert losses[0] < losses[1]


def test_the_order_is_that_of_the_sorted_labels(learned):
    X, y = grades()
    labels = np.array(["A", "B+", "Ba", "C", "a"])
    assert_array_equal(labels, np.sort(labels))
    plain = fixed_model(likelihood="ordinal-logit").fit(X, y)
    with pytest.warns(UserWarning, match=r"alphabetical order, A < B\+ < Ba < C < a: "):
        renamed = fixed_model(likelihood="ordinal-logit").fit(X, labels[y])
    assert_array_equal(renamed.predict_proba(grid()), plain.predict_proba(grid()))
    assert_array_equal(renamed.predict(grid()), labels[plain.predict(grid())])
    # The order matters.
    mixed = fixed_model(likelihood="ordinal-logit").fit(X, np.array([2, 0, 4, 1, 3])[y])
    assert mixed.lower_bound_ < plain.lower_bound_ - 20.0


def test_with_two_classes_it_is_the_logistic_model():
    X, y = grades(200, n_classes=2)
    ours, theirs = (
        SparseGPClassifier(likelihood=name, tol=1e-8, **SIMPLE).fit(X, y)
        for name in ("ordinal-logit", "bernoulli-logit")
    )
    assert_allclose(ours.lower_bound_, theirs.lower_bound_, rtol=1e-7)
    assert_allclose(ours.predict_proba(grid()), theirs.predict_proba(grid()), atol=1e-4)
    assert_allclose(ours.prior_mean_, theirs.prior_mean_, atol=1e-3)
    assert ours.likelihood_.cut_points == 0.0


def test_the_gradient_of_the_bound_is_that_at_the_learned_cut_points():
    X, y = grades(100)
    model = quietly(quick_model(likelihood="ordinal-logit"), X, y)
    theta = model.kernel_.theta
    bound, gradient = model.lower_bound(X=X, y=y, eval_gradient=True)
    assert_allclose(bound, model.lower_bound_, rtol=1e-9)
    slopes = central_difference(lambda t: model.lower_bound(t, X, y), theta)
    assert_allclose(gradient, slopes, rtol=1e-3, atol=1e-3)


# Weights and missing classes


@pytest.mark.parametrize("optimizer", ["bfgs", None])
def test_weights_are_copies(optimizer):
    X, y = grades(120)
    # Some rows have copies with another label.
    X, y = np.concatenate([X, X[:40]]), np.concatenate([y, np.roll(y[:40], 1)])
    weight = np.random.RandomState(2).randint(0, 4, size=160)
    model = ordered(optimizer=optimizer, n_inducing=15)
    weighted = model.fit(X, y, weight)
    bound, proba = weighted.lower_bound_, weighted.predict_proba(grid())
    again = model.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_allclose(again.lower_bound_, bound, rtol=1e-9)
    assert_allclose(again.predict_proba(grid()), proba, atol=1e-6)


def test_a_class_that_most_parts_of_the_rows_lack():
    """Learning begins on 200 rows, and goes on with growing subsets."""
    X, y = grades(6000, n_classes=4)
    y = np.where(y >= 2, y + 1, y).copy()
    y[17] = 2
    model = ordered(n_inducing=15).fit(X, y)
    assert model.converged_
    gaps = np.diff(model.likelihood_.cut_points)
    assert 1e-5 < gaps[1] < 1e-2
    assert_allclose(gaps[[0, 2]], np.diff(CUTS[:3]), atol=0.3)
    total = model.predict_proba(X).sum(axis=0)
    assert_allclose(total, np.bincount(y), rtol=0.05, atol=0.1)


def test_class_weights_multiply_probabilities():
    X, y = grades(200)
    plain = ordered(n_inducing=10).fit(X, y)
    model = ordered(n_inducing=10, class_weight={0: 3.0, 1: 1.0, 2: 1.0, 3: 1.0, 4: 0.5}).fit(X, y)
    expected = plain.predict_proba(grid()) * [3.0, 1.0, 1.0, 1.0, 0.5]
    expected /= expected.sum(axis=1, keepdims=True)
    assert_allclose(model.predict_proba(grid()), expected, rtol=1e-10)


# Predictions


def test_cumulative_probabilities_fall_as_f_rises(learned):
    f = learned.sample_f(grid(), 3)
    assert f.shape == (31, 3)
    for draw in np.sort(f, axis=0).T:
        below = learned.likelihood_.probabilities(draw[None]).cumsum(axis=1)
        assert (np.diff(below, axis=0) <= 1e-12).all()


def test_intervals_contain_the_probabilities_at_draws_of_f(learned):
    low, high = learned.predict_proba_interval(grid(), 0.8)
    f = learned.sample_f(grid(), 20_000)
    drawn = probabilities(f, np.log(np.diff(learned.likelihood_.cut_points)))
    inside = (drawn >= low[:, None]) & (drawn <= high[:, None])
    assert_allclose(inside.mean(axis=1), 0.8, atol=0.05)


def test_averages_over_hyperparameters_have_cut_points_for_each_draw():
    X, y = grades(60)
    model = ordered(hyperparameters="average").fit(X, y)
    assert model.hyperparameter_draws_.shape == (16, 2 + 3)
    components = model._components
    cuts = np.array([component.observation.cut_points for component in components])
    drawn = model.hyperparameter_draws_[model.hyperparameter_weights_ > 0.0]
    assert_allclose(cuts[:, 1:], np.cumsum(np.exp(drawn[:, 2:]), axis=1), rtol=1e-12)
    expected = 0.0
    for component, theta in zip(components, drawn, strict=True):
        moments = component.posteriors[0].moments(grid())
        likelihood = OrdinalLogit().for_classes(5).at(theta[2:])
        expected += component.weight * np.exp(likelihood.log_probabilities(*moments))
    assert_allclose(model.predict_proba(grid()), expected, rtol=1e-9)
    low, high = model.predict_proba_interval(grid())
    best = ordered().fit(X, y)
    assert_array_equal(best.likelihood_.cut_points, model.likelihood_.cut_points)
    assert (high - low).mean() > np.subtract(*best.predict_proba_interval(grid())[::-1]).mean()


# With other parts of the package


def test_points_certificate_and_truncation():
    X, y = grades(400)
    model = ordered(n_inducing="auto").fit(X, y)
    assert model.growth_end_ == "certified"
    certificate = model.certificate(X, y)
    assert certificate.upper_bound > model.lower_bound_
    assert (certificate.upper_bound - model.lower_bound_) / len(X) < 1e-2
    few = model.truncate(4, X, y)
    assert few.lower_bound_ < model.lower_bound_
    assert_array_equal(few.likelihood_.cut_points, model.likelihood_.cut_points)
    assert_allclose(few.predict_proba(grid()).sum(axis=1), 1.0)


# What is learned is not the point.
BRIEF = {
    SparseGPClassifier: {"n_inducing": 5, "max_iter": 2, **SIMPLE},
    StochasticSparseGPClassifier: {"n_inducing": 5, "n_epochs": 1},
}


@pytest.mark.parametrize("make", BRIEF)
def test_ordered_categories_are_not_taken_in_another_order(make):
    X, codes = grades(60, n_classes=3)
    model = make(likelihood="ordinal-logit", **BRIEF[make])
    y = pd.Series(pd.Categorical.from_codes(codes, ["low", "mid", "top"], ordered=True))
    assert list(quietly(model, X, y).classes_) == ["low", "mid", "top"]
    y = pd.Series(pd.Categorical.from_codes(codes, ["low", "mid", "high"], ordered=True))
    with pytest.raises(ValueError, match=r"\['low', 'mid', 'high'\], but .* y\.cat\.codes"):
        model.fit(X, y)
    quietly(model, X, y.cat.codes)
    quietly(model.set_params(likelihood="softmax"), X, y)


@pytest.mark.parametrize("make", BRIEF)
def test_an_enum_is_not_taken_in_another_order(make):
    X, codes = grades(60, n_classes=3)
    for likelihood in ("ordinal-logit", OrdinalLogit()):
        model = make(likelihood=likelihood, **BRIEF[make])
        levels = ["low", "mid", "high", "never"]
        y = pl.Series([levels[code] for code in codes], dtype=pl.Enum(levels))
        with pytest.raises(ValueError, match=r"\['low', 'mid', 'high'\], but") as raised:
            model.fit(X, y)
        assert "y.to_physical()" in str(raised.value)
        assert f"np.array({levels})[model.predict(X)]" in str(raised.value)
        quietly(model, X, y.to_physical())
        assert_array_equal(model.classes_, [0, 1, 2])
        in_order = pl.Series(y.to_list(), dtype=pl.Enum(["high", "low", "mid"]))
        assert list(quietly(model, X, in_order).classes_) == ["high", "low", "mid"]


LABELS = ("low", "mid", "high")


@pytest.mark.parametrize("make", BRIEF)
@pytest.mark.parametrize("likelihood", ["ordinal-logit", OrdinalLogit()])
@pytest.mark.parametrize("of", [np.array, pd.Series, pd.Categorical, pl.Series, list])
def test_the_alphabetical_order_of_strings_is_reported(make, likelihood, of):
    X, codes = grades(60, n_classes=3)
    model = make(likelihood=likelihood, **BRIEF[make])
    with pytest.warns(UserWarning, match="high < low < mid: if this is not their order") as caught:
        model.fit(X, of([LABELS[code] for code in codes]))
    (found,) = [item for item in caught if "alphabetical" in str(item.message)]
    assert found.filename == __file__


@pytest.mark.parametrize("make", BRIEF)
def test_strings_of_numbers_are_reported_if_their_order_is_another_one(make):
    X, codes = grades(60, n_classes=3)
    model = make(likelihood="ordinal-logit", **BRIEF[make])
    with pytest.warns(UserWarning, match="10 < 8 < 9: convert them to numbers"):
        model.fit(X, np.array(["8", "9", "10"])[codes])
    quietly(model, X, np.array(["7", "8", "9"])[codes])


@pytest.mark.parametrize("make", BRIEF)
def test_an_order_that_was_given_or_does_not_matter_is_not_reported(make):
    X, codes = grades(60, n_classes=3)
    model = make(likelihood="ordinal-logit", **BRIEF[make])
    labels = np.array(LABELS)[codes]
    assert list(quietly(model, X, pd.Categorical(labels, ordered=True)).classes_) == sorted(LABELS)
    quietly(model, X, np.where(codes > 0, "yes", "no"))
    quietly(model, X, codes)
    quietly(model.set_params(likelihood="softmax"), X, labels)


def test_missing_labels_of_ordered_categories_are_mentioned_before_their_codes():
    X, codes = grades(60, n_classes=3)
    model = SparseGPClassifier(likelihood="ordinal-logit", **BRIEF[SparseGPClassifier])
    codes = np.where(np.arange(60) < 4, -1, codes)
    y = pd.Categorical.from_codes(codes, LABELS, ordered=True)
    lacking = "^y lacks 4 of 60 labels: leave these rows out first, as a code of -1 would"
    for labels, attribute in ((y, r"y\.codes"), (pd.Series(y), r"y\.cat\.codes")):
        with pytest.raises(ValueError, match=f"{lacking}.* give the codes {attribute} instead"):
            model.fit(X, labels)
        with pytest.raises(ValueError, match=f"^y has ordered categories .* {attribute} "):
            model.fit(X[4:], labels[4:])
    names = [None if code < 0 else LABELS[code] for code in codes]
    with pytest.raises(ValueError, match=rf"{lacking}.* y\.to_physical\(\)"):
        model.fit(X, pl.Series(names, dtype=pl.Enum(LABELS)))


def test_the_classes_of_a_stream_must_be_sorted_if_they_have_an_order():
    X, codes = grades(60, n_classes=3)
    labels = np.array(["low", "mid", "high"])
    model = StochasticSparseGPClassifier(likelihood="ordinal-logit", n_inducing=5)
    with pytest.raises(ValueError, match=r"classes has the order \['low', 'mid', 'high'\], but"):
        model.partial_fit(X, labels[codes], classes=labels)
    assert not hasattr(model, "classes_")
    model.partial_fit(X, codes, classes=[0, 1, 2])
    assert np.mean(labels[model.predict(X)] == labels[codes]) > 0.6
    with pytest.raises(ValueError, match=r"classes has the order \[2, 0, 1\], but"):
        model.partial_fit(X, codes, classes=[2, 0, 1])
    other = StochasticSparseGPClassifier(likelihood="softmax", n_inducing=5)
    other.partial_fit(X, labels[codes], classes=labels)
    assert_array_equal(other.classes_, np.sort(labels))


def test_searches_over_likelihoods():
    X, y = grades(120)
    model = quick_model(max_iter=2, max_reselections=0)
    choices = {"likelihood": ["softmax", "ordinal-logit"]}
    grid_search = GridSearchCV(model, choices, cv=2, scoring="neg_log_loss")
    bound_search = BoundSearch(model, choices)
    for search in (grid_search, bound_search):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            search.fit(X, y)
        assert search.best_params_ == {"likelihood": "ordinal-logit"}


@pytest.mark.parametrize("by_blocks", [False, True])
def test_minibatches_learn_the_cut_points(by_blocks, learned):
    X, y = grades(3000)
    model = StochasticSparseGPClassifier(
        likelihood="ordinal-logit", n_inducing=20, batch_size=300, **SIMPLE
    )
    if by_blocks:
        for start in range(0, 3000, 500):
            rows = slice(start, start + 500)
            # A class that never occurs is the last one.
            model.partial_fit(X[rows], y[rows], classes=range(6))
        assert model.predict_proba(grid())[:, 5].max() < 0.01
    else:
        model.fit(X, y)
        assert_allclose(model.lower_bound_, learned.lower_bound_, rtol=2e-3)
    assert_allclose(model.likelihood_.cut_points[:4], learned.likelihood_.cut_points, rtol=0.1)
    proba = model.predict_proba(grid())[:, :5]
    assert np.abs(proba - learned.predict_proba(grid())).mean() < 0.02


def test_a_warm_start_begins_at_the_learned_cut_points():
    X, y = grades(600)
    model = ordered(n_inducing=20, warm_start=True).fit(X, y)
    before, cuts = model.n_evaluations_, model.likelihood_.cut_points
    model.fit(X, y)
    assert model.n_evaluations_ < 0.5 * before
    assert_allclose(model.likelihood_.cut_points, cuts, rtol=0.02)
    with pytest.raises(ValueError, match=r"needs the parameters of the likelihood and the noise"):
        model.set_params(likelihood="softmax").fit(X, y)


def test_without_an_optimizer_cut_points_suit_a_constant():
    X, y = grades(500)
    kernel = ConstantKernel(1e-8) * RBF(1.0)
    model = ordered(kernel=kernel, optimizer=None).fit(X, y)
    assert_allclose(model.predict_proba(grid())[0], np.bincount(y) / 500, atol=0.002)


def test_a_gap_at_its_limit_is_named(monkeypatch):
    monkeypatch.setattr(ordinal, "GAP_LIMITS", (0.5, 1.1))
    X, y = np.linspace(-3.0, 3.0, 90)[:, None], np.repeat([0, 1, 2], 30)
    expected = (
        r"the bound still rises .* gap between cut points 1 and 2 = 1\.5\d at its upper limit: the "
        "classes look separable"
    )
    with pytest.warns(ConvergenceWarning, match=expected):
        ordered().fit(X, y)
