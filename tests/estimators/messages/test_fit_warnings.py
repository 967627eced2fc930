"""What a fit warns of, to whom, and in which words."""

import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sparsegpc
from sparsegpc import (
    BoundSearch,
    HomoscedasticNoise,
    LocalCorrection,
    PolynomialNoise,
    SparseGPClassifier,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPGeneralizedRegressor,
    StochasticSparseGPRegressor,
)
from sparsegpc._estimators.messages.user_warnings import LIBRARIES, FitWarning, merge_classes
from tests.estimators import many_classes, regression, two_classes


def warnings_of(model, X, y, **fit):
    """Return category and text of each warning of a fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, **fit)
    return [(item.category, str(item.message), item.filename) for item in caught]


# Classifiers


def test_ordinary_labels_warn_of_nothing():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)[::3]
    assert warnings_of(SparseGPClassifier(n_inducing=40), X, y[::3]) == []


def test_labels_of_pure_noise_are_said_to_be_constant(rng):
    X, y = rng.randn(80, 2), rng.randint(0, 2, 80)
    ((category, text, filename),) = warnings_of(two_classes.small_model(), X, y)
    assert category is ConvergenceWarning
    assert "the learned function is constant" in text
    assert "predictions depend little on X" in text
    assert filename == __file__


STOCHASTIC = [
    StochasticSparseGPClassifier,
    StochasticSparseGPRegressor,
    partial(StochasticSparseGPGeneralizedRegressor, likelihood="poisson"),
]


@pytest.mark.parametrize("kind", STOCHASTIC)
@pytest.mark.parametrize("is_informative", [False, True])
def test_what_minibatches_do_not_learn_is_reported_after_all_rows(kind, is_informative, rng):
    X = rng.randn(300, 2)
    y = rng.poisson(np.exp(is_informative * np.sin(2.0 * X[:, 0]))) > 0
    model = kind(n_inducing=20)
    found = warnings_of(model, X, y)
    if is_informative:
        assert found == []
        return
    ((category, text, filename),) = found
    assert category is ConvergenceWarning
    assert text.startswith(f"the learned function is constant: its bound, {model.lower_bound_:.4f}")
    assert text.endswith("If X is informative, give another kernel, or more rows or points")
    assert filename == __file__
    # Further rows of a stream may tell more, and what is fixed is the user's.
    assert warnings_of(kind(n_inducing=20, learning_rate=0.0), X, y) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classes = {"classes": [0, 1]} if kind is StochasticSparseGPClassifier else {}
        model.partial_fit(X, y, **classes)


def test_a_constant_of_minibatches_names_the_likely_cause(rng):
    X = rng.randn(300, 2)
    y = X[:, 0] + 0.1 * rng.randn(300)
    kernel = ConstantKernel(1.0, (0.1, 10.0)) * RBF()
    ((category, text, _),) = warnings_of(StochasticSparseGPRegressor(kernel), X, 1e4 * y)
    assert category is ConvergenceWarning
    assert "divide the targets by their standard deviation" in text
    light = warnings_of(
        StochasticSparseGPRegressor(), X, rng.randn(300), sample_weight=np.full(300, 0.1)
    )
    assert any("The weights of 300 rows add up to 30 rows" in text for _, text, _ in light)
    counts = STOCHASTIC[2](n_inducing=20)
    ((category, text, _),) = warnings_of(counts, X, np.zeros(300))
    assert category is UserWarning
    assert "all 300 counts are zero" in text


def test_a_fast_function_that_is_taken_for_noise_is_reported(rng):
    """With six hundred periods it is not found; with ten it is."""
    for length, found in ((10.0, True), (600.0, False)):
        t = np.sort(rng.uniform(0.0, length, 1500))[:, None]
        y = 0.5 * t[:, 0] + np.sin(2.0 * np.pi * t[:, 0]) + 0.1 * rng.randn(1500)
        texts = [text for _, text, _ in warnings_of(SparseGPRegressor(), t, y)]
        assert any("residuals of neighbouring rows" in text for text in texts) != found


def test_columns_that_are_irrelevant_to_a_kernel_by_name_need_no_warning(rng):
    X = rng.randn(100, 3)
    texts = [text for _, text, _ in warnings_of(SparseGPRegressor(), X, np.sin(X[:, 0]))]
    assert not any("looks irrelevant" in text for text in texts)


def test_warnings_name_the_line_of_the_user_whatever_stands_between(rng):
    X, y = rng.randn(80, 2), rng.poisson(2.0, 80)
    counts = SparseGPGeneralizedRegressor(n_inducing=5, main_effects=False)
    regressor = SparseGPRegressor(n_inducing=5, main_effects=False)
    for model in (
        counts,
        make_pipeline(StandardScaler(), counts),
        LocalCorrection(regressor, relearn=False),
        BoundSearch(regressor, {}),
    ):
        found = warnings_of(model, X, y)
        assert found
        assert {filename for *_, filename in found} == {__file__}


def test_a_folder_whose_name_begins_like_that_of_the_package_is_a_users():
    folder = Path(sparsegpc.__file__).parent
    assert str(folder / "kernels" / "one.py").startswith(LIBRARIES)
    assert not str(folder.with_name("sparsegpc_study") / "one.py").startswith(LIBRARIES)


@pytest.mark.parametrize(
    ("kernel", "length_scales", "n_columns", "is_named"),
    [
        ("rbf", "common", 2, True),
        ("rbf", "tied", 2, False),
        ("rbf", "auto", 1, False),
        (ConstantKernel() * RBF(), "auto", 1, True),
    ],
)
def test_columns_need_scaling_if_their_length_scale_is_common(
    kernel, length_scales, n_columns, is_named, rng
):
    X, y = rng.randn(80, n_columns), rng.randint(0, 2, 80)
    model = SparseGPClassifier(kernel, n_inducing=20, length_scales=length_scales)
    ((_, text, _),) = warnings_of(model, X, y)
    assert ("scale its columns" in text) == is_named


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_inducing": 2, **two_classes.FIXED},
        {"n_inducing": 3, "kernel": ConstantKernel(30.0, "fixed") * RBF(0.5, (0.4, 0.6))},
    ],
    ids=["fixed", "learned"],
)
def test_a_poor_bound_of_a_function_that_varies_is_not_called_constant(parameters):
    X, y = two_classes.moons(60)
    model = two_classes.small_model(likelihood="polya-gamma", **parameters)
    found = warnings_of(model, X, y)
    proba = model.predict_proba(X)[:, 1]
    assert np.ptp(proba) > 0.6
    assert model.lower_bound_ < 60 * np.log(0.5)
    assert not any("function is constant" in text for _, text, _ in found)


def test_a_hyperparameter_at_its_bound_is_named_with_its_column(rng):
    pandas = pytest.importorskip("pandas")
    X, y = two_classes.moons()
    X = np.column_stack([X, rng.randn(len(X))])
    kernel = ConstantKernel(10.0) * RBF([1.0, 1.0, 1.0], (1e-2, 5.0))
    ((category, text, filename),) = warnings_of(two_classes.small_model(kernel=kernel), X, y)
    assert category is ConvergenceWarning
    assert "k2__length_scale[2] = 5 at its upper limit: column 2 looks irrelevant" in text
    assert "column 0" not in text
    assert filename == __file__
    frame = pandas.DataFrame(X, columns=["east", "north", "noise"])
    ((_, text, _),) = warnings_of(two_classes.small_model(kernel=kernel), frame, y)
    assert "column 'noise' looks irrelevant" in text


def test_tied_length_scales_stay_off_their_limits_where_a_column_is_irrelevant(rng):
    X, y = two_classes.moons()
    X = np.column_stack([X, rng.randn(len(X))])
    kernel = ConstantKernel(10.0) * RBF([1.0, 1.0, 1.0], (1e-2, 10.0))
    for length_scales, warned in (("free", True), ("tied", False)):
        model = two_classes.small_model(kernel=kernel, length_scales=length_scales)
        found = warnings_of(model, X, y)
        assert any("column 2 looks irrelevant" in text for _, text, _ in found) == warned
        assert model.feature_relevance_.argmin() == 2
    assert found == []


def test_the_default_kernel_warns_of_nothing_where_a_column_is_irrelevant(rng):
    X, y = two_classes.moons()
    X = np.column_stack([X, 1e6 * rng.randn(len(X))])
    model = two_classes.small_model(length_scales="auto", main_effects="auto")
    assert warnings_of(model, X, y) == []
    assert model.feature_relevance_.argmin() == 2


def test_effects_without_interactions_need_no_warning():
    rng = np.random.RandomState(0)
    X = rng.randn(150, 3)
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.randn(150)
    gp = SparseGPRegressor("laplacian", main_effects=True, log_transform=False, n_inducing=40)
    assert warnings_of(gp, X, y) == []
    interactions = gp.kernel_.k1.k1
    assert interactions.constant_value < 1e-3 * y.var()


@pytest.mark.parametrize(
    ("kernel", "remedy", "limits"),
    [
        ("rbf", "If X is informative, give another kernel, or more rows", False),
        (
            ConstantKernel(1.0, (0.01, 10.0)) * RBF([1.0, 1.0], "fixed"),
            "give a kernel with other start values or limits (now",
            True,
        ),
    ],
)
def test_a_constant_names_limits_only_of_a_kernel_object(kernel, remedy, limits, rng):
    X, y = rng.randn(80, 2), rng.randn(80)
    ((_, text, _),) = warnings_of(SparseGPRegressor(kernel, n_inducing=20), X, y)
    assert remedy in text
    assert ("constant_value" in text) == limits


def test_a_function_that_varies_faster_than_its_lower_limit_is_said():
    kernel = ConstantKernel(10.0) * RBF([1.0, 1.0], (3.0, 50.0))
    ((_, text, _),) = warnings_of(two_classes.small_model(kernel=kernel), *two_classes.moons())
    assert "k2__length_scale[1] = 3 at its lower limit" in text
    assert "varies faster along column 1 than the limit allows" in text


def test_separable_classes_are_said_to_look_so():
    X = np.linspace(-1.0, 1.0, 40)[:, None]
    kernel = ConstantKernel(1.0, (0.1, 10.0)) * RBF(1.0)
    ((_, text, _),) = warnings_of(two_classes.small_model(kernel=kernel), X, X[:, 0] > 0)
    assert "k1__constant_value = 10 at its upper limit" in text
    assert "the classes look separable" in text


def test_a_low_limit_of_the_variance_is_not_taken_for_separability():
    X, y = two_classes.moons()
    kernel = ConstantKernel(1.0, (0.01, 1.5)) * RBF(1.0)
    ((_, text, _),) = warnings_of(two_classes.small_model(kernel=kernel), X, y)
    assert "constant_value = 1.5 at its upper limit" in text
    assert "separable" not in text


def test_too_few_iterations_for_labels_are_said():
    ((category, text, filename),) = warnings_of(
        two_classes.small_model(max_iter=1, max_reselections=0), *two_classes.moons()
    )
    assert category is ConvergenceWarning
    assert "stopped before its bound converged" in text
    assert "max_iter=1 " in text
    assert "tol=1e-05" in text
    assert filename == __file__
    model = two_classes.small_model(max_iter=1, max_reselections=0)
    warnings_of(model, *two_classes.moons())
    assert not model.converged_


def test_a_column_that_hides_the_others_is_named_by_classifiers():
    pandas = pytest.importorskip("pandas")
    X, y = two_classes.moons()
    X = X * [1.0, 1e5]
    found = warnings_of(two_classes.small_model(), X, y)
    texts = [text for category, text, _ in found if category is UserWarning]
    assert len(texts) == 1
    assert "column 1 has standard deviation" in texts[0]
    assert "scale the columns" in texts[0]
    assert found[-1][2] == __file__
    found = warnings_of(two_classes.small_model(), pandas.DataFrame(X, columns=["a", "money"]), y)
    assert any("column 'money' has standard deviation" in text for _, text, _ in found)
    # One length scale for each column is the remedy.
    ard = two_classes.small_model(kernel=ConstantKernel(10.0) * RBF([1.0, 1.0], (1e-2, 1e7)))
    assert not any(category is UserWarning for category, _, _ in warnings_of(ard, X, y))


def test_sites_that_do_not_settle_are_reported(monkeypatch):
    monkeypatch.setattr("sparsegpc._core.models.model.MAX_FINAL_ITERATIONS", 2)
    X, y = two_classes.moons(60)
    model = two_classes.fixed_model(kernel=ConstantKernel(1e6) * RBF(1.0))
    ((category, text, filename),) = warnings_of(model, X, y)
    assert category is ConvergenceWarning
    assert "the sites did not converge in" in text
    assert filename == __file__
    assert not model.converged_
    assert model.score(X, y) > 0.8


def test_one_sentinel_value_does_not_hide_the_rest():
    X, y = make_moons(400, noise=0.25, random_state=0)
    plain = two_classes.small_model().fit(X, y)
    X[7, 1] = 1e6
    assert warnings_of(model := two_classes.small_model(), X, y) == []
    assert model.lower_bound_ > plain.lower_bound_ - 15.0
    assert model.score(X, y) > 0.88


@pytest.mark.parametrize("value", [-1e16, 1e100])
def test_a_sentinel_of_any_size_and_sign_leaves_the_start_values_alone(value):
    X, y = make_moons(200, noise=0.25, random_state=0)
    X[3, 0] = value
    assert warnings_of(model := two_classes.small_model(), X, y) == []
    assert model.score(X, y) > 0.85


def test_a_loose_tolerance_does_not_make_a_model_poor():
    X, y = two_classes.moons()
    assert warnings_of(two_classes.small_model(tol=0.5), X, y) == []


# One model for each class


def test_a_warning_says_which_classes_it_is_about_and_each_cause_comes_once():
    X, y = many_classes.blobs()
    with pytest.warns(ConvergenceWarning) as caught:
        many_classes.quick_model(likelihood="polya-gamma", max_iter=1, tol=1e-9).fit(
            X, np.array(list("abc"))[y]
        )
    (text,) = [str(item.message) for item in caught if "max_iter" in str(item.message)]
    assert text.startswith("class a against the rest: ")
    assert text.endswith("The same holds for 2 other classes")
    assert {item.filename for item in caught} == {__file__}


def test_each_cause_is_reported_once_for_all_classes():
    labels = [f"c{k}" for k in range(15)]
    same, own = FitWarning(UserWarning, "m", "m"), FitWarning(UserWarning, "n", "n")
    merged = merge_classes(labels, [[same]] + [[same, own]] + 13 * [[same]])
    assert [one.message for one in merged] == [
        "class c0 against the rest: m. The same holds for 14 other classes",
        "class c1 against the rest: n",
    ]


# Regressors


def texts_of(model, X, y, **fit):
    return [text for _, text, _ in warnings_of(model, X, y, **fit)]


@pytest.mark.parametrize("noise", regression.NOISES)
def test_ordinary_targets_warn_of_nothing(noise):
    """Its noise is not constant, so that there is something to learn for each kind."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-3.0, 3.0, (200, 1))
    y = np.sin(X[:, 0]) + np.exp(0.4 * X[:, 0] - 1.5) * rng.standard_normal(200)
    assert texts_of(regression.model_of(noise=noise, n_inducing=20), X, y) == []


