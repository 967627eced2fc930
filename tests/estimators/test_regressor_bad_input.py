"""Bad and odd input of the regressor: what is refused and how it is said, and what has to work."""

import copy
import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, ConstantKernel, WhiteKernel

from sparsegpc import (
    GPNoise,
    HomoscedasticNoise,
    InducingPointSelector,
    PolynomialNoise,
    SparseGPRegressor,
)

N, ROW = 40, 3
KERNEL = ConstantKernel(2.0) * RBF(1.5)
FIXED = {"selector": "hgv", "kernel": KERNEL, "optimizer": None, "n_inducing": 10}


def data(n_outputs=None):
    rng = np.random.RandomState(0)
    X = rng.uniform(-3.0, 3.0, (N, 2))
    noise = rng.standard_normal(N if n_outputs is None else (N, n_outputs))
    y = (np.sin(X[:, 0]) + 0.2 * noise.T).T
    X.flags.writeable = y.flags.writeable = False
    return X, y


X, Y = data()
VARIANCE = np.linspace(0.05, 0.5, N)


def changed(array, value):
    """Return a copy with one entry of row `ROW` set."""
    array = np.array(array, dtype=np.float64)
    array[ROW if array.ndim == 1 else (ROW, 0)] = value
    return array


class Negative(RBF):
    """Negative definite."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return -super().__call__(X, Y)


class Case(NamedTuple):
    """Parameters and arguments of a fit, the exception, and texts that it must hold."""

    name: str
    error: type
    texts: tuple
    parameters: dict[str, Any] = {}
    X: Any = X
    y: Any = Y
    weight: Any = None
    variance: Any = None


def bad_noise(name, variance, *texts, y=Y):
    return Case(f"noise_variance {name}", ValueError, texts, y=y, variance=variance)


def bad_parameter(name, value, *rule):
    """Return the case of a parameter outside what is allowed, with scikit-learn's message."""
    start = f"The {name!r} parameter of SparseGPRegressor must be"
    return Case(f"{name}={value!r}", ValueError, (start, *rule), {name: value})


def bad_setting(noise, *texts):
    return Case(repr(noise), ValueError, texts, {"noise": noise})


