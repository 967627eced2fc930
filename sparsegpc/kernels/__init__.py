"""Kernels for Gaussian processes, in addition to those of scikit-learn."""

from sparsegpc.kernels._columns import Columns
from sparsegpc.kernels._laplacian import Laplacian
from sparsegpc.kernels._main_effects import MainEffects
from sparsegpc.kernels._orthogonal_additive import OrthogonalAdditive

__all__ = ["Columns", "Laplacian", "MainEffects", "OrthogonalAdditive"]
