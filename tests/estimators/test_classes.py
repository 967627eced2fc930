"""The classifier with many classes, of every likelihood; what it certifies, draws and tells."""

import pickle
import warnings

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, softmax
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, ConstantKernel, DotProduct
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier

from sparsegpc import SparseGPClassifier
from sparsegpc._estimators.messages.fit_warnings import Warned, gather_classes
from sparsegpc._estimators.one_vs_rest import OneVsRestLink
from sparsegpc.likelihoods import NAMES, DirichletTargets, PolyaGammaLogit, Softmax

BINARY = ("bernoulli-logit", "bernoulli-probit", "polya-gamma", "conditional-polya-gamma")
JOINT = ("softmax", "logistic-softmax", "dirichlet")
EVERY = (*JOINT, *BINARY)
# Likelihoods of one kind are tested by one of them where the code is the same for all.
SOME = ("softmax", "dirichlet", "polya-gamma")
every_likelihood = pytest.mark.parametrize("likelihood", EVERY)
some_likelihoods = pytest.mark.parametrize("likelihood", SOME)
KERNEL = ConstantKernel(5.0) * RBF(1.0)


def blobs(n_samples=45, n_classes=3, seed=0):
    """Return rows around the corners of a polygon, and the numbers of the corners."""
    rng = np.random.RandomState(seed)
    y = rng.randint(n_classes, size=n_samples)
    y[:n_classes] = np.arange(n_classes)
    angle = 2.0 * np.pi * y / n_classes
    X = 1.5 * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.8 * rng.randn(n_samples, 2)
    X.flags.writeable = y.flags.writeable = False
    return X, y


def moons(n_samples=60):
    return make_moons(n_samples, noise=0.3, random_state=0)


def grid(n=5):
    side = np.linspace(-3.0, 3.0, n)
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)


def fixed_model(**parameters):
    return SparseGPClassifier(
        **{
            "kernel": KERNEL,
            "optimizer": None,
            "selector": "hgv",
            "n_inducing": 10,
            "selection_tol": 0,
            **parameters,
        }
    )


def quick_model(**parameters):
    """One that learns, a little."""
    return SparseGPClassifier(
        **{
            "selector": "hgv",
            "n_inducing": 10,
            "max_iter": 5,
            "max_reselections": 1,
            "tol": 1e-3,
            **parameters,
        }
    )


