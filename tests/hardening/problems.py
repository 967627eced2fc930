"""Hostile but legal problems: data, weights, kernels and parameters drawn from a seed.

A problem is drawn in the order of the functions of this file, and only from its seed, so that a
seed names the same problem for ever; what is added later must not draw before what is there.
"""

import tempfile
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.gaussian_process import kernels as sk

from sparsegpc import (
    GPNoise,
    HomoscedasticNoise,
    InducingPointSelector,
    PolynomialNoise,
    SparseGPClassifier,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPRegressor,
)
from sparsegpc._estimators.learning import point_selection
from sparsegpc.likelihoods import NAMES

MOST_ROWS, MOST_COLUMNS, MOST_POINTS = 3000, 60, 60
# Most numbers in X: with more the columns are fewer, so that ten thousand problems take hours.
MOST_NUMBERS = 60_000
BINARY = {name for name, kind in NAMES.items() if not kind.takes_many_classes}
# In this order for ever, whatever that of the package; new ones after them.
METHODS = ["hgv", "rpcholesky", "greedy-variance", "kmeans", "uniform"]
METHODS += sorted(set(point_selection.METHODS) - set(METHODS))
CONJUGATE = ("polya-gamma", "logistic-softmax", "dirichlet")
# Likelihoods that were not there at first. They replace others in some of the problems.
LATER = ("ordinal-logit",)
FIRST = sorted(set(NAMES) - set(LATER))


class Problem(NamedTuple):
    """One fit: what to fit to what, and where to predict.

    ``X`` is what the user has, of any container; ``fit_params`` are those of `fit` beside X and y.
    ``X_new`` (n, D) lies among the rows, between them and far away.
    """

    seed: int
    estimator: BaseEstimator
    X: object
    y: np.ndarray | None
    fit_params: dict
    X_new: np.ndarray
    notes: dict

    def __str__(self):
        notes = ", ".join(f"{name}={value}" for name, value in self.notes.items())
        return f"seed {self.seed}: {self.estimator} on {notes}"


