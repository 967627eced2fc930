"""Translate scikit-learn's kernels into the core's kernels."""

from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sk

from sparsegpc._core.kernels import families
from sparsegpc._core.kernels.algebra import (
    FiniteDifferenceKernel,
    FreeKernel,
    OnColumns,
    Product,
    Scaled,
    Sum,
)
from sparsegpc._core.kernels.main_effects import MainEffects as MainEffectsNode
from sparsegpc._core.kernels.orthogonal_additive import OrthogonalAdditive as OrthogonalNode
from sparsegpc._core.numerics.floats import TINY
from sparsegpc._core.rows.sources import spaced_rows
from sparsegpc._estimators.kernels.hyperparameters import (
    LENGTH_SCALE,
    OFFSET,
    PERIOD,
    VARIANCE,
    Entry,
    Hyperparameters,
)
from sparsegpc._estimators.kernels.kernel_trees import ADDITIVE, walk
from sparsegpc.kernels import Columns, Laplacian, MainEffects, OrthogonalAdditive

NO_WHITE_NOISE = (
    "the likelihood already describes the noise of the targets, and inducing points cannot "
    "represent white noise in f"
)
RADIAL = {sk.RBF: families.RBF, Laplacian: families.Laplacian}
MATERN = {
    0.5: families.Matern12,
    1.5: families.Matern32,
    2.5: families.Matern52,
    np.inf: families.RBF,
}
# Hyperparameters that may be fixed at zero, which gives a DotProduct without offset.
MAY_VANISH = ("sigma_0",)
# Hyperparameters of scikit-learn that have the same role in any kernel.
KNOWN_BY_NAME = {"constant_value": VARIANCE, "sigma_0": OFFSET}
# Kernels whose `length_scale` divides distances between rows, or those along each column.
PER_COLUMN = (sk.RBF, sk.RationalQuadratic, Laplacian, OrthogonalAdditive)
# Where kernels come from that are not the user's own.
LIBRARIES = "sklearn", "sparsegpc"
# A user's kernel is checked at so many rows, and with logarithms of hyperparameters changed by so
# much. The relative tolerance leaves room for distances in single precision.
CHECKED_ROWS, NEARBY, DIAGONAL_TOLERANCE = 5, 0.1, 1e-3
# Rows of the matrices from which the diagonal of a PairwiseKernel is taken.
BLOCK_SIZE = 64


class _Parameters:
    """The hyperparameters of a kernel, fixed ones included, collected from its parts."""

    def __init__(self):
        self.values, self.free, self.entries = [], [], []

    def add(self, kernel, prefix, name, role=None, columns=(None,)):
        """Add a hyperparameter with a value for each of the `columns`; see `Entry` for these."""
        bounds = getattr(kernel, f"{name}_bounds")
        is_fixed = isinstance(bounds, str) and bounds == "fixed"
        smallest = 0.0 if is_fixed and name in MAY_VANISH else TINY
        self.values.extend(_log_values(kernel, name, len(columns), smallest))
        self.free.extend([not is_fixed] * len(columns))
        if is_fixed:
            return
        effect, vector = type(kernel) if type(kernel) in ADDITIVE else None, f"{prefix}{name}"
        for k, column in enumerate(columns):
            number = column if isinstance(column, int) else k
            has_number = isinstance(column, int) or len(columns) > 1
            indexed = f"{vector}[{number}]" if has_number else vector
            self.entries.append(Entry(indexed, role, column, effect, vector))


def _log_values(kernel, name, n_values, smallest):
    """Return the logarithms of the values of a hyperparameter, shape (n_values,).

    Raises ValueError unless they are that many finite numbers, none below the `smallest`.
    """
    given = getattr(kernel, name)
    numbers = _as_numbers(given)
    shapes = ((), (1,)) if n_values == 1 else ((n_values,),)
    in_range = np.isfinite(numbers) & (numbers >= smallest)
    if numbers.shape not in shapes or not in_range.all():
        form, example = "a positive, finite number", "1.0"
        if n_values > 1:
            form, example = f"{n_values} positive, finite numbers", "1.0 for each"
        raise ValueError(
            f"kernel: {type(kernel).__name__} has {name}={given!r}, but it must be {form}: "
            f"give for example {example}"
        )
    with np.errstate(divide="ignore"):
        return np.log(numbers.ravel())


