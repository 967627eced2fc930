"""Warnings about counts, events and totals that do not suit the likelihood of a fit."""

import numpy as np
from scipy.special import comb

from sparsegpc._core.likelihoods.counts import NegativeBinomial, Poisson
from sparsegpc._estimators.messages.user_warnings import FitWarning

# Predicted means and targets have other totals if these differ by more than this share, and by more
# than so many standard errors.
OTHER_TOTAL, STANDARD_ERRORS = 0.05, 3.0
# Counts are overdispersed if a negative binomial distribution describes them by so many nats
# better, and by more than the logarithm of their number, which is what its two parameters cost.
OVERDISPERSED = 5.0
# Events are judged if at least so many targets were observed, and at least this share is censored.
FEWEST_OBSERVED, LEAST_CENSORED = 3, 0.2
# Limits on one side of all observed targets are odd if, in random order, they are with less than
# this probability.
BY_CHANCE = 1e-3
# At most so many different lower limits look like upper ones if more than the first share of the
# observed targets is above all of them, and more than the second share of pairs of a target and a
# limit has the target above.
FEW_LIMITS, ABOVE_ALL, ABOVE = 5, 0.2, 0.5
# If this number of events is expected, none occurs with a probability of 5 %.
NO_EVENT = -np.log(0.05)


def event_warnings(y, event, of_output="", upper="-1"):
    """Return a list with a `FitWarning` if events of targets (N,) look as if they were miscoded.

    `event` (N,) is 1 where a target was observed, 0 at lower limits and -1 at upper ones.
    `of_output` names the output where there are several. `upper` is what an upper limit needs: its
    code and, if others do not take it, the likelihood.
    """
    observed, lower, upper_limits = (y[event == value] for value in (1.0, 0.0, -1.0))
    n_censored, text = len(y) - len(observed), ""
    if len(observed) < FEWEST_OBSERVED or n_censored < LEAST_CENSORED * len(y):
        return []
    if len(np.unique(observed)) == 1:
        text = (
            f"all targets{of_output} that were observed (event 1) are equal, as limits are: give "
            "event 1 where the number is known, and 0 or -1 where it is only a limit"
        )
    elif _are_below(lower, observed):
        text = (
            f"no target{of_output} was observed below a lower limit (event 0), so these look like "
            f"upper limits: if they are, give {upper}"
        )
    elif _are_below(observed, upper_limits):
        text = (
            f"no target{of_output} was observed above an upper limit (event -1), so these look "
            "like lower limits: if they are, give 0"
        )
    elif _look_like_upper_limits(lower, observed):
        text = (
            f"lower limits{of_output} (event 0) repeat, and most targets were observed above them, "
            "so these look like limits of detection, which are upper limits: if they are, give "
            f"{upper}"
        )
    return [FitWarning(UserWarning, text)] if text else []


def _are_below(first, second):
    """Return whether all numbers in `first` are at most those in `second`, and not by chance."""
    if not (len(first) and len(second)) or first.max() > second.min():
        return False
    return comb(len(first) + len(second), len(first)) > 1.0 / BY_CHANCE


def _look_like_upper_limits(lower, observed):
    """Return whether most observed targets lie above lower limits, which are few numbers.

    Where a number exceeds such a limit it is not observed, but limits may differ from row to row.
    Numbers that were observed as well are no limits of detection, but perhaps whole months.
    """
    limits = np.unique(lower)
    if not 0 < len(limits) <= FEW_LIMITS or len(lower) < 2 * len(limits):
        return False
    share_above = np.searchsorted(np.sort(lower), observed) / len(lower)
    is_above = np.mean(share_above == 1.0) > ABOVE_ALL and share_above.mean() > ABOVE
    return is_above and not np.isin(observed, limits).any()


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


def overdispersion_warnings(y, weight, bound):
    """Return a list with a `FitWarning` if counts vary more than a Poisson model allows.

    This is so if a negative binomial distribution whose rate does not depend on X describes the
    `observations` y of weights (n,) better than a Poisson distribution of this kind, and than the
    model, whose lower bound is given.
    """
    likelihood = NegativeBinomial()
    constant = likelihood.at(likelihood.constant_params(y, weight))
    other = max(bound, Poisson().constant_bound(y, weight))
    gain = constant.constant_bound(y, weight) - other
    if not gain > max(OVERDISPERSED, np.log(weight.sum())):
        return []
    text = (
        "the counts vary more than this Poisson model allows: a negative binomial distribution "
        f"whose rate does not depend on X describes them better, by {gain:.0f} nats. Set "
        "likelihood='negative-binomial'"
    )
    return [FitWarning(UserWarning, text)]


def total_warnings(y, mean, weight):
    """Return a list with a `FitWarning` if predicted means (N,) add up to another total than y.

    This is for log-normal targets y (N,), whose mean depends on the variance of their logarithms.
    """
    total, predicted = float(weight @ y), float(weight @ mean)
    excess = y - mean
    error = np.sqrt(weight @ (excess - np.average(excess, weights=weight)) ** 2)
    if not abs(predicted - total) > max(OTHER_TOTAL * total, STANDARD_ERRORS * error):
        return []
    text = (
        f"the predicted means of the training rows add up to {predicted:.4g}, but the targets to "
        f"{total:.4g}: the log-normal distribution fits the logarithms of the targets, not their "
        "mean. If means or totals matter, set likelihood='gamma'"
    )
    return [FitWarning(UserWarning, text)]
