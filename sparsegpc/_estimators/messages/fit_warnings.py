"""Warnings about what a fit has learned: at most one for each cause, each with a remedy."""

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sparsegpc._core.diagnostics.verdicts import (
    NEGLIGIBLE_COST_PER_ROW,
    missed_correlation,
    remaining_correlation,
)
from sparsegpc._estimators.input.validation import column_name
from sparsegpc._estimators.kernels.hyperparameters import OFFSET
from sparsegpc._estimators.messages.user_warnings import FitWarning
from sparsegpc._estimators.messages.weight_warnings import TOO_LIGHT, effective_rows

# Warn if one column varies this many times more than the others, with a common length scale.
DOMINANT_SPREAD = 1e3
# Rounding errors of kernels require jitter of up to about 1e-7.
SUSPICIOUS_JITTER = 1e-6
# If jitter is this multiple of the noise variance, it costs up to half as many nats for each point.
COSTLY_JITTER = 1e-2
# A fit warns if the correlation of deviations at neighbouring rows is larger than the first; if it
# has as many points as it can afford, than the second.
CORRELATED, UNRESOLVED = 0.3, 0.2
# It also warns if the variance that such points leave unexplained costs so many nats per row.
COSTLY_RESIDUAL = 0.1


def fit_warnings(fitted):
    """Return a list with each `FitWarning` about a `FittedProblem`, the most serious first."""
    problem, result = fitted.problem, fitted.result
    estimator, found = problem.estimator, []
    if not result.converged:
        text = (
            f"{type(estimator).__name__} stopped before its bound converged to tol={estimator.tol} "
            f"nats per row, after {estimator.n_iter_} iterations in all: {result.message}. The "
            "model is usable"
        )
        found.append(FitWarning(ConvergenceWarning, text, result.message))
    limits = _describe_limits(problem, result.optimum) if problem.learns else ""
    trivial = problem.learns and result.trivial
    mismatch = estimator._describe_mismatch(problem, trivial) if problem.learns else ""
    texts = []
    if trivial:
        weight = problem.model.weight
        texts.append(describe_trivial(estimator, problem, weight, limits, mismatch))
    elif limits:
        texts.append(
            f"the bound still rises where hyperparameters meet their limits: {limits}. If the "
            "values are not what you expect, give wider limits in a kernel object or a noise object"
        )
    elif problem.learns and not (mismatch or fitted.stopped):
        text = describe_rough(problem.model, result.best)
        texts.append(text or _describe_too_few_points(problem, result))
    texts.append(_describe_jitter(result.best))
    found += [FitWarning(ConvergenceWarning, text) for text in texts if text]
    texts = ["" if trivial else mismatch, _describe_dominance(problem)]
    return found + [FitWarning(UserWarning, text) for text in texts if text]


def _describe_jitter(best):
    """Describe jitter that is too large, or return an empty string."""
    if best.jitter > SUSPICIOUS_JITTER:
        return (
            f"the covariance of the inducing points needed {best.jitter:.0e} of its mean diagonal "
            "added to be positive definite: the kernel may not be positive semi-definite"
        )
    ratio = _jitter_to_noise(best)
    if not ratio > COSTLY_JITTER:
        return ""
    cost = 0.5 * len(best.posterior.Z) * np.log1p(ratio)
    return (
        "the covariance of the inducing points is nearly singular, and the jitter added to its "
        f"diagonal is {ratio:.2g} times the smallest noise variance: it can lower the bound by up "
        f"to {cost:.2g} nats and blur predictions. Raise the noise variance, remove points that "
        "are nearly equal, or use a kernel of rougher functions"
    )


def _jitter_to_noise(best):
    """Return the jitter, as a variance, divided by the smallest noise variance of a row."""
    posterior = best.posterior
    variance = posterior.jitter * float((posterior.Luu**2).sum()) / len(posterior.Z)
    return variance * max(float(solution.sites.precision.max()) for solution in best.solutions)


def latent_range(posterior):
    """Return the largest range of the mean of f minus its prior mean, over the points and zero."""
    means = [posterior.Luu @ q.w for q in posterior.functions]
    return max(float(np.ptp(np.append(mean, 0.0))) for mean in means)


def describe_trivial(estimator, problem, weight, limits="", mismatch=""):
    """Describe a fitted model that is no better than a constant, and what may help.

    ``problem`` has the `KernelChoice`, the `Spread` and the `Hyperparameters`; `weight` holds those
    of all merged rows. `limits` and `mismatch` describe hyperparameters at their limits, and
    targets that do not suit the kernel.
    """
    bound = f"its bound, {estimator.lower_bound_:.4f} nats, is not clearly above that of a constant"
    if latent_range(estimator._posterior) < estimator._visible_range:
        text = f"the learned function is constant: {bound}, so predictions depend little on X"
    else:
        text = f"the learned model is poor: {bound} function, though its predictions vary with X"
    return f"{text}. {_remedy(problem, weight, limits, mismatch)}"


