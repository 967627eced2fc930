"""Sparse Gaussian process classification and regression for scikit-learn."""

from sparsegpc import likelihoods
from sparsegpc._certificates import Certificate
from sparsegpc._classifier import SparseGPClassifier
from sparsegpc._cluster import distribute
from sparsegpc._noise import GPNoise, HomoscedasticNoise, PolynomialNoise
from sparsegpc._regressor import SparseGPRegressor
from sparsegpc._selector import InducingPointSelector
from sparsegpc._stochastic_classifier import StochasticSparseGPClassifier
from sparsegpc._stochastic_regressor import StochasticSparseGPRegressor

__all__ = [
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
    "distribute",
    "likelihoods",
]

__version__ = "0.1.0.dev0"
