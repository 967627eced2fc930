"""Scores of predicted class probabilities, and of predicted means with standard deviations."""

import numpy as np

N_BINS = 15
# Where a probability of zero would make the log loss infinite.
SMALLEST = np.finfo(np.float64).tiny
# A normal variable is within so many standard deviations of its mean with probability .9.
DEVIATIONS_OF_90 = 1.6448536269514722


def log_loss(codes, proba):
    r"""Return :math:`-\frac1N \sum_n \log p_{n, y_n}`, in nats per row."""
    right = proba[np.arange(len(codes)), codes]
    return float(-np.log(np.maximum(right, SMALLEST)).mean())


def brier_score(codes, proba):
    r"""Return :math:`\frac1N \sum_n \sum_k (p_{nk} - [y_n = k])^2`, half of that for two classes.

    So that with two it is the mean of :math:`(p_{n1} - y_n)^2`, as scikit-learn has it.
    """
    errors = proba - (codes[:, None] == np.arange(proba.shape[1]))
    scale = 0.5 if proba.shape[1] == 2 else 1.0
    return float(scale * (errors**2).sum(axis=1).mean())


def ranked_probability_score(codes, proba):
    r"""Return :math:`\frac1N \sum_n \sum_k (\sum_{l \le k} p_{nl} - [y_n \le k])^2`.

    For classes in the order of the columns: the further a probability is from the right class, the
    more it counts.
    """
    below = codes[:, None] <= np.arange(proba.shape[1])
    return float(((proba.cumsum(axis=1) - below) ** 2).sum(axis=1).mean())


def calibration_error(codes, proba, n_bins=N_BINS):
    r"""Return the expected calibration error of the most probable class.

    .. math:: \sum_b \frac{N_b}{N} |\text{accuracy}_b - \text{confidence}_b|

    over bins b of equal width of each row's largest probability, closed on the right; accuracy is
    the share of the bin's rows whose most probable class is the right one, and confidence the mean
    of their largest probabilities. It is biased upwards, the more so the fewer rows there are.
    """
    confidence = proba.max(axis=1)
    right = proba.argmax(axis=1) == codes
    bins = np.clip(np.ceil(confidence * n_bins).astype(int) - 1, 0, n_bins - 1)
    # N_b times the difference of the means is the difference of the sums.
    return float(np.abs(np.bincount(bins, right - confidence, n_bins)).sum() / len(codes))


def all_scores(codes, proba):
    """Return accuracy, log loss, Brier score and calibration error by name.

    Parameters
    ----------
    codes : ndarray of int of shape (N,)
        The right column of each row.
    proba : ndarray of shape (N, C)
    """
    return {
        "accuracy": float((proba.argmax(axis=1) == codes).mean()),
        "log_loss": log_loss(codes, proba),
        "brier": brier_score(codes, proba),
        "calibration_error": calibration_error(codes, proba),
    }


def normal_log_density(y, mean, std):
    r"""Return :math:`\log \mathcal N(y_n; \mu_n, \sigma_n^2)` of each row, in nats, shape (N,)."""
    return -0.5 * ((y - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2.0 * np.pi)


def regression_scores(y, mean, std, log_density=None):
    r"""Return root mean square error, mean log density and coverage of 90 % intervals by name.

    The interval of a row is :math:`\mu_n \pm 1.645\, \sigma_n`, and the coverage the share of rows
    whose target is inside.

    Parameters
    ----------
    y, mean, std : ndarray of shape (N,)
    log_density : ndarray of shape (N,), default=None
        None means that of normal distributions.
    """
    if log_density is None:
        log_density = normal_log_density(y, mean, std)
    return {
        "rmse": float(np.sqrt(np.mean((y - mean) ** 2))),
        "log_density": float(np.mean(log_density)),
        "coverage": float(np.mean(np.abs(y - mean) <= DEVIATIONS_OF_90 * std)),
    }
