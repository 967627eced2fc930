"""The regressor of counts, positive numbers and durations: what it learns, from what."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.stats import nbinom
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import make_scorer, mean_poisson_deviance
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import (
    SparseGPClassifier,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
    StochasticSparseGPGeneralizedRegressor,
    distribute,
)
from sparsegpc._core.rows import dask_blocks
from sparsegpc._estimators.kernels.kernel_trees import walk
from sparsegpc._estimators.messages.response_warnings import event_warnings
from sparsegpc.kernels import MainEffects
from sparsegpc.likelihoods import (
    Gamma,
    LogNormal,
    NegativeBinomial,
    Poisson,
    ResponseLikelihood,
    Weibull,
)
from tests.estimators.responses import (
    BY_NAME,
    EACH,
    KERNEL,
    RESPONSES,
    WITH_EVENTS,
    fixed_model,
    grid,
    log_scale,
    model_of,
    simulated,
)

COUNTS = [response for response in RESPONSES if response.is_discrete]


# What is learned


@EACH
def test_parameters_function_and_coverage(response):
    X, y, row_arguments = simulated(response, n=1500, censored=0.3)
    model = model_of(response).fit(X, y, **row_arguments)
    assert model.converged_
    if response.attribute:
        assert_allclose(getattr(model.likelihood_, response.attribute), response.truth, rtol=0.1)
    inside = np.linspace(-2.8, 2.8, 50)[:, None]
    mean, variance = model.latent_mean_and_variance(inside)
    assert (np.abs(mean - log_scale(inside)) < 4.0 * np.sqrt(variance)).all()
    assert np.sqrt(variance).max() < 0.2
    X, y, row_arguments = simulated(response, n=2000, seed=1)
    lower, upper = model.predict_interval(X, **row_arguments)
    coverage = ((lower <= y) & (y <= upper)).mean()
    if response.is_discrete:
        assert 0.89 < coverage < 0.98
    else:
        assert abs(coverage - 0.9) < 0.02


@pytest.mark.parametrize("response", WITH_EVENTS, ids=lambda response: response.likelihood)
@pytest.mark.filterwarnings("ignore:the predicted means of the training rows:UserWarning")
def test_censored_rows_say_that_durations_are_longer(response):
    X, y, row_arguments = simulated(response, n=500, censored=0.5)
    inside = np.linspace(-2.8, 2.8, 50)[:, None]
    model, truth = model_of(response), log_scale(inside)
    error = {
        name: (clone(model).fit(*data).latent_mean_and_variance(inside)[0] - truth).mean()
        for name, data in {
            "used": (X, y, None, None, row_arguments["event"]),
            "taken for events": (X, y),
        }.items()
    }
    assert abs(error["used"]) < 0.1
    assert error["taken for events"] < -0.3


@pytest.mark.filterwarnings("ignore:the counts vary more than this Poisson")
def test_the_size_tells_counts_of_poisson_from_others():
    X, y, row_arguments = simulated(BY_NAME["negative-binomial"], n=400)
    bounds = {
        name: model_of(BY_NAME[name]).fit(X, y, **row_arguments).lower_bound_
        for name in ("poisson", "negative-binomial")
    }
    assert bounds["negative-binomial"] > bounds["poisson"] + 100.0


@pytest.mark.parametrize(
    ("y", "event", "expected"),
    [
        ([0.0, 3.0, 7.0], None, NegativeBinomial),
        ([0.5, 3.0, 7.0], None, Gamma),
        ([1.0, 3.0, 7.0], [1, 0, 1], Weibull),
    ],
    ids=["whole", "positive", "durations"],
)
def test_the_likelihood_is_chosen_by_the_targets(y, event, expected):
    model = SparseGPGeneralizedRegressor(kernel=RBF(), optimizer=None)
    model.fit([[0.0], [1.0], [2.0]], y, event=event)
    assert type(model.likelihood_) is expected
    assert model.likelihood == "auto"
    given = model.set_params(likelihood=expected()).fit([[0.0], [1.0], [2.0]], y, event=event)
    assert type(given.likelihood_) is expected
    assert given.likelihood_ is not given.likelihood


def test_a_warning_tells_that_all_counts_are_zero():
    X, y = np.arange(6.0)[:, None], np.zeros(6)
    with pytest.warns() as caught:
        model = SparseGPGeneralizedRegressor().fit(X, y, exposure=5.0)
    assert len(caught) == 1
    assert caught[0].category is UserWarning
    message = str(caught[0].message)
    assert message.startswith("all 6 counts are zero, so the rate has no lower limit")
    assert "which is 30: if the rate is the same at all rows, it is below 0.1 for" in message
    assert model.predict(X).max() < 1e-6
    y[0] = 1.0
    with pytest.warns(ConvergenceWarning, match="the learned function is constant"):
        model.fit(X, y)


@pytest.mark.parametrize("share_of_zeros", [0.0, 0.5])
def test_a_warning_tells_that_counts_vary_too_much_for_poisson(share_of_zeros):
    """By the gain of scipy's distribution of constant rate; not if nothing but chance varies."""
    rng = np.random.RandomState(0)
    X, hours = rng.uniform(size=(120, 1)), rng.choice([0.5, 2.0], 120)
    rate = hours * np.exp(2.0 + np.sin(5.0 * X[:, 0]))
    y = rng.poisson(rate * (rng.uniform(size=120) >= share_of_zeros))
    model = SparseGPGeneralizedRegressor(likelihood="poisson", n_inducing=20, main_effects=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, exposure=hours)
    found = [str(each.message) for each in caught if "Poisson model" in str(each.message)]
    if not share_of_zeros:
        assert found == []
        return

    def negative(point):
        size, mean = np.exp(point[0]), hours * np.exp(point[1])
        return -nbinom.logpmf(y, size, size / (size + mean)).sum()

    gain = -minimize(negative, [-1.0, 2.0], method="Nelder-Mead").fun - model.lower_bound_
    assert gain > 10.0
    assert len(found) == 1
    told = float(found[0].partition("describes them better, by ")[2].partition(" nats")[0])
    assert -0.5 <= gain - told < 1.5  # the size has a prior