def quietly(model, X, y, weight=None):
    """Fit, whatever there is to tell about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y, weight)


@pytest.fixture(scope="module", params=EVERY)
def fitted(request):
    """A model of three classes of each likelihood; not to be changed."""
    return fixed_model(likelihood=request.param).fit(*blobs())


# What is fitted


@every_likelihood
def test_it_learns_to_tell_the_classes_apart(likelihood):
    X, y = blobs(120)
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


def test_the_probabilities_sum_to_one_and_agree_with_all_else(fitted):
    proba = fitted.predict_proba(grid())
    assert proba.shape == (25, 3)
    assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-14)
    assert_allclose(np.exp(fitted.predict_log_proba(grid())), proba, rtol=1e-9)
    assert_array_equal(fitted.decision_function(grid()), fitted.predict_log_proba(grid()))
    assert_array_equal(fitted.predict(grid()), proba.argmax(axis=1))
    assert set(fitted.predict(grid())) == {0, 1, 2}
    mean, variance = fitted.latent_mean_and_variance(grid())
    assert mean.shape == variance.shape == (25, 3)
    assert (variance > 0.0).all()
    assert_allclose([fitted.decision_function(row[None])[0] for row in grid()], np.log(proba))


@pytest.mark.parametrize("likelihood", ["auto", *JOINT])
def test_log_probabilities_do_not_underflow(likelihood):
    X = np.repeat([[-1.0], [0.1], [1.0]], 3, axis=0)
    y, weight = np.tile([0, 1, 2], 3), 1e4 * np.array([3, 1, 1, 1, 3, 1, 1, 1, 3.0])
    model = fixed_model(kernel=DotProduct(1.0), likelihood=likelihood).fit(X, y, weight)
    far = model.predict_log_proba([[1e4], [-1e5]])
    assert np.isfinite(far).all()
    assert_array_equal(model.predict([[1e4], [-1e5]]), [2, 0])


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
def test_labels_of_any_type(names, likelihood):
    X, y = blobs()
    names = np.asarray(names)
    reference = fixed_model(likelihood=likelihood).fit(X, y)
    model = clone(reference).fit(X, names[y])
    assert_array_equal(model.classes_, names)
    assert model.classes_.dtype == names.dtype
    assert_array_equal(model.predict_proba(grid()), reference.predict_proba(grid()))
    assert_array_equal(model.predict(X), names[reference.predict(X)])


def test_booleans_are_two_classes_of_every_likelihood():
    X, y = moons()
    for likelihood in EVERY:
        model = fixed_model(likelihood=likelihood).fit(X, y == 1)
        assert_array_equal(model.classes_, [False, True])
        assert model.predict(X).dtype == bool
        assert model.score(X, y == 1) > 0.8
        assert model.decision_function(X).shape == (60,)
        assert model.predict_proba(X).shape == (60, 2)


@every_likelihood
@pytest.mark.parametrize("selector", ["given", "hgv"])
def test_renaming_the_classes_permutes_the_columns(likelihood, selector):
    X, y = blobs()
    points = X[:10] if selector == "given" else "hgv"
    model = fixed_model(likelihood=likelihood, selector=points).fit(X, y)
    order = np.array([2, 0, 1])
    renamed = clone(model).fit(X, order[y])
    assert_allclose(renamed.lower_bound_, model.lower_bound_, rtol=1e-6)
    assert_allclose(renamed.predict_proba(grid())[:, order], model.predict_proba(grid()), atol=1e-5)


@every_likelihood
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_order_of_rows_does_not_matter_at_all(likelihood, n_classes, rng):
    X, y = blobs(40, n_classes)
    order = rng.permutation(40)
    one = fixed_model(likelihood=likelihood).fit(X, y)
    other = clone(one).fit(X[order], y[order])
    assert one.lower_bound_ == other.lower_bound_
    assert_array_equal(one.predict_proba(grid()), other.predict_proba(grid()))


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


# One model for each class


@pytest.mark.parametrize("likelihood", BINARY)
def test_one_versus_rest_is_a_binary_model_for_each_class(likelihood):
    X, y = blobs()
    model = quietly(quick_model(likelihood=likelihood), X, y)
    each = [quietly(quick_model(likelihood=likelihood), X, y == k) for k in range(3)]
    parts = np.stack([one.predict_proba(grid())[:, 1] for one in each], axis=1)
    assert_allclose(model.predict_proba(grid()), parts / parts.sum(axis=1, keepdims=True))
    assert_allclose(model.lower_bound_, sum(one.lower_bound_ for one in each), rtol=1e-12)
    moments = [one.latent_mean_and_variance(grid()) for one in each]
    assert_array_equal(model.latent_mean_and_variance(grid()), np.moveaxis(moments, 0, 2))
    assert model.kernel_ == CompoundKernel([one.kernel_ for one in each])
    assert_array_equal(model.prior_mean_, [one.prior_mean_ for one in each])
    assert model.n_evaluations_ == sum(one.n_evaluations_ for one in each)
    assert model.converged_ == all(one.converged_ for one in each)
    for k, one in enumerate(each):
        assert_array_equal(model.inducing_points_[k], one.inducing_points_)
        assert_array_equal(model.inducing_indices_[k], one.inducing_indices_)
        assert_array_equal(model.lower_bounds_[k], one.lower_bounds_)
        assert_array_equal(model.estimators_[k].classes_, [0, 1])
    assert_array_equal(
        model.feature_relevance_, np.max([one.feature_relevance_ for one in each], axis=0)
    )


def test_in_processes_and_in_threads_it_gives_the_same():
    X, y = blobs()
    model = quick_model(likelihood="polya-gamma", selector="rpcholesky", random_state=0)
    alone = quietly(model, X, y)
    expected = alone.predict_proba(grid()), alone.lower_bound_, alone.inducing_points_
    for backend in ("loky", "threading"):
        with joblib.parallel_backend(backend):
            other = quietly(clone(model).set_params(n_jobs=2), X, y)
        assert other.lower_bound_ == expected[1]
        assert_array_equal(other.predict_proba(grid()), expected[0])
        for ours, theirs in zip(other.inducing_points_, expected[2], strict=True):
            assert_array_equal(ours, theirs)


def test_the_random_state_decides():
    X, y = blobs()
    model = fixed_model(likelihood="polya-gamma", selector="uniform", n_inducing=8)
    np.random.seed(3)
    one, same, other = (
        clone(model).set_params(random_state=seed).fit(X, y).inducing_points_ for seed in (0, 0, 1)
    )
    assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert not np.array_equal(one[0], one[1])
    assert np.random.uniform() == np.random.RandomState(3).uniform()


def test_a_warning_says_which_classes_it_is_about_and_each_cause_comes_once():
    X, y = blobs()
    with pytest.warns(ConvergenceWarning) as caught:
        quick_model(likelihood="polya-gamma", max_iter=1, tol=1e-9).fit(X, np.array(list("abc"))[y])
    (text,) = [str(item.message) for item in caught if "max_iter" in str(item.message)]
    assert text.startswith("class a against the rest: ")
    assert text.endswith("The same goes for class b, c")
    assert {item.filename for item in caught} == {__file__}


def test_where_many_classes_have_the_same_to_tell_some_are_named():
    labels = [f"c{k}" for k in range(15)]
    same, own = Warned(UserWarning, "m", "m"), Warned(UserWarning, "n", "n")
    told = gather_classes(labels, [[same]] + [[same, own]] + 13 * [[same]])
    named = ", ".join(f"c{k}" for k in range(1, 11))
    assert [one.message for one in told] == [
        f"class c0 against the rest: m. The same goes for class {named} and 4 more",
        "class c1 against the rest: n",
    ]


# Weights


@every_likelihood
@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_are_repetition(likelihood, n_classes):
    X, y = blobs(40, n_classes)
    weight = np.random.RandomState(1).randint(0, 4, 40)
    weight[:n_classes] = 1
    weighted = fixed_model(likelihood=likelihood, n_inducing=8).fit(X, y, weight)
    order = np.random.RandomState(2).permutation(np.repeat(np.arange(40), weight))
    repeated = clone(weighted).fit(X[order], y[order])
    assert_allclose(repeated.lower_bound_, weighted.lower_bound_, rtol=1e-9)
    assert_allclose(repeated.predict_proba(grid()), weighted.predict_proba(grid()), atol=1e-7)
    assert abs(weighted.lower_bound_ - clone(weighted).fit(X, y).lower_bound_) > 0.1


@every_likelihood
def test_counts_of_each_class_at_a_row_are_weights(likelihood, rng):
    cells = rng.randn(16, 2)
    counts = rng.multinomial(5, [0.5, 0.3, 0.2], size=16)
    X, y = np.repeat(cells, 3, axis=0), np.tile([0, 1, 2], 16)
    model = fixed_model(likelihood=likelihood, n_inducing=8).fit(X, y, counts.ravel())
    copies = np.repeat(np.arange(48), counts.ravel())
    other = clone(model).fit(X[copies], y[copies])
    assert_allclose(model.lower_bound_, other.lower_bound_, rtol=1e-9)
    assert_allclose(model.predict_proba(cells), other.predict_proba(cells), atol=1e-7)


def test_the_frequencies_of_one_row_are_found():
    X, y = np.zeros((3, 1)), np.array([0, 1, 2])
    weight = np.array([500.0, 300.0, 200.0])
    for likelihood in ("softmax", *BINARY):
        model = fixed_model(likelihood=likelihood).fit(X, y, weight)
        assert_allclose(model.predict_proba([[0.0]])[0], [0.5, 0.3, 0.2], atol=0.02)


@some_likelihoods
def test_a_class_of_weight_zero_is_no_class(likelihood):
    X, y = blobs(60, 4)
    model = fixed_model(likelihood=likelihood).fit(X, y, y != 1)
    reference = clone(model).fit(X[y != 1], y[y != 1])
    assert_array_equal(model.classes_, [0, 2, 3])
    assert model.lower_bound_ == reference.lower_bound_
    assert_array_equal(model.predict_proba(grid()), reference.predict_proba(grid()))
    indices = np.atleast_2d(model.inducing_indices_)
    points = model.inducing_points_ if likelihood in BINARY else [model.inducing_points_]
    for index, Z in zip(indices, points, strict=True):
        assert_array_equal(X[index], Z)


@every_likelihood
@pytest.mark.parametrize("n_classes", [2, 3])
def test_class_weights_multiply_the_weights(likelihood, n_classes, rng):
    X, y = blobs(60, n_classes)
    keep = (y > 0) | (rng.uniform(size=60) < 0.4)
    X, y = X[keep], y[keep]
    weight = rng.uniform(0.5, 2.0, len(y))
    totals = np.bincount(y, weight)
    balanced = weight * (weight.sum() / n_classes / totals)[y]
    given = {0: 3.0, n_classes - 1: 0.5}
    by_dict = weight * np.where(y == 0, 3.0, np.where(y == n_classes - 1, 0.5, 1.0))
    for class_weight, equal in (("balanced", balanced), (given, by_dict)):
        model = fixed_model(likelihood=likelihood, class_weight=class_weight).fit(X, y, weight)
        other = fixed_model(likelihood=likelihood).fit(X, y, equal)
        assert_allclose(model.lower_bound_, other.lower_bound_, rtol=1e-9)
        assert_allclose(model.predict_proba(grid()), other.predict_proba(grid()), atol=1e-9)
        assert_allclose(model.lower_bound(X=X, y=y, sample_weight=weight), model.lower_bound_)
        assert_allclose(model.certificate(X, y, weight).lower_bound, model.lower_bound_)
        # The model of a class has been given the product.
        for k, one in enumerate(model.estimators_ or []):
            bound = one.lower_bound(X=X, y=(y == k).astype(int), sample_weight=equal)
            assert_allclose(bound, one.lower_bound_)
    assert model.certificate(X, y, weight).n_rows == pytest.approx(by_dict.sum())


def test_class_weights_by_name_and_those_left_out():
    X, y = blobs()
    names = np.array(["ant", "bee", "cat"])
    by_name = fixed_model(class_weight={"bee": 4.0}).fit(X, names[y])
    weighted = fixed_model().fit(X, y, np.where(y == 1, 4.0, 1.0))
    assert_array_equal(by_name.predict_proba(grid()), weighted.predict_proba(grid()))
    assert by_name.predict_proba(grid())[:, 1].mean() > (
        fixed_model().fit(X, y).predict_proba(grid())[:, 1].mean()
    )


def test_the_lower_bound_of_rows_of_one_class_with_balanced_weights():
    X, y = blobs()
    model = fixed_model(class_weight="balanced").fit(X, y)
    assert np.isfinite(model.lower_bound(X=X[y == 1], y=y[y == 1]))


# The lower bound


@every_likelihood
def test_the_lower_bound_of_the_data_of_fit_is_that_of_fit(likelihood, rng):
    X, y = blobs()
    weight = rng.uniform(0.0, 2.0, 45)
    model = fixed_model(likelihood=likelihood).fit(X, y, weight)
    again = model.lower_bound(X=X, y=y, sample_weight=weight)
    assert_allclose(again, model.lower_bound_, rtol=1e-9)
    assert abs(model.lower_bound(X=X, y=y) - again) > 0.1
    assert np.isfinite(model.lower_bound(X=X[:5], y=y[:5]))


@every_likelihood
def test_the_gradient_of_the_lower_bound(likelihood, rng):
    X, y = blobs(40)
    weight = rng.uniform(0.5, 2.0, 40)
    kernel = ConstantKernel(2.0) * RBF([1.0, 2.0])
    model = fixed_model(kernel=kernel, likelihood=likelihood, n_inducing=6, tol=1e-8)
    model.fit(X, y, weight)
    theta = model.kernel_.theta + rng.uniform(-0.3, 0.3, len(model.kernel_.theta))
    assert len(theta) == (9 if likelihood in BINARY else 3)

    def value(theta):
        return model.lower_bound(theta, X, y, weight)

    at_theta, gradient = model.lower_bound(theta, X, y, weight, eval_gradient=True)
    assert at_theta == value(theta)
    steps = 3e-4 * np.eye(len(theta))
    expected = [(value(theta + step) - value(theta - step)) / 6e-4 for step in steps]
    assert_allclose(gradient, expected, rtol=1e-4, atol=1e-4)
    assert np.abs(gradient).max() > 0.1


# Warm start


@some_likelihoods
def test_warm_start_goes_on_from_the_last_fit(likelihood):
    X, y = blobs()
    model = quietly(quick_model(likelihood=likelihood, warm_start=True, max_iter=20), X, y)
    theta, points, bound = model.kernel_.theta, model.inducing_points_, model.lower_bound_
    model.set_params(optimizer=None, max_reselections=0).fit(X, y)
    assert_allclose(model.kernel_.theta, theta, rtol=1e-12)
    for ours, theirs in zip(model.inducing_points_, points, strict=True):
        assert_array_equal(ours, theirs)
    assert_allclose(model.lower_bound_, bound, rtol=1e-5)


@some_likelihoods
def test_warm_start_refuses_other_classes_and_columns(likelihood):
    X, y = blobs()
    model = fixed_model(likelihood=likelihood, warm_start=True).fit(X, y)
    before = model.predict_proba(grid())
    for labels in (y + 1, np.minimum(y, 1), y.astype(str)):
        with pytest.raises(ValueError, match="warm_start=True needs the classes of the last fit"):
            model.fit(X, labels)
    with pytest.raises(ValueError, match=r"needs the columns of the last fit: it had 2, X has 1"):
        model.fit(X[:, :1], y)
    assert_array_equal(model.predict_proba(grid()), before)
    assert model.set_params(warm_start=False).fit(X, y + 1).classes_[0] == 1


@pytest.mark.parametrize("first", SOME)
@pytest.mark.parametrize("second", SOME)
def test_warm_start_with_another_likelihood_works_or_starts_afresh(first, second):
    X, y = blobs()
    model = fixed_model(likelihood=first, warm_start=True).fit(X, y)
    model.set_params(likelihood=second).fit(X, y)
    plain = fixed_model(likelihood=second).fit(X, y)
    assert (model.estimators_ is None) == (second in JOINT)
    assert_allclose(model.lower_bound_, plain.lower_bound_, rtol=0.05)
    assert_allclose(model.lower_bound(X=X, y=y), model.lower_bound_, rtol=1e-9)


# Growth and certificates


@some_likelihoods
@pytest.mark.parametrize("n_classes", [2, 3])
def test_growth_stops_when_certified(likelihood, n_classes):
    X, y = blobs(80, n_classes)
    model = fixed_model(likelihood=likelihood, n_inducing="auto", certificate_tol=0.02).fit(X, y)
    parts = [model] if model.estimators_ is None else model.estimators_
    for k, part in enumerate(parts):
        assert part.growth_end_ == "certified"
        assert part.growth_[-1]["gap_per_row"] <= 0.02
        assert all(step["gap_per_row"] > 0.02 for step in part.growth_[:-1])
        assert len(part.inducing_points_) == part.growth_[-1]["n_inducing"]
        assert_allclose(part.growth_[-1]["lower_bound"], part.lower_bound_, rtol=1e-6)
        if part is not model:
            assert model.growth_[k] == part.growth_
            assert model.growth_end_[k] == "certified"
    certificate = model.certificate(X, y)
    gaps = sum(part.growth_[-1]["gap_per_row"] for part in parts)
    assert certificate.gap_per_row <= gaps + 1e-6


def test_growth_ends_for_each_of_the_reasons():
    X, y = blobs(120)
    narrow = ConstantKernel(5.0) * RBF(0.2)
    cases = {
        "cap": {"certificate_tol": 1e-9, "max_inducing": 20},
        "spanned": {"certificate_tol": 1e-30, "kernel": DotProduct(1.0)},
        "flat": {"certificate_tol": 1e-12, "kernel": ConstantKernel(5.0) * RBF(2.0)},
        "certified": {"certificate_tol": 5.0, "kernel": narrow},
    }
    for end, parameters in cases.items():
        model = fixed_model(n_inducing="auto", **parameters).fit(X, y)
        gap = model.certificate(X, y).gap_per_row
        assert_allclose(model.growth_[-1]["gap_per_row"], gap, rtol=1e-3, atol=1e-6)
        assert model.growth_end_ == end or (end, model.growth_end_) == ("flat", "spanned")
    grown = fixed_model(n_inducing=5).fit(X, y)
    assert grown.growth_ is None
    assert grown.growth_end_ is None


@every_likelihood
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_certificate_closes_with_the_number_of_points(likelihood, n_classes):
    X, y = blobs(50, n_classes)
    gaps = []
    for n_inducing in (4, 12, 50):
        model = fixed_model(likelihood=likelihood, n_inducing=n_inducing).fit(X, y)
        certificate = model.certificate(X, y)
        assert_allclose(certificate.lower_bound, model.lower_bound_, atol=1e-4)
        assert certificate.n_rows == 50
        assert certificate.upper_bound >= certificate.lower_bound
        assert certificate.improved_lower_bound >= certificate.lower_bound - 1e-9
        assert certificate.standard_bound <= certificate.lower_bound + 1e-9
        gaps.append(certificate.gap)
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[0] > 1.0
    assert -1e-9 <= gaps[2] < 1e-3


@pytest.mark.parametrize("method", ["trace", "whitened", "cauchy-schwarz", "one-pass"])
def test_each_upper_bound_by_name(method):
    X, y = blobs()
    for likelihood in SOME:
        model = fixed_model(likelihood=likelihood).fit(X, y)
        by_name, best = model.certificate(X, y, method=method), model.certificate(X, y)
        assert set(by_name.upper_bounds) == {method}
        assert by_name.upper_bound >= best.upper_bound - 1e-9
        assert by_name.upper_bound >= by_name.lower_bound


def dense_polya_gamma(kernel, X, y, tilt, prior_mean):
    """The dense Polya-Gamma bound at given tilts, y of +1 and -1, as log N(target | mean, ...)."""
    omega = np.tanh(0.5 * tilt) / (2.0 * tilt)
    covariance = kernel(X) + np.diag(1.0 / omega)
    residual = 0.5 * y / omega - prior_mean
    return (
        -0.5 * residual @ np.linalg.solve(covariance, residual)
        - 0.5 * np.linalg.slogdet(covariance)[1]
        + 0.5 * ((0.5 * y) ** 2 / omega - np.log(omega) + tilt**2 * omega).sum()
        - np.log(2.0 * np.cosh(0.5 * tilt)).sum()
    )


@pytest.mark.parametrize("n_inducing", [3, 8, 30])
def test_the_certificate_of_polya_gamma_holds_for_the_dense_bound_at_its_tilts(n_inducing):
    X, y = moons()
    model = fixed_model(
        likelihood="polya-gamma",
        bound="standard",
        n_inducing=n_inducing,
        fit_prior_mean=False,
        tol=1e-9,
    ).fit(X, y)
    mean, variance = model.latent_mean_and_variance(X)
    dense = dense_polya_gamma(KERNEL, X, 2.0 * y - 1.0, np.sqrt(mean**2 + variance), 0.0)
    certificate = model.certificate(X, y)
    assert model.lower_bound_ < dense + 1e-6
    assert dense <= certificate.upper_bound + 1e-6
    assert certificate.upper_bound - dense < dense - model.lower_bound_ + 1e-3
    one = fixed_model(likelihood="polya-gamma", selector=X, fit_prior_mean=False).fit(X, y)
    assert one.lower_bound_ >= dense - 1e-3


def test_the_certificate_of_dirichlet_holds_for_the_exact_regression():
    X, y = blobs()
    noise = np.log1p(1.0 / (0.01 + np.eye(3)[y]))
    targets = np.log(0.01 + np.eye(3)[y]) - 0.5 * noise
    exact = 0.0
    for k in range(3):
        covariance = KERNEL(X) + np.diag(noise[:, k])
        exact -= 0.5 * targets[:, k] @ np.linalg.solve(covariance, targets[:, k])
        exact -= 0.5 * np.linalg.slogdet(2.0 * np.pi * covariance)[1]
    for n_inducing in (5, 20):
        model = fixed_model(
            likelihood="dirichlet", n_inducing=n_inducing, fit_prior_mean=False
        ).fit(X, y)
        certificate = model.certificate(X, y)
        assert model.lower_bound_ <= certificate.improved_lower_bound <= exact + 1e-6
        assert exact <= certificate.upper_bound + 1e-6


@every_likelihood
def test_a_certificate_is_refused_for_other_data(likelihood):
    X, y = blobs()
    model = fixed_model(likelihood=likelihood).fit(X, y)
    for rows, labels, weight in ((X[:40], y[:40], None), (X, np.roll(y, 1), None), (X, y, 1.5)):
        with pytest.raises(ValueError, match="a certificate is about the data of fit"):
            model.certificate(rows, labels, weight)
    with pytest.raises(ValueError, match=r"y holds the label 7, which is none of classes_"):
        model.certificate(X, np.where(y == 0, 7, y))


# Draws, intervals, relevance


@every_likelihood
@pytest.mark.parametrize("n_classes", [2, 3])
def test_draws_have_the_moments_of_f(likelihood, n_classes):
    model = fixed_model(likelihood=likelihood).fit(*blobs(60, n_classes))
    mean, variance = model.latent_mean_and_variance(grid(3))
    draws = model.sample_f(grid(3), n_samples=20_000, random_state=1)
    assert draws.shape == (*mean.shape, 20_000)
    assert_allclose(draws.mean(axis=-1), mean, atol=0.05 * np.sqrt(variance.max()))
    assert_allclose(draws.var(axis=-1), variance, rtol=0.06)
    assert_array_equal(draws, model.sample_f(grid(3), 20_000, np.random.RandomState(1)))
    assert not np.array_equal(draws, model.sample_f(grid(3), 20_000, random_state=2))


def test_draws_are_joint_over_rows_and_independent_over_classes():
    model = fixed_model().fit(*blobs())
    near = np.array([[0.0, 0.0], [0.01, 0.0], [9.0, 9.0], [-9.0, 9.0]])
    draws = model.sample_f(near, 5000)
    within = np.corrcoef(draws[:, 0])
    assert within[0, 1] > 0.99
    assert abs(within[2, 3]) < 0.06
    assert abs(np.corrcoef(draws[0])[0, 1]) < 0.06
    assert model.sample_f(near).shape == (4, 3, 1)


def link(likelihood):
    """Return the probabilities of the classes, (n, C), at functions of shape (n, K) or (n,)."""
    if likelihood == "logistic-softmax":
        return lambda f: expit(f) / expit(f).sum(axis=1, keepdims=True)
    return lambda f: softmax(f, axis=1)


@every_likelihood
@pytest.mark.parametrize("n_classes", [2, 3])
def test_intervals_hold_their_share_of_the_draws(likelihood, n_classes):
    model = fixed_model(likelihood=likelihood).fit(*blobs(60, n_classes))
    rows = grid(3)
    low, high = model.predict_proba_interval(rows, confidence=0.8)
    proba = model.predict_proba(rows)
    assert low.shape == high.shape == proba.shape
    assert (low >= 0.0).all()
    assert (high <= 1.0).all()
    assert (low < high).all()
    f = model.sample_f(rows, 4000, random_state=5)
    if model.estimators_ is not None or f.ndim == 2:
        f = f if f.ndim == 3 else f[:, None]
        positive = norm.cdf(f) if likelihood == "bernoulli-probit" else expit(f)
        drawn = positive / positive.sum(axis=1, keepdims=True)
        if f.shape[1] == 1:
            drawn = np.concatenate([1.0 - positive, positive], axis=1)
    else:
        drawn = np.stack([link(likelihood)(f[..., s]) for s in range(f.shape[-1])], axis=-1)
    inside = (drawn >= low[..., None]) & (drawn <= high[..., None])
    assert_allclose(inside.mean(axis=-1), 0.8, atol=0.08)
    below = (drawn < low[..., None]).mean(axis=-1)
    assert_allclose(below, 0.1, atol=0.05)
    median = np.median(drawn, axis=-1)
    assert (low <= median).all()
    assert (median <= high).all()


@some_likelihoods
def test_intervals_are_nested_and_do_not_depend_on_other_rows(likelihood):
    model = fixed_model(likelihood=likelihood).fit(*blobs())
    narrow, wide = (model.predict_proba_interval(grid(3), confidence=c) for c in (0.5, 0.95))
    assert (wide[0] <= narrow[0]).all()
    assert (narrow[1] <= wide[1]).all()
    alone = [model.predict_proba_interval(row[None], confidence=0.5)[0][0] for row in grid(3)]
    assert_allclose(alone, narrow[0], rtol=1e-8)
    again = model.predict_proba_interval(grid(3), confidence=0.5)
    assert_array_equal(again, narrow)


@every_likelihood
@pytest.mark.parametrize("n_classes", [2, 3])
def test_intervals_shrink_with_data_and_are_wide_without(likelihood, n_classes):
    X, y = blobs(60, n_classes)
    model = fixed_model(likelihood=likelihood, n_inducing=30)
    widths = []
    for weight in (1.0, 50.0):
        low, high = model.fit(X, y, weight).predict_proba_interval(X)
        widths.append(np.mean(high - low))
    assert widths[1] < 0.8 * widths[0]
    low, high = model.predict_proba_interval([[50.0, 50.0]])
    assert (high - low > 0.4).all()


def test_two_classes_have_mirrored_intervals_of_the_latent_quantiles():
    model = fixed_model().fit(*moons())
    low, high = model.predict_proba_interval(grid(), confidence=0.9)
    assert_allclose(low[:, 0], 1.0 - high[:, 1], rtol=1e-12)
    assert_allclose(high[:, 0], 1.0 - low[:, 1], rtol=1e-12)
    mean, variance = model.latent_mean_and_variance(grid())
    assert_allclose(high[:, 1], expit(mean + 1.6448536 * np.sqrt(variance)), rtol=1e-6)
    assert_allclose(low[:, 1], expit(mean - 1.6448536 * np.sqrt(variance)), rtol=1e-6)


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


# With the rest of scikit-learn


def test_several_labels_at_once():
    X, y = blobs()
    labels = np.column_stack([y == 0, y == 1, X[:, 0] > 0])
    model = MultiOutputClassifier(fixed_model()).fit(X, labels)
    assert model.predict(X).shape == (45, 3)
    assert (model.predict(X) == labels).mean() > 0.9
    assert [len(one.classes_) for one in model.estimators_] == [2, 2, 2]


def test_scikit_learn_one_versus_rest_is_ours():
    X, y = blobs()
    theirs = OneVsRestClassifier(fixed_model()).fit(X, y)
    ours = fixed_model(likelihood="bernoulli-logit").fit(X, y)
    assert_allclose(theirs.predict_proba(grid()), ours.predict_proba(grid()), rtol=1e-9)


def test_grid_search_over_likelihoods_and_points():
    X, y = blobs()
    settings = {"likelihood": ["auto", "dirichlet", Softmax()], "n_inducing": [3, 12, "auto"]}
    search = GridSearchCV(fixed_model(), settings, cv=2, scoring="neg_log_loss").fit(X, y)
    scores = search.cv_results_["mean_test_score"].reshape(3, 3)
    assert np.isfinite(scores).all()
    assert_array_equal(scores[0], scores[2])
    assert (scores[:, 1] > scores[:, 0]).all()
    assert search.predict(X).shape == (45,)


def test_a_saved_model_predicts_the_same(fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(copy.predict_proba(grid()), fitted.predict_proba(grid()))
    assert copy.certificate(*blobs()).gap == fitted.certificate(*blobs()).gap
    assert copy.lower_bound(None, *blobs()) == fitted.lower_bound(None, *blobs())
    assert len(pickle.dumps(fitted)) < 40_000


def test_a_clone_is_not_fitted(fitted):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not [name for name in vars(copy) if name.endswith("_")]


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


class FailsAtTheThird(RBF):
    """A kernel whose third model, and every later one, cannot be fitted."""

    n_fits = 0

    def diag(self, X):
        FailsAtTheThird.n_fits += len(X) == 45
        if FailsAtTheThird.n_fits > 4:
            raise MemoryError("no room")
        return super().diag(X)


def test_nothing_half_fitted_stays_after_an_error_in_one_class():
    X, y = blobs()
    model = fixed_model(kernel=FailsAtTheThird(1.0), likelihood="polya-gamma")
    FailsAtTheThird.n_fits = 0
    with pytest.raises(MemoryError, match="no room"):
        model.fit(X, y)
    assert not [name for name in vars(model) if name.endswith("_")]
    model.set_params(kernel=KERNEL).fit(X, y)
    state, proba = dict(vars(model)), model.predict_proba(grid())
    FailsAtTheThird.n_fits = 0
    with pytest.raises(MemoryError, match="no room"):
        model.set_params(kernel=FailsAtTheThird(1.0), n_inducing=5).fit(X, y)
    assert vars(model).keys() == state.keys()
    assert all(vars(model)[name] is state[name] for name in state if name.endswith("_"))
    assert_array_equal(model.predict_proba(grid()), proba)


@pytest.mark.parametrize(
    ("likelihood", "bound", "possible"),
    [
        ("softmax", "tight", ("spherical", "standard")),
        ("bernoulli-logit", "tight", ("spherical", "standard")),
        ("bernoulli-probit", "tight", ("spherical", "standard")),
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


@pytest.mark.parametrize("likelihood", ["logistic-softmax", "dirichlet", "polya-gamma"])
def test_the_three_bounds_are_ordered(likelihood):
    X, y = blobs()
    values = {
        bound: fixed_model(likelihood=likelihood, bound=bound, selector=X[:6])
        .fit(X, y)
        .lower_bound_
        for bound in ("standard", "spherical", "tight", "auto")
    }
    assert values["standard"] < values["spherical"] < values["tight"] == values["auto"]


def test_twenty_classes_of_few_rows():
    X, y = blobs(100, 20)
    for likelihood in ("softmax", "dirichlet"):
        model = fixed_model(likelihood=likelihood).fit(X, y)
        assert model.predict_proba(grid()).shape == (25, 20)
        assert_allclose(model.predict_proba(grid()).sum(axis=1), 1.0)
        assert np.isfinite(model.lower_bound_)


@pytest.mark.parametrize("bound", ["spherical", "standard"])
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
    assert_allclose(model.predict_proba(X)[:, 0], 1.0, atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("likelihood", sorted(set(EVERY) - {"dirichlet"}))
def test_labels_of_noise_give_the_probabilities_of_noise(likelihood, n_classes):
    rng = np.random.RandomState(1)
    X, y = rng.randn(1200, 2), rng.randint(n_classes, size=1200)
    model = SparseGPClassifier(likelihood=likelihood, n_inducing=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[:300], y[:300])
    loss = log_loss(y[300:], model.predict_proba(X[300:]))
    assert loss <= np.log(n_classes) + 0.02


@pytest.mark.parametrize("name", ["bernoulli-logit", "bernoulli-probit"])
def test_probabilities_of_one_against_the_rest_where_all_of_them_underflow(name):
    f = np.array([[-1e3, 2.0, -4e3], [-2e3, 1.0, -4e3]])
    proba = OneVsRestLink(NAMES[name]()).probabilities(f)
    assert_allclose(proba.sum(axis=1), 1.0)
    assert_allclose(proba[[0, 2]], [[1.0, 0.0], [0.5, 0.5]], atol=1e-12)
