"""Hostile but legal problems of the models that are not in `problems`.

They are generalised regressors, other noise, other kernels, averages over hyperparameters,
corrections by neighbours, searches by the bound, and latent variables. As there, a seed names the
same problem for ever.
"""

import numpy as np
from sklearn.gaussian_process import kernels as sk

from sparsegpc import (
    BoundSearch,
    GPNoise,
    LocalCorrection,
    SparseGPClassifier,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
    StochasticSparseGPGeneralizedRegressor,
    StudentTNoise,
)
from sparsegpc.decomposition import BayesianGPLVM
from sparsegpc.kernels import Columns, MainEffects, OrthogonalAdditive
from tests.hardening.problems import (
    Problem,
    affordable,
    brief,
    contain,
    draw_kernel,
    draw_labels,
    draw_new_rows,
    draw_rows,
    draw_targets,
    draw_weights,
    keep_two_classes,
    learning_parameters,
    log_integer,
    movable,
    power,
    score_rows,
    stationary,
    streaming_parameters,
)

MOST_ROWS, MOST_COLUMNS = 600, 20
COUNTS = ("poisson", "negative-binomial")
DURATIONS = ("weibull", "log-normal")
NAMED_KERNELS = ("rbf", "matern12", "matern32", "matern52", "laplacian")
# Likelihoods of labels that make one model of all classes, so that it can be averaged.
JOINT = ("auto", "softmax", "ordinal-logit")


def draw_problem(seed, folder=None):
    """Return the `Problem` of a seed. Memory maps go to `folder`, or to a temporary one."""
    rng = np.random.RandomState(seed)
    kind = rng.choice(list(KINDS), p=[share for _, share in KINDS.values()])
    n_rows = log_integer(rng, 2, MOST_ROWS)
    X, ops = draw_rows(rng, n_rows, log_integer(rng, 1, MOST_COLUMNS))
    X, container = contain(rng, X, folder)
    values = np.asarray(X, dtype=np.float64)
    draw, _ = KINDS[kind]
    drawn = draw(rng, values)
    if isinstance(drawn.estimator, BayesianGPLVM):
        X, container = _without_some(rng, values), "array"
    # Another generator, so that a seed keeps the problem that it had before these were drawn.
    _vary(np.random.RandomState([seed, 1]), drawn.estimator)
    _limit(np.random.RandomState([seed, 2]), drawn)
    notes = {
        "rows": n_rows,
        "columns": values.shape[1],
        "X": "+".join([*ops, container]),
        "y": drawn.meaning,
        "fit": {name: brief(value) for name, value in drawn.fit_params.items()},
    }
    new = draw_new_rows(rng, values)
    return Problem(seed, drawn.estimator, X, drawn.y, drawn.fit_params, new, notes)


def _vary(rng, estimator):
    """Change parameters of an estimator, or of the one within, about which the data may decide."""
    if hasattr(estimator, "estimator"):
        _vary(rng, estimator.estimator)
        return
    names = estimator.get_params(deep=False)
    if "log_transform" in names:
        estimator.log_transform = ("auto", True, False)[rng.choice(3, p=[0.6, 0.3, 0.1])]
        if rng.rand() < 0.5 and isinstance(estimator.kernel, str | None):
            estimator.main_effects = "auto"
    is_open = names.get("noise") == "homoscedastic" and estimator.hyperparameters == "best"
    if is_open and rng.rand() < 0.5:
        lengths = str(rng.choice(["tied", "free", "common"]))
        estimator.noise = GPNoise(length_scales=lengths, n_inducing=log_integer(rng, 1, 60))


def _limit(rng, drawn):
    """Turn some targets of a regressor into limits, if its noise allows that."""
    model = getattr(drawn.estimator, "estimator", drawn.estimator)
    if getattr(model, "noise", None) != "homoscedastic" or rng.rand() < 0.5:
        return
    y = np.asarray(drawn.y, dtype=np.float64)
    levels = [(0.3, 1.0), (0.0, 0.5), (0.2, 0.9)][rng.randint(3)]
    low, high = np.quantile(y, levels, axis=0)
    event = np.where(y > high, 0, np.where(y < low, -1, 1))
    event[rng.randint(len(y))] = 1
    y = np.where(event == 1, y, np.clip(y, low, high))
    observed = event.reshape(len(y), -1).min(axis=1)
    weight = _observed(drawn.fit_params.get("sample_weight"), observed)
    drawn.y, drawn.meaning = y, f"{drawn.meaning}, {np.count_nonzero(event != 1)} limits"
    drawn.fit_params["event"] = event
    if weight is not None:
        drawn.fit_params["sample_weight"] = weight