@pytest.mark.filterwarnings("error:the counts vary more", "ignore:.*limit", "ignore:the learned")
def test_a_poor_kernel_is_no_sign_of_counts_that_vary_too_much(rng):
    X, y = rng.uniform(size=(120, 1)), rng.poisson(3.0, size=120)
    poor, good = (
        SparseGPGeneralizedRegressor(
            ConstantKernel(variance, "fixed") * RBF(1e-3, (1e-4, 1e-2)), likelihood="poisson"
        ).fit(X, y)
        for variance in (100.0, 1e-5)
    )
    assert poor.lower_bound_ < good.lower_bound_ - 50.0


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (lambda is_low: np.where(is_low, -1, 1), ""),
        (lambda is_low: ~is_low, "lower limits (event 0) repeat, and most targets were"),
    ],
)
def test_miscoded_limits_of_detection_of_several_laboratories_are_reported(code, message):
    rng = np.random.RandomState(0)
    X, limit = rng.uniform(size=(120, 1)), rng.choice([0.6, 1.5, 3.0], 120)
    amount = np.exp(0.6 + rng.normal(size=120))
    model = SparseGPGeneralizedRegressor(likelihood="log-normal", n_inducing=10, max_iter=5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, np.maximum(amount, limit), event=code(amount < limit))
    found = [str(each.message) for each in caught if "(event " in str(each.message)]
    assert len(found) == bool(message)
    assert all(message in text for text in found)


def durations_of_a_study(design, rng):
    """Return durations and events of 100 rows, right-censored as in a design that is common."""
    duration, lost = 10.0 * rng.weibull(1.5, size=100), rng.uniform(0.0, 20.0, size=100)
    if design == "two lengths":
        lost = rng.choice([10.0, 30.0], 100)
    elif design == "visits":
        # Events are noticed at visits, and the last contact is known exactly.
        duration = 5.0 * np.ceil(duration / 5.0)
    elif design == "months":
        duration, lost = np.ceil(duration), np.ceil(0.25 * lost)
    elif design == "early losses":
        lost = np.where(rng.uniform(size=100) < 0.05, 1e-3 * lost, 1e3)
    return np.minimum(duration, lost), duration <= lost


@pytest.mark.parametrize("design", ["any time", "two lengths", "visits", "months", "early losses"])
def test_events_of_common_studies_do_not_look_miscoded(design):
    for seed in range(10):
        time, event = durations_of_a_study(design, np.random.RandomState(seed))
        assert 0 < np.mean(event) < 1
        assert event_warnings(time, event.astype(float)) == []


