"""From scikit-learn's kernel objects to the core's kernels, start values included."""

import numbers
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from sklearn.gaussian_process import kernels as sk

from sparsegpc._core.kernels import families
from sparsegpc._core.kernels.algebra import FiniteDifferenceKernel, FreeKernel, Product, Scaled, Sum
from sparsegpc._core.rows.sources import RowSource, column_deviations, spaced_rows
from sparsegpc._estimators.input.validation import refuse_overflow

MATERN = {0.5: families.Matern12, 1.5: families.Matern32, 2.5: families.Matern52}

# Bounds of the default kernel: wide, since separable classes want a variance of 1e6 and more.
VARIANCE_BOUNDS = (1e-4, 1e9)
LENGTH_SCALE_RANGE = (1e-3, 1e4)
# Distance of the quartiles of a Gaussian, in standard deviations.
GAUSSIAN_QUARTILES = 1.349
EXTREME = 10.0
# Rows whose quartiles stand for those of rows that are not all read at once.
QUARTILE_ROWS = 10_000
# Values of columns whose spread is measured at once, of at least one.
SPREAD_VALUES = 2**20
# Hyperparameters that may be fixed at zero: DotProduct without its offset.
MAY_VANISH = ("sigma_0",)
TINY = np.finfo(np.float64).tiny
# Of the spread of columns. Further ones depend on the order of a sum.
SPREAD_BITS = 40


class AdaptedKernel(NamedTuple):
    """A kernel for the core, and what its free parameters are.

    ``kernel`` : FreeKernel
    ``theta`` (P,), ``bounds`` (P, 2) : logarithms, as in scikit-learn.
    ``names`` : name of each entry of theta, with the column in brackets if it has one.
    ``columns`` : for each entry of theta, the column that it is the length scale of, "all" for
    the common length scale of all columns, None for anything else.
    """

    kernel: FreeKernel
    theta: np.ndarray
    bounds: np.ndarray
    names: list
    columns: list

    def extended(self, theta, bounds, names):
        """Return these parameters with others, of no column, behind them."""
        return self._replace(
            theta=np.concatenate([self.theta, theta]),
            bounds=np.concatenate([self.bounds, bounds]),
            names=[*self.names, *names],
            columns=[*self.columns, *[None] * len(names)],
        )


class _Parameters:
    """Parameters collected while the tree is walked."""

    def __init__(self):
        self.values, self.free, self.names, self.columns = [], [], [], []

    def add(self, kernel, prefix, name, columns=(None,)):
        given = getattr(kernel, name)
        shape = () if len(columns) == 1 else (len(columns),)
        try:
            hyperparameters = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            hyperparameters = np.array(np.nan)
        fixed = _is_fixed(kernel, name)
        smallest = 0.0 if fixed and name in MAY_VANISH else TINY
        right = hyperparameters.shape == shape or hyperparameters.size == 1 == len(columns)
        if not right or not (np.isfinite(hyperparameters) & (hyperparameters >= smallest)).all():
            raise ValueError(
                f"kernel: {type(kernel).__name__} has {name}={given!r}, but hyperparameters must "
                f"be positive and finite: give {'a number' if shape == () else 'one per column'}, "
                "for example 1.0"
            )
        hyperparameters = hyperparameters.ravel()
        with np.errstate(divide="ignore"):
            values = np.log(hyperparameters)
        for value, column in zip(values, columns, strict=True):
            self.values.append(value)
            self.free.append(not fixed)
            if not fixed:
                label = f"[{column}]" if isinstance(column, int) else ""
                self.names.append(f"{prefix}{name}{label}")
                self.columns.append(column)


def adapt_kernel(kernel, n_features, *, refuse_white=None):
    """Translate a scikit-learn kernel for data of `n_features` columns.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        ConstantKernel, RBF, Matern with nu 0.5, 1.5, 2.5 or inf, RationalQuadratic,
        ExpSineSquared, DotProduct, and sums and products of them have derivatives of their own.
        Any other is used through its values, and its derivatives are finite differences.
    n_features : int
    refuse_white : str or None
        Why a WhiteKernel has no place here; None lets it pass.

    Returns
    -------
    AdaptedKernel

    Raises
    ------
    TypeError
        If `kernel` is not a kernel of scikit-learn's interface.
    ValueError
        If it holds a WhiteKernel and `refuse_white` is given, is a CompoundKernel, or has a
        number of length scales that is neither one nor `n_features`.
    """
    if not isinstance(kernel, sk.Kernel):
        raise TypeError(
            "kernel must be None or an instance of sklearn.gaussian_process.kernels.Kernel, got "
            f"{kernel!r}"
        )
    parts = list(_walk(kernel))
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
        _check_settings(part)
        _check_bounds(part)
    parameters = _Parameters()
    node = _translate(kernel, "", n_features, parameters)
    free = np.array(parameters.free, dtype=bool)
    core = FreeKernel(node, np.array(parameters.values, dtype=np.float64), free)
    theta = np.array(kernel.theta, dtype=np.float64)
    with np.errstate(divide="ignore"):
        bounds = np.array(kernel.bounds, dtype=np.float64).reshape(-1, 2)
    return AdaptedKernel(core, theta, bounds, parameters.names, parameters.columns)


