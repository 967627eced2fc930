"""What the package offers: names, signatures, and what importing it costs."""

import inspect
import json
import re
import subprocess
import sys

import pytest

import sparsegpc
from sparsegpc import (
    BaseSparseGP,
    BoundSearch,
    Certificate,
    ExcessNoise,
    GPNoise,
    HomoscedasticNoise,
    InducingPointSelector,
    LocalCorrection,
    NormalScores,
    PolynomialNoise,
    SparseGPClassifier,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPGeneralizedRegressor,
    StochasticSparseGPRegressor,
    StudentTNoise,
    decomposition,
    displays,
)
from sparsegpc.decomposition import BayesianGPLVM

REQUIRED = inspect.Parameter.empty
BY_EITHER = inspect.Parameter.POSITIONAL_OR_KEYWORD
# A parameter whose default the contract leaves open.
ANY = object()

CONSTRUCTORS = {
    BaseSparseGP: {
        "kernel": None,
        "length_scales": "auto",
        "main_effects": "auto",
        "log_transform": "auto",
        "n_inducing": None,
        "selector": "auto",
        "selection_tol": 1e-5,
        "certificate_tol": ANY,
        "max_inducing": ANY,
        "point_cost": 0.0,
        "bound": "auto",
        "fit_prior_mean": True,
        "optimizer": "bfgs",
        "n_restarts_optimizer": 0,
        "max_iter": ANY,
        "tol": ANY,
        "max_reselections": 10,
        "optimize_inducing": "auto",
        "warm_start": False,
        "random_state": 0,
        "verbose": 0,
        "callback": None,
    },
    SparseGPClassifier: {
        "kernel": None,
        "length_scales": "auto",
        "main_effects": "auto",
        "log_transform": "auto",
        "n_inducing": None,
        "selector": "auto",
        "selection_tol": 1e-5,
        "certificate_tol": ANY,
        "max_inducing": ANY,
        "point_cost": 0.0,
        "bound": "auto",
        "fit_prior_mean": True,
        "optimizer": "bfgs",
        "n_restarts_optimizer": 0,
        "max_iter": ANY,
        "tol": ANY,
        "max_reselections": 10,
        "optimize_inducing": "auto",
        "warm_start": False,
        "random_state": 0,
        "verbose": 0,
        "callback": None,
        "hyperparameters": "auto",
        "likelihood": "auto",
        "class_weight": None,
        "n_jobs": None,
    },
    SparseGPGeneralizedRegressor: {
        "kernel": None,
        "length_scales": "auto",
        "main_effects": "auto",
        "log_transform": "auto",
        "n_inducing": None,
        "selector": "auto",
        "selection_tol": 1e-5,
        "certificate_tol": ANY,
        "max_inducing": ANY,
        "point_cost": 0.0,
        "bound": "auto",
        "fit_prior_mean": True,
        "optimizer": "bfgs",
        "n_restarts_optimizer": 0,
        "max_iter": ANY,
        "tol": ANY,
        "max_reselections": 10,
        "optimize_inducing": "auto",
        "warm_start": False,
        "random_state": 0,
        "verbose": 0,
        "callback": None,
        "hyperparameters": "auto",
        "likelihood": "auto",
    },
    SparseGPRegressor: {
        "kernel": None,
        "length_scales": "auto",
        "main_effects": "auto",
        "log_transform": "auto",
        "n_inducing": None,
        "selector": "auto",
        "selection_tol": 1e-5,
        "certificate_tol": ANY,
        "max_inducing": ANY,
        "point_cost": 0.0,
        "bound": "auto",
        "fit_prior_mean": True,
        "optimizer": "bfgs",
        "n_restarts_optimizer": 0,
        "max_iter": ANY,
        "tol": ANY,
        "max_reselections": 10,
        "optimize_inducing": "auto",
        "warm_start": False,
        "random_state": 0,
        "verbose": 0,
        "callback": None,
        "hyperparameters": "auto",
        "noise": "homoscedastic",
        "normalize_y": False,
    },
    StochasticSparseGPClassifier: {
        "kernel": None,
        "length_scales": "auto",
        "main_effects": False,
        "n_inducing": 200,
        "selector": "rpcholesky",
        "bound": "auto",
        "fit_prior_mean": True,
        "batch_size": ANY,
        "n_epochs": ANY,
        "learning_rate": ANY,
        "memory": None,
        "optimize_inducing": False,
        "random_state": 0,
        "verbose": 0,
        "callback": None,
        "likelihood": "auto",
        "class_weight": None,
    },
    StochasticSparseGPGeneralizedRegressor: {
        "kernel": None,
        "length_scales": "auto",
        "main_effects": False,
        "n_inducing": 200,
        "selector": "rpcholesky",
        "bound": "auto",
        "fit_prior_mean": True,
        "batch_size": ANY,
        "n_epochs": ANY,
        "learning_rate": ANY,
        "memory": None,
        "optimize_inducing": False,
        "random_state": 0,
        "verbose": 0,
        "callback": None,
        "likelihood": "auto",
    },
    StochasticSparseGPRegressor: {
        "kernel": None,
        "length_scales": "auto",
        "main_effects": False,
        "n_inducing": 200,
        "selector": "rpcholesky",
        "bound": "tight",
        "fit_prior_mean": True,
        "batch_size": ANY,
        "n_epochs": ANY,
        "learning_rate": ANY,
        "memory": None,
        "optimize_inducing": False,
        "random_state": 0,
        "verbose": 0,
        "callback": None,
    },
    HomoscedasticNoise: {"variance": None, "variance_bounds": None},
    PolynomialNoise: {"degree": 2, "interactions": False},
    GPNoise: {"kernel": None, "length_scales": "auto", "n_inducing": 100, "selection_tol": 1e-3},
    StudentTNoise: {"df": None},
    ExcessNoise: {"variance": None, "variance_bounds": None},
    InducingPointSelector: {
        "kernel": None,
        "method": "hgv",
        "n_components": ANY,
        "tol": ANY,
        "weighting": None,
        "random_state": None,
    },
    BoundSearch: {
        "estimator": REQUIRED,
        "param_grid": REQUIRED,
        "n_screening_rows": ANY,
        "n_finalists": 2,
        "tol": ANY,
        "n_jobs": None,
        "verbose": 0,
    },
    LocalCorrection: {
        "estimator": REQUIRED,
        "n_neighbors": 40,
        "mode": "auto",
        "relearn": "auto",
        "n_validation": 1000,
        "random_state": 0,
    },
    NormalScores: {"max_values": ANY},
    BayesianGPLVM: {
        "n_components": 2,
        "n_inducing": ANY,
        "bound": "tight",
        "max_iter": ANY,
        "tol": ANY,
        "random_state": 0,
    },
}
# What users read, but do not make: numbers in nats or ratios, by name.
RESULTS = {
    Certificate: (
        "total_weight",
        "lower_bound",
        "standard_bound",
        "improved_lower_bound",
        "upper_bound",
        "gap",
        "gap_per_row",
        "kl",
        "mean_error",
        "variance_ratio",
        "coverage_error",
    )
}
# With other arguments than the kernel that may be given by position.
BY_POSITION = {
    HomoscedasticNoise: ["variance", "variance_bounds"],
    StudentTNoise: ["df"],
    ExcessNoise: ["variance", "variance_bounds"],
    PolynomialNoise: ["degree", "interactions"],
    BoundSearch: ["estimator", "param_grid"],
    LocalCorrection: ["estimator"],
    NormalScores: [],
    BayesianGPLVM: ["n_components"],
}
ROWS = {"X": REQUIRED, "y": REQUIRED, "sample_weight": None}
ROW_ARGUMENTS = {"exposure": None, "event": None}
METHODS = {
    BaseSparseGP.latent_mean_and_variance: {"X": REQUIRED},
    BaseSparseGP.sample_f: {"X": REQUIRED, "n_samples": 1, "random_state": 0},
    BaseSparseGP.effects: {"X": REQUIRED, "features": None, "reference": None},
    BaseSparseGP.lower_bound: {
        "theta": None,
        "X": None,
        "y": None,
        "sample_weight": None,
        "eval_gradient": False,
        "params": REQUIRED,
    },
    BaseSparseGP.certificate: {
        "X": REQUIRED,
        "y": REQUIRED,
        "sample_weight": None,
        "method": "auto",
        "params": REQUIRED,
    },
    BaseSparseGP.point_gains: {
        "X": REQUIRED,
        "y": REQUIRED,
        "sample_weight": None,
        "candidates": None,
        "params": REQUIRED,
    },
    BaseSparseGP.truncate: {
        "n_inducing": REQUIRED,
        "X": REQUIRED,
        "y": REQUIRED,
        "sample_weight": None,
        "params": REQUIRED,
    },
    SparseGPClassifier.fit: {"X": REQUIRED, "y": REQUIRED, "sample_weight": None},
    SparseGPClassifier.predict: {"X": REQUIRED},
    SparseGPClassifier.predict_proba: {"X": REQUIRED},
    SparseGPClassifier.decision_function: {"X": REQUIRED},
    SparseGPClassifier.latent_mean_and_variance: {"X": REQUIRED},
    SparseGPClassifier.score: {"X": REQUIRED, "y": REQUIRED, "sample_weight": None},
    SparseGPRegressor.fit: {
        "X": REQUIRED,
        "y": REQUIRED,
        "sample_weight": None,
        "noise_variance": None,
        "event": None,
    },
    SparseGPRegressor.predict: {
        "X": REQUIRED,
        "return_std": False,
        "return_cov": False,
        "noise_variance": None,
    },
    SparseGPRegressor.latent_mean_and_variance: {"X": REQUIRED},
    SparseGPRegressor.predict_noise_std: {"X": REQUIRED},
    SparseGPRegressor.log_predictive_density: {
        "X": REQUIRED,
        "y": REQUIRED,
        "noise_variance": None,
        "event": None,
    },
    SparseGPRegressor.predict_quantiles: {
        "X": REQUIRED,
        "q": REQUIRED,
        "noise_variance": None,
    },
    SparseGPRegressor.predict_interval: {
        "X": REQUIRED,
        "coverage": 0.9,
        "noise_variance": None,
    },
    SparseGPRegressor.predict_exceedance: {
        "X": REQUIRED,
        "thresholds": REQUIRED,
        "noise_variance": None,
    },
    SparseGPRegressor.condition: {"X": REQUIRED, "y": REQUIRED, "noise_variance": None},
    SparseGPRegressor.sample_f: {"X": REQUIRED, "n_samples": 1, "random_state": 0},
    SparseGPRegressor.sample_y: {
        "X": REQUIRED,
        "n_samples": 1,
        "random_state": 0,
        "noise_variance": None,
    },
    SparseGPRegressor.score: {"X": REQUIRED, "y": REQUIRED, "sample_weight": None},
    StochasticSparseGPClassifier.fit: {"X": REQUIRED, "y": REQUIRED, "sample_weight": None},
    StochasticSparseGPClassifier.partial_fit: {
        "X": REQUIRED,
        "y": REQUIRED,
        "classes": None,
        "sample_weight": None,
    },
    StochasticSparseGPClassifier.predict_proba: {"X": REQUIRED},
    StochasticSparseGPClassifier.decision_function: {"X": REQUIRED},
    StochasticSparseGPRegressor.fit: {"X": REQUIRED, "y": REQUIRED, "sample_weight": None},
    StochasticSparseGPRegressor.partial_fit: {
        "X": REQUIRED,
        "y": REQUIRED,
        "sample_weight": None,
    },
    StochasticSparseGPRegressor.predict: {
        "X": REQUIRED,
        "return_std": False,
        "return_cov": False,
        "noise_variance": None,
    },
    StochasticSparseGPRegressor.latent_mean_and_variance: {"X": REQUIRED},
    StochasticSparseGPRegressor.predict_noise_std: {"X": REQUIRED},
    StochasticSparseGPRegressor.log_predictive_density: {
        "X": REQUIRED,
        "y": REQUIRED,
        "noise_variance": None,
        "event": None,
    },
    StochasticSparseGPRegressor.predict_quantiles: {
        "X": REQUIRED,
        "q": REQUIRED,
        "noise_variance": None,
    },
    StochasticSparseGPRegressor.predict_interval: {
        "X": REQUIRED,
        "coverage": 0.9,
        "noise_variance": None,
    },
    StochasticSparseGPRegressor.predict_exceedance: {
        "X": REQUIRED,
        "thresholds": REQUIRED,
        "noise_variance": None,
    },
    StochasticSparseGPRegressor.sample_f: {"X": REQUIRED, "n_samples": 1, "random_state": 0},
    StochasticSparseGPRegressor.sample_y: {
        "X": REQUIRED,
        "n_samples": 1,
        "random_state": 0,
        "noise_variance": None,
    },
    StochasticSparseGPRegressor.score: {"X": REQUIRED, "y": REQUIRED, "sample_weight": None},
    SparseGPGeneralizedRegressor.fit: {**ROWS, **ROW_ARGUMENTS},
    SparseGPGeneralizedRegressor.predict: {
        "X": REQUIRED,
        "exposure": None,
        "return_std": False,
    },
    SparseGPGeneralizedRegressor.predict_quantiles: {
        "X": REQUIRED,
        "q": REQUIRED,
        "exposure": None,
    },
    SparseGPGeneralizedRegressor.predict_interval: {
        "X": REQUIRED,
        "coverage": 0.9,
        "exposure": None,
    },
    SparseGPGeneralizedRegressor.predict_exceedance: {
        "X": REQUIRED,
        "thresholds": REQUIRED,
        "exposure": None,
    },
    SparseGPGeneralizedRegressor.log_predictive_density: {
        "X": REQUIRED,
        "y": REQUIRED,
        "exposure": None,
        "event": None,
    },
    SparseGPGeneralizedRegressor.score: {**ROWS, **ROW_ARGUMENTS},
    SparseGPGeneralizedRegressor.sample_f: {"X": REQUIRED, "n_samples": 1, "random_state": 0},
    SparseGPGeneralizedRegressor.sample_y: {
        "X": REQUIRED,
        "n_samples": 1,
        "random_state": 0,
        "exposure": None,
    },
    SparseGPGeneralizedRegressor.survival_function: {"X": REQUIRED, "times": REQUIRED},
    SparseGPGeneralizedRegressor.survival_interval: {
        "X": REQUIRED,
        "times": REQUIRED,
        "coverage": 0.95,
    },
    SparseGPGeneralizedRegressor.latent_mean_and_variance: {"X": REQUIRED},
    StochasticSparseGPGeneralizedRegressor.fit: {**ROWS, **ROW_ARGUMENTS},
    StochasticSparseGPGeneralizedRegressor.partial_fit: {**ROWS, **ROW_ARGUMENTS},
    InducingPointSelector.fit: {
        "X": REQUIRED,
        "y": None,
        "sample_weight": None,
        "noise_variance": None,
    },
    InducingPointSelector.transform: {"X": REQUIRED},
    BoundSearch.fit: {"X": REQUIRED, "y": REQUIRED, "sample_weight": None, "params": REQUIRED},
    BoundSearch.predict_quantiles: {"X": REQUIRED, "q": REQUIRED, "params": REQUIRED},
    BoundSearch.predict_interval: {"X": REQUIRED, "coverage": 0.9, "params": REQUIRED},
    BoundSearch.predict_exceedance: {
        "X": REQUIRED,
        "thresholds": REQUIRED,
        "params": REQUIRED,
    },
    BoundSearch.predict_proba_interval: {"X": REQUIRED, "coverage": 0.95, "params": REQUIRED},
    BoundSearch.survival_function: {"X": REQUIRED, "times": REQUIRED},
    BoundSearch.survival_interval: {"X": REQUIRED, "times": REQUIRED, "coverage": 0.95},
    LocalCorrection.fit: {**ROWS, "params": REQUIRED},
    BayesianGPLVM.fit: {"X": REQUIRED, "y": None},
    BayesianGPLVM.transform: {"X": REQUIRED, "return_std": False},
    BayesianGPLVM.inverse_transform: {"X": REQUIRED, "return_std": False},
    BayesianGPLVM.score_samples: {"X": REQUIRED},
    BayesianGPLVM.score: {"X": REQUIRED, "y": None},
    NormalScores.fit: {"X": REQUIRED, "y": None},
    NormalScores.transform: {"X": REQUIRED},
    NormalScores.inverse_transform: {"X": REQUIRED},
}
# Of each display what from_estimator is about, what is said of drawing, and of computing.
DRAWING = {"ax": None, "legend_kw": None}
DISPLAYS = {
    displays.ConvergenceDisplay: (
        {"estimator": REQUIRED},
        {
            "against": "evaluations",
            "subsets": True,
            "line_kw": None,
            "subset_kw": None,
            "choice_kw": None,
        },
        {},
    ),
    displays.EffectsDisplay: (
        {"estimator": REQUIRED, "X": REQUIRED},
        {"coverage": 0.95, "line_kw": None, "band_kw": None, "decile_kw": None},
        {"features": None, "by": None, "target": None, "grid_resolution": ANY},
    ),
    displays.InducingPointsDisplay: (
        {"estimator": REQUIRED, "X": REQUIRED, "y": REQUIRED},
        {
            "surface_kw": None,
            "boundary_kw": None,
            "scatter_kw": None,
            "inducing_kw": None,
            "colorbar_kw": None,
        },
        {"response": "probability", "grid_resolution": ANY},
    ),
    displays.RegressionDisplay: (
        {"estimator": REQUIRED, "X": REQUIRED, "y": REQUIRED},
        {
            "coverage": 0.95,
            "line_kw": None,
            "f_band_kw": None,
            "y_band_kw": None,
            "scatter_kw": None,
            "inducing_kw": None,
        },
        {"feature": None, "reference": None, "grid_resolution": ANY, "noise_variance": None},
    ),
    displays.SparsityDisplay: (
        {"estimator": REQUIRED, "X": REQUIRED, "y": REQUIRED},
        {"bound_kw": None, "cost_kw": None, "gap_kw": None},
        {"n_inducing": None, "sample_weight": None, "noise_variance": None, **ROW_ARGUMENTS},
    ),
}
OPTIONAL_PACKAGES = ("matplotlib", "pandas", "polars", "pyarrow", "dask", "distributed")


