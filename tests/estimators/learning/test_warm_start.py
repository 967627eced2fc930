"""Fits that go on from the last one."""

import pickle
import re
import warnings
from copy import deepcopy
from itertools import permutations

import numpy as np
import pytest
from numpy.linalg import LinAlgError
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from sparsegpc import SparseGPClassifier, SparseGPRegressor
from sparsegpc._estimators import whole_fit
from sparsegpc.kernels import MainEffects
from tests.estimators import many_classes, regression, two_classes


@pytest.fixture(scope="module")
def learned_classifier():
    """A classifier that has learned its kernel; not to be changed."""
    return two_classes.small_model().fit(*two_classes.moons())


# Two classes


def test_warm_start_with_labels_needs_fewer_evaluations_and_is_no_worse():
    model = two_classes.small_model(warm_start=True).fit(*two_classes.moons())
    evaluations, bound = model.n_evaluations_, model.lower_bound_
    model.fit(*two_classes.moons())
    assert model.n_evaluations_ < evaluations / 2
    assert model.lower_bound_ >= bound - 1e-6


def test_warm_start_begins_from_the_learned_kernel_and_points():
    X, y = two_classes.moons()
    model = two_classes.small_model(warm_start=True).fit(X, y)
    theta, points = model.kernel_.theta, model.inducing_points_
    X_new, y_new = two_classes.moons(80, seed=1)
    model.set_params(optimizer=None, max_reselections=0).fit(X_new, y_new)
    assert_allclose(model.kernel_.theta, theta, rtol=1e-12)
    assert_array_equal(model.inducing_points_, points)
    assert model.inducing_indices_ is None
    cold = clone(model).set_params(warm_start=False, kernel=RBF()).fit(X_new, y_new)
    assert not np.array_equal(cold.inducing_points_, points)


def test_warm_start_knows_a_kernel_whose_logarithms_are_rounded():
    X, y = two_classes.moons(40)
    for value in np.random.RandomState(0).uniform(0.1, 10.0, 5000):
        kernel = ConstantKernel(value) * RBF(1.0)
        if kernel.clone_with_theta(kernel.clone_with_theta(kernel.theta).theta) != kernel:
            break
    model = two_classes.fixed_model(kernel=kernel, warm_start=True).fit(X, y)
    bound = model.lower_bound_
    for _ in range(3):
        assert_allclose(model.fit(X, y).lower_bound_, bound, rtol=1e-6)


def test_points_given_as_an_array_come_before_those_of_the_last_fit(rng):
    X, y = two_classes.moons(60)
    model = two_classes.fixed_model(warm_start=True).fit(X, y)
    Z = rng.randn(4, 2)
    assert_array_equal(model.set_params(selector=Z).fit(X, y).inducing_points_, Z)


def test_warm_start_keeps_the_structure_of_a_given_kernel():
    X, y = two_classes.moons(60)
    kernel = ConstantKernel() * RBF()
    model = two_classes.small_model(kernel=kernel, warm_start=True, max_iter=5, tol=1e-2).fit(X, y)
    theta = model.kernel_.theta
    model.set_params(kernel=ConstantKernel(9.0) * RBF(0.1), optimizer=None).fit(X, y)
    assert_allclose(model.kernel_.theta, theta, rtol=1e-12)
    model.set_params(kernel=ConstantKernel() * Matern())
    with pytest.raises(ValueError, match=r"warm_start=True needs the kernel structure.*Matern"):
        model.fit(X, y)
    assert_allclose(model.kernel_.theta, theta, rtol=1e-12)


def test_warm_start_needs_the_same_columns():
    X, y = two_classes.moons(60)
    model = two_classes.fixed_model(warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match=r"warm_start=True needs the columns.*had 2, X has 1"):
        model.fit(X[:, :1], y)
    assert model.predict(X).shape == (60,)


def test_without_warm_start_the_past_is_forgotten(learned_classifier):
    model = clone(learned_classifier).fit(*two_classes.moons(60, seed=3))
    model.fit(*two_classes.moons())
    assert model.lower_bound_ == learned_classifier.lower_bound_


