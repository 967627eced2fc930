"""Translate scikit-learn's kernels into the core's kernels."""

import numbers
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sk

from sparsegpc._core.kernels import families
from sparsegpc._core.kernels.algebra import FiniteDifferenceKernel, FreeKernel, Product, Scaled, Sum
from sparsegpc._core.numerics.floats import TINY

NO_WHITE_NOISE = (
    "the likelihood already describes the noise of the targets, and inducing points cannot "
    "represent white noise in f"
)
MATERN = {0.5: families.Matern12, 1.5: families.Matern32, 2.5: families.Matern52}
# Hyperparameters that may be fixed at zero, which gives a DotProduct without offset.
MAY_VANISH = ("sigma_0",)
# Kernels whose `length_scale` divides distances between rows.
PER_COLUMN = (sk.RBF, sk.RationalQuadratic)
# The variance of f at so many rows stands for that at all.
SOME_ROWS = 100


class AdaptedKernel(NamedTuple):
    """A kernel for the core, and a description of its free parameters.

    ``kernel`` : FreeKernel
    ``theta`` (P,), ``bounds`` (P, 2) : logarithms, as in scikit-learn.
    ``names`` : name of each entry of theta, with the column in brackets if it has one.
    ``columns`` : for each entry of theta, the column that it is the length scale of, "all" for
    the common length scale of all columns, None for anything else.
    ``rescaled`` (P,) : theta, with variances that suit the targets if their scale is known.
    """

    kernel: FreeKernel
    theta: np.ndarray
    bounds: np.ndarray
    names: list
    columns: list
    rescaled: np.ndarray

    def rescaled_to(self, variance, X):
        """Return these parameters with `rescaled` such that f has the given variance at rows X.

        All variances, the values of ConstantKernel, are multiplied by the same factor. It suits a
        sum of kernels with one of them in each summand.
        """
        before = float(np.mean(self.kernel.diag(self.theta, X[:SOME_ROWS])))
        if not 0.0 < before < np.inf:
            return self
        step = np.log(variance) - np.log(before)
        steps = np.array([step * name.endswith("constant_value") for name in self.names])
        return self._replace(rescaled=np.clip(self.theta + steps, *self.bounds.T))

    def extended(self, theta, bounds, names):
        """Return these parameters followed by others, which belong to no column."""
        return self._replace(
            theta=np.concatenate([self.theta, theta]),
            rescaled=np.concatenate([self.rescaled, theta]),
            bounds=np.concatenate([self.bounds, bounds]),
            names=[*self.names, *names],
            columns=[*self.columns, *[None] * len(names)],
        )


class _Parameters:
    """The parameters of a kernel, collected from its parts."""

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
        ConstantKernel, RBF, Matern with nu 0.5, 1.5, 2.5 or inf, RationalQuadratic, ExpSineSquared,
        DotProduct, and sums and products of them have analytic derivatives. Any other kernel is
        evaluated by scikit-learn and differentiated by finite differences.
    n_features : int
    refuse_white : str or None
        Why a WhiteKernel is not allowed, for the message. None allows it.

    Returns
    -------
    AdaptedKernel

    Raises
    ------
    TypeError
        If `kernel` is not a scikit-learn kernel.
    ValueError
        If it holds a WhiteKernel and `refuse_white` is given, is a CompoundKernel, or has a
        number of length scales that is neither one nor `n_features`.
    """
    if not isinstance(kernel, sk.Kernel):
        raise TypeError(
            "kernel must be None or an instance of sklearn.gaussian_process.kernels.Kernel, got "
            f"{kernel!r}"
        )
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
        _check_settings(part)
        _check_bounds(part)
    parameters = _Parameters()
    node = _translate(kernel, "", n_features, parameters)
    free = np.array(parameters.free, dtype=bool)
    core = FreeKernel(node, np.array(parameters.values, dtype=np.float64), free)
    theta = np.array(kernel.theta, dtype=np.float64)
    with np.errstate(divide="ignore"):
        bounds = np.array(kernel.bounds, dtype=np.float64).reshape(-1, 2)
    return AdaptedKernel(core, theta, bounds, parameters.names, parameters.columns, theta)


def _is_fixed(kernel, name):
    bounds = getattr(kernel, f"{name}_bounds")
    return isinstance(bounds, str) and bounds == "fixed"


def check_white(kernel):
    """Raise ValueError if a WhiteKernel has no positive variance, or no bounds."""
    _check_bounds(kernel)
    _Parameters().add(kernel, "", "noise_level")


def _check_settings(kernel):
    """Raise ValueError if a kernel has an invalid operand, `nu` or `exponent`."""
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
    """Raise ValueError if the bounds of a kernel are invalid; they may be zero or infinite."""
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
    """Split a kernel into a kernel without WhiteKernel summands, and a list of those summands.

    The first is None if all summands are WhiteKernels. A WhiteKernel in a product is not split off.
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
    """Return the structure that two kernels must share to exchange hyperparameters."""
    parts = [type(part).__name__ for part in walk(kernel)]
    free = [(h.name, h.n_elements) for h in kernel.hyperparameters if not h.fixed]
    return parts, free


def walk(kernel):
    """Yield `kernel` and all kernels of which it consists."""
    yield kernel
    for value in kernel.get_params(deep=False).values():
        if isinstance(value, sk.Kernel):
            yield from walk(value)


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
    # A fitted model must not change when the user changes the kernel.
    kernel = clone(kernel)
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
        KernelValue(kernel), KernelDiagonal(kernel), len(theta), str(kernel)
    )


@contextmanager
def _evaluating(kernel):
    """Name the kernel in the message of errors that its settings cause."""
    try:
        yield
    except (LookupError, NameError, TypeError) as error:
        raise ValueError(
            f"kernel {kernel} cannot be evaluated at arrays of two or more rows with the columns "
            f"of X, {type(error).__name__}: {error}; check its parameters"
        ) from error


class KernelValue:
    """Compute ``value(params, Z, X)``, shape (M, N), by a scikit-learn kernel."""

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
        # Solves overwrite the result, and the kernel may return an array that it keeps.
        return K.copy()


class KernelDiagonal(KernelValue):
    """Compute ``diag(params, X)``, shape (N,), by a scikit-learn kernel."""

    def __call__(self, params, X):
        with _evaluating(self._kernel):
            diag = np.array(self._kernel.clone_with_theta(params).diag(X), dtype=np.float64)
        if diag.shape != (len(X),):
            raise ValueError(
                f"kernel {self._kernel} returned a diagonal of shape {diag.shape} for {len(X)} "
                f"rows, expected {(len(X),)}"
            )
        return diag
