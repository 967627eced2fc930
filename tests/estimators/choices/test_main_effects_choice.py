"""Whether main effects are added to the default kernel, and the prior that ties length scales."""

import re

import numpy as np
import pytest
from numpy.linalg import LinAlgError
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sparsegpc import (
    SparseGPClassifier,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPRegressor,
)
from sparsegpc._estimators import whole_fit
from sparsegpc._estimators.choices import comparison as module
from sparsegpc._estimators.choices import kernel_choice
from sparsegpc._estimators.kernels import named_kernels
from sparsegpc.kernels import MainEffects
from tests.core.helpers import central_difference

# Quick fits stop early; that is said elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
N = 150


def additive(n_samples=N):
    """Return rows, the sum of a function of each of four columns, and targets with noise."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-2.0, 2.0, (n_samples, 5))
    f = np.sin(3.0 * X[:, 0]) + 0.5 * X[:, 1] ** 2 - np.abs(X[:, 2]) + np.tanh(3.0 * X[:, 3])
    X.flags.writeable = False
    return X, f, f + 0.3 * rng.standard_normal(n_samples)


def product(n_samples=N):
    """Return rows, and targets about the product of their columns."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-2.0, 2.0, (n_samples, 3))
    return X, X.prod(axis=1) + 0.1 * rng.standard_normal(n_samples)


def regressor(**parameters):
    quick = {"kernel": "rbf", "n_inducing": 25, "max_reselections": 1, "tol": 1e-3}
    return SparseGPRegressor(**{**quick, **parameters})


def classifier(**parameters):
    return SparseGPClassifier(
        **{"n_inducing": 40, "max_reselections": 0, "tol": 1e-3, **parameters}
    )


def has_effects(model):
    return isinstance(getattr(model.kernel_, "k2", None), MainEffects)


# What the data decide


def test_effects_are_added_to_additive_data_and_predict_better():
    X, f, y = additive(400)
    train, test = np.split(np.arange(400), 2)
    options = {"kernel": "rbf", "n_inducing": 40}
    models = [regressor(main_effects=effects, **options) for effects in ("auto", False)]
    auto, plain = (model.fit(X[train], y[train]) for model in models)
    assert has_effects(auto)
    assert not has_effects(plain)
    penalty = np.log(len(train))
    assert auto.lower_bound_ + auto.log_prior_ > plain.lower_bound_ + plain.log_prior_ + penalty
    errors = [np.sqrt(np.mean((model.predict(X[test]) - f[test]) ** 2)) for model in (auto, plain)]
    assert errors[0] < 0.5 * errors[1]
    # The evaluations of all kernels tried are recorded.
    assert auto.n_evaluations_ == len(auto.history_["lower_bound"]) > plain.n_evaluations_


def test_effects_are_learned_from_a_sum_as_well_as_from_the_fit_without_them():
    # From the fit without effects alone, which has learned the second column's, the search ends
    # several nats lower.
    X, _, y = additive(250)
    auto = regressor(n_inducing=40, tol=1e-4).fit(X, y)
    kernel = 0.1 * RBF(np.full(5, 3.0)) + MainEffects(np.full(5, 0.3), np.full(5, 0.6))
    of_sum = regressor(kernel=kernel, length_scales="tied", n_inducing=40, tol=1e-4).fit(X, y)
    assert auto.lower_bound_ + auto.log_prior_ > of_sum.lower_bound_ + of_sum.log_prior_ - 1.0


def test_slow_effects_are_learned_from_a_sum_alone(rng):
    # From the fit without effects a search gains nothing.
    X = rng.uniform(-2.0, 2.0, (200, 3))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.1 * rng.standard_normal(200)
    auto, asked, plain = (
        SparseGPRegressor(n_inducing=30, main_effects=value, tol=1e-3).fit(X, y)
        for value in ("auto", True, False)
    )
    least = plain.lower_bound_ + plain.log_prior_ + 10.0
    assert has_effects(auto)
    assert min(model.lower_bound_ + model.log_prior_ for model in (auto, asked)) > least