def test_warm_start_respects_a_lower_number_of_points(learned_classifier):
    model = (
        clone(learned_classifier)
        .fit(*two_classes.moons())
        .set_params(warm_start=True, n_inducing=5)
    )
    assert len(model.fit(*two_classes.moons()).inducing_points_) <= 5


@pytest.mark.parametrize("more", [{"n_inducing": 40}, {"n_inducing": "auto"}], ids=["40", "auto"])
def test_warm_start_chooses_more_points_if_it_may(more, rng):
    """Even if those of the last fit leave hardly any variance unexplained."""
    X = rng.uniform(0.0, 6.0, (200, 1))
    y = np.sin(X[:, 0]) + 0.3 * rng.randn(200)
    model = SparseGPRegressor("rbf", n_inducing=8, warm_start=True).fit(X, y)
    before = model.lower_bound_
    assert 1e-6 < model.cost_per_row_ < 1e-3
    model.set_params(**more, selection_tol=0.0, certificate_tol=1e-8).fit(X, y)
    assert len(model.inducing_points_) > 8
    assert model.cost_per_row_ < 1e-8
    assert model.lower_bound_ > before
    if model.growth_ is not None:
        assert model.growth_end_ == "certified"
        assert model.growth_[-1]["gap_per_row"] < 1e-8


def test_warm_start_takes_no_other_kernel_for_the_default():
    X, y = two_classes.moons()
    model = two_classes.small_model(kernel=ConstantKernel() * Matern(1.0, nu=1.5)).fit(X, y)
    with pytest.raises(ValueError, match="kernel structure of the last fit"):
        model.set_params(kernel=None, warm_start=True).fit(X, y)