class Drawn:
    """An estimator, its targets, what they are like, and the other arguments of `fit`."""

    def __init__(self, estimator, y=None, meaning="none", **fit_params):
        self.estimator, self.y, self.meaning = estimator, y, meaning
        self.fit_params = {name: value for name, value in fit_params.items() if value is not None}


def _any_kernel(rng, X, noisy=False):
    """Return parameters of an estimator that say which kernel it has."""
    named = {"kernel": None if rng.rand() < 0.3 else str(rng.choice(NAMED_KERNELS))}
    named["length_scales"] = str(rng.choice(["auto", "tied", "free", "common"]))
    named["main_effects"] = bool(rng.rand() < 0.3)
    shape = rng.choice(["named", "former", "columns", "effects", "orthogonal"])
    if shape == "named":
        return named
    if shape == "former":
        return {"kernel": draw_kernel(rng, X, noisy)}
    deviation = np.where(X.std(axis=0) > 0.0, X.std(axis=0), 1.0)
    if shape == "columns":
        return {"kernel": _of_columns(rng, X) + _of_columns(rng, X)}
    if shape == "orthogonal":
        order = int(rng.randint(1, min(X.shape[1], 3) + 1))
        at = {"input_mean": X.mean(axis=0), "input_std": deviation} if rng.rand() < 0.7 else {}
        length = deviation if at else 1.0
        limits = np.multiply.outer(deviation, [1e-2, 1e2]) if at else (1e-2, 1e2)
        kernel = OrthogonalAdditive(length, np.ones(order), length_scale_bounds=limits, **at)
        return {"kernel": kernel}
    by_column = rng.rand() < 0.5
    size = X.shape[1] if by_column else ()
    length = deviation if by_column else float(deviation.mean())
    limits = (
        np.stack([1e-3 * length, 1e3 * length], axis=-1)
        if by_column
        else (
            1e-3 * length,
            1e3 * length,
        )
    )
    kernel = MainEffects(
        np.full(size, power(rng, -2, 2)) if by_column else power(rng, -2, 2),
        length * power(rng, -1, 1),
        length_scale_bounds=limits,
    )
    if rng.rand() < 0.5:
        kernel = kernel + sk.ConstantKernel(power(rng, -2, 2)) * _near(rng, X)
    return {"kernel": kernel}


def _near(rng, X):
    deviation = X.std(axis=0)
    return stationary(rng, deviation, float(np.sqrt(2.0) * np.linalg.norm(deviation)) or 1.0)


def _of_columns(rng, X):
    columns = rng.choice(X.shape[1], size=rng.randint(1, X.shape[1] + 1), replace=False)
    kernel = Columns(_near(rng, X[:, columns]), [int(d) for d in columns])
    return sk.ConstantKernel(power(rng, -2, 2)) * kernel


def _parameters(rng, X, noisy=False):
    """Return parameters that all estimators with all rows share."""
    kernel = _any_kernel(rng, X, noisy)
    cost = float(rng.choice([0.3, 1.0, 30.0])) if rng.rand() < 0.15 else 0.0
    return {
        **movable(learning_parameters(rng, X), kernel["kernel"]),
        **kernel,
        "point_cost": cost,
    }


