"""What estimators keep of a fit, and what a saved one gives back."""

import io
import pickle

import joblib
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sparsegpc._estimators.saving.state import (
    FORMAT,
    KIND,
    KIND_OF,
    KINDS,
    MARK,
    packed,
    refuse_other_formats,
    restored_state,
    saved_state,
    unpacked,
)
from tests.estimators import many_classes, regression, two_classes


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


# What is kept


def every_array(value, seen):
    """Yield each array within an object, whatever holds it."""
    if id(value) in seen:
        return
    seen.append(id(value))
    if isinstance(value, np.ndarray):
        yield value
        if value.base is not None:
            yield from every_array(value.base, seen)
    elif isinstance(value, dict):
        for part in value.values():
            yield from every_array(part, seen)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from every_array(part, seen)
    elif hasattr(value, "__dict__"):
        yield from every_array(vars(value), seen)


def test_no_labelled_rows_are_kept_but_the_inducing_points():
    X, y = two_classes.moons(500)
    model = two_classes.fixed_model(n_inducing=20, selection_tol=0.0).fit(
        X, y, np.linspace(0.5, 1.0, 500)
    )
    arrays = list(every_array(model, []))
    assert any(array.shape == (20, 20) for array in arrays)
    assert max(array.size for array in arrays) <= 400
    assert len(pickle.dumps(model)) < 20_000


@regression.quiet
@pytest.mark.parametrize("noise", [*regression.NOISES, "known"])
def test_no_rows_with_targets_are_kept_but_the_inducing_points(noise):
    X, y = regression.waves(700)
    variance = regression.known_noise(700) if noise == "known" else None
    model = regression.model_of(
        noise="homoscedastic" if variance is not None else noise, max_iter=3, max_reselections=0
    ).fit(X, y, noise_variance=variance)
    arrays = list(every_array(model, []))
    assert any(array.shape == (12, 12) for array in arrays)
    assert max(array.size for array in arrays) < 700
    assert len(pickle.dumps(model)) < 60_000


# What comes back


@pytest.mark.parametrize("library", ["pickle", "joblib"])
def test_a_saved_classifier_predicts_the_same(learned_classifier, library):
    if library == "pickle":
        copy = pickle.loads(pickle.dumps(learned_classifier))
    else:
        stream = io.BytesIO()
        joblib.dump(learned_classifier, stream)
        stream.seek(0)
        copy = joblib.load(stream)
    assert_array_equal(
        copy.predict_proba(two_classes.grid()), learned_classifier.predict_proba(two_classes.grid())
    )
    assert copy.lower_bound_ == learned_classifier.lower_bound_
    assert copy.lower_bound(X=two_classes.grid(), y=np.arange(len(two_classes.grid())) % 2) < 0.0


def test_a_saved_classifier_of_many_classes_predicts_the_same(fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(
        copy.predict_proba(many_classes.grid()), fitted.predict_proba(many_classes.grid())
    )
    assert (
        copy.certificate(*many_classes.blobs()).gap == fitted.certificate(*many_classes.blobs()).gap
    )
    assert copy.lower_bound(None, *many_classes.blobs()) == fitted.lower_bound(
        None, *many_classes.blobs()
    )
    assert len(pickle.dumps(fitted)) < 40_000


@regression.quiet
@pytest.mark.parametrize("noise", regression.NOISES)
@pytest.mark.parametrize("library", ["pickle", "joblib"])
def test_a_saved_regressor_is_the_same(noise, library):
    X, y = regression.waves()
    model = regression.model_of(noise=noise, max_iter=5).fit(X, y)
    if library == "pickle":
        copy = pickle.loads(pickle.dumps(model))
    else:
        stream = io.BytesIO()
        joblib.dump(model, stream)
        stream.seek(0)
        copy = joblib.load(stream)
    assert_array_equal(
        copy.predict(regression.grid(), return_std=True),
        model.predict(regression.grid(), return_std=True),
    )
    assert_array_equal(copy.sample_y(regression.grid()), model.sample_y(regression.grid()))
    assert copy.lower_bound(X=X, y=y) == model.lower_bound(X=X, y=y)
    assert copy.truncate(3, X, y).lower_bound_ == model.truncate(3, X, y).lower_bound_
    assert str(copy.certificate(X, y)) == str(model.certificate(X, y))


# How parts are packed


def objects_in(value):
    """Yield each part of what was packed, however deep."""
    yield value
    if type(value) is dict:
        value = list(value.values())
    if type(value) in (list, tuple):
        for part in value:
            yield from objects_in(part)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_kind_is_packed_as_a_dict_and_comes_back(kind):
    array = np.arange(3.0)
    if issubclass(kind, tuple):
        part = kind(*([array] * len(kind._fields)))
        fields = part._asdict()
    else:
        part = kind.__new__(kind)
        fields = {"array": array, "inner": (1.0, [array])}
        vars(part).update(fields)
    plain = packed([part, (part, None)])
    assert plain[0][KIND] == KIND_OF[kind]
    assert not any(type(value) in KIND_OF for value in objects_in(plain))
    back, (again, nothing) = unpacked(plain)
    assert nothing is None
    for copy in (back, again):
        assert type(copy) is kind
        values = copy._asdict() if issubclass(kind, tuple) else vars(copy)
        assert values.keys() == fields.keys()
        for name in ("array", "w", "Z"):
            if name in fields:
                assert values[name] is array


def test_names_of_kinds_are_one_to_one():
    assert len(KIND_OF) == len(KINDS)


def test_what_users_bring_along_is_packed_as_it_is():
    class Own:
        pass

    own = Own()
    for part in (own, 1, "text", None, np.ones(2), {"a": own}, {"a": [1]}):
        assert packed(part) is part
        assert unpacked(part) is part


def test_only_private_attributes_are_packed(learned_regressor):
    state = saved_state(dict(vars(learned_regressor)))
    assert state[MARK]["format"] == FORMAT
    for name, value in vars(learned_regressor).items():
        if not name.startswith("_"):
            assert state[name] is value
    restored = restored_state("SparseGPRegressor", state)
    assert restored.keys() == vars(learned_regressor).keys()
    assert type(restored["_posterior"]) is type(learned_regressor._posterior)


@pytest.mark.parametrize("mark", [None, {"version": "0.0.1", "format": FORMAT - 1}], ids=str)
def test_other_formats_are_refused(mark):
    with pytest.raises(ValueError, match=r"this Name was saved by .*fit it again with"):
        refuse_other_formats("Name", mark)
    refuse_other_formats("Name", {"version": "0.0.1", "format": FORMAT})
