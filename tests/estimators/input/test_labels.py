"""Class labels of any type, and weights of classes."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sparsegpc._estimators.predictions.labels import reweighted_log
from tests.estimators import many_classes, two_classes

# Labels of two classes


@pytest.mark.parametrize(
    "names",
    [
        ("no", "yes"),
        (False, True),
        (0, 1),
        (-1, 1),
        (-7, -3),
        (0.0, 1.0),
        (2, 10**12),
        np.array(["b", "a"], dtype=object),
        np.array(["aa", "a"]),
    ],
    ids=str,
)
def test_two_labels_of_any_type(names):
    X, y = two_classes.moons()
    names = np.asarray(names)
    model = two_classes.fixed_model().fit(X, names[y])
    reference = two_classes.fixed_model().fit(X, y)
    assert_array_equal(model.classes_, np.unique(names))
    assert model.classes_.dtype == names.dtype
    positive = int(names[1] == model.classes_[1])
    assert_array_equal(
        model.predict_proba(two_classes.grid())[:, positive],
        reference.predict_proba(two_classes.grid())[:, 1],
    )
    assert_array_equal(model.predict(X), names[reference.predict(X)])
    assert model.score(X, names[y]) == reference.score(X, y)


@settings(max_examples=4)
@given(seed=st.integers(0, 1000), share=st.floats(0.1, 0.9))
def test_swapping_the_labels_swaps_the_probabilities_exactly(seed, share):
    rng = np.random.RandomState(seed)
    X = rng.randn(40, 2)
    y = rng.uniform(size=40) < share * expit(2.0 * X[:, 0])
    y[:2] = False, True
    kernel = ConstantKernel(5.0) * RBF(1.0, "fixed")
    model = two_classes.small_model(kernel=kernel, max_iter=3, max_reselections=1, tol=1e-2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one, other = (clone(model).fit(X, labels) for labels in (y, ~y))
    assert one.lower_bound_ == other.lower_bound_
    assert_array_equal(
        one.predict_proba(two_classes.grid())[:, ::-1], other.predict_proba(two_classes.grid())
    )
    assert_array_equal(
        one.decision_function(two_classes.grid()), -other.decision_function(two_classes.grid())
    )


# Labels of many classes

LABELS = [
    ("ant", "bee", "cat"),
    (7, 8, 12),
    (-3, -2, 5),
    (0.0, 1.0, 2.0),
    np.array(["a", "b", "c"], dtype=object),
    (1, 2, 10**12),
]


@pytest.mark.parametrize(
    ("names", "likelihood"),
    [*((names, "softmax") for names in LABELS), (LABELS[0], "bernoulli-logit")],
    ids=str,
)
def test_three_labels_of_any_type(names, likelihood):
    X, y = many_classes.blobs()
    names = np.asarray(names)
    reference = many_classes.fixed_model(likelihood=likelihood).fit(X, y)
    model = clone(reference).fit(X, names[y])
    assert_array_equal(model.classes_, names)
    assert model.classes_.dtype == names.dtype
    assert_array_equal(
        model.predict_proba(many_classes.grid()), reference.predict_proba(many_classes.grid())
    )
    assert_array_equal(model.predict(X), names[reference.predict(X)])


# Weights of classes


@many_classes.some_likelihoods
def test_a_class_of_weight_zero_is_no_class(likelihood):
    X, y = many_classes.blobs(60, 4)
    model = many_classes.fixed_model(likelihood=likelihood).fit(X, y, y != 1)
    reference = clone(model).fit(X[y != 1], y[y != 1])
    assert_array_equal(model.classes_, [0, 2, 3])
    assert model.lower_bound_ == reference.lower_bound_
    assert_array_equal(
        model.predict_proba(many_classes.grid()), reference.predict_proba(many_classes.grid())
    )
    indices = np.atleast_2d(model.inducing_indices_)
    points = (
        model.inducing_points_ if likelihood in many_classes.BINARY else [model.inducing_points_]
    )
    for index, Z in zip(indices, points, strict=True):
        assert_array_equal(X[index], Z)


@many_classes.every_kind
def test_class_weights_multiply_the_probabilities(likelihood, n_classes, rng):
    X, y = many_classes.blobs(60, n_classes)
    keep = (y > 0) | (rng.uniform(size=60) < 0.4)
    X, y = X[keep], y[keep]
    weight = rng.uniform(0.5, 2.0, len(y))
    plain = many_classes.fixed_model(likelihood=likelihood).fit(X, y, weight)
    rows = many_classes.grid()
    proba = plain.predict_proba(rows)
    low, high = plain.predict_proba_interval(rows)
    by_dict = np.where(np.arange(n_classes) == 0, 3.0, 1.0)
    by_dict[-1] = 0.5
    balanced = weight.sum() / n_classes / np.bincount(y, weight)
    for class_weight, factors in (
        ("balanced", balanced),
        ({0: 3.0, n_classes - 1: 0.5}, by_dict),
    ):
        model = clone(plain).set_params(class_weight=class_weight).fit(X, y, weight)
        assert_allclose(model.class_weight_, factors)
        expected = proba * factors / (proba @ factors)[:, None]
        assert_allclose(model.predict_proba(rows), expected, rtol=1e-10)
        assert_allclose(model.predict_log_proba(rows), np.log(expected), atol=1e-10)
        assert_array_equal(model.predict(rows), expected.argmax(axis=1))
        # What is learned, and f, are those without the factors.
        assert model.lower_bound_ == plain.lower_bound_
        assert model.lower_bound(X=X, y=y, sample_weight=weight) == plain.lower_bound(
            X=X, y=y, sample_weight=weight
        )
        assert model.certificate(X, y, weight) == plain.certificate(X, y, weight)
        assert_array_equal(
            model.latent_mean_and_variance(rows), plain.latent_mean_and_variance(rows)
        )
        if n_classes == 2:
            assert_allclose(
                model.decision_function(rows),
                plain.decision_function(rows) + np.log(factors[1] / factors[0]),
                atol=1e-10,
            )
            if likelihood in many_classes.BINARY:
                for end, plain_end in zip(
                    model.predict_proba_interval(rows), (low, high), strict=True
                ):
                    odds = plain_end / (1.0 - plain_end) * (factors / factors[::-1])
                    assert_allclose(end, odds / (1.0 + odds), rtol=1e-9, atol=1e-13)


def test_intervals_with_class_weights_are_quantiles_of_reweighted_probabilities(rng):
    X, y = many_classes.blobs(60, 3)
    factors = np.array([1.0, 6.0, 0.2])
    model = many_classes.fixed_model(class_weight=dict(enumerate(factors))).fit(X, y)
    rows = many_classes.grid()[:4]
    mean, variance = model.latent_mean_and_variance(rows)
    f = mean + np.sqrt(variance) * rng.standard_normal((20_000, 4, 3))
    rates = factors * np.exp(f)
    draws = rates / rates.sum(axis=2, keepdims=True)
    low, high = model.predict_proba_interval(rows, coverage=0.8)
    # The shares of draws outside are those of both tails, up to the error of 1000 draws.
    assert np.abs((draws < low).mean(axis=0) - 0.1).max() < 0.06
    assert np.abs((draws > high).mean(axis=0) - 0.1).max() < 0.06


def test_reweighted_log_probabilities_are_accurate_where_probabilities_round_to_one():
    # Log-odds of 0, 60 and 800; the probability of the less likely class changes by 3 / 2.
    small = np.array([-np.log(2.0), -60.0, -800.0])
    large = np.array([-np.log(2.0), -np.exp(-60.0), 0.0])
    after = reweighted_log(np.stack([small, large], axis=1), np.array([3.0, 2.0]))
    assert_allclose(after[:, 0], [np.log(0.6), *(small[1:] + np.log(1.5))], rtol=1e-14)
    assert_allclose(after[:, 1], [np.log(0.4), -1.5 * np.exp(-60.0), 0.0], rtol=1e-12)


def test_class_weights_by_name_and_those_left_out():
    X, y = many_classes.blobs()
    names = np.array(["ant", "bee", "cat"])
    plain = many_classes.fixed_model().fit(X, names[y])
    by_name = clone(plain).set_params(class_weight={"bee": 4.0}).fit(X, names[y])
    assert_array_equal(by_name.class_weight_, [1.0, 4.0, 1.0])
    assert_array_equal(plain.class_weight_, np.ones(3))
    proba = [model.predict_proba(many_classes.grid())[:, 1] for model in (plain, by_name)]
    assert (proba[0] < proba[1]).all()


def test_equal_class_weights_change_nothing():
    X, y = two_classes.moons()
    plain = two_classes.fixed_model().fit(X, y)
    equal = clone(plain).set_params(class_weight={0: 5.0, 1: 5.0}).fit(X, y)
    assert_array_equal(plain.predict_log_proba(X), equal.predict_log_proba(X))


@pytest.mark.parametrize(
    ("factor", "shown"), [(0, "0"), (-2.0, "-2"), (1e300, r"1e\+300"), (np.nan, "nan")], ids=str
)
def test_class_weights_out_of_range_are_refused_with_a_remedy(factor, shown):
    X, y = two_classes.moons()
    model = two_classes.fixed_model(class_weight={0: factor})
    message = (
        rf"class_weight must hold positive factors from 1e-100 to 1e\+15, got {shown}: "
        r"give each class a positive factor .*; sample_weight=0 leaves rows out"
    )
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
