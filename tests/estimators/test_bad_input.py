"""Bad input gives a clear error and changes nothing; odd but legal input gives a right answer."""

import copy
import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.linalg import LinAlgError
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from sparsegpc import InducingPointSelector, SparseGPClassifier
from sparsegpc.likelihoods import ConditionalPolyaGamma, DirichletTargets, Softmax

N = 40
X, Y = make_moons(N, noise=0.3, random_state=0)
X.flags.writeable = Y.flags.writeable = False
ROW = 3


def changed(array, value, row=ROW):
    """Return a copy with one entry of `row` set."""
    array = np.array(array, dtype=np.float64)
    array[row if array.ndim == 1 else (row, 0)] = value
    return array


class Negative(RBF):
    """Negative definite."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return -super().__call__(X, Y)


class Indefinite(RBF):
    """One minus the squared distance: indefinite as soon as points are far apart."""

    def __call__(self, X, Y=None, eval_gradient=False):
        Y = X if Y is None else Y
        return 1.0 - ((X[:, None] - Y[None]) ** 2).sum(axis=-1)


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


class Case(NamedTuple):
    """Parameters and arguments of a fit, the exception, and texts that it must hold."""

    name: str
    error: type
    texts: tuple
    parameters: dict[str, Any] = {}
    X: Any = X
    y: Any = Y
    weight: Any = None


LEARNING = {"optimizer": "bfgs"}
NO_POSITIVE = "is zero for every row"
FIT_CASES = [
    # X
    Case("X NaN", ValueError, ("Input X contains NaN", "SparseGPClassifier"), X=changed(X, np.nan)),
    Case("X inf", ValueError, ("Input X contains infinity",), X=changed(X, -np.inf)),
    Case("X empty", ValueError, ("0 sample(s)", "minimum of 1"), X=X[:0], y=Y[:0]),
    Case("X no columns", ValueError, ("0 feature(s)", "minimum of 1"), X=X[:, :0]),
    Case("X 1-D", ValueError, ("Expected 2D array, got 1D array", "Reshape"), X=X[:, 0]),
    Case("X 3-D", ValueError, ("dim 3", "SparseGPClassifier"), X=X[:, :, None]),
    Case("X text", ValueError, ("could not convert string to float",), X=[["a", "b"]] * N),
    Case("X complex", ValueError, ("Complex data not supported",), X=X + 1j),
    Case("X sparse", TypeError, ("Sparse data was passed", "toarray"), X=csr_array(X)),
    Case("X too large", ValueError, ("X",), X=1e200 * X),
    # y
    Case("y missing", ValueError, ("requires y to be passed",), y=None),
    Case("y NaN", ValueError, ("Input y contains NaN",), y=changed(Y, np.nan)),
    Case("y one class", ValueError, ("y holds one class only, 1",), y=np.ones(N, dtype=int)),
    Case("y continuous", ValueError, ("Unknown label type: continuous",), y=X[:, 0]),
    Case("y 2-D", ValueError, ("y should be a 1d array", "(40, 2)"), y=np.stack([Y, Y], axis=1)),
    Case("y short", ValueError, ("inconsistent numbers of samples: [40, 5]",), y=Y[:5]),
    # sample_weight
    Case("weight zero", ValueError, (f"sample_weight {NO_POSITIVE}",), weight=np.zeros(N)),
    Case("weight zero number", ValueError, (f"sample_weight {NO_POSITIVE}",), weight=0.0),
    Case(
        "weight negative",
        ValueError,
        (f"sample_weight must be non-negative, got -1.0 in row {ROW}",),
        weight=changed(np.ones(N), -1.0),
    ),
    Case("weight NaN", ValueError, ("sample_weight contains NaN",), weight=np.full(N, np.nan)),
    Case(
        "weight inf",
        ValueError,
        ("sample_weight contains infinity",),
        weight=changed(np.ones(N), np.inf),
    ),
    Case(
        "weight short",
        ValueError,
        ("sample_weight must have one entry per row: got 5 for 40",),
        weight=np.ones(5),
    ),
    Case(
        "weight 2-D",
        ValueError,
        ("sample_weight must have one dimension", "(40, 1)"),
        weight=np.ones((N, 1)),
    ),
    Case(
        "weight leaves one class",
        ValueError,
        ("one class only, 0, among the rows of positive weight",),
        weight=(Y == 0).astype(float),
    ),
    # class_weight
    *(
        Case(
            f"class weight {value}",
            ValueError,
            ("class_weight must be positive and finite", str(value), "leave out its rows"),
            {"class_weight": {0: value}},
        )
        for value in (0.0, -1.0, np.nan, np.inf)
    ),
    Case(
        "class weight of no class",
        ValueError,
        ("classes, [0], are not in class_weight",),
        {"class_weight": {"0": 2.0, 1: 3.0}},
    ),
    # likelihood and bound
    Case(
        "bound of another likelihood",
        ValueError,
        ("bound='tight' is not available for BernoulliLogit", "('spherical', 'standard')"),
        {"bound": "tight"},
    ),
    Case(
        "bound of another likelihood with three classes",
        ValueError,
        ("bound='tight' is not available for Softmax", "('spherical', 'standard')"),
        {"bound": "tight"},
        y=np.arange(N) % 3,
    ),
    Case(
        "bound of another likelihood for each class",
        ValueError,
        ("bound='standard' is not available for ConditionalPolyaGamma", "('tight',)"),
        {"bound": "standard", "likelihood": ConditionalPolyaGamma()},
        y=np.arange(N) % 3,
    ),
    *(
        Case(
            f"concentration {value}",
            ValueError,
            ("concentration", "positive"),
            {"likelihood": DirichletTargets(value)},
        )
        for value in (0.0, -0.5, np.nan, np.inf)
    ),
    # n_inducing="auto"
    Case(
        "any number of points from an array",
        ValueError,
        ("n_inducing='auto' needs a selector by name", "selector of type ndarray"),
        {"n_inducing": "auto", "selector": X[:4]},
    ),
    Case(
        "any number of points from an instance",
        ValueError,
        ("n_inducing='auto' needs a selector by name", "InducingPointSelector"),
        {"n_inducing": "auto", "selector": InducingPointSelector()},
    ),
    Case("weight text", ValueError, ("could not convert string to float",), weight=["a"] * N),
    # selector
    Case(
        "points of other columns",
        ValueError,
        ("selector is an array of inducing points with 3 columns, but X has 2",),
        {"selector": np.zeros((4, 3))},
    ),
    Case("points NaN", ValueError, ("selector contains NaN",), {"selector": [[np.nan, 0.0]]}),
    Case("points 1-D", ValueError, ("Expected 2D array",), {"selector": [1.0, 2.0]}),
    Case("points empty", ValueError, ("0 sample(s)",), {"selector": np.zeros((0, 2))}),
    Case(
        "selector with a kernel",
        ValueError,
        ("selector.kernel must be None", "SparseGPClassifier", "RBF"),
        {"selector": InducingPointSelector(RBF())},
    ),
    Case(
        "selector with a weighting",
        ValueError,
        ("selector.weighting must be None", "'classification'"),
        {"selector": InducingPointSelector(weighting="classification")},
    ),
    Case(
        "selector with bad parameters",
        ValueError,
        ("'n_components' parameter of InducingPointSelector", "[1, inf)", "Got 0"),
        {"selector": InducingPointSelector(n_components=0)},
    ),
    # kernel
    Case(
        "white noise",
        ValueError,
        ("WhiteKernel", "likelihood", "leave the WhiteKernel out"),
        {"kernel": RBF() + WhiteKernel()},
    ),
    Case(
        "white noise within a product",
        ValueError,
        ("WhiteKernel", "leave the WhiteKernel out"),
        {"kernel": ConstantKernel() * (RBF() + RationalQuadratic() * WhiteKernel())},
    ),
    Case(
        "white noise within a power",
        ValueError,
        ("WhiteKernel", "leave the WhiteKernel out"),
        {"kernel": (RBF() + WhiteKernel()) ** 2},
    ),
    Case(
        "compound kernel",
        ValueError,
        ("kernel is a CompoundKernel", "sum or a product"),
        {"kernel": CompoundKernel([RBF(), Matern()])},
    ),
    Case(
        "three length scales",
        ValueError,
        ("RBF", "3 length scales, but X has 2 columns", "one for each column"),
        {"kernel": ConstantKernel() * RBF([1.0, 2.0, 3.0])},
    ),
    Case("NaN length scale", ValueError, ("kernel", "length_scale"), {"kernel": RBF(np.nan)}),
    Case("negative length scale", ValueError, ("kernel", "length_scale"), {"kernel": RBF(-1.0)}),
    Case(
        "negative variance",
        ValueError,
        ("kernel", "constant_value"),
        {"kernel": ConstantKernel(-1.0) * RBF()},
    ),
    Case(
        "restarts without bounds",
        ValueError,
        ("kernel", "bounds"),
        {"kernel": RBF(1.0, (1e-5, np.inf)), "n_restarts_optimizer": 1, **LEARNING},
    ),
    Case(
        "negative definite kernel",
        LinAlgError,
        ("kernel", "not positive semi-definite"),
        {"kernel": Negative()},
    ),
    Case(
        "indefinite kernel",
        LinAlgError,
        ("the kernel is not positive semi-definite", "40 inducing points"),
        {"kernel": Indefinite(), "selector": 5.0 * X},
    ),
    Case(
        "kernel of wrong shape",
        ValueError,
        ("kernel Transposed", "returned an array of shape (40, 1)", "expected (1, 40)"),
        {"kernel": Transposed(), "selector": "hgv"},
    ),
    Case("kernel of NaN", ValueError, ("kernel", "finite"), {"kernel": NotANumber()}),
    Case(
        "diagonal of wrong shape",
        ValueError,
        ("kernel ColumnDiagonal", "shape (40, 1)"),
        {"kernel": ColumnDiagonal()},
    ),
    Case("diagonal of NaN", ValueError, ("kernel", "finite"), {"kernel": NotANumberDiagonal()}),
]


def bad_parameter(name, value, *rule):
    """Return the case of a parameter outside what is allowed, with scikit-learn's message."""
    start = f"The {name!r} parameter of SparseGPClassifier must be"
    return Case(f"{name}={value!r}", ValueError, (start, *rule), {name: value})