def test_warm_start_takes_new_limits():
    X, y = two_classes.moons()
    model = two_classes.small_model(kernel=ConstantKernel() * RBF(1.0, (0.01, 0.1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    before = model.lower_bound_
    wide = ConstantKernel() * RBF(1.0, (1e-3, 1e3))
    model.set_params(kernel=wide, warm_start=True).fit(X, y)
    assert model.lower_bound_ > before + 1.0
    assert model.kernel_.k2.length_scale > 0.2


def test_warm_start_with_few_points_does_not_stay_trivial(rng):
    X = rng.randn(200, 2)
    y = X[:, 0] * X[:, 1] + 0.3 * rng.randn(200) > 0
    model = (
        SparseGPClassifier(warm_start=True, n_inducing=60)
        .fit(X, y)
        .set_params(n_inducing=5)
        .fit(X, y)
    )
    cold = SparseGPClassifier(n_inducing=5).fit(X, y)
    assert model.lower_bound_ > cold.lower_bound_ - 15.0


def test_warm_start_asks_a_fixed_selector_for_its_number_of_points():
    X, y = two_classes.moons()
    model = two_classes.fixed_model(
        selector="uniform", n_inducing=10, selection_tol=0, random_state=0
    ).fit(X, y)
    model.set_params(warm_start=True, n_inducing=20).fit(X, y)
    assert len(model.inducing_points_) == 20


# Many classes


@many_classes.some_likelihoods
def test_warm_start_goes_on_from_the_last_fit(likelihood):
    X, y = many_classes.blobs()
    model = many_classes.quietly(
        many_classes.quick_model(likelihood=likelihood, warm_start=True, max_iter=20), X, y
    )
    theta, points, bound = model.kernel_.theta, model.inducing_points_, model.lower_bound_
    model.set_params(optimizer=None, max_reselections=0).fit(X, y)
    assert_allclose(model.kernel_.theta, theta, rtol=1e-12)
    for ours, theirs in zip(model.inducing_points_, points, strict=True):
        assert_array_equal(ours, theirs)
    assert_allclose(model.lower_bound_, bound, rtol=1e-5)


@many_classes.some_likelihoods
def test_warm_start_refuses_other_classes_and_columns(likelihood):
    X, y = many_classes.blobs()
    model = many_classes.fixed_model(likelihood=likelihood, warm_start=True).fit(X, y)
    before = model.predict_proba(many_classes.grid())
    for labels in (y + 1, np.minimum(y, 1), y.astype(str)):
        with pytest.raises(ValueError, match="warm_start=True needs the classes of the last fit"):
            model.fit(X, labels)
    with pytest.raises(ValueError, match=r"needs the columns of the last fit: it had 2, X has 1"):
        model.fit(X[:, :1], y)
    assert_array_equal(model.predict_proba(many_classes.grid()), before)
    assert model.set_params(warm_start=False).fit(X, y + 1).classes_[0] == 1


@pytest.mark.parametrize(("first", "second"), [*permutations(many_classes.SOME, 2)])
def test_warm_start_with_another_likelihood_works_or_starts_afresh(first, second):
    X, y = many_classes.blobs()
    model = many_classes.fixed_model(likelihood=first, warm_start=True).fit(X, y)
    model.set_params(likelihood=second).fit(X, y)
    plain = many_classes.fixed_model(likelihood=second).fit(X, y)
    assert (model.estimators_ is None) == (second in many_classes.JOINT)
    assert_allclose(model.lower_bound_, plain.lower_bound_, rtol=0.05)
    assert_allclose(model.lower_bound(X=X, y=y), model.lower_bound_, rtol=1e-9)


# Regression


@regression.quiet
@pytest.mark.parametrize(
    ("parameters", "known"),
    [
        *(({"noise": noise}, False) for noise in regression.NOISES),
        ({"n_inducing": "auto"}, False),
        ({"kernel": regression.KERNEL + WhiteKernel(0.1)}, False),
        ({}, True),
    ],
    ids=str,
)
def test_warm_start_with_targets_needs_fewer_evaluations_and_is_no_worse(parameters, known):
    X, y = regression.waves()
    variance = regression.NOISE if known else None
    model = regression.model_of(warm_start=True, **parameters).fit(X, y, noise_variance=variance)
    bound, evaluations = model.lower_bound_, model.n_evaluations_
    model.fit(X, y, noise_variance=variance)
    assert model.lower_bound_ > bound - 1e-2
    assert model.n_evaluations_ < evaluations


@regression.quiet
@pytest.mark.parametrize("noise", regression.NOISES)
def test_warm_start_without_optimizer_keeps_what_was_learned(noise):
    X, y = regression.waves()
    model = regression.model_of(noise=noise, warm_start=True).fit(X, y)
    bound, std = model.lower_bound_, model.predict_noise_std(regression.grid())
    model.set_params(optimizer=None).fit(X, y)
    assert_allclose(model.lower_bound_, bound, atol=1e-3)
    assert_allclose(model.predict_noise_std(regression.grid()), std, rtol=1e-2)


@regression.quiet
def test_warm_start_refuses_another_noise_or_another_number_of_outputs():
    X, Y = regression.two_waves()
    model = regression.model_of(warm_start=True, max_iter=5).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="number of outputs"):
        model.fit(X, Y)
    with pytest.raises(ValueError, match="kind of noise"):
        model.fit(X, Y[:, 0], noise_variance=1.0)
    with pytest.raises(ValueError, match="kind of noise"):
        model.set_params(noise="polynomial").fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="warm_start=False to start afresh"):
        model.set_params(noise="gp").fit(X, Y[:, 0])
    assert model.set_params(warm_start=False, noise="polynomial").fit(X, Y).noise_variance_ is None


# Rows that have grown in number


def additive(n=60, n_columns=3):
    """Return rows and a sum of functions of single columns, which few rows do not show."""
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(n, n_columns))
    f = np.sin(6.0 * X[:, 0]) + 2.0 * np.sin(5.0 * X[:, 1]) + X[:, 2]
    return X, f + 0.05 * rng.standard_normal(n)


def has_effects(model):
    return any(isinstance(part, MainEffects) for part in vars(model.kernel_).values())


def objective(model):
    return model.lower_bound_ + model.log_prior_


def verdicts(capsys):
    """Return what the lines about fits afresh say that were printed since the last call."""
    return re.findall(r"fit afresh: .*: (kept|left out)", capsys.readouterr().out)