def adapt_kernel(kernel, n_features, *, refuse_white=None, X=None):
    """Return the `Hyperparameters` of a scikit-learn kernel for data of `n_features` columns.

    Kernels without a branch in `_translate` are evaluated by scikit-learn and differentiated by
    finite differences. `refuse_white` is why a WhiteKernel is not allowed, None allows it. Raises
    ValueError if the kernel holds one nevertheless, is a CompoundKernel, has a number of length
    scales or variances that is neither one nor `n_features`, or if a user's kernel contradicts
    itself at some of the rows `X`; see `check_diagonal`.
    """
    parts = list(walk(kernel))
    if any(isinstance(part, sk.CompoundKernel) for part in parts):
        raise ValueError(
            "kernel is a CompoundKernel, which is several kernels side by side and no covariance "
            "of one function: use a sum or a product of kernels"
        )
    if refuse_white is not None and any(isinstance(part, sk.WhiteKernel) for part in parts):
        raise ValueError(
            f"kernel {kernel} holds a WhiteKernel, but {refuse_white}: leave the WhiteKernel out"
        )
    for part in parts:
        _check_bounds(part)
    parameters = _Parameters()
    if X is not None:
        check_diagonal(kernel, X)
    node = _translate(kernel, "", Seen(tuple(range(n_features)), True), parameters)
    free = np.array(parameters.free, dtype=bool)
    core = FreeKernel(node, np.array(parameters.values, dtype=np.float64), free)
    theta = np.array(kernel.theta, dtype=np.float64)
    with np.errstate(divide="ignore"):
        bounds = np.array(kernel.bounds, dtype=np.float64).reshape(-1, 2)
    no_change = np.zeros(len(theta))
    return Hyperparameters(core, theta, bounds, parameters.entries, theta, no_change)


def check_diagonal(kernel, X):
    """Raise ValueError if ``kernel.diag(X)`` is not the diagonal of ``kernel(X, X)`` at some rows.

    Only kernels that hold one of the user's own are checked, at their hyperparameters and at others
    nearby, since a forgotten variance of one does not show.
    """
    if all(type(part).__module__.partition(".")[0] in LIBRARIES for part in walk(kernel)):
        return
    rows = np.asarray(X[spaced_rows(X, CHECKED_ROWS)], dtype=np.float64)
    theta = np.array(kernel.theta, dtype=np.float64)
    with np.errstate(divide="ignore"):
        upper = np.array(kernel.bounds, dtype=np.float64).reshape(-1, 2)[:, 1]
    nearby = np.where(theta + NEARBY <= upper, theta + NEARBY, theta - NEARBY)
    for at_theta in (kernel, kernel.clone_with_theta(nearby)):
        diagonal = np.asarray(at_theta.diag(rows), dtype=np.float64)
        found = np.diagonal(at_theta(rows, rows))
        # Shapes are checked elsewhere, and white noise is on the diagonal of one set of rows only.
        if diagonal.shape == found.shape and _differ(diagonal, found):
            found = np.diagonal(at_theta(rows))
            if _differ(diagonal, found):
                k = int(np.argmax(np.abs(diagonal - found)))
                raise ValueError(
                    f"kernel {at_theta}: diag(X) is {diagonal[k]:.6g} at a row, but the diagonal "
                    f"of the kernel's matrix at the same row is {found[k]:.6g}, and both are the "
                    "prior variance there: correct the method diag, or __call__"
                )


def _differ(diagonal, found):
    """Return whether two diagonals differ by more than the rounding of single precision."""
    error = np.abs(diagonal - found)
    return bool((error > DIAGONAL_TOLERANCE * np.abs(found).max(initial=0.0)).any())


def _as_numbers(given):
    """Return an array of floats, or nan if `given` holds anything else."""
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        return np.array(np.nan)


def check_white(kernel):
    """Raise ValueError if a WhiteKernel has no positive variance, or no bounds."""
    _check_bounds(kernel)
    _Parameters().add(kernel, "", "noise_level")


def _check_bounds(kernel):
    """Raise ValueError if the bounds of a kernel are invalid; they may be zero or infinite."""
    for name, given in kernel.get_params(deep=False).items():
        if not name.endswith("_bounds") or (isinstance(given, str) and given == "fixed"):
            continue
        bounds = _as_numbers(given)
        n_values = _as_numbers(getattr(kernel, name.removesuffix("_bounds"), 1.0)).size
        right = bounds.ndim in (1, 2) and bounds.shape[-1] == 2
        right = right and (bounds.ndim == 1 or len(bounds) in (1, n_values))
        if not right or not ((bounds[..., 0] >= 0.0) & (bounds[..., 0] <= bounds[..., 1])).all():
            raise ValueError(
                f"kernel: {type(kernel).__name__} has bounds {given!r} for "
                f"{name.removesuffix('_bounds')}, but the lower bound must not exceed the upper "
                "one, and both must be positive: give such a pair, or 'fixed'"
            )


class Seen(NamedTuple):
    """The columns that a kernel sees, and whether they are all of them."""

    columns: tuple
    are_all: bool

    def part(self, columns):
        """Return what a kernel sees that is nested in a `Columns` with these indices."""
        return Seen(tuple(self.columns[k] for k in columns), False)

    @property
    def together(self):
        """What a common length scale belongs to, see `Entry`."""
        if self.are_all:
            return "all"
        return self.columns if len(self.columns) > 1 else self.columns[0]


