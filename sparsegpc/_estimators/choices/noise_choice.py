"""Learn noise that depends on the row, starting from the same noise for all rows.

With ``noise="auto"`` such noise has to raise the objective, the bound plus the log prior, by more
than log N for N rows, the Bayesian information criterion for two parameters. Those of the log noise
variance are its variance, and the length scale that all columns share. The prior accounts for the
differences between the columns. If the residuals beside the same noise at all rows have heavy
tails, noise with a Student-t distribution is compared as well, and has to gain as much.

Where many targets are equal, such as the zeros among insurance claims, the density grows without
limit as the noise there vanishes. That is no evidence about the other targets, so such noise is
rejected. So is Student-t noise whose scale vanishes: then most targets are free of noise, and all
others are taken for outliers.
"""

import numpy as np

from sparsegpc._core.learning.pruned_columns import MOST_COLUMNS, TRIAL_ROWS, with_shorter_lengths
from sparsegpc._core.learning.runs import Start, StartOptions
from sparsegpc._core.learning.single_start import MANY_ROWS
from sparsegpc._core.numerics.linalg import attempted
from sparsegpc._estimators.choices.comparison import Decision
from sparsegpc._estimators.choices.kernel_choice import decide_kernel
from sparsegpc._estimators.choices.vanishing_noise import vanishing_noise
from sparsegpc._estimators.improvements.after_search import with_faster_function
from sparsegpc._estimators.improvements.effect_trials import with_faster_effects
from sparsegpc._estimators.kernels.initialization import single_columns, start_values
from sparsegpc._estimators.learning.search import search
from sparsegpc._estimators.learning.warm_start import check_same_noise, is_warm
from sparsegpc._estimators.noise.homoscedastic import HomoscedasticNoise
from sparsegpc._estimators.noise.outliers import has_heavy_tails
from sparsegpc._estimators.noise.registry import AUTO, DEFAULT, STUDENT_T, VARYING, resolve_noise

# The noise of a target that others share vanishes if its standard deviation is less than VANISHING
# times the distance to the nearest other target. Noise that vanishes at more than the fraction
# MOST_VANISHING of the rows is rejected.
VANISHING, MOST_VANISHING = 0.05, 0.05
# Passes that show whether the noise depends on a column. Columns that gain less than this fraction
# of what the best one gains are left to the search.
MOST_PASSES, COLUMN_SHARE = 10, 0.25


def decide_noise(builder):
    """Return the `Decision` about the noise and the kernel of a `RegressionBuilder`."""
    estimator = builder.estimator
    if not builder.plan.varies:
        decision = decide_kernel(builder)
        if is_warm(estimator):
            check_same_noise(builder)
        return decision
    is_auto = estimator.noise == AUTO
    homoscedastic = builder.with_noise(HomoscedasticNoise())
    decision = decide_kernel(homoscedastic, resolve_noise(estimator.noise).sees_transforms)
    choice = decision.problem.choice
    varying = builder.with_noise(transform=choice.transform)
    if is_warm(estimator):
        last, before = varying, estimator._plan
        if is_auto and not varying.plan.is_like(before):
            is_constant = homoscedastic.plan.is_like(before)
            last = homoscedastic if is_constant else builder.with_outliers()
        return Decision(_from_last_noise(last).build(choice))
    if estimator.optimizer is None:
        return decision if is_auto else Decision(varying.build(choice))
    return _learned_decision(decision, varying, is_auto)


def _from_last_noise(builder):
    """Return the `RegressionBuilder` that goes on from the noise of the last fit."""
    check_same_noise(builder)
    log_noise = builder.estimator._noise.prior_means
    return builder if log_noise is None else builder.from_noise(log_noise)


def _learned_decision(decision, varying, is_auto):
    """Return the `Decision` about the noise of the `RegressionBuilder` of noise that varies.

    `decision` is that about the kernel with homoscedastic noise, which may remain if `is_auto`.
    """
    # Beside noise that varies, an effect that was taken for noise would not show.
    fitted = _learned(decision)
    if is_auto and fitted.stopped:
        return Decision(fitted.problem, fitted=fitted)
    n_kernel = fitted.problem.model.kernel.n_params
    noisy = varying.from_noise(fitted.result.best.theta[n_kernel:])
    problem = noisy.build(decision.problem.choice)
    starts = _starts(problem, fitted)
    if not is_auto:
        return Decision(problem, starts)
    return _best_decision(fitted, attempted(search, problem, starts))


