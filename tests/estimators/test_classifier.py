"""The classifier as users see it: what it computes, what it accepts, what it promises and says."""

import io
import pickle
import warnings

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.optimize import approx_fprime
from scipy.special import expit
from scipy.stats import norm
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process import kernels as sk
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import InducingPointSelector, SparseGPClassifier

# What bounds the likelihoods of two classes admit, the tightest first.
BOUNDS = {
    "bernoulli-logit": ("spherical", "standard"),
    "bernoulli-probit": ("spherical", "standard"),
    "polya-gamma": ("tight", "spherical", "standard"),
    "conditional-polya-gamma": ("tight",),
}
LIKELIHOODS = pytest.mark.parametrize("likelihood", BOUNDS)
PAIRS = pytest.mark.parametrize(
    ("likelihood", "bound"), [(name, bound) for name in BOUNDS for bound in BOUNDS[name]]
)
# Fits in milliseconds, where what is learned is not the point.
FIXED = {"kernel": ConstantKernel(5.0) * RBF(1.0), "optimizer": None}


def moons(n_samples=120, seed=0):
    """Return read-only rows and 0/1 labels of two noisy half circles."""
    X, y = make_moons(n_samples, noise=0.3, random_state=seed)
    X.flags.writeable = y.flags.writeable = False
    return X, y


def small_model(**parameters):
    return SparseGPClassifier(**{"selector": "hgv", "n_inducing": 15, **parameters})


def fixed_model(**parameters):
    return small_model(**{**FIXED, **parameters})


@pytest.fixture(scope="module")
def learned():
    """A classifier that has learned its kernel on `moons()`; not to be changed."""
    return small_model().fit(*moons())


def grid(n=7):
    """Return points on a grid that reaches beyond the data of `moons`."""
    side = np.linspace(-3.0, 4.0, n)
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)


# Against other implementations


class DensePolyaGamma:
    """All rows, dense matrices, plain coordinate ascent with its exact steps; no acceleration."""

    def __init__(self, kernel, X, y, weight=None, fit_prior_mean=True):
        self.kernel, self.X, N = kernel, X, len(X)
        weight = np.ones(N) if weight is None else weight
        K, c, old = kernel(X), np.ones(N), 0.0
        for _ in range(5000):
            omega = weight * np.tanh(c / 2) / (2 * c)
            target = weight * y / 2 / omega
            inverse = np.linalg.inv(K + np.diag(1 / omega))
            mean = inverse.sum(axis=0) @ target / inverse.sum() if fit_prior_mean else 0.0
            alpha = inverse @ (target - mean)
            bound = (
                -(target - mean) @ alpha / 2
                + np.linalg.slogdet(inverse)[1] / 2
                + (target**2 * omega - np.log(omega) + c**2 * omega) @ np.ones(N) / 2
                - weight @ np.log(2 * np.cosh(c / 2))
            )
            old, c = c, np.sqrt((mean + K @ alpha) ** 2 + (K - K @ inverse @ K).diagonal())
            if np.abs(c - old).max() < 1e-9:
                break
        self.bound, self.mean, self.alpha, self.inverse = bound, mean, alpha, inverse

    def moments(self, X):
        K = self.kernel(X, self.X)
        explained = np.einsum("ij,jk,ik->i", K, self.inverse, K)
        return self.mean + K @ self.alpha, self.kernel.diag(X) - explained


@pytest.mark.parametrize(
    ("bound", "fit_prior_mean"),
    [("tight", True), ("tight", False), ("spherical", True), ("standard", True)],
)
def test_with_all_rows_inducing_it_is_the_dense_model(bound, fit_prior_mean, rng):
    X, y = moons(60)
    # Unequal classes, so that the prior mean is not about zero.
    keep = (y == 1) | (rng.uniform(size=60) < 0.4)
    X, y = X[keep], y[keep]
    weight = rng.uniform(0.2, 3.0, len(X))
    kernel = ConstantKernel(4.0) * Matern(0.7, nu=1.5)
    model = SparseGPClassifier(
        kernel,
        likelihood="polya-gamma",
        optimizer=None,
        n_inducing=len(X),
        selection_tol=0,
        bound=bound,
        fit_prior_mean=fit_prior_mean,
        tol=1e-10,
    ).fit(X, y, weight)
    dense = DensePolyaGamma(kernel, X, 2 * y - 1, weight, fit_prior_mean)
    assert len(model.inducing_points_) == len(X)
    assert_allclose(model.lower_bound_, dense.bound, atol=1e-5)
    assert_allclose(model.prior_mean_, dense.mean, atol=1e-5)
    mean, variance = dense.moments(grid(4))
    assert_allclose(model.latent_mean_and_variance(grid(4)), (mean, variance), atol=1e-5)
    probability = [expected_sigmoid(m, v) for m, v in zip(mean, variance, strict=True)]
    assert_allclose(model.predict_proba(grid(4))[:, 1], probability, atol=1e-5)


def expected_sigmoid(mean, variance):
    """Return E sigmoid(f) for one normal f by adaptive quadrature."""
    deviation = np.sqrt(variance)

    def integrand(z):
        return expit(mean + deviation * z) * norm.pdf(z)

    # The sigmoid changes at f = 0, wherever that is in units of the deviation.
    step = np.clip(-mean / deviation, -9.0, 9.0)
    return sum(quad(integrand, *part, epsabs=1e-12)[0] for part in ((-10.0, step), (step, 10.0)))


def test_probabilities_are_integrated_over_the_latent_variance(learned):
    mean, variance = learned.latent_mean_and_variance(grid(5))
    expected = [expected_sigmoid(m, v) for m, v in zip(mean, variance, strict=True)]
    assert_allclose(learned.predict_proba(grid(5))[:, 1], expected, atol=1e-9)
    assert np.abs(expit(mean) - expected).max() > 0.05  # plugging the mean in would not do


def test_it_agrees_with_the_laplace_approximation(learned):
    X, y = moons()
    X_test, y_test = moons(200, seed=1)
    other = GaussianProcessClassifier(learned.kernel_, optimizer=None).fit(X, y)
    assert abs(learned.score(X_test, y_test) - other.score(X_test, y_test)) < 0.03
    difference = learned.predict_proba(X_test) - other.predict_proba(X_test)
    assert np.abs(difference).mean() < 0.05


def test_it_classifies_breast_cancer_as_well_as_the_full_model():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    train, test = slice(0, None, 2), slice(1, None, 2)
    model = SparseGPClassifier(n_inducing=40, max_iter=20, tol=1e-3).fit(X[train], y[train])
    full = GaussianProcessClassifier(model.kernel_, optimizer=None).fit(X[train], y[train])
    accuracy = model.score(X[test], y[test])
    assert accuracy > 0.95
    assert accuracy > full.score(X[test], y[test]) - 0.015


