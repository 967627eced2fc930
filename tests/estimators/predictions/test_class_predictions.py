"""What fitted classifiers predict: probabilities, classes, draws, and how certain these are."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, softmax
from scipy.stats import norm
from sklearn import config_context
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sk
from sklearn.gaussian_process.kernels import DotProduct

from sparsegpc import SparseGPClassifier
from tests.estimators import many_classes, two_classes


@pytest.fixture(scope="module")
def learned_classifier():
    """A classifier that has learned its kernel; not to be changed."""
    return two_classes.small_model().fit(*two_classes.moons())


@pytest.fixture(scope="module", params=many_classes.EVERY)
def fitted(request):
    """A model of three classes of each likelihood; not to be changed."""
    return many_classes.fixed_model(likelihood=request.param).fit(*many_classes.blobs())


# Probabilities of two classes


def test_probabilities_are_integrated_over_the_latent_variance(learned_classifier):
    mean, variance = learned_classifier.latent_mean_and_variance(two_classes.grid(5))
    expected = [two_classes.expected_sigmoid(m, v) for m, v in zip(mean, variance, strict=True)]
    assert_allclose(
        learned_classifier.predict_proba(two_classes.grid(5))[:, 1], expected, atol=1e-9
    )
    assert np.abs(expit(mean) - expected).max() > 0.05  # plugging the mean in would not do


def test_the_decision_function_is_the_log_odds_of_the_probabilities(learned_classifier):
    proba = learned_classifier.predict_proba(two_classes.grid())
    log_odds = np.log(proba[:, 1]) - np.log(proba[:, 0])
    assert_allclose(
        learned_classifier.decision_function(two_classes.grid()), log_odds, rtol=1e-9, atol=1e-12
    )
    assert_allclose(
        learned_classifier.predict_log_proba(two_classes.grid()),
        np.log(proba),
        rtol=1e-9,
        atol=1e-12,
    )
    assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-15)


def test_the_predicted_class_is_the_more_probable_one(learned_classifier):
    best = learned_classifier.predict_proba(two_classes.grid()).argmax(axis=1)
    assert len(np.unique(best)) == 2
    assert_array_equal(
        learned_classifier.predict(two_classes.grid()), learned_classifier.classes_[best]
    )


def test_the_decision_is_positive_for_the_second_class():
    X = np.linspace(-2.0, 2.0, 40)[:, None]
    model = two_classes.fixed_model().fit(X, np.where(X[:, 0] > 0, "positive", "a negative one"))
    assert list(model.classes_) == ["a negative one", "positive"]
    assert model.decision_function([[1.5]])[0] > 1.0
    assert model.latent_mean_and_variance([[1.5]])[0][0] > 1.0
    assert model.predict([[1.5]])[0] == "positive"


def test_the_decision_function_stays_finite_where_a_probability_underflows():
    # So many labels that the slope is certain: else deviation grows with the mean, and p stays.
    X, y = np.array([[-1.0], [-1.0], [1.0], [1.0]]), [0, 1, 0, 1]
    weight = 1e5 * np.array([3.0, 1.0, 1.0, 3.0])
    model = SparseGPClassifier(sk.DotProduct(1.0), optimizer=None, selection_tol=0.0)
    model.fit(X, y, weight)
    far = model.decision_function([[1e4], [1e8], [-1e4]])
    assert np.isfinite(far).all()
    assert np.abs(far).max() > 1e3
    assert_array_equal(model.predict_proba([[1e8], [-1e8]]), [[0.0, 1.0], [1.0, 0.0]])
    assert_array_equal(model.predict([[1e8], [-1e8]]), [1, 0])


def test_far_from_the_data_the_prior_returns(learned_classifier):
    mean, variance = learned_classifier.latent_mean_and_variance([[1e6, 0.0], [-1e9, 1e9]])
    (q,) = learned_classifier._posterior.functions
    assert_allclose(mean, learned_classifier.prior_mean_ + q.mean_shift)
    assert_allclose(variance, learned_classifier.kernel_.k1.constant_value + q.mean_variance)
    assert (
        learned_classifier.latent_mean_and_variance(two_classes.moons()[0])[1].max()
        < variance[0] / 2
    )


def test_predictions_do_not_depend_on_which_rows_are_asked_for_together(learned_classifier):
    together = learned_classifier.decision_function(two_classes.grid())
    one_by_one = [learned_classifier.decision_function(row[None])[0] for row in two_classes.grid()]
    assert_allclose(one_by_one, together, rtol=1e-10)


def test_predictions_do_not_depend_on_the_working_memory(learned_classifier):
    X, y = two_classes.moons()
    with config_context(working_memory=1e-3):
        model = clone(learned_classifier).fit(X, y)
        decision = model.decision_function(two_classes.grid())
    assert_allclose(model.lower_bound_, learned_classifier.lower_bound_, rtol=1e-7)
    assert_allclose(decision, learned_classifier.decision_function(two_classes.grid()), rtol=1e-3)


def test_shapes_and_types_of_predictions(learned_classifier):
    for X in (two_classes.grid(), two_classes.grid()[:1]):
        N = len(X)
        shapes = {
            learned_classifier.predict_proba: (N, 2),
            learned_classifier.predict_log_proba: (N, 2),
            learned_classifier.decision_function: (N,),
            lambda X: learned_classifier.latent_mean_and_variance(X)[0]: (N,),
            lambda X: learned_classifier.latent_mean_and_variance(X)[1]: (N,),
        }
        for method, shape in shapes.items():
            assert method(X).shape == shape
            assert method(X).dtype == np.float64
        assert learned_classifier.predict(X).shape == (N,)


# Probabilities of many classes


def test_the_probabilities_sum_to_one_and_agree_with_all_else(fitted):
    proba = fitted.predict_proba(many_classes.grid())
    assert proba.shape == (25, 3)
    assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-14)
    assert_allclose(np.exp(fitted.predict_log_proba(many_classes.grid())), proba, rtol=1e-9)
    assert_array_equal(
        fitted.decision_function(many_classes.grid()), fitted.predict_log_proba(many_classes.grid())
    )
    assert_array_equal(fitted.predict(many_classes.grid()), proba.argmax(axis=1))
    mean, variance = fitted.latent_mean_and_variance(many_classes.grid())
    one_function = np.ndim(fitted.prior_mean_) == 0
    # As cut points are not learned here, the class between the others has too little room.
    predicted = set(fitted.predict(many_classes.grid()))
    assert predicted == ({0, 2} if one_function else {0, 1, 2})
    assert one_function == (fitted.likelihood == "ordinal-logit")
    assert mean.shape == variance.shape == ((25,) if one_function else (25, 3))
    assert (variance > 0.0).all()
    assert_allclose(
        [fitted.decision_function(row[None])[0] for row in many_classes.grid()], np.log(proba)
    )


@pytest.mark.parametrize("likelihood", ["auto", *many_classes.JOINT])
def test_log_probabilities_do_not_underflow(likelihood):
    X = np.repeat([[-1.0], [0.1], [1.0]], 3, axis=0)
    y, weight = np.tile([0, 1, 2], 3), 1e4 * np.array([3, 1, 1, 1, 3, 1, 1, 1, 3.0])
    model = many_classes.fixed_model(kernel=DotProduct(1.0), likelihood=likelihood).fit(
        X, y, weight
    )
    far = model.predict_log_proba([[1e4], [-1e5]])
    assert np.isfinite(far).all()
    assert_array_equal(model.predict([[1e4], [-1e5]]), [2, 0])


def test_booleans_are_two_classes_of_every_likelihood():
    X, y = many_classes.moons()
    for likelihood in many_classes.EVERY:
        model = many_classes.fixed_model(likelihood=likelihood).fit(X, y == 1)
        assert_array_equal(model.classes_, [False, True])
        assert model.predict(X).dtype == bool
        assert model.score(X, y == 1) > 0.8
        assert model.decision_function(X).shape == (60,)
        assert model.predict_proba(X).shape == (60, 2)


# Draws


@many_classes.every_kind
def test_draws_have_the_moments_of_f(likelihood, n_classes):
    model = many_classes.fixed_model(likelihood=likelihood).fit(*many_classes.blobs(60, n_classes))
    mean, variance = model.latent_mean_and_variance(many_classes.grid(3))
    draws = model.sample_f(many_classes.grid(3), n_samples=20_000, random_state=1)
    assert draws.shape == (*mean.shape, 20_000)
    assert_allclose(draws.mean(axis=-1), mean, atol=0.05 * np.sqrt(variance.max()))
    assert_allclose(draws.var(axis=-1), variance, rtol=0.06)
    assert_array_equal(
        draws, model.sample_f(many_classes.grid(3), 20_000, np.random.RandomState(1))
    )
    assert not np.array_equal(draws, model.sample_f(many_classes.grid(3), 20_000, random_state=2))


def test_draws_are_joint_over_rows_and_independent_over_classes():
    # A learned prior mean, whose value is uncertain, is common to all rows.
    model = many_classes.fixed_model(fit_prior_mean=False).fit(*many_classes.blobs())
    near = np.array([[0.0, 0.0], [0.01, 0.0], [9.0, 9.0], [-9.0, 9.0]])
    draws = model.sample_f(near, 5000)
    within = np.corrcoef(draws[:, 0])
    assert within[0, 1] > 0.99
    assert abs(within[2, 3]) < 0.06
    assert abs(np.corrcoef(draws[0])[0, 1]) < 0.06
    assert model.sample_f(near).shape == (4, 3, 1)


# Intervals


def link(likelihood):
    """Return the probabilities of the classes, (n, C), at functions of shape (n, K) or (n,)."""
    if likelihood == "logistic-softmax":
        return lambda f: expit(f) / expit(f).sum(axis=1, keepdims=True)
    return lambda f: softmax(f, axis=1)


def ordered_classes(f, cut_points):
    """Return the probabilities of the classes, (n, C, S), at draws of one function, (n, S)."""
    below = [np.zeros(f.shape), *(expit(b - f) for b in cut_points), np.ones(f.shape)]
    return np.diff(np.stack(below, axis=1), axis=1)


@many_classes.every_kind
def test_intervals_hold_their_share_of_the_draws(likelihood, n_classes):
    model = many_classes.fixed_model(likelihood=likelihood).fit(*many_classes.blobs(60, n_classes))
    rows = many_classes.grid(3)
    low, high = model.predict_proba_interval(rows, coverage=0.8)
    proba = model.predict_proba(rows)
    assert low.shape == high.shape == proba.shape
    assert (low >= 0.0).all()
    assert (high <= 1.0).all()
    assert (low < high).all()
    f = model.sample_f(rows, 4000, random_state=5)
    if likelihood == "ordinal-logit":
        drawn = ordered_classes(f, model.likelihood_.cut_points)
    elif model.estimators_ is not None or f.ndim == 2:
        f = f if f.ndim == 3 else f[:, None]
        positive = norm.cdf(f) if likelihood == "bernoulli-probit" else expit(f)
        drawn = positive / positive.sum(axis=1, keepdims=True)
        if f.shape[1] == 1:
            drawn = np.concatenate([1.0 - positive, positive], axis=1)
    else:
        drawn = np.stack([link(likelihood)(f[..., s]) for s in range(f.shape[-1])], axis=-1)
    inside = (drawn >= low[..., None]) & (drawn <= high[..., None])
    assert_allclose(inside.mean(axis=-1), 0.8, atol=0.08)
    below = (drawn < low[..., None]).mean(axis=-1)
    assert_allclose(below, 0.1, atol=0.05)
    median = np.median(drawn, axis=-1)
    assert (low <= median).all()
    assert (median <= high).all()


@many_classes.some_likelihoods
def test_intervals_are_nested_and_do_not_depend_on_other_rows(likelihood):
    model = many_classes.fixed_model(likelihood=likelihood).fit(*many_classes.blobs())
    narrow, wide = (
        model.predict_proba_interval(many_classes.grid(3), coverage=c) for c in (0.5, 0.95)
    )
    assert (wide[0] <= narrow[0]).all()
    assert (narrow[1] <= wide[1]).all()
    alone = [
        model.predict_proba_interval(row[None], coverage=0.5)[0][0] for row in many_classes.grid(3)
    ]
    assert_allclose(alone, narrow[0], rtol=1e-8)
    again = model.predict_proba_interval(many_classes.grid(3), coverage=0.5)
    assert_array_equal(again, narrow)


@many_classes.every_kind
def test_intervals_shrink_with_data_and_are_wide_without(likelihood, n_classes):
    X, y = many_classes.blobs(60, n_classes)
    model = many_classes.fixed_model(likelihood=likelihood, n_inducing=30)
    widths = []
    for weight in (1.0, 50.0):
        low, high = model.fit(X, y, weight).predict_proba_interval(X)
        widths.append(np.mean(high - low))
    assert widths[1] < 0.8 * widths[0]
    low, high = model.predict_proba_interval([[50.0, 50.0]])
    # A class between two others is never certain.
    least = 0.2 if likelihood == "ordinal-logit" else 0.4
    assert (high - low > least).all()


def test_two_classes_have_mirrored_intervals_of_the_latent_quantiles():
    model = many_classes.fixed_model().fit(*many_classes.moons())
    low, high = model.predict_proba_interval(many_classes.grid(), coverage=0.9)
    assert_allclose(low[:, 0], 1.0 - high[:, 1], rtol=1e-12)
    assert_allclose(high[:, 0], 1.0 - low[:, 1], rtol=1e-12)
    mean, variance = model.latent_mean_and_variance(many_classes.grid())
    assert_allclose(high[:, 1], expit(mean + 1.6448536 * np.sqrt(variance)), rtol=1e-6)
    assert_allclose(low[:, 1], expit(mean - 1.6448536 * np.sqrt(variance)), rtol=1e-6)