def _is_fixed(kernel, name):
    bounds = getattr(kernel, f"{name}_bounds")
    return isinstance(bounds, str) and bounds == "fixed"


def check_white(kernel):
    """Raise ValueError if a WhiteKernel has no positive variance, or no bounds."""
    _check_bounds(kernel)
    _Parameters().add(kernel, "", "noise_level")


def _check_settings(kernel):
    """Raise ValueError if what is no hyperparameter of a part of a kernel is wrong."""
    for name in ("k1", "k2"):
        part = getattr(kernel, name, None)
        if isinstance(kernel, sk.KernelOperator) and not isinstance(part, sk.Kernel):
            raise ValueError(
                f"kernel: {type(kernel).__name__} has {name}={part!r}, but it must be a kernel: "
                "give an instance, for example RBF()"
            )
    settings = {sk.Matern: ("nu", np.inf), sk.Exponentiation: ("exponent", TINY**-1)}
    if type(kernel) in settings:
        name, largest = settings[type(kernel)]
        value = getattr(kernel, name)
        if not isinstance(value, numbers.Real) or not 0.0 < value <= largest:
            raise ValueError(
                f"kernel: {type(kernel).__name__} has {name}={value!r}, but it must be a positive "
                "number: give for example 1.5"
            )


def _check_bounds(kernel):
    """Raise ValueError if bounds of a part of a kernel are none; they may be zero or infinite."""
    for name, given in kernel.get_params(deep=False).items():
        if not name.endswith("_bounds") or (isinstance(given, str) and given == "fixed"):
            continue
        try:
            bounds = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            bounds = np.array(np.nan)
        n_values = np.size(getattr(kernel, name.removesuffix("_bounds"), 1.0))
        right = bounds.ndim in (1, 2) and bounds.shape[-1] == 2
        right = right and (bounds.ndim == 1 or len(bounds) in (1, n_values))
        if not right or not ((bounds[..., 0] >= 0.0) & (bounds[..., 0] <= bounds[..., 1])).all():
            raise ValueError(
                f"kernel: {type(kernel).__name__} has bounds {given!r} for "
                f"{name.removesuffix('_bounds')}, but the lower bound must not exceed the upper "
                "one, and both must be positive: give such a pair, or 'fixed'"
            )


def split_white(kernel):
    """Split a kernel into a kernel without WhiteKernel summands, and a list of these.

    The first is None if nothing else is left. A WhiteKernel within a product stays where it is.
    """
    if type(kernel) is sk.WhiteKernel:
        return None, [kernel]
    if type(kernel) is not sk.Sum:
        return kernel, []
    (left, whites), (right, more) = split_white(kernel.k1), split_white(kernel.k2)
    if not whites and not more:
        return kernel, []
    rest = left + right if left is not None and right is not None else left or right
    return rest, [*whites, *more]


def kernel_structure(kernel):
    """Return what must agree for a kernel to take over the hyperparameters of another."""
    parts = [type(part).__name__ for part in _walk(kernel)]
    free = [(h.name, h.n_elements) for h in kernel.hyperparameters if not h.fixed]
    return parts, free


def _walk(kernel):
    """Yield `kernel` and all kernels that it is made of."""
    yield kernel
    for value in kernel.get_params(deep=False).values():
        if isinstance(value, sk.Kernel):
            yield from _walk(value)


def _translate(kernel, prefix, n_features, parameters):
    """Return the core's node for `kernel`, adding its parameters in scikit-learn's order."""
    # Exact types: a subclass may compute something else.
    kind = type(kernel)
    if kind in (sk.Sum, sk.Product):
        left = _translate(kernel.k1, f"{prefix}k1__", n_features, parameters)
        right = _translate(kernel.k2, f"{prefix}k2__", n_features, parameters)
        if kind is sk.Sum:
            return Sum(left, right)
        n_constants = sum(isinstance(node, families.Constant) for node in (left, right))
        return Scaled(left, right) if n_constants == 1 else Product(left, right)
    if kind is sk.ConstantKernel:
        parameters.add(kernel, prefix, "constant_value")
        return families.Constant()
    if kind is sk.DotProduct:
        parameters.add(kernel, prefix, "sigma_0")
        return families.DotProduct()
    if kind is sk.ExpSineSquared:
        parameters.add(kernel, prefix, "length_scale")
        parameters.add(kernel, prefix, "periodicity")
        return families.ExpSineSquared()
    if kind is sk.RationalQuadratic:
        parameters.add(kernel, prefix, "alpha")
        parameters.add(kernel, prefix, "length_scale", ("all",))
        return families.RationalQuadratic()
    if kind is sk.RBF or (kind is sk.Matern and kernel.nu in (*MATERN, np.inf)):
        columns = _length_scale_columns(kernel, n_features)
        parameters.add(kernel, prefix, "length_scale", columns)
        node = MATERN[kernel.nu] if kind is sk.Matern and kernel.nu in MATERN else families.RBF
        return node(len(columns))
    return _by_values(kernel, prefix, parameters)


