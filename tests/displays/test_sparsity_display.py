"""The picture of smaller models, against fits with these points and the exact model."""

from threading import Lock

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris, make_moons
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import (
    HomoscedasticNoise,
    InducingPointSelector,
    SparseGPClassifier,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
    StochasticSparseGPRegressor,
)
from sparsegpc.displays import SparsityDisplay

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(scope="module")
def waves():
    rng = np.random.RandomState(0)
    X = rng.uniform(-3.0, 3.0, (80, 1))
    return X, np.sin(2.0 * X[:, 0]) + 0.2 * rng.randn(80)


@pytest.fixture(scope="module")
def moons():
    return make_moons(80, noise=0.3, random_state=0)


def test_bounds_of_a_regressor_are_those_of_fits_with_these_points(waves):
    X, y = waves
    model = SparseGPRegressor(n_inducing=15, selection_tol=0.0).fit(X, y)
    display = SparsityDisplay.from_estimator(model, X, y, n_inducing=[3, 7, 15])
    assert display.n_inducing.tolist() == [3, 7, 15]
    for k, m in enumerate(display.n_inducing):
        own = SparseGPRegressor(
            model.kernel_,
            noise=HomoscedasticNoise(model.noise_variance_, "fixed"),
            optimizer=None,
            selector=model.inducing_points_[:m],
        ).fit(X, y)
        assert_allclose(display.lower_bound[k], own.lower_bound_, rtol=1e-6)
        assert_allclose(display.cost_per_row[k], own.cost_per_row_, rtol=1e-4)
        certificate = own.certificate(X, y)
        assert_allclose(display.gap_per_row[k], certificate.gap / 80, rtol=1e-3, atol=1e-8)


def test_the_exact_evidence_is_within_the_certificate(waves):
    X, y = waves
    kernel = ConstantKernel(1.0, "fixed") * RBF(0.7, "fixed")
    noise = HomoscedasticNoise(0.04, "fixed")
    model = SparseGPRegressor(
        kernel, noise=noise, optimizer=None, fit_prior_mean=False, n_inducing=12
    ).fit(X, y)
    display = SparsityDisplay.from_estimator(model, X, y)
    exact = GaussianProcessRegressor(kernel + WhiteKernel(0.04, "fixed"), optimizer=None)
    evidence = exact.fit(X, y).log_marginal_likelihood_value_
    assert (display.lower_bound <= evidence + 1e-6).all()
    assert (display.lower_bound + 80 * display.gap_per_row >= evidence - 1e-6).all()
    assert (np.diff(display.lower_bound) > 0.0).all()
    assert (np.diff(display.cost_per_row) < 0.0).all()


@pytest.mark.parametrize("likelihood", ["bernoulli-logit", "polya-gamma", "bernoulli-probit"])
def test_bounds_of_a_classifier_are_those_of_fits_with_these_points(likelihood, moons):
    X, y = moons
    # Sites settle up to the tolerance: so low that it makes no difference where they start.
    settings = {"likelihood": likelihood, "tol": 1e-12}
    kernel = SparseGPClassifier(likelihood=likelihood, n_inducing=12).fit(X, y).kernel_
    model = SparseGPClassifier(
        kernel, optimizer=None, n_inducing=12, selection_tol=0.0, **settings
    ).fit(X, y)
    display = SparsityDisplay.from_estimator(model, X, y, n_inducing=(12, 2, 5, 5))
    assert display.n_inducing.tolist() == [2, 5, 12]
    for k, m in enumerate((2, 5)):
        own = SparseGPClassifier(
            kernel, optimizer=None, selector=model.inducing_points_[:m], **settings
        ).fit(X, y)
        assert_allclose(display.lower_bound[k], own.lower_bound_, rtol=1e-8)
        assert_allclose(display.cost_per_row[k], own.cost_per_row_, rtol=1e-6)
        assert_allclose(display.gap_per_row[k], own.certificate(X, y).gap_per_row, rtol=1e-6)
    assert display.lower_bound[-1] == model.lower_bound_
    assert display.cost_per_row[-1] == model.cost_per_row_
    assert (np.diff(display.lower_bound) > 0.0).all()


