"""Kernels by name, among them the default one, and the prior that ties their length scales."""

from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.gaussian_process import kernels as sk
from sklearn.utils._param_validation import StrOptions

from sparsegpc._core.models.prior import MeanOfOthersPrior, ProductPrior, TyingPrior
from sparsegpc._estimators.kernels.log_transform import LogTransform
from sparsegpc.kernels import Laplacian, MainEffects

STATIONARY = {
    "rbf": sk.RBF,
    "matern12": partial(sk.Matern, nu=0.5),
    "matern32": partial(sk.Matern, nu=1.5),
    "matern52": partial(sk.Matern, nu=2.5),
    "laplacian": Laplacian,
}
# The default, and kernels of functions that are rougher, in the order of their roughness.
DEFAULT = "rbf"
ROUGHER = (("matern32",), ("matern12", "laplacian"))
# Bounds of named kernels. They are wide, as separable classes need variances above 1e6, and an
# effect that is not needed must be able to vanish.
VARIANCE_BOUNDS, EFFECT_VARIANCE_BOUNDS = (1e-4, 1e9), (1e-10, 1e9)
LENGTH_SCALE_RANGE = (1e-3, 1e4)
# Kernels by name have a length scale for each column if at most FEW_COLUMNS vary. More of them need
# ROWS_PER_COLUMN times as many rows, or the bound decides; more than MOST_COLUMNS would take too
# long.
FEW_COLUMNS, MOST_COLUMNS, ROWS_PER_COLUMN = 100, 1000, 5
# Main effects of more columns would take too long to learn.
MOST_EFFECTS = 100
# At the start, the variance of all main effects together is this fraction of that of the rest, and
# their length scales are this fraction of the columns' units.
EFFECTS_SHARE, EFFECT_LENGTH = 0.3, 0.25
# The log length scale of a column whose other value no row has, minus the mean of those of columns
# like it. How much such a value can change depends on the mean square of inverse length scales,
# which is larger.
UNSEEN_OFFSET = -0.3
KERNEL_CONSTRAINTS = {
    "kernel": [sk.Kernel, StrOptions(set(STATIONARY)), None],
    "length_scales": [StrOptions({"auto", "tied", "free", "common"})],
    "main_effects": ["boolean", StrOptions({"auto"})],
}


def has_name(kernel, name):
    """Return whether a kernel is the stationary kernel of this name."""
    named = STATIONARY[name]()
    return type(kernel) is type(named) and getattr(kernel, "nu", None) == getattr(named, "nu", None)