def parameters(function):
    """Return the parameters of a function but self, by name."""
    everything = dict(inspect.signature(function).parameters)
    everything.pop("self", None)
    return everything


def run(script):
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_all_is_a_sorted_list_of_different_strings():
    assert all(type(name) is str for name in sparsegpc.__all__)
    assert sparsegpc.__all__ == sorted(set(sparsegpc.__all__))


@pytest.mark.parametrize("name", sparsegpc.__all__)
def test_every_name_of_all_exists(name):
    assert hasattr(sparsegpc, name)


def test_star_import_gives_what_all_lists():
    namespace = {}
    exec("from sparsegpc import *", namespace)
    assert set(namespace) - {"__builtins__"} == set(sparsegpc.__all__)


def test_all_lists_every_public_name():
    public = {name for name in vars(sparsegpc) if not name.startswith("_")}
    # Importing this module, which the package does not do itself, makes it a name of the package.
    public -= {"decomposition"}
    assert public == {name for name in sparsegpc.__all__ if not name.startswith("_")}


def test_rooms_are_private():
    modules = {name for name in sys.modules if name.startswith("sparsegpc.")}
    public = {name for name in modules if not re.search(r"\._", name)}
    names = ("decomposition", "displays", "kernels", "likelihoods")
    assert public == {f"sparsegpc.{name}" for name in names}


