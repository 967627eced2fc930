"""Illegal input raises a ValueError or a TypeError and leaves the estimator as it was."""

import copy
from functools import cache

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    Exponentiation,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    Sum,
    WhiteKernel,
)

from sparsegpc import (
    Certificate,
    GPNoise,
    HomoscedasticNoise,
    InducingPointSelector,
    LocalCorrection,
    PolynomialNoise,
    SparseGPClassifier,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPGeneralizedRegressor,
    StochasticSparseGPRegressor,
    StudentTNoise,
    displays,
    distribute,
)
from sparsegpc.decomposition import BayesianGPLVM
from sparsegpc.kernels import Columns, MainEffects
from sparsegpc.likelihoods import ConditionalPolyaGamma, DirichletTargets, LabelLikelihood

N, ROW = 40, 3
X, Y = make_moons(N, noise=0.3, random_state=0)
T = np.sin(X[:, 0]) + 0.1 * np.random.RandomState(0).standard_normal(N)
T2, Y3 = np.stack([T, -T], axis=1), np.arange(N) % 3
ONES, VARIANCE = np.ones(N), np.linspace(0.05, 0.5, N)
COUNTS, DURATIONS = np.arange(N) % 4, np.exp(T)
for given in (X, Y, T, T2, Y3, ONES, VARIANCE, COUNTS, DURATIONS):
    given.flags.writeable = False
KERNEL = ConstantKernel(2.0) * RBF(1.0)
WHITE = KERNEL + WhiteKernel()


def changed(array, value, dtype=np.float64):
    """Return a copy with one entry of row `ROW` set."""
    array = np.array(array, dtype=dtype)
    array[ROW if array.ndim == 1 else (ROW, 0)] = value
    return array


# Estimators

FULL = {"kernel": KERNEL, "optimizer": None, "n_inducing": 8}
BATCHES = {"kernel": KERNEL, "learning_rate": 0.0, "n_inducing": 8}
UNFITTED = {
    "classifier": SparseGPClassifier(**FULL),
    "regressor": SparseGPRegressor(**FULL),
    "stochastic classifier": StochasticSparseGPClassifier(**BATCHES),
    "stochastic regressor": StochasticSparseGPRegressor(**BATCHES),
    "selector": InducingPointSelector(n_components=8),
    "one against the rest": SparseGPClassifier(likelihood="bernoulli-logit", **FULL),
    "several classes": SparseGPClassifier(**FULL),
    "several outputs": SparseGPRegressor(**FULL),
    "known noise": SparseGPRegressor(**FULL),
    "k-means": SparseGPClassifier(**{**FULL, "selector": "kmeans"}),
    "effects": SparseGPRegressor(**{**FULL, "kernel": MainEffects()}),
    "counts": SparseGPGeneralizedRegressor(likelihood="poisson", **FULL),
    "stochastic counts": StochasticSparseGPGeneralizedRegressor(likelihood="poisson", **BATCHES),
    "durations": SparseGPGeneralizedRegressor(likelihood="weibull", **FULL),
    "noise chosen by the bound": SparseGPRegressor(noise="auto", **FULL),
    "latent variables": BayesianGPLVM(n_inducing=4, tol=1e3),
    "neighbours": LocalCorrection(SparseGPRegressor(**FULL), mode="both"),
    "neighbours of labels": LocalCorrection(SparseGPClassifier(**FULL)),
}
OUTCOMES = {
    "regressor": T,
    "effects": T,
    "neighbours": T,
    "stochastic regressor": T,
    "counts": COUNTS,
    "stochastic counts": COUNTS,
    "durations": DURATIONS,
    "noise chosen by the bound": T,
    "latent variables": None,
    "known noise": T,
    "several outputs": T2,
    "one against the rest": Y3,
    "several classes": Y3,
    "selector": None,
}
LOCAL = ("neighbours", "neighbours of labels")
GENERALIZED = ("counts", "stochastic counts", "durations")
LARGE = ("classifier", "regressor")
LABELLING = ("classifier", "stochastic classifier")
REGRESSING = ("regressor", "stochastic regressor")
STREAMING = ("stochastic classifier", "stochastic regressor")
LEARNING = (*LABELLING, *REGRESSING)
EVERY = (*LEARNING, "selector")


def outcome(who):
    return OUTCOMES.get(who, Y)