def test_a_wave_of_two_columns_is_found_before_effects_beside_it_are_judged():
    # The first search finds nothing of it, and effects gain nothing beside that.
    rng = np.random.RandomState(2)
    X, noise, others = rng.randn(400, 12), 0.1 * rng.randn(400), rng.randn(400, 12)

    def f(X):
        return np.sin(3.0 * (X[:, 0] + X[:, 1])) + 0.3 * np.sin(2.0 * X[:, 2])

    model = regressor(n_inducing=120, max_reselections=2).fit(X, f(X) + noise)
    assert has_effects(model)
    assert np.sqrt(np.mean((model.predict(others) - f(others)) ** 2)) < 0.2


def test_a_line_leaves_the_interaction_of_other_columns():
    # From the fit without effects, and from sums of them beside a weak interaction, nothing is
    # gained.
    rng = np.random.RandomState(2)
    X = rng.randn(800, 8)
    f = np.sin(3.0 * (X[:, 0] - X[:, 1])) - 2.0 * X[:, 2]
    model = SparseGPRegressor("rbf", tol=1e-3).fit(X[:400], f[:400] + 0.3 * rng.randn(400))
    assert has_effects(model)
    assert np.sqrt(np.mean((model.predict(X[400:]) - f[400:]) ** 2)) < 0.25
    lengths = model.kernel_.k1.k2.length_scale
    assert max(lengths[:2]) < 1.0 < 10.0 < min(lengths[2:])


def stepped(n_samples):
    """Return rows, and labels that depend on a product of two columns and a step in the third."""
    X = np.random.RandomState(0).uniform(-2.0, 2.0, (n_samples, 3))
    f = np.sin(2.0 * X[:, 0]) * X[:, 1] + 0.5 * X[:, 2] ** 2 + 0.8 * np.sign(X[:, 2] - 0.4)
    return X, f > 1.0


def test_effects_beside_a_strong_interaction_under_labels():
    # The kernel without effects has learned a large variance, and effects of little variance say
    # nothing beside it.
    X, y = stepped(300)
    auto, plain = (classifier(main_effects=value).fit(X, y) for value in ("auto", False))
    assert has_effects(auto)
    assert auto.lower_bound_ + auto.log_prior_ > plain.lower_bound_ + plain.log_prior_ + 5.0


def test_effects_that_are_asked_for_lower_no_objective():
    for model, (X, y) in ((regressor, product()), (classifier, stepped(300))):
        fits = [model(main_effects=value, n_inducing=40).fit(X, y) for value in (True, False)]
        asked, plain = (fit.lower_bound_ + fit.log_prior_ for fit in fits)
        assert has_effects(fits[0])
        assert asked > plain - 1.0


@pytest.mark.parametrize(
    ("failures", "kept"),
    [((1,), True), ((3,), True), ((6,), True), ((1, 2, 3, 4, 5), False)],
)
def test_a_search_that_fails_leaves_the_others(failures, kept, monkeypatch):
    """From the fit without effects, from four sums with them, and from the two best ends."""
    fit_from, calls = module.fit_from, []

    def failing(*args, **options):
        calls.append(args)
        if len(calls) in failures:
            raise LinAlgError("not positive definite")
        return fit_from(*args, **options)

    monkeypatch.setattr(module, "fit_from", failing)
    X, _, y = additive()
    model = regressor().fit(X, y)
    assert has_effects(model) == kept
    assert len(calls) == (7 if kept else 5)
    if not kept:
        without = regressor(main_effects=False).fit(X, y)
        assert model.lower_bound_ == without.lower_bound_


def test_the_best_run_goes_on_where_it_stopped(monkeypatch):
    """Not at newly selected points, which may be poorer by more than it gains then."""
    fit_from, found = module.fit_from, []

    def recorded(*args, **options):
        found.append(fit_from(*args, **options))
        return found[-1]

    monkeypatch.setattr(module, "fit_from", recorded)
    X, _, y = additive()
    regressor(n_inducing=10).fit(X, y)
    *short, last, second = found
    assert len(short) >= 3
    short.sort(key=lambda fit: fit.best.objective, reverse=True)
    assert last.lower_bounds[0] >= short[0].best.elbo - 0.1
    assert second.lower_bounds[0] >= short[1].best.elbo - 0.1
    assert last.best.objective >= short[0].best.objective