def test_version_is_a_string_of_numbers():
    assert type(sparsegpc.__version__) is str
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc|\.dev|\.post)\d+)?", sparsegpc.__version__)


@pytest.mark.parametrize("cls", CONSTRUCTORS, ids=lambda cls: cls.__name__)
def test_constructor_holds_its_contract(cls):
    expected, actual = CONSTRUCTORS[cls], parameters(cls.__init__)
    assert list(actual) == list(expected)
    for name, default in expected.items():
        if default is not ANY:
            assert actual[name].default == default
            assert type(actual[name].default) is type(default)
        assert (actual[name].default is REQUIRED) == (default is REQUIRED)


@pytest.mark.parametrize("cls", CONSTRUCTORS, ids=lambda cls: cls.__name__)
def test_an_unknown_parameter_is_refused_in_the_name_of_the_class(cls):
    with pytest.raises(TypeError, match=f"^{cls.__name__}.*unexpected keyword argument 'kernels'"):
        cls(kernels=None)


@pytest.mark.parametrize("cls", CONSTRUCTORS, ids=lambda cls: cls.__name__)
def test_hardly_more_than_the_kernel_may_be_given_by_position(cls):
    kinds = {name: parameter.kind for name, parameter in parameters(cls.__init__).items()}
    names = BY_POSITION.get(cls, ["kernel"])
    assert list(kinds)[: len(names)] == names
    for name, kind in kinds.items():
        by_position = name in names
        expected = inspect.Parameter.KEYWORD_ONLY
        assert kind is (inspect.Parameter.POSITIONAL_OR_KEYWORD if by_position else expected)