def describe_rough(model, best):
    """Describe a function that was taken for noise, or return an empty string."""
    correlation = missed_correlation(model, best)
    if correlation <= CORRELATED:
        return ""
    return (
        f"residuals of neighbouring rows are correlated ({correlation:.2f}), so what remains is "
        "not only noise: a function that varies faster, or of several columns together, is "
        "missing. Give a kernel with a shorter length scale, a period or interactions, or use "
        "LocalCorrection"
    )


def _describe_too_few_points(problem, result):
    """Describe a function that varies too fast for the points of a fit, or return an empty string.

    This is for fits that choose the number of points.
    """
    cost = problem.model.cost_per_row(result.best)
    is_open = problem.chooses_points and problem.estimator._warns_of_few_points
    if not is_open or cost < NEGLIGIBLE_COST_PER_ROW:
        return ""
    correlation = remaining_correlation(problem.model, result.best)
    if correlation > UNRESOLVED:
        reason = (
            f"residuals of neighbouring rows are correlated ({correlation:.2f}), so a part of f "
            "that varies fast was taken for noise"
        )
    elif cost > COSTLY_RESIDUAL and problem.plan is not None and problem.plan.is_known:
        # Noise that is learned would take it up, and leave correlated residuals.
        reason = f"the variance of f that they leave unexplained costs {cost:.2g} nats per row"
    else:
        return ""
    return (
        f"{len(result.best.points.Z)} inducing points are too few: {reason}. Use LocalCorrection, "
        "which also predicts from the nearest training rows, or set a larger n_inducing"
    )


def _remedy(problem, weight, limits, mismatch):
    """Return what may help if the learned model is no better than a constant."""
    total, n_rows = float(weight.sum()), len(weight)
    if total < TOO_LIGHT * effective_rows(weight):
        return (
            f"The weights of {n_rows} rows add up to {total:.3g} rows, too little to learn from: "
            "scale them up to the effective number of rows"
        )
    if mismatch:
        return mismatch[0].upper() + mismatch[1:]
    now = f" (now {limits})" if limits else ""
    # A length scale for each column does not depend on the columns' scales. Start values and limits
    # of kernels by name suit the data.
    suits = problem.choice.is_named and len(problem.spread.deviations) == 1
    scale = "scale its columns, " if "all" in problem.hyperparameters.columns and not suits else ""
    other = (
        "another kernel"
        if problem.choice.is_named
        else "a kernel with other start values or limits"
    )
    return f"If X is informative, {scale}give {other}{now}, or more rows or points"


def _describe_limits(problem, best):
    """Describe the hyperparameters at their bounds, or return an empty string."""
    parts, hyperparameters, estimator = [], problem.hyperparameters, problem.estimator
    for k, side in hyperparameters.at_limits(best):
        entry = hyperparameters.entries[k]
        column = entry.column if entry.is_length_scale else None
        if entry.effect and side == ("lower" if entry.is_variance else "upper"):
            # A column that has no effect of its own ends here, as it should.
            continue
        if problem.choice.is_named and isinstance(column, int) and side == "upper":
            # Limits of kernels by name are so wide that the column is without effect there.
            continue
        if problem.choice.is_named and entry.is_variance and side == "lower":
            # So is what the kernel describes: all of f, or what effects of columns leave.
            continue
        if problem.model.fit_prior_mean and entry.role == OFFSET and side == "lower":
            # The learned prior mean is the offset of a DotProduct.
            continue
        if isinstance(column, int) and side == "upper":
            meaning = f"{column_name(estimator, column)} looks irrelevant"
        elif isinstance(column, int):
            which = column_name(estimator, column)
            meaning = f"the function varies faster along {which} than the limit allows"
        else:
            meaning = estimator._limit_meaning(entry, side, best)
            if meaning is None:
                continue
        meaning = f": {meaning}" if meaning else ""
        parts.append(f"{entry.name} = {np.exp(best.theta[k]):.3g} at its {side} limit{meaning}")
    return "; ".join(parts)


def _describe_dominance(problem):
    """Describe a column that dominates a common length scale, or return an empty string."""
    spread = problem.spread
    deviations = np.where(spread.varies, spread.deviations, 0.0)
    widest = int(deviations.argmax())
    others = np.delete(deviations, widest)
    others = others[others > 0.0]
    if "all" not in problem.hyperparameters.columns or len(others) == 0:
        return ""
    ratio = deviations[widest] / np.median(others)
    if ratio <= DOMINANT_SPREAD:
        return ""
    name = column_name(problem.estimator, widest)
    return (
        f"{name} has standard deviation {deviations[widest]:.3g}, "
        f"{ratio:.2g} times the median of the other columns, and the kernel has one length scale "
        "for all columns, so it hides the others: scale the columns, for example with "
        "StandardScaler, or give the kernel one length scale for each column"
    )