def _length_scale_columns(kernel, n_features):
    n_length_scales = np.size(kernel.length_scale)
    if n_length_scales == 1:
        return ("all",)
    if n_length_scales != n_features:
        raise ValueError(
            f"kernel: {type(kernel).__name__} with length_scale={kernel.length_scale} has "
            f"{n_length_scales} length scales, but X has {n_features} columns: "
            "give one length scale, or one for each column"
        )
    return tuple(range(n_features))


def _by_values(kernel, prefix, parameters):
    theta = np.array(kernel.theta, dtype=np.float64)
    parameters.values.extend(theta)
    parameters.free.extend([True] * len(theta))
    for hyperparameter in kernel.hyperparameters:
        if not hyperparameter.fixed:
            n = hyperparameter.n_elements
            labels = [""] if n == 1 else [f"[{k}]" for k in range(n)]
            parameters.names.extend(f"{prefix}{hyperparameter.name}{label}" for label in labels)
            parameters.columns.extend([None] * n)
    return FiniteDifferenceKernel(
        _KernelValue(kernel), _KernelDiag(kernel), len(theta), str(kernel)
    )


@contextmanager
def _evaluating(kernel):
    """Say of errors that only a kernel's settings can be the cause of, whose they are."""
    try:
        yield
    except (LookupError, NameError, TypeError) as error:
        raise ValueError(
            f"kernel {kernel} cannot be evaluated at arrays of two rows or more and as many "
            f"columns as X has, {type(error).__name__}: {error}; check its parameters"
        ) from error


class _KernelValue:
    """``value(params, Z, X)`` of a scikit-learn kernel."""

    def __init__(self, kernel):
        self._kernel = kernel

    def __call__(self, params, Z, X):
        with _evaluating(self._kernel):
            K = np.asarray(self._kernel.clone_with_theta(params)(Z, X), dtype=np.float64)
        if K.shape != (len(Z), len(X)):
            raise ValueError(
                f"kernel {self._kernel} returned an array of shape {K.shape} for {len(Z)} and "
                f"{len(X)} rows, expected {(len(Z), len(X))}"
            )
        # Results are overwritten by solves; the kernel may hand out an array that it keeps.
        return K.copy()


class _KernelDiag(_KernelValue):
    """``diag(params, X)`` of a scikit-learn kernel."""

    def __call__(self, params, X):
        with _evaluating(self._kernel):
            diag = np.array(self._kernel.clone_with_theta(params).diag(X), dtype=np.float64)
        if diag.shape != (len(X),):
            raise ValueError(
                f"kernel {self._kernel} returned a diagonal of shape {diag.shape} for {len(X)} "
                f"rows, expected {(len(X),)}"
            )
        return diag


class Spread(NamedTuple):
    """How far rows lie apart: the standard deviation of each column, and a typical distance.

    ``columns`` (D,), standard deviations, or what they would be for a Gaussian column with these
    quartiles where a few extreme values make that `EXTREME` times less. ``distance``, the root mean
    square distance of two rows that spread so. Both are 1 where nothing varies. ``varies`` (D,)
    says which columns do.
    """

    columns: np.ndarray
    distance: float
    varies: np.ndarray