BESIDE = ("WhiteKernel", "homoscedastic noise", "beside", "leave one of them out")
FIT_CASES = [
    # X and y
    Case("X NaN", ValueError, ("Input X contains NaN",), X=changed(X, np.nan)),
    Case("X inf", ValueError, ("Input X contains infinity",), X=changed(X, np.inf)),
    Case("X overflow", ValueError, ("X holds a value of 1e+300", "scale"), X=changed(X, 1e300)),
    Case("X sparse", TypeError, ("Sparse data was passed",), X=csr_array(X)),
    Case("X empty", ValueError, ("0 sample(s)",), X=X[:0], y=Y[:0]),
    Case("y NaN", ValueError, ("Input y contains NaN",), y=changed(Y, np.nan)),
    Case("y inf", ValueError, ("Input y contains infinity",), y=changed(Y, -np.inf)),
    Case("y overflow", ValueError, ("y holds a value of 1e+300", "targets"), y=changed(Y, 1e300)),
    Case("y negative", ValueError, ("y holds a value of 1e+200",), y=changed(Y, -1e200)),
    Case("y too close", ValueError, ("y", "underflow"), y=1e-200 * Y),
    Case("y strings", ValueError, ("could not convert string to float",), y=["a"] * N),
    Case("y complex", ValueError, ("Complex data not supported",), y=Y + 1j),
    Case("y missing", ValueError, ("requires y to be passed",), y=None),
    Case("y of another length", ValueError, (f"[{N}, 5]",), y=Y[:5]),
    Case("y of three dimensions", ValueError, ("dim 3",), y=np.ones((N, 1, 1))),
    Case("y without columns", ValueError, ("0 feature(s)",), y=np.ones((N, 0))),
    # Weights
    Case("weights negative", ValueError, ("sample_weight", "row 3"), weight=changed(Y * 0, -1.0)),
    Case("weights zero", ValueError, ("sample_weight is zero for every row",), weight=0.0 * Y),
    Case("weights short", ValueError, ("sample_weight", f"5 for {N}"), weight=np.ones(5)),
    Case("weights NaN", ValueError, ("sample_weight contains NaN",), weight=changed(Y * 0, np.nan)),
    # Known noise
    bad_noise("zero", 0.0, "noise_variance must be positive, got 0.0", "small compared"),
    bad_noise("zero in a row", changed(VARIANCE, 0.0), "must be positive, got 0.0 in row 3"),
    bad_noise("negative", changed(VARIANCE, -0.1), "must be positive, got -0.1 in row 3"),
    bad_noise("NaN", changed(VARIANCE, np.nan), "noise_variance contains NaN"),
    bad_noise("infinite", changed(VARIANCE, np.inf), "noise_variance contains infinity"),
    bad_noise("subnormal", 1e-310, "noise_variance", "1e-310"),
    bad_noise("short", VARIANCE[:5], "noise_variance must be a number", f"({N},)", "got (5,)"),
    bad_noise("wide", np.ones((N, 2)), "noise_variance", f"({N}, 1)", f"got ({N}, 2)"),
    bad_noise("one column of two", np.ones((N, 1)), f"({N}, 2)", f"got ({N}, 1)", y=data(2)[1]),
    bad_noise("of another orientation", np.ones((2, N)), "got (2, 40)", y=data(2)[1]),
    bad_noise("text", ["a"] * N, "could not convert string to float"),
    # Kernels that stand for noise
    Case(
        "white and known",
        ValueError,
        (*BESIDE, "noise_variance"),
        {"kernel": KERNEL + WhiteKernel()},
        variance=VARIANCE,
    ),
    *(
        Case(
            f"white and {noise!r}",
            ValueError,
            (*BESIDE, f"noise={noise!r}"),
            {"kernel": KERNEL + WhiteKernel(), "noise": noise},
        )
        for noise in ("polynomial", "gp", HomoscedasticNoise(), PolynomialNoise(0), GPNoise())
    ),
    *(
        Case(
            f"white in {kernel}",
            ValueError,
            ("WhiteKernel", "may only be a summand", "leave the WhiteKernel out"),
            {"kernel": kernel},
        )
        for kernel in (KERNEL * WhiteKernel(), KERNEL + RBF() * WhiteKernel(), WhiteKernel() ** 2)
    ),
    *(
        Case(
            f"only {kernel}", ValueError, ("is noise only", "add a covariance"), {"kernel": kernel}
        )
        for kernel in (WhiteKernel(), WhiteKernel() + WhiteKernel(2.0))
    ),
    Case(
        "two whites",
        ValueError,
        ("one WhiteKernel at most", "add them up"),
        {"kernel": KERNEL + WhiteKernel() + WhiteKernel(2.0)},
    ),
    Case("compound", ValueError, ("CompoundKernel",), {"kernel": CompoundKernel([RBF()])}),
    Case("negative kernel", np.linalg.LinAlgError, ("positive",), {"kernel": Negative()}),
    Case("length scales", ValueError, ("3 length scales", "2 columns"), {"kernel": RBF([1, 1, 1])}),
    # Settings of the noise
    bad_setting(HomoscedasticNoise(0.0), "'variance' parameter of HomoscedasticNoise", "Got 0.0"),
    bad_setting(HomoscedasticNoise(-1.0), "(0.0, inf)", "Got -1.0"),
    bad_setting(HomoscedasticNoise(np.inf), "Got inf"),
    bad_setting(HomoscedasticNoise(1.0, (2.0, 1.0)), "variance_bounds", "lower one first", "(2.0,"),
    bad_setting(HomoscedasticNoise(1.0, (0.0, 1.0)), "variance_bounds", "positive"),
    bad_setting(HomoscedasticNoise(1.0, (1.0, np.inf)), "variance_bounds", "got (1.0, inf)"),
    bad_setting(HomoscedasticNoise(1.0, (np.nan, 1.0)), "variance_bounds", "nan"),
    bad_setting(HomoscedasticNoise(1.0, (1.0, 2.0, 3.0)), "variance_bounds", "pair"),
    bad_setting(
        HomoscedasticNoise(1.0, "free"), "'variance_bounds' parameter", "'fixed'", "'free'"
    ),
    bad_setting(PolynomialNoise(-1), "'degree' parameter of PolynomialNoise", "Got -1"),
    bad_setting(PolynomialNoise(1.5), "an int", "Got 1.5"),
    bad_setting(PolynomialNoise(interactions="all"), "'interactions'", "Got 'all'"),
    bad_setting(GPNoise("rbf"), "'kernel' parameter of GPNoise", "Got 'rbf'"),
    bad_setting(GPNoise(n_inducing=0), "'n_inducing' parameter of GPNoise", "Got 0"),
    bad_setting(GPNoise(selection_tol=-1.0), "'selection_tol'", "Got -1.0"),
    bad_setting(GPNoise(RBF([1.0, 1.0, 1.0])), "3 length scales", "2 columns"),
    bad_setting(GPNoise(RBF() + WhiteKernel()), "WhiteKernel", "no noise of its own"),
    # Parameters
    bad_parameter(
        "noise", "student", "'gp'", "'polynomial'", "HomoscedasticNoise", "Got 'student'"
    ),
    bad_parameter("noise", None, "Got None"),
    bad_parameter("noise", GPNoise, "an instance of"),
    bad_parameter("n_inducing", "all", "'auto'", "Got 'all'"),
    bad_parameter("n_inducing", 0, "[1, inf)", "Got 0"),
    bad_parameter("max_inducing", 0, "[1, inf)", "Got 0"),
    bad_parameter("certificate_tol", 0.0, "(0.0, inf)", "Got 0.0"),
    bad_parameter("selection_tol", -1e-3, "Got -0.001"),
    bad_parameter("normalize_y", "yes", "Got 'yes'"),
    bad_parameter("bound", "exact", "'tight'", "'spherical'", "'standard'", "Got 'exact'"),
    bad_parameter("selector", "hvg", "'hgv'", "Got 'hvg'"),
    bad_parameter("kernel", "rbf", "kernels.Kernel", "Got 'rbf'"),
    bad_parameter("optimizer", "adam", "'bfgs'", "Got 'adam'"),
    bad_parameter("optimize_inducing", 1, "Got 1"),
    bad_parameter("random_state", "a", "Got 'a'"),
    Case(
        "auto with an instance",
        ValueError,
        ("n_inducing='auto'", "selector by name", "InducingPointSelector"),
        {"n_inducing": "auto", "selector": InducingPointSelector()},
    ),
    Case(
        "auto with an array",
        ValueError,
        ("n_inducing='auto'", "selector by name", "array"),
        {"n_inducing": "auto", "selector": X[:3]},
    ),
    Case(
        "selector columns",
        ValueError,
        ("3 columns", "X has 2"),
        {"selector": np.ones((4, 3))},
    ),
    Case(
        "selector weighting",
        ValueError,
        ("selector.weighting must be None",),
        {"selector": InducingPointSelector(weighting="classification")},
    ),
]