def test_of_few_rows_the_second_run_goes_on_too(monkeypatch):
    # Without noise, the run that is ahead after some iterations may end far below another.
    fit_from, runs = module.fit_from, []

    def reversed_at_the_end(model, start, selector, settings, to_beat):
        fit = fit_from(model, start, selector, settings, to_beat)
        runs.append(settings.max_iter > module.FIRST_ITERATIONS)
        if runs.count(True) == 2:
            found.append(fit)
            return fit._replace(best=fit.best._replace(log_prior=fit.best.log_prior + 1e3))
        return fit

    monkeypatch.setattr(module, "fit_from", reversed_at_the_end)
    found = []
    X, _, y = additive()
    model = regressor(n_inducing=10).fit(X, y)
    assert runs.count(True) == 2
    assert_allclose(model.kernel_.theta, found[0].best.posterior.theta)
    # Many rows take longer, and the best run goes on alone.
    monkeypatch.setattr(module, "FEW_ROWS", 100)
    runs.clear()
    regressor(n_inducing=10).fit(X, y)
    assert runs.count(True) == 1


def test_effects_are_not_added_to_a_product_of_columns():
    X, y = product()
    auto = regressor(n_inducing=60).fit(X, y)
    plain = regressor(n_inducing=60, main_effects=False).fit(X, y)
    assert not has_effects(auto)
    # The fit without them is not repeated.
    assert_allclose(auto.lower_bound_, plain.lower_bound_, atol=1e-6)
    assert_array_equal(auto.lower_bounds_, plain.lower_bounds_)
    # From each of three starts: one evaluation there, one of centroids, and a few iterations. At
    # last the fit without effects is evaluated again.
    limit = plain.n_evaluations_ + 3 * (2 + module.FIRST_ITERATIONS) + 1
    assert plain.n_evaluations_ < auto.n_evaluations_ <= limit


@pytest.mark.parametrize(
    "more", [{"optimize_inducing": True}, {"n_restarts_optimizer": 2}, {"n_inducing": "auto"}]
)
def test_a_fit_that_leaves_something_out_is_repeated(more):
    X, y = product()
    auto = regressor(main_effects="auto", **more).fit(X, y)
    plain = regressor(main_effects=False, **more).fit(X, y)
    assert not has_effects(auto)
    assert auto.lower_bound_ > plain.lower_bound_ - 1.0


def test_effects_are_not_added_to_noise():
    X = additive()[0]
    model = regressor()
    with pytest.warns(ConvergenceWarning, match="the learned function is constant"):
        model.fit(X, np.random.RandomState(1).standard_normal(N))
    assert not has_effects(model)


def test_the_user_may_decide():
    X, _, y = additive()
    assert not has_effects(regressor(main_effects=False, max_iter=3).fit(X, y))
    assert has_effects(regressor(main_effects=True, max_iter=3).fit(*product()))


@pytest.mark.parametrize(
    ("kernel", "length_scales"),
    [("matern32", "tied"), ("matern32", "common"), (None, "free"), (None, "common")],
)
def test_every_named_kernel_may_have_effects(kernel, length_scales):
    X, _, y = additive()
    model = regressor(kernel=kernel, length_scales=length_scales, max_iter=20)
    assert has_effects(model.fit(X, y))


@pytest.mark.parametrize("noise", ["polynomial", "gp"])
def test_effects_beside_noise_that_varies(noise):
    X, f, y = additive()
    model = regressor(noise=noise, max_iter=20).fit(X, y)
    assert has_effects(model)
    assert model.score(X, f) > 0.95


def test_effects_of_several_outputs():
    X, _, y = additive()
    Y = np.column_stack([y, np.cos(2.0 * X[:, 0]) - np.sin(2.0 * X[:, 1]) + 0.3 * y])
    model = regressor().fit(X, Y)
    assert has_effects(model)
    assert_allclose(model.predict(X).shape, Y.shape)
    assert not has_effects(regressor().fit(X[:, :3], np.column_stack([product()[1]] * 2)))


def test_effects_under_labels():
    X, f, _ = additive(200)
    labels = f > np.median(f)
    assert has_effects(classifier().fit(X, labels))
    assert not has_effects(classifier().fit(X[:, :2], X[:, 0] * X[:, 1] > 0.0))


def three_classes(n_samples=200):
    X, _, y = additive(n_samples)
    return X, np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))