def measure_spread(X, weight):
    """Return the `Spread` of rows `X` of shape (N, D) with weights of shape (N,).

    Of a `RowSource` quartiles are those of `QUARTILE_ROWS` rows, evenly spaced, so that no more of
    them are read at once; deviations and ranges are those of all rows. Raises ValueError if values
    are too large, or differences too small, to be squared.
    """
    varies = X.max(axis=0) > X.min(axis=0)
    refuse_overflow(X, "X", varies)
    if not varies.any():
        return Spread(np.ones(X.shape[1]), 1.0, varies)
    if isinstance(X, RowSource):
        few = spaced_rows(X, QUARTILE_ROWS)
        quartiles = _quartiles(X[few], weight[few])
        low, high = quartiles[0][varies], quartiles[2][varies]
        deviation = column_deviations(X, weight, quartiles[1])[varies]
    else:
        columns = np.flatnonzero(varies)
        # Some columns at a time, since it takes several arrays of their size.
        parts = np.array_split(columns, -(-len(columns) // max(1, SPREAD_VALUES // len(X))))
        low, high, deviation = np.concatenate(
            [_spread_of(X[:, part], weight) for part in parts], axis=1
        )
    if not deviation.any():
        raise ValueError(
            "the columns of X vary by so little that the square underflows: scale the columns, for "
            "example with StandardScaler"
        )
    from_quartiles = (high - low) / GAUSSIAN_QUARTILES
    extreme = (low < high) & (deviation > EXTREME * from_quartiles)
    deviation = np.where(extreme, from_quartiles, deviation)
    columns = np.ones(len(varies))
    columns[varies] = _short(deviation)
    return Spread(columns, float(_short(np.sqrt(2.0) * np.linalg.norm(deviation))), varies)


def _short(values):
    """Return `values` to `SPREAD_BITS` bits, so that searches on rows anywhere start alike."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * 2.0**SPREAD_BITS), exponent - SPREAD_BITS)


def _spread_of(X, weight):
    """Return the lower and upper quartile and the deviation of each column."""
    low, middle, high = _quartiles(X, weight)
    return low, high, _deviations(X, weight, middle)


def _deviations(X, weight, median):
    # From the median, which is among the many: an extreme reference would cost them their digits.
    moved, share = X - median, weight / weight.sum()
    return np.sqrt(share @ (moved - share @ moved) ** 2)


def _quartiles(X, weight):
    share = weight / weight.sum()
    return [_weighted_quantile(X, share, q) for q in (0.25, 0.5, 0.75)]


def _weighted_quantile(X, share, q):
    """Return for each column the smallest value with at least a share `q` of the rows up to it."""
    order = X.argsort(axis=0, kind="stable")
    reached = np.cumsum(share[order], axis=0) >= q * (1.0 - 1e-12)
    return np.take_along_axis(np.take_along_axis(X, order, axis=0), reached.argmax(0)[None], 0)[0]


def default_kernel(spread, variance=1.0):
    """Return the kernel that None stands for: a variance times RBF with one length scale.

    Start and bounds of the length scale are relative to the typical distance of two rows, those of
    the variance to `variance`, one number or one for each output: it may vanish beside any of them.
    """
    low, high = (factor * spread.distance for factor in LENGTH_SCALE_RANGE)
    bounds = VARIANCE_BOUNDS[0] * np.min(variance), VARIANCE_BOUNDS[1] * np.max(variance)
    constant = sk.ConstantKernel(float(np.mean(variance)), tuple(map(float, bounds)))
    return constant * sk.RBF(spread.distance, (low, high))


def column_relevance(kernel, spread):
    """Return how many length scales each column spans, shape (D,), or None without length scales.

    It is the standard deviation of the column divided by its length scale; where several parts of
    the kernel have one for it, by the shortest. A column that does not vary spans none.
    """
    scales = [
        np.broadcast_to(np.asarray(part.length_scale, dtype=np.float64), spread.columns.shape)
        for part in _walk(kernel)
        if isinstance(part, (sk.RBF, sk.RationalQuadratic))
    ]
    if not scales:
        return None
    return np.where(spread.varies, spread.columns / np.min(scales, axis=0), 0.0)


def start_values(adapted, spread, fast=True):
    """Return candidate starts for theta: the kernel's own, then some with length scales from data.

    A length scale too short or too long by far starts the search where the bound is flat. In units
    of the typical distance of two rows the candidates are 1, down to the distance along a single
    column, and if `fast` an eighth of that, for functions that vary fast.
    """
    n_varying = max(1, int(spread.varies.sum()))
    starts = [np.clip(adapted.theta, *adapted.bounds.T)]
    lengths = [k for k, column in enumerate(adapted.columns) if column is not None]
    if not lengths:
        return starts
    typical = np.array(
        [
            spread.distance
            if adapted.columns[k] == "all"
            else spread.columns[adapted.columns[k]] * np.sqrt(2.0 * n_varying)
            for k in lengths
        ]
    )
    shortest = (2.0 * n_varying) ** -0.5
    factors = [1.0, shortest**0.5, shortest]
    if fast:
        factors += [0.25 * shortest, 0.125 * shortest]
    for factor in factors:
        theta = adapted.theta.copy()
        theta[lengths] = np.log(factor * typical)
        theta = np.clip(theta, *adapted.bounds.T)
        if all(np.abs(theta - start).max() > 0.1 for start in starts):
            starts.append(theta)
    return starts