def names(cases):
    return [case.name.replace(" ", "-") for case in cases]


def assert_refused(case, model):
    with pytest.raises(case.error) as caught:
        model.fit(case.X, case.y, case.weight, noise_variance=case.variance)
    for text in case.texts:
        assert text in str(caught.value)


def state_of(model):
    return {name: value for name, value in vars(model).items() if name not in model.get_params()}


@pytest.mark.parametrize("case", FIT_CASES, ids=names(FIT_CASES))
def test_fit_refuses(case):
    """The message names what is wrong, and nothing half-fitted is left behind."""
    model = SparseGPRegressor(**{**FIXED, **case.parameters})
    assert_refused(case, model)
    assert state_of(model) == {}


@pytest.fixture(scope="module")
def reference():
    """A fitted regressor that is not to be changed."""
    return SparseGPRegressor(**FIXED).fit(X, Y)


@pytest.fixture(scope="module")
def known():
    """A regressor fitted to known noise that is not to be changed."""
    return SparseGPRegressor(**FIXED).fit(X, Y, noise_variance=VARIANCE)


@pytest.fixture(scope="module")
def double():
    """A regressor of two outputs that is not to be changed."""
    return SparseGPRegressor(**FIXED).fit(*data(2))


@pytest.mark.parametrize("case", FIT_CASES, ids=names(FIT_CASES))
def test_a_refused_fit_leaves_the_last_one_as_it_was(case, reference):
    fitted = copy.deepcopy(reference)
    state, mean = state_of(fitted), fitted.predict(X)
    assert_refused(case, fitted.set_params(**case.parameters))
    after = state_of(fitted)
    assert after.keys() == state.keys()
    assert all(after[name] is state[name] for name in state)
    assert_array_equal(fitted.predict(X), mean)