def test_effects_under_labels_of_three_classes():
    model = classifier(n_inducing=20, max_iter=30).fit(*three_classes())
    assert model.estimators_ is None
    assert has_effects(model)


def test_each_class_against_the_rest_is_a_case_of_its_own():
    model = classifier(likelihood="polya-gamma", n_inducing=20, max_reselections=1)
    model.fit(*three_classes(300))
    assert [has_effects(part) for part in model.estimators_] == [True, False, True]


def test_weights_count_as_copies_of_rows():
    X, _, y = additive()
    weight = np.random.RandomState(2).randint(1, 4, N)
    weighted = regressor().fit(X, y, sample_weight=weight)
    repeated = regressor().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert has_effects(weighted)
    assert has_effects(repeated)
    assert_allclose(weighted.lower_bound_, repeated.lower_bound_, rtol=1e-5)


def test_effects_with_as_many_points_as_needed():
    X, _, y = additive()
    model = regressor(n_inducing="auto", certificate_tol=0.1).fit(X, y)
    assert has_effects(model)
    assert model.growth_end_ == "certified"


def test_many_rows_are_represented_by_some(monkeypatch):
    monkeypatch.setattr(module, "DECIDING_ROWS", 100)
    X, _, y = additive()
    model = regressor().fit(X, y)
    assert has_effects(model)
    assert set(model.history_["n_samples"]) == {100, N}


@pytest.mark.parametrize("deciding", [15, 2000])
def test_effects_that_few_rows_do_not_show_are_found_with_all(deciding, monkeypatch):
    for each in (module, kernel_choice):
        monkeypatch.setattr(each, "DECIDING_ROWS", deciding)
    X, _, y = additive(400)
    model = regressor(n_inducing=40).fit(X, y)
    assert has_effects(model)
    monkeypatch.setattr(whole_fit, "with_effects_tried_again", lambda fitted: fitted)
    once = regressor(n_inducing=40).fit(X, y)
    assert has_effects(once) == (deciding == 2000)
    reached, before = (each.lower_bound_ + each.log_prior_ for each in (model, once))
    assert reached > before + np.log(400) if deciding == 15 else reached == before


def test_a_share_of_very_many_rows_decides_and_is_where_the_fit_goes_on(monkeypatch):
    monkeypatch.setattr(module, "DECIDING_ROWS", 20)
    monkeypatch.setattr(module, "VERY_MANY_ROWS", 400)
    monkeypatch.setattr(module, "DECIDING_SHARE", 0.4)
    monkeypatch.setattr(module, "MOST_DECIDING_ROWS", 150)
    X, _, y = additive(400)
    direct = regressor(n_inducing=40, main_effects=True).fit(X, y)
    for n_rows, n_decide in ((399, 20), (400, 150)):
        model = regressor(n_inducing=40).fit(X[:n_rows], y[:n_rows])
        assert set(model.history_["n_samples"]) - {200} == {n_decide, n_rows}
    assert has_effects(model)
    # The first evaluation on all rows has the hyperparameters that the part asks for.
    first = model.history_["lower_bound"][model.history_["n_samples"] == 400][0]
    assert first > direct.lower_bound_ - 30.0
    assert model.lower_bound_ + model.log_prior_ > direct.lower_bound_ + direct.log_prior_ - 5.0


def test_decisions_are_the_same_again():
    X, _, y = additive()
    model = regressor(selector="rpcholesky", random_state=0)
    one, other = (clone(model).fit(X, y) for _ in range(2))
    assert one.lower_bound_ == other.lower_bound_
    assert_array_equal(one.kernel_.theta, other.kernel_.theta)
    assert_array_equal(one.inducing_points_, other.inducing_points_)


def comparison(capsys, model, X, y):
    """Return the numbers of the line that `verbose` prints about the comparison, and its end."""
    model.set_params(verbose=1).fit(X, y)
    lines = [line for line in capsys.readouterr().out.splitlines() if "main effects" in line]
    assert len(lines) == 1
    pattern = (
        r"\[SparseGPRegressor\] main effects: (\d+) rows, bound (\S+) with them, (\S+) without, "
        r"gain with their prior (\S+) of (\S+) needed: (kept|left out)"
    )
    *numbers, end = re.fullmatch(pattern, lines[0]).groups()
    return np.array(numbers, dtype=float), end


