"""The hyperparameters of a model: start values, bounds, and what each of them belongs to."""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.kernels.algebra import FreeKernel

# The mean variance of f at this many rows stands for that at all rows.
SOME_ROWS = 100


class Hyperparameters(NamedTuple):
    """The core's kernel, and a description of the hyperparameters theta of it and the likelihood.

    ``kernel`` : FreeKernel, to which the first entries of theta belong.
    ``theta`` (P,), ``bounds`` (P, 2) : start values and limits, logarithms as in scikit-learn.
    ``names`` : name of each entry of theta, with the column in brackets if it has one.
    ``columns`` : for each entry of theta, the column that it is the length scale of, "all" for
    the common length scale of all columns, a tuple for that of some columns, None for anything
    else.
    ``rescaled`` (P,) : theta, with variances that suit the targets if their scale is known.
    ``effects`` : for each entry of theta, the class of `ADDITIVE` that it is a length scale or
    variance of, None for anything else.
    ``to_little_noise`` (P,) : change of theta to where there is little noise.
    """

    kernel: FreeKernel
    theta: np.ndarray
    bounds: np.ndarray
    names: list
    columns: list
    rescaled: np.ndarray
    effects: list
    to_little_noise: np.ndarray

    def rescaled_to(self, variance, X):
        """Return a copy with `rescaled` such that f has the given variance at rows X.

        All variances, those of ConstantKernel and of `ADDITIVE`, are multiplied by the same factor.
        It suits a sum of kernels with one of these in each summand.
        """
        before = float(np.mean(self.kernel.diag(self.theta, X[:SOME_ROWS])))
        if not 0.0 < before < np.inf:
            return self
        step = np.log(variance) - np.log(before)
        is_variance = [
            name.endswith("constant_value") or (effect is not None and column is None)
            for name, column, effect in zip(self.names, self.columns, self.effects, strict=True)
        ]
        moved = self.theta + step * np.array(is_variance, dtype=np.float64)
        return self._replace(rescaled=np.clip(moved, *self.bounds.T))

    def extended(self, theta, bounds, names, to_little_noise=0.0):
        """Return these hyperparameters followed by others, which belong to no column."""
        change = np.broadcast_to(to_little_noise, len(names))
        return self._replace(
            theta=np.concatenate([self.theta, theta]),
            rescaled=np.concatenate([self.rescaled, theta]),
            bounds=np.concatenate([self.bounds, bounds]),
            names=[*self.names, *names],
            columns=[*self.columns, *[None] * len(names)],
            effects=[*self.effects, *[None] * len(names)],
            to_little_noise=np.concatenate([self.to_little_noise, change]),
        )

    def with_likelihood(self, model):
        """Return these hyperparameters followed by those of a model's likelihood for each output.

        Raises ValueError if the initial values of the likelihood are not within its bounds.
        """
        joined, likelihood, weight = self, model.likelihood, model.weight
        for k, y in enumerate(model.targets):
            start = likelihood.initial_params(y, weight)
            bounds = likelihood.params_bounds(y, weight)
            _check_start(likelihood, start, bounds)
            suffix = "" if len(model.targets) == 1 else f" of output {k}"
            names = [name + suffix for name in likelihood.params_names()]
            joined = joined.extended(start, bounds, names, likelihood.to_little_noise)
        return joined


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