def test_many_classes_with_one_model():
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    model = SparseGPClassifier(n_inducing=10, max_iter=5, max_reselections=0, tol=1e-2).fit(X, y)
    display = SparsityDisplay.from_estimator(model, X, y, n_inducing=[2, 10])
    assert display.lower_bound[0] < display.lower_bound[1] == model.lower_bound_


def test_a_model_for_each_class_is_drawn_one_by_one():
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    model = SparseGPClassifier(
        ConstantKernel(9.0) * RBF(2.0), likelihood="polya-gamma", optimizer=None, n_inducing=8
    ).fit(X, y)
    with pytest.raises(
        ValueError, match=r"SparsityDisplay is for one model.*y == estimator.classes_"
    ):
        SparsityDisplay.from_estimator(model, X, y)
    one = SparsityDisplay.from_estimator(model.estimators_[2], X, y == model.classes_[2])
    assert one.lower_bound[-1] == model.estimators_[2].lower_bound_


def test_default_sizes_span_all_points_in_geometric_progression(waves):
    X, y = waves
    model = SparseGPRegressor(n_inducing=20, selection_tol=0.0).fit(X, y)
    sizes = SparsityDisplay.from_estimator(model, X, y).n_inducing
    assert sizes[0] == 1
    assert sizes[-1] == len(model.inducing_points_)
    assert 6 <= len(sizes) <= 8
    assert (np.diff(sizes, 2) >= 0).all()


@pytest.mark.parametrize("noise", ["polynomial", "gp"])
def test_learned_noise_stays_as_it_is(noise, waves):
    X, y = waves
    model = SparseGPRegressor(noise=noise, n_inducing=12, max_iter=20).fit(X, y)
    display = SparsityDisplay.from_estimator(
        model, X, y, n_inducing=[4, len(model.inducing_points_)]
    )
    assert_allclose(display.lower_bound[-1], model.lower_bound_)
    assert_allclose(display.gap_per_row[-1], model.certificate(X, y).gap_per_row)
    assert display.gap_per_row[0] > display.gap_per_row[1] > 0.0


def test_known_noise_and_weights_are_passed_on(waves):
    X, y = waves
    noise, weight = np.linspace(0.02, 0.1, 80), np.arange(80) % 3
    model = SparseGPRegressor(n_inducing=10, selection_tol=0.0)
    model.fit(X, y, sample_weight=weight, noise_variance=noise)
    display = SparsityDisplay.from_estimator(
        model, X, y, n_inducing=[3, 10], sample_weight=weight, noise_variance=noise
    )
    rows = np.repeat(np.arange(80), weight)
    own = SparseGPRegressor(model.kernel_, optimizer=None, selector=model.inducing_points_[:3]).fit(
        X[rows], y[rows], noise_variance=noise[rows]
    )
    assert_allclose(display.lower_bound[0], own.lower_bound_, rtol=1e-6)
    certificate = own.certificate(X[rows], y[rows], noise_variance=noise[rows])
    assert_allclose(display.gap_per_row[0], certificate.gap_per_row, rtol=1e-6)


def test_weights_of_a_classifier_are_copies_of_rows(moons):
    X, y = moons
    weight = np.arange(80) % 3
    model = SparseGPClassifier(n_inducing=6, class_weight={0: 2.0, 1: 1.0}, max_iter=10, tol=1e-3)
    model.fit(X, y, sample_weight=weight)
    display = SparsityDisplay.from_estimator(model, X, y, n_inducing=3, sample_weight=weight)
    rows = np.repeat(np.arange(80), weight)
    copies = SparsityDisplay.from_estimator(model, X[rows], y[rows], n_inducing=3)
    assert_allclose(display.lower_bound, copies.lower_bound, rtol=1e-9)
    assert_allclose(display.gap_per_row, copies.gap_per_row, rtol=1e-6)


