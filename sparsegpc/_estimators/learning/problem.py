"""A problem to learn: rows, a kernel and a likelihood, with the parameters of both."""

from typing import NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.sources import RowSource
from sparsegpc._core.rows.unique_rows import UniqueRows
from sparsegpc._estimators.kernels.log_transform import LogTransform
from sparsegpc._estimators.kernels.sklearn_kernels import AdaptedKernel
from sparsegpc._estimators.kernels.spread import Spread


class Problem(NamedTuple):
    """The inputs of the search.

    ``rows`` are `UniqueRows`; ``places`` (N,) are the indices of the user's rows from which they
    are merged; ``spread`` holds their distances; ``kernel`` is scikit-learn's kernel of f;
    ``parameters`` is an `AdaptedKernel`, extended by the parameters of the likelihood; ``model`` is
    the core's model; ``progress`` records the evaluations. ``transform`` is the `LogTransform`
    that the columns have in all of these, or None, and ``untransformed_X`` (N, D) holds the rows
    without it.
    """

    rows: UniqueRows
    places: np.ndarray
    spread: Spread
    kernel: Kernel
    parameters: AdaptedKernel
    model: SparseModel
    progress: Progress
    transform: LogTransform | None
    untransformed_X: np.ndarray | RowSource

    @property
    def offset(self):
        """The constant that converts the model's bound to the user's units by addition, in nats."""
        return self.progress.offset * self.model.total_weight

    def untransformed(self, points):
        """Return the locations of `InducingPoints` in the user's columns, shape (M, D)."""
        if self.transform is None:
            return points.Z
        if points.indices is None:
            return self.transform.inverse(points.Z)
        return self.untransformed_X[self.rows.first[points.indices]]


def with_likelihood(parameters, model):
    """Return an `AdaptedKernel` extended by the likelihood's parameters for each output.

    Raises ValueError if the initial values of a likelihood are not within its bounds.
    """
    likelihood, weight = model.likelihood, model.weight
    for k, y in enumerate(model.targets):
        start, bounds = likelihood.initial_params(y, weight), likelihood.params_bounds(y, weight)
        _check_start(likelihood, start, bounds)
        suffix = "" if len(model.targets) == 1 else f" of output {k}"
        names = [name + suffix for name in likelihood.params_names()]
        parameters = parameters.extended(start, bounds, names, likelihood.to_little_noise)
    return parameters


def _check_start(likelihood, start, bounds):
    """Raise ValueError if initial parameters of a likelihood are not within their bounds."""
    name, n_params = type(likelihood).__name__, likelihood.n_params
    for method, value, shape in (
        ("initial_params", start, (n_params,)),
        ("params_bounds", bounds, (n_params, 2)),
    ):
        if np.shape(value) != shape:
            raise ValueError(
                f"{name}.{method} must return an array of shape {shape}, as {name}.n_params is "
                f"{n_params}, got shape {np.shape(value)}"
            )
    start, (low, high) = np.asarray(start), np.asarray(bounds).T
    if not ((low <= start) & (start <= high) & np.isfinite(start)).all():
        raise ValueError(
            f"{name}.initial_params must be finite and within {name}.params_bounds, got "
            f"{start.tolist()} for the bounds {np.asarray(bounds).tolist()}: change one of them"
        )
