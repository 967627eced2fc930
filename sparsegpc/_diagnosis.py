"""What a fit has to tell its user: at most one warning for each cause, each with what to do."""

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sparsegpc._validation import column_name

# A hyperparameter this close to a bound, in its logarithm, is at the bound.
AT_BOUND = 1e-3
# With one length scale, a column that varies this many times more than the others hides them.
DOMINANT_SPREAD = 1e3
SUSPICIOUS_JITTER = 1e-6
# A latent mean that moves less than this is constant as far as a user can see, and one that moves
# more than that is certain.
VISIBLE_LOG_ODDS, CERTAIN_LOG_ODDS = 0.2, 5.0


def describe_fit(estimator, result, adapted, spread):
    """Return what is doubtful in a fit.

    Parameters
    ----------
    estimator : SparseGPBase
        Fitted.
    result : FitResult
    adapted : AdaptedKernel
    spread : Spread

    Returns
    -------
    list of (category, message)
        Of warnings, the most serious first.
    """
    found = []
    if not result.converged:
        found.append(
            f"{type(estimator).__name__} stopped before its bound converged to tol={estimator.tol} "
            f"nats per row, after {estimator.n_iter_} iterations in all: {result.message}. The "
            "model is usable"
        )
    learned = estimator.optimizer is not None and len(result.best.theta) > 0
    limits = _describe_limits(estimator, adapted, result.best) if learned else ""
    if learned and result.trivial:
        now = f" (now {limits})" if limits else ""
        found.append(
            f"{_describe_trivial(result.best)}. If X is informative, scale its columns, give a "
            f"kernel with other start values or limits{now}, or more rows or points"
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
    warnings = [(ConvergenceWarning, message) for message in found]
    if dominance := _describe_dominance(estimator, adapted, spread):
        warnings.append((UserWarning, dominance))
    return warnings


def _latent_range(best):
    """Return how far the latent mean moves from its prior's over the points, in log-odds."""
    return float(np.ptp(np.append(best.Luu @ best.solution.posterior.w, 0.0)))


def _describe_trivial(best):
    bound = f"its bound, {best.bound:.4f} nats, is not clearly above that of a constant"
    if _latent_range(best) < VISIBLE_LOG_ODDS:
        return f"the learned function is constant: {bound}, so predictions depend little on X"
    return f"the learned model is poor: {bound} function, though its predictions vary with X"


def _describe_limits(estimator, adapted, best):
    """Return what hyperparameters press against their bounds, and mean; empty if none does."""
    parts = []
    for value, slope, (low, high), name, column in zip(
        best.theta, best.grad_theta, adapted.bounds, adapted.names, adapted.columns, strict=True
    ):
        if value - low < AT_BOUND and slope < 0.0:
            side = "lower"
        elif high - value < AT_BOUND and slope > 0.0:
            side = "upper"
        else:
            continue
        meaning = ""
        if isinstance(column, int) and side == "upper":
            meaning = f": {column_name(estimator, column)} looks irrelevant"
        elif isinstance(column, int):
            which = column_name(estimator, column)
            meaning = f": the function varies faster along {which} than the limit allows"
        elif (
            name.endswith("constant_value")
            and side == "upper"
            and _latent_range(best) > CERTAIN_LOG_ODDS
        ):
            meaning = ": the classes look separable, probabilities approach 0 and 1"
        parts.append(f"{name} = {np.exp(value):.3g} at its {side} limit{meaning}")
    return "; ".join(parts)


def _describe_dominance(estimator, adapted, spread):
    """Return how one column hides the others from a common length scale; empty if none does."""
    deviations = np.where(spread.varies, spread.columns, 0.0)
    widest = int(deviations.argmax())
    others = np.delete(deviations, widest)
    others = others[others > 0.0]
    if "all" not in adapted.columns or len(others) == 0:
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