FIT_CASES += [
    bad_parameter("n_inducing", 0, "an int in the range [1, inf)", "Got 0"),
    bad_parameter("n_inducing", 2.5, "an int", "Got 2.5"),
    bad_parameter("n_inducing", "automatic", "{'auto'}", "Got 'automatic'"),
    bad_parameter("likelihood", "logit", "'auto'", "'softmax'", "'polya-gamma'", "Got 'logit'"),
    bad_parameter("likelihood", None, "LabelLikelihood", "Got None"),
    bad_parameter("likelihood", Softmax, "an instance of", "LabelLikelihood"),
    bad_parameter("certificate_tol", 0.0, "(0.0, inf)", "Got 0.0"),
    bad_parameter("certificate_tol", np.nan, "Got nan"),
    bad_parameter("max_inducing", 0, "[1, inf)", "Got 0"),
    bad_parameter("max_inducing", 10.5, "an int", "Got 10.5"),
    bad_parameter("class_weight", "even", "{'balanced'}", "dict", "None", "Got 'even'"),
    bad_parameter("class_weight", [1.0, 2.0], "{'balanced'}", "dict"),
    bad_parameter("n_jobs", 1.5, "'int' or None", "Got 1.5"),
    bad_parameter("n_jobs", "all", "'int' or None", "Got 'all'"),
    bad_parameter("optimize_inducing", "yes", "Got 'yes'"),
    bad_parameter("selector", "hvg", "'hgv'", "InducingPointSelector", "array", "Got 'hvg'"),
    bad_parameter("selector", KMeans(3), "InducingPointSelector", "Got KMeans(n_clusters=3)"),
    bad_parameter("bound", "tigth", "'tight'", "'spherical'", "'standard'", "Got 'tigth'"),
    bad_parameter("kernel", "RBF", "kernels.Kernel", "or None", "Got 'RBF'"),
    bad_parameter("kernel", RBF, "an instance of", "kernels.Kernel"),
    bad_parameter("selection_tol", -1e-3, "[0.0, inf)", "Got -0.001"),
    bad_parameter("selection_tol", np.nan, "Got nan"),
    bad_parameter("fit_prior_mean", "yes", "Got 'yes'"),
    bad_parameter("optimizer", "adam", "'bfgs'", "or None", "Got 'adam'"),
    bad_parameter("n_restarts_optimizer", -1, "[0, inf)", "Got -1"),
    bad_parameter("max_iter", 0, "[1, inf)", "Got 0"),
    bad_parameter("tol", 0.0, "(0.0, inf)", "Got 0.0"),
    bad_parameter("max_reselections", -1, "[0, inf)", "Got -1"),
    bad_parameter("warm_start", "no", "Got 'no'"),
    bad_parameter("random_state", "a", "RandomState", "Got 'a'"),
    bad_parameter("verbose", -1, "Got -1"),
]


