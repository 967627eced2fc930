"""Sparse Gaussian process classification and regression for scikit-learn."""

from sparsegpc import displays, likelihoods
from sparsegpc._core.bounds.certificates import Certificate
from sparsegpc._core.rows.dask_blocks import distribute
from sparsegpc._estimators.base_sparse_gp import BaseSparseGP
from sparsegpc._estimators.classifier import SparseGPClassifier
from sparsegpc._estimators.noise.homoscedastic import HomoscedasticNoise
from sparsegpc._estimators.noise.polynomial import PolynomialNoise
from sparsegpc._estimators.noise.process import GPNoise
from sparsegpc._estimators.regressor import SparseGPRegressor
from sparsegpc._estimators.selector import InducingPointSelector
from sparsegpc._estimators.stochastic_classifier import StochasticSparseGPClassifier
from sparsegpc._estimators.stochastic_regressor import StochasticSparseGPRegressor
from sparsegpc._version import __version__

__all__ = [
    "BaseSparseGP",
    "Certificate",
    "GPNoise",
    "HomoscedasticNoise",
    "InducingPointSelector",
    "PolynomialNoise",
    "SparseGPClassifier",
    "SparseGPRegressor",
    "StochasticSparseGPClassifier",
    "StochasticSparseGPRegressor",
    "__version__",
    "displays",
    "distribute",
    "likelihoods",
]
