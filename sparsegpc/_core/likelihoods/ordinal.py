r"""The likelihood of ordered classes: one function f, and cut points that divide its values.

Cut points :math:`0 = b_1 < b_2 < \dots < b_{C-1}` turn f into cumulative probabilities,
:math:`p(y \le c | f) = \sigma(b_c - f)`, so that a large f favours high classes. The differences of
these probabilities factor,

.. math:: p(y = c | f) = \sigma(b_c - f) - \sigma(b_{c-1} - f)
    = \sigma(b_c - f) \, \sigma(f - b_{c-1}) \, (1 - e^{b_{c-1} - b_c}),

where the factors with :math:`b_0 = -\infty` and :math:`b_C = \infty` are one. So a label is an
observation of f on one side of each cut point next to its class, with the logistic likelihood of
two classes.
"""

from copy import copy

import numpy as np
from scipy.special import log_expit

from sparsegpc._core.likelihoods.base import LabelLikelihood
from sparsegpc._core.likelihoods.binary import BernoulliLogit
from sparsegpc._core.likelihoods.binary_probabilities import log_expected_sigmoid
from sparsegpc._core.likelihoods.multiclass import class_shares
from sparsegpc._core.numerics.floats import EPSILON

# Limits of a gap between cut points, as multiples of the gap that suits a constant f. That of a
# class without rows, in a part of the data, would vanish, and those of separable classes grow.
GAP_LIMITS = (1e-3, 1e4)
# A class without rows counts as this fraction of a row in the first gaps, and as this fraction of
# all rows in those that are best for a constant f.
ROWS_AT_START, LEAST_SHARE = 0.5, 1e-9


class OrdinalLogit(LabelLikelihood):
    r"""The cumulative logit likelihood :math:`p(y \le c | f) = \sigma(b_c - f)` of ordered classes.

    The order of the classes is that of their labels when sorted. The first cut point is
    :math:`b_1 = 0`, as the prior mean of f is learned. The logarithms of the gaps between the
    others are learned with the hyperparameters. With two classes it is the likelihood of
    `BernoulliLogit`.

    An entry of ``y`` holds the share of each class among the copies of a row, shape (C,).

    Attributes
    ----------
    cut_points : ndarray of shape (C - 1,)
        Increasing, the first is zero.

    References
    ----------
    McCullagh 1980, "Regression models for ordinal data", for the likelihood.
    """

    takes_many_classes = True
    merges_unequal_targets = True
    cut_points = np.zeros(1)

    def for_classes(self, n_classes):
        return self.at(np.zeros(n_classes - 2))

    def at(self, params):
        likelihood = copy(self)
        likelihood.n_params = len(params)
        likelihood.cut_points = np.append(0.0, np.cumsum(np.exp(params)))
        return likelihood

    @property
    def _gaps(self):
        return np.diff(self.cut_points)

    def targets(self, codes, weight, rows):
        return [class_shares(codes, weight, rows, len(self.cut_points) + 1)]

    def _expect_at(self, y, weight, mean, variance):
        value = weight * (y[:, 1:-1] @ np.log(-np.expm1(-self._gaps)))
        slope, precision = np.zeros((2, len(mean)))
        for rows, parts in self._cuts(y, weight, mean, variance):
            value[rows] += parts[0]
            slope[rows] += parts[1]
            precision[rows] += parts[2]
        return value, slope, precision

    def _cuts(self, y, weight, mean, variance):
        """Yield, for each cut point, the rows of the two classes next to it and expectations there.

        A row observes on which side of the cut point f lies.
        """
        for k, cut in enumerate(self.cut_points):
            share = y[:, k] + y[:, k + 1]
            rows = np.flatnonzero(share)
            side = (y[rows, k + 1] - y[rows, k]) / share[rows]
            yield (
                rows,
                BernoulliLogit()._expect_at(
                    side, weight[rows] * share[rows], mean[rows] - cut, variance[rows]
                ),
            )

    def params_gradient(self, y, weight, mean, variance):
        slopes = [parts[1].sum() for _, parts in self._cuts(y, weight, mean[0], variance[0])]
        # A gap moves all cut points above it.
        above = np.cumsum(slopes[:0:-1])[::-1]
        gaps = self._gaps
        # The derivative of log(1 - exp(-gap)), which does not overflow in this form.
        by_gap = np.exp(-gaps) / -np.expm1(-gaps)
        return gaps * (weight @ y[:, 1:-1] * by_gap - above)

    def initial_params(self, y, weight):
        """Return the logarithms of the gaps at which a constant f gives the classes' shares."""
        return _log_gaps(weight @ y + ROWS_AT_START)

    def constant_params(self, y, weight, fit_prior_mean=True):
        counts = weight @ y
        counts = np.maximum(counts, LEAST_SHARE * counts.sum())
        if not fit_prior_mean:
            # At f = 0 the probability of the first class is one half.
            counts[0] = counts[1:].sum()
        return _log_gaps(counts)

    def params_bounds(self, y, weight):
        return self.initial_params(y, weight)[:, None] + np.log(GAP_LIMITS)

    def params_names(self):
        n = self.n_params
        return [f"gap between cut points {k} and {k + 1}" for k in range(1, n + 1)]

    def _best_constants(self, y, weight):
        # Rows of one class, which have the same expectation, are merged.
        return super()._best_constants(np.eye(y.shape[1]), weight @ y)

    def log_probabilities(self, mean, variance):
        return self._log_differences(mean[0], lambda z: log_expected_sigmoid(z, variance[0]))

    def probabilities(self, f):
        with np.errstate(under="ignore"):
            return np.exp(self._log_differences(f[0], log_expit))

    def _log_differences(self, f, log_tail):
        """Return the logarithms of the differences of cumulative probabilities, shape (n, C).

        At each cut point the smaller tail is computed: the probability of the classes on the side
        where `f`, (n,), is not. ``log_tail(z)`` is its logarithm for z <= 0. The class around f has
        the rest, and each other class the difference of the tails at its two cut points.
        """
        tails = np.full((len(self.cut_points) + 2, len(f)), -np.inf)
        for k, cut in enumerate(self.cut_points):
            tails[k + 1] = log_tail(-np.abs(f - cut))
        larger, smaller = np.maximum(tails[1:], tails[:-1]), np.minimum(tails[1:], tails[:-1])
        around = np.searchsorted(self.cut_points, f) == np.arange(len(larger))[:, None]
        result = np.empty(larger.shape)
        both = np.exp(larger[around]) + np.exp(smaller[around])
        result[around] = np.log1p(-np.minimum(both, 1.0 - EPSILON))
        result[~around] = larger[~around]
        # Rounding must not make a difference of tails vanish.
        step = np.minimum(smaller[~around] - larger[~around], -EPSILON)
        result[~around] += np.log(-np.expm1(step))
        return result.T


def _log_gaps(counts):
    """Return the logarithms of the gaps at which a constant f gives these counts (C,)."""
    below, above = np.cumsum(counts)[:-1], np.cumsum(counts[::-1])[-2::-1]
    return np.log(np.diff(np.log(below) - np.log(above)))
