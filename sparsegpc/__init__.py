"""Sparse Gaussian process classification for scikit-learn."""

from sparsegpc._classifier import SparseGPClassifier
from sparsegpc._selector import InducingPointSelector

__all__ = ["InducingPointSelector", "SparseGPClassifier", "__version__"]

__version__ = "0.1.0.dev0"