def _starts(varying, fitted):
    """Return the `StartOptions` of a problem of noise that varies.

    `fitted` is what was learned with homoscedastic noise.
    """
    problem, best = fitted.problem, fitted.result.best
    model, of_noise = problem.model, varying.plan.hyperparameters
    n_kernel = model.kernel.n_params
    noise_starts = [varying.hyperparameters.theta[n_kernel:]]
    if of_noise is not None:
        noise_starts = start_values(of_noise, varying.spread)
    theta = best.theta[:n_kernel]
    values = [np.append(theta, start) for start in noise_starts]
    values += _starts_by_column(varying, theta, best.points)
    if best.objective - model.constant_bound() < _needed_gain(model):
        # What f explains may be noise that varies.
        constant_f = model.constant_theta(best.theta, problem.hyperparameters.bounds)[:n_kernel]
        values += [np.append(constant_f, start) for start in noise_starts]
    # Subsets of many rows choose their own points.
    has_subsets = len(varying.model.weight) >= MANY_ROWS
    return StartOptions(values, None if has_subsets else best.points)


def _best_decision(homoscedastic, varying):
    """Return the `Decision` for one kind of noise, which may be one with outliers.

    The arguments are `FittedProblem` with the same noise at all rows, and with noise that varies,
    None if that cannot be learned.
    """
    fits, best = {DEFAULT: homoscedastic}, homoscedastic
    if varying is not None:
        fits[VARYING] = varying
        if _gains(varying, best) and not _vanishes(varying.problem.model, varying.result.best):
            best = varying
    # Student-t noise merges fewer rows, so a part of many rows would be another one.
    is_comparable = not (best.stopped or homoscedastic.problem.learns_from_part)
    if is_comparable and has_heavy_tails(homoscedastic):
        with_outliers = attempted(_learned_with_outliers, homoscedastic.problem.builder)
        if with_outliers is not None:
            fits[STUDENT_T] = with_outliers
            if _gains(with_outliers, best) and not vanishing_noise(with_outliers, at_copies=False):
                best = with_outliers
    bounds = {name: float(fit.result.best.elbo + fit.problem.offset) for name, fit in fits.items()}
    return Decision(best.problem, fitted=best.evaluated_last(), compared_bounds=bounds)


def _learned_with_outliers(builder):
    """Return the `FittedProblem` of a `RegressionBuilder` with Student-t noise."""
    return _learned(decide_kernel(builder.with_outliers()))


def _learned(decision):
    """Return the `FittedProblem` of a `Decision`, after the search for faster functions."""
    return decision.learn().then(with_faster_function).then(with_faster_effects)


def _gains(other, fitted):
    """Return whether another `FittedProblem` is better by more than its parameters may gain."""
    gain = other.result.best.objective - fitted.result.best.objective
    return gain > _needed_gain(fitted.problem.model)


def _needed_gain(model):
    """Return what another kind of noise must gain in the objective, in nats: log N."""
    return np.log(model.total_weight)


def _vanishes(model, evaluation):
    """Return whether the noise of an `Evaluation` vanishes at many rows with equal targets."""
    return any(
        _vanishing_share(y["mean"], model.weight, solution.sites.precision) > MOST_VANISHING
        for y, solution in zip(model.targets, evaluation.solutions, strict=True)
    )


def _vanishing_share(y, weight, precision):
    """Return the share of rows with a target that others have, too, at which the noise vanishes.

    `y`, `weight` and `precision` have the shape (N,).
    """
    values, inverse, counts = np.unique(y, return_inverse=True, return_counts=True)
    if len(values) == 1:
        return 0.0
    gaps = np.diff(values)
    nearest = np.minimum(np.append(gaps, np.inf), np.append(np.inf, gaps))
    vanishes = (counts[inverse] > 1) & (weight < precision * (VANISHING * nearest[inverse]) ** 2)
    return float(weight[vanishes].sum() / weight.sum())


def _starts_by_column(problem, theta, points):
    """Return a list of the start at which the noise depends on the columns that explain most of it.

    It is empty if there is no choice of columns, or if none of them explains anything by itself.
    With many columns and equal length scales, all distances between rows are about the same, and a
    search may miss that few columns matter. `theta` and `points` are those of f with homoscedastic
    noise.
    """
    if problem.plan.hyperparameters is None:
        return []
    own, alternatives = single_columns(problem.plan.hyperparameters, problem.spread)
    if not 2 <= len(alternatives) <= MOST_COLUMNS or problem.progress.stopped:
        return []
    part, n_before = problem.model.subsample(TRIAL_ROWS), len(theta)
    theta = np.append(theta, own)
    alternatives = {n_before + k: values for k, values in alternatives.items()}
    # The points of the noise must suffice for each of the columns.
    short = theta.copy()
    for k, values in alternatives.items():
        short[k] = values[0]
    points = part.with_noise_points(points, short)
    start = Start(theta, part.initial_state(), points=points)
    found = with_shorter_lengths(
        part, start, alternatives, problem.progress, MOST_PASSES, COLUMN_SHARE
    )
    return [] if found is None else [found]