@pytest.mark.parametrize("calls", [1, 20, 60])
def test_a_fit_that_is_interrupted_leaves_the_last_one_as_it_was(calls, reference):
    class Interrupted(RBF):
        """Is asked for values so many times only."""

        count = 0

        def __call__(self, X, Y=None, eval_gradient=False):
            Interrupted.count += 1
            if Interrupted.count > calls:
                raise KeyboardInterrupt
            return super().__call__(X, Y)

    fitted = copy.deepcopy(reference)
    state = state_of(fitted)
    with pytest.raises(KeyboardInterrupt):
        fitted.set_params(kernel=Interrupted(), optimizer="bfgs", noise="gp").fit(X, 2.0 * Y)
    after = state_of(fitted)
    assert after.keys() == state.keys()
    assert all(after[name] is state[name] for name in state)


# Calls of a fitted model


NEEDED = ("noise_variance is needed", "latent_mean_and_variance")
LATER = {
    # Known noise says nothing about other rows.
    "known: std": ("known", lambda m: m.predict(X, return_std=True), NEEDED),
    "known: covariance": ("known", lambda m: m.predict(X, return_cov=True), NEEDED),
    "known: density": ("known", lambda m: m.log_predictive_density(X, Y), NEEDED),
    "known: draws": ("known", lambda m: m.sample_y(X), NEEDED),
    "known: noise": ("known", lambda m: m.predict_noise_std(X), NEEDED),
    "known: certificate": ("known", lambda m: m.certificate(X, Y), ("noise_variance is needed",)),
    "known: bound": (
        "known",
        lambda m: m.lower_bound(None, X, Y),
        ("noise_variance is needed for these rows",),
    ),
    "known: noise without rows": (
        "known",
        lambda m: m.lower_bound(noise_variance=VARIANCE),
        ("lower_bound needs X and y",),
    ),
    "learned: certificate with noise": (
        "reference",
        lambda m: m.certificate(X, Y, noise_variance=1.0),
        ("noise_variance must be None", "learned"),
    ),
    "learned: bound with noise": (
        "reference",
        lambda m: m.lower_bound(None, X, Y, noise_variance=1.0),
        ("noise_variance must be None", "learned"),
    ),
    # predict
    "std and covariance": (
        "reference",
        lambda m: m.predict(X, return_std=True, return_cov=True),
        ("return_std and return_cov cannot both be True",),
    ),
    "other columns": ("reference", lambda m: m.predict(X[:, :1]), ("1 features", "expecting 2")),
    "NaN": ("reference", lambda m: m.predict(changed(X, np.nan)), ("Input X contains NaN",)),
    "no rows": ("reference", lambda m: m.predict(X[:0]), ("0 sample(s)",)),
    "negative noise": (
        "reference",
        lambda m: m.predict(X, return_std=True, noise_variance=-1.0),
        ("noise_variance must be positive", "-1.0"),
    ),
    "noise of another length": (
        "reference",
        lambda m: m.sample_y(X, noise_variance=[1.0, 2.0]),
        ("noise_variance must be a number", "got (2,)"),
    ),
    "noise of another number of outputs": (
        "double",
        lambda m: m.predict(X, return_cov=True, noise_variance=np.ones((N, 3))),
        (f"({N}, 2)", f"got ({N}, 3)"),
    ),
    # log_predictive_density
    "two columns for one": (
        "reference",
        lambda m: m.log_predictive_density(X, data(2)[1]),
        ("y must have one dimension", f"({N}, 2)"),
    ),
    "one column for two": (
        "double",
        lambda m: m.log_predictive_density(X, Y),
        ("y must have 2 columns", f"({N},)"),
    ),
    "short targets": ("reference", lambda m: m.log_predictive_density(X, Y[:3]), (f"[{N}, 3]",)),
    "targets NaN": (
        "reference",
        lambda m: m.log_predictive_density(X, changed(Y, np.nan)),
        ("Input y contains NaN",),
    ),
    # lower_bound
    "theta too short": (
        "reference",
        lambda m: m.lower_bound([1.0], X, Y),
        ("theta must have the shape (2,)", "got (1,)"),
    ),
    "theta of two dimensions": (
        "reference",
        lambda m: m.lower_bound([[1.0, 2.0]], X, Y),
        ("theta must have the shape (2,)", "got (1, 2)"),
    ),
    "theta NaN": ("reference", lambda m: m.lower_bound([1.0, np.nan], X, Y), ("theta", "finite")),
    "theta without rows": (
        "reference",
        lambda m: m.lower_bound([1.0, 2.0]),
        ("lower_bound needs X and y", "not kept"),
    ),
    "gradient without rows": (
        "reference",
        lambda m: m.lower_bound(eval_gradient=True),
        ("lower_bound needs X and y",),
    ),
    "weights without rows": (
        "reference",
        lambda m: m.lower_bound(sample_weight=np.ones(N)),
        ("lower_bound needs X and y",),
    ),
    "rows without targets": ("reference", lambda m: m.lower_bound(X=X), ("X and y together",)),
    "targets without rows": ("reference", lambda m: m.lower_bound(y=Y), ("X and y together",)),
    "bound of huge targets": (
        "reference",
        lambda m: m.lower_bound(None, X, changed(Y, 1e300)),
        ("y holds a value of 1e+300",),
    ),
    # certificate
    "unknown method": (
        "reference",
        lambda m: m.certificate(X, Y, method="exact"),
        ("method must be 'auto' or one of", "'conjugate-gradient'", "got 'exact'"),
    ),
    "methods in a list": (
        "reference",
        lambda m: m.certificate(X, Y, method=["trace"]),
        ("method must be 'auto' or one of", "got ['trace']"),
    ),
    "certificate of other outputs": (
        "double",
        lambda m: m.certificate(X, Y),
        ("y must have 2 columns",),
    ),
    # truncate
    **{
        f"truncate to {m!r}": (
            "reference",
            lambda model, m=m: model.truncate(m),
            ("n_inducing must be an integer between 1 and 10", f"got {m!r}"),
        )
        for m in (0, -1, 11, 2.5, 3.0, "3", None, True)
    },
}


