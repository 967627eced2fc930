"""The warnings of a fit: at most one for each cause, each with a remedy."""

from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sparsegpc._core.learning.diagnostics import (
    NEGLIGIBLE_COST_PER_ROW,
    missed_correlation,
    remaining_correlation,
)
from sparsegpc._core.rows.merged_rows import merge_rows
from sparsegpc._core.rows.sources import RowSource, spaced_rows, take_rows
from sparsegpc._estimators.input.targets import centres, deviations
from sparsegpc._estimators.input.validation import PresentRows, column_name
from sparsegpc._estimators.kernels.hyperparameters import OFFSET
from sparsegpc._estimators.messages.user_warnings import warn_user

# Warn if one column varies this many times more than the others, with a common length scale.
DOMINANT_SPREAD = 1e3
# Rounding errors of kernels require jitter of up to about 1e-7.
SUSPICIOUS_JITTER = 1e-6
# If jitter is this multiple of the noise variance, it costs up to half as many nats for each point.
COSTLY_JITTER = 1e-2
# If more than this fraction of the targets is equal, Student-t noise may take all others for
# outliers.
LARGE_SHARE = 0.3
# A fit with the same noise at all rows warns if the deviation of residuals is OUTLYING times what
# most of them suggest, and is not NEGLIGIBLE beside that of the targets.
OUTLYING, NEGLIGIBLE = 4.0, 0.01
# The number of rows whose residuals count, and the fewest that tell which are usual.
RESIDUAL_ROWS, FEWEST_RESIDUALS = 5000, 30
# A fit warns if the correlation of deviations at neighbouring rows is larger than the first; if it
# has as many points as it can afford, than the second.
CORRELATED, UNRESOLVED = 0.3, 0.2
# Positive targets are skewed if a log-normal distribution describes them by so many nats better, in
# all and per row, and also those between the quantiles CENTRAL, without any outliers.
SKEWED, SKEWED_PER_ROW, CENTRAL = 10.0, 0.02, (0.05, 0.95)
# Rows look like copies of records if more than the fraction COPIED of them, and FEWEST_COPIES,
# repeat others, a column takes different values at the fraction VARIED of the others, and places
# that occur several times have unequal targets at most DISAGREEING times as often as by chance.
COPIED, FEWEST_COPIES, VARIED, DISAGREEING = 0.1, 10, 0.5, 0.1
# If this number of events is expected, none occurs with a probability of 5 %.
NO_EVENT = -np.log(0.05)
# What is learned from half or twice as many copies of the same rows differs little.
FAR_FROM_ONE = 2.0


class FitWarning(NamedTuple):
    """A warning of a fit; those of several classes that have the same cause are merged.

    A cause of None means that the message is the cause.
    """

    category: type
    message: str
    cause: str | None = None


def emit_warnings(found_warnings):
    """Emit each `FitWarning`, located at the user's call of the public method."""
    for category, message, _ in found_warnings:
        warn_user(message, category)


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
        remedy = _remedy(problem, limits, mismatch)
        texts.append(f"{_describe_trivial(estimator, result.best)}. {remedy}")
    elif limits:
        texts.append(
            f"the bound still rises where hyperparameters meet their limits: {limits}. If the "
            "values are not what you expect, give wider limits in a kernel object or a noise object"
        )
    elif problem.learns and not (mismatch or fitted.stopped):
        text = describe_rough(problem.model, result)
        texts.append(text or _describe_too_few_points(problem, result))
    texts.append(_describe_jitter(result.best))
    found += [FitWarning(ConvergenceWarning, text) for text in texts if text]
    texts = ["" if trivial else mismatch, _describe_dominance(problem)]
    return found + [FitWarning(UserWarning, text) for text in texts if text]


def weight_warnings(sample_weight):
    """Return a list with a `FitWarning` if validated weights do not look like counts, else empty.

    The sum of the weights acts as the number of rows. If it is far too large, the fit follows the
    noise; if it is far too small, the learned function is constant.
    """
    weight = np.ravel(np.asarray(1.0 if sample_weight is None else sample_weight, dtype=np.float64))
    weight = weight[weight > 0.0]
    mean = float(weight.mean())
    if 1.0 / FAR_FROM_ONE <= mean <= FAR_FROM_ONE or (weight == np.round(weight)).all():
        return []
    text = (
        f"sample_weight has the mean {mean:.3g} and holds numbers that are not whole, but a weight "
        f"counts copies of its row: on average each row is taken for {mean:.3g} rows. If the "
        "weights are not counts, divide them by their mean"
    )
    return [FitWarning(UserWarning, text)]