@cache
def fitted(who):
    """Return a fitted estimator that is not to be changed."""
    arguments = {"noise_variance": VARIANCE} if who == "known noise" else {}
    return clone(UNFITTED[who]).fit(X, outcome(who), **arguments)


def assert_refused(call, model):
    """Call, and check the type of the error, and that all attributes stay the same objects."""
    before = dict(vars(model))
    with pytest.raises((ValueError, TypeError, NotImplementedError)) as caught:
        call(model)
    assert not isinstance(caught.value, NotFittedError)
    assert str(caught.value)
    after = vars(model)
    assert after.keys() == before.keys()
    assert all(after[name] is before[name] for name in before)


# What `fit` refuses: name, estimators, parameters to set, and arguments other than legal ones.

FITS = []


def bad_fits(values, who, argument=None, parameter=None, **others):
    """Add a case for each of the `values` (by name) of an argument of fit or of a parameter."""
    for name, value in values.items():
        for one in who:
            parameters = {parameter: value} if parameter else {}
            arguments = {argument: value} if argument else {}
            label = f"{one}: {argument or parameter} {name}"
            FITS.append(pytest.param(one, {**others, **parameters}, arguments, id=label))


ROWS = {
    "None": None,
    "a number": 3.0,
    "1-D": X[:, 0],
    "3-D": X[..., None],
    "no rows": X[:0],
    "no columns": X[:, :0],
    "NaN": changed(X, np.nan),
    "None within": changed(X, None, object),
    "infinity": changed(X, -np.inf),
    "text within": changed(X, "bad", object),
    "ragged": [[1.0, 2.0], [3.0]] * 20,
    "dictionary": {"a": 1},
    "complex": X + 1j,
    "sparse": csr_array(X),
    "masked": np.ma.array(X, mask=X > 0.5),
    "too large to square": changed(X, 1e200),
}
bad_fits(ROWS, (*EVERY, *LOCAL, *GENERALIZED, "noise chosen by the bound"), "X")
# NaN is a missing value.
WITHOUT_NAN = {name: rows for name, rows in ROWS.items() if name not in ("NaN", "None within")}
bad_fits({**WITHOUT_NAN, "a column without values": [[np.nan, 0.0]] * N}, ["latent variables"], "X")
bad_fits({"too small to square": 1e-200 * X}, EVERY, "X")
LABELS = {
    "None": None,
    "one class": np.ones(N, dtype=int),
    "continuous": T,
    "NaN": changed(Y, np.nan),
    "None within": np.array([1, None] * 20),
    "None among strings": ["a", None] * 20,
    "strings and numbers": np.array(["a", 1] * 20, dtype=object),
    "masked": np.ma.array(Y, mask=Y > 0),
    "two columns": T2 > 0.0,
    "of other rows": Y[:5],
    "complex": Y + 1j,
}
bad_fits(LABELS, [*LABELLING, "neighbours of labels"], "y")
bad_fits(LABELS, ["selector"], "y", weighting="classification")
TARGETS = {
    "None": None,
    "NaN": changed(T, np.nan),
    "infinity": changed(T, np.inf),
    "None within": np.array([1.0, None] * 20),
    "too large to square": changed(T, 1e200),
    "too small to square": 1e-200 * T,
    "strings": ["a"] * N,
    "complex": T + 1j,
    "masked": np.ma.array(T, mask=T > 0),
    "sparse": csr_array(T[:, None]),
    "of other rows": T[:5],
    "a number": 3.0,
    "3-D": np.ones((N, 1, 1)),
    "no columns": np.ones((N, 0)),
}
bad_fits(TARGETS, [*REGRESSING, *GENERALIZED, "neighbours", "noise chosen by the bound"], "y")
NO_RESPONSES = {"negative": changed(COUNTS, -1), "of two outputs": T2**2}
bad_fits(NO_RESPONSES, GENERALIZED, "y")
bad_fits({"no count": changed(COUNTS, 0.5)}, ["counts", "stochastic counts"], "y")
bad_fits({"zero": changed(DURATIONS, 0.0)}, ["durations"], "y")
bad_fits({"of two outputs": T2}, ["stochastic regressor"], "y")
NUMBERS = {
    "text": ["a"] * N,
    "NaN": changed(ONES, np.nan),
    "infinity": changed(ONES, np.inf),
    "complex": ONES + 1j,
    "masked": np.ma.array(ONES, mask=Y > 0),
    "negative": changed(ONES, -1.0),
    "short": ONES[:5],
    "tiny": 1e-200 * ONES,
}
WEIGHTS = {**NUMBERS, "zero": 0.0 * ONES, "huge": 1e300 * ONES, "2-D": np.ones((N, 2))}
WEIGHTS_AND_NUMBERS = {**WEIGHTS, "a negative number": -2.0, "no number": np.nan}
bad_fits(WEIGHTS_AND_NUMBERS, (*LEARNING, *LOCAL), "sample_weight")
bad_fits(WEIGHTS_AND_NUMBERS, (*GENERALIZED, "noise chosen by the bound"), "sample_weight")
bad_fits({**NUMBERS, "zero": 0.0 * ONES}, ["counts", "stochastic counts"], "exposure")
bad_fits({"of durations": ONES}, ["durations"], "exposure")
bad_fits(
    {"a half": changed(ONES, 0.5), "none": 0 * COUNTS, "text": ["a"] * N, "short": ONES[:5]},
    ["durations", "regressor"],
    "event",
)
bad_fits({"of counts": ONES}, ["counts", "stochastic counts"], "event")
bad_fits({"of one class": (Y == 0).astype(float)}, LABELLING, "sample_weight")
bad_fits(WEIGHTS, ["selector"], "sample_weight")
bad_fits({"an array": ONES}, ["selector"], parameter="weighting")
KNOWN = {
    **NUMBERS,
    "zero": 0.0,
    "a tiny number": 1e-310,
    "a huge number": 1e305,
    "wide": np.ones((N, 2)),
}
bad_fits(KNOWN, ["regressor"], "noise_variance")
bad_fits(
    {
        str(value): value
        for value in ({0: 0.0}, {0: -1.0}, {0: np.nan}, {"0": 2.0, 1: 3.0}, {0: "a"}, {0: 1e300})
    },
    LABELLING,
    parameter="class_weight",
)
# scikit-learn tests its own checks of parameters: one illegal value for each is enough.
PARAMETERS = {
    LEARNING: {
        "n_inducing": 0,
        "kernel": "RBF",
        "selector": "hvg",
        "bound": "tigth",
        "fit_prior_mean": "yes",
        "optimize_inducing": None,
        "random_state": "abc",
        "verbose": -1,
        "callback": 3,
    },
    LARGE: {
        "selection_tol": np.nan,
        "certificate_tol": 0.0,
        "max_inducing": 0,
        "point_cost": -0.1,
        "optimizer": "adam",
        "n_restarts_optimizer": -1,
        "max_iter": 0,
        "tol": 0.0,
        "max_reselections": -1,
        "warm_start": "no",
    },
    LABELLING: {"likelihood": "logit", "class_weight": "even"},
    STREAMING: {"batch_size": 0, "n_epochs": -1, "learning_rate": 1.5, "memory": 0},
    ("classifier",): {"n_jobs": 0},
    ("regressor",): {"noise": "student", "normalize_y": "yes"},
    ("neighbours",): {
        "estimator": StochasticSparseGPRegressor(),
        "estimator__hyperparameters": "average",
        "n_neighbors": 0,
        "mode": "neighbours",
        "n_validation": 0,
        "random_state": "abc",
    },
    GENERALIZED: {"likelihood": "poison", "bound": "tigth", "n_inducing": 0, "kernel": "RBF"},
    ("counts", "durations"): {"hyperparameters": "averaged"},
    ("latent variables",): {
        "n_components": 0,
        "n_inducing": 0,
        "bound": "spherical",
        "max_iter": 0,
        "tol": -1.0,
        "random_state": "abc",
    },
    ("selector",): {"n_components": 0, "method": "hvg", "tol": -1.0, "weighting": "regression"},
}
for members, values in PARAMETERS.items():
    for parameter, value in values.items():
        bad_fits({repr(value): value}, members, parameter=parameter)