@pytest.mark.parametrize("call", LATER)
def test_a_fitted_regressor_refuses(call, request):
    which, function, texts = LATER[call]
    with pytest.raises(ValueError) as caught:  # noqa: PT011, the texts follow
        function(request.getfixturevalue(which))
    for text in texts:
        assert text in str(caught.value)


def test_the_mean_of_a_model_of_known_noise_needs_no_noise(known):
    assert np.isfinite(known.predict(X)).all()
    assert np.isfinite(known.latent_mean_and_variance(X)).all()
    assert known.score(X, Y) > 0.5
    assert known.truncate(3).predict(X).shape == (N,)


def test_numpy_integers_truncate(reference):
    assert len(reference.truncate(np.int64(3)).inducing_points_) == 3


def test_absurd_hyperparameters_have_a_bound_of_minus_infinity(reference):
    for theta in ([800.0, 800.0], [80.0, -800.0], [-800.0, 800.0]):
        bound, gradient = reference.lower_bound(theta, X, Y, eval_gradient=True)
        assert bound == -np.inf or np.isfinite(bound)
        assert np.isfinite(gradient).all()
    assert reference.lower_bound([800.0, 800.0], X, Y) == -np.inf


def test_targets_beyond_all_bounds_have_a_log_density_of_minus_infinity(reference):
    density = reference.log_predictive_density(X[:2], [1e300, 0.0])
    assert density[0] == -np.inf
    assert np.isfinite(density[1])