def test_targets_of_pure_noise_are_said_to_be_constant(rng):
    X, y = rng.standard_normal((2, 60, 2))
    [text] = texts_of(regression.model_of(), X, y[:, 0])
    assert text.startswith("the learned function is constant")


def test_targets_without_noise_are_said_to_look_so():
    X = np.linspace(0.0, 1.0, 30)[:, None]
    kernel = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.1, (1e-4, 1.0))
    [text] = texts_of(regression.model_of(kernel=kernel, n_inducing=30), X, np.sin(5.0 * X[:, 0]))
    assert "noise variance = 0.0001 at its lower limit: the targets look free of noise" in text


def test_a_factor_of_the_noise_at_its_limit_is_not_taken_for_noise_free_targets():
    rng = np.random.RandomState(0)
    X = np.sort(rng.uniform(-1.0, 1.0, (60, 1)), axis=0)
    # Noise at one end only, none at all elsewhere.
    y = np.sin(3.0 * X[:, 0]) + np.where(X[:, 0] > 0.9, rng.standard_normal(60), 0.0)
    for text in texts_of(regression.model_of(noise=PolynomialNoise(6), n_inducing=30), X, y):
        for part in text.split(";"):
            assert not ("factor" in part and "free of noise" in part), text


def test_too_few_iterations_for_targets_are_said():
    [text] = texts_of(regression.model_of(max_iter=1, max_reselections=0), *regression.waves())
    assert "max_iter=1" in text
    assert text.startswith("SparseGPRegressor stopped before its bound converged")