def test_exposures_and_events_are_passed_on(waves, rng):
    X, _ = waves
    exposure, event = rng.uniform(0.5, 2.0, 80), np.arange(80) % 3 > 0
    for likelihood, y, given in (
        ("poisson", rng.poisson(3.0 * exposure), {"exposure": exposure}),
        ("weibull", rng.weibull(2.0, 80), {"event": event}),
    ):
        settings = {"n_inducing": 6, "selection_tol": 0.0, "optimizer": None, "kernel": RBF()}
        model = SparseGPGeneralizedRegressor(likelihood=likelihood, **settings).fit(X, y, **given)
        display = SparsityDisplay.from_estimator(model, X, y, n_inducing=[2, 6], **given)
        smaller = model.truncate(2, X, y, **given)
        assert_allclose(display.lower_bound, [smaller.lower_bound_, model.lower_bound_])
        gap = smaller.certificate(X, y, **given).gap_per_row
        assert_allclose(display.gap_per_row[0], gap)
    regressor = SparseGPRegressor(**settings).fit(X, y)
    with pytest.raises(TypeError, match="unexpected keyword argument 'exposure'"):
        SparsityDisplay.from_estimator(regressor, X, y, exposure=exposure)


def test_several_outputs_add_up(waves):
    X, y = waves
    Y = np.column_stack([y, -2.0 * y])
    model = SparseGPRegressor(n_inducing=8, normalize_y=True).fit(X, Y)
    display = SparsityDisplay.from_estimator(model, X, Y)
    assert_allclose(display.lower_bound[-1], model.lower_bound_)


def test_a_pipeline_is_given_the_rows_as_they_are(waves):
    X, y = waves
    model = make_pipeline(StandardScaler(), SparseGPRegressor(n_inducing=8)).fit(1e3 * X, y)
    display = SparsityDisplay.from_estimator(model, 1e3 * X, y)
    assert_allclose(display.lower_bound[-1], model[-1].lower_bound_)


def test_points_that_are_given_are_taken_in_their_order(waves):
    X, y = waves
    model = SparseGPRegressor(selector=np.linspace(-3.0, 3.0, 9)[:, None]).fit(X, y)
    display = SparsityDisplay.from_estimator(model, X, y, n_inducing=[4, 9])
    assert display.lower_bound[0] == model.truncate(4, X, y).lower_bound_


def test_points_that_could_have_moved_but_did_not_are_in_order(waves):
    X, y = waves
    Z = np.linspace(-3.0, 3.0, 9)[:, None]
    model = SparseGPRegressor(selector=Z, optimizer=None, optimize_inducing=True).fit(X, y)
    display = SparsityDisplay.from_estimator(model, X, y, n_inducing=4)
    assert display.lower_bound.tolist() == [model.truncate(4, X, y).lower_bound_]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"selector": "kmeans"}, "are centres of k-means"),
        ({"selector": InducingPointSelector(method="kmeans", n_components=5)}, "are centres"),
        ({"optimize_inducing": True}, "were moved together"),
    ],
)
def test_points_without_an_order_are_refused(settings, why, waves):
    model = SparseGPRegressor(n_inducing=5, **settings).fit(*waves)
    with pytest.raises(ValueError, match=f"inducing points of estimator {why}.*fit models with"):
        SparsityDisplay.from_estimator(model, *waves)


@pytest.mark.parametrize("n_inducing", [0, 9, 2.5, "all"])
def test_sizes_that_the_model_has_not_are_refused(n_inducing, waves):
    model = SparseGPRegressor(n_inducing=8, selection_tol=0.0, optimizer=None).fit(*waves)
    with pytest.raises((TypeError, ValueError), match="n_inducing"):
        SparsityDisplay.from_estimator(model, *waves, n_inducing=n_inducing)