bad_fits(
    {
        "of other columns": np.zeros((4, 3)),
        "NaN": [[np.nan, 0.0]],
        "1-D": [1.0, 2.0],
        "without rows": np.zeros((0, 2)),
        "ragged": [[1.0, 2.0], [3.0]],
        "too large to square": 1e200 * X[:3],
    },
    LEARNING,
    parameter="selector",
)
bad_fits(
    {
        "with a kernel": InducingPointSelector(RBF()),
        "with a weighting": InducingPointSelector(weighting="classification"),
        "with bad parameters": InducingPointSelector(n_components=0),
    },
    LARGE,
    parameter="selector",
)
bad_fits(
    {"an array": X[:4], "an instance": InducingPointSelector()},
    LARGE,
    parameter="selector",
    n_inducing="auto",
)
bad_fits(
    {"not of this likelihood": "standard"},
    ["classifier"],
    parameter="bound",
    likelihood=ConditionalPolyaGamma(),
)
bad_fits({"of two classes": Y3}, ["stochastic classifier"], "y", likelihood="polya-gamma")
bad_fits(
    {f"concentration {value!r}": DirichletTargets(value) for value in (0.0, np.nan, "a", None)},
    LABELLING,
    parameter="likelihood",
)
bad_fits({"without methods": LabelLikelihood()}, LABELLING, parameter="likelihood")
bad_fits(
    {"without bounds": RBF(1.0, (1e-5, np.inf))},
    LARGE,
    parameter="kernel",
    n_restarts_optimizer=1,
    optimizer="bfgs",
)
bad_fits(
    {"without derivatives by the points": PairwiseKernel(metric="rbf")},
    LARGE,
    parameter="kernel",
    optimize_inducing=True,
    optimizer="bfgs",
)