def names(cases):
    return [case.name.replace(" ", "-") for case in cases]


def assert_raises(case, function, *arguments):
    with pytest.raises(case.error) as caught:
        function(*arguments)
    assert case.error is ValueError or caught.type is case.error
    for text in case.texts:
        assert text in str(caught.value)


def fitted_names(estimator):
    return [name for name in vars(estimator) if name.endswith("_") and not name.startswith("__")]


@pytest.mark.parametrize("case", FIT_CASES, ids=names(FIT_CASES))
def test_fit_refuses(case):
    """The message names what is wrong, and nothing half-fitted is left behind."""
    model = SparseGPClassifier(**case.parameters)
    before = set(vars(model))
    assert_raises(case, model.fit, case.X, case.y, case.weight)
    assert fitted_names(model) == []
    assert set(vars(model)) == before


@pytest.fixture(scope="module")
def reference():
    """A fitted classifier that is not to be changed."""
    kernel = ConstantKernel(5.0) * RBF(1.0)
    return SparseGPClassifier(kernel, optimizer=None, n_inducing=10).fit(X, Y)


@pytest.fixture
def fitted(reference):
    """A fitted classifier that may be changed."""
    return copy.deepcopy(reference)


@pytest.mark.parametrize("case", FIT_CASES, ids=names(FIT_CASES))
def test_a_refused_fit_leaves_the_last_one_as_it_was(case, fitted):
    state, proba = dict(vars(fitted)), fitted.predict_proba(X)
    fitted.set_params(**case.parameters)
    assert_raises(case, fitted.fit, case.X, case.y, case.weight)
    after = dict(vars(fitted))
    assert after.keys() == state.keys()
    assert all(after[name] is state[name] for name in state if name not in case.parameters)
    assert_array_equal(fitted.predict_proba(X), proba)