def test_rows_far_away_are_predicted_as_the_prior(reference):
    far = np.full((1, 2), 1e200)
    mean, std = reference.predict(far, return_std=True)
    assert_allclose(mean, reference.prior_mean_)
    assert_allclose(std**2, 2.0 + reference.noise_variance_)


# What must work


RNG = np.random.RandomState(1)
LEGAL = {
    "constant targets": (X, np.full(N, 3.0)),
    "zero targets": (X, np.zeros(N)),
    "constant targets of many digits": (X, np.full(N, 0.1) * 3),
    "offset and tiny variance": (X, 1e6 + 1e-3 * Y),
    "tiny targets": (X, 1e-8 * Y),
    "huge targets": (X, 1e8 * Y),
    "targets near the limit": (X, 1e145 * Y),
    "small integers": (X, np.round(Y)),
    "binary targets": (X, (Y > 0).astype(float)),
    "one row": (X[:1], Y[:1]),
    "two rows": (X[:2], Y[:2]),
    "two equal rows": (X[[0, 0]], Y[:2]),
    "equal rows": (np.repeat(X[:1], N, axis=0), Y),
    "repeated rows with other targets": (np.repeat(X[:8], 5, axis=0), Y),
    "repeated rows": (np.tile(X, (2, 1)), np.tile(Y, 2)),
    "one constant column": (np.column_stack([X, np.full(N, 7.3)]), Y),
    "all columns constant": (np.zeros((N, 2)), Y),
    "unscaled columns": (X * [1e-6, 1e6], Y),
    "offset of the columns": (X + 1e9, Y),
    "one far row": (np.concatenate([X, [[1e9, -1e9]]]), np.append(Y, 1.0)),
    "one extreme target": (X, changed(Y, 1e6)),
    "more columns than rows": (RNG.standard_normal((15, 60)), Y[:15]),
    "duplicated columns": (np.tile(X, (1, 3)), Y),
    "noise only": (X, RNG.standard_normal(N)),
    "no noise": (X, np.sin(X[:, 0])),
    "linear": (X, X @ [2.0, -1.0]),
    "two outputs, one constant": (X, np.column_stack([Y, np.full(N, 2.0)])),
    "two outputs of different scales": (X, np.column_stack([1e-4 * Y, 1e4 * Y])),
}
CAUSES = (
    "stopped before its bound converged",
    "the learned function is constant",
    "the learned model is poor",
    "the bound still rises where hyperparameters meet their limits",
    "has standard deviation",
)