class Negative(RBF):
    """Negative definite."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return -super().__call__(X, Y)


class Transposed(RBF):
    """Values of the wrong shape."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return super().__call__(X, Y).T


class NotANumber(RBF):
    """Values that are not finite."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return np.nan * super().__call__(X, Y)


class ColumnDiagonal(RBF):
    """A diagonal of the wrong shape."""

    def diag(self, X):
        return np.ones((len(X), 1))


KERNELS = {
    "NaN": RBF(np.nan),
    "negative": RBF(-1.0),
    "zero": RBF(0.0),
    "text": RBF("long"),
    "2-D": RBF(np.ones((1, 2))),
    "two variances": ConstantKernel([1.0, 2.0]) * RBF(),
    "negative alpha": RationalQuadratic(1.0, -1.0),
    "three length scales": ConstantKernel() * RBF([1.0, 2.0, 3.0]),
    "bounds in the wrong order": RBF(1.0, (9.0, 2.0)),
    "bounds NaN": RBF(1.0, (np.nan, 2.0)),
    "a word as bounds": RBF(1.0, "free"),
    "nu negative": Matern(nu=-1.0),
    "nu text": Matern(nu="rough"),
    "an exponent that is text": Exponentiation(RBF(), "two"),
    "a class in a sum": Sum(RBF(), RBF),
    "compound": CompoundKernel([RBF(), Matern()]),
    "of wrong shape": Transposed(),
    "of wrong diagonal": ColumnDiagonal(),
    "negative definite": Negative(),
    "of NaN": NotANumber(),
    "white in a product": KERNEL * WhiteKernel(),
    "white alone": WhiteKernel(),
    "white in a power": (RBF() + WhiteKernel()) ** 2,
    "a column too many": Columns(RBF(), [2]),
    "a column twice": Columns(RBF(), [0, 0]),
    "no list of columns": Columns(RBF(), 1),
    "a name of a column": RBF() + Columns(RBF(), ["a"]),
    "of columns in a power": Columns(RBF(), [-1]) ** 2,
    "columns of a class": Columns(RBF, [0]),
}
bad_fits(KERNELS, EVERY, parameter="kernel")
bad_fits({"white": WHITE}, [*LABELLING, "stochastic regressor", "selector"], parameter="kernel")
bad_fits(
    {
        "twice white": WHITE + WhiteKernel(2.0),
        "negative white": KERNEL + WhiteKernel(-1.0),
        "bounds of white": KERNEL + WhiteKernel(1.0, (2.0, 1.0)),
    },
    ["regressor"],
    parameter="kernel",
)
bad_fits({"beside noise that varies": VARIANCE}, ["regressor"], "noise_variance", noise="gp")
bad_fits(
    {"beside white": "gp", "object beside white": PolynomialNoise(0)},
    ["regressor"],
    parameter="noise",
    kernel=WHITE,
)
NOISES = [
    HomoscedasticNoise(0.0),
    HomoscedasticNoise("a"),
    HomoscedasticNoise(1e-310),
    HomoscedasticNoise(1.0, (2.0, 1.0)),
    HomoscedasticNoise(1.0, (np.nan, 1.0)),
    HomoscedasticNoise(1.0, (1.0, 2.0, 3.0)),
    HomoscedasticNoise(1.0, ("a", "b")),
    HomoscedasticNoise(1.0, "free"),
    PolynomialNoise(-1),
    PolynomialNoise(interactions="all"),
    StudentTNoise(0.1),
    StudentTNoise("3"),
    GPNoise("rbg"),
    GPNoise(length_scales="equal"),
    GPNoise(RBF(), length_scales="tied"),
    GPNoise(RBF(np.ones(2)), length_scales="common"),
    GPNoise(n_inducing=0),
    GPNoise(selection_tol=-1.0),
    GPNoise(RBF(np.ones(3))),
    GPNoise(WHITE),
]
bad_fits({repr(noise): noise for noise in NOISES}, ["regressor"], parameter="noise")


@pytest.mark.parametrize(("who", "parameters", "arguments"), FITS)
def test_fit_refuses(who, parameters, arguments):
    arguments = {"X": X, "y": outcome(who), **arguments}
    for model in (clone(UNFITTED[who]), copy.copy(fitted(who))):
        model.set_params(**parameters)
        assert_refused(lambda model: model.fit(**arguments), model)


# What the methods of a fitted estimator refuse.

CALLS = []


def bad_calls(who, **calls):
    CALLS.extend(
        pytest.param(one, calls[name], id=f"{one}: {name}") for name in calls for one in who
    )


PREDICTIONS = {
    "predict": (*LEARNING, *LOCAL, *GENERALIZED),
    "predict_proba": LABELLING,
    "latent_mean_and_variance": LEARNING,
    "predict_noise_std": REGRESSING,
    "sample_y": REGRESSING,
    "transform": ["selector"],
}
for method, members in PREDICTIONS.items():
    for name, rows in {**ROWS, "one column": X[:, :1], "three columns": np.ones((N, 3))}.items():
        if name != "too large to square":
            call = lambda model, method=method, rows=rows: getattr(model, method)(rows)  # noqa: E731
            bad_calls(members, **{f"{method}, X {name}": call})
for name in ("None", "1-D", "NaN", "masked"):
    call = lambda model, rows=ROWS[name]: model.average_difference(X, rows)  # noqa: E731
    bad_calls(LEARNING, **{f"average_difference, reference {name}": call})
for name, rows in {**WITHOUT_NAN, "one column": X[:, :1]}.items():
    call = lambda model, rows=rows: model.transform(rows)  # noqa: E731
    bad_calls(["latent variables"], **{f"transform, X {name}": call})
for name, value in KNOWN.items():
    for given in ({}, {"return_std": True}, {"return_cov": True}):
        call = lambda m, v=value, given=given: m.predict(X, noise_variance=v, **given)  # noqa: E731
        bad_calls(["regressor"], **{f"predict, {list(given)}, noise_variance {name}": call})
bad_calls(LABELLING, sample_where_squares_overflow=lambda m: m.sample_f(1e200 * X))
bad_calls(REGRESSING, sample_where_squares_overflow=lambda m: m.sample_y(1e200 * X))
bad_calls(REGRESSING, sample_of_f_where_squares_overflow=lambda m: m.sample_f(1e200 * X))
for value in (0, 1, np.nan, "a", None):
    call = lambda m, v=value: m.predict_proba_interval(X, coverage=v)  # noqa: E731
    bad_calls([*LABELLING, "one against the rest"], **{f"coverage {value!r}": call})
for value in (0, -1, 2.5, "3", None):
    bad_calls(LABELLING, **{f"n_samples={value!r}": lambda m, v=value: m.sample_f(X, v)})
    bad_calls(REGRESSING, **{f"n_samples={value!r}": lambda m, v=value: m.sample_y(X, v)})
    bad_calls(REGRESSING, **{f"n_samples of f={value!r}": lambda m, v=value: m.sample_f(X, v)})
for value in (0.0, 1.0, -0.5, np.nan, "0.5", None, [], [0.5, 2.0], [[0.5]]):
    call = lambda m, v=value: m.predict_quantiles(X, v)  # noqa: E731
    bad_calls(REGRESSING, **{f"q={value!r}": call})
for value in (np.nan, np.inf, "a", None, [], [[0.5]], [[[0.5]]]):
    call = lambda m, v=value: m.predict_exceedance(X, v)  # noqa: E731
    bad_calls(REGRESSING, **{f"thresholds={value!r}": call})
for value in (0.0, 1.0, np.nan, "0.5", None, [0.5]):
    call = lambda m, v=value: m.predict_interval(X, v)  # noqa: E731
    bad_calls(REGRESSING, **{f"coverage={value!r}": call})
for value in ("abc", -1):
    call = lambda m, v=value: m.sample_y(X, random_state=v)  # noqa: E731
    bad_calls(REGRESSING, **{f"random_state={value!r}": call})
bad_calls(
    REGRESSING,
    std_and_cov=lambda m: m.predict(X, return_std=True, return_cov=True),
    density_of_None=lambda m: m.log_predictive_density(X, None),
    density_of_others=lambda m: m.log_predictive_density(X, T[:5]),
)
bad_calls(
    ["known noise"],
    std=lambda m: m.predict(X, return_std=True),
    cov=lambda m: m.predict(X, return_cov=True),
    density=lambda m: m.log_predictive_density(X, T),
    quantiles=lambda m: m.predict_quantiles(X, 0.5),
    interval=lambda m: m.predict_interval(X),
    exceedance=lambda m: m.predict_exceedance(X, 0.5),
    draws=lambda m: m.sample_y(X),
    noise_std=lambda m: m.predict_noise_std(X),
    certificate=lambda m: m.certificate(X, T),
    truncate=lambda m: m.truncate(4, X, T),
    lower_bound=lambda m: m.lower_bound(None, X, T),
)
bad_calls(
    ["several outputs"],
    noise_of_one_output=lambda m: m.predict(X, return_std=True, noise_variance=np.ones((N, 1))),
    noise_beside_the_mean=lambda m: m.predict(X, noise_variance=np.ones((N, 1))),
    one_output=lambda m: m.certificate(X, T),
    density_of_one_output=lambda m: m.log_predictive_density(X, T),
)
bad_calls(
    ["regressor"],
    two_outputs=lambda m: m.lower_bound(X=X, y=T2),
    certificate_with_noise=lambda m: m.certificate(X, T, noise_variance=1.0),
    truncate_with_noise=lambda m: m.truncate(4, X, T, noise_variance=1.0),
)
bad_calls(
    ["classifier"],
    certificate_of_an_unknown_label=lambda m: m.certificate(X, Y + 1),
    lower_bound_of_an_unknown_label=lambda m: m.lower_bound(X=X, y=Y + 1),
    truncate_with_an_unknown_label=lambda m: m.truncate(4, X, Y + 1),
)
for one in (*LARGE, "one against the rest"):
    y = outcome(one)
    bad_calls(
        [one],
        certificate_of_fewer_rows=lambda m, y=y: m.certificate(X[:20], y[:20]),
        certificate_of_rows_in_other_places=lambda m, y=y: m.certificate(X[::-1], y),
    )
for one in LARGE:
    y = outcome(one)
    bad_calls(
        [one],
        certificate_of_other_weights=lambda m, y=y: m.certificate(X, y, 2.0),
        certificate_of_negative_weights=lambda m, y=y: m.certificate(X, y, -1.0),
        certificate_of_other_columns=lambda m, y=y: m.certificate(X[:, :1], y),
        certificate_by_an_unknown_method=lambda m, y=y: m.certificate(X, y, method="best"),
        lower_bound_of_short_theta=lambda m, y=y: m.lower_bound([0.0], X, y),
        lower_bound_of_theta_nan=lambda m, y=y: m.lower_bound([np.nan, 0.0], X, y),
        lower_bound_of_theta_alone=lambda m: m.lower_bound(np.zeros(2)),
        lower_bound_of_weights_alone=lambda m: m.lower_bound(sample_weight=ONES),
        lower_bound_of_rows_alone=lambda m: m.lower_bound(X=X),
        gradient_without_rows=lambda m: m.lower_bound(eval_gradient=True),
        gains_of_other_rows=lambda m, y=y: m.point_gains(X[::-1], y),
        gains_of_candidates_with_other_columns=lambda m, y=y: m.point_gains(
            X, y, candidates=X[:, :1]
        ),
        gains_of_candidates_that_are_nan=lambda m, y=y: m.point_gains(
            X, y, candidates=np.full_like(X, np.nan)
        ),
        gains_of_candidates_that_overflow=lambda m, y=y: m.point_gains(
            X, y, candidates=np.full_like(X, 1e200)
        ),
        truncate_with_fewer_rows=lambda m, y=y: m.truncate(4, X[:20], y[:20]),
        **{
            f"truncate to {n!r}": lambda m, y=y, n=n: m.truncate(n, X, y)
            for n in (0, 9, 2.5, "3", None)
        },
    )
bad_calls(
    ["one against the rest"],
    truncate=lambda m: m.truncate(4, X, Y3),
    point_gains=lambda m: m.point_gains(X, Y3),
)
SOME = {"classes": [0, 1]}
bad_calls(
    ["stochastic classifier"],
    **{
        f"partial_fit, classes {name}": lambda m, classes=classes: m.partial_fit(X, Y, classes)
        for name, classes in {
            "a word": "ab",
            "more": [0, 1, 2],
            "others": [1, 2],
            "weights": ONES,
        }.items()
    },
    partial_fit_of_an_unknown_label=lambda m: m.partial_fit(X, Y + 1),
    partial_fit_of_numbers=lambda m: m.partial_fit(X, T),
)
for name, rows in {**ROWS, "one column": X[:, :1], "far": np.full((N, 2), 1e200)}.items():
    call = lambda m, rows=rows: m.partial_fit(rows, Y)  # noqa: E731
    bad_calls(STREAMING, **{f"partial_fit, X {name}": call})
bad_calls(STREAMING, partial_fit_of_weights=lambda m: m.partial_fit(X, Y, sample_weight=-2.0))


@pytest.mark.parametrize(("who", "call"), CALLS)
def test_a_fitted_estimator_refuses(who, call):
    assert_refused(call, copy.copy(fitted(who)))


@pytest.mark.parametrize("classes", [None, [0], [1, 2], ["0", "1"]], ids=str)
def test_a_first_call_of_partial_fit_refuses(classes):
    model = clone(UNFITTED["stochastic classifier"])
    assert_refused(lambda model: model.partial_fit(X, Y, classes), model)


def test_balanced_classes_of_a_stream_are_refused():
    model = clone(UNFITTED["stochastic classifier"]).set_params(class_weight="balanced")
    assert_refused(lambda model: model.partial_fit(X, Y, **SOME), model)


METHODS = [(who, method) for method, members in PREDICTIONS.items() for who in members]


@pytest.mark.parametrize(("who", "method"), METHODS)
def test_an_estimator_that_is_not_fitted_says_so(who, method):
    with pytest.raises(NotFittedError):
        getattr(clone(UNFITTED[who]), method)(X)


@pytest.mark.parametrize("who", LARGE)
def test_bounds_of_an_estimator_that_is_not_fitted_say_so(who):
    model, y = clone(UNFITTED[who]), outcome(who)
    for call in (
        model.lower_bound,
        lambda: model.certificate(X, y),
        lambda: model.truncate(1, X, y),
    ):
        with pytest.raises(NotFittedError):
            call()


WARM = {
    "other columns": ("regressor", X[:, :1], T, {}, {}),
    "another kernel": ("classifier", X, Y, {"kernel": Matern()}, {}),
    "other labels": ("classifier", X, Y + 1, {}, {}),
    "more classes": ("classifier", X, Y3, {}, {}),
    "another noise": ("regressor", X, T, {"noise": "gp"}, {}),
    "known noise": ("regressor", X, T, {}, {"noise_variance": 0.1}),
    "normalised targets": ("regressor", X, T, {"normalize_y": True}, {}),
}


@pytest.mark.parametrize(
    ("who", "rows", "y", "parameters", "arguments"), WARM.values(), ids=list(WARM)
)
def test_a_warm_start_from_another_model_is_refused(who, rows, y, parameters, arguments):
    model = copy.copy(fitted(who)).set_params(warm_start=True, **parameters)
    assert_refused(lambda model: model.fit(rows, y, **arguments), model)


# Certificates, clusters and displays


def certificate(n_rows=10.0, lower=-5.0, upper=(("trace", -4.0),), improved=-5.0):
    return Certificate(n_rows, lower, lower, dict(upper), improved)


@pytest.mark.parametrize(
    "call",
    [
        lambda: certificate() + certificate(7.0),
        lambda: certificate() + certificate(upper=[("one-pass", -4.0)]),
    ],
)
def test_certificates_of_other_rows_or_methods_are_not_added(call):
    with pytest.raises(ValueError, match=r"must|same"):
        call()


@pytest.mark.parametrize("client", [None, "tcp://127.0.0.1:8786", 3])
def test_distribute_refuses(client):
    pytest.importorskip("distributed")
    with pytest.raises(TypeError, match="client"), distribute(client):
        raise AssertionError


Convergence, Sparsity = displays.ConvergenceDisplay, displays.SparsityDisplay
Points, Regression = displays.InducingPointsDisplay, displays.RegressionDisplay
Effects = displays.EffectsDisplay
DATA = {
    Convergence: ("classifier", ()),
    Sparsity: ("classifier", (X, Y)),
    Points: ("classifier", (X, Y)),
    Regression: ("regressor", (X, T)),
    Effects: ("effects", (X,)),
}
PICTURES = [
    *((kind, who, data, {"legend_kw": 3}) for kind, (who, data) in DATA.items()),
    *(
        (kind, DATA[kind][0], (ROWS[name], DATA[kind][1][1]), {})
        for kind in (Sparsity, Points, Regression)
        for name in ("None", "1-D", "NaN", "masked")
    ),
    *((kind, DATA[kind][0], (X, None), {}) for kind in (Sparsity, Points, Regression)),
    *((kind, DATA[kind][0], (X, DATA[kind][1][1][:5]), {}) for kind in (Sparsity, Points)),
    *((Convergence, "classifier", (), {"against": value}) for value in ("rows", None)),
    *((Sparsity, "classifier", (X, Y), {"n_inducing": value}) for value in (0, 9, 2.5, "a")),
    (Sparsity, "classifier", (X[:30], Y[:30]), {}),
    (Sparsity, "classifier", (X, Y), {"noise_variance": 1.0}),
    (Sparsity, "k-means", (X, Y), {}),
    (Sparsity, "one against the rest", (X, Y3), {}),
    (Convergence, "one against the rest", (), {}),
    (Points, "several classes", (X, Y3), {}),
    (Points, "classifier", (X[:, :1], Y), {}),
    (Points, "classifier", (X, Y + 1), {}),
    (Points, "classifier", (X, Y), {"response": "variance"}),
    *(
        (kind, *DATA[kind], {"grid_resolution": v})
        for kind in (Points, Regression)
        for v in (-1, "a")
    ),
    (Regression, "regressor", (X, T2), {}),
    *((Effects, "effects", (ROWS[name],), {}) for name in ("None", "1-D", "NaN", "masked")),
    *((Effects, "effects", (X,), {"features": value}) for value in (0, "a", [], [-1], [9], ["x9"])),
    *((Effects, "effects", (X,), {"target": value}) for value in (0, "a")),
    *((Effects, "effects", (X,), {"coverage": value}) for value in (0, 1, np.nan, "a")),
    *((Regression, "regressor", (X, T), {"feature": value}) for value in (-1, 2, "x2", None)),
    *((Regression, "regressor", (X, T), {"coverage": value}) for value in (0, 1, np.nan, "a")),
    *((Regression, "regressor", (X, T), {"reference": v}) for v in (3.0, [1.0], [1.0, np.nan])),
    (Regression, "regressor", (X, T), {"noise_variance": 0.0}),
]


@pytest.mark.parametrize(("kind", "who", "data", "options"), PICTURES)
def test_a_display_refuses(kind, who, data, options):
    pytest.importorskip("matplotlib").use("Agg")
    own = {"feature": 0} if kind is Regression else {}
    model = copy.copy(fitted(who))
    assert_refused(lambda model: kind.from_estimator(model, *data, **{**own, **options}), model)


@pytest.mark.parametrize("kind", DATA)
def test_a_display_refuses_what_is_no_fitted_model(kind):
    who, data = DATA[kind]
    with pytest.raises(TypeError, match="estimator"):
        kind.from_estimator(RBF(), *data)
    with pytest.raises(NotFittedError):
        kind.from_estimator(clone(UNFITTED[who]), *data)