@pytest.mark.parametrize("cls", CONSTRUCTORS, ids=lambda cls: cls.__name__)
def test_tolerances_and_limits_are_positive_by_default(cls):
    for name, parameter in parameters(cls.__init__).items():
        if name in ("tol", "selection_tol", "certificate_tol", "max_iter", "n_components"):
            assert parameter.default > 0


@pytest.mark.parametrize("cls", CONSTRUCTORS, ids=lambda cls: cls.__name__)
def test_defaults_cannot_be_modified_by_an_instance(cls):
    for parameter in parameters(cls.__init__).values():
        hash(parameter.default)


def test_every_public_class_has_a_contract():
    modules = sparsegpc, decomposition
    classes = {getattr(module, name) for module in modules for name in module.__all__}
    assert {cls for cls in classes if inspect.isclass(cls)} == {*CONSTRUCTORS, *RESULTS}


def test_the_context_of_a_cluster_holds_its_contract():
    assert parameters(sparsegpc.distribute) == {"client": inspect.Parameter("client", BY_EITHER)}


def test_the_pipeline_of_tables_holds_its_contract():
    actual = parameters(sparsegpc.tabular_pipeline)
    assert {name: parameter.default for name, parameter in actual.items()} == {
        "estimator": REQUIRED,
        "search": True,
        "n_jobs": None,
        "verbose": 0,
    }
    assert [name for name, p in actual.items() if p.kind is BY_EITHER] == ["estimator"]