def draw_problem(seed, folder=None):
    """Return the `Problem` of a seed. Memory maps go to `folder`, or to a temporary one."""
    rng = np.random.RandomState(seed)
    kind = rng.choice(
        ["classifier", "regressor", "stochastic classifier", "stochastic regressor", "selector"],
        p=[0.4, 0.36, 0.09, 0.09, 0.06],
    )
    labels = "classifier" in kind
    n_rows = log_integer(rng, 2 if labels else 1, MOST_ROWS)
    most = min(MOST_COLUMNS, max(1, MOST_NUMBERS // n_rows))
    X, ops = draw_rows(rng, n_rows, log_integer(rng, 1, most))
    X, container = contain(rng, X, folder)
    values = np.asarray(X, dtype=np.float64)
    if labels:
        y, meaning = draw_labels(rng, values)
    else:
        y, meaning = draw_targets(rng, values, several=kind == "regressor")
    weight = draw_weights(rng, n_rows)
    fit_params = {}
    if weight is not None:
        if labels and np.ndim(weight):
            weight = keep_two_classes(weight, y)
        fit_params["sample_weight"] = weight
    kernel = draw_kernel(rng, values, noisy=kind == "regressor")
    n_classes = len(np.unique(y)) if labels else 0
    estimator = {
        "classifier": _classifier,
        "regressor": _regressor,
        "stochastic classifier": _stochastic_classifier,
        "stochastic regressor": _stochastic_regressor,
        "selector": _selector,
    }[kind](rng, kernel, values, n_classes)
    if kind == "regressor" and estimator.noise == "homoscedastic" and rng.rand() < 0.15:
        variance = draw_noise_variance(rng, y)
        if "WhiteKernel" not in str(estimator.kernel):
            fit_params["noise_variance"] = variance
            if n_rows % 2:
                estimator.noise = "excess"
    if kind == "selector":
        y = None
        if isinstance(estimator.weighting, str):
            y = np.arange(n_rows) % 2
            if n_rows == 1:
                estimator.weighting = None
            elif np.ndim(weight):
                fit_params["sample_weight"] = keep_two_classes(weight, y)
    notes = {
        "rows": n_rows,
        "columns": values.shape[1],
        "X": "+".join([*ops, container]),
        "y": meaning,
        "fit": {name: brief(value) for name, value in fit_params.items()},
    }
    return Problem(seed, estimator, X, y, fit_params, draw_new_rows(rng, values), notes)


def brief(value):
    if np.ndim(value) == 0:
        return value
    return f"{np.shape(value)} in [{np.min(value):.3g}, {np.max(value):.3g}]"


def log_integer(rng, low, high):
    return min(high, int(np.exp(rng.uniform(np.log(low), np.log(high + 1)))))


def power(rng, low, high):
    return float(10.0 ** rng.uniform(low, high))


def draw_rows(rng, n_rows, n_columns):
    """Return rows, and what was done to them."""
    shape = (n_rows, n_columns)
    base = rng.choice(["normal", "uniform", "heavy", "counts", "binary", "clusters", "grid"])
    X = {
        "normal": lambda: rng.standard_normal(shape),
        "uniform": lambda: rng.uniform(size=shape),
        "heavy": lambda: rng.standard_t(1.2, size=shape),
        "counts": lambda: rng.poisson(2.0, size=shape).astype(float),
        "binary": lambda: rng.randint(2, size=shape).astype(float),
        "clusters": lambda: (
            5.0 * rng.standard_normal((3, n_columns))[rng.randint(3, size=n_rows)]
            + 1e-3 * rng.standard_normal(shape)
        ),
        "grid": lambda: np.tile(np.linspace(-1.0, 1.0, n_rows)[:, None], n_columns),
    }[base]()
    changes = [
        _repeat_columns,
        _nearly_repeat_columns,
        _mix_columns,
        _freeze_columns,
        _scale_columns,
        _scale_all,
        _offset_columns,
        _repeat_rows,
        _nearly_repeat_rows,
        _outlier,
    ]
    chosen = [change for change in changes if rng.rand() < 0.2]
    for change in chosen:
        X = change(rng, X)
    return X, [base, *(change.__name__.strip("_") for change in chosen)]


def _some_columns(rng, X):
    return rng.choice(X.shape[1], size=rng.randint(1, X.shape[1] + 1), replace=False)


def _repeat_columns(rng, X):
    return X[:, rng.randint(X.shape[1], size=X.shape[1])]


def _nearly_repeat_columns(rng, X):
    X = _repeat_columns(rng, X)
    return X * (1.0 + power(rng, -16, -4) * rng.standard_normal(X.shape))


def _mix_columns(rng, X):
    rank = rng.randint(1, X.shape[1] + 1)
    mixing = rng.standard_normal((X.shape[1], rank)) @ rng.standard_normal((rank, X.shape[1]))
    return X @ mixing


def _freeze_columns(rng, X):
    X[:, _some_columns(rng, X)] = rng.choice([0.0, 1.0, -3e5, 1e-9, 1e9])
    return X


def _scale_columns(rng, X):
    return X * 10.0 ** rng.uniform(-12, 12, size=X.shape[1])


def _scale_all(rng, X):
    return X * power(rng, -12, 12)


def _offset_columns(rng, X):
    X[:, _some_columns(rng, X)] += rng.choice([1e9, -1e9, 1e3, 1e6])
    return X


def _repeat_rows(rng, X):
    return X[rng.randint(log_integer(rng, 1, len(X)), size=len(X))]


def _nearly_repeat_rows(rng, X):
    X = _repeat_rows(rng, X)
    return X * (1.0 + power(rng, -16, -6) * rng.standard_normal(X.shape))


def _outlier(rng, X):
    X[rng.randint(len(X))] *= power(rng, 1, 8)
    return X


def contain(rng, X, folder):
    """Return the rows in a container that users have, and its name."""
    kind = rng.choice(
        [
            "array",
            "fortran",
            "strided",
            "reversed",
            "read-only",
            "float32",
            "integers",
            "booleans",
            "memmap",
            "frame",
            "lists",
        ]
    )
    if kind == "fortran":
        X = np.asfortranarray(X)
    elif kind == "strided":
        wide = np.full((2 * X.shape[0], 3 * X.shape[1]), np.nan)
        wide[::2, 1::3] = X
        X = wide[::2, 1::3]
    elif kind == "reversed":
        X = X[::-1, ::-1]
    elif kind == "read-only":
        X.flags.writeable = False
    elif kind == "float32":
        X = X.astype(np.float32)
    elif kind == "integers":
        X = np.rint(np.clip(X, -(2.0**62), 2.0**62)).astype(np.int64)
    elif kind == "booleans":
        X = np.greater(X, np.median(X, axis=0))
    elif kind == "memmap":
        folder = tempfile.mkdtemp() if folder is None else folder
        path = Path(folder) / "X.npy"
        np.save(path, X)
        X = np.load(path, mmap_mode="r")
    elif kind == "frame":
        X = pd.DataFrame(X, columns=[f"column {k}" for k in range(X.shape[1])])
    elif kind == "lists":
        X = X.tolist()
    return X, kind


def score_rows(rng, X):
    """Return a function of the rows of spread one, whatever the scale of the columns."""
    deviation = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)
    score = Z @ rng.standard_normal(X.shape[1]) / np.sqrt(X.shape[1])
    if rng.rand() < 0.5:
        score = np.sin(3.0 * score)
    return score


def draw_labels(rng, X):
    """Return labels of at least two classes, and what they are like."""
    n_rows = len(X)
    n_classes = 2 if rng.rand() < 0.6 else min(n_rows, rng.randint(2, 7))
    kind = rng.choice(["separable", "noise", "one against all", "noisy", "rare", "by row"])
    score = score_rows(rng, X)
    if kind == "separable":
        codes = (score.argsort(kind="stable").argsort(kind="stable") * n_classes) // n_rows
    elif kind == "noise":
        codes = rng.randint(n_classes, size=n_rows)
    elif kind == "one against all":
        codes = np.zeros(n_rows, dtype=int)
        codes[rng.randint(n_rows)] = 1
    elif kind == "noisy":
        score = score + rng.logistic(scale=0.3, size=n_rows)
        codes = (score.argsort().argsort() * n_classes) // n_rows
    elif kind == "rare":
        codes = (rng.rand(n_rows) < 0.02) * rng.randint(n_classes, size=n_rows)
    else:
        codes = np.arange(n_rows) % n_classes
    # Each class has a row.
    codes[rng.permutation(n_rows)[:n_classes]] = np.arange(n_classes)
    style = rng.choice(["integers", "negative", "strings", "floats", "booleans"])
    names = np.arange(n_classes)
    if style == "negative":
        names = np.array([-1, 1, 7, 100, -50, 3])[:n_classes]
    elif style == "strings":
        names = np.array([f"class {k}" for k in names])
    elif style == "floats":
        names = names.astype(float)
    elif style == "booleans" and n_classes == 2:
        names = np.array([False, True])
    return names[codes], f"{kind}, {n_classes} classes ({style})"


def draw_targets(rng, X, several):
    """Return targets, and what they are like."""
    n_rows = len(X)
    n_outputs = rng.randint(2, 4) if several and rng.rand() < 0.15 else 1
    kind = rng.choice(
        ["smooth", "noise", "noisy", "constant", "nearly constant", "heavy", "growing noise"]
    )
    columns = []
    for _ in range(n_outputs):
        score, noise = score_rows(rng, X), rng.standard_normal(n_rows)
        columns.append(
            {
                "smooth": lambda score=score: score,
                "noise": lambda noise=noise: noise,
                "noisy": lambda score=score, noise=noise: score + 0.3 * noise,
                "constant": lambda: np.full(n_rows, 2.0),
                "nearly constant": lambda noise=noise: 1.0 + 1e-13 * noise,
                "heavy": lambda score=score: score + rng.standard_t(1.1, size=n_rows),
                "growing noise": lambda score=score, noise=noise: score + np.exp(score) * noise,
            }[kind]()
        )
    y = np.stack(columns, axis=1) if n_outputs > 1 else columns[0]
    scale = power(rng, -12, 12) if rng.rand() < 0.3 else 1.0
    offset = rng.choice([1e9, -1e6, 1e3]) if rng.rand() < 0.2 else 0.0
    y = y * scale + offset
    style = rng.choice(["float64", "float32", "integers", "fortran"], p=[0.7, 0.1, 0.1, 0.1])
    if style == "float32":
        y = y.astype(np.float32)
    elif style == "integers":
        y = np.rint(y).astype(np.int64)
    elif style == "fortran":
        y = np.asfortranarray(y)
    return y, f"{kind} x {scale:.2g} + {offset:.2g}, {n_outputs} outputs ({style})"


def draw_weights(rng, n_rows):
    kind = rng.choice(["none", "scalar", "uniform", "wide", "zeros", "counts"], p=_WEIGHT_SHARES)
    if kind == "none":
        return None
    if kind == "scalar":
        return power(rng, -6, 6)
    if kind == "uniform":
        return rng.uniform(0.5, 2.0, size=n_rows)
    if kind == "wide":
        return 10.0 ** rng.uniform(-6, 6, size=n_rows)
    weight = rng.randint(0, 4, size=n_rows)
    if kind == "zeros":
        weight = weight * rng.uniform(size=n_rows)
    weight[rng.randint(n_rows)] = 1
    return weight


_WEIGHT_SHARES = [0.6, 0.05, 0.1, 0.1, 0.075, 0.075]


def keep_two_classes(weight, y):
    """Give one row of each class a positive weight."""
    weight = np.array(weight)
    for one in np.unique(y):
        places = np.flatnonzero(y == one)
        if not weight[places].any():
            weight[places[0]] = 1
    return weight


def draw_noise_variance(rng, y):
    y = np.asarray(y, dtype=np.float64)
    # Noise below the rounding of the targets would be known of other targets.
    scale = max(float(y.var()), 1e-20 * float((y**2).mean()), 1e-30)
    kind = rng.choice(["scalar", "rows", "targets"])
    shape = {"scalar": (), "rows": (len(y),), "targets": np.shape(y)}[kind]
    variance = scale * 10.0 ** rng.uniform(-4, 1, size=shape)
    return float(variance) if kind == "scalar" else variance


def draw_kernel(rng, X, noisy):
    """Return None, or a kernel with values near those that suit the rows, or far from them."""
    if rng.rand() < 0.45:
        return None
    deviation = X.std(axis=0)
    distance = float(np.sqrt(2.0) * np.linalg.norm(deviation)) or 1.0
    if rng.rand() < 0.3 or not np.isfinite(distance):
        distance = 1.0
    kernel = stationary(rng, deviation, distance)
    if rng.rand() < 0.8:
        kernel = sk.ConstantKernel(power(rng, -3, 3), draw_bounds(rng, (1e-5, 1e5))) * kernel
    shape = rng.choice(
        ["one", "sum", "product", "linear", "by values"], p=[0.5, 0.15, 0.1, 0.1, 0.15]
    )
    if shape == "sum":
        kernel = kernel + sk.ConstantKernel(power(rng, -2, 2)) * stationary(
            rng, deviation, distance
        )
    elif shape == "product":
        kernel = kernel * stationary(rng, deviation, distance)
    elif shape == "linear":
        kernel = kernel + sk.ConstantKernel(distance**-2, (1e-30, 1e30)) * sk.DotProduct(
            power(rng, -2, 2)
        )
    elif shape == "by values":
        own = sk.Matern(distance * power(rng, -1, 1), (1e-15, 1e25), nu=rng.choice([1.0, 3.5]))
        if rng.rand() < 0.5:
            own = sk.Exponentiation(sk.RBF(distance, (1e-15, 1e25)), 2.0)
        kernel = sk.ConstantKernel(1.0) * own
    if noisy and rng.rand() < 0.15:
        kernel = kernel + sk.WhiteKernel(power(rng, -2, 1))
    return kernel


def draw_bounds(rng, bounds):
    return "fixed" if rng.rand() < 0.15 else bounds


def stationary(rng, deviation, distance):
    scale = distance * power(rng, -1.5, 1.5)
    bounds = draw_bounds(rng, (1e-4 * scale, 1e4 * scale))
    if rng.rand() < 0.25 and len(deviation) > 1:
        scale = np.where(deviation > 0.0, deviation, 1.0) * 10.0 ** rng.uniform(-1, 1)
        if bounds != "fixed":
            bounds = np.array([1e-4 * scale, 1e4 * scale]).T
        nu = rng.choice([0.5, 1.5, 2.5, np.inf])
        return sk.Matern(scale, bounds, nu=nu)
    name = rng.choice(["rbf", "matern12", "matern32", "matern52", "rational", "periodic"])
    if name == "periodic" and len(deviation) > 1:
        # Of Euclidean distances it is positive semi-definite in one dimension only.
        name = "rational"
    if name == "rbf":
        return sk.RBF(scale, bounds)
    if name == "rational":
        return sk.RationalQuadratic(scale, power(rng, -1, 1), bounds)
    if name == "periodic":
        # Of distances of very many periods rounding leaves no phase.
        scale = max(scale, 1e-4 * float(deviation.max()))
        return sk.ExpSineSquared(power(rng, -0.5, 1), scale, (1e-2, 1e3), bounds)
    nu = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}[name]
    return sk.Matern(scale, bounds, nu=nu)


