"""A table of illegal input: what is refused, in which words, and that nothing is changed by it.

Each text names the argument, the rule, the value that came and what to do. For what scikit-learn
says of parameters the rule, which lists what is allowed, is the remedy.
"""

import copy
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.linalg import LinAlgError
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.cluster import KMeans
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
    PolynomialNoise,
    SparseGPClassifier,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPRegressor,
    displays,
    distribute,
)
from sparsegpc.likelihoods import (
    ConditionalPolyaGamma,
    DirichletTargets,
    LabelLikelihood,
    Softmax,
)

N, ROW = 40, 3
X, Y = make_moons(N, noise=0.3, random_state=0)
T = np.sin(X[:, 0]) + 0.1 * np.random.RandomState(0).standard_normal(N)
T2 = np.stack([T, -T], axis=1)
Y3 = np.arange(N) % 3
ONES, VARIANCE = np.ones(N), np.linspace(0.05, 0.5, N)
for given in (X, Y, T, T2, Y3, ONES, VARIANCE):
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
}
# Of the same kind as those, fitted to other data.
VARIANTS = {
    "several classes": ("classifier", Y3, {}),
    "one against the rest": ("classifier", Y3, {}),
    "several outputs": ("regressor", T2, {}),
    "known noise": ("regressor", T, {"noise_variance": VARIANCE}),
    "k-means": ("classifier", Y, {}),
}
SETTINGS = {
    "one against the rest": {"likelihood": "bernoulli-logit"},
    "k-means": {"selector": "kmeans"},
}
EVERY = tuple(UNFITTED)
LABELLING = ("classifier", "stochastic classifier")
REGRESSING = ("regressor", "stochastic regressor")
STREAMING = ("stochastic classifier", "stochastic regressor")
LARGE = ("classifier", "regressor")


def targets_of(who):
    if who in VARIANTS:
        return VARIANTS[who][1]
    return {"regressor": T, "stochastic regressor": T, "selector": None}.get(who, Y)


@cache
def fitted(who):
    """Return a fitted estimator that is not to be changed."""
    kind, _, arguments = VARIANTS.get(who, (who, None, {}))
    model = clone(UNFITTED[kind]).set_params(**SETTINGS.get(who, {}))
    return model.fit(X, targets_of(who), **arguments)


def predictions(model):
    if isinstance(model, InducingPointSelector):
        return model.transform(X)
    if hasattr(model, "classes_"):
        return model.predict_proba(X)
    return np.stack([model.predict(X), *model.latent_mean_and_variance(X)])


# Kernels


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


class NotANumberDiagonal(RBF):
    """A diagonal that is not finite."""

    def diag(self, X):
        return np.full(len(X), np.nan)


class Indefinite(RBF):
    """One minus the squared distance: indefinite as soon as points are far apart."""

    def __call__(self, X, Y=None, eval_gradient=False):
        Y = X if Y is None else Y
        return 1.0 - ((X[:, None] - Y[None]) ** 2).sum(axis=-1)


class Incomplete(LabelLikelihood):
    """Says what its targets are, and nothing else."""

    def targets(self, y, weight, rows):
        return [rows.mean(y, weight)]


# The table


class Case(NamedTuple):
    """A call, its exception, and four texts that its message must hold.

    ``who`` is the key of the estimator, ``parameters`` what is set before, ``fits`` says whether it
    is tried on an estimator that is not fitted, too.
    """

    name: str
    who: str
    call: Callable
    error: type
    argument: str
    rule: str
    value: str
    remedy: str
    parameters: dict[str, Any] = {}
    fits: bool = False


CASES = []


def refuse(name, who, call, texts, error=ValueError, **options):
    """Add a case for each of the estimators `who`."""
    for one in [who] if isinstance(who, str) else who:
        CASES.append(Case(f"{one}: {name}", one, call, error, *texts, **options))


def refuse_fit(name, who, texts, error=ValueError, *, rows=X, y="own", parameters=None, **given):
    """Add a case of `fit` for each of the estimators `who`."""
    for one in [who] if isinstance(who, str) else who:
        own = targets_of(one) if isinstance(y, str) and y == "own" else y
        refuse(
            name,
            one,
            lambda m, own=own: m.fit(rows, own, **given),
            texts,
            error,
            parameters=parameters or {},
            fits=True,
        )


# Rows, in fit and in predictions


SCALAR = ("X", "Expected 2D array, got scalar array", "3.0", "Reshape your data")
TABLE = "subtract a start and divide by a unit"
FRAMES = pytest.importorskip("pandas")
ROWS = {
    "None": (None, ValueError, "must be an array of shape", "None", "give rows"),
    "a number": (3.0, ValueError, "Expected 2D array, got scalar", "3.0", "Reshape your data"),
    "1-D": (X[:, 0], ValueError, "Expected 2D array, got 1D", "-0.067", "Reshape your data"),
    "3-D": (X[..., None], ValueError, "<= 2", "dim 3", "numpy.reshape"),
    "no rows": (X[:0], ValueError, "minimum of 1", "0 sample(s)", "see what has left out all"),
    "no columns": (X[:, :0], ValueError, "minimum of 1", "0 feature(s)", "see what has left out"),
    "NaN": (changed(X, np.nan), ValueError, "must hold no missing", "NaN", "leave these rows out"),
    "None within": (
        changed(X, None, object),
        ValueError,
        "must hold no missing",
        "NaN",
        "leave these rows out",
    ),
    "infinity": (
        changed(X, -np.inf),
        ValueError,
        "must hold finite",
        "infinity",
        "leave these rows out",
    ),
    "beyond float64": (
        [[10**400, 1.0]] * N,
        ValueError,
        "must hold numbers of up to 1e150",
        "too large",
        "scale them",
    ),
    "text": ([["a", "b"]] * N, ValueError, "must hold numbers", "'a'", "encode text"),
    "text within": (
        changed(X, "bad", object),
        ValueError,
        "must hold numbers",
        "'bad'",
        "encode text",
    ),
    "ragged": (
        [[1.0, 2.0], [3.0]] * 20,
        ValueError,
        "must hold one number",
        "(40,)",
        "same length",
    ),
    "lists within": (
        [*X[:, :1].tolist(), [[1.0, 2.0]]],
        ValueError,
        "must hold one number",
        "sequence",
        "same length",
    ),
    "dictionary": ({"a": 1}, TypeError, "must hold a number", "'dict'", "array of floats"),
    "generator": (
        (row for row in X),
        TypeError,
        "must hold a number",
        "'generator'",
        "array of floats",
    ),
    "fields": (
        np.zeros(N, dtype=[("a", float), ("b", float)]),
        TypeError,
        "must hold numbers",
        "'<f8'",
        "array of floats",
    ),
    "complex": (X + 1j, ValueError, "must hold real numbers", "1.j", "imaginary parts as columns"),
    "sparse": (csr_array(X), TypeError, "dense data is required", "Sparse data", "toarray()"),
    "matrix": (np.matrix(X), TypeError, "not supported", "np.matrix", "np.asarray"),
    "masked": (np.ma.array(X, mask=X > 0.5), ValueError, "must hold no masked", "35", "filled"),
    "dates": (np.zeros((N, 2), "M8[D]"), ValueError, "must hold numbers", "datetime64[D]", TABLE),
    "times": (np.ones((N, 2), "m8[s]"), ValueError, "must hold numbers", "timedelta64[s]", TABLE),
    "a frame with dates": (
        FRAMES.DataFrame({"a": X[:, 0], "when": FRAMES.date_range("2020-01-01", periods=N)}),
        ValueError,
        "must hold numbers",
        "in column 'when'",
        TABLE,
    ),
    "a frame with text": (
        FRAMES.DataFrame({"a": X[:, 0], "b": ["red"] * N}),
        ValueError,
        "must hold numbers",
        "'red'",
        "encode text",
    ),
    "a frame with missing values": (
        FRAMES.DataFrame({"a": X[:, 0], "b": FRAMES.array([1, None] * 20, dtype="Int64")}),
        ValueError,
        "must hold no missing",
        "NaN",
        "leave these rows out",
    ),
}
# What the array library says first differs from version to version.
PREDICTING = {
    "classifier": "predict",
    "regressor": "predict",
    "stochastic classifier": "predict_proba",
    "stochastic regressor": "predict",
    "selector": "transform",
}
OTHERS = {
    "classifier": (
        "predict_proba",
        "predict_log_proba",
        "decision_function",
        "latent_mean_and_variance",
        "predict_proba_interval",
        "sample_f",
    ),
    "regressor": ("latent_mean_and_variance", "predict_noise_std", "sample_y"),
}
OTHERS["stochastic classifier"] = ("predict", *OTHERS["classifier"][1:])
OTHERS["stochastic regressor"] = OTHERS["regressor"]
for name, (rows, error, rule, value, remedy) in ROWS.items():
    texts = ("X", rule, value, remedy)
    for who in EVERY:
        refuse_fit(f"fit, X {name}", who, texts, error, rows=rows)
        method = PREDICTING[who]
        if hasattr(rows, "columns"):
            # Models that were fitted to an array warn of names first.
            continue
        refuse(
            f"{method}, X {name}",
            who,
            lambda m, method=method, rows=rows: getattr(m, method)(rows),
            texts,
            error,
        )