def test_a_fit_that_is_interrupted_leaves_the_last_one_as_it_was(fitted):
    class Interrupted(RBF):
        def __call__(self, X, Y=None, eval_gradient=False):
            raise KeyboardInterrupt

    state = dict(vars(fitted))
    with pytest.raises(KeyboardInterrupt):
        fitted.set_params(kernel=Interrupted()).fit(X[:, :1], 1 - Y)
    assert {**vars(fitted), "kernel": None} == {**state, "kernel": None}


class Call(NamedTuple):
    """A call on a fitted estimator that fails."""

    name: str
    error: type
    texts: tuple
    function: Callable


PREDICT_METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")
CALLS = [
    *(
        Call(
            f"{method} with other columns",
            ValueError,
            ("X has 3 features, but SparseGPClassifier is expecting 2 features",),
            lambda model, method=method: getattr(model, method)(np.ones((4, 3))),
        )
        for method in (
            *PREDICT_METHODS,
            "latent_mean_and_variance",
            "sample_f",
            "predict_proba_interval",
        )
    ),
    *(
        Call(
            f"confidence {value}",
            ValueError,
            (f"confidence must be a number between 0 and 1, got {value!r}",),
            lambda model, value=value: model.predict_proba_interval(X, confidence=value),
        )
        for value in (0.0, 1.0, 95, -0.1, np.nan, "high", None)
    ),
    Call("sample NaN", ValueError, ("X contains NaN",), lambda m: m.sample_f(changed(X, np.nan))),
    Call("random state", ValueError, ("'a' cannot be used",), lambda m: m.sample_f(X, 2, "a")),
    Call("certificate without y", ValueError, ("y",), lambda m: m.certificate(X, None)),
    Call(
        "certificate of other rows",
        ValueError,
        ("a certificate is about the data of fit", "give what was given to fit"),
        lambda m: m.certificate(X[:30], Y[:30]),
    ),
    Call(
        "certificate of other labels",
        ValueError,
        ("a certificate is about the data of fit",),
        lambda m: m.certificate(X, np.roll(Y, 1)),
    ),
    Call(
        "certificate of other weights",
        ValueError,
        ("a certificate is about the data of fit",),
        lambda m: m.certificate(X, Y, 2.0),
    ),
    Call(
        "certificate with an unknown label",
        ValueError,
        ("y holds the label 2", "classes_ [0 1]"),
        lambda m: m.certificate(X, Y + 1),
    ),
    *(
        Call(
            f"certificate by {value!r}",
            ValueError,
            ("method must be 'auto' or one of", "'cauchy-schwarz'", repr(value)),
            lambda m, value=value: m.certificate(X, Y, method=value),
        )
        for value in ("best", None, ["trace"])
    ),
    Call("predict NaN", ValueError, ("X contains NaN",), lambda m: m.predict(changed(X, np.nan))),
    Call("predict inf", ValueError, ("infinity",), lambda m: m.predict_proba(changed(X, np.inf))),
    Call("predict 1-D", ValueError, ("Expected 2D array",), lambda m: m.predict(X[0])),
    Call("predict no rows", ValueError, ("0 sample(s)",), lambda m: m.predict_proba(X[:0])),
    Call("predict sparse", TypeError, ("Sparse data",), lambda m: m.predict(csr_array(X))),
    Call(
        "lower_bound without rows",
        ValueError,
        ("lower_bound needs X and y", "not kept"),
        lambda m: m.lower_bound(np.zeros(2)),
    ),
    Call(
        "lower_bound with a gradient without rows",
        ValueError,
        ("lower_bound needs X and y",),
        lambda m: m.lower_bound(eval_gradient=True),
    ),
    Call(
        "lower_bound with weights without rows",
        ValueError,
        ("lower_bound needs X and y",),
        lambda m: m.lower_bound(sample_weight=np.ones(N)),
    ),
    Call(
        "lower_bound without y",
        ValueError,
        ("needs X and y together",),
        lambda m: m.lower_bound(X=X),
    ),
    Call(
        "lower_bound without X",
        ValueError,
        ("needs X and y together",),
        lambda m: m.lower_bound(y=Y),
    ),
    Call(
        "lower_bound with a short theta",
        ValueError,
        ("theta must", "have the shape (2,)"),
        lambda m: m.lower_bound([0.0], X, Y),
    ),
    Call(
        "lower_bound with a theta of two dimensions",
        ValueError,
        ("theta must", "have the shape (2,)"),
        lambda m: m.lower_bound([[0.0, 0.0]], X, Y),
    ),
    Call(
        "lower_bound with theta NaN",
        ValueError,
        ("theta", "finite"),
        lambda m: m.lower_bound([np.nan, 0.0], X, Y),
    ),
    Call(
        "lower_bound with an unknown label",
        ValueError,
        ("y holds the label 2", "classes_ [0 1]"),
        lambda m: m.lower_bound(X=X, y=Y + 1),
    ),
    Call(
        "lower_bound with other columns",
        ValueError,
        ("X has 1 features, but SparseGPClassifier is expecting 2 features",),
        lambda m: m.lower_bound(X=X[:, :1], y=Y),
    ),
    Call(
        "lower_bound with zero weights",
        ValueError,
        (f"sample_weight {NO_POSITIVE}",),
        lambda m: m.lower_bound(X=X, y=Y, sample_weight=np.zeros(N)),
    ),
    Call(
        "lower_bound with negative weights",
        ValueError,
        ("sample_weight must be non-negative",),
        lambda m: m.lower_bound(X=X, y=Y, sample_weight=-1.0),
    ),
]