def _points(rng, X):
    """Return inducing points of the user's own: rows, or rows moved."""
    points = X[rng.randint(len(X), size=log_integer(rng, 1, 20))]
    if rng.rand() < 0.5:
        points = points + 0.1 * X.std(axis=0) * rng.standard_normal(points.shape)
    return points


def _selection(rng, X):
    selector = rng.choice([*METHODS, "instance", "array"])
    if selector == "instance":
        return InducingPointSelector(
            method=rng.choice(METHODS), n_components=log_integer(rng, 1, MOST_POINTS), tol=1e-4
        )
    return _points(rng, X) if selector == "array" else str(selector)


def learning_parameters(rng, X):
    """Return parameters that `SparseGPClassifier` and `SparseGPRegressor` share."""
    selector = _selection(rng, X)
    automatic = isinstance(selector, str) and rng.rand() < 0.12
    return {
        "selector": selector,
        "n_inducing": "auto" if automatic else log_integer(rng, 1, MOST_POINTS),
        "max_inducing": log_integer(rng, 1, MOST_POINTS),
        "selection_tol": float(rng.choice([0.0, 1e-5, 1e-3])),
        "certificate_tol": float(rng.choice([1e-4, 1e-2])),
        "fit_prior_mean": bool(rng.rand() < 0.75),
        "optimizer": None if rng.rand() < 0.12 else "bfgs",
        "n_restarts_optimizer": int(rng.rand() < 0.05),
        "max_iter": log_integer(rng, 1, 60),
        "tol": float(rng.choice([1e-5, 1e-3, 1e-7], p=[0.6, 0.3, 0.1])),
        "max_reselections": int(rng.randint(0, 4)),
        "optimize_inducing": True if rng.rand() < 0.12 else "auto",
        "warm_start": bool(rng.rand() < 0.1),
        "random_state": int(rng.randint(1000)),
    }