for who in EVERY:
    for rows, n in ((X[:, :1], "1"), (np.ones((N, 3)), "3")):
        refuse(
            f"{PREDICTING[who]}, {n} columns",
            who,
            lambda m, rows=rows, who=who: getattr(m, PREDICTING[who])(rows),
            ("X", "expecting 2 features", f"X has {n} features", "in the same order"),
        )
    for method in OTHERS.get(who, ()):
        refuse(
            f"{method}, X NaN",
            who,
            lambda m, method=method: getattr(m, method)(changed(X, np.nan)),
            ("X", "must hold no missing", "NaN", "leave these rows out"),
        )
    for method in (PREDICTING[who], *OTHERS.get(who, ())):
        refuse(
            f"{method} before fit",
            who,
            lambda m, method=method: getattr(clone(m), method)(X),
            ("This", "not fitted", type(UNFITTED[who]).__name__, "Call 'fit'"),
            NotFittedError,
        )
OVERFLOW = ("X holds", "overflow", "1e+200", "scale")
refuse_fit("fit, X overflows", EVERY, OVERFLOW, rows=changed(X, 1e200))
refuse_fit(
    "fit, X underflows",
    EVERY,
    ("columns of X", "underflows", "vary by so little", "StandardScaler"),
    rows=1e-200 * X,
)
refuse(
    "draws where squares overflow",
    LABELLING,
    lambda m: m.sample_f(1e200 * X),
    ("X holds", "overflows", "2.32e+200", "scale the columns"),
)
refuse(
    "draws where squares overflow",
    REGRESSING,
    lambda m: m.sample_y(1e200 * X),
    ("X holds", "overflows", "2.32e+200", "scale the columns"),
)
refuse(
    "other names of columns",
    LARGE,
    lambda m: (
        clone(m)
        .fit(FRAMES.DataFrame(X, columns=["a", "b"]), Y)
        .predict(FRAMES.DataFrame(X, columns=["b", "a"]))
    ),
    ("X", "should match", "same order as they were in fit", "X[feature_names_in_]"),
)
refuse_fit(
    "names of columns of several types",
    EVERY,
    ("your input", "string names", "['int', 'str']", "X.columns.astype(str)"),
    TypeError,
    rows=FRAMES.DataFrame({"a": X[:, 0], 0: X[:, 1]}),
)


# Labels and targets


MISSING = ("y", "must hold no missing values", "row 1", "leave these rows out")
LABELS = {
    "None": (None, ("y", "must have one entry for each row", "None", "call fit(X, y)")),
    "one class": (
        np.ones(N, dtype=int),
        ("y holds", "a classifier needs two", "one class only, 1", "give rows of the other class"),
    ),
    "continuous": (T, ("y", "must hold labels", "continuous", "use a regressor")),
    "NaN": (
        changed(Y, np.nan),
        ("y", "must hold no missing values", "NaN", "leave these rows out"),
    ),
    "None within": (np.array([1, None] * 20), MISSING),
    "None among strings": (["a", None] * 20, MISSING),
    "NaN among strings": (["a", np.nan] * 20, MISSING),
    "NA of pandas": (FRAMES.Series(["a", None] * 20, dtype="string"), MISSING),
    "no category": (FRAMES.Series(FRAMES.Categorical(["a", None] * 20)), MISSING),
    "no date": (np.array(["2020-01-01", "NaT"] * 20, dtype="M8[D]"), MISSING),
    "strings and numbers": (
        np.array(["a", 1] * 20, dtype=object),
        ("y", "labels of one type", "int and str", "convert them"),
    ),
    "a list of strings and numbers": (
        ["a", 1] * 20,
        ("y", "labels of one type", "int and str", "convert them"),
    ),
    "objects": (
        np.array([0.0, 1.0] * 20, dtype=object),
        ("y holds objects", "must be numbers, booleans or strings", "float", "convert them"),
    ),
    "masked": (np.ma.array(Y, mask=Y > 0), ("y", "must hold no masked", "20", "leave these rows")),
    "two columns": (
        np.stack([Y, Y], axis=1),
        ("y", "should be a 1d array", "(40, 2)", "fit a model to each column"),
    ),
    "a number": (3, ("y", "should be a 1d array", "()", "one entry for each row")),
    "of other rows": (Y[:5], ("X and y", "as many rows", "[40, 5]", "see where")),
    "complex": (Y + 1j, ("y", "must hold real", "1.j", "give real and imaginary parts")),
}
for name, (y, texts) in LABELS.items():
    refuse_fit(f"fit, y {name}", LABELLING, texts, y=y)
    if name not in ("None", "complex"):
        texts = texts if name != "one class" else ("y holds", "needs rows of two", "1", "give rows")
        refuse_fit(
            f"fit, y {name}", "selector", texts, y=y, parameters={"weighting": "classification"}
        )
refuse_fit(
    "fit, y None",
    "selector",
    ('weighting="classification"', "requires y", "None", "call fit(X, y)"),
    parameters={"weighting": "classification"},
)
TARGETS = {
    "None": (None, ("y", "must have one entry for each row", "None", "call fit(X, y)")),
    "NaN": (
        changed(T, np.nan),
        ("y", "must hold no missing values", "NaN", "leave these rows out"),
    ),
    "infinity": (
        changed(T, np.inf),
        ("y", "must hold finite values", "infinity", "leave these rows out"),
    ),
    "None within": (np.array([1.0, None] * 20), MISSING),
    "NA of pandas": (FRAMES.Series([1.0, None] * 20, dtype="Float64"), None),
    "overflow": (changed(T, 1e200), ("y holds", "square overflows", "1e+200", "scale the targets")),
    "underflow": (1e-200 * T, ("y varies", "underflows", "so little", "scale the targets")),
    "strings": (["a"] * N, ("y", "must hold numbers", "'a'", "encode text")),
    "strings within": (
        changed(T, "bad", object),
        ("y", "must hold numbers", "'bad'", "encode text"),
    ),
    "complex": (T + 1j, ("y", "must hold real", "1.j", "give real and imaginary parts")),
    "dates": (np.zeros(N, "M8[D]"), ("y", "must hold numbers", "datetime64[D]", TABLE)),
    "times": (np.ones(N, "m8[s]"), ("y", "must hold numbers", "timedelta64[s]", TABLE)),
    "masked": (np.ma.array(T, mask=T > 0), ("y", "no masked", "got", "leave these rows out")),
    "of other rows": (T[:5], ("X and y", "as many rows", "[40, 5]", "see where")),
    "a number": (3.0, ("y", "must have the shape (n_samples,)", "()", "give one row of targets")),
    "3-D": (np.ones((N, 1, 1)), ("y", "must have the shape", "(40, 1, 1)", "give one row")),
    "no columns": (np.ones((N, 0)), ("y", "one output or more", "(40, 0)", "give one row")),
}
TARGETS["NA of pandas"] = (TARGETS["NA of pandas"][0], (*TARGETS["NaN"][1][:2], "N", "leave these"))
for name, (y, texts) in TARGETS.items():
    refuse_fit(f"fit, y {name}", REGRESSING, texts, y=y)
refuse_fit(
    "fit, y sparse",
    REGRESSING,
    ("y", "must be dense", "sparse data", "toarray()"),
    TypeError,
    y=csr_array(T[:, None]),
)
refuse_fit(
    "fit, y of two outputs",
    "stochastic regressor",
    ("y", "should be a 1d array", "(40, 2)", "fit a model to each column"),
    y=T2,
)


# Weights and known noise


def number_cases(name):
    """Return values that are no numbers of rows, and the four texts for an argument."""
    return {
        "text": (["a"] * N, (name, "must hold numbers", "'a'", "encode text")),
        "a word": ("a", (name, "must hold numbers", "'a'", "encode text")),
        "NaN": (changed(ONES, np.nan), (name, "no missing values", "NaN", "leave these rows out")),
        "infinity": (
            changed(ONES, np.inf),
            (name, "must hold finite", "infinity", "leave these rows out"),
        ),
        "complex": (ONES + 1j, (name, "must hold real", "1.j", "give real and imaginary")),
        "dates": (np.zeros(N, "M8[D]"), (name, "must hold numbers", "datetime64[D]", TABLE)),
        "masked": (np.ma.array(ONES, mask=Y > 0), (name, "no masked", "20", "filled")),
    }