@pytest.mark.parametrize("call", CALLS, ids=names(CALLS))
def test_a_fitted_classifier_refuses(call, reference):
    assert_raises(call, call.function, reference)


class SelectorCase(NamedTuple):
    """Parameters of a selector, arguments of its fit, the exception and its texts."""

    name: str
    error: type
    texts: tuple
    parameters: dict[str, Any] = {}
    X: Any = X
    y: Any = None


def bad_selector_parameter(name, value, *rule):
    start = f"The {name!r} parameter of InducingPointSelector must be"
    return SelectorCase(f"{name}={value!r}", ValueError, (start, *rule), {name: value})


CLASSIFICATION = {"weighting": "classification"}
SELECTOR_CASES = [
    SelectorCase(
        "X NaN", ValueError, ("X contains NaN", "InducingPointSelector"), X=changed(X, np.nan)
    ),
    SelectorCase("X inf", ValueError, ("X contains infinity",), X=changed(X, np.inf)),
    SelectorCase("X empty", ValueError, ("0 sample(s)",), X=X[:0]),
    SelectorCase("X 1-D", ValueError, ("Expected 2D array",), X=X[:, 0]),
    bad_selector_parameter("n_components", 0, "[1, inf)", "Got 0"),
    bad_selector_parameter("n_components", 2.5, "an int", "Got 2.5"),
    bad_selector_parameter("method", "hvg", "'hgv'", "'rpcholesky'", "Got 'hvg'"),
    bad_selector_parameter("tol", -1.0, "[0.0, inf)", "Got -1.0"),
    bad_selector_parameter("weighting", "regression", "'classification'", "Got 'regression'"),
    bad_selector_parameter("weighting", 2.0, "array-like", "Got 2.0"),
    bad_selector_parameter("kernel", "RBF", "kernels.Kernel", "Got 'RBF'"),
    bad_selector_parameter("random_state", "a", "Got 'a'"),
    SelectorCase(
        "weighting short",
        ValueError,
        ("weighting must have one entry per row: got 2 for 40",),
        {"weighting": [1.0, 2.0]},
    ),
    SelectorCase(
        "weighting zero",
        ValueError,
        (f"weighting {NO_POSITIVE}",),
        {"weighting": np.zeros(N)},
    ),
    SelectorCase(
        "weighting negative",
        ValueError,
        (f"weighting must be non-negative, got -2.0 in row {ROW}",),
        {"weighting": changed(np.ones(N), -2.0)},
    ),
    SelectorCase(
        "weighting NaN",
        ValueError,
        ("weighting contains NaN",),
        {"weighting": changed(np.ones(N), np.nan)},
    ),
    SelectorCase(
        "weighting 2-D",
        ValueError,
        ("weighting must have one dimension",),
        {"weighting": np.ones((N, 2))},
    ),
    SelectorCase("y missing", ValueError, ("requires y to be passed",), CLASSIFICATION),
    SelectorCase("y one class", ValueError, ("one class only, 0",), CLASSIFICATION, y=0 * Y),
    SelectorCase(
        "y continuous", ValueError, ("Unknown label type: continuous",), CLASSIFICATION, y=X[:, 0]
    ),
    SelectorCase(
        "compound kernel",
        ValueError,
        ("kernel is a CompoundKernel",),
        {"kernel": CompoundKernel([RBF(), RBF()])},
    ),
    SelectorCase(
        "three length scales",
        ValueError,
        ("3 length scales, but X has 2 columns",),
        {"kernel": Matern([1.0, 2.0, 3.0])},
    ),
    SelectorCase(
        "negative definite kernel",
        LinAlgError,
        ("kernel", "not positive semi-definite"),
        {"kernel": Negative()},
    ),
    SelectorCase(
        "kernel of wrong shape",
        ValueError,
        ("kernel Transposed", "expected (1, 40)"),
        {"kernel": Transposed()},
    ),
]