def test_a_column_that_hides_the_others_is_named_by_regressors():
    X, y = regression.waves()
    texts = texts_of(regression.model_of(), X * [1.0, 1e6], y)
    assert any("column 1 has standard deviation" in text for text in texts)


@pytest.mark.parametrize(("noise", "warned"), [(1e-10, True), (1e-4, False)])
def test_costly_jitter_is_named_beside_the_noise(noise, warned):
    """Equal points need jitter, which costs nothing unless the noise is as small."""
    X = np.linspace(0.0, 5.0, 20)[:, None]
    model = SparseGPRegressor(
        ConstantKernel(1e4) * RBF(1.0),
        noise=HomoscedasticNoise(noise, "fixed"),
        selector=np.repeat(X[::3], 2, axis=0),
        optimizer=None,
    )
    found = warnings_of(model, X, 10.0 * np.sin(X[:, 0]))
    assert model.jitter_ > 0.0
    assert len(found) == warned
    if warned:
        ((category, text, _),) = found
        assert category is ConvergenceWarning
        ratio = model.jitter_ * 1e4 / noise
        assert f"jitter added to its diagonal is {ratio:.2g} times the smallest noise" in text
        assert f"up to {0.5 * 14 * np.log1p(ratio):.2g} nats" in text


# Weights

