"""Try the installed package, away from its source: contents, public names, fits, pickles.

    make dist

calls ``python -I tests/wheel.py`` in an environment that holds only the wheel and what it requires.
"""

import pickle
import re
import sys
import time
import warnings
from importlib import import_module, metadata
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.gaussian_process.kernels import RBF

import sparsegpc
from sparsegpc import (
    BoundSearch,
    InducingPointSelector,
    LocalCorrection,
    NormalScores,
    SparseGPClassifier,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPGeneralizedRegressor,
    StochasticSparseGPRegressor,
    kernels,
    tabular_pipeline,
)
from sparsegpc.decomposition import BayesianGPLVM

FAST = {"n_inducing": 30, "max_iter": 20}
OPTIONAL = ("dask", "matplotlib", "pandas")


def check_contents():
    """The package and its metadata, nothing else, installed where Python installs packages."""
    distribution = metadata.distribution("sparsegpc")
    assert distribution.version == sparsegpc.__version__
    assert Path(sparsegpc.__file__).is_relative_to(sys.prefix), sparsegpc.__file__
    folders = {path.parts[0] for path in distribution.files}
    assert folders == {"sparsegpc", f"sparsegpc-{distribution.version}.dist-info"}, folders
    names = {path.name for path in distribution.files}
    assert {"LICENSE", "METADATA"} <= names
    description = distribution.metadata["Description"] or distribution.metadata.get_payload()
    links = re.findall(r"\]\((.*?)\)", description)
    assert links
    assert all(link.startswith("https://") for link in links), links
    assert not any(name in sys.modules for name in OPTIONAL)


def check_names():
    """Every public name can be imported."""
    names = ("decomposition", "displays", "kernels", "likelihoods")
    for module in map(import_module, ("sparsegpc", *(f"sparsegpc.{name}" for name in names))):
        for name in module.__all__:
            assert hasattr(module, name), (module, name)


def fits():
    """Yield fitted estimators of each kind, with rows for their predictions."""
    X, y = load_diabetes(return_X_y=True)
    kernel = 1e4 * kernels.MainEffects(length_scale=0.1) + 1e4 * RBF(0.1)
    for estimator in (
        SparseGPRegressor(**FAST),
        SparseGPRegressor(noise="student-t", **FAST),
        SparseGPRegressor(kernel, noise="polynomial", **FAST),
        SparseGPGeneralizedRegressor(likelihood="gamma", **FAST),
        StochasticSparseGPRegressor(n_inducing=30, n_epochs=2),
        StochasticSparseGPGeneralizedRegressor(likelihood="gamma", n_inducing=30, n_epochs=2),
        LocalCorrection(SparseGPRegressor(**FAST)),
        BoundSearch(SparseGPRegressor(**FAST), {"kernel": ["rbf", "matern32"]}),
        tabular_pipeline(SparseGPRegressor(**FAST), search=False),
        InducingPointSelector(n_components=20),
        NormalScores(),
        BayesianGPLVM(n_inducing=10, max_iter=20),
    ):
        yield estimator.fit(X, y), X
    X, y = load_breast_cancer(return_X_y=True)
    yield SparseGPClassifier(**FAST).fit(X, y), X
    yield StochasticSparseGPClassifier(n_inducing=30, n_epochs=2).fit(X, y), X
    X, y = load_iris(return_X_y=True)
    yield SparseGPClassifier(**FAST).fit(X, y), X


def main():
    started = time.perf_counter()
    check_contents()
    check_names()
    # Learning is cut short.
    warnings.simplefilter("ignore")
    n_fits = 0
    for model, X in fits():
        method = "predict" if hasattr(model, "predict") else "transform"
        output = getattr(model, method)(X)
        assert len(output) == len(X)
        assert np.isfinite(output).all(), model
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(getattr(again, method)(X), output)
        n_fits += 1
    print(
        f"sparsegpc {sparsegpc.__version__} installed from its wheel: {n_fits} fits and pickles "
        f"in {time.perf_counter() - started:.0f} s, Python {sys.version.split()[0]}"
    )


if __name__ == "__main__":
    main()