def _responses(rng, X):
    """Return a likelihood, targets, what they are like, exposure and event."""
    n_rows = len(X)
    likelihood = str(rng.choice([*COUNTS, "gamma", *DURATIONS]))
    f = score_rows(rng, X) * rng.choice([0.5, 1.0, 3.0]) + rng.uniform(-2, 3)
    exposure = event = None
    if likelihood in COUNTS:
        kind = rng.choice(["counts", "overdispersed", "rare", "large", "equal", "one large"])
        if rng.rand() < 0.4:
            exposure = 10.0 ** rng.uniform(-2, 2, size=n_rows)
        rate = np.exp(f) if exposure is None else exposure * np.exp(f)
        y = {
            "counts": lambda: rng.poisson(rate),
            "overdispersed": lambda: rng.poisson(rate * rng.gamma(0.3, size=n_rows) / 0.3),
            "rare": lambda: rng.poisson(0.02, size=n_rows),
            "large": lambda: rng.poisson(np.minimum(1e6 * rate, 1e15)),
            "equal": lambda: np.full(n_rows, 3),
            "one large": lambda: rng.poisson(1.0, size=n_rows),
        }[kind]()
        if kind == "one large":
            y[rng.randint(n_rows)] = 10 ** rng.randint(3, 10)
        if not y.any():
            y[rng.randint(n_rows)] = 1
        y = y.astype(rng.choice(["int64", "float64"]))
    else:
        kind = rng.choice(["gamma", "log-normal", "nearly exact", "heavy", "equal"])
        noise = {
            "gamma": lambda: rng.gamma(2.0, size=n_rows) / 2.0 + 1e-9,
            "log-normal": lambda: np.exp(0.5 * rng.standard_normal(n_rows)),
            "nearly exact": lambda: np.exp(1e-9 * rng.standard_normal(n_rows)),
            "heavy": lambda: np.exp(np.clip(rng.standard_t(1.2, size=n_rows), -40, 40)),
            "equal": lambda: np.ones(n_rows),
        }[kind]()
        y = noise if kind == "equal" else noise * np.exp(f)
        if rng.rand() < 0.2:
            y = y * power(rng, -12, 12)
        if likelihood in DURATIONS and rng.rand() < 0.6:
            y, event = _censored(rng, y)
            kind = f"{kind}, {int(event.sum())} events"
            if likelihood == "log-normal" and rng.rand() < 0.5:
                y, event = _with_upper_limits(rng, y, event)
                kind += f", {np.count_nonzero(event < 0)} upper limits"
    if rng.rand() < 0.3:
        is_count = likelihood in COUNTS
        if is_count or event is None or likelihood == "weibull":
            likelihood = "auto"
            # "auto" takes y without events as numbers that are positive.
            exposure = exposure if is_count else None
    return likelihood, y, f"{likelihood}: {kind}", exposure, event


def _censored(rng, y):
    """Return durations and whether each was observed; at least one is."""
    share = rng.choice([0.1, 0.5, 0.95])
    event = (rng.rand(len(y)) > share).astype(int)
    y = np.where(event, y, y * rng.uniform(1e-6, 1.0, size=len(y)))
    event[rng.randint(len(y))] = 1
    return y, event.astype(rng.choice(["int64", "bool", "float64"]))


def _with_upper_limits(rng, y, event):
    """Return targets of which some that were observed become upper limits, but not all."""
    seen = np.flatnonzero(event)
    hidden = rng.choice(seen, rng.randint(len(seen)), replace=False)
    y, event = y.copy(), event.astype("int64")
    y[hidden] *= rng.uniform(1.0, 10.0, size=len(hidden))
    event[hidden] = -1
    return y, event


def _observed(weight, event):
    """Give a row whose target was observed a positive weight."""
    if event is None or np.ndim(weight) == 0:
        return weight
    weight, is_observed = np.array(weight), np.asarray(event) == 1
    if not weight[is_observed].any():
        weight[is_observed.argmax()] = 1
    return weight


def _generalized(rng, X):
    likelihood, y, meaning, exposure, event = _responses(rng, X)
    model = SparseGPGeneralizedRegressor(
        likelihood=likelihood,
        bound=str(rng.choice(["auto", "tight", "spherical", "standard"], p=[0.7, 0.1, 0.1, 0.1])),
        hyperparameters="average" if rng.rand() < 0.3 else "best",
        **_parameters(rng, X),
    )
    weight = _observed(draw_weights(rng, len(X)), event)
    return Drawn(model, y, meaning, sample_weight=weight, exposure=exposure, event=event)