WEIGHTS = {
    **number_cases("sample_weight"),
    "negative": (
        changed(ONES, -1.0),
        ("sample_weight", "must be non-negative", "-1.0 in row 3", "weight of zero"),
    ),
    "a negative number": (-2.0, ("sample_weight", "non-negative", "-2.0", "weight of zero")),
    "zero": (0 * ONES, ("sample_weight", "nothing to learn from", "zero for every row", "give at")),
    "the number zero": (0.0, ("sample_weight", "nothing to learn", "zero for every", "give at")),
    "short": (ONES[:5], ("sample_weight", "one entry per row", "5 for 40", "give the weights")),
    "empty": ([], ("sample_weight", "one entry per row", "0 for 40", "give the weights")),
    "2-D": (
        np.ones((N, 1)),
        ("sample_weight", "must have one dimension", "(40, 1)", "use its method ravel"),
    ),
    "huge": (1e300 * ONES, ("sample_weight", "at most 1e+15", "1e+300", "divide all weights")),
    "tiny": (1e-200 * ONES, ("sample_weight", "at least 1e-100", "1e-200", "multiply all weights")),
}
for name, (weight, texts) in WEIGHTS.items():
    refuse_fit(f"fit, weights {name}", EVERY[:4], texts, sample_weight=weight)
    if name not in ("a word", "a negative number", "the number zero"):
        refuse_fit(
            f"fit, weighting {name}",
            "selector",
            ("weighting", *texts[1:]),
            parameters={"weighting": weight},
        )
refuse_fit(
    "fit, weights of one class",
    LABELLING,
    ("y holds", "a classifier needs two", "one class only, 0", "give rows of the other class"),
    sample_weight=(Y == 0).astype(float),
)
refuse_fit(
    "fit, sparse weights",
    EVERY[:4],
    ("sample_weight", "dense data is required", "Sparse data", "toarray()"),
    TypeError,
    sample_weight=csr_array(ONES[None]),
)
NOISE = "noise_variance"
KNOWN = {
    **number_cases(NOISE),
    "zero": (0.0, (NOISE, "must be positive", "0.0 in row 0", "give a variance that is small")),
    "negative": (
        changed(VARIANCE, -0.1),
        (NOISE, "must be positive", "-0.1 in row 3", "give a variance that is small"),
    ),
    "tiny": (1e-310, (NOISE, "at least 1e-100", "1e-310", "scale the targets")),
    "huge": (1e305, (NOISE, "at most 1e+300", "1e+305", "scale the targets")),
    "short": (VARIANCE[:5], (NOISE, "have the shape (40,)", "got (5,)", "give the variances")),
    "wide": (np.ones((N, 2)), (NOISE, "(40, 1)", "got (40, 2)", "give the variances")),
    "transposed": (np.ones((2, N)), (NOISE, "have the shape", "got (2, 40)", "give the variances")),
}
for name, (variance, texts) in KNOWN.items():
    refuse_fit(f"fit, known noise {name}", "regressor", texts, noise_variance=variance)
    for given in ({}, {"return_std": True}, {"return_cov": True}):
        refuse(
            f"predict, {''.join(given) or 'mean'}, known noise {name}",
            "regressor",
            lambda m, v=variance, given=given: m.predict(X, noise_variance=v, **given),
            texts,
        )
    refuse(
        f"sample_y, known noise {name}",
        "stochastic regressor",
        lambda m, v=variance: m.sample_y(X, noise_variance=v),
        texts,
    )
refuse(
    "known noise of one output of two",
    "several outputs",
    lambda m: m.predict(X, return_std=True, noise_variance=np.ones((N, 1))),
    (NOISE, "(40, 2)", "got (40, 1)", "give the variances"),
)


# Weights of classes


def class_weights(name, value, *texts, error=ValueError):
    refuse_fit(
        f"fit, class_weight {name}", LABELLING, texts, error, parameters={"class_weight": value}
    )


for value in (0.0, -1.0, np.nan, np.inf):
    class_weights(
        value, {0: value}, "class_weight", "positive and finite", str(value), "leave out its rows"
    )
class_weights(
    "of a string", {"0": 2.0, 1: 3.0}, "class_weight", "labels of y", "['0', 1]", "leave labels out"
)
class_weights("of no class", {5: 1.0}, "class_weight", "labels of y", "[5]", "leave labels out")
for value in ("heavy", None, [1.0, 2.0]):
    class_weights(
        repr(value), {0: value}, "class_weight", "a positive number", repr(value), "leave the label"
    )
class_weights("huge", {0: 1e300}, "class_weight", "at most 1e+15", "1e+300", "divide all")
class_weights("tiny", {0: 1e-300}, "class_weight", "at least 1e-100", "1e-300", "multiply all")


# Parameters that scikit-learn checks


def bad_parameter(name, value, who, rule, parameters=None):
    """Add a case of scikit-learn's text, whose rule says what is allowed."""
    kind = type(UNFITTED[who]).__name__
    start = f"The {name!r} parameter of {kind} must be"
    texts = (start, rule, f"Got {value!r} instead", rule)
    refuse_fit(f"{name}={value!r}", who, texts, parameters={name: value, **(parameters or {})})


POSITIVE, COUNT, BOOL = "a float in the range (0.0, inf)", "an int in the range [1, inf)", "'bool'"
NATURAL, NON_NEGATIVE = "an int in the range [0, inf)", "a float in the range [0.0, inf)"
SHARED = [
    ("n_inducing", 0, COUNT),
    ("n_inducing", -1, COUNT),
    ("n_inducing", 2.5, COUNT),
    ("n_inducing", True, COUNT),
    ("n_inducing", "Auto", COUNT),
    ("n_inducing", None, COUNT),
    ("kernel", "RBF", "kernels.Kernel' or None"),
    ("kernel", RBF, "kernels.Kernel' or None"),
    ("selector", "hvg", "'hgv'"),
    ("selector", KMeans(3), "an array-like"),
    ("selector", None, "an array-like"),
    ("bound", "tigth", "'tight'"),
    ("fit_prior_mean", "yes", BOOL),
    ("optimize_inducing", None, BOOL),
    ("random_state", "abc", "RandomState"),
    ("random_state", -1, "[0, 4294967295]"),
    ("verbose", -1, NATURAL),
    ("verbose", "a", NATURAL),
    ("callback", 3, "a callable or None"),
]
OF_LARGE = [
    ("selection_tol", -1e-3, NON_NEGATIVE),
    ("selection_tol", np.nan, NON_NEGATIVE),
    ("selection_tol", np.inf, NON_NEGATIVE),
    ("certificate_tol", 0.0, POSITIVE),
    ("certificate_tol", np.nan, POSITIVE),
    ("max_inducing", 0, COUNT),
    ("max_inducing", 10.5, COUNT),
    ("optimizer", "adam", "'bfgs'"),
    ("n_restarts_optimizer", -1, NATURAL),
    ("n_restarts_optimizer", True, NATURAL),
    ("max_iter", 0, COUNT),
    ("max_iter", np.inf, COUNT),
    ("tol", 0.0, POSITIVE),
    ("tol", np.nan, POSITIVE),
    ("tol", True, POSITIVE),
    ("max_reselections", -1, NATURAL),
    ("warm_start", "no", BOOL),
]
OF_LABELS = [
    ("likelihood", "logit", "'softmax'"),
    ("likelihood", None, "LabelLikelihood"),
    ("likelihood", Softmax, "LabelLikelihood"),
    ("class_weight", "even", "{'balanced'}"),
    ("class_weight", [1.0, 2.0], "{'balanced'}"),
]
OF_STREAMS = [
    ("batch_size", 0, COUNT),
    ("batch_size", 2.5, COUNT),
    ("batch_size", True, COUNT),
    ("n_epochs", -1, NATURAL),
    ("n_epochs", None, NATURAL),
    ("learning_rate", 1.5, "a float in the range [0.0, 1.0]"),
    ("learning_rate", np.nan, "a float in the range [0.0, 1.0]"),
    ("learning_rate", True, "a float in the range [0.0, 1.0]"),
    ("memory", 0, COUNT),
    ("memory", np.inf, COUNT),
    ("selector", InducingPointSelector(), "an array-like"),
]
ONLY = {
    "classifier": [
        ("n_jobs", 0, COUNT),
        ("n_jobs", 1.5, COUNT),
        ("n_jobs", "all", COUNT),
    ],
    "regressor": [
        ("noise", "student", "'polynomial'"),
        ("noise", None, "HomoscedasticNoise"),
        ("noise", GPNoise, "an instance of"),
        ("normalize_y", "yes", BOOL),
    ],
    "selector": [
        ("n_components", 0, COUNT),
        ("n_components", 2.5, COUNT),
        ("n_components", True, COUNT),
        ("method", "hvg", "'rpcholesky'"),
        ("method", None, "'rpcholesky'"),
        ("tol", -1.0, NON_NEGATIVE),
        ("tol", np.nan, NON_NEGATIVE),
        ("weighting", "regression", "{'classification'}"),
        ("weighting", 2.0, "an array-like"),
        ("kernel", "RBF", "kernels.Kernel' or None"),
        ("random_state", "abc", "RandomState"),
    ],
}
for who in EVERY:
    groups = {
        (*LABELLING, *REGRESSING): SHARED,
        LARGE: OF_LARGE,
        LABELLING: OF_LABELS,
        STREAMING: OF_STREAMS,
        (who,): ONLY.get(who, []),
    }
    for members, group in groups.items():
        for name, value, rule in group if who in members else ():
            bad_parameter(name, value, who, rule)