@pytest.mark.parametrize("noise", ["homoscedastic", "polynomial", "gp", "known"])
@pytest.mark.parametrize("name", LEGAL)
def test_odd_data_are_fitted_with_finite_results(name, noise, capfd):
    rows, targets = LEGAL[name]
    variance = None
    if noise == "known":
        noise, variance = "homoscedastic", 0.1 * max(targets.var(), 1e-6)
    model = SparseGPRegressor(
        noise=noise, selector="hgv", n_inducing=10, max_iter=10, max_reselections=1, tol=1e-3
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(rows, targets, noise_variance=variance)
        mean, std = model.predict(rows, return_std=True, noise_variance=variance)
        density = model.log_predictive_density(rows, targets, noise_variance=variance)
        draws = model.sample_y(rows, noise_variance=variance)
        certificate = model.certificate(rows, targets, noise_variance=variance)
        short = model.truncate(1)
    texts = [str(item.message) for item in caught]
    counts = [sum(cause in text for text in texts) for cause in CAUSES]
    assert sum(counts) == len(texts), texts
    assert max(counts) <= 1, texts
    assert {item.category for item in caught} <= {ConvergenceWarning, UserWarning}
    for values in (mean, std, density, draws, model.lower_bounds_, short.predict(rows)):
        assert np.isfinite(values).all()
    assert (std > 0.0).all()
    assert np.abs(mean).max() <= 10.0 * np.abs(targets).max() + 1e-300
    bounds = [certificate.lower_bound, certificate.upper_bound]
    assert np.isfinite(bounds).all()
    assert bounds[1] >= bounds[0] - 1e-6 * max(1.0, abs(bounds[0]))
    assert short.lower_bound_ <= certificate.upper_bound + 1e-6 * max(1.0, abs(bounds[1]))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("noise", ["homoscedastic", "gp"])
@pytest.mark.parametrize("name", ["constant targets", "one row", "equal rows", "no noise"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_odd_data_with_growth_and_normalised_targets(name, noise):
    rows, targets = LEGAL[name]
    model = SparseGPRegressor(
        noise=noise, n_inducing="auto", normalize_y=True, max_iter=10, max_reselections=1, tol=1e-3
    ).fit(rows, targets)
    assert np.isfinite(model.predict(rows, return_std=True)).all()
    assert model.growth_end_ in ("certified", "flat", "cap", "spanned")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("normalize_y", [False, True])
def test_constant_targets_are_predicted_exactly(normalize_y):
    model = SparseGPRegressor(n_inducing=10, normalize_y=normalize_y).fit(X, np.full(N, 3.0))
    mean, std = model.predict(10.0 * X, return_std=True)
    assert_allclose(mean, 3.0, rtol=1e-10)
    assert (std < 1e-2).all()


def test_a_large_offset_of_the_targets_costs_no_digits():
    """Known noise, so that both models have the same hyperparameters."""
    plain = SparseGPRegressor(**FIXED).fit(X, Y, noise_variance=0.04)
    moved = SparseGPRegressor(**FIXED).fit(X, Y + 1e6, noise_variance=0.04)
    assert_allclose(moved.predict(X) - 1e6, plain.predict(X), atol=1e-8)
    assert_allclose(moved.lower_bound_, plain.lower_bound_, atol=1e-5)


@pytest.mark.parametrize("variance", [1e-12, 1e12])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_extreme_known_noise(variance):
    model = SparseGPRegressor(n_inducing=N, selection_tol=0.0, max_iter=10)
    mean, variance_of_f = model.fit(X, Y, noise_variance=variance).latent_mean_and_variance(X)
    assert np.isfinite(mean).all()
    assert (variance_of_f >= 0.0).all()
    assert np.abs(mean - (Y if variance < 1.0 else Y.mean())).max() < 1e-3


def test_known_noise_over_many_orders_of_magnitude(rng):
    variance = rng.permutation(np.logspace(-8, 8, N))
    model = SparseGPRegressor(
        KERNEL, optimizer=None, n_inducing=N, selection_tol=0.0, fit_prior_mean=False
    ).fit(X, Y, noise_variance=variance)
    full = GaussianProcessRegressor(KERNEL, alpha=variance, optimizer=None).fit(X, Y)
    mean, std = full.predict(X, return_std=True)
    assert_allclose(model.predict(X), mean, atol=1e-4)
    assert_allclose(model.latent_mean_and_variance(X)[1], std**2, atol=1e-4)
    assert_allclose(model.lower_bound_, full.log_marginal_likelihood_value_, rtol=1e-4)
