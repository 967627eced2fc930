"""The selector as a transformer, against dense linear algebra and LAPACK's pivoted Cholesky."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg.lapack import dpstrf
from sklearn import config_context
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    Matern,
    WhiteKernel,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import InducingPointSelector
from sparsegpc._estimators.learning.point_selection import METHODS, PIVOTED
from tests.estimators.two_classes import moons

EVERY_METHOD = pytest.mark.parametrize("method", METHODS)
EVERY_PIVOTED = pytest.mark.parametrize("method", PIVOTED)
KERNELS = {
    "rbf": ConstantKernel(2.3) * RBF(0.9),
    "matern": Matern([0.7, 1.4], nu=1.5),
    "not-stationary": RBF(0.6) + ConstantKernel(0.4) * DotProduct(0.5),
    "by-values": Matern(0.8, nu=0.7),
}
EVERY_KERNEL = pytest.mark.parametrize("kernel", KERNELS.values(), ids=list(KERNELS))


def read_only(array):
    array.flags.writeable = False
    return array


@pytest.fixture
def X(rng):
    return read_only(rng.randn(40, 2))


@pytest.fixture
def two_classes(rng):
    """Two overlapping classes on either side of the line where the first column is zero."""
    X = rng.uniform(-2.0, 2.0, size=(150, 2))
    y = np.where(X[:, 0] + 0.15 * rng.randn(150) > 0.0, "right", "left")
    return read_only(X), y


def selector(method="hgv", kernel=None, **params):
    return InducingPointSelector(
        kernel, **{"method": method, "n_components": 12, "tol": 0.0, "random_state": 0, **params}
    )


def as_set(points):
    return {tuple(point) for point in points.tolist()}


def residuals(kernel, X, Z):
    """Return the diagonal of the covariance of f at X given f at Z, by dense solves."""
    if len(Z) == 0:
        return kernel.diag(X)
    Kuf = kernel(Z, X)
    return kernel.diag(X) - np.einsum("mn,mn->n", Kuf, np.linalg.solve(kernel(Z), Kuf))


# What is chosen


@EVERY_METHOD
@EVERY_KERNEL
def test_every_method_with_every_kind_of_kernel(method, kernel, X):
    fitted = selector(method, kernel).fit(X)
    assert fitted.inducing_points_.shape == (12, 2)
    assert fitted.n_components_ == 12
    assert fitted.n_features_in_ == 2
    assert fitted.kernel_ == kernel
    assert 0.0 <= fitted.jitter_ < 1e-9
    assert fitted.transform(X).shape == (40, 12)
    assert fitted.transform(X).dtype == np.float64


@EVERY_PIVOTED
def test_indices_refer_to_the_rows_given(method, X):
    fitted = selector(method).fit(X)
    assert_array_equal(X[fitted.inducing_indices_], fitted.inducing_points_)
    assert len(set(fitted.inducing_indices_.tolist())) == 12


def test_kmeans_gives_the_centres_of_scikit_learn_and_no_indices(X):
    fitted = selector("kmeans").fit(X)
    in_order = X[np.lexsort(X.T[::-1])]
    expected = KMeans(12, n_init=1, random_state=0).fit(in_order).cluster_centers_
    assert_allclose(fitted.inducing_points_, expected, rtol=1e-12)
    assert fitted.inducing_indices_ is None
    assert fitted.traces_ is None
    assert fitted.costs_ is None


def test_kmeans_counts_each_copy_of_a_row(X):
    repeated = np.repeat(X, np.arange(40) % 5 + 1, axis=0)
    fitted = selector("kmeans", n_components=1).fit(repeated)
    assert_allclose(fitted.inducing_points_, [repeated.mean(axis=0)], rtol=1e-12)


@pytest.mark.parametrize("method", ["hgv", "greedy-variance"])
@EVERY_KERNEL
def test_greedy_choice_has_the_pivots_of_lapack(method, kernel, X):
    in_order = X[np.lexsort(X.T[::-1])]
    _, pivots, _, _ = dpstrf(kernel(in_order), lower=1)
    expected = in_order[pivots[:12] - 1]
    assert_array_equal(selector(method, kernel).fit(X).inducing_points_, expected)


def test_greedy_choice_with_weights_has_the_pivots_of_lapack_on_the_scaled_kernel(X, rng):
    kernel, weight = KERNELS["rbf"], rng.uniform(0.1, 10.0, 40)
    scaled = np.sqrt(weight)[:, None] * kernel(X) * np.sqrt(weight)
    _, pivots, _, _ = dpstrf(scaled, lower=1)
    fitted = selector("hgv", kernel).fit(X, sample_weight=weight)
    assert_array_equal(fitted.inducing_indices_, pivots[:12] - 1)


@pytest.mark.parametrize("method", PIVOTED)
@pytest.mark.parametrize("n_components", [1, 5, 8, 17, 39])
def test_choice_is_nested(method, n_components, X):
    kernel = Matern(0.5, nu=0.5)
    long = selector(method, kernel, n_components=40).fit(X)
    short = selector(method, kernel, n_components=n_components).fit(X)
    assert_array_equal(short.inducing_indices_, long.inducing_indices_[:n_components])


@EVERY_PIVOTED
@pytest.mark.parametrize("tol", [0.1, 1e-2, 1e-3])
def test_tolerance_is_reached_with_the_fewest_points(method, tol, X):
    kernel = KERNELS["rbf"]
    fitted = selector(method, kernel, n_components=40, tol=tol).fit(X)
    costs = [
        0.5 * residuals(kernel, X, fitted.inducing_points_[:m]).mean()
        for m in (fitted.n_components_ - 1, fitted.n_components_)
    ]
    assert costs[1] <= tol < costs[0]
    assert fitted.n_components_ > 1


@EVERY_PIVOTED
def test_any_tolerance_leaves_one_point(method, X):
    assert selector(method, tol=1e6).fit(X).n_components_ == 1


def test_tolerance_does_not_apply_to_kmeans(X):
    assert selector("kmeans", tol=1e6).fit(X).n_components_ == 12


@EVERY_PIVOTED
@EVERY_KERNEL
def test_traces_and_costs_are_those_of_dense_residuals(method, kernel, X, rng):
    weight = rng.uniform(0.1, 3.0, 40)
    fitted = selector(method, kernel).fit(X, sample_weight=weight)
    left = np.array([weight * residuals(kernel, X, fitted.inducing_points_[:m]) for m in range(13)])
    assert_allclose(fitted.traces_, left.sum(axis=1), rtol=1e-6)
    assert_allclose(fitted.costs_, 0.5 * left.sum(axis=1) / weight.sum(), rtol=1e-6)


def test_traces_and_costs_of_repeated_rows_count_each_copy(X):
    kernel, counts = KERNELS["rbf"], np.arange(40) % 3 + 1
    fitted = selector(kernel=kernel).fit(np.repeat(X, counts, axis=0))
    left = counts * residuals(kernel, X, fitted.inducing_points_)
    assert_allclose(fitted.traces_[-1], left.sum(), rtol=1e-6)
    # Copies share one value of f, so they share one logarithm.
    assert_allclose(fitted.costs_[-1], 0.5 * left.sum() / counts.sum(), rtol=1e-6)


@EVERY_PIVOTED
def test_more_components_than_rows_chooses_every_row_once(method, X):
    fitted = selector(method, Matern(0.5, nu=0.5), n_components=1000).fit(X)
    assert sorted(fitted.inducing_indices_) == list(range(40))
    assert fitted.traces_.shape == fitted.costs_.shape == (41,)


def test_kmeans_with_more_components_than_distinct_rows(X):
    fitted = selector("kmeans", n_components=1000).fit(np.repeat(X, 2, axis=0))
    assert_allclose(sorted(fitted.inducing_points_.tolist()), sorted(X.tolist()), rtol=1e-12)


@EVERY_METHOD
def test_constant_rows_give_one_point(method):
    fitted = selector(method, tol=1e-3).fit(np.full((9, 3), 1e7 / 3.0))
    assert_array_equal(fitted.inducing_points_, np.full((1, 3), 1e7 / 3.0))
    assert_allclose(fitted.transform(np.full((2, 3), 1e7 / 3.0)), np.ones((2, 1)), rtol=1e-8)


def test_one_row():
    fitted = selector().fit([[1.0, 2.0]])
    assert_array_equal(fitted.inducing_indices_, [0])


def test_linear_kernel_stops_at_its_rank(rng):
    X = rng.randn(30, 3)
    assert selector(kernel=DotProduct(0.5), n_components=30).fit(X).n_components_ == 4


# Order and copies of the rows

few_values = st.builds(
    lambda n, d, seed: np.random.RandomState(seed).randint(-2, 3, size=(n, d)) / 2.0,
    st.integers(2, 25),
    st.integers(1, 3),
    st.integers(0, 2**31),
)


@given(few_values, st.integers(0, 2**31), st.sampled_from(tuple(PIVOTED)), st.integers(1, 9))
def test_order_and_copies_of_rows_change_the_indices_only(X, seed, method, n_components):
    permutation = np.random.RandomState(seed).permutation(len(X))
    X = read_only(X)
    original = selector(method, n_components=n_components).fit(X)
    shuffled = selector(method, n_components=n_components).fit(X[permutation])
    assert_array_equal(shuffled.inducing_points_, original.inducing_points_)
    assert_array_equal(shuffled.transform(X), original.transform(X))
    assert_array_equal(shuffled.costs_, original.costs_)
    for fitted, rows in ((original, X), (shuffled, X[permutation])):
        assert_array_equal(rows[fitted.inducing_indices_], fitted.inducing_points_)
        assert len(as_set(fitted.inducing_points_)) == fitted.n_components_
        # The first of the copies.
        firsts = [rows.tolist().index(point) for point in fitted.inducing_points_.tolist()]
        assert_array_equal(fitted.inducing_indices_, firsts)


@pytest.mark.parametrize("seed", range(5))
def test_kmeans_does_not_depend_on_the_order_of_the_rows(seed, X):
    permutation = np.random.RandomState(seed).permutation(40)
    original, shuffled = selector("kmeans").fit(X), selector("kmeans").fit(X[permutation])
    assert_array_equal(shuffled.inducing_points_, original.inducing_points_)


@EVERY_METHOD
def test_repeating_every_row_changes_nothing(method, X):
    once, twice = selector(method).fit(X), selector(method).fit(np.tile(X, (2, 1)))
    assert_allclose(twice.inducing_points_, once.inducing_points_, rtol=1e-12)
    assert_allclose(twice.transform(X), once.transform(X), atol=1e-10)


@pytest.mark.parametrize("weighting", ["classification", None])
def test_order_of_weighted_rows_does_not_matter(weighting, two_classes, rng):
    X, y = two_classes
    X = np.round(X, 1)
    weight, permutation = rng.uniform(0.1, 10.0, 150), rng.permutation(150)
    original = selector(weighting=weighting).fit(X, y, weight)
    shuffled = selector(weighting=weighting)
    shuffled.fit(X[permutation], y[permutation], weight[permutation])
    assert_array_equal(shuffled.inducing_points_, original.inducing_points_)
    assert_allclose(shuffled.costs_, original.costs_, rtol=1e-10)


# The features


@EVERY_METHOD
@EVERY_KERNEL
def test_features_are_those_of_dense_linear_algebra(method, kernel, X, rng):
    fitted = selector(method, kernel, n_components=6).fit(X)
    Z, new = fitted.inducing_points_, rng.randn(15, 2)
    Kuu = kernel(Z)
    Luu = np.linalg.cholesky(Kuu + fitted.jitter_ * Kuu.diagonal().mean() * np.eye(len(Z)))
    assert_allclose(fitted.transform(new), np.linalg.solve(Luu, kernel(Z, new)).T, atol=1e-9)


@EVERY_METHOD
@EVERY_KERNEL
def test_inner_products_are_below_the_kernel(method, kernel, X, rng):
    fitted, rows = selector(method, kernel).fit(X), np.vstack([X, rng.randn(20, 2)])
    V = fitted.transform(rows)
    left = kernel(rows) - V @ V.T
    assert np.linalg.eigvalsh(left).min() >= -1e-10
    assert np.trace(left) > 1e-3


@EVERY_PIVOTED
@EVERY_KERNEL
def test_inner_products_with_inducing_rows_are_the_kernel(method, kernel, X):
    fitted = selector(method, kernel).fit(X)
    V, K = fitted.transform(X), kernel(X)
    chosen = fitted.inducing_indices_
    assert_allclose((V @ V.T)[chosen], K[chosen], atol=1e-6)


def test_features_at_every_row_reproduce_the_kernel(X):
    kernel = Matern(0.5, nu=0.5)
    V = selector(kernel=kernel, n_components=40).fit_transform(X)
    assert_allclose(V @ V.T, kernel(X), atol=1e-6)


@EVERY_KERNEL
def test_features_of_a_row_do_not_depend_on_the_other_rows(kernel, X, rng):
    fitted, new = selector(kernel=kernel).fit(X), rng.randn(30, 2)
    together = fitted.transform(new)
    alone = np.vstack([fitted.transform(row[None]) for row in new])
    beside = fitted.transform(np.vstack([new, 1e6 * rng.randn(5, 2)]))[:30]
    assert_allclose(alone, together, atol=1e-11)
    assert_allclose(beside, together, atol=1e-11)


def test_features_far_from_all_points_are_zero(X):
    V = selector(kernel=RBF(0.5)).fit(X).transform(np.array([[1e3, 1e3], [-1e8, 0.0]]))
    assert_allclose(V, 0.0, atol=1e-12)


@pytest.mark.parametrize(("scale", "offset"), [(1e-12, 0.0), (1e12, 0.0), (1.0, 2.0**30)])
def test_default_kernel_survives_scales_and_offsets(scale, offset, rng):
    # Exact in binary, and still so after the offset.
    X = rng.randint(-512, 512, size=(40, 2)) / 256.0
    plain, moved = selector().fit(X), selector().fit(scale * X + offset)
    assert_array_equal(moved.inducing_indices_, plain.inducing_indices_)
    assert_allclose(moved.transform(scale * X + offset), plain.transform(X), atol=1e-6)


def test_default_kernel_is_rbf_at_the_typical_distance_of_two_rows(X):
    kernel = selector().fit(X).kernel_
    distance = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2).mean())
    assert_allclose(kernel(X), RBF(distance)(X), rtol=1e-10)


# Weights of the rows


def test_weights_draw_points_to_where_they_are_large(X):
    weight = np.where(X[:, 0] > 0.0, 1e3, 1e-3)
    kernel = RBF(0.5)
    weighted = selector("hgv", kernel).fit(X, sample_weight=weight)
    plain = selector("hgv", kernel).fit(X)
    assert (weighted.inducing_points_[:, 0] > 0.0).all()
    assert (plain.inducing_points_[:, 0] > 0.0).sum() < 10


def test_rows_of_weight_zero_are_ignored(X):
    weight = (np.arange(40) % 2).astype(float)
    for method in ("hgv", "rpcholesky"):
        fitted = selector(method, RBF(0.5), n_components=40).fit(X, sample_weight=weight)
        assert (fitted.inducing_indices_ % 2 == 1).all()
        others = selector(method, RBF(0.5), n_components=40).fit(X[1::2])
        assert_array_equal(fitted.inducing_points_, others.inducing_points_)
        assert_array_equal(fitted.costs_, others.costs_)


def test_weights_decide_when_greedy_variance_stops_but_not_what_it_chooses(X):
    kernel, weight = RBF(0.5), np.ones(40)
    plain = selector("greedy-variance", kernel, n_components=40).fit(X)
    # Hardly anything is left where the weight is once the first of the points are chosen.
    weight[plain.inducing_indices_[:3]] = 1e6
    weighted = selector("greedy-variance", kernel, n_components=40, tol=1e-3)
    weighted.fit(X, sample_weight=weight)
    assert_array_equal(weighted.inducing_indices_, plain.inducing_indices_[:3])


def test_unit_weights_are_none(X):
    one, other = selector().fit(X, sample_weight=np.ones(40)), selector().fit(X)
    assert_array_equal(one.inducing_indices_, other.inducing_indices_)
    assert_array_equal(one.costs_, other.costs_)


def test_weights_may_be_a_list_or_a_series_and_are_not_modified(X, rng):
    weight = read_only(rng.uniform(0.1, 10.0, 40))
    expected = selector().fit(X, sample_weight=weight).inducing_indices_
    for form in (weight.tolist(), pd.Series(weight)):
        assert_array_equal(selector().fit(X, sample_weight=form).inducing_indices_, expected)


@EVERY_METHOD
@pytest.mark.parametrize("weighting", [None, "classification"])
def test_a_weight_has_the_effect_of_copies(method, weighting, two_classes, rng):
    X, y = two_classes
    counts = rng.randint(1, 5, len(X))
    chooser = selector(method, RBF(0.5), weighting=weighting)
    weighted = clone(chooser).fit(X, y, counts)
    repeated = clone(chooser).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert_allclose(weighted.inducing_points_, repeated.inducing_points_, rtol=1e-9)
    if method in PIVOTED:
        assert_allclose(weighted.traces_, repeated.traces_, rtol=1e-9)
        assert_allclose(weighted.costs_, repeated.costs_, rtol=1e-9)


def test_the_noise_variance_divides_the_weights(X, rng):
    kernel, noise, weight = KERNELS["rbf"], rng.uniform(0.1, 10.0, 40), rng.uniform(0.5, 2.0, 40)
    precision = weight / noise
    scaled = np.sqrt(precision)[:, None] * kernel(X) * np.sqrt(precision)
    _, pivots, _, _ = dpstrf(scaled, lower=1)
    fitted = selector("hgv", kernel).fit(X, sample_weight=weight, noise_variance=noise)
    assert_array_equal(fitted.inducing_indices_, pivots[:12] - 1)
    left = precision * residuals(kernel, X, fitted.inducing_points_)
    assert_allclose(fitted.traces_[-1], left.sum(), rtol=1e-6)
    assert_allclose(fitted.costs_[-1], 0.5 * left.sum() / weight.sum(), rtol=1e-6)


def test_less_noise_needs_more_points(X):
    n_points = [
        len(selector("hgv", RBF(0.5), n_components=40, tol=1e-2).fit(X, noise_variance=v).traces_)
        for v in (10.0, 1.0, 0.01)
    ]
    assert n_points == sorted(set(n_points))
    with pytest.raises(ValueError, match="noise_variance must be None with weighting"):
        selector(weighting="classification").fit(X, X[:, 0] > 0.0, noise_variance=1.0)
    with pytest.raises(ValueError, match="noise_variance must be a number or have the shape"):
        selector().fit(X, noise_variance=np.ones(3))


def test_weights_are_split_with_the_rows_in_cross_validation(X, rng):
    weight = rng.uniform(0.1, 10.0, 40)
    with config_context(enable_metadata_routing=True):
        chooser = selector().set_fit_request(sample_weight=True)
        ridge = Ridge().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        model = make_pipeline(chooser, ridge)
        found = cross_validate(
            model,
            X,
            X[:, 0],
            cv=2,
            params={"sample_weight": weight},
            return_estimator=True,
            return_indices=True,
        )
    for fitted, rows in zip(found["estimator"], found["indices"]["train"], strict=True):
        expected = selector().fit(X[rows], sample_weight=weight[rows])
        assert_array_equal(fitted[0].inducing_points_, expected.inducing_points_)


def dense_polya_gamma_precisions(K, y):
    """Return the precisions of the full model, by its fixed point; the prior mean maximises."""
    precision = np.full(len(y), 0.25)
    for _ in range(500):
        solve = np.linalg.inv(K + np.diag(1.0 / precision))
        target = 0.5 * y / precision
        prior_mean = (solve @ target).sum() / solve.sum()
        mean = prior_mean + K @ solve @ (target - prior_mean)
        tilt = np.sqrt(mean**2 + (K - K @ solve @ K).diagonal())
        precision = np.tanh(tilt / 2.0) / (2.0 * tilt)
    return precision


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classification_weighs_rows_by_the_precisions_of_the_full_model(n_classes, X, rng):
    """With more than two classes, by the sum over full models of one class against the rest."""
    y = np.digitize(X[:, 0] + 0.3 * rng.randn(40), [-0.5, 0.5][: n_classes - 1])
    kernel = ConstantKernel(4.0) * Matern(1.0, nu=0.5)
    precision = sum(
        dense_polya_gamma_precisions(kernel(X), np.where(y == k, 1.0, -1.0))
        for k in (range(3) if n_classes == 3 else [1])
    )
    fitted = selector(kernel=kernel, weighting="classification", n_components=40).fit(X, y)
    left = np.array(
        [precision * residuals(kernel, X, fitted.inducing_points_[:m]) for m in range(40)]
    )
    assert precision.min() < 0.8 * precision.max()
    assert_allclose(fitted.traces_[:-1], left.sum(axis=1), rtol=5e-3)
    assert_allclose(fitted.costs_[:-1], 0.5 * left.mean(axis=1), rtol=5e-3)


@pytest.mark.parametrize("method", ["hgv", "rpcholesky"])
def test_classification_chooses_more_points_near_the_boundary(method, two_classes):
    X, y = two_classes
    # Ample variance, so that the function is known to be large far from the boundary.
    kernel = ConstantKernel(1e4) * RBF(0.3)
    shares = {}
    for weighting in (None, "classification"):
        fits = [
            selector(method, kernel, weighting=weighting, n_components=25, random_state=k).fit(X, y)
            for k in range(10)
        ]
        shares[weighting] = np.mean([np.abs(fit.inducing_points_[:, 0]) < 0.5 for fit in fits])
    # Draws scatter by 0.09 around 0.17 for one seed.
    assert shares["classification"] > shares[None] + 0.06


def test_classification_precisions_are_those_of_labels_not_their_names(two_classes):
    X, y = two_classes
    fitted = [
        selector(weighting="classification").fit(X, labels)
        for labels in (y, y == "right", np.where(y == "left", 3, -3), pd.Series(y))
    ]
    for other in fitted[1:]:
        assert_array_equal(other.inducing_indices_, fitted[0].inducing_indices_)


def test_classification_needs_y(X):
    with pytest.raises(ValueError, match="requires y to be passed"):
        selector(weighting="classification").fit(X)


def test_classification_needs_two_classes(X):
    with pytest.raises(ValueError, match="one class"):
        selector(weighting="classification").fit(X, ["a"] * 40)


def test_classification_refuses_a_continuous_target(X, rng):
    with pytest.raises(ValueError, match="Unknown label type"):
        selector(weighting="classification").fit(X, rng.randn(40))


def test_target_is_ignored_without_classification(X, rng):
    expected = selector().fit(X).inducing_indices_
    for y in (rng.randn(40), np.arange(40) % 3, ["a"] * 40):
        assert_array_equal(selector().fit(X, y).inducing_indices_, expected)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(39), r"shape == \(39,\)"),
        (-np.ones(40), "must not be negative, got -1: a weight of zero leaves a row out"),
        (np.full(40, 1e-200), "must be zero or from"),
        (np.zeros(40), "non-zero number"),
        (np.full(40, np.nan), "contains NaN"),
        (np.full(40, np.inf), "contains infinity"),
        (np.ones((40, 1)), "must be 1D array"),
    ],
)
def test_bad_weights_are_refused(weight, message, X):
    with pytest.raises(ValueError, match=message):
        selector().fit(X, sample_weight=weight)


@pytest.mark.parametrize("weighting", ["precision", 2.0, np.ones(40)])
def test_an_unknown_weighting_is_refused(weighting, X):
    with pytest.raises(ValueError, match="The 'weighting' parameter"):
        selector(weighting=weighting).fit(X)


# As a scikit-learn transformer


def test_feature_names_out(X):
    fitted = selector(n_components=3).fit(X)
    names = [f"inducingpointselector{k}" for k in range(3)]
    assert_array_equal(fitted.get_feature_names_out(), names)


@pytest.mark.parametrize(("library", "frame"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_set_output(library, frame, X):
    expected = selector(n_components=3).fit_transform(X)
    wrapped = selector(n_components=3).set_output(transform=library).fit_transform(X)
    assert isinstance(wrapped, frame)
    assert list(wrapped.columns) == [f"inducingpointselector{k}" for k in range(3)]
    assert_array_equal(wrapped.to_numpy(), expected)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames(frame, X):
    table = frame({"height": X[:, 0], "width": X[:, 1]})
    fitted, plain = selector().fit(table), selector().fit(X)
    assert_array_equal(fitted.inducing_points_, plain.inducing_points_)
    assert_array_equal(fitted.transform(table), plain.transform(X))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_names_of_columns(frame, X):
    table = frame({"height": X[:, 0], "width": X[:, 1]})
    if not hasattr(StandardScaler().fit(table), "feature_names_in_"):
        pytest.skip("this scikit-learn does not see the names of this kind of frame")
    fitted = selector().fit(table)
    assert_array_equal(fitted.feature_names_in_, ["height", "width"])
    with pytest.raises(ValueError, match="feature names"):
        fitted.transform(table[["width", "height"]])


def test_frames_with_another_index_give_positions_not_labels(X):
    table = pd.DataFrame(X, columns=["a", "b"], index=np.arange(1000, 1040))
    fitted = selector().fit(table)
    assert_array_equal(table.to_numpy()[fitted.inducing_indices_], fitted.inducing_points_)


def test_integers_and_lists_become_floats():
    fitted = selector(n_components=2).fit([[0, 1], [2, 3], [5, 5]])
    assert fitted.inducing_points_.dtype == np.float64


@pytest.mark.parametrize("weighting", [None, "classification"])
def test_pipeline_with_a_linear_classifier(weighting, rng):
    """A ring around a disc, which no line separates."""
    X = rng.randn(150, 2) * [1.0, 100.0]
    y = np.hypot(X[:, 0], X[:, 1] / 100.0) > 1.1
    points = InducingPointSelector(n_components=40, weighting=weighting)
    model = make_pipeline(StandardScaler(), points, LogisticRegression(C=100.0)).fit(X, y)
    assert model.score(X, y) > 0.95
    assert LogisticRegression().fit(X, y).score(X, y) < 0.8


def test_the_selector_feeds_a_linear_model():
    X, y = moons()
    selector = InducingPointSelector(n_components=20, weighting="classification")
    pipeline = make_pipeline(StandardScaler(), selector, LogisticRegression(C=10.0)).fit(X, y)
    assert pipeline.score(*moons(200, seed=1)) > 0.85


def test_grid_search_over_the_number_of_points(rng):
    X = rng.randn(90, 2)
    y = np.hypot(*X.T) > 1.1
    model = make_pipeline(selector(kernel=RBF(1.0)), LogisticRegression(C=100.0))
    grid = {"inducingpointselector__n_components": [1, 20]}
    search = GridSearchCV(model, grid, cv=3, error_score="raise").fit(X, y)
    assert search.best_params_ == {"inducingpointselector__n_components": 20}
    assert search.best_estimator_[0].n_components_ == 20


def test_grid_search_reaches_the_kernel(rng):
    X = rng.randn(60, 2)
    y = np.hypot(*X.T) > 1.1
    model = make_pipeline(selector(kernel=RBF(1.0)), LogisticRegression(C=100.0))
    grid = {"inducingpointselector__kernel__length_scale": [1e-3, 1.0]}
    search = GridSearchCV(model, grid, cv=3, error_score="raise").fit(X, y)
    assert search.best_estimator_[0].kernel_.length_scale == 1.0
    assert model[0].kernel.length_scale == 1.0


@EVERY_METHOD
def test_pickle_and_clone(method, X):
    fitted = selector(method, KERNELS["rbf"]).fit(X)
    restored = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(restored.transform(X), fitted.transform(X))
    again = clone(fitted)
    assert not hasattr(again, "inducing_points_")
    assert_array_equal(again.fit(X).transform(X), fitted.transform(X))


@EVERY_METHOD
def test_fitting_twice_gives_the_same_and_fit_transform_both_steps(method, X, rng):
    estimator = selector(method)
    first = estimator.fit(X).transform(X)
    estimator.fit(rng.randn(10, 3))
    assert_array_equal(estimator.fit(X).transform(X), first)
    assert_array_equal(estimator.fit_transform(X), first)


@pytest.mark.parametrize("method", ["rpcholesky", "kmeans", "uniform"])
def test_random_methods_are_determined_by_their_state(method, X):
    fits = [
        selector(method, random_state=state).fit(X).inducing_points_
        for state in (3, 3, np.random.RandomState(3), 4)
    ]
    assert_array_equal(fits[0], fits[1])
    assert_array_equal(fits[0], fits[2])
    assert as_set(fits[0]) != as_set(fits[3])


@pytest.mark.parametrize("method", ["hgv", "greedy-variance"])
def test_greedy_methods_draw_nothing(method, X):
    one, other = (selector(method, random_state=state).fit(X) for state in (3, 4))
    assert_array_equal(one.inducing_indices_, other.inducing_indices_)


@EVERY_METHOD
def test_the_global_generator_is_left_alone(method, X):
    before = np.random.get_state()[1:3]
    selector(method).fit(X)
    after = np.random.get_state()[1:3]
    assert_array_equal(after[0], before[0])
    assert after[1] == before[1]


def test_parameters_are_stored_untouched(X):
    kernel, state = ConstantKernel(2.3) * RBF(0.9), np.random.RandomState(0)
    estimator = InducingPointSelector(kernel, random_state=state)
    before = repr(kernel)
    estimator.fit(X).transform(X)
    assert estimator.kernel is kernel
    assert estimator.random_state is state
    assert repr(kernel) == before


def test_a_changed_parameter_does_not_change_the_fitted_map(X):
    estimator = selector(kernel=RBF(0.9)).fit(X)
    before = estimator.transform(X)
    estimator.set_params(kernel__length_scale=3.0)
    assert_array_equal(estimator.transform(X), before)
    assert estimator.kernel_.length_scale == 0.9


def test_rows_given_are_neither_kept_nor_modified(rng):
    X = rng.randn(20, 2)
    before = X.copy()
    fitted = selector().fit(X)
    fitted.transform(X)
    assert_array_equal(X, before)
    held = [value for value in vars(fitted).values() if isinstance(value, np.ndarray)]
    assert not any(np.shares_memory(value, X) for value in held)


def test_a_fit_that_fails_leaves_the_last_one_whole(X):
    estimator = selector().fit(X)
    before = estimator.transform(X)
    for bad in (np.full((5, 3), np.nan), np.empty((0, 2)), X[:, 0]):
        with pytest.raises(ValueError, match=r"NaN|minimum of 1|2D"):
            estimator.fit(bad)
    with pytest.raises(ValueError, match=r"sample_weight\.shape"):
        estimator.fit(np.zeros((40, 5)), sample_weight=np.ones(7))
    assert_array_equal(estimator.transform(X), before)


def test_transform_before_fit(X):
    with pytest.raises(NotFittedError):
        selector().transform(X)


def test_transform_of_other_columns(X):
    with pytest.raises(ValueError, match="3 features"):
        selector().fit(X).transform(np.zeros((4, 3)))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (WhiteKernel(), "WhiteKernel"),
        (RBF() + WhiteKernel(), "WhiteKernel"),
        (CompoundKernel([RBF(), RBF()]), "CompoundKernel"),
        (RBF([1.0, 2.0, 3.0]), "3 length scales, but X has 2 columns"),
        ("rbg", "The 'kernel' parameter"),
    ],
    ids=["white", "white-in-a-sum", "compound", "length-scales", "text"],
)
def test_unsuitable_kernels_are_refused(kernel, message, X):
    with pytest.raises(ValueError, match=message):
        selector(kernel=kernel).fit(X)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("method", "hgvv"),
        ("n_components", 0),
        ("n_components", 2.5),
        ("tol", -1e-3),
        ("random_state", "seed"),
    ],
)
def test_bad_parameters_are_refused_by_name(name, value, X):
    with pytest.raises(ValueError, match=f"The '{name}' parameter of InducingPointSelector"):
        selector().set_params(**{name: value}).fit(X)