for who in EVERY:
    valid = sorted(UNFITTED[who].get_params(deep=False))
    refuse(
        "set_params of no parameter, after another",
        who,
        lambda m, valid=valid: m.set_params(**{valid[0]: "changed", "foo": 1}),
        ("Invalid parameter 'foo'", "for estimator", type(UNFITTED[who]).__name__, "Valid param"),
    )
refuse(
    "set_params of no parameter of the kernel, after another",
    EVERY[:4],
    lambda m: m.set_params(kernel__k2__length_scale=7.0, kernel__foo=1),
    ("Invalid parameter foo", "for kernel", "Product", "Check the list"),
)


# Parameters that go together


def bad_pair(name, who, texts, error=ValueError, **parameters):
    fit = {key: parameters.pop(key) for key in ("y", "noise_variance") if key in parameters}
    refuse_fit(name, who, texts, error, parameters=parameters, **fit)


bad_pair(
    "a bound of other likelihoods",
    "classifier",
    ("bound='tight'", "not available for BernoulliLogit", "'tight'", "choose 'auto'"),
    bound="tight",
)
bad_pair(
    "a bound of other likelihoods of several classes",
    "classifier",
    ("bound='tight'", "not available for Softmax", "'tight'", "choose 'auto'"),
    bound="tight",
    y=Y3,
)
bad_pair(
    "a bound of other likelihoods for each class",
    "classifier",
    ("bound='standard'", "not available for ConditionalPolyaGamma", "'standard'", "choose 'auto'"),
    bound="standard",
    likelihood=ConditionalPolyaGamma(),
    y=Y3,
)
bad_pair(
    "a bound of other likelihoods from minibatches",
    "stochastic classifier",
    ("bound='tight'", "not available for BernoulliLogit", "'tight'", "choose 'auto'"),
    bound="tight",
)
bad_pair(
    "a likelihood of two classes from minibatches",
    "stochastic classifier",
    ("likelihood='polya-gamma'", "for two classes", "got 3", "use"),
    likelihood="polya-gamma",
    y=Y3,
)
for value in (0.0, -0.5, np.nan, np.inf, "a", None, 10**400):
    bad_pair(
        f"concentration {str(value)[:5]}",
        LABELLING,
        ("concentration", "positive and finite", repr(value), "0.001 to 0.1 are usual"),
        likelihood=DirichletTargets(value),
    )
bad_pair(
    "the base of likelihoods",
    LABELLING,
    (
        "likelihood",
        "must define the method targets",
        "LabelLikelihood()",
        "use a likelihood that does",
    ),
    NotImplementedError,
    likelihood=LabelLikelihood(),
)
bad_pair(
    "an incomplete likelihood",
    "classifier",
    ("likelihood", "must define the method expect", "Incomplete()", "use a likelihood that does"),
    NotImplementedError,
    likelihood=Incomplete(),
)
AUTO = ("n_inducing='auto'", "needs a selector by name")
bad_pair(
    "any number of points from an array",
    LARGE,
    (*AUTO, "ndarray", "give a name"),
    n_inducing="auto",
    selector=X[:4],
)
bad_pair(
    "any number of points from an instance",
    LARGE,
    (*AUTO, "InducingPointSelector", "give a name"),
    n_inducing="auto",
    selector=InducingPointSelector(),
)
bad_pair(
    "restarts without bounds",
    LARGE,
    ("n_restarts_optimizer=1", "bounds", "inf", "give others, or no restarts"),
    kernel=RBF(1.0, (1e-5, np.inf)),
    n_restarts_optimizer=1,
    optimizer="bfgs",
)
bad_pair(
    "moving the points of a kernel known by values",
    LARGE,
    ("optimize_inducing=True", "known by its values only", "PairwiseKernel", "keep"),
    kernel=PairwiseKernel(metric="rbf"),
    optimize_inducing=True,
    optimizer="bfgs",
)


# Inducing points that are given


POINTS = {
    "other columns": (
        np.zeros((4, 3)),
        ("selector", "points", "3 columns, but X has 2", "give points"),
    ),
    "NaN": ([[np.nan, 0.0]], ("selector", "no missing", "NaN", "leave these rows out")),
    "1-D": ([1.0, 2.0], ("selector must", "Expected 2D array", "[1. 2.]", "Reshape")),
    "none": (np.zeros((0, 2)), ("selector", "must have a row", "0 sample(s)", "see what")),
    "text": ([["a", "b"]], ("selector", "must hold numbers", "'a'", "encode text")),
    "ragged": ([[1.0, 2.0], [3.0]], ("selector", "one number", "sequence", "same length")),
    "complex": (X + 1j, ("selector", "real numbers", "1.j", "imaginary parts as columns")),
    "overflow": (1e200 * X[:3], ("selector holds", "square overflows", "4.66e+199", "scale")),
    "masked": (np.ma.array(X, mask=X > 0.5), ("selector", "no masked", "35", "filled")),
    "dates": (np.zeros((2, 2), "M8[D]"), ("selector", "must hold numbers", "datetime64", TABLE)),
}
for name, (points, texts) in POINTS.items():
    bad_pair(f"points {name}", EVERY[:4], texts, selector=points)
bad_pair(
    "a selector with a kernel",
    LARGE,
    ("selector.kernel", "must be None", "RBF", "leave it out"),
    selector=InducingPointSelector(RBF()),
)
bad_pair(
    "a selector with a weighting",
    LARGE,
    ("selector.weighting", "must be None", "'classification'", "leave it out"),
    selector=InducingPointSelector(weighting="classification"),
)
bad_pair(
    "a selector with bad parameters",
    LARGE,
    ("'n_components' parameter of InducingPointSelector", COUNT, "Got 0", COUNT),
    selector=InducingPointSelector(n_components=0),
)


# Kernels


