"""Pictures of fitted models, in the manner of scikit-learn's displays.

Each is made by its ``from_estimator`` and drawn again by its ``plot``. They need matplotlib, which
is imported when a picture is drawn.
"""

from sparsegpc.displays._convergence import ConvergenceDisplay
from sparsegpc.displays._inducing_points import InducingPointsDisplay
from sparsegpc.displays._regression import RegressionDisplay
from sparsegpc.displays._sparsity import SparsityDisplay

__all__ = [
    "ConvergenceDisplay",
    "InducingPointsDisplay",
    "RegressionDisplay",
    "SparsityDisplay",
]
