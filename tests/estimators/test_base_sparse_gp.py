"""The base of estimators under any likelihood, as users subclass it: regressors of counts.

Two likelihoods of counts are written as users would write them: one without parameters of its own,
and one with a parameter that is learned, of which expectations are plain sums over nodes.
"""

import pickle
from typing import NamedTuple

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, gammaln
from scipy.stats import nbinom, poisson
from sklearn.base import RegressorMixin, clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.metrics import mean_poisson_deviance
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import BaseSparseGP, InducingPointSelector, SparseGPRegressor
from sparsegpc._core.selection.selectors import InducingPoints
from sparsegpc.likelihoods import Expectation, Likelihood
from tests.core.likelihoods.own_counts import OwnPoisson
from tests.estimators.simple_kernel import simple_kernel

# Two estimators of users


# Of a standard Gaussian.
NODES = np.arange(-8.0, 8.01, 0.125)[:, None]
NODE_WEIGHTS = np.exp(-0.5 * NODES[:, 0] ** 2) / np.exp(-0.5 * NODES**2).sum()


class NegativeBinomial(Likelihood):
    """Counts of mean exp(f) and variance exp(f) + exp(2 f) / k, where log k is learned.

    With g = f - log k their log probability is lgamma(y + k) - lgamma(k) - lgamma(y + 1) + y g
    - (y + k) log(1 + exp(g)). The first two terms are the sum of log(k + j) over j < y: of the
    copies of a row it is enough to know which share of them exceeds each j.
    """

    n_params = 1
    merges_unequal_targets = True

    def __init__(self, log_size=0.0):
        self.log_size = log_size

    def at(self, params):
        return NegativeBinomial(params[0])

    def targets(self, y, weight, rows):
        steps = np.arange(int(y.max()))
        fields = [("count", float), ("constant", float), ("exceeding", float, len(steps))]
        target = np.empty(len(rows.weight), dtype=fields)
        target["count"] = rows.mean(y, weight)
        target["constant"] = rows.mean(gammaln(y + 1.0), weight)
        for j in steps:
            target["exceeding"][:, j] = rows.mean((y > j).astype(float), weight)
        return [target]

    def _averages(self, mean, variance):
        """Return expectations of log(1 + exp(g)), of its derivative, and of its second one."""
        g = mean - self.log_size + np.sqrt(variance) * NODES
        odds = expit(g)
        return (NODE_WEIGHTS @ part for part in (np.logaddexp(0.0, g), odds, odds * expit(-g)))

    def expect(self, y, weight, mean, inducing_variance, residual, v):
        size = np.exp(self.log_size)
        soft, odds, curvature = self._averages(mean[0], inducing_variance[0] + v[0] * residual)
        steps, total = size + np.arange(y["exceeding"].shape[1]), y["count"] + size
        value = y["exceeding"] @ np.log(steps) - y["constant"] - total * soft
        value += y["count"] * (mean[0] - self.log_size)
        slope, precision = weight * (y["count"] - total * odds), weight * total * curvature
        return Expectation(weight * value, slope[None], precision[None], v * precision)

    def params_gradient(self, y, weight, mean, variance):
        size = np.exp(self.log_size)
        soft, odds, _ = self._averages(mean[0], variance[0])
        steps, total = size + np.arange(y["exceeding"].shape[1]), y["count"] + size
        by_size = y["exceeding"] @ (1.0 / steps) - soft
        return np.array([weight @ (size * by_size - y["count"] + total * odds)])

    def params_bounds(self, y, weight):
        return np.log([[1e-2, 1e3]])

    def params_names(self):
        return ["size"]


class PoissonRegressor(RegressorMixin, BaseSparseGP):
    """Counts with a rate that depends on the row."""

    def fit(self, X, y, sample_weight=None):
        return self._fit_likelihood(OwnPoisson(), X, y, sample_weight)

    def predict(self, X):
        mean, variance = self.latent_mean_and_variance(X)
        return np.exp(mean + 0.5 * variance)


class NegativeBinomialRegressor(PoissonRegressor):
    """Counts that vary more than their rate says."""

    def fit(self, X, y, sample_weight=None):
        self._fit_likelihood(NegativeBinomial(), X, y, sample_weight)
        self.size_ = float(np.exp(self._likelihood.log_size))
        return self


class Case(NamedTuple):
    """An estimator, and the logarithm of the probability that it gives counts y at f."""

    estimator: type
    log_probability: object


def log_negative_binomial(y, f, size=1.0):
    return nbinom.logpmf(y, size, size / (size + np.exp(f)))


CASES = {
    "poisson": Case(PoissonRegressor, lambda y, f: poisson.logpmf(y, np.exp(f))),
    "negative binomial": Case(NegativeBinomialRegressor, log_negative_binomial),
}
EVERY_CASE = pytest.mark.parametrize("name", CASES)
EVERY_BOUND = pytest.mark.parametrize("bound", ["tight", "spherical", "standard"])
KERNEL = ConstantKernel(1.5) * RBF(1.0)
SIZE = 3.0