POSITIVE_FINITE = "must be positive and finite"
ONE, PAIR = "give a number", "give such a pair"
ORDERED = "lower bound must not exceed"
KERNELS = {
    "NaN": (RBF(np.nan), "length_scale", POSITIVE_FINITE, "nan", ONE),
    "negative": (RBF(-1.0), "length_scale", POSITIVE_FINITE, "-1.0", ONE),
    "zero": (RBF(0.0), "length_scale", POSITIVE_FINITE, "0.0", ONE),
    "infinite": (RBF(np.inf), "length_scale", POSITIVE_FINITE, "inf", ONE),
    "text": (RBF("long"), "length_scale", POSITIVE_FINITE, "'long'", ONE),
    "None": (RBF(None), "length_scale", POSITIVE_FINITE, "None", ONE),
    "one negative of two": (
        RBF([1.0, -2.0]),
        "length_scale",
        POSITIVE_FINITE,
        "-2.0",
        "give one per column",
    ),
    "2-D": (RBF(np.ones((1, 2))), "length_scale", POSITIVE_FINITE, "[[1., 1.]]", "one per column"),
    "negative variance": (
        ConstantKernel(-1.0) * RBF(),
        "constant_value",
        POSITIVE_FINITE,
        "-1.0",
        ONE,
    ),
    "two variances": (
        ConstantKernel([1.0, 2.0]) * RBF(),
        "constant_value",
        POSITIVE_FINITE,
        "[1.0, 2.0]",
        ONE,
    ),
    "negative alpha": (RationalQuadratic(1.0, -1.0), "alpha", POSITIVE_FINITE, "-1.0", ONE),
    "three length scales": (
        ConstantKernel() * RBF([1.0, 2.0, 3.0]),
        "RBF",
        "but X has 2 columns",
        "3 length scales",
        "give one length scale",
    ),
    "no length scales": (RBF([]), "RBF", "but X has 2", "0 length scales", "give one"),
    "bounds in the wrong order": (
        RBF(1.0, (9.0, 2.0)),
        "length_scale",
        ORDERED,
        "(9.0, 2.0)",
        PAIR,
    ),
    "negative bounds": (RBF(1.0, (-1.0, 2.0)), "length_scale", ORDERED, "(-1.0, 2.0)", PAIR),
    "bounds NaN": (RBF(1.0, (np.nan, 2.0)), "length_scale", ORDERED, "(nan, 2.0)", PAIR),
    "three bounds": (RBF(1.0, (1.0, 2.0, 3.0)), "length_scale", ORDERED, "(1.0, 2.0, 3.0)", PAIR),
    "a word as bounds": (RBF(1.0, "free"), "length_scale", ORDERED, "'free'", "or 'fixed'"),
    "too many bounds": (
        RBF([1.0, 1.0], [(1.0, 2.0)] * 3),
        "length_scale",
        ORDERED,
        "(1.0, 2.0), (1.0, 2.0), (1.0, 2.0)",
        PAIR,
    ),
    "nu negative": (Matern(nu=-1.0), "nu", "positive number", "nu=-1.0", "give for example"),
    "nu zero": (Matern(nu=0.0), "nu", "positive number", "nu=0.0", "give for example"),
    "nu NaN": (Matern(nu=np.nan), "nu", "positive number", "nu=nan", "give for example"),
    "nu text": (Matern(nu="rough"), "nu", "positive number", "nu='rough'", "give for example"),
    "an exponent that is text": (
        Exponentiation(RBF(), "two"),
        "exponent",
        "positive number",
        "'two'",
        "give for example",
    ),
    "a negative exponent": (RBF() ** -2, "exponent", "positive number", "-2", "give for example"),
    "a class in a sum": (Sum(RBF(), RBF), "k2", "must be a kernel", "class", "give an instance"),
    "an unknown metric": (
        PairwiseKernel(metric="foo"),
        "kernel",
        "cannot be evaluated",
        "metric=foo",
        "check its parameters",
    ),
    "compound": (
        CompoundKernel([RBF(), Matern()]),
        "kernel",
        "no covariance of one function",
        "CompoundKernel",
        "use a sum or a product",
    ),
    "of wrong shape": (
        Transposed(),
        "kernel Transposed",
        "expected (",
        "returned an array of shape",
        "expected (",
    ),
    "of wrong diagonal": (
        ColumnDiagonal(),
        "kernel ColumnDiagonal",
        "expected (",
        "shape (40, 1)",
        "expected (40,)",
    ),
}
for name, (kernel, *texts) in KERNELS.items():
    bad_pair(f"kernel {name}", EVERY, ("kernel", *texts[1:]), kernel=kernel)
    CASES[-1:] = [CASES[-1]._replace(argument=texts[0])]
for name, kernel, value in (
    ("negative definite", Negative(), "-"),
    ("of NaN", NotANumber(), "not finite"),
):
    bad_pair(
        f"kernel {name}", EVERY, ("kernel", "must be", value, "check"), LinAlgError, kernel=kernel
    )
bad_pair(
    "kernel of a diagonal NaN",
    EVERY,
    ("the kernel's diagonal", "must be finite", "nan", "not positive semi-definite, or overflows"),
    LinAlgError,
    kernel=NotANumberDiagonal(),
)
bad_pair(
    "kernel indefinite",
    LARGE,
    ("the kernel is", "not positive semi-definite", "40 inducing points", "use another"),
    LinAlgError,
    kernel=Indefinite(),
    selector=5.0 * X,
)
for name, kernel in {
    "a sum": WHITE,
    "a product": KERNEL * WhiteKernel(),
    "deep": ConstantKernel() * (RBF() + RationalQuadratic() * WhiteKernel()),
    "a power": (RBF() + WhiteKernel()) ** 2,
    "alone": WhiteKernel(),
}.items():
    for who in ("classifier", "stochastic classifier", "stochastic regressor", "selector"):
        bad_pair(
            f"white noise, {name}",
            who,
            ("kernel", "holds a WhiteKernel, but", "noise_level=1", "leave the WhiteKernel out"),
            kernel=kernel,
        )
for name, kernel in {
    "a product": KERNEL * WhiteKernel(),
    "deep": KERNEL + RBF() * WhiteKernel(),
    "a power": WhiteKernel() ** 2,
}.items():
    bad_pair(
        f"white noise, {name}",
        "regressor",
        ("kernel", "may only be a summand", "WhiteKernel", "leave the WhiteKernel out"),
        kernel=kernel,
    )
bad_pair(
    "white noise alone",
    "regressor",
    ("kernel", "is noise only", "WhiteKernel", "add a covariance"),
    kernel=WhiteKernel() + WhiteKernel(2.0),
)
bad_pair(
    "two white noises",
    "regressor",
    ("kernel", "one WhiteKernel at most", "noise_level=2", "add their noise levels up"),
    kernel=WHITE + WhiteKernel(2.0),
)
bad_pair(
    "negative white noise",
    "regressor",
    ("noise_level", POSITIVE_FINITE, "-1.0", ONE),
    kernel=KERNEL + WhiteKernel(-1.0),
)
bad_pair(
    "bounds of white noise",
    "regressor",
    ("noise_level", ORDERED, "(2.0, 1.0)", PAIR),
    kernel=KERNEL + WhiteKernel(1.0, (2.0, 1.0)),
)
bad_pair(
    "white and known noise",
    "regressor",
    ("kernel", "homoscedastic noise, beside", NOISE, "leave one of them out"),
    kernel=WHITE,
    noise_variance=VARIANCE,
)
for noise in ("polynomial", "gp", HomoscedasticNoise(), PolynomialNoise(0), GPNoise()):
    bad_pair(
        f"white noise and {noise!r}",
        "regressor",
        ("kernel", "homoscedastic noise, beside", f"noise={noise!r}", "leave one of them out"),
        kernel=WHITE,
        noise=noise,
    )


# Noise


def bad_noise(noise, argument, rule, value, remedy=None):
    texts = (argument, rule, value, remedy or rule)
    bad_pair(repr(noise), "regressor", texts, noise=noise)


OF_VARIANCE = "'variance' parameter of HomoscedasticNoise"
for value in (0.0, -1.0, np.inf, np.nan, "a", True, 1e-310, 1e305):
    bad_noise(HomoscedasticNoise(value), OF_VARIANCE, "[1e-100, 1e+300]", f"Got {value!r}")
for value in ((2.0, 1.0), (0.0, 1.0), (1.0, np.inf), (np.nan, 1.0), (1.0, 2.0, 3.0), [[1.0, 2.0]]):
    bad_noise(
        HomoscedasticNoise(1.0, value),
        "variance_bounds",
        "a pair of positive numbers, the lower one first",
        repr(value),
        "None stands for limits",
    )
bad_noise(
    HomoscedasticNoise(1.0, ("a", "b")), "variance_bounds", "must hold numbers", "'a'", "encode"
)
bad_noise(HomoscedasticNoise(1.0, "free"), "'variance_bounds' parameter", "'fixed'", "Got 'free'")
OF_DEGREE = "'degree' parameter of PolynomialNoise"
bad_noise(PolynomialNoise(-1), OF_DEGREE, NATURAL, "Got -1")
bad_noise(PolynomialNoise(1.5), OF_DEGREE, NATURAL, "Got 1.5")
bad_noise(PolynomialNoise(True), OF_DEGREE, NATURAL, "Got True")
bad_noise(PolynomialNoise(interactions="all"), "'interactions' parameter", BOOL, "Got 'all'")
bad_noise(GPNoise("rbf"), "'kernel' parameter of GPNoise", "kernels.Kernel' or None", "Got 'rbf'")
bad_noise(GPNoise(n_inducing=0), "'n_inducing' parameter of GPNoise", COUNT, "Got 0")
bad_noise(GPNoise(selection_tol=-1.0), "'selection_tol' parameter", NON_NEGATIVE, "Got -1.0")
bad_noise(GPNoise(RBF(np.ones(3))), "RBF", "but X has 2 columns", "3 length scales", "give one")
bad_noise(GPNoise(WHITE), "kernel", "no noise of its own", "WhiteKernel", "leave the WhiteKernel")


# What a fitted estimator is asked