def test_a_certificate_holds_its_contract():
    X = [[0.0], [1.0], [2.0], [4.0]]
    model = SparseGPRegressor(optimizer=None, n_inducing=2, selection_tol=0.0)
    certificate = model.fit(X, [0.0, 1.0, 0.0, 2.0]).certificate(X, [0.0, 1.0, 0.0, 2.0])
    assert type(certificate) is Certificate
    for name in RESULTS[Certificate]:
        value = getattr(certificate, name)
        parts = value if name == "variance_ratio" else (value,)
        assert all(isinstance(part, float) for part in parts), name
    assert certificate.gap == certificate.upper_bound - certificate.lower_bound > 0.0
    assert certificate.gap_per_row == certificate.gap / 4
    assert certificate.upper_bound == min(certificate.upper_bounds.values())
    assert str(certificate).count("\n") >= 2
    with pytest.raises(AttributeError):
        certificate.total_weight = 5.0


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__qualname__)
def test_method_holds_its_contract(method):
    actual = {name: parameter.default for name, parameter in parameters(method).items()}
    assert actual == METHODS[method]


@pytest.mark.parametrize("name", ["lower_bound", "certificate", "truncate", "point_gains"])
@pytest.mark.parametrize(
    "cls", [SparseGPClassifier, SparseGPRegressor, SparseGPGeneralizedRegressor]
)
def test_the_estimators_hold_the_contract_of_the_base(cls, name):
    assert getattr(cls, name) is getattr(BaseSparseGP, name)