def _can_move(kernel):
    """Whether a kernel has derivatives with respect to the points."""
    text = str(kernel)
    return "**" not in text and "nu=1)" not in text and "nu=3.5" not in text


def movable(parameters, kernel):
    if not _can_move(kernel) and parameters["optimize_inducing"] is True:
        parameters["optimize_inducing"] = False
    return parameters


def _bound(rng, likelihood, choices):
    if likelihood == "conditional-polya-gamma":
        return "auto"
    # The other likelihoods had no such draws at first, and a copy leaves what follows unchanged.
    own = rng if likelihood in CONJUGATE else deepcopy(rng)
    return str(own.choice(choices)) if own.rand() < 0.4 else "auto"


def _or_later(rng, likelihood):
    """Return a likelihood or, in some problems, a later one; what follows stays unchanged."""
    own = deepcopy(rng)
    return str(own.choice(LATER)) if own.rand() < 0.1 else likelihood


def _class_weight(rng):
    return "balanced" if rng.rand() < 0.1 else None


def _classifier(rng, kernel, X, n_classes):
    parameters = movable(learning_parameters(rng, X), kernel)
    likelihood = str(rng.choice(["auto", *FIRST]))
    return SparseGPClassifier(
        kernel,
        bound=_bound(rng, likelihood, ["tight", "spherical", "standard"]),
        likelihood=_or_later(rng, likelihood),
        class_weight=_class_weight(rng),
        **parameters,
    )