for who in ("classifier", "stochastic classifier", "several classes", "one against the rest"):
    for value in (0, 1, 95, np.nan, "a", None, True, [0.9]):
        refuse(
            f"confidence {value!r}",
            who,
            lambda m, value=value: m.predict_proba_interval(X, confidence=value),
            ("confidence", "between 0 and 1", f"got {value!r}", "for example 0.95"),
        )
for value in (0, -1, 2.5, "3", None, True):
    texts = ("n_samples", "positive integer", f"got {value!r}", "give 1 or more")
    refuse(f"n_samples={value!r}", LABELLING, lambda m, v=value: m.sample_f(X, v), texts)
    refuse(f"n_samples={value!r}", REGRESSING, lambda m, v=value: m.sample_y(X, v), texts)
for value in ("abc", -1, 2.5, np.random.default_rng(0)):
    texts = ("random_state", "an integer from 0", f"got {value!r}", "give an integer")
    draw = {"predict_proba_interval": LABELLING, "sample_f": LABELLING, "sample_y": REGRESSING}
    for method, who in draw.items():
        refuse(
            f"{method}, random_state {str(value)[:9]}",
            who,
            lambda m, v=value, method=method: getattr(m, method)(X, random_state=v),
            texts,
        )
refuse(
    "standard deviation and covariance",
    REGRESSING,
    lambda m: m.predict(X, return_std=True, return_cov=True),
    ("return_std and return_cov", "cannot both", "True", "ask for one of them"),
)
NEEDED = (NOISE, "is needed", "known at its own rows", "latent_mean_and_variance")
for name, call in {
    "standard deviation": lambda m: m.predict(X, return_std=True),
    "covariance": lambda m: m.predict(X, return_cov=True),
    "density": lambda m: m.log_predictive_density(X, T),
    "draws": lambda m: m.sample_y(X),
    "noise": lambda m: m.predict_noise_std(X),
}.items():
    refuse(f"{name} without noise", "known noise", call, NEEDED)
for name, call in {
    "certificate": lambda m, **given: m.certificate(X, T, **given),
    "bound": lambda m, **given: m.lower_bound(None, X, T, **given),
    "truncate": lambda m, **given: m.truncate(4, X, T, **given),
}.items():
    refuse(
        f"{name} without noise",
        "known noise",
        call,
        (NOISE, "is needed for these rows", "None", "give what was given to fit"),
    )
    refuse(
        f"{name} with noise",
        "regressor",
        lambda m, call=call: call(m, noise_variance=1.0),
        (NOISE, "must be None", "learned", "leave it out"),
    )
for name, (y, texts) in TARGETS.items():
    if name in ("underflow", "None", "a number", "3-D", "no columns", "overflow"):
        continue
    refuse(
        f"log_predictive_density, y {name}",
        REGRESSING,
        lambda m, y=y: m.log_predictive_density(X, y),
        texts,
    )
    refuse(f"certificate, y {name}", "regressor", lambda m, y=y: m.certificate(X, y), texts)
    refuse(f"lower_bound, y {name}", "regressor", lambda m, y=y: m.lower_bound(X=X, y=y), texts)
    refuse(f"truncate, y {name}", "regressor", lambda m, y=y: m.truncate(4, X, y), texts)
for who, y, rule in (("regressor", T2, "one dimension"), ("several outputs", T, "2 columns")):
    for name, call in {
        "log_predictive_density": lambda m, y: m.log_predictive_density(X, y),
        "certificate": lambda m, y: m.certificate(X, y),
        "lower_bound": lambda m, y: m.lower_bound(X=X, y=y),
        "truncate": lambda m, y: m.truncate(4, X, y),
    }.items():
        refuse(
            f"{name}, other outputs",
            who,
            lambda m, call=call, y=y: call(m, y),
            ("y must have", rule, f"shape {y.shape}", "give the targets of all outputs"),
        )
refuse(
    "log_predictive_density, y None",
    REGRESSING,
    lambda m: m.log_predictive_density(X, None),
    ("y", "must hold the targets", "None", "give them"),
)
for name in ("None within", "strings and numbers", "masked", "of other rows", "NaN", "two columns"):
    y, texts = LABELS[name]
    refuse(f"certificate, y {name}", "classifier", lambda m, y=y: m.certificate(X, y), texts)
    refuse(f"lower_bound, y {name}", "classifier", lambda m, y=y: m.lower_bound(X=X, y=y), texts)
    refuse(f"truncate, y {name}", "classifier", lambda m, y=y: m.truncate(4, X, y), texts)
UNKNOWN = ("y holds", "none of classes_", "the label 2", "leave these rows out")
refuse("certificate, unknown label", "classifier", lambda m: m.certificate(X, Y + 1), UNKNOWN)
refuse("lower_bound, unknown label", "classifier", lambda m: m.lower_bound(X=X, y=Y + 1), UNKNOWN)
refuse("truncate, unknown label", "classifier", lambda m: m.truncate(4, X, Y + 1), UNKNOWN)
OTHER_DATA = ("data of fit", "lower_bound_ is", "the bound is", "give what was given to fit")
for name, arguments in {
    "fewer rows": (X[:20], 20),
    "rows in other places": (X[::-1], N),
}.items():
    rows, n = arguments
    for who in ("classifier", "regressor", "one against the rest"):
        refuse(
            f"certificate of {name}",
            who,
            lambda m, rows=rows, n=n, who=who: m.certificate(rows, targets_of(who)[:n]),
            OTHER_DATA,
        )
for who in LARGE:
    own = targets_of(who)
    refuse(
        "certificate of other weights",
        who,
        lambda m, own=own: m.certificate(X, own, 2.0),
        OTHER_DATA,
    )
    refuse(
        "certificate of negative weights",
        who,
        lambda m, own=own: m.certificate(X, own, -1.0),
        ("sample_weight", "non-negative", "-1.0", "weight of zero"),
    )
    refuse(
        "certificate of other columns",
        who,
        lambda m, own=own: m.certificate(X[:, :1], own),
        ("X", "expecting 2 features", "X has 1 features", "in the same order"),
    )
    refuse(
        "certificate before fit",
        who,
        lambda m, own=own: clone(m).certificate(X, own),
        ("This", "not fitted", type(UNFITTED[who]).__name__, "Call 'fit'"),
        NotFittedError,
    )
    refuse(
        "truncate with negative weights",
        who,
        lambda m, own=own: m.truncate(4, X, own, -1.0),
        ("sample_weight", "non-negative", "-1.0", "weight of zero"),
    )
    refuse(
        "truncate with other columns",
        who,
        lambda m, own=own: m.truncate(4, X[:, :1], own),
        ("X", "expecting 2 features", "X has 1 features", "in the same order"),
    )
    refuse(
        "truncate before fit",
        who,
        lambda m, own=own: clone(m).truncate(4, X, own),
        ("This", "not fitted", type(UNFITTED[who]).__name__, "Call 'fit'"),
        NotFittedError,
    )
    refuse(
        "lower_bound before fit",
        who,
        lambda m: clone(m).lower_bound(),
        ("This", "not fitted", type(UNFITTED[who]).__name__, "Call 'fit'"),
        NotFittedError,
    )
    for value in ("best", None, ["trace"]):
        refuse(
            f"certificate by {value!r}",
            who,
            lambda m, own=own, value=value: m.certificate(X, own, method=value),
            ("method must be 'auto' or one of", "'trace'", f"got {value!r}", "'auto' takes"),
        )
    for value, rule, got, remedy in (
        ([0.0], "have the shape (2,)", "got (1,)", "give the logarithms"),
        ([[0.0, 0.0]], "have the shape (2,)", "got (1, 2)", "give the logarithms"),
        (3.0, "have the shape (2,)", "got ()", "give the logarithms"),
        ([np.nan, 0.0], "finite", "nan", "give logarithms"),
        (["a", "b"], "must hold numbers", "'a'", "encode"),
    ):
        refuse(
            f"lower_bound at theta={value!r}",
            who,
            lambda m, own=own, value=value: m.lower_bound(value, X, own),
            ("theta", rule, got, remedy),
        )
    NO_ROWS = ("lower_bound needs X and y", "theta", "eval_gradient", "rows given to fit")
    refuse("theta without rows", who, lambda m: m.lower_bound(np.zeros(2)), NO_ROWS)
    refuse("gradient without rows", who, lambda m: m.lower_bound(eval_gradient=True), NO_ROWS)
    refuse("weights without rows", who, lambda m: m.lower_bound(sample_weight=ONES), NO_ROWS)
    TOGETHER = ("lower_bound needs X and y", "together", "theta", "lower_bound(X=X, y=y)")
    refuse("rows without y", who, lambda m: m.lower_bound(X=X), TOGETHER)
    refuse("y without rows", who, lambda m, own=own: m.lower_bound(y=own), TOGETHER)
    for value in (0, -1, 9, 2.5, 3.0, "3", None, True):
        refuse(
            f"truncate to {value!r}",
            who,
            lambda m, own=own, value=value: m.truncate(value, X, own),
            ("n_inducing", "an integer between 1 and 8", f"got {value!r}", "the number of points"),
        )