@pytest.mark.parametrize("cls", DISPLAYS, ids=lambda cls: cls.__name__)
def test_display_holds_its_contract(cls):
    positional, drawing, computing = DISPLAYS[cls]
    drawing = {**DRAWING, **drawing}
    made, drawn = parameters(cls.from_estimator), parameters(cls.plot)
    assert set(made) == {*positional, *computing, "plot_kw"}
    assert set(drawn) == set(drawing)
    for actual, names in ((made, {*positional}), (drawn, {"ax"})):
        assert {n for n, p in actual.items() if p.kind is BY_EITHER} == names
    for name, default in {**positional, **computing}.items():
        if default is not ANY:
            assert made[name].default == default
    for name, default in drawing.items():
        assert drawn[name].default == default


def test_every_display_has_a_contract():
    assert displays.__all__ == sorted(cls.__name__ for cls in DISPLAYS)


def test_displays_say_what_they_need_where_matplotlib_is_missing():
    script = """
import sys
sys.modules["matplotlib"] = None
from sparsegpc import displays
display = displays.ConvergenceDisplay(
    choice=[0], n_samples=[1], n_inducing=[1], lower_bound=[-1.0], seconds=[0.0]
)
for draw in (display.plot, lambda: displays.SparsityDisplay.from_estimator(None, None, None)):
    try:
        draw()
    except ImportError as error:
        print(error)
"""
    assert run(script).splitlines() == [
        f"{caller} requires matplotlib. You can install matplotlib with `pip install matplotlib`"
        for caller in ("ConvergenceDisplay.plot", "SparsityDisplay.from_estimator")
    ]