def copied_records_warnings(rows):
    """Return a list with a `FitWarning` if many of the user's rows look like copies of others.

    Different records can agree in labels and counts, too, so a fit counts all rows. `rows` is what
    `_checked_rows` returns. The `Targets` of regressors were merged: see `copy_warnings`.
    """
    if not isinstance(rows, PresentRows) or isinstance(rows.X, RowSource):
        return []
    n_rows = len(rows.X)
    merged = merge_rows(rows.X, np.ones(n_rows), targets=rows.y)
    n_copies = n_rows - len(merged.X)
    if n_copies <= max(COPIED * n_rows, FEWEST_COPIES):
        return []
    # A place is a row of X; its different targets follow each other.
    is_new = np.append(True, (merged.X[1:] != merged.X[:-1]).any(axis=1))
    place = np.cumsum(is_new) - 1
    n_rows_there, n_targets_there = np.bincount(place, merged.weight), np.bincount(place)
    is_varied = any(len(np.unique(x)) >= VARIED * len(n_rows_there) for x in merged.X.T)
    has_several = n_rows_there > 1.0
    disagreeing = (n_targets_there[has_several] > 1).mean()
    by_chance = _share_of_unequal_targets(rows.y, n_rows_there[has_several])
    if not is_varied or not disagreeing < DISAGREEING * by_chance:
        return []
    text = (
        f"{n_copies} of {n_rows} rows repeat others, targets included, and each of them counts as "
        "new evidence. If they are copies of records, as from upsampling, drop them before "
        "fitting: otherwise probabilities and error bars are too certain"
    )
    return [FitWarning(UserWarning, text)]


def _share_of_unequal_targets(y, sizes):
    """Return how often random targets of y (N,) in groups of these sizes are not all equal."""
    _, counts = np.unique(y, return_counts=True)
    sizes, n_groups = np.unique(sizes, return_counts=True)
    unequal = [1.0 - ((counts / len(y)) ** size).sum() for size in sizes]
    return float(np.average(unequal, weights=n_groups))


def copy_warnings(n_copies):
    """Return a list with a `FitWarning` that copies were left out, empty if there were none."""
    if n_copies == 0.0:
        return []
    text = (
        f"{n_copies:g} rows, counted by their weights, repeat others, targets included, and with "
        "them the targets look free of noise, so each row was counted at most once. Drop copies of "
        "records before fitting (a weight of k stands for k copies, too); if the targets are "
        "exact, give them a fixed small noise"
    )
    return [FitWarning(UserWarning, text)]


def zero_count_warnings(y, weight):
    """Return a list with a `FitWarning` if all counts are zero, empty otherwise.

    `y` are `observations` of weights (n,).
    """
    if y["y"].any():
        return []
    total = float(weight @ y["exposure"])
    text = (
        f"all {len(y)} counts are zero, so the rate has no lower limit, and predictions and "
        "intervals are zero. An upper limit follows from the total exposure, which is "
        f"{total:.4g}: if the rate is the same at all rows, it is below {NO_EVENT / total:.2g} for "
        "each unit with 95 % confidence"
    )
    return [FitWarning(UserWarning, text)]


def skewness_warnings(y, weight, bound):
    """Return a list with a `FitWarning` if positive targets are too skewed for Gaussian noise.

    This is so if a log-normal distribution that does not depend on X describes the targets y
    (n_outputs, N) of weights (N,) better than the model, whose lower bound is given.
    """
    if not ((y > 0.0).all() and np.ptp(y, axis=1).all()):
        return []
    log_normal = sum(_log_normal_log_likelihood(output, weight) for output in y)
    gain = log_normal - max(bound, sum(_normal_log_likelihood(output, weight) for output in y))
    is_clear = gain > max(SKEWED, SKEWED_PER_ROW * weight.sum())
    if not is_clear or not any(_is_skewed_between_quantiles(output, weight) for output in y):
        return []
    use = "Use SparseGPGeneralizedRegressor, or learn" if len(y) == 1 else "Learn"
    text = (
        "the targets are positive and skewed: a log-normal distribution that does not depend on X "
        f"describes them better than this model, by {gain:.0f} nats. {use} the logarithms of the "
        "targets"
    )
    return [FitWarning(UserWarning, text)]


def _is_skewed_between_quantiles(y, weight):
    """Return whether targets (N,) without the smallest and largest are rather log-normal."""
    low, high = np.quantile(y, CENTRAL)
    central = (y >= low) & (y <= high)
    y, weight = y[central], weight[central]
    is_constant = np.ptp(y) == 0.0
    gain = _log_normal_log_likelihood(y, weight) - _normal_log_likelihood(y, weight)
    return not is_constant and gain > 0.0