ESTIMATORS = {
    "classifier": lambda: two_classes.fixed_model(),
    "one for each class": lambda: many_classes.fixed_model(likelihood="polya-gamma"),
    "regressor": lambda: regression.model_of(optimizer=None),
    "stochastic classifier": lambda: StochasticSparseGPClassifier(n_inducing=5, n_epochs=1),
    "stochastic regressor": lambda: StochasticSparseGPRegressor(n_inducing=5, n_epochs=1),
}


def data_of(name):
    X, y = many_classes.blobs(60, 3 if name == "one for each class" else 2)
    return X, y + X[:, 0] if "regressor" in name else y


@pytest.mark.parametrize(
    ("name", "factor"), [("classifier", 50.0), *((name, 0.4) for name in ESTIMATORS)]
)
def test_weights_that_are_no_counts_are_reported_once_with_their_remedy(name, factor):
    X, y = data_of(name)
    weight = factor * np.random.RandomState(0).uniform(0.7, 1.3, len(y))
    weight[0] = 0.0
    found = warnings_of(ESTIMATORS[name](), X, y, sample_weight=weight)
    ((text, filename),) = [item[1:] for item in found if item[0] is UserWarning]
    factor = weight.sum() / (weight**2).sum()
    assert f"add up to {1.0 / factor:.3g} times" in text
    assert text.endswith(f"multiply them by {factor:.3g}")
    assert filename == __file__
    for remedied in (factor * weight, np.sign(weight)):
        found = warnings_of(ESTIMATORS[name](), X, y, sample_weight=remedied)
        assert not any(category is UserWarning for category, _, _ in found)


