"""Plots of fitted models, with the interface of scikit-learn's displays.

The class method ``from_estimator`` computes and draws a display; ``plot`` draws it again. The
displays need matplotlib, which they import when they draw.
"""

from sparsegpc.displays._convergence import ConvergenceDisplay
from sparsegpc.displays._effects import EffectsDisplay
from sparsegpc.displays._inducing_points import InducingPointsDisplay
from sparsegpc.displays._regression import RegressionDisplay
from sparsegpc.displays._sparsity import SparsityDisplay

__all__ = [
    "ConvergenceDisplay",
    "EffectsDisplay",
    "InducingPointsDisplay",
    "RegressionDisplay",
    "SparsityDisplay",
]
