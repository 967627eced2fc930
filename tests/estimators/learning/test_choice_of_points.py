"""Inducing points as estimators choose them: methods by name, selectors, points that are given."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from sparsegpc import InducingPointSelector, SparseGPClassifier
from sparsegpc._core.rows.merged_rows import merge_rows
from sparsegpc._estimators.learning.point_selection import METHODS, make_selector
from tests.estimators import regression, two_classes


@pytest.mark.parametrize("method", METHODS)
def test_only_uniform_choice_and_centres_are_the_same_at_all_hyperparameters(method):
    rows = merge_rows(np.linspace(0.0, 1.0, 9)[:, None], np.ones(9))
    selector = make_selector(method, 3, 0.0, rows, np.random.RandomState(0))
    assert selector.n_points == 3
    assert selector.fixed is (method in ("uniform", "kmeans"))


# Classifiers


@pytest.mark.parametrize("method", ["hgv", "rpcholesky", "greedy-variance", "kmeans", "uniform"])
def test_selectors_for_labels_by_name_and_by_instance_are_the_same(method):
    X, y = two_classes.moons()
    by_name = two_classes.fixed_model(
        selector=method, n_inducing=12, selection_tol=0.0, random_state=3
    )
    instance = InducingPointSelector(method=method, n_components=12, tol=0.0, random_state=3)
    by_instance = two_classes.fixed_model(selector=instance, n_inducing=1, selection_tol=1.0)
    by_name.fit(X, y)
    by_instance.fit(X, y)
    assert_array_equal(by_name.inducing_points_, by_instance.inducing_points_)
    assert by_name.inducing_points_.shape == (12, 2)
    assert by_name.lower_bound_ == by_instance.lower_bound_
    if method == "kmeans":
        assert by_name.inducing_indices_ is None
    else:
        assert len(np.unique(by_name.inducing_indices_)) == 12
        assert_array_equal(X[by_name.inducing_indices_], by_name.inducing_points_)
    assert not hasattr(instance, "inducing_points_")


@pytest.mark.parametrize("method", ["rpcholesky", "kmeans", "uniform"])
def test_random_selectors_follow_the_random_state_and_leave_the_global_one_alone(method):
    X, y = two_classes.moons()
    np.random.seed(5)
    expected = np.random.RandomState(5).uniform()
    model = two_classes.fixed_model(selector=method, selection_tol=0.0)
    one, same, other = (
        clone(model).set_params(random_state=seed).fit(X, y).inducing_points_ for seed in (0, 0, 1)
    )
    assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert np.random.uniform() == expected


def test_an_array_of_inducing_points_is_used_as_it_is(rng):
    X, y = two_classes.moons()
    Z = rng.randn(7, 2)
    model = SparseGPClassifier(selector=Z, n_inducing=3, max_iter=5, tol=1e-2).fit(X, y)
    assert_array_equal(model.inducing_points_, Z)
    assert model.inducing_indices_ is None
    assert len(model.lower_bounds_) == 1


def test_points_given_as_an_array_have_no_indices_even_if_they_are_rows():
    X, y = two_classes.moons()
    model = two_classes.fixed_model(selector=X[[5, 3, 8]]).fit(X, y)
    assert model.inducing_indices_ is None


def test_the_tolerance_chooses_fewer_points_for_labels():
    X, y = two_classes.moons()
    sizes = [
        len(two_classes.fixed_model(n_inducing=100, selection_tol=tol).fit(X, y).inducing_points_)
        for tol in (1e-1, 1e-2, 1e-4)
    ]
    assert 1 <= sizes[0] < sizes[1] < sizes[2] < 100


@pytest.mark.filterwarnings("ignore:.* rows repeat others, targets included:UserWarning")
def test_more_points_than_distinct_labelled_rows_are_silently_all_of_them():
    X, y = two_classes.moons(20)
    X, y = np.tile(X, (2, 1)), np.tile(y, 2)
    model = two_classes.fixed_model(kernel=Matern(nu=0.5), n_inducing=500, selection_tol=0).fit(
        X, y
    )
    assert len(model.inducing_points_) == 20


def test_inducing_indices_count_rows_of_the_given_data_also_those_of_weight_zero():
    X, y = two_classes.moons(40)
    weight = np.ones(len(X))
    weight[:5] = 0.0
    model = two_classes.fixed_model(n_inducing=8).fit(X, y, weight)
    assert_array_equal(X[model.inducing_indices_], model.inducing_points_)


def test_absurd_inducing_points_are_refused():
    X, y = two_classes.moons(20)
    with pytest.raises(ValueError, match=r"selector holds a value of 1e\+200"):
        SparseGPClassifier(selector=np.full((3, 2), 1e200)).fit(X, y)


# Regressors


@pytest.mark.parametrize("method", ["hgv", "rpcholesky", "greedy-variance", "kmeans", "uniform"])
def test_selectors_for_targets_by_name_and_by_instance_are_the_same(method):
    X, y = regression.waves()
    by_name = regression.fixed_model(selector=method, selection_tol=0.0, random_state=3).fit(X, y)
    instance = InducingPointSelector(method=method, n_components=12, tol=0.0, random_state=3)
    by_instance = regression.fixed_model(selector=instance, n_inducing=1, selection_tol=1.0).fit(
        X, y
    )
    regression.assert_same_model(by_name, by_instance)
    assert by_name.inducing_points_.shape == (12, 2)
    if method == "kmeans":
        assert by_name.inducing_indices_ is None
    else:
        assert_array_equal(X[by_name.inducing_indices_], by_name.inducing_points_)
    assert not hasattr(instance, "inducing_points_")


def test_the_heteroscedastic_selector_follows_the_precision_of_known_noise():
    X, y = regression.waves(200)
    variance = np.where(X[:, 0] > 0.0, 1e-2, 1e2)
    points = (
        regression.fixed_model(selection_tol=0.0)
        .fit(X, y, noise_variance=variance)
        .inducing_points_
    )
    assert (points[:, 0] > 0.0).all()
    plain = regression.fixed_model(selection_tol=0.0, selector="greedy-variance")
    points = plain.fit(X, y, noise_variance=variance).inducing_points_
    assert 3 < (points[:, 0] > 0.0).sum() < 9


def test_the_tolerance_chooses_fewer_points_for_targets():
    X, y = regression.waves()
    sizes = [
        len(regression.fixed_model(n_inducing=60, selection_tol=tol).fit(X, y).inducing_points_)
        for tol in (1.0, 1e-2, 1e-4)
    ]
    assert sizes[0] < sizes[1] < sizes[2]


def test_more_points_than_distinct_rows_with_targets_are_silently_all_of_them():
    X, y = regression.waves(20)
    model = regression.fixed_model(**regression.ALL_ROWS).fit(
        np.tile(X, (2, 1)), np.concatenate([y, y + 1.0])
    )
    assert_array_equal(np.sort(model.inducing_points_, axis=0), np.sort(X, axis=0))


def test_points_given_as_an_array_are_used_as_they_are():
    X, y = regression.waves()
    points = regression.grid()
    model = regression.fixed_model(selector=points, n_inducing=1).fit(X, y)
    assert_array_equal(model.inducing_points_, points)
    assert model.inducing_indices_ is None


@pytest.mark.parametrize("noise", regression.NOISES)
@regression.quiet
def test_moving_the_points_raises_the_bound(noise):
    X, y = regression.waves(80)
    model = regression.model_of(n_inducing=6, noise=noise, kernel=regression.KERNEL, tol=1e-4)
    still = clone(model).fit(X, y)
    moved = model.set_params(optimize_inducing=True).fit(X, y)
    assert moved.lower_bound_ > still.lower_bound_ + 1.0
    assert moved.inducing_indices_ is None
    assert moved.inducing_points_.shape == (6, 2)
    assert moved.certificate(X, y).upper_bound >= moved.lower_bound_


def test_the_default_chooses_centroids_where_they_have_a_higher_bound():
    """With few points in many columns means of rows are better than rows."""
    rng = np.random.RandomState(0)
    X = rng.randn(150, 6)
    y = X[:, 0] + 0.4 * rng.randn(150) > 0.0
    options = {"n_inducing": 6, "kernel": ConstantKernel(4.0) * RBF(3.0), "optimizer": None}
    model = SparseGPClassifier(**options).fit(X, y)
    rows = SparseGPClassifier(selector="rpcholesky", **options).fit(X, y)
    assert model.inducing_indices_ is None
    assert_array_equal(X[rows.inducing_indices_], rows.inducing_points_)
    assert model.lower_bound_ > rows.lower_bound_ + 1.0
    again = SparseGPClassifier(**options).fit(X[::-1], y[::-1])
    assert_array_equal(again.inducing_points_, model.inducing_points_)
    assert model.truncate(3, X, y).lower_bound_ < model.lower_bound_
    assert model.certificate(X, y).gap > 0.0


def test_the_default_keeps_rows_where_centroids_could_gain_nothing():
    X = np.linspace(-2.0, 2.0, 60)[:, None]
    options = {"kernel": RBF(1.0), "optimizer": None}
    model = SparseGPClassifier(**options).fit(X, X[:, 0] > 0.0)
    rows = SparseGPClassifier(selector="rpcholesky", **options).fit(X, X[:, 0] > 0.0)
    assert_array_equal(model.inducing_indices_, rows.inducing_indices_)