def _regressor(rng, kernel, X, n_classes):
    parameters = movable(learning_parameters(rng, X), kernel)
    noise = rng.choice(["homoscedastic", "polynomial", "gp", "settings"], p=[0.5, 0.2, 0.2, 0.1])
    if noise == "settings":
        noise = [
            HomoscedasticNoise(power(rng, -3, 3), (1e-9, 1e9)),
            HomoscedasticNoise(power(rng, -3, 3), "fixed"),
            PolynomialNoise(degree=int(rng.randint(0, 4))),
            PolynomialNoise(degree=2, interactions=X.shape[1] < 10),
            GPNoise(sk.Matern(nu=1.5), n_inducing=10),
        ][rng.randint(5)]
    elif noise != "homoscedastic":
        noise = str(noise)
    else:
        noise = "homoscedastic"
    if "WhiteKernel" in str(kernel):
        noise = "homoscedastic"
    return SparseGPRegressor(
        kernel,
        noise=noise,
        bound=str(rng.choice(["auto", "tight", "spherical", "standard"])),
        normalize_y=bool(rng.rand() < 0.3),
        **parameters,
    )


def streaming_parameters(rng, X):
    """Return parameters that the stochastic estimators share."""
    selector = _selection(rng, X)
    return {
        "selector": "rpcholesky" if isinstance(selector, InducingPointSelector) else selector,
        "n_inducing": log_integer(rng, 1, MOST_POINTS),
        "fit_prior_mean": bool(rng.rand() < 0.75),
        "batch_size": log_integer(rng, 1, 1024),
        "n_epochs": int(rng.randint(1, 4)),
        "learning_rate": float(rng.choice([0.1, 0.0, 0.5])),
        "memory": None if rng.rand() < 0.7 else log_integer(rng, 1, 2000),
        "optimize_inducing": bool(rng.rand() < 0.12),
        "random_state": int(rng.randint(1000)),
    }


