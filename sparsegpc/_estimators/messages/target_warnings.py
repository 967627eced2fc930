"""Warnings about targets that do not suit the model of a fit."""

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sparsegpc._core.likelihoods.gaussian import constant_bound
from sparsegpc._core.numerics.medians import robust_deviation, weighted_median
from sparsegpc._estimators.input.labels import declared_order, is_ordinal
from sparsegpc._estimators.input.targets import deviations
from sparsegpc._estimators.kernels.hyperparameters import SOME_ROWS
from sparsegpc._estimators.messages.user_warnings import FitWarning
from sparsegpc._estimators.noise.outliers import MOST_EQUAL, deviation_ratios, residuals
from sparsegpc._estimators.noise.registry import AUTO, VARYING

# If more than this fraction of the targets is equal, Student-t noise may take all others for
# outliers.
LARGE_SHARE = 0.3
# With less than this fraction of the targets' deviation, f cannot explain much of them.
SMALLEST_SHARE = 0.2
# If the deviations of two outputs have at least this ratio, a common kernel visibly costs accuracy.
UNLIKE = 10.0
# A fit with the same noise at all rows warns if the deviation of residuals is OUTLYING times what
# most of them suggest, and is not NEGLIGIBLE beside that of the targets.
OUTLYING, NEGLIGIBLE = 4.0, 0.01
# Positive targets are skewed if a log-normal distribution describes them by so many nats better, in
# all and per row, and also those between the quantiles CENTRAL, without any outliers. A gap of GAP
# deviations between logarithms beyond these quantiles tells that the targets above are outliers.
SKEWED, SKEWED_PER_ROW, CENTRAL, GAP = 10.0, 0.02, (0.05, 0.95), 2.5
# A warning names at most so many classes.
SHOWN = 12


def order_warnings(likelihood, y):
    """Return a list with a `FitWarning` if the order of classes is that of their spelling.

    This is so for an ordinal `likelihood` and strings y (N,) that declare no other order, unless
    they are numbers, which have the same order.
    """
    if not is_ordinal(likelihood) or declared_order(y) is not None:
        return []
    labels = set(np.ravel(np.asarray(y, dtype=object)))
    if len(labels) < 3 or not all(isinstance(label, str) for label in labels):
        return []
    try:
        ascending = sorted(labels, key=float)
    except ValueError:
        remedy = (
            "if this is not their order, replace them by the codes 0, 1, ... in their order; if it "
            "is, say so by y = pandas.Categorical(y, ordered=True)"
        )
    else:
        if ascending == sorted(labels):
            return []
        remedy = "convert them to numbers, which have another order"
    shown = " < ".join(sorted(labels)[:SHOWN]) + (" < ..." if len(labels) > SHOWN else "")
    text = f"the ordered classes are strings, and taken in alphabetical order, {shown}: {remedy}"
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
    """Return whether targets (N,) without the smallest and largest are rather log-normal.

    They are not if the largest are outliers even among the logarithms.
    """
    low, high = np.quantile(y, CENTRAL)
    logs = np.log(y)
    largest = np.sort(logs[y > high])
    gaps = np.diff(largest, prepend=logs[y <= high].max())
    middle = weighted_median(logs, weight)
    if (gaps > GAP * robust_deviation(logs, weight, middle)).any():
        return False
    central = (y >= low) & (y <= high)
    y, weight = y[central], weight[central]
    is_constant = np.ptp(y) == 0.0
    gain = _log_normal_log_likelihood(y, weight) - _normal_log_likelihood(y, weight)
    return not is_constant and gain > SKEWED


def _normal_log_likelihood(y, weight):
    """Return the largest log-likelihood of a normal distribution of targets (N,)."""
    return constant_bound(y, 0.0, weight, fit_prior_mean=True)


def _log_normal_log_likelihood(y, weight):
    """Return the largest log-likelihood of a log-normal distribution of targets (N,)."""
    return _normal_log_likelihood(np.log(y), weight) - float(weight @ np.log(y))