@pytest.fixture(scope="module")
def fresh_import():
    """What the first import in a process does, apart from what scikit-learn does by itself."""
    script = f"""
import builtins, contextlib, io, json, sys, warnings
original, asked, printed = builtins.__import__, [], io.StringIO()
def watched(name, globals=None, locals=None, fromlist=(), level=0):
    importer = (globals or {{}}).get("__name__", "")
    if importer.partition(".")[0] == "sparsegpc" and name.split(".")[0] in {OPTIONAL_PACKAGES}:
        asked.append([importer, name])
    return original(name, globals, locals, fromlist, level)
builtins.__import__ = watched
import sklearn.cluster, sklearn.gaussian_process
with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(printed):
    warnings.simplefilter("always")
    import sparsegpc
print(json.dumps(dict(
    asked=asked, loaded=list(sys.modules), printed=printed.getvalue(), warned=list(map(str, caught))
)))
"""
    return json.loads(run(script))


def test_importing_asks_for_no_optional_package(fresh_import):
    """scikit-learn looks for pandas by itself; the modules of this package must not."""
    assert fresh_import["asked"] == []


def test_importing_loads_neither_matplotlib_nor_dask(fresh_import):
    assert not {"matplotlib", "dask"} & set(fresh_import["loaded"])
    assert "sparsegpc._estimators.classifier" in fresh_import["loaded"]


def test_importing_is_silent(fresh_import):
    assert (fresh_import["printed"], fresh_import["warned"]) == ("", [])


def test_package_works_where_no_optional_package_is_installed():
    script = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OPTIONAL_PACKAGES}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
import sparsegpc
X = [[0.0], [1.0], [2.0], [3.0]]
print(sparsegpc.InducingPointSelector(n_components=2).fit_transform(X).shape)
"""
    assert run(script) == "(4, 2)\n"