refuse(
    "truncate a model for each class",
    "one against the rest",
    lambda m: m.truncate(4, X, Y3),
    ("truncate", "is about one model", "consists of 3", "truncate those in estimators_"),
)
refuse(
    "score of other rows",
    EVERY[:4],
    lambda m: m.score(X, Y[:3]),
    ("input variables", "inconsistent numbers of samples", "[3, 40]", "inconsistent numbers"),
)
refuse(
    "names of features before fit",
    "selector",
    lambda m: clone(m).get_feature_names_out(),
    ("This", "not fitted", "InducingPointSelector", "Call 'fit'"),
    NotFittedError,
)

# Fits that go on from the last one


def warm(name, who, texts, rows=X, y=None, fit=None, **parameters):
    refuse(
        f"warm start, {name}",
        who,
        lambda m: m.fit(rows, y, **(fit or {})),
        texts,
        parameters={"warm_start": True, **parameters},
    )


AFRESH = "set warm_start=False"
for who, y in (("classifier", Y), ("regressor", T)):
    warm(
        "other columns",
        who,
        ("warm_start=True", "columns of the last fit", "X has 1", AFRESH),
        X[:, :1],
        y,
    )
    warm(
        "another kernel",
        who,
        ("warm_start=True", "kernel structure", "Matern", AFRESH),
        y=y,
        kernel=Matern(),
    )
    warm(
        "a kernel with less free",
        who,
        ("warm_start=True", "kernel structure", "['k2__length_scale'] free", AFRESH),
        y=y,
        kernel=ConstantKernel(2.0, "fixed") * RBF(),
    )
warm("other labels", "classifier", ("warm_start=True", "classes", "[1 2]", AFRESH), y=Y + 1)
warm("more classes", "classifier", ("warm_start=True", "classes", "[0 1 2]", AFRESH), y=Y3)
for name, fit, parameters in (
    ("another noise", {}, {"noise": "polynomial"}),
    ("a noise process", {}, {"noise": "gp"}),
    ("known noise", {"noise_variance": 0.1}, {}),
    ("normalised targets", {}, {"normalize_y": True}),
):
    warm(
        name,
        "regressor",
        ("warm_start=True", "kind of noise, normalize_y", "last fit", AFRESH),
        y=T,
        fit=fit,
        **parameters,
    )


def stream(name, who, texts, rows=X, y=None, fits=False, parameters=None, **given):
    refuse(
        f"partial_fit, {name}",
        who,
        lambda m: m.partial_fit(rows, targets_of(who) if y is None else y, **given),
        texts,
        parameters=parameters or {},
        fits=fits,
    )


SOME = {"classes": [0, 1]}
refuse(
    "partial_fit, no classes at first",
    "stochastic classifier",
    lambda m: clone(m).partial_fit(X, Y),
    ("classes", "must be given at the first call", "classes", "pass all labels"),
)
for name, classes, rule, value, remedy in (
    ("one", [0], "two labels or more", "[0]", "pass all labels"),
    ("lacking some", [1, 2], "none of classes_", "the label 0", "leave these rows out"),
    ("of another type", ["0", "1"], "none of classes_", "the label 0", "leave these rows out"),
):
    refuse(
        f"partial_fit, first classes {name}",
        "stochastic classifier",
        lambda m, classes=classes: clone(m).partial_fit(X, Y, classes),
        ("classes", rule, value, remedy),
    )
for name, classes, rule, value, remedy in (
    ("a word", "ab", "one dimension", "()", "pass a list"),
    ("a set", {0, 1}, "one dimension", "()", "pass a list"),
    ("2-D", [[0, 1]], "one dimension", "(1, 2)", "pass a list"),
    ("NaN", np.array([0.0, np.nan]), "must be finite", "nan", "leave out NaN"),
    ("None", [0, None], "no missing values", "None in row 1", "leave these rows out"),
    ("strings and numbers", [0, "a"], "one type", "int and str", "convert them"),
    ("masked", np.ma.array([0, 1], mask=[0, 1]), "no masked", "1", "filled"),
):
    stream(
        f"classes {name}",
        "stochastic classifier",
        ("classes", rule, value, remedy),
        classes=classes,
        fits=True,
    )
for name, classes in (("more", [0, 1, 2]), ("others", [1, 2]), ("weights", ONES)):
    stream(
        f"later classes {name}",
        "stochastic classifier",
        ("classes", "must be those of the first call", "got [", "leave them out"),
        classes=classes,
    )
stream("an unknown label", "stochastic classifier", UNKNOWN, y=Y + 1)
stream("y continuous", "stochastic classifier", LABELS["continuous"][1], y=T)
stream(
    "balanced classes",
    "stochastic classifier",
    ("class_weight", "needs all rows at once", '"balanced"', "give a dict"),
    parameters={"class_weight": "balanced"},
    fits=True,
    classes=[0, 1],
)
stream("y with None", "stochastic regressor", MISSING, y=TARGETS["None within"][0])
stream("y overflows", "stochastic regressor", TARGETS["overflow"][1], y=TARGETS["overflow"][0])
for who in STREAMING:
    stream("X overflows", who, OVERFLOW, rows=changed(X, 1e200))
    stream("a row overflows", who, OVERFLOW, rows=1e200 * np.ones((N, 2)))
    stream("no rows", who, ("X", *ROWS["no rows"][2:]), rows=X[:0], y=targets_of(who)[:0])
    stream("X NaN", who, ("X", *ROWS["NaN"][2:]), rows=changed(X, np.nan))
    stream(
        "other columns",
        who,
        ("X", "expecting 2 features", "X has 1 features", "in the same order"),
        rows=X[:, :1],
    )
    stream("negative weights", who, WEIGHTS["a negative number"][1], sample_weight=-2.0)


# Certificates, clusters and pictures, which are no estimators


def certificate(n_rows=10.0, lower=-5.0, upper=(("trace", -4.0),), improved=-5.0):
    return Certificate(n_rows, lower, lower, dict(upper) if upper else {}, improved)


NUMBER = "certificates are made by the method"
for name, call, texts in (
    ("no rows", lambda: certificate(0), ("n_rows", "positive", "got 0", "give the total weight")),
    ("a word", lambda: certificate(lower="a"), ("lower_bound", "a number", "got 'a'", NUMBER)),
    (
        "NaN",
        lambda: certificate(improved=np.nan),
        ("improved_lower_bound", "a number", "nan", NUMBER),
    ),
    ("an empty one", lambda: certificate(upper=()), ("upper_bounds", "one bound", "{}", "give")),
    (
        "an upper bound that is none",
        lambda: certificate(upper=[("trace", None)]),
        ("upper_bounds['trace']", "a number", "None", NUMBER),
    ),
    (
        "other rows",
        lambda: certificate() + certificate(7.0),
        ("certificates", "of the same rows", "10 and 7 rows", "give one about the same data"),
    ),
    (
        "other upper bounds",
        lambda: certificate() + certificate(upper=[("one-pass", -4.0)]),
        ("certificates", "by the same upper bounds", "['one-pass']", "ask for one method"),
    ),
    ("a shift", lambda: certificate().shifted("a"), ("nats", "finite number", "'a'", "give 0.0")),
):
    refuse(f"certificate: {name}", "selector", lambda m, call=call: call(), texts)


def enter(client):
    with distribute(client):
        raise AssertionError


for value in (None, "tcp://127.0.0.1:8786", 3):
    refuse(
        f"distribute({value!r})",
        "selector",
        lambda m, value=value: pytest.importorskip("distributed") and enter(value),
        ("client", "synchronous distributed.Client", repr(value), "for example Client(address)"),
        TypeError,
    )
Convergence, Sparsity = displays.ConvergenceDisplay, displays.SparsityDisplay
Points, Regression = displays.InducingPointsDisplay, displays.RegressionDisplay
PICTURES = {
    Convergence: ("classifier", ()),
    Sparsity: ("classifier", (X, Y)),
    Points: ("classifier", (X, Y)),
    Regression: ("regressor", (X, T)),
}


def draw(kind, model, *data, **options):
    pytest.importorskip("matplotlib").use("Agg")
    own = {"feature": 0} if kind is Regression else {}
    return kind.from_estimator(model, *data, **{**own, **options})