class KernelChoice(NamedTuple):
    """The parameters of an estimator that specify its kernel and the prior of its length scales.

    ``transform`` is the `LogTransform` of the columns that the kernel sees, None if it sees them
    as they are.
    """

    kernel: sk.Kernel | str | None
    length_scales: str = "auto"
    main_effects: bool | str = False
    transform: LogTransform | None = None

    @classmethod
    def of(cls, estimator):
        """Return the choice that the parameters of an estimator make."""
        return cls(estimator.kernel, estimator.length_scales, estimator.main_effects)

    @property
    def is_named(self):
        """Whether the package chooses the start and the bounds of the hyperparameters."""
        return not isinstance(self.kernel, sk.Kernel)

    @property
    def kernel_name(self):
        """The name of a kernel by name."""
        return self.kernel or DEFAULT

    def resolve(self, spread, variance=1.0):
        """Return the kernel.

        A named kernel is a variance times a stationary kernel, and possibly main effects are added.
        Start and bounds of its length scales are relative to the `Spread` of the rows, and those of
        variances to `variance`, a number or one for each output.
        """
        if not self.is_named:
            return self.kernel
        lengths, n_columns = spread.distance, len(spread.deviations)
        if self._is_by_column(spread):
            lengths = spread.joint_scale * spread.units
        bounds = _variance_bounds(variance, VARIANCE_BOUNDS)
        constant = sk.ConstantKernel(float(np.mean(variance)), bounds)
        kernel = constant * STATIONARY[self.kernel_name](lengths, _length_bounds(lengths))
        if not self.main_effects or n_columns == 1:
            return kernel
        return kernel + self._effects(spread, variance)

    @property
    def ties_length_scales(self):
        """Whether the length scales of the columns have a prior that ties them."""
        return self.length_scales == "tied" or (self.length_scales == "auto" and self.is_named)

    def may_be_tied(self, spread):
        """Return whether length scales are common only because rows are few for so many columns."""
        is_open = self.is_named and self.length_scales == "auto"
        return is_open and 1 < spread.n_varying <= MOST_COLUMNS and not self._is_by_column(spread)

    def may_have_effects(self, spread):
        """Return whether a fit may add main effects to the kernel."""
        is_open = self.is_named and bool(self.main_effects)
        return is_open and 1 < spread.n_varying <= MOST_EFFECTS

    def _is_by_column(self, spread):
        if len(spread.deviations) == 1 or self.length_scales == "common":
            return False
        most = max(FEW_COLUMNS, min(MOST_COLUMNS, spread.n_rows // ROWS_PER_COLUMN))
        return self.length_scales != "auto" or spread.n_varying <= most

    def _effects(self, spread, variance):
        share = EFFECTS_SHARE * float(np.mean(variance)) / len(spread.deviations)
        if self._is_by_column(spread):
            lengths = EFFECT_LENGTH * spread.units
            share = np.full(len(lengths), share)
        else:
            lengths = EFFECT_LENGTH * spread.distance / spread.joint_scale
        bounds = _variance_bounds(variance, EFFECT_VARIANCE_BOUNDS)
        return MainEffects(share, lengths, bounds, _length_bounds(lengths))

    def prior(self, hyperparameters, spread):
        """Return the prior of the `Hyperparameters` of what `resolve` returned.

        Raises ValueError if a kernel object is not what `length_scales` and `main_effects` demand.
        """
        if not self.is_named:
            self._check_given(hyperparameters, len(spread.deviations))
        vectors = _entries_by_column(hyperparameters) if self.ties_length_scales else []
        tying = [_tying_prior(*each, spread) for each in vectors]
        of_unseen = [prior for each in vectors for prior in _priors_of_unseen(*each, spread)]
        return ProductPrior((*filter(None, tying), *of_unseen))

    def _check_given(self, hyperparameters, n_columns):
        if self.main_effects != "auto" and self.main_effects:
            raise ValueError(
                f"main_effects=True needs kernel to be None or a name, got kernel {self.kernel}: "
                "set main_effects=False, and add sparsegpc.kernels.MainEffects to the kernel"
            )
        if n_columns == 1:
            # One length scale is one for each column, and one for all.
            return
        has_column = any(isinstance(column, int) for column in hyperparameters.columns)
        if self.length_scales in ("tied", "free") and not has_column:
            raise ValueError(
                f"length_scales={self.length_scales!r} needs a length scale for each column, but "
                f"kernel {self.kernel} has none that is free: give a kernel with one for each "
                "column, for example RBF(length_scale=[1.0, 1.0]), or the name of a kernel"
            )
        if self.length_scales == "common" and has_column:
            raise ValueError(
                f"length_scales='common' needs one length scale for all columns, but kernel "
                f"{self.kernel} has one for each: give a kernel with a single length scale, or the "
                "name of a kernel"
            )


def _variance_bounds(variance, factors):
    """Return bounds of a variance: two factors times the least and the largest `variance`."""
    return float(np.min(variance) * factors[0]), float(np.max(variance) * factors[1])


def _length_bounds(lengths):
    """Return the bounds of length scales that begin at `lengths`, shape (2,) or (D, 2)."""
    return np.multiply.outer(lengths, LENGTH_SCALE_RANGE)


def _entries_by_column(hyperparameters):
    """Return a list of a pair for each hyperparameter of the kernel with a value for each column.

    The pair is a dict from columns to indices in theta, and whether the entries are length scales;
    otherwise they are variances of main effects.
    """
    vectors = {}
    for index, entry in enumerate(hyperparameters.entries):
        if isinstance(entry.column, int):
            indices, _ = vectors.setdefault(entry.vector, ({}, entry.is_length_scale))
            indices[entry.column] = index
    return list(vectors.values())


def _tying_prior(indices, are_lengths, spread):
    """Return the prior that ties the entries of the columns that vary, None unless several do."""
    columns = [column for column in indices if spread.varies[column]]
    if len(columns) < 2:
        return None
    units = np.log(spread.units[columns]) if are_lengths else np.zeros(len(columns))
    return TyingPrior(np.array([indices[d] for d in columns]), units)


def _priors_of_unseen(indices, are_lengths, spread):
    """Yield the priors of the entries of the columns whose other values no row has."""
    groups = {}
    for column, others in spread.unseen.items():
        if indices.keys() >= {column, *others}:
            groups.setdefault(tuple(others), []).append(column)
    for others, columns in groups.items():
        entries = np.array([indices[d] for d in (*columns, *others)])
        offset = UNSEEN_OFFSET if are_lengths else 0.0
        yield MeanOfOthersPrior(entries, offset, len(columns))
