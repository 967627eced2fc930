"""What a fit has to tell its user: at most one warning for each cause, each with what to do."""

from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sparsegpc._estimators.input.validation import column_name

# A hyperparameter this close to a bound, in its logarithm, is at the bound.
AT_BOUND = 1e-3
# With one length scale, a column that varies this many times more than the others hides them.
DOMINANT_SPREAD = 1e3
SUSPICIOUS_JITTER = 1e-6
# From the method that warns up to the user's call of `fit`, scikit-learn's wrapper included.
FRAMES_TO_USER = 4
# Classes that are named where many have the same to tell.
MOST_NAMED = 10


class Warned(NamedTuple):
    """A warning, and its cause, which is told once however many models of a fit it concerns."""

    category: type
    message: str
    cause: str


def describe_fit(estimator, result, problem):
    """Return what is doubtful in a fit.

    Parameters
    ----------
    estimator : BaseSparseGP
        Fitted.
    result : FitResult
    problem : Problem

    Returns
    -------
    list of Warned
        The most serious first.
    """
    warned = []
    if not result.converged:
        text = (
            f"{type(estimator).__name__} stopped before its bound converged to tol={estimator.tol} "
            f"nats per row, after {estimator.n_iter_} iterations in all: {result.message}. The "
            "model is usable"
        )
        warned.append(Warned(ConvergenceWarning, text, result.message))
    found = []
    learned = estimator.optimizer is not None and len(result.best.theta) > 0
    limits = _describe_limits(estimator, problem, result.best) if learned else ""
    if learned and result.trivial:
        now = f" (now {limits})" if limits else ""
        found.append(
            f"{_describe_trivial(estimator, result.best)}. If X is informative, scale its columns, "
            f"give a kernel with other start values or limits{now}, or more rows or points"
        )
    elif limits:
        found.append(
            f"the bound still rises where hyperparameters meet their limits: {limits}. Widen these "
            "limits if the values are not what you expect"
        )
    if result.best.jitter > SUSPICIOUS_JITTER:
        found.append(
            f"the covariance of the inducing points needed {result.best.jitter:.0e} of its mean "
            "diagonal added to be positive definite: the kernel may not be positive semi-definite"
        )
    warned += [Warned(ConvergenceWarning, text, text) for text in found]
    if dominance := _describe_dominance(estimator, problem):
        warned.append(Warned(UserWarning, dominance, dominance))
    return warned


def gather_classes(labels, told):
    """Return what there is to tell of one model for each class, each cause once.

    Parameters
    ----------
    labels : sequence of length C
    told : list of list of Warned
        For each class.

    Returns
    -------
    list of Warned
    """
    groups = {}
    for label, warned in zip(labels, told, strict=True):
        for one in warned:
            groups.setdefault((one.category, one.cause), []).append((label, one))
    return [_of_classes(group) for group in groups.values()]


def _of_classes(group):
    """Return what classes have in common, in the words of the first."""
    (label, first), *others = group
    text = f"class {label} against the rest: {first.message}"
    if others:
        named = ", ".join(str(other) for other, _ in others[:MOST_NAMED])
        more = len(others) - MOST_NAMED
        text += f". The same goes for class {named}" + (f" and {more} more" if more > 0 else "")
    return first._replace(message=text)


def latent_range(best):
    """Return how far the mean of any f moves from its prior's over the points."""
    means = [best.posterior.Luu @ q.w for q in best.posterior.functions]
    return max(float(np.ptp(np.append(mean, 0.0))) for mean in means)


def _describe_trivial(estimator, best):
    bound = f"its bound, {estimator.lower_bound_:.4f} nats, is not clearly above that of a constant"
    if latent_range(best) < estimator._visible_range:
        return f"the learned function is constant: {bound}, so predictions depend little on X"
    return f"the learned model is poor: {bound} function, though its predictions vary with X"


def _describe_limits(estimator, problem, best):
    """Return what hyperparameters press against their bounds, and mean; empty if none does."""
    parts, parameters = [], problem.parameters
    for value, slope, (low, high), name, column in zip(
        best.theta,
        best.grad_theta,
        parameters.bounds,
        parameters.names,
        parameters.columns,
        strict=True,
    ):
        if value - low < AT_BOUND and slope < 0.0:
            side = "lower"
        elif high - value < AT_BOUND and slope > 0.0:
            side = "upper"
        else:
            continue
        if isinstance(column, int) and side == "upper":
            meaning = f"{column_name(estimator, column)} looks irrelevant"
        elif isinstance(column, int):
            which = column_name(estimator, column)
            meaning = f"the function varies faster along {which} than the limit allows"
        else:
            meaning = estimator._limit_meaning(name, side, best)
            if meaning is None:
                continue
        meaning = f": {meaning}" if meaning else ""
        parts.append(f"{name} = {np.exp(value):.3g} at its {side} limit{meaning}")
    return "; ".join(parts)


def _describe_dominance(estimator, problem):
    """Return how one column hides the others from a common length scale; empty if none does."""
    spread = problem.spread
    deviations = np.where(spread.varies, spread.columns, 0.0)
    widest = int(deviations.argmax())
    others = np.delete(deviations, widest)
    others = others[others > 0.0]
    if "all" not in problem.parameters.columns or len(others) == 0:
        return ""
    ratio = deviations[widest] / np.median(others)
    if ratio <= DOMINANT_SPREAD:
        return ""
    return (
        f"{column_name(estimator, widest)} has standard deviation {deviations[widest]:.3g}, "
        f"{ratio:.2g} times the median of the other columns, and the kernel has one length scale "
        "for all columns, so it hides the others: scale the columns, for example with "
        "StandardScaler, or give the kernel one length scale for each column"
    )