def affordable(parameters, X):
    """Keep the number of batches within bounds: a row a batch is legal, but takes its time."""
    parameters["batch_size"] = max(parameters["batch_size"], len(X) // 60)
    return parameters


def _stochastic_classifier(rng, kernel, X, n_classes):
    parameters = affordable(movable(streaming_parameters(rng, X), kernel), X)
    allowed = [name for name in FIRST if n_classes == 2 or name not in BINARY]
    likelihood = str(rng.choice(["auto", *allowed]))
    return StochasticSparseGPClassifier(
        kernel,
        bound=_bound(rng, likelihood, ["tight", "standard"]),
        likelihood=_or_later(rng, likelihood),
        class_weight=_class_weight(rng),
        **parameters,
    )


def _stochastic_regressor(rng, kernel, X, n_classes):
    parameters = affordable(movable(streaming_parameters(rng, X), kernel), X)
    return StochasticSparseGPRegressor(
        kernel, bound=str(rng.choice(["tight", "standard"])), **parameters
    )


def _selector(rng, kernel, X, n_classes):
    weighting = [None, "classification"][rng.randint(2)]
    return InducingPointSelector(
        kernel,
        method=str(rng.choice(METHODS)),
        n_components=log_integer(rng, 1, MOST_POINTS),
        tol=float(rng.choice([0.0, 1e-3, 1e-8])),
        weighting=weighting,
        random_state=int(rng.randint(1000)),
    )


def draw_new_rows(rng, X):
    """Return rows of X, rows between them, and rows far from all."""
    among = X[rng.randint(len(X), size=min(len(X), 40))]
    between = 0.5 * (among + X[rng.randint(len(X), size=len(among))])
    far = among[:5] * power(rng, 0, 3) + X.std(axis=0)
    return np.concatenate([among, between, far])
