"""The classifier with many classes, of every likelihood."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier

from sparsegpc import SparseGPClassifier
from sparsegpc.likelihoods import DirichletTargets, PolyaGammaLogit, Softmax
from tests.estimators.many_classes import (
    EVERY,
    JOINT,
    KERNEL,
    blobs,
    every_likelihood,
    fixed_model,
    grid,
    moons,
    quick_model,
    quietly,
    some_likelihoods,
)


@pytest.fixture(scope="module", params=EVERY)
def fitted(request):
    """A model of three classes of each likelihood; not to be changed."""
    return fixed_model(likelihood=request.param).fit(*blobs())


# What is fitted


@every_likelihood
def test_it_learns_to_tell_the_classes_apart(likelihood):
    X, y = blobs(75)
    X_test, y_test = blobs(300, seed=1)
    model = quietly(quick_model(likelihood=likelihood, n_inducing=15), X, y)
    assert model.score(X_test, y_test) > 0.8
    assert log_loss(y_test, model.predict_proba(X_test)) < 0.65
    assert (model.estimators_ is None) == (likelihood in JOINT)


def test_auto_is_logistic_for_two_classes_and_softmax_for_more():
    for data, name in ((moons(), "bernoulli-logit"), (blobs(), "softmax")):
        auto, named = fixed_model().fit(*data), fixed_model(likelihood=name).fit(*data)
        assert auto.lower_bound_ == named.lower_bound_
        assert_array_equal(auto.predict_proba(grid()), named.predict_proba(grid()))


@pytest.mark.parametrize(
    ("name", "instance"),
    [("softmax", Softmax()), ("dirichlet", DirichletTargets()), ("polya-gamma", PolyaGammaLogit())],
)
def test_a_likelihood_by_name_and_by_instance_is_the_same(name, instance):
    one = fixed_model(likelihood=name).fit(*blobs())
    other = fixed_model(likelihood=instance).fit(*blobs())
    assert other.likelihood is instance
    assert one.lower_bound_ == other.lower_bound_
    assert_array_equal(one.predict_proba(grid()), other.predict_proba(grid()))


def test_the_concentration_is_a_setting():
    one, other = (
        fixed_model(likelihood=DirichletTargets(value)).fit(*blobs()) for value in (0.01, 0.5)
    )
    assert one.predict_proba(blobs()[0]).max() > other.predict_proba(blobs()[0]).max() + 0.05


@pytest.mark.parametrize(
    ("likelihood", "selector"), [*((name, "hgv") for name in EVERY), ("softmax", "given")]
)
def test_renaming_the_classes_permutes_the_columns(likelihood, selector):
    X, y = blobs()
    points = X[:10] if selector == "given" else "hgv"
    model = fixed_model(likelihood=likelihood, selector=points).fit(X, y)
    # Ordered classes may only be reversed.
    order = np.array([2, 1, 0] if likelihood == "ordinal-logit" else [2, 0, 1])
    renamed = clone(model).fit(X, order[y])
    assert_allclose(renamed.lower_bound_, model.lower_bound_, rtol=1e-6)
    assert_allclose(renamed.predict_proba(grid())[:, order], model.predict_proba(grid()), atol=1e-5)


def test_softmax_of_two_classes_agrees_with_the_logistic_likelihood():
    """The difference of two functions has twice the variance of each."""
    X, y = moons()
    joint = fixed_model(likelihood="softmax", selector=X, tol=1e-8).fit(X, y)
    binary = fixed_model(kernel=ConstantKernel(10.0) * RBF(1.0), selector=X, tol=1e-8).fit(X, y)
    mean, _ = joint.latent_mean_and_variance(grid())
    assert mean.shape == (25, 2)
    # Functions that are independent in the posterior, too, are a little less sure.
    assert binary.lower_bound_ - 5.0 < joint.lower_bound_ < binary.lower_bound_
    ours, theirs = joint.predict_proba(X)[:, 1], binary.predict_proba(X)[:, 1]
    assert np.abs(ours - theirs).mean() < 0.02
    assert np.abs(ours - theirs).max() < 0.06


def test_dirichlet_fits_are_regressions_on_transformed_labels():
    X, y = blobs()
    model = fixed_model(likelihood="dirichlet", selector=X, fit_prior_mean=False).fit(X, y)
    noise = np.log1p(1.0 / (0.01 + np.eye(3)[y]))
    targets = np.log(0.01 + np.eye(3)[y]) - 0.5 * noise
    mean, variance = model.latent_mean_and_variance(grid())
    bound = 0.0
    for k in range(3):
        exact = GaussianProcessRegressor(KERNEL, alpha=noise[:, k], optimizer=None)
        expected, deviation = exact.fit(X, targets[:, k]).predict(grid(), return_std=True)
        assert_allclose(mean[:, k], expected, atol=1e-4)
        assert_allclose(variance[:, k], deviation**2, atol=1e-4)
        bound += exact.log_marginal_likelihood_value_
    assert_allclose(model.lower_bound_, bound, atol=1e-3)
    draws = np.random.RandomState(0).randn(100_000, 3)
    for row in (3, 12):
        sampled = softmax(mean[row] + np.sqrt(variance[row]) * draws, axis=1).mean(axis=0)
        assert_allclose(model.predict_proba(grid())[row], sampled, atol=5e-3)


# Likelihoods and bounds


@pytest.mark.parametrize(
    ("likelihood", "bound", "possible"),
    [
        ("conditional-polya-gamma", "standard", ("tight",)),
        ("conditional-polya-gamma", "spherical", ("tight",)),
    ],
)
def test_impossible_pairs_of_likelihood_and_bound_are_refused(likelihood, bound, possible):
    model = fixed_model(likelihood=likelihood, bound=bound)
    with pytest.raises(ValueError, match=f"bound='{bound}' is not available") as caught:
        model.fit(*blobs())
    assert str(possible) in str(caught.value)
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize("likelihood", [*JOINT, "bernoulli-logit", "polya-gamma"])
def test_the_three_bounds_are_ordered(likelihood):
    X, y = blobs()
    values = {
        bound: fixed_model(likelihood=likelihood, bound=bound, selector=X[:6])
        .fit(X, y)
        .lower_bound_
        for bound in ("standard", "spherical", "tight", "auto")
    }
    assert values["standard"] < values["spherical"] < values["tight"] == values["auto"]


# Relevance of columns


@some_likelihoods
def test_the_irrelevant_column_is_the_least_relevant(likelihood, rng):
    X, y = blobs(120)
    X = np.column_stack([X, rng.randn(120), np.full(120, 3.0)])
    model = quietly(
        quick_model(
            kernel=ConstantKernel(5.0) * RBF(np.ones(4)), likelihood=likelihood, max_iter=20
        ),
        X,
        y,
    )
    relevance = model.feature_relevance_
    assert relevance.shape == (4,)
    assert relevance[3] == 0.0
    assert relevance[2] < 0.5 * relevance[:2].min()


def test_relevance_counts_length_scales_per_deviation():
    X, y = blobs()
    kernel = ConstantKernel(5.0) * RBF([0.5, 4.0])
    model = fixed_model(kernel=kernel).fit(X, y)
    assert_allclose(model.feature_relevance_, X.std(axis=0) / [0.5, 4.0], rtol=1e-9)
    each = fixed_model(kernel=kernel, likelihood="polya-gamma").fit(X, y)
    assert_allclose(each.feature_relevance_, model.feature_relevance_, rtol=1e-9)
    for likelihood in ("softmax", "polya-gamma"):
        linear = fixed_model(kernel=DotProduct(1.0), likelihood=likelihood).fit(X, y)
        assert linear.feature_relevance_ is None


# The fitted object


def test_public_attributes_are_documented_and_no_others_exist(fitted):
    public = {name for name in vars(fitted) if name.endswith("_") and not name.startswith("_")}
    section = SparseGPClassifier.__doc__.split("Attributes\n")[1].split("See Also")[0]
    documented = {line.split(" : ")[0].strip() for line in section.splitlines() if " : " in line}
    assert public == documented - {"feature_names_in_"}


def test_nothing_of_the_past_stays_after_another_kind_of_fit():
    X, y = blobs()
    model = fixed_model().fit(X, y)
    model.set_params(likelihood="polya-gamma").fit(X, y)
    each = fixed_model(likelihood="polya-gamma").fit(X, y)
    assert set(vars(model)) == set(vars(each))
    model.set_params(likelihood="softmax").fit(X, y)
    assert set(vars(model)) == set(vars(fixed_model().fit(X, y)))
    assert model.estimators_ is None


# With the rest of scikit-learn


def test_several_labels_at_once():
    X, y = blobs()
    labels = np.column_stack([y == 0, y == 1, X[:, 0] > 0])
    model = MultiOutputClassifier(fixed_model()).fit(X, labels)
    assert model.predict(X).shape == (45, 3)
    assert (model.predict(X) == labels).mean() > 0.9
    assert [len(one.classes_) for one in model.estimators_] == [2, 2, 2]


def test_grid_search_over_likelihoods_and_points():
    X, y = blobs()
    settings = {"likelihood": ["auto", "dirichlet", Softmax()], "n_inducing": [3, 12, "auto"]}
    search = GridSearchCV(fixed_model(), settings, cv=2, scoring="neg_log_loss").fit(X, y)
    scores = search.cv_results_["mean_test_score"].reshape(3, 3)
    assert np.isfinite(scores).all()
    assert_array_equal(scores[0], scores[2])
    assert (scores[:, 1] > scores[:, 0]).all()
    assert search.predict(X).shape == (45,)


# Hard cases


def test_twenty_classes_of_few_rows():
    X, y = blobs(100, 20)
    for likelihood in ("softmax", "dirichlet"):
        model = fixed_model(likelihood=likelihood).fit(X, y)
        assert model.predict_proba(grid()).shape == (25, 20)
        assert_allclose(model.predict_proba(grid()).sum(axis=1), 1.0)
        assert np.isfinite(model.lower_bound_)


@pytest.mark.filterwarnings("ignore:a weight counts copies")
@pytest.mark.parametrize("bound", ["tight", "spherical", "standard"])
@pytest.mark.parametrize("n_inducing", [1, 2, 3])
def test_weights_of_classes_that_are_seven_decades_apart(bound, n_inducing):
    X, y = blobs(50)
    weight = np.where(y == 0, 1e3, 1e-4)
    kernel = RBF(0.1)
    model = fixed_model(kernel=kernel, bound=bound, n_inducing=n_inducing).fit(X, y, weight)
    totals = np.bincount(y, weight)
    constant = totals @ np.log(totals / totals.sum())
    assert model.converged_
    assert 1.5 * constant < model.lower_bound_ < 0.0
    # Hardly anything is known about the others.
    assert_allclose(model.predict_proba(X)[:, 0], 1.0, atol=1e-3)


# In the other likelihoods of two classes there is one model for each of several.
@pytest.mark.parametrize(
    ("likelihood", "n_classes"),
    [(name, 3 if name in JOINT else 2) for name in sorted(set(EVERY) - {"dirichlet"})],
)
def test_labels_of_noise_give_the_probabilities_of_noise(likelihood, n_classes):
    rng = np.random.RandomState(1)
    X, y = rng.randn(1200, 2), rng.randint(n_classes, size=1200)
    model = SparseGPClassifier(likelihood=likelihood, n_inducing=10, main_effects=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[:300], y[:300])
    loss = log_loss(y[300:], model.predict_proba(X[300:]))
    assert loss <= np.log(n_classes) + 0.02