def test_other_data_than_those_of_fit_are_refused(waves, moons):
    for model, (X, y) in (
        (SparseGPRegressor(optimizer=None, n_inducing=8), waves),
        (SparseGPClassifier(optimizer=None, n_inducing=8), moons),
    ):
        model.fit(X, y)
        with pytest.raises(ValueError, match="give the data of fit"):
            SparsityDisplay.from_estimator(model, X[1:], y[1:], n_inducing=3)


def test_what_does_not_apply_is_refused(waves, moons):
    X, y = moons
    model = SparseGPClassifier(optimizer=None, n_inducing=8).fit(X, y)
    with pytest.raises(TypeError, match="unexpected keyword argument 'noise_variance'"):
        SparsityDisplay.from_estimator(model, X, y, noise_variance=0.1)
    stochastic = StochasticSparseGPRegressor(n_inducing=8, n_epochs=1).fit(*waves)
    with pytest.raises(TypeError, match="got a StochasticSparseGPRegressor"):
        SparsityDisplay.from_estimator(stochastic, *waves)
    _, ax = plt.subplots()
    with pytest.raises(ValueError, match="ax must hold 2 Axes, got 1"):
        SparsityDisplay.from_estimator(model, X, y, ax=ax)


def test_nothing_is_told_of_smaller_models(moons, capsys):
    X, y = moons
    told = []
    model = SparseGPClassifier(n_inducing=8, max_iter=5, tol=1e-2, callback=told.append, verbose=2)
    model.fit(X, y)
    before = len(told)
    capsys.readouterr()
    SparsityDisplay.from_estimator(model, X, y)
    assert len(told) == before > 0
    assert capsys.readouterr().out == ""


def test_a_callback_need_not_be_possible_to_copy(moons):
    """Progress bars are not."""

    class Locked:
        def __init__(self):
            self.lock = Lock()

        def __call__(self, step):
            return False

    X, y = moons
    model = SparseGPClassifier(n_inducing=8, optimizer=None, callback=Locked()).fit(X, y)
    display = SparsityDisplay.from_estimator(model, X, y, n_inducing=[3, 8])
    assert display.lower_bound[0] < display.lower_bound[1]


def test_the_picture_shows_these_numbers():
    display = SparsityDisplay(
        n_inducing=np.array([1, 10, 99, 100]),
        lower_bound=np.array([-50.0, -20.0, -10.5, -10.0]),
        cost_per_row=np.array([1.0, 0.1, 0.02, 0.01]),
        gap_per_row=np.array([2.0, 0.5, 0.06, 0.05]),
    ).plot(bound_kw={"c": "black"}, gap_kw={"marker": "x"}, cost_kw={"ls": ":"})
    left, right = display.axes_
    for line, axes, name in (
        (display.bound_line_, left, "lower_bound"),
        (display.cost_line_, right, "cost_per_row"),
        (display.gap_line_, right, "gap_per_row"),
    ):
        assert line.axes is axes
        assert line.get_xdata().tolist() == [1, 10, 99, 100]
        assert line.get_ydata().tolist() == getattr(display, name).tolist()
    assert (left.get_ylabel(), right.get_ylabel()) == ("lower bound, nats", "nats per row")
    assert right.get_xscale() == right.get_yscale() == "log"
    # 99 has no room beside 100.
    assert left.get_xticks().tolist() == [1, 10, 100]
    assert display.bound_line_.get_color() == "black"
    assert display.gap_line_.get_marker() == "x"
    again = display.plot(display.axes_)
    assert again is display
    assert display.figure_ is left.figure


def test_one_number_of_points_can_be_drawn():
    one = {name: np.array([0.5]) for name in ("lower_bound", "cost_per_row", "gap_per_row")}
    display = SparsityDisplay(n_inducing=np.array([7]), **one).plot()
    display.figure_.canvas.draw()
    assert display.axes_[0].get_xticks().tolist() == [7]