CLASSIFIERS = [SparseGPClassifier, partial(StochasticSparseGPClassifier, n_epochs=1)]


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("factors", [(1.0, 10.0), (2.0, 3.0), (0.6, 2.5), (1.0, 4.0, 4.0)])
def test_weights_that_balance_classes_are_reported_once(kind, factors):
    X, y = many_classes.blobs(60, len(factors))
    names = np.array(["ash", "bee", "cat"])[y]
    weight = np.array(factors)[y]
    found = warnings_of(kind(n_inducing=5), X, names[:, None], sample_weight=weight)
    ((text, filename),) = [item[1:] for item in found if "sample_weight" in item[1]]
    assert f"({factors[0]:g} in class ash, {factors[1]:g} in class bee)" in text
    assert "class_weight" in text
    assert filename == __file__


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_weights_that_count_are_not_taken_for_those_of_classes(kind, rng):
    X, y = many_classes.blobs(60, 2)
    successes = rng.randint(1, 9, 30)
    trials = np.concatenate([X[:30], X[:30]]), np.repeat([1, 0], 30)
    of_a_few = np.where(y == 1, 3, 1)
    of_a_few[0] = 2
    single = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:1]]
    for data, weight in (
        ((X, y), np.ones(60)),
        ((X, y), np.where(y == 1, 1.0, 1.02)),
        ((X, y), of_a_few),
        ((X[single], y[single]), np.where(y == 1, 9, 1)[single]),
        (trials, np.concatenate([successes, 10 - successes])),
    ):
        found = warnings_of(kind(n_inducing=5), *data, sample_weight=weight)
        assert not any("class_weight" in text for _, text, _ in found)