@pytest.mark.parametrize("seed", [0, 1])
def test_a_warning_tells_that_log_normal_means_miss_the_total(seed):
    """Where a tenth of the amounts are large; not if the logarithms are Gaussian."""
    rng = np.random.RandomState(seed)
    X, large = rng.uniform(0.0, 6.0, (2000, 1)), rng.uniform(size=2000) < 0.1
    mean = 1500.0 * np.exp(0.4 * np.sin(X[:, 0]))
    y = mean * np.where(large, 4.0 * (1.0 + rng.pareto(1.8, 2000)), rng.gamma(10.0, 0.1, 2000))
    model = model_of(BY_NAME["log-normal"], kernel="rbf")
    with pytest.warns(UserWarning, match="the predicted means of the .*set likelihood='gamma'$"):
        model.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, mean * np.exp(rng.standard_normal(2000)))


def test_a_row_of_weight_zero_may_have_no_exposure():
    X, y, row_arguments = simulated(BY_NAME["poisson"], n=40)
    exposure, weight = row_arguments["exposure"].copy(), np.ones(40)
    exposure[3] = weight[3] = 0.0
    model = fixed_model(BY_NAME["poisson"]).fit(X, y, weight, exposure=exposure)
    others = np.arange(40) != 3
    without = clone(model).fit(X[others], y[others], exposure=exposure[others])
    assert_allclose(model.lower_bound_, without.lower_bound_, rtol=1e-9)


@pytest.mark.parametrize("mean_claims", [1.3, 3.0])
def test_totals_of_claims_have_the_mean_and_the_shape_of_single_claims(mean_claims):
    rng = np.random.RandomState(5)
    X, n_claims = rng.uniform(0.0, 6.0, (800, 1)), 1 + rng.poisson(mean_claims - 1.0, 800)
    shape, mean = 0.8, 1500.0 * np.exp(0.4 * np.sin(X[:, 0]))
    total = mean / shape * rng.gamma(shape * n_claims)
    model = model_of(BY_NAME["gamma"]).fit(X, total, exposure=n_claims)
    assert_allclose(model.likelihood_.shape, shape, rtol=0.1)
    assert_allclose(model.predict(X).mean(), mean.mean(), rtol=0.1)
    claims = mean / shape * rng.gamma(shape, size=800)
    lower, upper = model.predict_interval(X, 0.9)
    assert_allclose(np.mean((lower <= claims) & (claims <= upper)), 0.9, atol=0.03)


def test_rows_of_weight_zero_do_not_choose_the_likelihood():
    X, y = np.arange(6.0)[:, None], np.array([1.0, 0.0, 2.0, 1.0, 3.0, 1.5])
    model = SparseGPGeneralizedRegressor(optimizer=None).fit(X[:5], y[:5])
    assert isinstance(model.likelihood_, NegativeBinomial)
    for ignored in (1.5, -1.0):
        y[5] = ignored
        weighted = clone(model).fit(X, y, sample_weight=[1, 1, 1, 1, 1, 0])
        assert weighted.lower_bound_ == model.lower_bound_


def test_more_is_explained_than_by_a_linear_model():
    X, y, _ = simulated(BY_NAME["poisson"], n=300)
    y = np.round(y)
    linear = PoissonRegressor(alpha=0.0).fit(X, y)
    assert fixed_model(BY_NAME["poisson"]).fit(X, y).score(X, y) > linear.score(X, y) + 0.3


# Units


@pytest.mark.parametrize("response", COUNTS, ids=lambda response: response.likelihood)
def test_twice_the_exposure_is_half_the_rate(response):
    X, y, row_arguments = simulated(response)
    exposure = row_arguments["exposure"]
    one = fixed_model(response).fit(X, y, exposure=exposure)
    other = fixed_model(response).fit(X, y, exposure=2.0 * exposure)
    assert_allclose(other.predict(grid()), 0.5 * one.predict(grid()), rtol=1e-4)
    assert_allclose(other.prior_mean_, one.prior_mean_ - np.log(2.0), rtol=1e-4)
    assert_allclose(other.lower_bound_, one.lower_bound_, rtol=1e-7)
    # With a common exposure it is only a unit.
    two = fixed_model(response).fit(X, y, exposure=2.0)
    none = fixed_model(response).fit(X, y)
    assert_allclose(two.predict(grid(), exposure=2.0), none.predict(grid()), rtol=1e-4)


