"""What all estimators share: their few parents, parameters, and clones."""

from inspect import signature

import pytest
from sklearn.base import BaseEstimator, clone

import sparsegpc
from sparsegpc._estimators.base_estimator import Estimator
from tests.estimators import many_classes, regression, two_classes

PUBLIC = [getattr(sparsegpc, name) for name in sparsegpc.__all__]
CLASSES = [cls for cls in PUBLIC if isinstance(cls, type) and issubclass(cls, BaseEstimator)]
MOST_PARENTS = 7


@pytest.fixture(scope="module")
def learned_classifier():
    """A classifier that has learned its kernel; not to be changed."""
    return two_classes.small_model().fit(*two_classes.moons())


@pytest.fixture(scope="module")
def learned_regressor():
    """A regressor that has learned its kernel; not to be changed."""
    return regression.model_of().fit(*regression.waves())


@pytest.fixture(scope="module", params=many_classes.EVERY)
def fitted(request):
    """A model of three classes of each likelihood; not to be changed."""
    return many_classes.fixed_model(likelihood=request.param).fit(*many_classes.blobs())


# Classes


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_class_has_few_parents_in_the_package(cls):
    parents = [base for base in cls.__mro__[1:] if base.__module__.startswith("sparsegpc.")]
    assert len(parents) <= MOST_PARENTS, parents


def test_all_that_is_fitted_is_an_estimator_of_one_kind():
    fitted = {cls for cls in CLASSES if hasattr(cls, "fit") or cls is sparsegpc.BaseSparseGP}
    assert fitted == {cls for cls in CLASSES if issubclass(cls, Estimator)}


# Parameters


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_parameters_are_what_the_constructor_was_given(cls):
    parameters = {name: object() for name in signature(cls).parameters}
    model = cls(**parameters)
    assert model.get_params(deep=False) == parameters
    assert vars(model) == parameters


# Clones


def test_a_clone_of_a_classifier_is_not_fitted(learned_classifier):
    copy = clone(learned_classifier)
    assert copy.get_params() == learned_classifier.get_params()
    assert not [name for name in vars(copy) if name.endswith("_")]


def test_a_clone_of_a_classifier_of_many_classes_is_not_fitted(fitted):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not [name for name in vars(copy) if name.endswith("_")]


def test_a_clone_of_a_regressor_is_not_fitted(learned_regressor):
    copy = clone(learned_regressor)
    assert copy.get_params() == learned_regressor.get_params()
    assert not [name for name in vars(copy) if name.endswith("_")]
