"""Weights of rows, copies of rows, and their order: what matters and what does not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from tests.estimators import many_classes, regression, two_classes


@pytest.fixture(scope="module")
def learned_classifier():
    """A classifier that has learned its kernel; not to be changed."""
    return two_classes.small_model().fit(*two_classes.moons())


# Two classes


@two_classes.PAIRS
@pytest.mark.filterwarnings("ignore:.* rows repeat others, targets included:UserWarning")
def test_weights_of_labels_are_repetition_whatever_the_order_of_rows(likelihood, bound):
    X, y = two_classes.moons(40)
    rng = np.random.RandomState(1)
    weight = rng.randint(0, 4, len(X))
    kernel = ConstantKernel(5.0) * RBF(1.0, "fixed") if bound == "tight" else None
    model = two_classes.small_model(
        n_inducing=8,
        likelihood=likelihood,
        bound=bound,
        kernel=kernel,
        max_iter=10,
        max_reselections=2,
        tol=1e-3,
    )
    weighted = model.fit(X, y, sample_weight=weight)
    repeated = np.repeat(np.arange(len(X)), weight)
    assert len(weighted.inducing_points_) == 8 < (weight > 0).sum()
    order = rng.permutation(repeated)
    two_classes.assert_same_model(clone(model).fit(X[order], y[order]), weighted)


def test_conflicting_labels_of_one_row_are_weighed_against_each_other():
    X, y = two_classes.moons(40)
    X, y = np.concatenate([X, X[:10]]), np.concatenate([y, 1 - y[:10]])
    weight = np.repeat([3, 1], [40, 10])
    repeated = np.repeat(np.arange(len(X)), weight)
    weighted = two_classes.fixed_model(n_inducing=8).fit(X, y, weight)
    two_classes.assert_same_model(
        two_classes.fixed_model(n_inducing=8).fit(X[repeated], y[repeated]), weighted
    )


@pytest.mark.filterwarnings("ignore:.* rows repeat others, targets included:UserWarning")
def test_parts_of_a_labelled_row_add_up_to_the_row(rng):
    X, y = two_classes.moons(40)
    share = rng.uniform(size=len(X))
    parts = two_classes.fixed_model(n_inducing=8).fit(
        np.concatenate([X, X]), np.tile(y, 2), np.concatenate([share, 1 - share])
    )
    two_classes.assert_same_model(parts, two_classes.fixed_model(n_inducing=8).fit(X, y))


def test_a_labelled_row_of_weight_zero_is_no_row(rng):
    X, y = two_classes.moons(40)
    weight = rng.uniform(0.5, 2.0, len(X))
    extra = np.array([[50.0, -70.0], X[0], [np.pi, 1e5]])
    # The extra labels are a third class: rows that are absent have none.
    padded = two_classes.fixed_model(n_inducing=8).fit(
        np.concatenate([extra, X]),
        np.concatenate([[2, 1 - y[0], 7], y]),
        np.concatenate([np.zeros(3), weight]),
    )
    plain = two_classes.fixed_model(n_inducing=8).fit(X, y, weight)
    assert_array_equal(padded.classes_, [0, 1])
    assert padded.lower_bound_ == plain.lower_bound_
    assert_array_equal(
        padded.predict_proba(two_classes.grid()), plain.predict_proba(two_classes.grid())
    )


@pytest.mark.parametrize("weight", [2.0, 2, [2.0] * 40, np.full(40, 2, dtype=np.float32)], ids=repr)
def test_weights_of_labels_in_any_form(weight):
    X, y = two_classes.moons(40)
    model = two_classes.fixed_model().fit(X, y, sample_weight=weight)
    two_classes.assert_same_model(
        model, two_classes.fixed_model().fit(X, y, sample_weight=np.full(40, 2.0))
    )
    assert model.lower_bound_ < two_classes.fixed_model().fit(X, y).lower_bound_


def test_the_order_of_labelled_rows_does_not_matter_at_all(learned_classifier, rng):
    X, y = two_classes.moons()
    for _ in range(2):
        order = rng.permutation(len(X))
        model = clone(learned_classifier).fit(X[order], y[order])
        assert model.lower_bound_ == learned_classifier.lower_bound_
        assert_array_equal(
            model.predict_proba(two_classes.grid()),
            learned_classifier.predict_proba(two_classes.grid()),
        )
        assert_array_equal(order[model.inducing_indices_], learned_classifier.inducing_indices_)


def test_the_order_of_copies_of_a_row_does_not_matter_at_all(rng):
    X, y = two_classes.moons(40)
    X, y = np.tile(X, (5, 1)), rng.permutation(np.tile(y, 5))
    weight = rng.uniform(0.1, 1.0, len(X))
    reference = two_classes.fixed_model().fit(X, y, weight)
    for _ in range(2):
        order = rng.permutation(len(X))
        model = two_classes.fixed_model().fit(X[order], y[order], weight[order])
        assert model.lower_bound_ == reference.lower_bound_
        assert_array_equal(
            model.predict_proba(two_classes.grid()), reference.predict_proba(two_classes.grid())
        )


@pytest.fixture(scope="module")
def plain():
    """A classifier with the default kernel as it starts; not to be changed."""
    return two_classes.small_model(optimizer=None).fit(*two_classes.moons())


@settings(max_examples=6)
@given(exponent=st.integers(-9, 9), shift=st.integers(-1000, 1000))
def test_scale_and_offset_of_all_columns_do_not_matter(plain, exponent, shift):
    scale = 10.0**exponent
    X, y = two_classes.moons()
    moved = clone(plain).fit(scale * (X + shift), y)
    assert_allclose(moved.lower_bound_, plain.lower_bound_, rtol=1e-6)
    assert_allclose(
        moved.predict_proba(scale * (two_classes.grid() + shift)),
        plain.predict_proba(two_classes.grid()),
        atol=1e-6,
    )


def test_scale_and_offset_of_all_columns_do_not_matter_to_what_is_learned(learned_classifier):
    X, y = two_classes.moons()
    moved = clone(learned_classifier).fit(1e6 * (X - 30.0), y)
    assert_allclose(moved.lower_bound_, learned_classifier.lower_bound_, rtol=1e-3)


# Many classes


@many_classes.every_kind
def test_the_order_of_rows_of_many_classes_does_not_matter_at_all(likelihood, n_classes, rng):
    X, y = many_classes.blobs(40, n_classes)
    order = rng.permutation(40)
    one = many_classes.fixed_model(likelihood=likelihood).fit(X, y)
    other = clone(one).fit(X[order], y[order])
    assert one.lower_bound_ == other.lower_bound_
    assert_array_equal(
        one.predict_proba(many_classes.grid()), other.predict_proba(many_classes.grid())
    )


@many_classes.every_kind
@pytest.mark.filterwarnings("ignore:.* rows repeat others, targets included:UserWarning")
def test_weights_of_many_classes_are_repetition(likelihood, n_classes):
    X, y = many_classes.blobs(40, n_classes)
    weight = np.random.RandomState(1).randint(0, 4, 40)
    weight[:n_classes] = 1
    weighted = many_classes.fixed_model(likelihood=likelihood, n_inducing=8).fit(X, y, weight)
    order = np.random.RandomState(2).permutation(np.repeat(np.arange(40), weight))
    repeated = clone(weighted).fit(X[order], y[order])
    assert_allclose(repeated.lower_bound_, weighted.lower_bound_, rtol=1e-9)
    assert_allclose(
        repeated.predict_proba(many_classes.grid()),
        weighted.predict_proba(many_classes.grid()),
        atol=1e-7,
    )
    assert abs(weighted.lower_bound_ - clone(weighted).fit(X, y).lower_bound_) > 0.1


@many_classes.every_likelihood
def test_counts_of_each_class_at_a_row_are_weights(likelihood, rng):
    cells = rng.randn(16, 2)
    counts = rng.multinomial(5, [0.5, 0.3, 0.2], size=16)
    X, y = np.repeat(cells, 3, axis=0), np.tile([0, 1, 2], 16)
    model = many_classes.fixed_model(likelihood=likelihood, n_inducing=8).fit(X, y, counts.ravel())
    copies = np.repeat(np.arange(48), counts.ravel())
    other = clone(model).fit(X[copies], y[copies])
    assert_allclose(model.lower_bound_, other.lower_bound_, rtol=1e-9)
    assert_allclose(model.predict_proba(cells), other.predict_proba(cells), atol=1e-7)


def test_the_frequencies_of_one_row_are_found():
    X, y = np.zeros((3, 1)), np.array([0, 1, 2])
    weight = np.array([500.0, 300.0, 200.0])
    for likelihood in ("softmax", *many_classes.BINARY):
        model = many_classes.fixed_model(likelihood=likelihood).fit(X, y, weight)
        assert_allclose(model.predict_proba([[0.0]])[0], [0.5, 0.3, 0.2], atol=0.02)


# Targets


@regression.quiet
@pytest.mark.parametrize(
    ("noise", "two"),
    [*((noise, True) for noise in regression.NOISES), ("homoscedastic", False), ("known", False)],
)
def test_weights_of_targets_are_repetition_whatever_the_order_of_rows(noise, two, rng):
    X, y = regression.two_waves(40) if two else regression.waves(40)
    # With other weights the noise may vanish at the copies, which are then left out.
    weight = np.random.RandomState(1).randint(0, 4, len(X))
    repeated = np.repeat(np.arange(len(X)), weight)
    variance = regression.known_noise(40) if noise == "known" else None
    quick = {"n_inducing": 8, "max_iter": 5, "tol": 1e-3, "max_reselections": 1}
    model = regression.model_of(noise="homoscedastic" if variance is not None else noise, **quick)
    weighted = clone(model).fit(X, y, weight, noise_variance=variance)
    assert len(weighted.inducing_points_) <= 8 < (weight > 0).sum()
    order = rng.permutation(repeated)
    given_noise = None if variance is None else variance[order]
    regression.assert_same_model(
        clone(model).fit(X[order], y[order], noise_variance=given_noise), weighted
    )
    ours = weighted.certificate(X, y, weight, noise_variance=variance)
    theirs = weighted.certificate(X[order], y[order], noise_variance=given_noise)
    assert ours.upper_bounds == theirs.upper_bounds
    assert ours.total_weight == weight.sum()


def test_different_targets_of_one_row_are_weighed_against_each_other():
    X, y = regression.waves(40)
    X, y = np.concatenate([X, X[:10]]), np.concatenate([y, y[:10] + 3.0])
    variance = regression.known_noise(50)
    model = regression.fixed_model(fit_prior_mean=False, **regression.ALL_ROWS).fit(
        X, y, noise_variance=variance
    )
    full = GaussianProcessRegressor(regression.KERNEL, alpha=variance, optimizer=None).fit(X, y)
    assert len(model.inducing_points_) == 40
    assert_allclose(model.predict(regression.grid()), full.predict(regression.grid()), atol=1e-6)
    assert_allclose(model.lower_bound_, full.log_marginal_likelihood_value_, rtol=1e-8)


def test_parts_of_a_row_with_a_target_add_up_to_the_row(rng):
    X, y = regression.waves(40)
    share = rng.uniform(size=len(X))
    parts = regression.fixed_model(n_inducing=8).fit(
        np.concatenate([X, X]), np.tile(y, 2), np.concatenate([share, 1 - share])
    )
    whole = regression.fixed_model(n_inducing=8).fit(X, y)
    assert_allclose(parts.lower_bound_, whole.lower_bound_, rtol=1e-10)
    assert_allclose(parts.predict(regression.grid()), whole.predict(regression.grid()), rtol=1e-8)


@pytest.mark.filterwarnings("ignore:a weight counts copies")
def test_a_weight_divides_the_variance_of_known_noise_where_predictions_are_concerned(rng):
    X, y = regression.waves(40)
    weight = rng.uniform(0.2, 3.0, 40)
    weighted = regression.fixed_model(selector=X[::4]).fit(
        X, y, weight, noise_variance=regression.known_noise(40)
    )
    scaled = regression.fixed_model(selector=X[::4]).fit(
        X, y, noise_variance=regression.known_noise(40) / weight
    )
    assert_allclose(
        weighted.predict(regression.grid()), scaled.predict(regression.grid()), rtol=1e-8
    )
    constant = 0.5 * (weight * np.log(2 * np.pi * regression.known_noise(40))).sum()
    other = 0.5 * np.log(2 * np.pi * regression.known_noise(40) / weight).sum()
    assert_allclose(weighted.lower_bound_ + constant, scaled.lower_bound_ + other, rtol=1e-8)


def test_a_row_with_a_target_of_weight_zero_is_no_row(rng):
    X, y = regression.waves(40)
    weight = rng.uniform(0.5, 2.0, len(X))
    padded = regression.model_of(n_inducing=8, noise="polynomial").fit(
        np.concatenate([[[50.0, -70.0], X[0], [np.pi, 1e5]], X]),
        np.concatenate([[1e9, y[0] + 1.0, -1e9], y]),
        np.concatenate([np.zeros(3), weight]),
    )
    plain = regression.model_of(n_inducing=8, noise="polynomial").fit(X, y, weight)
    regression.assert_same_model(padded, plain)
    assert_array_equal(padded.inducing_indices_, plain.inducing_indices_ + 3)


@pytest.mark.parametrize("weight", [2.0, 2, [2.0] * 40, np.full(40, 2, dtype=np.float32)], ids=repr)
def test_weights_of_targets_in_any_form(weight):
    X, y = regression.waves(40)
    model = regression.fixed_model().fit(X, y, sample_weight=weight)
    regression.assert_same_model(
        model, regression.fixed_model().fit(X, y, sample_weight=np.full(40, 2.0))
    )
    assert model.lower_bound_ != regression.fixed_model().fit(X, y).lower_bound_


@pytest.mark.parametrize("noise", regression.NOISES)
@regression.quiet
def test_the_order_of_rows_with_targets_does_not_matter_at_all(noise, rng):
    X, Y = regression.two_waves(40)
    model = regression.model_of(noise=noise, n_inducing=8, max_iter=3)
    reference = clone(model).fit(X, Y)
    assert_array_equal(X[reference.inducing_indices_], reference.inducing_points_)
    order = rng.permutation(len(X))
    shuffled = clone(model).fit(X[order], Y[order])
    regression.assert_same_model(shuffled, reference)
    assert_array_equal(order[shuffled.inducing_indices_], reference.inducing_indices_)


def test_an_offset_of_all_columns_does_not_matter():
    X, y = regression.waves()
    plain, moved = regression.fixed_model().fit(X, y), regression.fixed_model().fit(X + 1e6, y)
    assert_allclose(moved.lower_bound_, plain.lower_bound_, atol=1e-5)
    assert_allclose(
        moved.predict(regression.grid() + 1e6), plain.predict(regression.grid()), atol=1e-5
    )