def test_a_kernel_known_by_its_values_only_gives_the_fit_of_the_built_in_one():
    class Unknown(RBF):
        """Not the RBF by its type, so nothing is known of its derivatives."""

    X, y = moons(60)
    built_in, by_values = (
        small_model(kernel=ConstantKernel() * part, selector=X[::4]).fit(X, y)
        for part in (RBF(1.0), Unknown(1.0))
    )
    assert isinstance(by_values.kernel_.k2, Unknown)
    assert_allclose(by_values.lower_bound_, built_in.lower_bound_, atol=1e-3)
    assert_allclose(by_values.predict_proba(grid()), built_in.predict_proba(grid()), atol=1e-2)


@pytest.mark.parametrize(
    "kernel",
    [
        ConstantKernel() * Matern([1.0, 1.0], nu=0.5),
        ConstantKernel() * Matern(nu=2.5),
        ConstantKernel() * Matern(nu=0.7),
        ConstantKernel() * sk.RationalQuadratic(),
        ConstantKernel(9.0) * sk.DotProduct() ** 2,
        RBF() + ConstantKernel() * sk.DotProduct() * RBF(3.0),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:the bound still rises:sklearn.exceptions.ConvergenceWarning")
def test_learning_raises_the_bound_of_any_kernel(kernel):
    X, y = moons(60)
    fixed = small_model(kernel=kernel, optimizer=None).fit(X, y)
    learned = small_model(kernel=kernel, max_iter=20, tol=1e-3, max_reselections=1).fit(X, y)
    assert learned.lower_bound_ > fixed.lower_bound_ + 0.1
    assert type(learned.kernel_) is type(kernel)
    assert learned.score(X, y) >= 0.8


# Predictions


def test_the_decision_function_is_the_log_odds_of_the_probabilities(learned):
    proba = learned.predict_proba(grid())
    log_odds = np.log(proba[:, 1]) - np.log(proba[:, 0])
    assert_allclose(learned.decision_function(grid()), log_odds, rtol=1e-9, atol=1e-12)
    assert_allclose(learned.predict_log_proba(grid()), np.log(proba), rtol=1e-9, atol=1e-12)
    assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-15)


def test_the_predicted_class_is_the_more_probable_one(learned):
    best = learned.predict_proba(grid()).argmax(axis=1)
    assert len(np.unique(best)) == 2
    assert_array_equal(learned.predict(grid()), learned.classes_[best])


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


def test_far_from_the_data_the_prior_returns(learned):
    mean, variance = learned.latent_mean_and_variance([[1e6, 0.0], [-1e9, 1e9]])
    assert_allclose(mean, learned.prior_mean_)
    assert_allclose(variance, learned.kernel_.k1.constant_value)
    assert learned.latent_mean_and_variance(moons()[0])[1].max() < variance[0] / 2


def test_predictions_do_not_depend_on_which_rows_are_asked_for_together(learned):
    together = learned.decision_function(grid())
    one_by_one = [learned.decision_function(row[None])[0] for row in grid()]
    assert_allclose(one_by_one, together, rtol=1e-10)


def test_predictions_do_not_depend_on_the_working_memory(learned):
    X, y = moons()
    with config_context(working_memory=1e-3):
        model = clone(learned).fit(X, y)
        decision = model.decision_function(grid())
    assert_allclose(model.lower_bound_, learned.lower_bound_, rtol=1e-7)
    assert_allclose(decision, learned.decision_function(grid()), rtol=1e-3)


# Labels


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
def test_labels_of_any_type(names):
    X, y = moons()
    names = np.asarray(names)
    model = fixed_model().fit(X, names[y])
    reference = fixed_model().fit(X, y)
    assert_array_equal(model.classes_, np.unique(names))
    assert model.classes_.dtype == names.dtype
    positive = int(names[1] == model.classes_[1])
    assert_array_equal(
        model.predict_proba(grid())[:, positive], reference.predict_proba(grid())[:, 1]
    )
    assert_array_equal(model.predict(X), names[reference.predict(X)])
    assert model.score(X, names[y]) == reference.score(X, y)


def test_the_decision_is_positive_for_the_second_class():
    X = np.linspace(-2.0, 2.0, 40)[:, None]
    model = fixed_model().fit(X, np.where(X[:, 0] > 0, "positive", "a negative one"))
    assert list(model.classes_) == ["a negative one", "positive"]
    assert model.decision_function([[1.5]])[0] > 1.0
    assert model.latent_mean_and_variance([[1.5]])[0][0] > 1.0
    assert model.predict([[1.5]])[0] == "positive"


@settings(max_examples=10)
@given(seed=st.integers(0, 1000), share=st.floats(0.1, 0.9))
def test_swapping_the_labels_swaps_the_probabilities_exactly(seed, share):
    rng = np.random.RandomState(seed)
    X = rng.randn(40, 2)
    y = rng.uniform(size=40) < share * expit(2.0 * X[:, 0])
    y[:2] = False, True
    kernel = ConstantKernel(5.0) * RBF(1.0, "fixed")
    model = small_model(kernel=kernel, max_iter=3, max_reselections=1, tol=1e-2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one, other = (clone(model).fit(X, labels) for labels in (y, ~y))
    assert one.lower_bound_ == other.lower_bound_
    assert_array_equal(one.predict_proba(grid())[:, ::-1], other.predict_proba(grid()))
    assert_array_equal(one.decision_function(grid()), -other.decision_function(grid()))


# Weights, repeated rows, the order of rows


def assert_same_model(one, other):
    assert_array_equal(one.inducing_points_, other.inducing_points_)
    assert_allclose(one.lower_bound_, other.lower_bound_, rtol=1e-7)
    assert_allclose(one.predict_proba(grid()), other.predict_proba(grid()), atol=1e-6)


@PAIRS
def test_weights_are_repetition_whatever_the_order_of_rows(likelihood, bound):
    X, y = moons(40)
    rng = np.random.RandomState(1)
    weight = rng.randint(0, 4, len(X))
    many = bound == "tight" or likelihood == "bernoulli-logit"
    kernel = ConstantKernel(5.0) * RBF(1.0, "fixed") if many else None
    model = small_model(
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
    for _ in range(10 if many else 2):
        order = rng.permutation(repeated)
        assert_same_model(clone(model).fit(X[order], y[order]), weighted)


def test_conflicting_labels_of_one_row_are_weighed_against_each_other():
    X, y = moons(40)
    X, y = np.concatenate([X, X[:10]]), np.concatenate([y, 1 - y[:10]])
    weight = np.repeat([3, 1], [40, 10])
    repeated = np.repeat(np.arange(len(X)), weight)
    weighted = fixed_model(n_inducing=8).fit(X, y, weight)
    assert_same_model(fixed_model(n_inducing=8).fit(X[repeated], y[repeated]), weighted)


def test_parts_of_a_row_add_up_to_the_row(rng):
    X, y = moons(40)
    share = rng.uniform(size=len(X))
    parts = fixed_model(n_inducing=8).fit(
        np.concatenate([X, X]), np.tile(y, 2), np.concatenate([share, 1 - share])
    )
    assert_same_model(parts, fixed_model(n_inducing=8).fit(X, y))


def test_a_row_of_weight_zero_is_no_row(rng):
    X, y = moons(40)
    weight = rng.uniform(0.5, 2.0, len(X))
    extra = np.array([[50.0, -70.0], X[0], [np.pi, 1e5]])
    # The extra labels are a third class: rows that are absent have none.
    padded = fixed_model(n_inducing=8).fit(
        np.concatenate([extra, X]),
        np.concatenate([[2, 1 - y[0], 7], y]),
        np.concatenate([np.zeros(3), weight]),
    )
    plain = fixed_model(n_inducing=8).fit(X, y, weight)
    assert_array_equal(padded.classes_, [0, 1])
    assert padded.lower_bound_ == plain.lower_bound_
    assert_array_equal(padded.predict_proba(grid()), plain.predict_proba(grid()))


def test_inducing_indices_count_rows_of_the_given_data_also_those_of_weight_zero():
    X, y = moons(40)
    weight = np.ones(len(X))
    weight[:5] = 0.0
    model = fixed_model(n_inducing=8).fit(X, y, weight)
    assert_array_equal(X[model.inducing_indices_], model.inducing_points_)


@pytest.mark.parametrize("weight", [2.0, 2, [2.0] * 40, np.full(40, 2, dtype=np.float32)], ids=repr)
def test_weights_of_any_form(weight):
    X, y = moons(40)
    model = fixed_model().fit(X, y, sample_weight=weight)
    assert_same_model(model, fixed_model().fit(X, y, sample_weight=np.full(40, 2.0)))
    assert model.lower_bound_ < fixed_model().fit(X, y).lower_bound_


def test_the_order_of_rows_does_not_matter_at_all(learned, rng):
    X, y = moons()
    for _ in range(3):
        order = rng.permutation(len(X))
        model = clone(learned).fit(X[order], y[order])
        assert model.lower_bound_ == learned.lower_bound_
        assert_array_equal(model.predict_proba(grid()), learned.predict_proba(grid()))
        assert_array_equal(order[model.inducing_indices_], learned.inducing_indices_)


def test_the_order_of_copies_of_a_row_does_not_matter_at_all(rng):
    X, y = moons(40)
    X, y = np.tile(X, (5, 1)), rng.permutation(np.tile(y, 5))
    weight = rng.uniform(0.1, 1.0, len(X))
    reference = fixed_model().fit(X, y, weight)
    for _ in range(5):
        order = rng.permutation(len(X))
        model = fixed_model().fit(X[order], y[order], weight[order])
        assert model.lower_bound_ == reference.lower_bound_
        assert_array_equal(model.predict_proba(grid()), reference.predict_proba(grid()))


@pytest.fixture(scope="module")
def plain():
    """A classifier that has learned a little; not to be changed."""
    return small_model(max_reselections=1).fit(*moons())


@settings(max_examples=6)
@given(exponent=st.integers(-9, 9), shift=st.integers(-1000, 1000))
def test_scale_and_offset_of_all_columns_do_not_matter(plain, exponent, shift):
    scale = 10.0**exponent
    X, y = moons()
    moved = clone(plain).fit(scale * (X + shift), y)
    assert_allclose(moved.lower_bound_, plain.lower_bound_, rtol=1e-4)
    assert_allclose(
        moved.predict_proba(scale * (grid() + shift)), plain.predict_proba(grid()), atol=1e-4
    )


# Forms of the input


FORMS = {
    "list": lambda X: X.tolist(),
    "Fortran order": np.asfortranarray,
    "not contiguous": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "backwards": lambda X: X[::-1].copy()[::-1],
    "writeable": lambda X: X.copy(),
    "objects": lambda X: X.astype(object),
    "integers": lambda X: X.astype(np.int16),
    "big-endian": lambda X: X.astype(">f8"),
    "float32": lambda X: X.astype(np.float32),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_forms_of_an_array(form):
    X, y = moons(60)
    X = np.round(8 * X)  # exact in each type
    model = fixed_model(kernel=ConstantKernel(5.0) * RBF(8.0))
    reference = clone(model).fit(X, y)
    other = model.fit(form(X), form(y[:, None])[:, 0] if form(y[:, None]) is y else y)
    assert_array_equal(other.inducing_points_, reference.inducing_points_)
    assert_array_equal(other.predict_proba(form(X)), reference.predict_proba(X))
    assert other.lower_bound_ == reference.lower_bound_
    for array in (other.predict_proba(form(X)), other.inducing_points_, other.lower_bounds_):
        assert array.dtype == np.float64


def test_boolean_columns():
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(60, 4)) < 0.5
    y = X[:, 0] ^ (rng.uniform(size=60) < 0.1)
    model = small_model(n_inducing=8).fit(X, y)
    assert model.inducing_points_.dtype == np.float64
    assert len(model.inducing_points_) == 8
    assert model.score(X, y) > 0.85


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(library):
    frames = pytest.importorskip(library)
    X, y = moons(60)
    frame = frames.DataFrame({"east": X[:, 0], "north": X[:, 1]})
    weight = np.linspace(0.5, 1.5, len(X))
    model = fixed_model().fit(frame, frames.Series(y), sample_weight=frames.Series(weight))
    reference = fixed_model().fit(X, y, weight)
    assert not hasattr(reference, "feature_names_in_")
    assert_array_equal(model.predict_proba(frame), reference.predict_proba(X))
    assert model.lower_bound(X=frame, y=frames.Series(y)) == reference.lower_bound(X=X, y=y)
    # scikit-learn 1.6 does not see the names in the frames of a later polars.
    if hasattr(StandardScaler().fit(frame), "feature_names_in_"):
        assert list(model.feature_names_in_) == ["east", "north"]
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(frame[["north", "east"]])


def test_nothing_that_was_given_is_changed():
    X, y = (array.copy() for array in moons(60))
    weight, points = np.linspace(0.0, 2.0, 60), X[:9].copy()
    before = [array.copy() for array in (X, y, weight, points)]
    kernel = ConstantKernel() * RBF([1.0, 1.0])
    theta, text = kernel.theta.copy(), str(kernel)
    model = SparseGPClassifier(kernel, selector=points, max_iter=5, tol=1e-2).fit(X, y, weight)
    model.predict_proba(X)
    model.lower_bound(theta, X, y, weight, eval_gradient=True)
    for array, copy in zip((X, y, weight, points), before, strict=True):
        assert_array_equal(array, copy)
    assert model.kernel is kernel
    assert model.selector is points
    assert_array_equal(kernel.theta, theta)
    assert str(kernel) == text
    assert model.kernel_ is not kernel
    assert np.abs(model.kernel_.theta - theta).max() > 0.01
    assert not np.shares_memory(model.inducing_points_, points)


def test_changing_the_data_afterwards_does_not_change_the_model():
    X, y = (array.copy() for array in moons(60))
    model = fixed_model().fit(X, y)
    before = model.predict_proba(grid())
    X[:] = 0.0
    y[:] = 0
    assert_array_equal(model.predict_proba(grid()), before)


# Selectors and bounds


@pytest.mark.parametrize("method", ["hgv", "rpcholesky", "greedy-variance", "kmeans", "uniform"])
def test_selectors_by_name_and_by_instance_are_the_same(method):
    X, y = moons()
    by_name = fixed_model(selector=method, n_inducing=12, selection_tol=0.0, random_state=3)
    instance = InducingPointSelector(method=method, n_components=12, tol=0.0, random_state=3)
    by_instance = fixed_model(selector=instance, n_inducing=1, selection_tol=1.0)
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
    X, y = moons()
    np.random.seed(5)
    expected = np.random.RandomState(5).uniform()
    model = fixed_model(selector=method, selection_tol=0.0)
    one, same, other = (
        clone(model).set_params(random_state=seed).fit(X, y).inducing_points_ for seed in (0, 0, 1)
    )
    assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert np.random.uniform() == expected


def test_an_array_of_inducing_points_is_used_as_it_is(rng):
    X, y = moons()
    Z = rng.randn(7, 2)
    model = SparseGPClassifier(selector=Z, n_inducing=3, max_iter=5, tol=1e-2).fit(X, y)
    assert_array_equal(model.inducing_points_, Z)
    assert model.inducing_indices_ is None
    assert len(model.lower_bounds_) == 1


def test_points_given_as_an_array_have_no_indices_even_if_they_are_rows():
    X, y = moons()
    model = fixed_model(selector=X[[5, 3, 8]]).fit(X, y)
    assert model.inducing_indices_ is None


@LIKELIHOODS
def test_the_bounds_are_ordered_at_the_same_kernel_and_points(likelihood):
    X, y = moons()
    names = BOUNDS[likelihood][::-1]
    models = {
        bound: fixed_model(selector=X[:6], likelihood=likelihood, bound=bound).fit(X, y)
        for bound in (*names, "auto")
    }
    values = [models[bound].lower_bound_ for bound in names]
    theta = np.log([2.0, 0.4])
    at_theta = [models[bound].lower_bound(theta, X, y) for bound in names]
    assert (np.diff(values) > 0.1).all()
    assert (np.diff(at_theta) > 0.1).all()
    assert models["auto"].lower_bound_ == values[-1]


def test_the_default_is_the_logistic_likelihood():
    X, y = moons()
    values = {
        name: fixed_model(likelihood=name, selector=X[:30]).fit(X, y).lower_bound_
        for name in ("auto", *BOUNDS)
    }
    assert values["auto"] == values["bernoulli-logit"]
    assert values["polya-gamma"] + 1.0 < values["auto"]
    assert values["polya-gamma"] < values["conditional-polya-gamma"]


@LIKELIHOODS
@pytest.mark.parametrize("bound", ["tight", "spherical", "standard"])
def test_a_bound_that_the_likelihood_does_not_admit_is_refused(likelihood, bound):
    X, y = moons(20)
    model = fixed_model(likelihood=likelihood, bound=bound)
    if bound in BOUNDS[likelihood]:
        model.fit(X, y)
        return
    with pytest.raises(ValueError, match=f"bound='{bound}' is not available for") as caught:
        model.fit(X, y)
    assert str(BOUNDS[likelihood]) in str(caught.value)


def test_no_bound_exceeds_that_of_the_dense_model():
    X, y = moons(60)
    dense = DensePolyaGamma(FIXED["kernel"], X, 2 * y - 1).bound
    bounds = [
        fixed_model(likelihood="polya-gamma", n_inducing=m, selection_tol=0).fit(X, y).lower_bound_
        for m in (5, 15)
    ]
    assert bounds[0] < bounds[1] < dense
    assert bounds[1] > dense - 1.0


def test_the_tolerance_chooses_fewer_points():
    X, y = moons()
    sizes = [
        len(fixed_model(n_inducing=100, selection_tol=tol).fit(X, y).inducing_points_)
        for tol in (1e-1, 1e-2, 1e-4)
    ]
    assert 1 <= sizes[0] < sizes[1] < sizes[2] < 100


def test_more_points_than_distinct_rows_are_silently_all_of_them():
    X, y = moons(20)
    X, y = np.tile(X, (2, 1)), np.tile(y, 2)
    model = fixed_model(kernel=Matern(nu=0.5), n_inducing=500, selection_tol=0).fit(X, y)
    assert len(model.inducing_points_) == 20


# Learning


def test_optimizer_none_keeps_the_kernel():
    kernel = ConstantKernel(3.0) * RBF([0.7, 1.9])
    model = fixed_model(kernel=kernel, n_restarts_optimizer=2).fit(*moons())
    assert_array_equal(model.kernel_.theta, kernel.theta)
    assert model.n_iter_ == 0
    assert model.converged_


def test_fixed_hyperparameters_stay():
    kernel = ConstantKernel(3.0, "fixed") * RBF(1.7)
    model = small_model(kernel=kernel).fit(*moons())
    assert model.kernel_.k1.constant_value == 3.0
    assert model.kernel_.k2.length_scale != 1.7
    length = RBF(1.7, "fixed")
    model = small_model(kernel=ConstantKernel(3.0) * length).fit(*moons())
    assert model.kernel_.k2.length_scale == 1.7
    assert model.kernel_.k1.constant_value != 3.0


def test_a_kernel_without_free_hyperparameters():
    model = small_model(kernel=RBF(1.0, "fixed"), n_restarts_optimizer=1).fit(*moons())
    assert model.kernel_ == RBF(1.0, "fixed")
    bound, gradient = model.lower_bound(X=moons()[0], y=moons()[1], eval_gradient=True)
    assert_allclose(bound, model.lower_bound_)
    assert gradient.shape == (0,)


@pytest.mark.filterwarnings("ignore:the bound still rises:sklearn.exceptions.ConvergenceWarning")
def test_bounds_of_hyperparameters_are_respected():
    kernel = ConstantKernel(1.0, (0.5, 2.0)) * RBF(1.0, (0.9, 1.1))
    model = small_model(kernel=kernel, n_restarts_optimizer=1, random_state=0).fit(*moons())
    low, high = kernel.bounds.T
    assert (model.kernel_.theta >= low - 1e-12).all()
    assert (model.kernel_.theta <= high + 1e-12).all()
    assert_array_equal(model.kernel_.bounds, kernel.bounds)


@pytest.mark.filterwarnings("ignore:the bound still rises where hyperparameters meet their limits")
def test_the_kernel_given_starts_outside_its_bounds_no_more_than_it_must():
    kernel = ConstantKernel(1.0) * RBF(1.0, (2.0, 50.0))
    model = small_model(kernel=kernel).fit(*moons(60))
    assert 2.0 - 1e-9 <= model.kernel_.k2.length_scale <= 50.0


@pytest.mark.parametrize("seed", range(2))
def test_restarts_never_lower_the_bound(seed):
    X, y = moons(60, seed)
    model = small_model(max_iter=10, tol=1e-3, max_reselections=1)
    plain = clone(model).fit(X, y)
    more = model.set_params(n_restarts_optimizer=2, random_state=seed).fit(X, y)
    assert more.lower_bound_ >= plain.lower_bound_ - 1e-9
    assert more.n_evaluations_ > plain.n_evaluations_


def test_learning_again_and_again_is_the_same(learned):
    model = clone(learned)
    for _ in range(2):
        model.fit(*moons())
        assert model.lower_bound_ == learned.lower_bound_
        assert_array_equal(model.predict_proba(grid()), learned.predict_proba(grid()))


def test_the_learned_bound_is_a_local_maximum(learned):
    X, y = moons()
    _, gradient = learned.lower_bound(X=X, y=y, eval_gradient=True)
    assert np.abs(gradient).max() < 0.3
    for step in (-0.3, 0.3):
        for k in range(2):
            theta = learned.kernel_.theta.copy()
            theta[k] += step
            assert learned.lower_bound(theta, X, y) < learned.lower_bound_


def test_the_best_choice_of_points_is_kept(learned):
    assert len(learned.lower_bounds_) >= 2
    assert_allclose(learned.lower_bounds_.max(), learned.lower_bound_, atol=1e-3)


# Warm start


def test_warm_start_needs_fewer_evaluations_and_is_no_worse():
    model = small_model(warm_start=True).fit(*moons())
    evaluations, bound = model.n_evaluations_, model.lower_bound_
    model.fit(*moons())
    assert model.n_evaluations_ < evaluations / 2
    assert model.lower_bound_ >= bound - 1e-6


def test_warm_start_begins_from_the_learned_kernel_and_points():
    X, y = moons()
    model = small_model(warm_start=True).fit(X, y)
    theta, points = model.kernel_.theta, model.inducing_points_
    X_new, y_new = moons(80, seed=1)
    model.set_params(optimizer=None, max_reselections=0).fit(X_new, y_new)
    assert_allclose(model.kernel_.theta, theta, rtol=1e-12)
    assert_array_equal(model.inducing_points_, points)
    assert model.inducing_indices_ is None
    cold = clone(model).set_params(warm_start=False, kernel=RBF()).fit(X_new, y_new)
    assert not np.array_equal(cold.inducing_points_, points)


def test_warm_start_knows_a_kernel_whose_logarithms_are_rounded():
    X, y = moons(40)
    for value in np.random.RandomState(0).uniform(0.1, 10.0, 5000):
        kernel = ConstantKernel(value) * RBF(1.0)
        if kernel.clone_with_theta(kernel.clone_with_theta(kernel.theta).theta) != kernel:
            break
    model = fixed_model(kernel=kernel, warm_start=True).fit(X, y)
    bound = model.lower_bound_
    for _ in range(3):
        assert_allclose(model.fit(X, y).lower_bound_, bound, rtol=1e-6)


def test_points_given_as_an_array_come_before_those_of_the_last_fit(rng):
    X, y = moons(60)
    model = fixed_model(warm_start=True).fit(X, y)
    Z = rng.randn(4, 2)
    assert_array_equal(model.set_params(selector=Z).fit(X, y).inducing_points_, Z)


def test_warm_start_keeps_the_structure_of_a_given_kernel():
    X, y = moons(60)
    kernel = ConstantKernel() * RBF()
    model = small_model(kernel=kernel, warm_start=True, max_iter=5, tol=1e-2).fit(X, y)
    theta = model.kernel_.theta
    model.set_params(kernel=ConstantKernel(9.0) * RBF(0.1), optimizer=None).fit(X, y)
    assert_allclose(model.kernel_.theta, theta, rtol=1e-12)
    model.set_params(kernel=ConstantKernel() * Matern())
    with pytest.raises(ValueError, match=r"warm_start=True needs the kernel structure.*Matern"):
        model.fit(X, y)
    assert_allclose(model.kernel_.theta, theta, rtol=1e-12)


def test_warm_start_needs_the_same_columns():
    X, y = moons(60)
    model = fixed_model(warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match=r"warm_start=True needs the columns.*had 2, X has 1"):
        model.fit(X[:, :1], y)
    assert model.predict(X).shape == (60,)


def test_without_warm_start_the_past_is_forgotten(learned):
    model = clone(learned).fit(*moons(60, seed=3))
    model.fit(*moons())
    assert model.lower_bound_ == learned.lower_bound_


# lower_bound


def test_the_lower_bound_without_arguments_is_that_of_the_fit(learned):
    assert learned.lower_bound() == learned.lower_bound_


@PAIRS
@pytest.mark.parametrize("fit_prior_mean", [True, False])
def test_the_lower_bound_of_the_training_data_is_that_of_the_fit(
    likelihood, bound, fit_prior_mean, rng
):
    X, y = moons()
    weight = rng.uniform(0.0, 2.0, len(X)) * (rng.uniform(size=len(X)) < 0.8)
    model = fixed_model(likelihood=likelihood, bound=bound, fit_prior_mean=fit_prior_mean)
    model.fit(X, y, weight)
    assert_allclose(
        model.lower_bound(X=X, y=y, sample_weight=weight), model.lower_bound_, atol=1e-6
    )
    at_theta = model.lower_bound(model.kernel_.theta, X, y, weight)
    assert_allclose(at_theta, model.lower_bound_, atol=1e-6)
    assert abs(model.lower_bound(X=X, y=y) - model.lower_bound_) > 1.0


@PAIRS
def test_the_gradient_of_the_lower_bound(likelihood, bound, rng):
    X, y = moons(60)
    weight = rng.uniform(0.5, 2.0, len(X))
    kernel = ConstantKernel(2.0) * RBF([1.0, 2.0]) + ConstantKernel(0.3) * sk.DotProduct()
    model = fixed_model(kernel=kernel, likelihood=likelihood, bound=bound, tol=1e-9)
    model.fit(X, y, weight)
    theta = kernel.theta + rng.uniform(-0.3, 0.3, len(kernel.theta))

    def value(theta):
        return model.lower_bound(theta, X, y, weight)

    at_theta, gradient = model.lower_bound(theta, X, y, weight, eval_gradient=True)
    assert at_theta == value(theta)
    forward, backward = (approx_fprime(theta, value, step) for step in (1e-4, -1e-4))
    assert_allclose(gradient, (forward + backward) / 2, rtol=1e-4, atol=1e-4)
    assert np.abs(gradient).min() > 1e-3


def test_the_lower_bound_of_other_rows(learned):
    X, y = moons(50, seed=9)
    value = learned.lower_bound(X=X, y=y)
    assert -50 * np.log(2.0) < value < 0.0
    shuffled = learned.lower_bound(X=X[::-1], y=y[::-1])
    assert shuffled == value
    doubled = learned.lower_bound(X=np.tile(X, (2, 1)), y=np.tile(y, 2))
    assert_allclose(doubled, learned.lower_bound(X=X, y=y, sample_weight=2.0), rtol=1e-9)
    one_class = learned.lower_bound(X=X[y == 1], y=y[y == 1])
    # Their best prior mean is infinite: all labels are certain, but for rounding.
    assert value < one_class < 1e-9


def test_the_lower_bound_changes_nothing(learned):
    before = pickle.dumps(learned)
    learned.lower_bound(np.zeros(2), *moons(30), eval_gradient=True)
    assert pickle.dumps(learned) == before


# What is printed and warned of


def test_verbose_prints_a_line_for_each_choice_and_nothing_is_printed_otherwise(capfd):
    model = small_model().fit(*moons(60))
    model.predict_proba(grid())
    assert capfd.readouterr() == ("", "")
    model.set_params(verbose=1).fit(*moons(60))
    out, err = capfd.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert len(lines) >= len(model.lower_bounds_)
    assert all(line.startswith("[SparseGPClassifier] choice ") for line in lines)
    told = [line.rsplit(maxsplit=1) for line in lines]
    assert any(text.endswith(f" {len(model.inducing_points_)} points, bound") for text, _ in told)
    assert_allclose(max(float(bound) for _, bound in told), model.lower_bound_, atol=2e-3)


def warnings_of(model, X, y, **fit):
    """Return category and text of each warning of a fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, **fit)
    return [(item.category, str(item.message), item.filename) for item in caught]


def test_an_ordinary_problem_warns_of_nothing():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)[::3]
    assert warnings_of(SparseGPClassifier(n_inducing=40), X, y[::3]) == []


def test_pure_noise_is_said_to_be_constant(rng):
    X, y = rng.randn(80, 2), rng.randint(0, 2, 80)
    ((category, text, filename),) = warnings_of(small_model(), X, y)
    assert category is ConvergenceWarning
    assert "the learned function is constant" in text
    assert "predictions depend little on X" in text
    assert filename == __file__


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_inducing": 2, **FIXED},
        {"n_inducing": 3, "kernel": ConstantKernel(30.0, "fixed") * RBF(0.5, (0.4, 0.6))},
    ],
    ids=["fixed", "learned"],
)
def test_a_poor_bound_of_a_function_that_varies_is_not_called_constant(parameters):
    X, y = moons(60)
    model = small_model(likelihood="polya-gamma", **parameters)
    found = warnings_of(model, X, y)
    proba = model.predict_proba(X)[:, 1]
    assert proba.min() < 0.2
    assert proba.max() > 0.8
    assert model.lower_bound_ < 60 * np.log(0.5)
    assert not any("function is constant" in text for _, text, _ in found)


def test_a_hyperparameter_at_its_bound_is_named_with_its_column(rng):
    pandas = pytest.importorskip("pandas")
    X, y = moons()
    X = np.column_stack([X, rng.randn(len(X))])
    kernel = ConstantKernel(10.0) * RBF([1.0, 1.0, 1.0], (1e-2, 5.0))
    ((category, text, filename),) = warnings_of(small_model(kernel=kernel), X, y)
    assert category is ConvergenceWarning
    assert "k2__length_scale[2] = 5 at its upper limit: column 2 looks irrelevant" in text
    assert "column 0" not in text
    assert filename == __file__
    frame = pandas.DataFrame(X, columns=["east", "north", "noise"])
    ((_, text, _),) = warnings_of(small_model(kernel=kernel), frame, y)
    assert "column 'noise' looks irrelevant" in text


def test_a_function_that_varies_faster_than_its_lower_limit_is_said():
    kernel = ConstantKernel(10.0) * RBF([1.0, 1.0], (3.0, 50.0))
    ((_, text, _),) = warnings_of(small_model(kernel=kernel), *moons())
    assert "k2__length_scale[1] = 3 at its lower limit" in text
    assert "varies faster along column 1 than the limit allows" in text


def test_separable_classes_are_said_to_look_so():
    X = np.linspace(-1.0, 1.0, 40)[:, None]
    kernel = ConstantKernel(1.0, (0.1, 10.0)) * RBF(1.0)
    ((_, text, _),) = warnings_of(small_model(kernel=kernel), X, X[:, 0] > 0)
    assert "k1__constant_value = 10 at its upper limit" in text
    assert "the classes look separable" in text


def test_too_few_iterations_are_said():
    ((category, text, filename),) = warnings_of(small_model(max_iter=1), *moons())
    assert category is ConvergenceWarning
    assert "stopped before its bound converged" in text
    assert "max_iter=1 " in text
    assert "tol=1e-05" in text
    assert filename == __file__
    model = small_model(max_iter=1)
    warnings_of(model, *moons())
    assert not model.converged_


def test_a_column_that_hides_the_others_is_named():
    pandas = pytest.importorskip("pandas")
    X, y = moons()
    X = X * [1.0, 1e5]
    found = warnings_of(small_model(), X, y)
    texts = [text for category, text, _ in found if category is UserWarning]
    assert len(texts) == 1
    assert "column 1 has standard deviation" in texts[0]
    assert "scale the columns" in texts[0]
    assert found[-1][2] == __file__
    found = warnings_of(small_model(), pandas.DataFrame(X, columns=["a", "money"]), y)
    assert any("column 'money' has standard deviation" in text for _, text, _ in found)
    # One length scale for each column is the remedy.
    ard = small_model(kernel=ConstantKernel(10.0) * RBF([1.0, 1.0], (1e-2, 1e7)))
    assert not any(category is UserWarning for category, _, _ in warnings_of(ard, X, y))


# The fitted object


def test_the_public_attributes(learned):
    M = len(learned.inducing_points_)
    X, _ = moons()
    assert 1 <= M <= 15
    assert_array_equal(learned.classes_, [0, 1])
    assert isinstance(learned.kernel_, sk.Product)
    assert isinstance(learned.prior_mean_, float)
    assert learned.inducing_points_.shape == (M, 2)
    assert learned.inducing_points_.dtype == np.float64
    assert learned.inducing_indices_.shape == (M,)
    assert_array_equal(X[learned.inducing_indices_], learned.inducing_points_)
    assert isinstance(learned.lower_bound_, float)
    assert learned.lower_bounds_.ndim == 1
    assert learned.lower_bounds_.dtype == np.float64
    assert isinstance(learned.n_iter_, int)
    assert learned.n_iter_ >= 1
    assert isinstance(learned.n_evaluations_, int)
    assert isinstance(learned.n_site_iterations_, int)
    assert learned.n_site_iterations_ >= learned.n_evaluations_ > learned.n_iter_
    assert learned.converged_ is True
    assert 0.0 < learned.jitter_ < 1e-6
    assert learned.n_features_in_ == 2


def test_public_attributes_are_documented_and_no_others_exist():
    pandas = pytest.importorskip("pandas")
    X, y = moons(40)
    model = fixed_model().fit(pandas.DataFrame(X, columns=["a", "b"]), y)
    public = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    section = SparseGPClassifier.__doc__.split("Attributes\n")[1].split("See Also")[0]
    documented = {line.split(" : ")[0].strip() for line in section.splitlines() if " : " in line}
    assert public == documented


def test_shapes_and_types_of_predictions(learned):
    for X in (grid(), grid()[:1]):
        N = len(X)
        shapes = {
            learned.predict_proba: (N, 2),
            learned.predict_log_proba: (N, 2),
            learned.decision_function: (N,),
            lambda X: learned.latent_mean_and_variance(X)[0]: (N,),
            lambda X: learned.latent_mean_and_variance(X)[1]: (N,),
        }
        for method, shape in shapes.items():
            assert method(X).shape == shape
            assert method(X).dtype == np.float64
        assert learned.predict(X).shape == (N,)


METHODS = (
    "predict predict_proba predict_log_proba decision_function latent_mean_and_variance sample_f "
    "predict_proba_interval"
)


@pytest.mark.parametrize("method", [*METHODS.split(), "lower_bound", "score", "certificate"])
def test_methods_need_a_fit(method):
    labelled = method in ("score", "certificate")
    arguments = (grid(), np.zeros(len(grid()))) if labelled else (grid(),)
    with pytest.raises(NotFittedError, match="SparseGPClassifier instance is not fitted yet"):
        getattr(SparseGPClassifier(), method)(*arguments)


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


def test_no_training_rows_are_kept_but_the_inducing_points():
    X, y = moons(500)
    model = fixed_model(n_inducing=20, selection_tol=0.0).fit(X, y, np.linspace(0.5, 1.0, 500))
    arrays = list(every_array(model, []))
    assert any(array.shape == (20, 20) for array in arrays)
    assert max(array.size for array in arrays) <= 400
    assert len(pickle.dumps(model)) < 20_000


@pytest.mark.parametrize("library", ["pickle", "joblib"])
def test_a_saved_model_predicts_the_same(learned, library):
    if library == "pickle":
        copy = pickle.loads(pickle.dumps(learned))
    else:
        stream = io.BytesIO()
        joblib.dump(learned, stream)
        stream.seek(0)
        copy = joblib.load(stream)
    assert_array_equal(copy.predict_proba(grid()), learned.predict_proba(grid()))
    assert copy.lower_bound_ == learned.lower_bound_
    assert copy.lower_bound(X=grid(), y=np.arange(len(grid())) % 2) < 0.0


def test_a_clone_is_not_fitted(learned):
    copy = clone(learned)
    assert copy.get_params() == learned.get_params()
    assert not [name for name in vars(copy) if name.endswith("_")]


# With the rest of scikit-learn


def test_grid_search_over_points_and_tolerance():
    X, y = moons(60)
    pipeline = make_pipeline(StandardScaler(), fixed_model())
    name = "sparsegpclassifier__"
    grid_ = {f"{name}n_inducing": [6, 20], f"{name}selection_tol": [1e-1, 1e-3]}
    search = GridSearchCV(pipeline, grid_, cv=3, scoring="neg_log_loss").fit(X, y)
    assert len(search.cv_results_["params"]) == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(set(search.cv_results_["mean_test_score"])) > 1
    assert search.best_estimator_.predict_proba(X).shape == (60, 2)


def test_grid_search_reaches_the_selector():
    X, y = moons(60)
    model = fixed_model(selector=InducingPointSelector(n_components=30))
    search = GridSearchCV(model, {"selector__tol": [1e-1, 1e-2, 1e-3]}, cv=2).fit(X, y)
    sizes = [
        len(clone(model).set_params(**setting).fit(X, y).inducing_points_)
        for setting in search.cv_results_["params"]
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_grid_search_in_threads_gives_the_same():
    X, y = moons(60)
    model = small_model(max_iter=5, tol=1e-2, max_reselections=1)
    grid_ = {"n_inducing": [3, 6, 12]}
    alone = GridSearchCV(model, grid_, cv=2, scoring="neg_log_loss").fit(X, y)
    with joblib.parallel_backend("threading", n_jobs=2):
        threads = GridSearchCV(model, grid_, cv=2, scoring="neg_log_loss", n_jobs=2).fit(X, y)
    scores = [search.cv_results_["mean_test_score"] for search in (alone, threads)]
    assert_array_equal(scores[0], scores[1])


def test_cross_validation():
    X, y = moons(60)
    pipeline = make_pipeline(StandardScaler(), fixed_model())
    proba = cross_val_predict(pipeline, X, y, cv=3, method="predict_proba")
    assert proba.shape == (60, 2)
    assert np.mean(proba.argmax(axis=1) == y) > 0.8
    assert cross_val_score(pipeline, X, y, cv=3, scoring="roc_auc").mean() > 0.9


def test_the_selector_feeds_a_linear_model():
    X, y = moons()
    selector = InducingPointSelector(n_components=20, weighting="classification")
    pipeline = make_pipeline(StandardScaler(), selector, LogisticRegression(C=10.0)).fit(X, y)
    assert pipeline.score(*moons(200, seed=1)) > 0.85


def test_metadata_routing_of_weights(rng):
    X, y = moons(60)
    weight = rng.uniform(size=60)
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False),
            fixed_model().set_fit_request(sample_weight=True),
        ).fit(X, y, sample_weight=weight)
    scaled = StandardScaler().fit_transform(X)
    expected = fixed_model().fit(scaled, y, weight)
    assert pipeline[-1].lower_bound_ == expected.lower_bound_
    assert expected.lower_bound_ != fixed_model().fit(scaled, y).lower_bound_


def test_calibration_works_on_top():
    X, y = moons()
    for method in ("sigmoid", "isotonic"):
        calibrated = CalibratedClassifierCV(fixed_model(), cv=3, method=method).fit(X, y)
        assert calibrated.score(X, y) > 0.85


def test_the_decision_boundary_can_be_drawn(learned):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot
    from sklearn.inspection import DecisionBoundaryDisplay

    for method in ("predict", "predict_proba", "decision_function"):
        display = DecisionBoundaryDisplay.from_estimator(
            learned, moons()[0], response_method=method, grid_resolution=5
        )
        assert display.response.shape == (5, 5)
    pyplot.close("all")


# Hard cases


def test_warm_start_respects_a_lower_number_of_points(learned):
    model = clone(learned).fit(*moons()).set_params(warm_start=True, n_inducing=5)
    assert len(model.fit(*moons()).inducing_points_) <= 5


def test_warm_start_takes_no_other_kernel_for_the_default():
    X, y = moons()
    model = small_model(kernel=ConstantKernel() * Matern(1.0, nu=1.5)).fit(X, y)
    with pytest.raises(ValueError, match="kernel structure of the last fit"):
        model.set_params(kernel=None, warm_start=True).fit(X, y)


def test_warm_start_takes_new_limits():
    X, y = moons()
    model = small_model(kernel=ConstantKernel() * RBF(1.0, (0.01, 0.1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    before = model.lower_bound_
    wide = ConstantKernel() * RBF(1.0, (1e-3, 1e3))
    model.set_params(kernel=wide, warm_start=True).fit(X, y)
    assert model.lower_bound_ > before + 1.0
    assert model.kernel_.k2.length_scale > 0.2


def test_lower_bound_at_absurd_hyperparameters_is_minus_infinity():
    X, y = moons()
    model = fixed_model().fit(X, y)
    bound, gradient = model.lower_bound([1000.0, 0.0], X, y, eval_gradient=True)
    assert bound == -np.inf
    assert_array_equal(gradient, 0.0)


@pytest.mark.parametrize("trials", [10, 1000, 100000])
def test_binomial_counts_of_any_size_are_fitted(trials, rng):
    """More trials of a cell tell more of its probability: the tolerance must not see less."""
    cells = np.stack(np.meshgrid(*2 * [np.linspace(-2.0, 2.0, 8)]), axis=-1).reshape(-1, 2)
    truth = expit(2.0 * np.sin(1.5 * cells[:, 0]) + cells[:, 1])
    heads = rng.binomial(trials, truth)
    X = np.concatenate([cells, cells])
    y = np.repeat([1, 0], len(cells))
    weight = np.concatenate([heads, trials - heads])
    model = SparseGPClassifier(kernel=ConstantKernel() * RBF(1.5), max_iter=20).fit(
        X, y, sample_weight=weight
    )
    error = np.abs(model.predict_proba(cells)[:, 1] - truth)
    assert error.mean() < {10: 0.12, 1000: 0.03, 100000: 0.03}[trials]
    assert len(model.inducing_points_) > 5


def test_one_sentinel_value_does_not_hide_the_rest():
    X, y = make_moons(400, noise=0.25, random_state=0)
    plain = small_model().fit(X, y)
    X[7, 1] = 1e6
    assert warnings_of(model := small_model(), X, y) == []
    assert model.lower_bound_ > plain.lower_bound_ - 15.0
    assert model.score(X, y) > 0.88


def test_weights_over_many_orders_of_magnitude_are_fitted(rng):
    X, y = moons(60)
    weight = 10.0 ** rng.uniform(-9.0, 3.0, size=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = small_model(max_iter=20).fit(X, y, sample_weight=weight)
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.isfinite(model.lower_bound_)


def test_weights_beyond_all_counts_are_refused():
    X, y = moons(20)
    with pytest.raises(ValueError, match=r"sample_weight must be at most 1e\+15, got 1e\+300"):
        SparseGPClassifier().fit(X, y, sample_weight=np.full(20, 1e300))


def test_sites_that_do_not_settle_are_reported(monkeypatch):
    monkeypatch.setattr("sparsegpc._core.learning.fit.MAX_FINAL_ITERATIONS", 2)
    X, y = moons(60)
    model = fixed_model(kernel=ConstantKernel(1e6) * RBF(1.0))
    ((category, text, filename),) = warnings_of(model, X, y)
    assert category is ConvergenceWarning
    assert "the sites did not settle in 2 passes" in text
    assert filename == __file__
    assert not model.converged_
    assert model.score(X, y) > 0.8


def test_sites_settle_where_the_variance_is_absurd():
    X, y = moons(60)
    y = X[:, 1] > 0.3
    kernel = ConstantKernel(1e9, "fixed") * RBF(1.0, "fixed")
    model = SparseGPClassifier(kernel).fit(X, y)
    assert model.converged_
    assert model.score(X, y) == 1.0


def test_warm_start_with_few_points_does_not_stay_trivial(rng):
    X = rng.randn(300, 2)
    y = X[:, 0] * X[:, 1] + 0.3 * rng.randn(300) > 0
    model = SparseGPClassifier(warm_start=True).fit(X, y).set_params(n_inducing=5).fit(X, y)
    cold = SparseGPClassifier(n_inducing=5).fit(X, y)
    assert model.lower_bound_ > cold.lower_bound_ - 15.0


def test_warm_start_asks_a_fixed_selector_for_its_number_of_points():
    X, y = moons()
    model = fixed_model(selector="uniform", n_inducing=10, selection_tol=0, random_state=0).fit(
        X, y
    )
    model.set_params(warm_start=True, n_inducing=20).fit(X, y)
    assert len(model.inducing_points_) == 20


@pytest.mark.parametrize("value", [-1e16, 1e17, -1e100])
def test_a_sentinel_of_any_size_and_sign_leaves_the_start_values_alone(value):
    X, y = make_moons(200, noise=0.25, random_state=0)
    X[3, 0] = value
    assert warnings_of(model := small_model(), X, y) == []
    assert model.score(X, y) > 0.85


def test_a_loose_tolerance_does_not_make_a_model_poor():
    X, y = moons()
    assert warnings_of(small_model(tol=0.5), X, y) == []


def test_a_low_limit_of_the_variance_is_not_taken_for_separability():
    X, y = moons()
    kernel = ConstantKernel(1.0, (0.01, 1.5)) * RBF(1.0)
    ((_, text, _),) = warnings_of(small_model(kernel=kernel), X, y)
    assert "constant_value = 1.5 at its upper limit" in text
    assert "separable" not in text


@pytest.mark.parametrize(
    ("kernel", "match"),
    [
        (RBF(1.0, (5.0, 2.0)), "lower bound must not exceed the upper"),
        (ConstantKernel(1.0, (2.0, 1.0)) * RBF(), "constant_value, but the lower bound must not"),
    ],
    ids=["length-scale", "constant"],
)
def test_bounds_the_wrong_way_round_are_named(kernel, match):
    with pytest.raises(ValueError, match=match):
        SparseGPClassifier(kernel).fit(*moons(20))


def test_differences_too_small_to_square_are_refused():
    X, y = moons(20)
    with pytest.raises(ValueError, match="square underflows: scale the columns"):
        SparseGPClassifier().fit(1e-200 * X, y)


def test_weights_too_small_to_compute_with_are_refused():
    X, y = moons(20)
    with pytest.raises(ValueError, match="sample_weight must be zero or at least 1e-100"):
        SparseGPClassifier().fit(X, y, sample_weight=np.full(20, 5e-324))


def test_absurd_inducing_points_are_refused():
    X, y = moons(20)
    with pytest.raises(ValueError, match=r"selector holds a value of 1e\+200"):
        SparseGPClassifier(selector=np.full((3, 2), 1e200)).fit(X, y)