@regression.quiet
def test_more_rows_reach_what_a_fit_without_the_past_learns(capsys):
    X, y = additive()
    warm = SparseGPRegressor(warm_start=True, verbose=1).fit(X[:6], y[:6])
    assert not has_effects(warm)
    warm.fit(X, y)
    assert verdicts(capsys) == ["kept"]
    cold = SparseGPRegressor().fit(X, y)
    assert has_effects(warm)
    assert objective(warm) > objective(cold) - 1e-2
    assert warm.history_["lower_bound"][-1] == warm.lower_bound_
    assert len(warm.history_["seconds"]) == warm.n_evaluations_
    n_evaluations = warm.n_evaluations_
    assert warm.fit(X, y).n_evaluations_ < 0.5 * n_evaluations
    assert has_effects(warm)


@regression.quiet
@pytest.mark.parametrize(
    ("few_rows", "expected"),
    [(0, [9, 14, 21, 32]), (20, [7, 8, 9, 10, 11, 13, 15, 17, 19, 29])],
)
def test_fits_afresh_are_few_if_rows_come_one_by_one(few_rows, expected, capsys, monkeypatch):
    monkeypatch.setattr(whole_fit, "FEW_ROWS", few_rows)
    X, y = regression.waves()
    model = regression.model_of(warm_start=True, max_iter=2, max_reselections=0, verbose=1)
    found = []
    for n in range(6, 34):
        model.fit(X[:n], y[:n])
        found += [n] * len(verdicts(capsys))
    assert found == expected


@regression.quiet
def test_the_number_of_rows_is_counted_by_weights_and_saved(capsys):
    X, y = regression.waves()
    model = regression.model_of(warm_start=True, max_iter=2, verbose=1).fit(X, y)
    for weight, n_afresh in ((1.09, 0), (1.11, 1), (1.2, 0)):
        model = pickle.loads(pickle.dumps(model))
        model.fit(X, y, sample_weight=np.full(len(y), weight))
        assert len(verdicts(capsys)) == n_afresh
    clone(model).fit(X, y)
    assert not verdicts(capsys)


@regression.quiet
def test_what_goes_on_from_the_last_fit_remains_if_it_is_better(capsys):
    X, y = additive(90)
    model = SparseGPRegressor("rbf", warm_start=True, verbose=1).fit(X[:60], y[:60])
    # What is learned afresh ends early.
    model.set_params(max_iter=1, max_reselections=0)
    kept = deepcopy(model).fit(X, y)
    assert verdicts(capsys) == ["left out"]
    model._choice_weight = len(y)
    continued = model.fit(X, y)
    assert_array_equal(kept.kernel_.theta, continued.kernel_.theta)
    assert kept.history_["lower_bound"][-1] == kept.lower_bound_ == continued.lower_bound_
    assert kept.n_evaluations_ > continued.n_evaluations_


@regression.quiet
def test_choices_that_no_fit_has_made_are_made_by_the_next_one(capsys):
    X, y = additive()
    model = SparseGPRegressor(warm_start=True, optimizer=None, verbose=1).fit(X, y)
    model.fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert not verdicts(capsys)
    assert not has_effects(model)
    assert has_effects(model.set_params(optimizer="bfgs").fit(X, y))
    assert verdicts(capsys) == ["kept"]


@pytest.mark.parametrize("late", [False, True])
def test_a_stop_leaves_the_choices_to_the_next_fit(late, capsys):
    X, y = additive()
    model = SparseGPRegressor(warm_start=True, verbose=1).fit(X[:6], y[:6])
    full, continued = deepcopy(model).fit(X, y), deepcopy(model)
    continued._choice_weight = len(y)
    n_before = continued.fit(X, y).n_evaluations_
    # In the fit afresh at its beginning, or where it is better.
    last = full.n_evaluations_ - 5 if late else n_before + 2
    model.callback = lambda step: step.iteration >= last
    verdicts(capsys)
    with pytest.warns(ConvergenceWarning, match="callback asked to stop"):
        model.fit(X, y)
    assert verdicts(capsys) == ["kept" if late else "left out"]
    assert not model.converged_
    assert objective(model) >= objective(continued)
    assert model.history_["lower_bound"][-1] == model.lower_bound_
    model.callback = None
    assert objective(model.fit(X, y)) > objective(full) - 1e-2
    assert len(verdicts(capsys)) == 1