# With fewer points than rows, rounding errors may lead to other points.
@pytest.mark.parametrize(
    ("name", "unit", "options", "rtol"),
    [
        ("gamma", 1e-30, {"n_inducing": 30}, 1e-2),
        ("gamma", 1e30, {"n_inducing": 60, "kernel": KERNEL}, 1e-6),
        ("weibull", 1e-9, {"n_inducing": 60}, 1e-6),
        ("log-normal", 1e30, {"n_inducing": 60}, 1e-6),
    ],
)
@pytest.mark.filterwarnings("error")
def test_the_unit_of_positive_targets_does_not_matter(name, unit, options, rtol):
    response = BY_NAME[name]
    X, y, row_arguments = simulated(response, n=60, censored=0.3)
    n_events = sum(row_arguments.get("event", np.ones(60)))
    model = model_of(response, **options)
    one = clone(model).fit(X, y, **row_arguments)
    other = clone(model).fit(X, unit * y, **row_arguments)
    assert_allclose(other.predict(grid()), unit * one.predict(grid()), rtol=rtol)
    moved = one.lower_bound_ - n_events * np.log(unit)
    assert_allclose(other.lower_bound_, moved, atol=0.05)


# Rows and weights


@pytest.mark.parametrize(
    "model",
    [
        *map(fixed_model, RESPONSES),
        model_of(BY_NAME["negative-binomial"], tol=1e-3),
        model_of(BY_NAME["log-normal"], tol=1e-3),
    ],
    ids=lambda model: f"{model.likelihood}-{model.optimizer}",
)
@pytest.mark.filterwarnings("ignore:.* rows repeat others, targets included:UserWarning")
def test_weights_are_copies_whatever_the_order_of_rows(model, rng):
    response = BY_NAME[model.likelihood]
    X, y, row_arguments = simulated(response, n=40, censored=0.3)
    weight = rng.randint(0, 4, 40)
    weighted = clone(model).set_params(n_inducing=8).fit(X, y, weight, **row_arguments)
    copies = rng.permutation(np.repeat(np.arange(40), weight))
    of_copies = {name: values[copies] for name, values in row_arguments.items()}
    repeated = clone(weighted).fit(X[copies], y[copies], **of_copies)
    assert_allclose(repeated.lower_bound_, weighted.lower_bound_, rtol=1e-9)
    assert_allclose(repeated.predict(grid()), weighted.predict(grid()), rtol=1e-6)
    assert_array_equal(repeated.inducing_points_, weighted.inducing_points_)
    ours = weighted.certificate(X, y, weight, **row_arguments)
    theirs = repeated.certificate(X[copies], y[copies], **of_copies)
    assert_allclose(ours.upper_bound, theirs.upper_bound)
    assert ours.total_weight == weight.sum()


@EACH
def test_rows_that_differ_in_exposure_or_event_only_stay_apart(response):
    X, y = np.zeros((4, 1)), np.array([2.0, 2.0, 3.0, 3.0])
    given = {"exposure": [1.0, 2.0, 1.0, 1.0], "event": [1, 0, 1, 1]}
    row_arguments = {name: given[name] for name in [response.row_argument] if name}
    model = fixed_model(response).fit(X, y, **row_arguments)
    n_rows = len(model._models_of_rows(X, y, None, *map(row_arguments.get, given))[0].model.weight)
    assert n_rows == (3 if row_arguments else 2)


def test_rows_on_disk_give_the_model_of_the_array(tmp_path):
    response = BY_NAME["weibull"]
    X, y, row_arguments = simulated(response, n=300, censored=0.3)
    X.tofile(tmp_path / "rows")
    on_disk = np.memmap(tmp_path / "rows", dtype=float, mode="r", shape=X.shape)
    model = fixed_model(response, selector=X[:8]).fit(X, y, **row_arguments)
    other = clone(model).fit(on_disk, y, **row_arguments)
    assert_allclose(other.lower_bound_, model.lower_bound_, rtol=1e-9)
    assert_allclose(other.predict(on_disk), model.predict(X), rtol=1e-6)
    certificates = [model.certificate(rows, y, **row_arguments) for rows in (X, on_disk)]
    assert_allclose(certificates[1].upper_bound, certificates[0].upper_bound, rtol=1e-9)