@pytest.mark.parametrize(("data", "end"), [(additive, "kept"), (product, "left out")])
def test_the_comparison_is_printed(data, end, capsys):
    X, *_, y = data()
    model = regressor(normalize_y=True)
    plain = clone(model).set_params(main_effects=False).fit(X, y)
    (n_rows, richer, simpler, gain, least), printed = comparison(capsys, model, X, y)
    assert (printed, n_rows) == (end, N)
    assert_allclose(simpler, plain.lower_bound_, atol=1e-3)
    assert_allclose(least, 0.5 * np.log(N), atol=1e-3)
    assert (gain > least) == has_effects(model) == (end == "kept")
    if end == "kept":
        assert_allclose(richer, model.lower_bound_, atol=1e-3)


def test_printed_bounds_of_a_part_of_the_rows_are_in_units_of_y(capsys, monkeypatch):
    monkeypatch.setattr(module, "DECIDING_ROWS", 80)
    X, _, y = additive()
    model = regressor(normalize_y=True)
    first, second = (comparison(capsys, model, X, scale * y)[0] for scale in (1.0, 1024.0))
    shift = 80 * np.log(1024.0)
    assert_allclose(first - second, [0.0, shift, shift, 0.0, 0.0], atol=1e-3)


def test_nothing_is_printed_where_nothing_is_compared(capsys):
    X, _, y = additive()
    regressor(main_effects=True, verbose=1, max_iter=3).fit(X, y)
    assert "main effects" not in capsys.readouterr().out


# Where effects are not considered


def test_a_kernel_of_the_user_is_left_alone():
    X, _, y = additive()
    kernel = ConstantKernel(1.0) * RBF(np.ones(5))
    model = regressor(kernel=kernel, max_iter=3).fit(X, y)
    assert_array_equal(model.kernel_.bounds, kernel.bounds)
    assert not has_effects(model)


def test_a_kernel_of_the_user_cannot_be_given_effects():
    X, _, y = additive()
    with pytest.raises(ValueError, match=r"main_effects=True needs kernel to be None or a name"):
        regressor(kernel=RBF(), main_effects=True).fit(X, y)


def test_without_learning_nothing_is_compared():
    X, _, y = additive()
    model = regressor(optimizer=None).fit(X, y)
    assert not has_effects(model)
    assert (
        model.n_evaluations_
        == regressor(optimizer=None, main_effects=False).fit(X, y).n_evaluations_
    )


@pytest.mark.parametrize("constant", [0, 2])
def test_a_single_column_that_varies_has_no_effects(constant):
    X = np.column_stack([additive()[0][:, :1], np.ones((N, constant))])
    y = np.sin(3.0 * X[:, 0])
    assert not has_effects(regressor(main_effects="auto").fit(X, y + additive()[2]))


def test_too_many_columns_have_no_effects(monkeypatch):
    assert named_kernels.MOST_EFFECTS == 100
    X, _, y = additive()
    X = np.column_stack([X, np.full(N, 3.0)])
    monkeypatch.setattr(named_kernels, "MOST_EFFECTS", 5)
    assert has_effects(regressor().fit(X, y))
    monkeypatch.setattr(named_kernels, "MOST_EFFECTS", 4)
    assert not has_effects(regressor().fit(X, y))


@pytest.mark.parametrize("log_transform", ["auto", False])
def test_effects_of_too_many_columns_are_added_if_they_are_asked_for(log_transform, rng):
    # Skewed columns may be transformed, and length scales of many columns tied, before that.
    X = rng.lognormal(sigma=1.5, size=(120, 101))
    y = np.log(X[:, 0]) + 0.1 * rng.standard_normal(120)
    model = regressor(main_effects=True, log_transform=log_transform, max_iter=1)
    assert has_effects(model.fit(X, y))


def test_a_warm_start_keeps_the_decision():
    X, _, y = additive()
    X, other = X[:, :3], product()[1]
    for first, second, expected in ((y, other, True), (other, y, False)):
        model = regressor(warm_start=True).fit(X, first)
        assert has_effects(model) == expected
        assert has_effects(model.fit(X, second)) == expected