def bad_picture(name, kind, texts, error=ValueError, who=None, data=None, **options):
    own, rows = PICTURES[kind]
    data = rows if data is None else data
    refuse(
        f"{kind.__name__}: {name}",
        who or own,
        lambda m: draw(kind, m, *data, **options),
        texts,
        error,
    )


for kind, (who, data) in PICTURES.items():
    for value in (None, "model", RBF()):
        refuse(
            f"{kind.__name__} of {value!r}",
            who,
            lambda m, kind=kind, value=value, data=data: draw(kind, value, *data),
            ("estimator", "must be a fitted", type(value).__name__, "give the fitted estimator"),
            TypeError,
        )
    refuse(
        f"{kind.__name__} before fit",
        who,
        lambda m, kind=kind, data=data: draw(kind, clone(m), *data),
        ("This", "not fitted", type(UNFITTED[who]).__name__, "Call 'fit'"),
        NotFittedError,
    )
    bad_picture(
        "legend_kw",
        kind,
        ("legend_kw", "must be a dictionary", "got 3", "give for example"),
        TypeError,
        legend_kw=3,
    )
    if kind is not Sparsity:
        bad_picture("ax", kind, ("ax", "matplotlib Axes", "got 3", "plt.subplots"), TypeError, ax=3)
    for name in ("None", "1-D", "NaN", "no rows", "text", "masked", "dates") if data else ():
        rows, error, *texts = ROWS[name]
        bad_picture(f"X {name}", kind, ("X", *texts), error, data=(rows, data[1]))
    if data:
        texts = ("X and y", "as many rows", "[40, 5]", "see where")
        bad_picture("y of other rows", kind, texts, data=(X, data[1][:5]))
bad_picture(
    "ax", Sparsity, ("ax", "matplotlib Axes", "got 3", "plt.subplots"), TypeError, ax=[3, 3]
)
for value in ("rows", None, ["seconds"]):
    bad_picture(
        f"against {value!r}",
        Convergence,
        ("against", "one of ('evaluations', 'seconds')", f"got {value!r}", "give its name"),
        against=value,
    )
for value in (0, 9, 2.5, [], "a", [1, 99], True):
    bad_picture(
        f"n_inducing {value!r}",
        Sparsity,
        ("n_inducing", "integers between 1 and 8", f"got {value!r}", "None is a few of them"),
        n_inducing=value,
    )
bad_picture("other data", Sparsity, OTHER_DATA, data=(X[:30], Y[:30]))
bad_picture(
    "noise of labels",
    Sparsity,
    (NOISE, "must be None for a classifier", "got 1.0", "leave it out"),
    noise_variance=1.0,
)
bad_picture(
    "centres of k-means",
    Sparsity,
    ("inducing points of estimator", "say nothing", "centres of k-means", "fit models with"),
    who="k-means",
)
for kind in (Convergence, Sparsity, Points):
    if kind is not Points:
        bad_picture(
            "one model for each class",
            kind,
            ("estimator", "is about one model", "3 classes", "give estimator.estimators_[k]"),
            who="one against the rest",
            data=PICTURES[kind][1] and (X, Y3),
        )
for value in ("variance", None, ["probability"]):
    bad_picture(
        f"response {value!r}",
        Points,
        ("response", "one of ('probability'", f"got {value!r}", "give its name"),
        response=value,
    )
for kind in (Points, Regression):
    for value in (1, 2.5, True, "a", None):
        bad_picture(
            f"grid_resolution {value!r}",
            kind,
            ("grid_resolution", "an integer of 2 or more", f"got {value!r}", "give for example"),
            grid_resolution=value,
        )
bad_picture(
    "three classes",
    Points,
    ("estimator", "two classes", "knows 3", "DecisionBoundaryDisplay"),
    who="several classes",
    data=(X, Y3),
)
bad_picture(
    "columns", Points, ("X", "must have 2 columns", "got 1", "fit a model to 2"), data=(X[:, :1], Y)
)
bad_picture(
    "labels", Points, ("y", "labels of the classes", "[2]", "leave these rows"), data=(X, Y + 1)
)
bad_picture("y with None", Points, MISSING, data=(X, LABELS["None within"][0]))
bad_picture("y None", Points, ("y", "must hold the labels", "None", "give them"), data=(X, None))
bad_picture(
    "y None", Regression, ("y", "must hold the targets", "None", "give them"), data=(X, None)
)
bad_picture("y text", Regression, TARGETS["strings"][1], data=(X, ["a"] * N))
bad_picture(
    "two targets",
    Regression,
    ("y", "one target in one dimension", "(40, 2)", "fit a model to one of them"),
    data=(X, T2),
)
for value in (-1, 2, "x2", 1.0, True, [0]):
    bad_picture(
        f"feature {value!r}",
        Regression,
        ("feature", "number or the name", f"got {value!r}", "counted from 0"),
        feature=value,
    )
bad_picture(
    "feature None",
    Regression,
    ("feature", "is needed", "2 columns", "give the number or the name"),
    feature=None,
)
for value in (0, 1, 95, np.nan, "a"):
    bad_picture(
        f"confidence {value!r}",
        Regression,
        ("confidence", "between 0 and 1", f"got {value!r}", "for example 0.95"),
        confidence=value,
    )
for value, rule, got, remedy in (
    (3.0, "one value for each of the 2 columns", "shape ()", "None is the median"),
    ([1.0], "one value for each of the 2 columns", "shape (1,)", "None is the median"),
    ([1.0, np.nan], "no missing values", "NaN", "fill them"),
    ([1.0, "a"], "must hold numbers", "'a'", "encode text"),
):
    bad_picture(
        f"reference {value!r}", Regression, ("reference", rule, got, remedy), reference=value
    )
bad_picture("noise", Regression, KNOWN["zero"][1], noise_variance=0.0)


# The tests


def equal(a, b):
    """Whether two objects are the same to the last bit, in all that they hold."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray) and a.dtype != object:
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and equal(a.tolist(), b.tolist())
    if isinstance(a, np.random.RandomState):
        return equal(a.get_state(legacy=False), b.get_state(legacy=False))
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(equal, a, b))
    if hasattr(a, "__dict__") and not isinstance(a, type):
        return equal(vars(a), vars(b))
    return a == b or (a != a and b != b)


def test_the_comparison_sees_what_differs():
    model = fitted("classifier")
    assert equal(model, copy.deepcopy(model))
    for name in ("inducing_points_", "lower_bound_", "classes_", "_posterior", "kernel_"):
        other = copy.deepcopy(model)
        value = getattr(other, name)
        if name == "kernel_":
            other.kernel_ = value.clone_with_theta(value.theta + 1e-15)
        elif name == "_posterior":
            value.functions[0].w[0] += 1e-15
        else:
            setattr(other, name, np.nextafter(np.asarray(value, dtype=float), np.inf))
        assert not equal(model, other)


def ids(cases):
    return [case.name.replace(" ", "-") for case in cases]


@cache
def reference_predictions(who):
    return predictions(fitted(who)).tobytes()


def assert_refused(case, model, before):
    """Call, and check what is said, and that all that the estimator holds is as before."""
    if case.who == "selector" and "distribute" in case.name:
        pytest.importorskip("distributed")
    with pytest.raises(case.error) as caught:
        case.call(model)
    assert case.error is not ValueError or not isinstance(caught.value, NotFittedError)
    said = str(caught.value)
    for text in (case.argument, case.rule, case.value, case.remedy):
        assert text in said, f"{text!r} is not in: {said}"
    lines = said.splitlines()
    assert lines[-1] not in lines[:-1], f"the remedy is said twice: {said}"
    assert equal(vars(model), before)


@pytest.mark.parametrize("case", CASES, ids=ids(CASES))
def test_a_fitted_estimator_refuses(case):
    reference = fitted(case.who)
    model = copy.deepcopy(reference).set_params(**case.parameters)
    assert_refused(case, model, {**vars(reference), **copy.deepcopy(case.parameters)})
    assert predictions(model).tobytes() == reference_predictions(case.who)


FITS = [case for case in CASES if case.fits]


@pytest.mark.parametrize("case", FITS, ids=ids(FITS))
def test_an_estimator_that_is_not_fitted_refuses_and_stays_so(case):
    model = clone(UNFITTED[VARIANTS.get(case.who, (case.who,))[0]])
    model.set_params(**case.parameters)
    assert_refused(case, model, copy.deepcopy(vars(model)))
    assert set(vars(model)) == set(model.get_params(deep=False))


def test_the_table_is_long_and_covers_every_estimator():
    assert len(CASES) >= 120
    assert {case.who for case in CASES} >= set(EVERY)
    names = ids(CASES)
    assert len(set(names)) == len(names), sorted({n for n in names if names.count(n) > 1})