def outlier_warnings(fitted):
    """Return a list with a `FitWarning` for each output of a `FittedProblem` with outliers.

    This is for Gaussian noise with the same variance at all rows.
    """
    found = residuals(fitted)
    if found is None:
        return []
    model, (differences, rows) = fitted.problem.model, found
    weight, targets = model.weight[rows], np.stack([y["mean"][rows] for y in model.targets])
    sizes = deviations(differences, weight, np.zeros(len(differences)))
    ratios = deviation_ratios(differences / _widths(fitted, rows), weight)
    spreads = deviations(targets, weight, targets.mean(axis=1))
    warned = (ratios > OUTLYING) & (sizes > NEGLIGIBLE * spreads)
    if not warned.any():
        return []
    shares = fitted.problem.builder.equal_shares()
    return [
        FitWarning(
            UserWarning,
            f"the standard deviation of the residuals is {ratios[k]:.1f} times what most of them "
            f"suggest: {_remedy_of_outliers(fitted.problem, shares[k])}",
        )
        for k in np.flatnonzero(warned)
    ]


def _widths(fitted, rows):
    """Return what residuals at some rows are compared with, (n_outputs, n), or a number.

    It is the deviation of noise of which a part is known, as that differs from row to row.
    """
    model, best = fitted.problem.model, fitted.result.best
    if not fitted.problem.plan.learned(best).adds_to_known:
        return 1.0
    outputs = zip(model.likelihoods(best.theta), model.targets, strict=True)
    return np.sqrt([likelihood.noise_variance(y[rows]) for likelihood, y in outputs])


def _remedy_of_outliers(problem, share):
    """Return what may help if targets of a `Problem`, a share of them equal, have outliers."""
    if share > MOST_EQUAL:
        return (
            f"{share:.0%} of the targets are equal; if that value is only a limit, give event, "
            "else learn the others alone, and with a classifier where this value occurs"
        )
    remedy = 'if a few targets are outliers, set noise="student-t"'
    if problem.estimator._has_known_noise:
        return remedy + " without noise_variance"
    if problem.estimator.noise == AUTO:
        return remedy
    return remedy + ', and if the noise depends on X, set noise="auto"'


def unlearned_noise_warnings(noise_bounds):
    """Return a list with a `FitWarning` if noise that varies could not be compared, else empty.

    `noise_bounds` is a dict of the bound for each kind of noise, or None if none were compared.
    """
    if noise_bounds is None or VARYING in noise_bounds:
        return []
    text = (
        "with noise that varies the bound could not be computed, so noise='auto' did not take it. "
        "This happens if the noise vanishes at some rows, for example at targets that are zero: "
        "learn the others alone"
    )
    return [FitWarning(ConvergenceWarning, text)]


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


def describe_mismatch(kernel, X, variance, remedy, constant=False):
    """Describe targets whose scale does not suit the limits of the kernel, or return "".

    `variance` (n_outputs,) holds the variances of the targets; `remedy` tells how to scale them. If
    the learned function is no better than a `constant` one, limits that are too large for the
    targets count, too.
    """
    if len(variance) == 0:
        return ""
    least, most = np.sqrt([variance.min(), variance.max()])
    if most >= UNLIKE * least:
        return (
            f"the standard deviations of the outputs range from {least:.3g} to {most:.3g}, but the "
            f"outputs share one kernel, which can hide some of them: {remedy}"
        )
    low, high = _deviations_of_f(kernel, X)
    if high < SMALLEST_SHARE * most or (constant and low > least / SMALLEST_SHARE):
        return (
            f"the limits of the kernel give f a standard deviation from {low:.3g} to {high:.3g}, "
            f"but that of the targets is {most:.3g}: {remedy}, or change these limits"
        )
    return ""


def _deviations_of_f(kernel, X):
    """Return the least and the largest prior standard deviation of f within the limits."""
    free = [h for h in kernel.hyperparameters if not h.fixed]
    is_length = [h.name.endswith("length_scale") for h in free for _ in range(h.n_elements)]
    low, high = np.reshape(kernel.bounds, (-1, 2)).T
    # It grows with other hyperparameters, but never with a length scale.
    X, ends = X[:SOME_ROWS], np.where(is_length, [high, low], [low, high])
    with np.errstate(all="ignore"):
        return [float(np.sqrt(np.mean(kernel.clone_with_theta(theta).diag(X)))) for theta in ends]
