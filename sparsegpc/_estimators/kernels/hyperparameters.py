"""The hyperparameters of a model: start values, bounds, and what each of them belongs to."""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.kernels.algebra import FreeKernel
from sparsegpc._core.learning.maximization import AT_BOUND

# The mean variance of f at this many rows stands for that at all rows.
SOME_ROWS = 100
# What an entry of theta may be. The offset is that of a DotProduct.
LENGTH_SCALE, VARIANCE, PERIOD, OFFSET = "length scale", "variance", "period", "offset"


class Entry(NamedTuple):
    """What an entry of theta is.

    ``name``
        The name in messages: that of the hyperparameter in scikit-learn's kernel, with an index in
        brackets if it has several values, or that of a parameter of the likelihood.
    ``role``
        `LENGTH_SCALE`, `VARIANCE`, `PERIOD` or `OFFSET`; None for anything else.
    ``column``
        The column that it belongs to; a tuple for several of them, "all" for all, None for none.
    ``effect``
        The class of `ADDITIVE` that it is a length scale or a variance of; None for anything else.
    ``vector``
        The name of the hyperparameter without an index, which all of its values share.
    ``at_limit``
        A dict of what it implies if it ends at its "lower" or "upper" limit, for a warning; None
        suppresses the warning.
    """

    name: str
    role: str | None = None
    column: int | str | tuple | None = None
    effect: type | None = None
    vector: str = ""
    at_limit: dict = {}

    @property
    def is_length_scale(self):
        return self.role == LENGTH_SCALE

    @property
    def is_variance(self):
        """Whether it is the variance of a ConstantKernel or of a kernel of `ADDITIVE`."""
        return self.role == VARIANCE


class Hyperparameters(NamedTuple):
    """The core's kernel, and a description of the hyperparameters theta of it and the likelihood.

    ``kernel`` : FreeKernel, to which the first entries of theta belong.
    ``theta`` (P,), ``bounds`` (P, 2) : start values and limits, logarithms as in scikit-learn.
    ``entries`` : an `Entry` for each entry of theta.
    ``rescaled`` (P,) : theta, with variances that suit the targets if their scale is known.
    ``to_little_noise`` (P,) : change of theta to where there is little noise.
    """

    kernel: FreeKernel
    theta: np.ndarray
    bounds: np.ndarray
    entries: list
    rescaled: np.ndarray
    to_little_noise: np.ndarray

    @property
    def names(self):
        return [entry.name for entry in self.entries]

    @property
    def columns(self):
        """What each length scale belongs to, see `Entry`; None for the other entries."""
        return [entry.column if entry.is_length_scale else None for entry in self.entries]

    @property
    def has_length_scales(self):
        return any(entry.is_length_scale for entry in self.entries)

    def at_limits(self, best):
        """Yield the index and the side of each entry at a limit beyond which the bound still rises.

        `best` is the `Evaluation` at the end of a search, with its gradient; the side is "lower" or
        "upper". Fixed entries, whose limits are equal, are left out.
        """
        for k, (value, slope) in enumerate(zip(best.theta, best.grad_theta, strict=True)):
            low, high = self.bounds[k]
            if low == high:
                continue
            if value - low < AT_BOUND and slope < 0.0:
                yield k, "lower"
            elif high - value < AT_BOUND and slope > 0.0:
                yield k, "upper"

    def rescaled_to(self, variance, X):
        """Return a copy with `rescaled` such that f has the given variance at rows X.

        All variances are multiplied by the same factor, which suits a sum of kernels with one of
        them in each summand.
        """
        before = float(np.mean(self.kernel.diag(self.theta, X[:SOME_ROWS])))
        if not 0.0 < before < np.inf:
            return self
        step = np.log(variance) - np.log(before)
        moved = self.theta + step * np.array([float(entry.is_variance) for entry in self.entries])
        return self._replace(rescaled=np.clip(moved, *self.bounds.T))

    def extended(self, theta, bounds, entries, to_little_noise=0.0):
        """Return these hyperparameters followed by others."""
        change = np.broadcast_to(to_little_noise, len(entries))
        return self._replace(
            theta=np.concatenate([self.theta, theta]),
            rescaled=np.concatenate([self.rescaled, theta]),
            bounds=np.concatenate([self.bounds, bounds]),
            entries=[*self.entries, *entries],
            to_little_noise=np.concatenate([self.to_little_noise, change]),
        )

    def with_likelihood(self, model, at_limits=None):
        """Return these hyperparameters followed by those of a model's likelihood for each output.

        `at_limits` is a list of the ``at_limit`` of each parameter, see `Entry`; None takes that of
        the likelihood, if it has one. Raises ValueError if the initial values of the likelihood are
        not within its bounds.
        """
        joined, likelihood, weight = self, model.likelihood, model.weight
        for k, y in enumerate(model.targets):
            start = likelihood.initial_params(y, weight)
            bounds = likelihood.params_bounds(y, weight)
            _check_start(likelihood, start, bounds)
            suffix = "" if len(model.targets) == 1 else f" of output {k}"
            names = likelihood.params_names()
            limits = at_limits or [getattr(likelihood, "at_limit", {})] * len(names)
            entries = [
                Entry(name + suffix, at_limit=at_limit)
                for name, at_limit in zip(names, limits, strict=True)
            ]
            joined = joined.extended(start, bounds, entries, likelihood.to_little_noise)
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