def test_a_start_at_which_the_bound_cannot_be_computed_gives_way_to_a_fit_afresh(rng):
    """The last fit ends near the limit of noise that almost vanishes beside such targets."""
    X = rng.uniform(size=(10, 2))
    y = 1e9 + np.sin(3.0 * X[:, 0])
    model = SparseGPRegressor(
        noise="gp", n_inducing=2, fit_prior_mean=False, selector="greedy-variance", max_iter=6
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
        before = model.lower_bound_
        model.set_params(warm_start=True).fit(X, y)
    assert model.lower_bound_ == pytest.approx(before)


def test_a_fit_afresh_that_fails_leaves_what_goes_on_or_all_as_it_was(monkeypatch, capsys):
    X, y = regression.waves()
    model = regression.model_of(warm_start=True, verbose=1).fit(X[:20], y[:20])
    learn, before = whole_fit.learn, model.predict(X)

    def fail_with(error):
        def fail(decision):
            if not decision.problem.estimator.warm_start:
                raise error
            return learn(decision)

        monkeypatch.setattr(whole_fit, "learn", fail)

    fail_with(MemoryError())
    with pytest.raises(MemoryError):
        model.fit(X, y)
    assert_array_equal(model.predict(X), before)
    assert model._choice_weight == 20.0
    fail_with(LinAlgError())
    assert model.fit(X, y).history_["lower_bound"][-1] == model.lower_bound_
    assert not verdicts(capsys)
    assert model._choice_weight == len(y)


@many_classes.some_likelihoods
def test_more_rows_of_several_classes(likelihood, capsys):
    X, y = many_classes.blobs(90)
    parameters = {"likelihood": likelihood, "max_iter": 5, "verbose": 1}
    model = many_classes.quick_model(warm_start=True, **parameters)
    many_classes.quietly(many_classes.quietly(model, X[:30], y[:30]), X, y)
    n_models = len(model._fitted_estimators)
    assert len(verdicts(capsys)) == n_models == (1 if likelihood in many_classes.JOINT else 3)
    cold = many_classes.quietly(many_classes.quick_model(**parameters), X, y)
    assert objective(model) > objective(cold) - 1e-2
    many_classes.quietly(model, X, y)
    assert not verdicts(capsys)


@regression.quiet
def test_a_common_length_scale_of_many_columns_is_reconsidered_with_more_rows():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(600, 105))
    y = X.sum(axis=1) / 6.0 + 0.1 * rng.normal(size=600)
    quick = {"n_inducing": 10, "max_iter": 3, "max_reselections": 0}
    model = SparseGPRegressor("rbf", warm_start=True, **quick).fit(X[:300], y[:300])
    assert np.ndim(model.kernel_.k2.length_scale) == 0
    # By default a kernel has a length scale for each of so many columns if there are 525 rows.
    common = deepcopy(model)
    common._choice_weight = 600.0
    assert np.ndim(common.fit(X, y).kernel_.k2.length_scale) == 0
    assert objective(model.fit(X, y)) >= objective(common)


def test_a_search_from_the_values_of_a_kernel_object_stays_near_them():
    """Without an optimizer the values are kept; the next fit goes on from there only."""
    X = np.linspace(0.0, 1.0, 30)[:, None]
    y = 2.0 * X[:, 0] + 0.3 * np.sin(40.0 * X[:, 0])
    model = SparseGPRegressor(1.0 * RBF(1.0), optimizer=None, warm_start=True).fit(X, y)
    model.set_params(optimizer="bfgs").fit(X, y)
    assert model.kernel_.k2.length_scale > 0.3


@regression.quiet
def test_steps_that_make_choices_wait_until_the_rows_have_grown(monkeypatch):
    X, y = additive(300)
    steps = [
        "with_effects_tried_again",
        "with_faster_function",
        "with_faster_effects",
        "with_separate_values",
        "with_fast_interactions",
        "with_rougher_kernel",
    ]
    taken = []
    for name in steps:
        monkeypatch.setattr(whole_fit, name, lambda fitted, name=name: taken.append(name) or fitted)
    model = SparseGPRegressor(n_inducing=10, warm_start=True, max_iter=2)
    for n_rows, expected in ((200, steps), (210, []), (300, steps)):
        taken.clear()
        model.fit(X[:n_rows], y[:n_rows])
        assert taken == expected