def test_a_callback_that_stops_the_comparison_stops_the_fit():
    X, _, y = additive()
    model = regressor(callback=lambda step: step.iteration == 3)
    with pytest.warns(ConvergenceWarning, match="the callback asked to stop"):
        model.fit(X, y)
    assert not has_effects(model)
    assert np.isfinite(model.predict(X)).all()
    assert model.n_evaluations_ < 10


# The prior of length scales


def noise_log_prior(model, y):
    """Return the log prior of the noise of a regressor, from its formula."""
    return -((np.log(model.noise_variance_ / (0.1 * y.var())) / 2.0) ** 2) / 2.0


def fit_log_prior(model, X, y):
    """Return the log prior of the length scales of a fit, and of its noise if it has noise."""
    of_noise = 0.0 if is_classifier(model) else noise_log_prior(model, y)
    return log_prior(model.kernel_, X) + of_noise


def log_prior(kernel, X):
    """Return the log prior of a kernel with a tied length scale for each column, from its formula.

    See `theory`: the log ratios of length scale and deviation differ from their mean by delta.
    """
    ratios = np.log(kernel.k2.length_scale / X.std(axis=0))
    squares = np.sum((ratios - ratios.mean()) ** 2)
    count = 0.5 * (len(ratios) - 1) + 1.0
    return -count * np.log(1.0 + squares / (2.0 * count * 0.3**2))


@pytest.fixture(scope="module")
def tied():
    """Rows, targets of two classes and numbers, and fits with tied length scales."""
    X = additive()[0][:, :2] * [1.0, 30.0]
    y = np.sin(2.0 * X[:, 0]) + 0.3 * np.random.RandomState(3).standard_normal(N)
    options = {"main_effects": False, "tol": 1e-7}
    cases = (regressor(**options), y), (classifier(**options), y > 0.0)
    return [(X, target, model.fit(X, target)) for model, target in cases]


def test_the_log_prior_of_a_fit_is_that_of_length_scales_and_noise(tied):
    for X, y, model in tied:
        assert log_prior(model.kernel_, X) < -0.1
        assert_allclose(model.log_prior_, fit_log_prior(model, X, y), rtol=1e-9)


def test_a_truncated_model_keeps_the_log_prior(tied):
    for X, y, model in tied:
        assert model.truncate(5, X, y).log_prior_ == model.log_prior_


@pytest.mark.parametrize("estimator", [StochasticSparseGPClassifier, StochasticSparseGPRegressor])
def test_the_log_prior_after_minibatches_is_that_of_length_scales_and_noise(estimator, tied):
    for X, y, model in tied:
        if is_classifier(model) == (estimator is StochasticSparseGPClassifier):
            model = estimator(n_inducing=20, n_epochs=1).fit(X, y)
            assert log_prior(model.kernel_, X) < -0.1
            assert_allclose(model.log_prior_, fit_log_prior(model, X, y), rtol=1e-9)


def test_the_bound_of_a_fit_leaves_out_the_prior(tied):
    for X, y, model in tied:
        assert_allclose(model.lower_bound(X=X, y=y), model.lower_bound_, rtol=1e-7)


def test_a_fit_maximises_the_bound_with_the_prior(tied):
    for X, y, model in tied:
        theta = model.kernel_.theta
        _, gradient = model.lower_bound(X=X, y=y, eval_gradient=True)
        with_prior = gradient[: len(theta)] + central_difference(
            lambda t, X=X, model=model: log_prior(model.kernel_.clone_with_theta(t), X), theta
        )
        assert np.abs(with_prior).max() < 0.3 < 0.5 < np.abs(gradient).max()


def test_a_prior_of_effects_is_none_above_zero():
    X, _, y = additive()
    assert regressor().fit(X, y).log_prior_ < 0.0


@pytest.mark.parametrize("length_scales", ["common", "free"])
def test_untied_length_scales_have_no_prior(length_scales):
    X, _, y = additive()
    options = {"length_scales": length_scales, "main_effects": False, "max_iter": 5}
    model = regressor(**options).fit(X, y)
    assert model.log_prior_ == pytest.approx(noise_log_prior(model, y))
    assert classifier(**options).fit(X, y > 0.0).log_prior_ == 0.0
