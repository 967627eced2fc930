"""The classifier of two classes as users see it: what it computes and what it promises."""

import warnings

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process import kernels as sk
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import InducingPointSelector, SparseGPClassifier
from tests.estimators.two_classes import (
    BOUNDS,
    FIXED,
    LIKELIHOODS,
    DensePolyaGamma,
    expected_sigmoid,
    fixed_model,
    grid,
    moons,
    small_model,
)


@pytest.fixture(scope="module")
def learned():
    """A classifier that has learned its kernel on `moons()`; not to be changed."""
    return small_model().fit(*moons())


# Against other implementations


@pytest.mark.filterwarnings("ignore:a weight counts copies")
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


# Likelihoods and bounds


@LIKELIHOODS
def test_the_bounds_are_ordered_at_the_same_kernel_and_points(likelihood):
    X, y = moons()
    names = [name for name in ("standard", "spherical", "tight") if name in BOUNDS[likelihood]]
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
    assert isinstance(learned.jitter_, float)
    assert 0.0 <= learned.jitter_ < 1e-9
    assert learned.n_features_in_ == 2


def test_public_attributes_are_documented_and_no_others_exist():
    pandas = pytest.importorskip("pandas")
    X, y = moons(40)
    model = fixed_model().fit(pandas.DataFrame(X, columns=["a", "b"]), y)
    public = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    section = SparseGPClassifier.__doc__.split("Attributes\n")[1].split("See Also")[0]
    documented = {line.split(" : ")[0].strip() for line in section.splitlines() if " : " in line}
    assert public == documented


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
    grid_ = {"n_inducing": [3, 12]}
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


@pytest.mark.filterwarnings("ignore:a weight counts copies")
def test_weights_over_many_orders_of_magnitude_are_fitted(rng):
    X, y = moons(60)
    weight = 10.0 ** rng.uniform(-9.0, 3.0, size=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = small_model(max_iter=20).fit(X, y, sample_weight=weight)
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.isfinite(model.lower_bound_)


def test_sites_settle_where_the_variance_is_absurd():
    X, y = moons(60)
    y = X[:, 1] > 0.3
    kernel = ConstantKernel(1e9, "fixed") * RBF(1.0, "fixed")
    model = SparseGPClassifier(kernel).fit(X, y)
    assert model.converged_
    assert model.score(X, y) == 1.0