def test_rows_on_workers_give_the_same_model(monkeypatch):
    distributed = pytest.importorskip("distributed")
    response = BY_NAME["negative-binomial"]
    X, y, row_arguments = simulated(response, n=600)
    alone = fixed_model(response).fit(X, y, **row_arguments)
    monkeypatch.setattr(dask_blocks, "SMALLEST_PART", 200)
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(processes=False, **options) as cluster,
        distributed.Client(cluster) as client,
        distribute(client),
    ):
        together = clone(alone).fit(X, y, **row_arguments)
    assert_allclose(together.lower_bound_, alone.lower_bound_, rtol=1e-9)
    assert_allclose(together.predict(X), alone.predict(X), rtol=1e-6)


# The bound


@EACH
def test_the_gradient_of_the_lower_bound(response, rng):
    X, y, row_arguments = simulated(response, n=60, censored=0.3)
    weight = rng.uniform(0.5, 2.0, 60)
    kernel = ConstantKernel(1.0) * RBF(0.8) + ConstantKernel(0.3) * Matern(2.0, nu=1.5)
    model = fixed_model(response, kernel=kernel, n_inducing=6, tol=1e-9)
    model.fit(X, y, weight, **row_arguments)
    theta = kernel.theta + rng.uniform(-0.3, 0.3, len(kernel.theta))
    data = {"X": X, "y": y, "sample_weight": weight, **row_arguments}
    at_theta, gradient = model.lower_bound(theta, **data, eval_gradient=True)
    assert at_theta == model.lower_bound(theta, **data)
    steps = 1e-4 * np.eye(len(theta))
    differences = [
        (model.lower_bound(theta + step, **data) - model.lower_bound(theta - step, **data)) / 2e-4
        for step in steps
    ]
    assert_allclose(gradient, differences, rtol=1e-4, atol=1e-4)
    assert np.abs(gradient).min() > 1e-3


@EACH
def test_certificates_and_smaller_models(response):
    X, y, row_arguments = simulated(response, n=80, censored=0.3)
    data = {"X": X, "y": y, **row_arguments}
    model = model_of(response, selector="rpcholesky", n_inducing=12).fit(**data)
    whole = model.certificate(**data)
    assert whole.lower_bound <= whole.upper_bound
    assert_allclose(whole.lower_bound, model.lower_bound_, rtol=1e-7)
    smaller = model.truncate(3, **data)
    assert len(smaller.inducing_points_) == 3
    assert smaller.lower_bound_ < model.lower_bound_
    assert smaller.certificate(**data).gap > whole.gap
    assert smaller.likelihood_ is model.likelihood_
    assert_allclose(smaller.lower_bound(**data), smaller.lower_bound_, rtol=1e-7)
    with pytest.raises(ValueError, match="needs the data of fit"):
        model.certificate(X, np.roll(y, 1), **row_arguments)


# Parameters


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["negative-binomial", "log-normal"])
def test_points_may_grow_in_number_and_move(name):
    response = BY_NAME[name]
    X, y, row_arguments = simulated(response, n=200)
    grown = fixed_model(response, n_inducing="auto", max_inducing=64).fit(X, y, **row_arguments)
    assert grown.growth_end_ is not None
    assert 2 < len(grown.inducing_points_) <= 64
    still = model_of(response, n_inducing=4, max_iter=20).fit(X, y, **row_arguments)
    moved = clone(still).set_params(optimize_inducing=True).fit(X, y, **row_arguments)
    assert moved.lower_bound_ > still.lower_bound_


def test_main_effects_are_found(rng):
    X = rng.uniform(-2.0, 2.0, (600, 3))
    f = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * X[:, 2] ** 2
    y = np.exp(f) * rng.gamma(20.0, 1.0 / 20.0, 600)
    model = SparseGPGeneralizedRegressor(n_inducing=60).fit(X, y)
    assert any(isinstance(part, MainEffects) for part in walk(model.kernel_))
    mean, deviation = model.effects(X, [0], X)
    truth = np.sin(2.0 * X[:, 0]) - np.sin(2.0 * X[:, 0]).mean()
    assert np.corrcoef(mean[:, 0], truth)[0, 1] > 0.98
    assert (deviation < 0.3).all()


@EACH
def test_warm_start_goes_on_from_the_last_fit(response):
    X, y, row_arguments = simulated(response)
    model = model_of(response, warm_start=True).fit(X, y, **row_arguments)
    bound, evaluations = model.lower_bound_, model.n_evaluations_
    model.fit(X, y, **row_arguments)
    assert model.n_evaluations_ < evaluations
    assert model.lower_bound_ >= bound - 1e-6