def _translate(kernel, prefix, seen, parameters):
    """Return the core's node for `kernel`, adding its parameters in scikit-learn's order."""
    # Exact types: a subclass may compute something else.
    kind = type(kernel)
    if kind in (sk.Sum, sk.Product):
        left = _translate(kernel.k1, f"{prefix}k1__", seen, parameters)
        right = _translate(kernel.k2, f"{prefix}k2__", seen, parameters)
        if kind is sk.Sum:
            return Sum(left, right)
        n_constants = sum(isinstance(node, families.Constant) for node in (left, right))
        return Scaled(left, right) if n_constants == 1 else Product(left, right)
    if kind is Columns:
        columns = kernel._checked_columns(len(seen.columns))
        inner = _translate(kernel.kernel, f"{prefix}kernel__", seen.part(columns), parameters)
        return OnColumns(inner, columns)
    if kind is sk.ConstantKernel:
        parameters.add(kernel, prefix, "constant_value", VARIANCE)
        return families.Constant()
    if kind is sk.DotProduct:
        parameters.add(kernel, prefix, "sigma_0", OFFSET)
        return families.DotProduct()
    if kind is sk.ExpSineSquared:
        parameters.add(kernel, prefix, "length_scale")
        parameters.add(kernel, prefix, "periodicity", PERIOD, (seen.columns,))
        return families.ExpSineSquared()
    if kind is sk.RationalQuadratic:
        parameters.add(kernel, prefix, "alpha")
        parameters.add(kernel, prefix, "length_scale", LENGTH_SCALE, (seen.together,))
        return families.RationalQuadratic()
    radial = MATERN.get(kernel.nu) if kind is sk.Matern else RADIAL.get(kind)
    if radial is not None:
        columns = _columns(kernel, "length_scale", seen)
        parameters.add(kernel, prefix, "length_scale", LENGTH_SCALE, columns)
        return radial(len(columns))
    if kind is MainEffects:
        columns = [_columns(kernel, name, seen) for name in ("length_scale", "variance")]
        parameters.add(kernel, prefix, "length_scale", LENGTH_SCALE, columns[0])
        parameters.add(kernel, prefix, "variance", VARIANCE, columns[1])
        return MainEffectsNode(len(columns[0]), len(columns[1]))
    if kind is OrthogonalAdditive:
        columns = _columns(kernel, "length_scale", seen)
        order, means, deviations = kernel._checked_settings(len(seen.columns))
        parameters.add(kernel, prefix, "length_scale", LENGTH_SCALE, columns)
        parameters.add(kernel, prefix, "variance", VARIANCE, (None,) * order)
        return OrthogonalNode(len(columns), order, means, deviations)
    return _by_values(kernel, prefix, parameters)


def _columns(kernel, name, seen):
    """Return what the values of a hyperparameter belong to, see `Entry`."""
    n_features = len(seen.columns)
    n_values, plural = _as_numbers(getattr(kernel, name)).size, name.replace("_", " ") + "s"
    if n_values == 1:
        return (seen.together,)
    if n_values != n_features:
        rows = "X" if seen.are_all else "the part of X that it sees"
        raise ValueError(
            f"kernel: {type(kernel).__name__} with {name}={getattr(kernel, name)} has "
            f"{n_values} {plural}, but {rows} has {n_features} columns: "
            f"give one {plural[:-1]}, or one for each column"
        )
    return seen.columns


def _by_values(kernel, prefix, parameters):
    # A fitted model must not change when the user changes the kernel.
    kernel = clone(kernel)
    theta = np.array(kernel.theta, dtype=np.float64)
    parameters.values.extend(theta)
    parameters.free.extend([True] * len(theta))
    for hyperparameter in kernel.hyperparameters:
        if not hyperparameter.fixed:
            n, vector = hyperparameter.n_elements, f"{prefix}{hyperparameter.name}"
            names = [vector] if n == 1 else [f"{vector}[{k}]" for k in range(n)]
            # Of kernels that are evaluated as a whole, nothing but the names is known.
            role = KNOWN_BY_NAME.get(hyperparameter.name.split("__")[-1]) if n == 1 else None
            parameters.entries.extend(Entry(name, role, vector=vector) for name in names)
    values = partial(_values, kernel)
    return FiniteDifferenceKernel(values, values, len(theta), str(kernel))


def _values(kernel, theta, *rows):
    """Return the values of a kernel at rows Z and X, shape (M, N), or its diagonal at rows X."""
    at_theta = kernel.clone_with_theta(theta)
    values = at_theta(*rows) if len(rows) == 2 else _diagonal(at_theta, *rows)
    # Solves overwrite the result, and the kernel may return an array that it keeps.
    values = np.array(values, dtype=np.float64)
    expected = tuple(map(len, rows))
    if values.shape != expected:
        raise ValueError(
            f"kernel {kernel} returned an array of shape {values.shape} for "
            f"{' and '.join(map(str, expected))} rows, expected {expected}"
        )
    return values


def _diagonal(kernel, X):
    """Return the diagonal at rows X; if it holds a PairwiseKernel, from matrices of few rows.

    scikit-learn evaluates the diagonal of a PairwiseKernel row by row, which is slow.
    """
    metrics = [part.metric for part in walk(kernel) if type(part) is sk.PairwiseKernel]
    # A function is called for each pair of rows, so matrices would be slower.
    if not metrics or any(map(callable, metrics)):
        return kernel.diag(X)
    blocks = [X[start : start + BLOCK_SIZE] for start in range(0, len(X), BLOCK_SIZE)]
    return np.concatenate([np.diagonal(kernel(block)) for block in blocks])