@pytest.mark.parametrize("half_life", [100.0, 600.0])
def test_weights_of_recent_rows_need_the_effective_number_of_rows_as_their_sum(half_life):
    """With the mean one, recent rows count too often, and f follows their noise."""
    rng = np.random.RandomState(0)
    X = np.sort(rng.uniform(0.0, 1.0, (1000, 1)), axis=0)
    y = np.sin(9.0 * X[:, 0]) + 0.5 * rng.randn(1000)
    weight = 0.5 ** (np.arange(1000)[::-1] / half_life)
    factor = weight.sum() / (weight**2).sum()
    model = SparseGPRegressor("rbf", n_inducing=20)
    found = warnings_of(model, X, y, sample_weight=weight / weight.mean())
    heavy = [text for category, text, _ in found if category is UserWarning]
    assert len(heavy) == (half_life == 100.0)
    assert all(text.endswith(f"multiply them by {factor * weight.mean():.3g}") for text in heavy)
    for scaled in (weight, factor * weight):
        assert warnings_of(model, X, y, sample_weight=scaled) == []
        assert 0.22 < model.noise_variance_ < 0.28


def test_a_weight_that_is_one_number_is_judged_like_an_array():
    X, y = two_classes.moons(60)
    for weight, remedy in ((30, "multiply them by 0.0333"), (0.3, "multiply them by 3.33")):
        ((category, text, _),) = warnings_of(two_classes.fixed_model(), X, y, sample_weight=weight)
        assert category is UserWarning
        assert remedy in text


def test_a_stream_reports_weights_that_are_no_counts():
    X, y = two_classes.moons(60)
    model = StochasticSparseGPClassifier(n_inducing=5)
    with pytest.warns(UserWarning, match="multiply the weights of all calls by 0.133") as caught:
        model.partial_fit(X, y, [0, 1], sample_weight=np.full(60, 7.5))
    assert [item.filename for item in caught] == [__file__]


def test_a_constant_function_of_light_rows_is_blamed_on_their_weights():
    """As in scikit-learn's AdaBoostClassifier, whose weights sum to one."""
    X, y = two_classes.moons()
    found = warnings_of(two_classes.small_model(), X, y, sample_weight=np.full(len(y), 1 / len(y)))
    (text,) = [text for category, text, _ in found if category is ConvergenceWarning]
    assert "the learned function is constant" in text
    assert f"weights of {len(y)} rows add up to 1 rows" in text
    assert "scale its columns" not in text


def test_outliers_are_reported_with_the_noise_that_suits_them(rng):
    X = rng.uniform(-2.0, 2.0, (200, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.randn(200)
    assert warnings_of(SparseGPRegressor(n_inducing=40), X, y) == []
    outlying = y.copy()
    outlying[:8] += 20.0 * rng.randn(8)
    for model in (SparseGPRegressor(n_inducing=40), SparseGPRegressor(1.0 * RBF(), n_inducing=40)):
        texts = [text for _, text, _ in warnings_of(model, X, outlying)]
        assert sum('set noise="student-t"' in text for text in texts) == 1
    both = np.column_stack([y, outlying])
    texts = [text for _, text, _ in warnings_of(SparseGPRegressor(n_inducing=40), X, both)]
    assert sum('set noise="student-t"' in text for text in texts) == 1
    robust = SparseGPRegressor(n_inducing=40, noise="student-t")
    assert not any("residuals" in text for _, text, _ in warnings_of(robust, X, outlying))


def test_residuals_beside_many_equal_targets_need_two_models(rng):
    X = rng.uniform(-2.0, 2.0, (300, 2))
    is_zero = X[:, 1] < 1.0
    y = np.where(is_zero, 0.0, np.exp(2.0 * rng.standard_normal(300)))
    texts = [text for _, text, _ in warnings_of(SparseGPRegressor(n_inducing=40), X, y)]
    (text,) = [text for text in texts if "times what most of them suggest" in text]
    assert (
        f"{is_zero.mean():.0%} of the targets are equal; if that value is only a limit, give event"
        in text
    )
    assert "student-t" not in text