def test_warm_start_refuses_a_likelihood_with_other_parameters():
    X, y, _ = simulated(BY_NAME["poisson"])
    model = model_of(BY_NAME["poisson"], warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="warm_start=True needs the parameters of the likelihood"):
        model.set_params(likelihood="negative-binomial").fit(X, y)
    assert isinstance(model.likelihood_, Poisson)


@pytest.mark.parametrize(
    ("name", "y", "message"),
    [
        ("gamma", 2.5, "shape of the gamma .* upper limit: the targets look free of noise"),
        ("log-normal", 2.5, "deviation of the logarithms = .* lower limit: the targets look"),
        ("negative-binomial", 100.0, "upper limit: counts vary as those of a Poisson distribution"),
    ],
)
def test_a_parameter_at_its_limit_is_explained(name, y, message):
    # Weights above one would be taken for copies that hide the noise.
    n, weight = (30, 1000.0) if name == "negative-binomial" else (1000, 1.0)
    X = np.linspace(-1.0, 1.0, n)[:, None]
    with pytest.warns(UserWarning, match=message):
        model_of(BY_NAME[name]).fit(X, np.full(n, y), np.full(n, weight))


# With the rest of scikit-learn


def test_exposures_are_routed_through_a_pipeline_and_a_search():
    X, y, row_arguments = simulated(BY_NAME["negative-binomial"])
    with config_context(enable_metadata_routing=True):
        regressor = fixed_model(BY_NAME["poisson"]).set_fit_request(exposure=True)
        regressor.set_score_request(exposure=True).set_predict_request(exposure=True)
        pipeline = make_pipeline(StandardScaler(), regressor).fit(X, y, **row_arguments)
        alone = clone(regressor).fit(StandardScaler().fit_transform(X), y, **row_arguments)
        assert pipeline[-1].lower_bound_ == alone.lower_bound_
        doubled = pipeline.predict(X, exposure=2.0)
        assert_allclose(doubled, 2.0 * pipeline.predict(X), rtol=1e-12)
        key = "sparsegpgeneralizedregressor__likelihood"
        choices = {key: ["poisson", "negative-binomial"]}
        search = GridSearchCV(pipeline, choices, cv=3).fit(X, y, **row_arguments)
        assert (search.cv_results_["mean_test_score"] > 0.1).all()
        of_density = GridSearchCV(
            pipeline, choices, cv=3, scoring=LogDensity().set_score_request(exposure=True)
        ).fit(X, y, **row_arguments)
        assert of_density.best_params_[key] == "negative-binomial"


class LogDensity(type(make_scorer(mean_poisson_deviance))):
    """A scorer: the mean log predictive density."""

    def __init__(self):
        super().__init__(None, 1, {})

    def __call__(self, estimator, X, y, exposure=None):
        *before, last = [step for _, step in estimator.steps]
        for step in before:
            X = step.transform(X)
        return last.log_predictive_density(X, y, exposure=exposure).mean()


def test_a_score_without_the_exposures_of_the_fit_warns_and_predictions_do_not():
    X, y, row_arguments = simulated(BY_NAME["poisson"])
    model = fixed_model(BY_NAME["poisson"]).fit(X, y, **row_arguments)
    model.predict(X)
    model.score(X, y, **row_arguments)
    with pytest.warns(UserWarning, match=r"fitted with exposures.*set_score_request") as caught:
        model.score(X, y)
    assert len(caught) == 1
    model.fit(X, y).score(X, y)


def test_grid_search_by_a_deviance():
    X, y, _ = simulated(BY_NAME["poisson"])
    search = GridSearchCV(
        fixed_model(BY_NAME["poisson"]),
        {"n_inducing": [1, 10]},
        cv=3,
        scoring="neg_mean_poisson_deviance",
    ).fit(X, y)
    assert search.best_params_ == {"n_inducing": 10}


def test_a_monitor_scores_fits_with_exposures():
    """It gets no exposures, as scikit-learn's scorers refuse them unless they are routed."""
    callback = pytest.importorskip("sklearn.callback", reason="from scikit-learn 1.9 on")
    monitor = callback.ScoringMonitor(scoring="r2")
    X, y, row_arguments = simulated(BY_NAME["poisson"])
    model = fixed_model(BY_NAME["poisson"]).set_callbacks(monitor).fit(X, y, **row_arguments)
    [entry] = monitor.get_logs().data
    assert np.isfinite(entry["r2"])
    assert model.history_["lower_bound"][-1] == model.lower_bound_