@pytest.mark.parametrize("case", SELECTOR_CASES, ids=names(SELECTOR_CASES))
def test_the_selector_refuses(case):
    selector = InducingPointSelector(**case.parameters)
    assert_raises(case, selector.fit, case.X, case.y)
    assert fitted_names(selector) == []
    selector = InducingPointSelector(n_components=5).fit(X)
    state, features = dict(vars(selector)), selector.transform(X)
    selector.set_params(**case.parameters)
    assert_raises(case, selector.fit, case.X, case.y)
    assert all(vars(selector)[name] is state[name] for name in state if name.endswith("_"))
    assert_array_equal(selector.transform(X), features)


def test_a_fitted_selector_refuses_other_columns():
    selector = InducingPointSelector(n_components=5).fit(X)
    with pytest.raises(
        ValueError, match="X has 1 features, but InducingPointSelector is expecting 2"
    ):
        selector.transform(X[:, :1])
    with pytest.raises(ValueError, match="X contains NaN"):
        selector.transform(changed(X, np.nan))


# What must work


ONE_COLUMN_CONSTANT = np.column_stack([X, np.full(N, 7.3)])
LEGAL = {
    "one constant column": (ONE_COLUMN_CONSTANT, Y),
    "all columns constant": (np.full((N, 2), 0.1), Y),
    "all zero": (np.zeros((N, 2)), Y),
    "repeated rows": (np.tile(X, (4, 1)), np.tile(Y, 4)),
    "conflicting labels": (np.tile(X, (2, 1)), np.concatenate([Y, 1 - Y])),
    "some conflicting labels": (np.concatenate([X, X[:9]]), np.concatenate([Y, 1 - Y[:9]])),
    "two rows": (X[:2], [0, 1]),
    "two equal rows": (X[[0, 0]], [0, 1]),
    "three rows": (X[:3], [0, 1, 1]),
    "one against many": (X, np.arange(N) == 7),
    "all but one": (X, np.arange(N) != 7),
    "tiny scale": (1e-12 * X, Y),
    "huge scale": (1e12 * X, Y),
    "offset": (X + 1e9, Y),
    "negative offset": (X - 1e9, Y),
    "offset beyond the digits": (X + 1e18, Y),
    "columns of different scales": (X * [1e-12, 1e12], Y),
    "one far row": (np.concatenate([X, [[1e9, -1e9]]]), np.append(Y, 1)),
    "more columns than rows": (np.random.RandomState(0).randn(20, 200), np.arange(20) % 2),
    "separable": (X + 9.0 * Y[:, None], Y),
    "duplicated columns": (np.tile(X, (1, 4)), Y),
}
KERNELS = {
    "default": lambda D: None,
    "each column": lambda D: ConstantKernel() * RBF(np.ones(D)),
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("data", LEGAL.values(), ids=LEGAL)
def test_odd_data_are_fitted_with_finite_results(data, kernel, capfd):
    rows, labels = np.asarray(data[0], dtype=float), np.asarray(data[1])
    model = SparseGPClassifier(kernel(rows.shape[1]), n_inducing=10**6, max_iter=30)
    assert_fits(model, rows, labels)
    assert capfd.readouterr() == ("", "")


CAUSES = (
    "stopped before its bound converged",
    "the learned function is constant",
    "the learned model is poor",
    "the bound still rises where hyperparameters meet their limits",
    "has standard deviation",
)


def assert_fits(model, rows, labels, weight=None):
    """Fit, and check that all is finite and that each cause is warned of once at most."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(rows, labels, sample_weight=weight)
        proba = model.predict_proba(rows)
        mean, variance = model.latent_mean_and_variance(rows)
        decision = model.decision_function(rows)
    texts = [str(item.message) for item in caught]
    counts = [sum(cause in text for text in texts) for cause in CAUSES]
    assert sum(counts) == len(texts), texts
    assert max(counts) <= 1, texts
    assert {item.category for item in caught} <= {ConvergenceWarning, UserWarning}
    for values in (proba, mean, variance, decision, model.lower_bounds_, model.inducing_points_):
        assert np.isfinite(values).all()
    assert (variance >= 0.0).all()
    assert_allclose(proba.sum(axis=1), 1.0)
    assert np.isfinite([model.lower_bound_, model.prior_mean_]).all()
    assert model.lower_bound_ <= 0.0
    assert 1 <= len(model.inducing_points_) <= len(np.unique(rows, axis=0))
    return texts


@pytest.mark.parametrize("selector", ["rpcholesky", "greedy-variance", "kmeans", "uniform"])
@pytest.mark.parametrize(
    "name", ["all columns constant", "repeated rows", "two rows", "two equal rows", "huge scale"]
)
def test_odd_data_with_every_selector(name, selector):
    rows, labels = LEGAL[name]
    model = SparseGPClassifier(
        RBF(1.0, (1e-3, 1e15)), selector=selector, random_state=0, max_iter=5, tol=1e-2
    )
    assert_fits(model, np.asarray(rows), np.asarray(labels))


@pytest.mark.parametrize("smallest", [1e-12, 1e-6, 1.0])
def test_weights_over_twelve_orders_of_magnitude(smallest, rng):
    weight = rng.permutation(smallest * np.logspace(0, 12, N))
    model = SparseGPClassifier(n_inducing=10, max_iter=30)
    assert_fits(model, X, Y, weight)
    heaviest = weight.argmax()
    assert model.predict_proba(X[[heaviest]])[0, Y[heaviest]] > 0.5


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_an_absurd_scale_gives_the_answer_of_a_good_one(scale):
    model = SparseGPClassifier(n_inducing=10)
    plain = model.fit(X, Y).predict_proba(X)
    bound = model.lower_bound_
    assert_allclose(model.fit(scale * X, Y).predict_proba(scale * X), plain, atol=1e-4)
    assert_allclose(model.lower_bound_, bound, rtol=1e-4)


def test_an_offset_of_a_billion_gives_the_answer_without_it():
    rows = np.round(X * 2.0**16) / 2.0**16  # so that adding it loses nothing
    model = SparseGPClassifier(n_inducing=10)
    plain = model.fit(rows, Y).predict_proba(rows)
    offset = 2.0**30
    assert_allclose(model.fit(rows + offset, Y).predict_proba(rows + offset), plain, atol=1e-5)


def test_a_constant_column_changes_nothing():
    model = SparseGPClassifier(n_inducing=10)
    plain, bound = model.fit(X, Y).predict_proba(X), model.lower_bound_
    proba = model.fit(ONE_COLUMN_CONSTANT, Y).predict_proba(ONE_COLUMN_CONSTANT)
    # The starts may differ, and so may the last digits of the kernel that is learned.
    assert_allclose(model.lower_bound_, bound, rtol=1e-4)
    assert_allclose(proba, plain, atol=1e-3)


def test_conflicting_labels_everywhere_give_even_odds():
    model = SparseGPClassifier()
    texts = assert_fits(model, *map(np.asarray, LEGAL["conflicting labels"]))
    assert_allclose(model.predict_proba(X), 0.5, atol=1e-6)
    assert_allclose(model.lower_bound_, 2 * N * np.log(0.5), rtol=1e-3)
    assert re.search("constant", texts[0])


def test_constant_columns_give_the_frequencies():
    labels = np.arange(N) < 10
    model = SparseGPClassifier(n_inducing=3)
    texts = assert_fits(model, np.full((N, 3), -2.5), labels)
    assert_allclose(model.predict_proba([[-2.5] * 3])[0], [0.75, 0.25], atol=1e-3)
    assert len(model.inducing_points_) == 1
    assert len(texts) == 1


def test_separable_classes_are_fitted_perfectly():
    rows, labels = LEGAL["separable"]
    model = SparseGPClassifier()
    assert_fits(model, rows, labels)
    assert model.score(rows, labels) == 1.0


def test_one_far_row_does_not_spoil_the_others():
    rows, labels = LEGAL["one far row"]
    kernel = ConstantKernel() * RBF(1.0)
    plain = SparseGPClassifier(kernel, n_inducing=20).fit(X, Y)
    model = SparseGPClassifier(kernel, n_inducing=20)
    assert_fits(model, rows, labels)
    # A row that shares nothing with the others costs what its label alone is worth, or so.
    assert plain.lower_bound_ - 1.0 < model.lower_bound_ < plain.lower_bound_ - 0.3
    assert model.score(X, Y) >= plain.score(X, Y) > 0.7


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_the_gradient_is_right_with_a_far_row(kernel):
    rows, labels = LEGAL["one far row"]
    kernel = kernel(2) or ConstantKernel() * RBF(1.0)
    model = SparseGPClassifier(kernel, n_inducing=20, optimizer=None, tol=1e-9).fit(rows, labels)
    _, gradient = model.lower_bound(X=rows, y=labels, eval_gradient=True)
    steps = 1e-4 * np.eye(len(gradient))
    theta = model.kernel_.theta
    expected = [
        (model.lower_bound(theta + d, rows, labels) - model.lower_bound(theta - d, rows, labels))
        for d in steps
    ]
    assert_allclose(gradient, np.array(expected) / 2e-4, rtol=1e-3, atol=1e-3)
