"""Sparse Gaussian process classification and regression for scikit-learn."""

from sparsegpc import displays, kernels, likelihoods
from sparsegpc._core.bounds.certificates import Certificate
from sparsegpc._core.rows.dask_blocks import distribute
from sparsegpc._estimators.base_sparse_gp import BaseSparseGP
from sparsegpc._estimators.classifier import SparseGPClassifier
from sparsegpc._estimators.generalized_regressor import SparseGPGeneralizedRegressor
from sparsegpc._estimators.meta_estimators.bound_search import BoundSearch
from sparsegpc._estimators.meta_estimators.local_correction import LocalCorrection
from sparsegpc._estimators.minibatches.classifier import StochasticSparseGPClassifier
from sparsegpc._estimators.minibatches.generalized_regressor import (
    StochasticSparseGPGeneralizedRegressor,
)
from sparsegpc._estimators.minibatches.regressor import StochasticSparseGPRegressor
from sparsegpc._estimators.noise.excess import ExcessNoise
from sparsegpc._estimators.noise.homoscedastic import HomoscedasticNoise
from sparsegpc._estimators.noise.polynomial import PolynomialNoise
from sparsegpc._estimators.noise.process import GPNoise
from sparsegpc._estimators.noise.student_t import StudentTNoise
from sparsegpc._estimators.regressor import SparseGPRegressor
from sparsegpc._estimators.selector import InducingPointSelector
from sparsegpc._estimators.tables.normal_scores import NormalScores
from sparsegpc._estimators.tables.pipeline import tabular_pipeline
from sparsegpc._version import __version__

__all__ = [
    "BaseSparseGP",
    "BoundSearch",
    "Certificate",
    "ExcessNoise",
    "GPNoise",
    "HomoscedasticNoise",
    "InducingPointSelector",
    "LocalCorrection",
    "NormalScores",
    "PolynomialNoise",
    "SparseGPClassifier",
    "SparseGPGeneralizedRegressor",
    "SparseGPRegressor",
    "StochasticSparseGPClassifier",
    "StochasticSparseGPGeneralizedRegressor",
    "StochasticSparseGPRegressor",
    "StudentTNoise",
    "__version__",
    "displays",
    "distribute",
    "kernels",
    "likelihoods",
    "tabular_pipeline",
]