def test_a_column_of_targets_is_taken_with_a_warning():
    X, y, _ = simulated(BY_NAME["gamma"])
    with pytest.warns(DataConversionWarning, match="column-vector"):
        model = fixed_model(BY_NAME["gamma"]).fit(X, y[:, None])
    assert model.lower_bound_ == fixed_model(BY_NAME["gamma"]).fit(X, y).lower_bound_


# What is refused


@pytest.mark.parametrize(
    ("model", "parameter"),
    [
        (SparseGPGeneralizedRegressor("poisson"), "likelihood='poisson'"),
        (SparseGPClassifier("softmax"), "likelihood='softmax'"),
        (SparseGPRegressor("student-t"), "noise='student-t'"),
        (StochasticSparseGPGeneralizedRegressor("gamma"), "likelihood='gamma'"),
    ],
)
def test_a_likelihood_in_the_place_of_the_kernel_is_sent_to_its_own(model, parameter):
    with pytest.raises(ValueError, match=f"^kernel must be .*: pass {parameter}$"):
        model.fit([[0.0], [1.0]], [1, 2])
    # Other strings are no value of another parameter.
    for other in ("auto", "poison"):
        with pytest.raises(ValueError, match=r"^The 'kernel' parameter of .* Got "):
            model.set_params(kernel=other).fit([[0.0], [1.0]], [1, 2])


Y = np.array([1.5, 2.0, 3.0])


@pytest.mark.parametrize(
    ("likelihood", "changes", "message"),
    [
        ("poisson", {"y": [1, -1, 2]}, r"whole numbers from 0.*Poisson\(\), got -1 in row 1: give"),
        ("poisson", {"y": Y}, r"counts: whole numbers from 0.*got 1\.5 in row 0.*'gamma'"),
        ("gamma", {"y": [1, 2, 0]}, r"positive numbers, for the likelihood Gamma\(\), got 0 in ro"),
        ("gamma", {"y": [1, 2, 0]}, r"leaving out rows of zero would bias.*a classifier"),
        ("gamma", {"y": [1, 2, 0]}, "below a limit of detection give this limit as y and event -1"),
        ("weibull", {"y": [1, 2, 0]}, r"would bias.*durations of zero the smallest unit that was"),
        ("auto", {"y": [0.5, -1, 2]}, r"y must hold positive numbers.*got -1 in row 1"),
        ("auto", {"y": [1, 0, 0.5], "exposure": 2.0}, r"exposure is for counts.*got 0\.5 in row 2"),
        ("auto", {"exposure": 2.0}, "totals of positive amounts.*several claims, set.*='gamma'"),
        ("auto", {"y": [0, 0.5, 2]}, "for rates give the counts as y, and the sizes.*as exposure"),
        ("gamma", {"y": [1, 2, 1e200]}, r"y must hold numbers from 1e-150 to 1e\+150, got 1e\+200"),
        ("gamma", {"y": [1, 2, np.nan]}, "y contains NaN"),
        ("gamma", {"y": [1, 2, np.inf]}, "y contains infinity"),
        ("gamma", {"y": ["1", "b", "c"]}, "y must hold numbers, got 'b' in row 1"),
        ("auto", {"event": ["yes", "no", "yes"]}, "event must hold numbers, got 'yes' in row 0"),
        ("gamma", {"y": np.arange(1, 4) * np.timedelta64(1, "h")}, r"y must .*, got timedelta64"),
        ("gamma", {"y": None}, "requires y"),
        ("gamma", {"y": np.ma.masked_equal([1, 2, 3], 2)}, "y must hold no masked values"),
        ("gamma", {"y": [[1, 2], [3, 4], [5, 6]]}, "y should be a 1d array"),
        ("gamma", {"y": [1, 2]}, "inconsistent numbers of samples"),
        ("log-normal", {"exposure": 2}, r"exposure is not an arg.*LogNormal\(\).* and 'gamma'$"),
        ("poisson", {"y": [1, 2, 3], "event": [1, 1, 1]}, "event is not an argument.*'weibull' an"),
        ("auto", {"event": [1, 1, 0], "exposure": 2.0}, r"exposure is not an arg.*Weibull\(\)"),
        (
            "poisson",
            {"y": [1, 2, 3], "exposure": [1, 0, 1]},
            "exposure must be from.*got 0 in row 1",
        ),
        ("poisson", {"y": [1, 2, 3], "exposure": [1, 1]}, "inconsistent numbers of samples"),
        ("poisson", {"y": [1, 2, 3], "exposure": [1, np.nan, 1]}, "exposure contains NaN"),
        ("poisson", {"y": [1, 2, 3], "exposure": [[1], [1], [1]]}, r"exposure must have the shape"),
        (
            "poisson",
            {"y": [1, 2, 3], "exposure": np.ma.masked_equal([1, 2, 3], 2)},
            "exposure must hold no masked values",
        ),
        (
            "weibull",
            {"event": [1, 0.5, 1]},
            r"event must be 1, 0 or -1.*got 0\.5 in row 1: give 1 if",
        ),
        ("weibull", {"event": [1, -1, 1]}, "event must be 1 or 0.*got -1 in row 1: set likelihood"),
        (
            "log-normal",
            {"event": [-1, 0, -1]},
            "event must be 1 in some.*got -1 or 0 in all of them",
        ),
        ("weibull", {"event": [0, 0, 0]}, "event must be 1 in some row.*got 0 in all of them"),
        (
            "weibull",
            {"event": [0, 0, 1], "sample_weight": [1, 1, 0]},
            "event must be 1 in some row of positive weight, got 0 in all of them",
        ),
        ("student", {}, "The 'likelihood' parameter of SparseGPGeneralizedRegressor"),
        (ResponseLikelihood, {}, "The 'likelihood' parameter of SparseGPGeneralizedRegressor"),
    ],
    ids=str,
)
def test_what_a_fit_refuses_leaves_the_estimator_as_it_was(likelihood, changes, message):
    data = {"X": [[0.0], [1.0], [2.0]], "y": Y, **changes}
    model = SparseGPGeneralizedRegressor(kernel=RBF(), optimizer=None, likelihood=likelihood)
    with pytest.raises(ValueError, match=message):
        model.fit(**data)
    assert vars(model).keys() == model.get_params(deep=False).keys()
    model.set_params(likelihood="gamma").fit([[0.0], [1.0]], [1.0, 2.0])
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=message):
        model.set_params(likelihood=likelihood).fit(**data)
    assert pickle.dumps(model.set_params(likelihood="gamma")) == before