def _stochastic_generalized(rng, X):
    likelihood, y, meaning, exposure, event = _responses(rng, X)
    kernel = _any_kernel(rng, X)
    parameters = affordable(movable(streaming_parameters(rng, X), kernel["kernel"]), X)
    model = StochasticSparseGPGeneralizedRegressor(
        likelihood=likelihood, **{**parameters, **kernel}
    )
    weight = _observed(draw_weights(rng, len(X)), event)
    return Drawn(model, y, meaning, sample_weight=weight, exposure=exposure, event=event)


def _regressor(rng, X):
    y, meaning = draw_targets(rng, X, several=True)
    noise = [
        "student-t",
        StudentTNoise(float(rng.choice([0.5, 3.0, 30.0]))),
        "auto",
        "homoscedastic",
    ][rng.choice(4, p=[0.35, 0.15, 0.3, 0.2])]
    average = noise in ("homoscedastic", "student-t") and rng.rand() < 0.6
    model = SparseGPRegressor(
        noise=noise,
        normalize_y=bool(rng.rand() < 0.5),
        hyperparameters="average" if average else "best",
        **_parameters(rng, X),
    )
    return Drawn(model, y, meaning, sample_weight=draw_weights(rng, len(X)))


def _classifier(rng, X):
    y, meaning = draw_labels(rng, X)
    likelihood = str(rng.choice(JOINT))
    model = SparseGPClassifier(
        likelihood=likelihood,
        hyperparameters="average" if rng.rand() < 0.4 else "best",
        **_parameters(rng, X),
    )
    weight = draw_weights(rng, len(X))
    if np.ndim(weight):
        weight = keep_two_classes(weight, y)
    return Drawn(model, y, meaning, sample_weight=weight)


def _corrected(rng, X):
    draw = [_classifier, _regressor, _generalized][rng.choice(3, p=[0.4, 0.4, 0.2])]
    drawn = draw(rng, X)
    if hasattr(drawn.estimator, "hyperparameters"):
        drawn.estimator.hyperparameters = "best"
    drawn.estimator = LocalCorrection(
        drawn.estimator,
        n_neighbors=log_integer(rng, 1, 50),
        mode=str(rng.choice(["auto", "points", "both", "neighbors"], p=[0.4, 0.1, 0.3, 0.2])),
        relearn="auto" if rng.rand() < 0.7 else False,
        n_validation=log_integer(rng, 1, 100),
        random_state=int(rng.randint(1000)),
    )
    return drawn


def _search(rng, X):
    draw = [_classifier, _regressor, _generalized][rng.randint(3)]
    drawn = draw(rng, X)
    drawn.estimator = BoundSearch(
        drawn.estimator.set_params(kernel=None),
        {"kernel": ["rbf", "matern32"], "n_inducing": [log_integer(rng, 1, 60)]},
        n_screening_rows=log_integer(rng, 10, 1000),
        n_finalists=int(rng.randint(1, 3)),
    )
    return drawn


def _latent_variables(rng, X):
    model = BayesianGPLVM(
        int(rng.randint(1, 4)),
        n_inducing=log_integer(rng, 1, 20),
        bound=str(rng.choice(["tight", "standard"])),
        max_iter=log_integer(rng, 1, 60),
        random_state=int(rng.randint(1000)),
    )
    return Drawn(model)


def _without_some(rng, X):
    """Return rows some of whose values are missing; each column has one."""
    X = np.array(X)
    share = rng.choice([0.0, 0.1, 0.6])
    is_missing = rng.rand(*X.shape) < share
    is_missing[rng.randint(len(X), size=X.shape[1]), np.arange(X.shape[1])] = False
    X[is_missing] = np.nan
    return X


# How each kind is drawn, and its share.
KINDS = {
    "generalised regressor": (_generalized, 0.28),
    "stochastic generalised regressor": (_stochastic_generalized, 0.08),
    "regressor": (_regressor, 0.2),
    "classifier": (_classifier, 0.15),
    "correction by neighbours": (_corrected, 0.13),
    "search by the bound": (_search, 0.05),
    "latent variables": (_latent_variables, 0.11),
}