def log_rate(X):
    return 1.0 + np.sin(2.0 * X[:, 0])


def counts(n=120, seed=0, size=None):
    """Return read-only rows, and counts: of Poisson, or with a size of negative binomial."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3.0, 3.0, (n, 1))
    rate = np.exp(log_rate(X))
    y = rng.poisson(rate if size is None else rate * rng.gamma(size, 1.0 / size, n))
    X.flags.writeable = y.flags.writeable = False
    return X, y


def grid(n=15):
    return np.linspace(-4.0, 4.0, n)[:, None]


def model_of(name, **parameters):
    return CASES[name].estimator(**{"n_inducing": 12, **simple_kernel(parameters)})


def fixed_model(name, **parameters):
    """One that learns nothing, in milliseconds."""
    return model_of(name, **{"kernel": KERNEL, "optimizer": None, **parameters})


@pytest.fixture(scope="module", params=CASES)
def learned(request):
    """An estimator of each kind that has learned from overdispersed counts; not to be changed."""
    return model_of(request.param).fit(*counts(size=SIZE))


# What is learned


@EVERY_CASE
def test_rates_are_recovered(name):
    # Counts of Poisson would drive the size to its limit.
    X, y = counts(400, size=20.0)
    model = model_of(name).fit(X, y)
    inside = np.linspace(-2.8, 2.8, 50)[:, None]
    truth = np.exp(log_rate(inside))
    assert np.abs(np.log(model.predict(inside) / truth)).mean() < 0.1
    mean, variance = model.latent_mean_and_variance(inside)
    assert (np.abs(mean - log_rate(inside)) < 4.0 * np.sqrt(variance)).all()
    assert mean_poisson_deviance(y, model.predict(X)) < 1.3
    assert model.score(X, y) > 0.5
    assert model.converged_


def test_the_parameter_of_a_likelihood_is_learned():
    X, y = counts(300, size=SIZE)
    model = model_of("negative binomial").fit(X, y)
    assert 0.6 * SIZE < model.size_ < 1.7 * SIZE
    assert model._theta[-1] == model._likelihood.log_size
    # Counts vary more than a rate says, and only one of the two knows that they may.
    poisson_model = model_of("poisson").fit(X, y)
    assert model.lower_bound_ > poisson_model.lower_bound_ + 20.0
    kept = fixed_model("negative binomial").fit(X, y)
    assert kept.size_ == 1.0
    assert kept.lower_bound_ < model.lower_bound_


@pytest.mark.filterwarnings("ignore:the bound still rises:sklearn.exceptions.ConvergenceWarning")
def test_a_parameter_that_is_not_needed_goes_to_where_it_makes_no_difference():
    X, y = counts(400)
    model, plain = (model_of(name).fit(X, y) for name in ("negative binomial", "poisson"))
    assert model.size_ > 20.0
    assert_allclose(model.lower_bound_, plain.lower_bound_, atol=2.0)
    assert_allclose(model.predict(grid()), plain.predict(grid()), rtol=0.2)


def test_a_parameter_at_its_limit_is_named():
    class Limited(NegativeBinomial):
        def at(self, params):
            return Limited(params[0])

        def params_bounds(self, y, weight):
            return np.log([[0.1, 1.5]])

    X, y = counts(size=SIZE)
    model = model_of("negative binomial")
    with pytest.warns(UserWarning, match=r"size = 1\.5 at its upper limit"):
        model._fit_likelihood(Limited(), X, y)
    assert_allclose(np.exp(model._theta[-1]), 1.5)


@pytest.mark.parametrize(
    ("start", "bounds", "message"),
    [
        ([2.0], [[0.1, 1.5]], r"got \[2.0\] for the bounds \[\[0.1, 1.5\]\]"),
        ([np.nan], [[0.1, 1.5]], "must be finite and within"),
        ([1.0], [0.1, 1.5], r"params_bounds must return an array of shape \(1, 2\)"),
        (1.0, [[0.1, 1.5]], r"initial_params must return an array of shape \(1,\).*got shape \(\)"),
    ],
)
def test_invalid_initial_parameters_are_refused(start, bounds, message):
    class Wrong(NegativeBinomial):
        def initial_params(self, y, weight):
            return np.array(start)

        def params_bounds(self, y, weight):
            return np.array(bounds)

    X, y = counts(30)
    with pytest.raises(ValueError, match=message):
        model_of("negative binomial")._fit_likelihood(Wrong(), X, y)


def test_the_fitted_object(learned):
    X, _ = counts(size=SIZE)
    n_points = len(learned.inducing_points_)
    assert learned.inducing_points_.shape == (n_points, 1)
    rows = learned.inducing_indices_
    assert rows is None or (X[rows] == learned.inducing_points_).all()
    assert isinstance(learned.prior_mean_, float)
    assert isinstance(learned.lower_bound_, float)
    assert learned.n_site_iterations_ >= learned.n_evaluations_ > learned.n_iter_ >= 1
    assert learned.feature_relevance_.shape == (1,)
    mean, variance = learned.latent_mean_and_variance(grid())
    assert mean.shape == variance.shape == learned.predict(grid()).shape == (15,)
    far, spread = learned.latent_mean_and_variance([[1e6]])
    assert_allclose(far, learned.prior_mean_)
    (q,) = learned._posterior.functions
    assert_allclose(spread, learned.kernel_.k1.constant_value + q.mean_variance)
    public = {name for name in vars(learned) if name.endswith("_") and not name.startswith("_")}
    section = BaseSparseGP.__doc__.split("Attributes\n")[1].split("See Also")[0]
    documented = {line.split(" : ")[0].strip() for line in section.splitlines() if " : " in line}
    assert public - {"size_"} == documented - {"feature_names_in_"}


class Product(Likelihood):
    """Counts with the rate exp(f + g)."""

    n_functions = 2
    merges_unequal_targets = True

    def targets(self, y, weight, rows):
        return [rows.mean(y, weight)]

    def expect(self, y, weight, mean, inducing_variance, residual, v):
        variance = (inducing_variance + v * residual).sum(axis=0)
        rate = weight * np.exp(np.minimum(mean.sum(axis=0) + 0.5 * variance, 600.0))
        value, slope = weight * y * mean.sum(axis=0) - rate, weight * y - rate
        return Expectation(value, np.stack([slope] * 2), np.stack([rate] * 2), v * rate)


def test_a_likelihood_may_tie_several_functions_together():
    X, y = counts()
    model = fixed_model("poisson", fit_prior_mean=False)
    model._fit_likelihood(Product(), X, y)
    mean, variance = model.latent_mean_and_variance(grid())
    assert mean.shape == variance.shape == (15, 2)
    # Nothing tells one from the other.
    assert_allclose(mean[:, 0], mean[:, 1], atol=1e-5)
    draws = model.sample_f(grid(), n_samples=2000)
    assert draws.shape == (15, 2, 2000)
    assert_allclose(draws.mean(axis=2), mean, atol=0.1)
    assert_allclose(draws.var(axis=2), variance, rtol=0.15)
    assert_array_equal(model.prior_mean_, [0.0, 0.0])
    assert_allclose(model.lower_bound(X=X, y=y), model.lower_bound_, rtol=1e-9)
    assert_allclose(model.certificate(X, y).lower_bound, model.lower_bound_, rtol=1e-9)
    assert model.truncate(3, X, y).lower_bound_ < model.lower_bound_


# The bound, against sums over all values of f


def log_marginal(case, X, y, mean, weight=1.0, n_nodes=51):
    """Return the log marginal likelihood of a few rows, summed over a grid of whitened f."""
    nodes = np.linspace(-7.5, 7.5, n_nodes)
    z = np.stack(np.meshgrid(*[nodes] * len(y), indexing="ij")).reshape(len(y), -1)
    root = np.linalg.cholesky(KERNEL(X) + 1e-12 * np.eye(len(y)))
    f = mean + root @ z
    weight = np.broadcast_to(weight, len(y))
    log_joint = weight @ case.log_probability(np.asarray(y)[:, None], f)
    log_joint = log_joint - 0.5 * (z**2).sum(axis=0) - 0.5 * len(y) * np.log(2.0 * np.pi)
    step = nodes[1] - nodes[0]
    return float(np.logaddexp.reduce(log_joint) + len(y) * np.log(step))


@pytest.mark.filterwarnings("ignore:a weight counts copies")
@EVERY_CASE
@EVERY_BOUND
@pytest.mark.parametrize(
    ("fit_prior_mean", "weight"),
    [(False, 1.0), (True, np.array([0.5, 3.0, 1.0]))],
    ids=["plain", "weighted"],
)
def test_the_bound_is_below_the_log_marginal_likelihood(name, bound, fit_prior_mean, weight):
    X, y = np.array([[0.0], [0.7], [2.0]]), np.array([1, 4, 0])
    for n_inducing in (1, 2, 3):
        model = fixed_model(
            name,
            bound=bound,
            n_inducing=n_inducing,
            selection_tol=0.0,
            fit_prior_mean=fit_prior_mean,
            tol=1e-9,
        ).fit(X, y, np.broadcast_to(weight, 3))
        exact = log_marginal(CASES[name], X, y, model.prior_mean_, weight)
        assert model.lower_bound_ < exact
    # Of three points it is as tight as a Gaussian posterior may be.
    assert model.lower_bound_ > exact - 0.1
    assert (model.prior_mean_ == 0.0) == (not fit_prior_mean)


@EVERY_CASE
def test_moments_are_nearly_those_of_the_exact_posterior(name):
    X, y = np.array([[0.0], [0.7]]), np.array([1, 4])
    model = fixed_model(name, fit_prior_mean=False, tol=1e-9).fit(X, y)
    nodes = np.linspace(-7.5, 7.5, 301)
    z = np.stack(np.meshgrid(nodes, nodes, indexing="ij")).reshape(2, -1)
    f = np.linalg.cholesky(KERNEL(X)) @ z
    log_weight = CASES[name].log_probability(y[:, None], f).sum(axis=0) - 0.5 * (z**2).sum(axis=0)
    weight = np.exp(log_weight - np.logaddexp.reduce(log_weight))
    exact = f @ weight
    mean, variance = model.latent_mean_and_variance(X)
    assert_allclose(mean, exact, atol=0.05)
    assert_allclose(variance, (f - exact[:, None]) ** 2 @ weight, rtol=0.15)


@EVERY_CASE
def test_the_bounds_are_ordered_and_the_highest_is_the_default(name):
    auto, tight, spherical, standard = (
        fixed_model(name, bound=bound, n_inducing=4, selector="rpcholesky")
        .fit(*counts())
        .lower_bound_
        for bound in ("auto", "tight", "spherical", "standard")
    )
    assert auto == tight > spherical > standard


@EVERY_CASE
def test_a_bound_that_the_likelihood_does_not_admit_is_refused(name, monkeypatch):
    for kind in (OwnPoisson, NegativeBinomial):
        monkeypatch.setattr(kind, "slacks", ("spherical", "standard"))
    with pytest.raises(ValueError, match=r"bound='tight' is not available.*spherical.*standard"):
        fixed_model(name, bound="tight").fit(*counts(20))


# Gradients, against differences


@EVERY_CASE
@EVERY_BOUND
def test_the_gradient_of_the_lower_bound(name, bound, rng):
    X, y = counts(60, size=SIZE)
    weight = rng.uniform(0.5, 2.0, 60)
    kernel = ConstantKernel(1.0) * RBF(0.8) + ConstantKernel(0.3) * Matern(2.0, nu=1.5)
    model = fixed_model(name, kernel=kernel, bound=bound, n_inducing=6, tol=1e-9)
    model.fit(X, y, weight)
    theta = kernel.theta + rng.uniform(-0.3, 0.3, len(kernel.theta))

    def value(theta):
        return model.lower_bound(theta, X, y, weight)

    at_theta, gradient = model.lower_bound(theta, X, y, weight, eval_gradient=True)
    assert at_theta == value(theta)
    assert gradient.shape == theta.shape
    steps = 1e-4 * np.eye(len(theta))
    differences = [(value(theta + step) - value(theta - step)) / 2e-4 for step in steps]
    assert_allclose(gradient, differences, rtol=1e-4, atol=1e-4)
    assert np.abs(gradient).min() > 1e-3


@EVERY_BOUND
@pytest.mark.parametrize("fit_prior_mean", [True, False])
def test_the_gradient_of_the_objective_by_the_parameter_of_the_likelihood(
    bound, fit_prior_mean, rng
):
    X, y = counts(60, size=SIZE)
    weight = rng.uniform(0.5, 2.0, 60)
    estimator = fixed_model(
        "negative binomial", bound=bound, fit_prior_mean=fit_prior_mean, n_inducing=6, tol=1e-9
    ).fit(X, y, weight)
    (part,) = estimator._models_of_rows(X, y, weight)
    model, points = part.model, InducingPoints(estimator.inducing_points_)

    def evaluation(theta):
        return model.evaluate(theta, points, model.initial_state())

    for log_size in (-1.0, 0.5, 3.0):
        theta = np.append(KERNEL.theta + rng.uniform(-0.3, 0.3, 2), log_size)
        gradient = evaluation(theta).grad_theta
        steps = 1e-4 * np.eye(3)
        differences = [
            (evaluation(theta + step).objective - evaluation(theta - step).objective) / 2e-4
            for step in steps
        ]
        assert_allclose(gradient, differences, rtol=1e-4, atol=1e-4)
        assert abs(gradient[2]) > 1e-2


@EVERY_CASE
def test_the_bound_at_rows_that_are_given_again(name, rng):
    X, y = counts(size=SIZE)
    weight = rng.uniform(0.0, 2.0, len(y))
    model = model_of(name).fit(X, y, weight)
    assert model.lower_bound() == model.lower_bound_
    assert_allclose(
        model.lower_bound(X=X, y=y, sample_weight=weight), model.lower_bound_, rtol=1e-6
    )
    assert abs(model.lower_bound(X=X, y=y) - model.lower_bound_) > 1.0
    assert np.isfinite(model.lower_bound(X=X[:5], y=y[:5]))


# Certificates, fewer points, growth


@EVERY_CASE
def test_a_certificate_closes_with_the_number_of_points(name):
    X, y = counts(60)
    gaps = []
    for n_inducing in (3, 8, 60):
        model = fixed_model(name, n_inducing=n_inducing, selection_tol=0.0).fit(X, y)
        certificate = model.certificate(X, y)
        assert_allclose(certificate.lower_bound, model.lower_bound_, atol=1e-4)
        assert certificate.total_weight == 60
        assert certificate.standard_bound <= certificate.lower_bound + 1e-9
        assert certificate.improved_lower_bound >= certificate.lower_bound - 1e-9
        assert certificate.upper_bound >= certificate.lower_bound - 1e-9
        gaps.append(certificate.gap)
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[0] > 1.0
    assert gaps[2] < 1e-3


@EVERY_CASE
def test_a_certificate_holds_for_the_dense_process_with_the_same_sites(name):
    """What the likelihood loses to its sites is in both bounds: differences are compared."""
    X, y = counts(60)
    model = fixed_model(name, n_inducing=5, selection_tol=0.0, fit_prior_mean=False, tol=1e-9)
    certificate = model.fit(X, y).certificate(X, y)
    (part,) = model._models_of_rows(X, y, None)
    (solution,) = part.solved(part.theta, model._posterior).solutions
    p, b = solution.sites.precision, solution.sites.shift

    def log_integral(K):
        """Of the sites over a Gaussian process whose covariance at the rows is K."""
        B = np.eye(60) + np.sqrt(p)[:, None] * K * np.sqrt(p)
        return 0.5 * b @ np.linalg.solve(np.eye(60) + K * p, K @ b) - 0.5 * np.linalg.slogdet(B)[1]

    rows, points = part.model.X, model.inducing_points_
    K = KERNEL(rows)
    low_rank = KERNEL(rows, points) @ np.linalg.solve(KERNEL(points), KERNEL(points, rows))
    lower = log_integral(low_rank) - 0.5 * p @ (K - low_rank).diagonal()
    dense = log_integral(K)
    assert certificate.upper_bound - certificate.standard_bound >= dense - lower > 0.0
    assert certificate.improved_lower_bound - certificate.standard_bound <= dense - lower


@EVERY_CASE
@pytest.mark.parametrize("method", ["trace", "cauchy-schwarz", "one-pass", "two-moment"])
def test_each_upper_bound_by_name(name, method):
    X, y = counts()
    model = fixed_model(name, n_inducing=6).fit(X, y)
    by_name, best = model.certificate(X, y, method=method), model.certificate(X, y)
    assert set(by_name.upper_bounds) == {method}
    assert by_name.upper_bound >= best.upper_bound - 1e-9


@EVERY_CASE
def test_a_certificate_of_other_data_is_refused(name):
    X, y = counts()
    model = fixed_model(name).fit(X, y)
    for data in ((X[:-1], y[:-1]), (X, y + 1), (X, y, 1.5)):
        with pytest.raises(ValueError, match="certificate needs the data of fit"):
            model.certificate(*data)


@EVERY_BOUND
@pytest.mark.parametrize("fit_prior_mean", [True, False])
def test_a_truncated_model_is_the_one_fitted_to_its_points(bound, fit_prior_mean):
    X, y = counts()
    settings = {"bound": bound, "fit_prior_mean": fit_prior_mean, "tol": 1e-10}
    model = fixed_model("poisson", selection_tol=0.0, **settings).fit(X, y)
    before, mean = model.lower_bound_, model.predict(grid())
    for m in (1, 4, 11, 12):
        short = model.truncate(m, X, y)
        again = fixed_model("poisson", selector=model.inducing_points_[:m], **settings).fit(X, y)
        assert_allclose(short.lower_bound_, again.lower_bound_, rtol=1e-8)
        assert_allclose(short.prior_mean_, again.prior_mean_, atol=1e-5)
        assert_allclose(short.cost_per_row_, again.cost_per_row_, rtol=1e-4)
        ours, theirs = (one.latent_mean_and_variance(grid()) for one in (short, again))
        assert_allclose(ours, theirs, atol=1e-5)
        assert_array_equal(short.inducing_points_, model.inducing_points_[:m])
        assert_array_equal(short.inducing_indices_, model.inducing_indices_[:m])
        assert_allclose(short.lower_bound(X=X, y=y), short.lower_bound_, rtol=1e-9)
        assert_allclose(short.certificate(X, y).lower_bound, short.lower_bound_, rtol=1e-9)
    # The model itself stays as it was.
    assert model.lower_bound_ == before
    assert_array_equal(model.predict(grid()), mean)


def test_a_truncated_model_keeps_what_was_learned(learned):
    X, y = counts(size=SIZE)
    short = learned.truncate(4, X, y)
    assert type(short) is type(learned)
    assert short.kernel_ == learned.kernel_
    assert_array_equal(short._theta, learned._theta)
    assert getattr(short, "size_", None) == getattr(learned, "size_", None)
    assert len(short.inducing_points_) == 4
    assert short.lower_bound_ < learned.lower_bound_
    assert short.cost_per_row_ > learned.cost_per_row_
    assert_allclose(short.lower_bound(X=X, y=y), short.lower_bound_, rtol=1e-7)
    whole = learned.truncate(len(learned.inducing_points_), X, y)
    assert_allclose(whole.lower_bound_, learned.lower_bound_, rtol=1e-7)
    in_steps = learned.truncate(8, X, y).truncate(4, X, y)
    assert_allclose(in_steps.lower_bound_, short.lower_bound_, rtol=1e-7)
    assert_allclose(in_steps.predict(grid()), short.predict(grid()), rtol=1e-3)


@pytest.mark.parametrize("n_inducing", [0, 13, 2.0, "all"])
def test_sizes_that_a_model_has_not_are_refused(n_inducing):
    X, y = counts()
    model = fixed_model("poisson", selection_tol=0.0).fit(X, y)
    with pytest.raises((ValueError, TypeError), match="n_inducing"):
        model.truncate(n_inducing, X, y)


@EVERY_CASE
def test_points_grow_until_the_model_is_certified(name):
    X, y = counts(200)
    model = fixed_model(name, kernel=ConstantKernel(1.5) * RBF(0.2), n_inducing="auto")
    model.fit(X, y)
    assert model.growth_end_ == "certified"
    assert model.growth_[-1]["gap_per_row"] <= 1e-2
    assert len(model.inducing_points_) == model.growth_[-1]["n_inducing"]
    assert_allclose(model.growth_[-1]["lower_bound"], model.lower_bound_, rtol=1e-6)
    assert model.certificate(X, y).gap_per_row <= 1e-2 + 1e-6
    capped = clone(model).set_params(max_inducing=5, certificate_tol=1e-9).fit(X, y)
    assert capped.growth_end_ == "max_inducing"
    assert len(capped.inducing_points_) == 5


@EVERY_CASE
def test_points_grow_while_the_rest_is_learned(name):
    X, y = counts(size=SIZE)
    model = model_of(name, n_inducing="auto").fit(X, y)
    assert model.growth_end_ == "certified"
    fixed = model_of(name, n_inducing=60).fit(X, y)
    assert_allclose(model.lower_bound_, fixed.lower_bound_, atol=120 * 1e-2)


# Choice of points, restarts, warm start


@EVERY_CASE
@pytest.mark.parametrize("method", ["hgv", "rpcholesky", "greedy-variance", "kmeans", "uniform"])
def test_points_are_chosen_by_every_method(name, method):
    X, y = counts()
    by_name = fixed_model(name, selector=method, n_inducing=7, selection_tol=0.0).fit(X, y)
    selector = InducingPointSelector(method=method, n_components=7, tol=0.0, random_state=0)
    by_instance = fixed_model(name, selector=selector, n_inducing=1).fit(X, y)
    assert by_name.inducing_points_.shape == (7, 1)
    assert_array_equal(by_name.inducing_points_, by_instance.inducing_points_)


@EVERY_CASE
def test_points_that_are_given_may_move(name):
    X, y = counts()
    still = model_of(name, selector=X[:5]).fit(X, y)
    assert_array_equal(still.inducing_points_, X[:5])
    moved = model_of(name, selector=X[:5], optimize_inducing=True).fit(X, y)
    assert moved.lower_bound_ > still.lower_bound_ + 0.1
    assert not np.array_equal(moved.inducing_points_, X[:5])


@EVERY_CASE
def test_restarts_never_lower_the_bound(name):
    X, y = counts(size=SIZE)
    kernel = ConstantKernel(1.0, (1e-2, 1e2)) * RBF(1.0, (1e-1, 1e1))
    # A selector that draws would draw other points.
    settings = {"kernel": kernel, "selector": "hgv", "tol": 1e-3}
    plain = model_of(name, **settings).fit(X, y)
    more = model_of(name, n_restarts_optimizer=1, **settings).fit(X, y)
    assert more.lower_bound_ >= plain.lower_bound_ - 1e-9
    assert more.n_evaluations_ > plain.n_evaluations_


@EVERY_CASE
def test_warm_start_goes_on_from_the_last_fit(name):
    X, y = counts(size=SIZE)
    model = model_of(name, warm_start=True).fit(X, y)
    theta, bound, evaluations = model._theta, model.lower_bound_, model.n_evaluations_
    model.fit(X, y)
    assert model.n_evaluations_ < evaluations
    assert model.lower_bound_ >= bound - 1e-6
    kept = model.set_params(optimizer=None).fit(X, y)
    assert_allclose(kept._theta, theta, atol=0.05)
    assert_allclose(kept.lower_bound_, bound, atol=0.05)
    with pytest.raises(ValueError, match="needs the kernel structure of the last fit"):
        model.set_params(kernel=Matern()).fit(X, y)


def test_warm_start_refuses_a_likelihood_with_other_parameters():
    X, y = counts(size=SIZE)
    model = model_of("poisson", warm_start=True, max_iter=5).fit(X, y)
    before = model.predict(grid())
    with pytest.raises(ValueError, match=r"had 0 parameters beside.*has 1.*warm_start=False"):
        model._fit_likelihood(NegativeBinomial(), X, y)
    assert_array_equal(model.predict(grid()), before)
    assert model.certificate(X, y).gap >= -1e-9
    model.set_params(warm_start=False)._fit_likelihood(NegativeBinomial(), X, y)


# Rows and weights


@EVERY_CASE
@pytest.mark.filterwarnings("ignore:.* rows repeat others, targets included:UserWarning")
def test_weights_are_copies_whatever_the_order_of_rows(name, rng):
    X, y = counts(40, size=SIZE)
    weight = rng.randint(0, 4, 40)
    weighted = model_of(name, n_inducing=8, tol=1e-3).fit(X, y, weight)
    copies = rng.permutation(np.repeat(np.arange(40), weight))
    repeated = clone(weighted).fit(X[copies], y[copies])
    assert_allclose(repeated.lower_bound_, weighted.lower_bound_, rtol=1e-9)
    assert_allclose(repeated.predict(grid()), weighted.predict(grid()), rtol=1e-6)
    assert_array_equal(repeated.inducing_points_, weighted.inducing_points_)
    assert_allclose(repeated._theta, weighted._theta, atol=1e-6)
    ours = weighted.certificate(X, y, weight)
    assert_allclose(ours.upper_bound, repeated.certificate(X[copies], y[copies]).upper_bound)
    assert ours.total_weight == weight.sum()


@EVERY_CASE
def test_different_counts_of_one_row_are_all_seen(name):
    """By the bound too, which is below the exact one that counts them one by one."""
    X, y, weight = np.zeros((3, 1)), np.array([0, 2, 7]), np.array([1.0, 2.0, 1.0])
    model = fixed_model(name, fit_prior_mean=False, tol=1e-9).fit(X, y, weight)
    assert len(model.inducing_points_) == 1
    f = np.linspace(-12.0, 12.0, 4001)
    log_joint = weight @ CASES[name].log_probability(y[:, None], f)
    log_joint = log_joint - 0.5 * f**2 / 1.5 - 0.5 * np.log(2.0 * np.pi * 1.5)
    exact = np.logaddexp.reduce(log_joint) + np.log(f[1] - f[0])
    assert exact - 0.1 < model.lower_bound_ < exact


def test_rows_on_disk_give_the_model_of_the_array(tmp_path):
    X, y = counts(300)
    on_disk = np.memmap(tmp_path / "rows", dtype=float, mode="w+", shape=X.shape)
    on_disk[:] = X
    model = fixed_model("poisson", selector=X[:8]).fit(X, y)
    other = clone(model).fit(on_disk, y)
    assert_allclose(other.lower_bound_, model.lower_bound_, rtol=1e-9)
    assert_allclose(other.predict(on_disk), model.predict(X), rtol=1e-6)


# With the rest of scikit-learn


@pytest.mark.parametrize("library", ["pickle", "joblib"])
def test_a_saved_model_is_the_same(learned, library, tmp_path):
    X, y = counts(size=SIZE)
    if library == "pickle":
        copy = pickle.loads(pickle.dumps(learned))
    else:
        joblib.dump(learned, tmp_path / "model")
        copy = joblib.load(tmp_path / "model")
    assert type(copy) is type(learned)
    assert_array_equal(copy.predict(grid()), learned.predict(grid()))
    assert copy.lower_bound(X=X, y=y) == learned.lower_bound(X=X, y=y)
    assert str(copy.certificate(X, y)) == str(learned.certificate(X, y))
    assert copy.truncate(3, X, y).lower_bound_ == learned.truncate(3, X, y).lower_bound_
    assert len(pickle.dumps(copy)) < 20_000
    copy.set_params(warm_start=True).fit(X, y)
    assert copy.n_evaluations_ < learned.n_evaluations_


def test_a_clone_is_not_fitted(learned):
    copy = clone(learned)
    assert type(copy) is type(learned)
    assert copy.get_params() == learned.get_params()
    assert not [name for name in vars(copy) if name.endswith("_")]


@EVERY_CASE
def test_grid_search_over_the_number_of_points(name):
    X, y = counts()
    pipeline = make_pipeline(StandardScaler(), fixed_model(name))
    choices = {f"{pipeline.steps[1][0]}__n_inducing": [1, 4, 12]}
    search = GridSearchCV(pipeline, choices, cv=3, scoring="neg_mean_poisson_deviance").fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert scores[0] < scores[1]
    assert search.predict(X).shape == (120,)
    assert len(search.best_estimator_[-1].inducing_points_) <= 12


@EVERY_CASE
def test_what_is_printed_names_the_class_of_the_user(name, capsys):
    told = []
    model = fixed_model(name, verbose=1, callback=told.append).fit(*counts())
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(model.lower_bounds_)
    assert all(line.startswith(f"[{type(model).__name__}] choice ") for line in lines)
    assert [step.lower_bound for step in told] == model.history_["lower_bound"].tolist()


# What is refused


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_inducing": 0}, "The 'n_inducing' parameter of PoissonRegressor"),
        ({"bound": "loose"}, "The 'bound' parameter of PoissonRegressor"),
        ({"tol": -1.0}, "The 'tol' parameter of PoissonRegressor"),
        ({"kernel": RBF() + WhiteKernel()}, "likelihood already describes the noise"),
        ({"n_inducing": "auto", "selector": [[0.0]]}, "n_inducing='auto' needs a selector by name"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused_by_fit(parameters, message):
    model = model_of("poisson", **parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(*counts(20))
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[0.0], [np.nan]], [1, 2], "X contains NaN"),
        ([[0.0], [1.0]], [1, np.inf], "y contains infinity"),
        ([[0.0], [1.0]], [1], "inconsistent numbers of samples"),
        ([[0.0], [1.0]], None, "requires y"),
    ],
    ids=["nan", "infinity", "too few", "none"],
)
def test_bad_data_are_refused(X, y, message):
    with pytest.raises(ValueError, match=message):
        model_of("poisson").fit(X, y)


def test_a_likelihood_that_lacks_a_method_is_told_which():
    class WithoutTargets(Likelihood):
        pass

    class WithoutExpect(Likelihood):
        def targets(self, y, weight, rows):
            return [rows.mean(y, weight)]

    for likelihood, method in ((WithoutTargets(), "targets"), (WithoutExpect(), "expect")):
        model = fixed_model("poisson")
        with pytest.raises(NotImplementedError, match=f"must define the method {method}"):
            model._fit_likelihood(likelihood, *counts(20))


class Numbers(Likelihood):
    """Numbers with Gaussian noise of variance one; in place of their squares it sees their mean."""

    def targets(self, y, weight, rows):
        return [rows.mean(y, weight)]

    def expect(self, y, weight, mean, inducing_variance, residual, v):
        square = (y - mean[0]) ** 2 + inducing_variance[0] + v[0] * residual
        value = -0.5 * weight * (np.log(2.0 * np.pi) + square)
        return Expectation(value, (weight * (y - mean[0]))[None], weight[None], v * weight)


def test_a_likelihood_that_is_silent_about_merging_keeps_unequal_targets_apart(rng):
    X = np.repeat(np.arange(8.0), 5)[:, None]
    y = np.sin(X[:, 0]) + rng.normal(size=40)
    options = {"kernel": KERNEL, "optimizer": None, "selector": X[::5], "fit_prior_mean": False}
    own = BaseSparseGP(**options)._fit_likelihood(Numbers(), X, y)
    known = SparseGPRegressor(**options).fit(X, y, noise_variance=1.0)
    assert_allclose(own.lower_bound_, known.lower_bound_, rtol=1e-8)


class NegativeLater(Numbers):
    """Numbers whose precisions have the wrong sign unless f is constant, as at the start."""

    def expect(self, y, weight, mean, *others):
        found = super().expect(y, weight, mean, *others)
        sign = 1.0 if np.ptp(mean) < 1e-3 else -1.0
        return found._replace(precision=sign * found.precision)


def test_negative_precisions_are_refused_where_a_search_meets_them(rng):
    X = rng.uniform(-3.0, 3.0, size=(50, 1))
    model = BaseSparseGP(KERNEL, bound="standard", n_inducing=8)
    with pytest.raises(ValueError, match=r"likelihood NegativeLater\(\): a precision is -1"):
        model._fit_likelihood(NegativeLater(), X, 3.0 * np.sin(X[:, 0]))


class Cauchy(Likelihood):
    """Numbers with Cauchy noise, which is not log-concave."""

    slacks = ("spherical", "standard")

    def targets(self, y, weight, rows):
        return [y[rows.first]]

    def expect(self, y, weight, mean, inducing_variance, residual, v):
        error = y - mean[0] - np.sqrt(inducing_variance[0] + v[0] * residual) * NODES
        square = 1.0 + error**2
        parts = -np.log(np.pi * square), 2.0 * error / square, (2.0 - 2.0 * error**2) / square**2
        value, slope, precision = (weight * (NODE_WEIGHTS @ part) for part in parts)
        return Expectation(value, slope[None], precision[None], v * precision)


class ClippedCauchy(Cauchy):
    def expect(self, *inputs):
        found = super().expect(*inputs)
        precision = np.maximum(found.precision, 1e-6)
        return found._replace(precision=precision, residual_cost=inputs[-1] * precision)


def test_a_likelihood_that_is_not_log_concave_is_refused_unless_precisions_are_clipped():
    rng = np.random.RandomState(0)
    X = rng.uniform(-3.0, 3.0, size=(100, 1))
    f = 2.0 * np.sin(2.0 * X[:, 0])
    y = f + 0.3 * rng.standard_t(2, 100)
    model = PoissonRegressor(ConstantKernel() * RBF(), n_inducing=15)
    with pytest.raises(ValueError, match=r"likelihood Cauchy\(\): a precision is -.*log-concave"):
        model._fit_likelihood(Cauchy(), X, y)
    model._fit_likelihood(ClippedCauchy(), X, y)
    assert model.converged_
    assert np.abs(model.latent_mean_and_variance(X)[0] - f).mean() < 0.2


def test_an_error_leaves_the_last_fit_as_it_was():
    X, y = counts()
    model = fixed_model("poisson").fit(X, y)
    before = model.predict(grid())
    with pytest.raises(ValueError, match="X contains NaN"):
        model.fit(np.full((3, 1), np.nan), [1, 2, 3])
    with pytest.raises(NotImplementedError):
        model._fit_likelihood(Likelihood(), X, y)
    assert_array_equal(model.predict(grid()), before)
    assert_allclose(model.lower_bound(X=X, y=y), model.lower_bound_, rtol=1e-9)
