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


@settings(max_examples=10)
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


@pytest.mark.parametrize("names", LABELS, ids=str)
@pytest.mark.parametrize("likelihood", ["softmax", "bernoulli-logit"])
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


@many_classes.every_likelihood
@pytest.mark.parametrize("n_classes", [2, 3])
def test_class_weights_multiply_the_weights(likelihood, n_classes, rng):
    X, y = many_classes.blobs(60, n_classes)
    keep = (y > 0) | (rng.uniform(size=60) < 0.4)
    X, y = X[keep], y[keep]
    weight = rng.uniform(0.5, 2.0, len(y))
    totals = np.bincount(y, weight)
    balanced = weight * (weight.sum() / n_classes / totals)[y]
    given = {0: 3.0, n_classes - 1: 0.5}
    by_dict = weight * np.where(y == 0, 3.0, np.where(y == n_classes - 1, 0.5, 1.0))
    for class_weight, equal in (("balanced", balanced), (given, by_dict)):
        model = many_classes.fixed_model(likelihood=likelihood, class_weight=class_weight).fit(
            X, y, weight
        )
        other = many_classes.fixed_model(likelihood=likelihood).fit(X, y, equal)
        assert_allclose(model.lower_bound_, other.lower_bound_, rtol=1e-9)
        assert_allclose(
            model.predict_proba(many_classes.grid()),
            other.predict_proba(many_classes.grid()),
            atol=1e-9,
        )
        assert_allclose(model.lower_bound(X=X, y=y, sample_weight=weight), model.lower_bound_)
        assert_allclose(model.certificate(X, y, weight).lower_bound, model.lower_bound_)
        # The model of a class has been given the product.
        for k, one in enumerate(model.estimators_ or []):
            bound = one.lower_bound(X=X, y=(y == k).astype(int), sample_weight=equal)
            assert_allclose(bound, one.lower_bound_)
    assert model.certificate(X, y, weight).total_weight == pytest.approx(by_dict.sum())


def test_class_weights_by_name_and_those_left_out():
    X, y = many_classes.blobs()
    names = np.array(["ant", "bee", "cat"])
    by_name = many_classes.fixed_model(class_weight={"bee": 4.0}).fit(X, names[y])
    weighted = many_classes.fixed_model().fit(X, y, np.where(y == 1, 4.0, 1.0))
    assert_array_equal(
        by_name.predict_proba(many_classes.grid()), weighted.predict_proba(many_classes.grid())
    )
    assert by_name.predict_proba(many_classes.grid())[:, 1].mean() > (
        many_classes.fixed_model().fit(X, y).predict_proba(many_classes.grid())[:, 1].mean()
    )


def test_the_lower_bound_of_rows_of_one_class_with_balanced_weights():
    X, y = many_classes.blobs()
    model = many_classes.fixed_model(class_weight="balanced").fit(X, y)
    assert np.isfinite(model.lower_bound(X=X[y == 1], y=y[y == 1]))