def _normal_log_likelihood(y, weight):
    """Return the largest log-likelihood of a normal distribution of targets (N,)."""
    spread = np.sqrt(np.average((y - np.average(y, weights=weight)) ** 2, weights=weight))
    with np.errstate(divide="ignore"):
        return -float(weight.sum() * (np.log(spread) + 0.5 * np.log(2.0 * np.pi) + 0.5))


def _log_normal_log_likelihood(y, weight):
    """Return the largest log-likelihood of a log-normal distribution of targets (N,)."""
    return _normal_log_likelihood(np.log(y), weight) - float(weight @ np.log(y))


def outlier_warnings(fitted):
    """Return a list with a `FitWarning` for each output of a `FittedProblem` with outliers.

    This is for Gaussian noise with the same variance at all rows.
    """
    model, posterior = fitted.problem.model, fitted.result.best.posterior
    places = spaced_rows(model.weight, RESIDUAL_ROWS)
    if len(places) < FEWEST_RESIDUALS:
        return []
    remedy = 'if a few targets are outliers, set noise="student-t"'
    if fitted.problem.estimator.noise != "auto":
        remedy += ', and if the noise depends on X, set noise="auto"'
    weight, targets = model.weight[places], np.stack([y["mean"][places] for y in model.targets])
    residuals = targets - posterior.moments(take_rows(model.X, places, memory=np.inf))[0]
    usual = deviations(residuals, weight, centres(residuals, weight, robust=True), robust=True)
    ratios = deviations(residuals, weight, np.zeros(len(residuals))) / usual
    spreads = deviations(targets, weight, targets.mean(axis=1))
    return [
        FitWarning(
            UserWarning,
            f"the standard deviation of the residuals is {ratio:.1f} times what most of them "
            f"suggest: {remedy}",
        )
        for ratio, size, spread in zip(ratios, ratios * usual, spreads, strict=True)
        if ratio > OUTLYING and size > NEGLIGIBLE * spread
    ]


def repetition_warnings(y, weight):
    """Return a list with a `FitWarning` for each output that repeats a value too often.

    This is for noise with a Student-t distribution: as its scale falls, the density of the repeated
    value grows without limit, and all other targets count as outliers.
    """
    found = []
    for output in y:
        values, places = np.unique(output, return_inverse=True)
        most = np.bincount(places, weight).max()
        share = most / weight.sum()
        if len(values) > 1 and most >= 2.0 and share > LARGE_SHARE:
            text = (
                f"{share:.0%} of the targets are equal, so Student-t noise may take the "
                "others for outliers: see whether predictions make sense, or choose other noise"
            )
            found.append(FitWarning(UserWarning, text))
    return found


def merge_classes(labels, warnings_by_class):
    """Return a list with one `FitWarning` for each cause in the lists of all classes."""
    groups = {}
    for label, found in zip(labels, warnings_by_class, strict=True):
        for warning in found:
            key = warning.category, warning.cause or warning.message
            groups.setdefault(key, []).append((label, warning))
    merged = []
    for (label, first), *others in groups.values():
        text = f"class {label} against the rest: {first.message}"
        if others:
            text += f". The same holds for {len(others)} other classes"
        merged.append(first._replace(message=text))
    return merged


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


def latent_range(best):
    """Return the largest range of the mean of f minus its prior mean, over the points and zero."""
    means = [best.posterior.Luu @ q.w for q in best.posterior.functions]
    return max(float(np.ptp(np.append(mean, 0.0))) for mean in means)


def _describe_trivial(estimator, best):
    bound = f"its bound, {estimator.lower_bound_:.4f} nats, is not clearly above that of a constant"
    if latent_range(best) < estimator._visible_range:
        return f"the learned function is constant: {bound}, so predictions depend little on X"
    return f"the learned model is poor: {bound} function, though its predictions vary with X"


def describe_rough(model, result):
    """Describe a function that was taken for noise, or return an empty string."""
    correlation = missed_correlation(model, result)
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
    correlation = remaining_correlation(problem.model, result)
    if correlation <= UNRESOLVED:
        return ""
    return (
        f"{len(result.best.points.Z)} inducing points are too few: residuals of neighbouring rows "
        f"are correlated ({correlation:.2f}), so a part of f that varies fast was taken for noise. "
        "Use LocalCorrection, which also predicts from the nearest training rows, or set a larger "
        "n_inducing"
    )


def _remedy(problem, limits, mismatch):
    """Return what may help if the learned model is no better than a constant."""
    total, n_rows = problem.model.total_weight, len(problem.model.weight)
    if total < n_rows / FAR_FROM_ONE:
        return (
            f"The weights of {n_rows} rows add up to {total:.3g} rows, too little to learn from: "
            "divide them by their mean"
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