def detection_limits(n=600, limit=1.2):
    """Return rows, log-normal amounts with a limit of detection, events, and the medians."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-3.0, 3.0, (n, 1))
    median = np.exp(np.sin(2.0 * X[:, 0]))
    y = median * np.exp(0.5 * rng.standard_normal(n))
    return X, np.maximum(y, limit), np.where(y < limit, -1, 1), median


@pytest.mark.parametrize("likelihood", ["log-normal", "auto"])
def test_amounts_below_a_limit_of_detection_are_known_to_be_smaller(likelihood):
    X, y, event, median = detection_limits()
    assert 0.45 < np.mean(event == -1) < 0.65
    model = SparseGPGeneralizedRegressor(likelihood=likelihood).fit(X, y, event=event)
    assert type(model.likelihood_) is LogNormal
    assert model.likelihood_.shape == pytest.approx(0.5, rel=0.1)
    halves = np.where(event < 0, 0.5 * y, y)
    biased = SparseGPGeneralizedRegressor(likelihood="log-normal").fit(X, halves)

    def error(fitted):
        return np.sqrt(np.mean(np.log(fitted.predict_quantiles(X, 0.5) / median) ** 2))

    assert error(model) < 0.18
    assert error(biased) > 1.25 * error(model)


@pytest.mark.filterwarnings("ignore:no target was observed below a lower limit")
def test_the_density_of_an_upper_limit_is_the_probability_of_less():
    X, y, event, _ = detection_limits(200)
    model = SparseGPGeneralizedRegressor(likelihood="log-normal", n_inducing=20)
    model.fit(X, y, event=event)
    below = model.log_predictive_density(X, y, event=-np.ones(200))
    exceedance = model.predict_exceedance(X, y[:, None])[:, 0]
    assert_allclose(np.exp(below), 1.0 - exceedance, atol=1e-10)
    # Both kinds of limits may occur, and copies of rows are merged only if they agree in them.
    mixed = np.where(X[:, 0] > 2.0, 0, event)
    assert np.isfinite(model.fit(np.r_[X, X], np.r_[y, y], event=np.r_[event, mixed]).lower_bound_)
    assert np.isfinite(model.score(X, y, event=mixed))
