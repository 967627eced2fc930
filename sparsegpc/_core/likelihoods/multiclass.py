r"""Likelihoods of several classes, with one function for each class and one kernel."""

import numbers
import sys
from copy import copy

import numpy as np
from scipy.special import log_expit, softmax, xlogy

from sparsegpc._core.likelihoods.base import LabelLikelihood, SiteState, polya_gamma_mean
from sparsegpc._core.likelihoods.class_probabilities import (
    expected_logistic_softmax,
    expected_softmax,
)
from sparsegpc._core.likelihoods.expectations import expected_log_sigmoid
from sparsegpc._core.likelihoods.gaussian import KnownNoise, known_noise_targets
from sparsegpc._core.likelihoods.tilted import tilted_bound
from sparsegpc._core.numerics.floats import EPSILON, TINY

# The gain by the tilted bound is rounded off over this multiple of the squared average variance.
# Larger variances count as the limit.
ROUNDING, LARGEST_VARIANCE = 0.02, 1e8


class _SoftmaxLink:
    """Class probabilities that are proportional to the exponentials of f."""

    def log_probabilities(self, mean, variance):
        return _log(expected_softmax(mean, variance))

    def probabilities(self, f):
        return softmax(f, axis=0).T


class _JointLikelihood(LabelLikelihood):
    """A likelihood of labels with a function for each of the C classes.

    An entry of ``y`` holds the share of each class among the copies of a row, shape (C,).
    """

    takes_many_classes = True
    merges_unequal_targets = True

    def for_classes(self, n_classes):
        likelihood = copy(self)
        likelihood.n_functions = n_classes
        return likelihood

    def targets(self, codes, weight, rows):
        return [class_shares(codes, weight, rows, self.n_functions)]

    def constant_bound(self, y, weight, fit_prior_mean=True):
        total = float(weight.sum())
        if not fit_prior_mean:
            return -np.log(self.n_functions) * total
        counts = weight @ y
        return float(xlogy(counts, counts / total).sum())


class Softmax(_SoftmaxLink, _JointLikelihood):
    r"""The softmax likelihood :math:`p(y = k | f) = e^{f_k} / \sum_l e^{f_l}`.

    There are two bounds on the expected logarithm, for each class in each row:

    - *one-vs-each*: the likelihood is at least :math:`\prod_{l \ne y} \sigma(f_y - f_l)`. The
      differences are Gaussian, so quadrature gives the expected logarithms of the factors. It is
      tight where only one other class has a probability near that of y, and exact for two classes.
    - *tilted*: the expectation of :math:`f_y` minus the `tilted_bound` on that of
      :math:`\log \sum_l e^{f_l}`. It is tight where the functions are all but known, also if
      several classes have similar probabilities.

    Where the second, :math:`b_2`, is larger by g, the value is :math:`b_1 + g^2 / (g + .02 s^2)`,
    where s is the average variance of the functions; elsewhere it is :math:`b_1`. So its slopes do
    not jump, and it is exact where the variances vanish. With one-vs-each alone, a model of classes
    that overlap would not know that guessing is possible: with equal functions it gives each of C
    classes the probability :math:`2^{1 - C}`.

    References
    ----------
    Titsias 2016, "One-vs-each approximation to softmax for scalable estimation of probabilities".
    Knowles, Minka 2011, "Non-conjugate variational message passing for multinomial and binary
    regression".
    """

    def initial_states(self, y, weight):
        # At f = 0, where all tilts are equal.
        even = 1.0 / self.n_functions
        precision = even * (1.0 - even) * weight
        return [SiteState(precision.copy(), weight * (share - even)) for share in y.T]

    def _expect_at(self, y, weight, mean, variance):
        value, slope, precision = np.zeros(len(y)), np.zeros(mean.shape), np.zeros(mean.shape)
        log_sum, tilts = tilted_bound(mean, variance)
        average = np.minimum(variance, LARGEST_VARIANCE).mean(axis=0)
        width = ROUNDING * average**2
        for k, share in enumerate(y.T):
            rows = np.flatnonzero(share)
            others = np.delete(np.arange(len(mean)), k)[:, None]
            parts = expected_log_sigmoid(
                mean[k, rows] - mean[others, rows], variance[k, rows] + variance[others, rows]
            )
            share, tilt = weight[rows] * share[rows], tilts[:, rows]
            one_vs_each = parts.value.sum(axis=0)
            gain = np.maximum(mean[k, rows] - log_sum[rows] - one_vs_each, 0.0)
            # The rounded gain is gain^2 / (gain + width). Its derivatives in gain and in width are
            # 1 - (1 - ratio)^2 and -ratio^2.
            ratio = np.divide(gain, gain + width[rows], out=np.zeros_like(gain), where=gain > 0.0)
            value[rows] += share * (one_vs_each + ratio * gain)
            of_pairs = share * (1.0 - ratio) ** 2
            of_tilted = share - of_pairs
            slope[k, rows] += of_pairs * parts.slope.sum(axis=0) + of_tilted
            slope[others, rows] -= of_pairs * parts.slope
            slope[:, rows] -= of_tilted * tilt
            precision[k, rows] += of_pairs * parts.curvature.sum(axis=0)
            precision[others, rows] += of_pairs * parts.curvature
            precision[:, rows] += of_tilted * tilt * (1.0 - tilt)
            precision[:, rows] += share * ratio**2 * (4.0 * ROUNDING / len(mean)) * average[rows]
        return value, slope, precision

    def knows_curvature(self, y):
        return bool((y.max(axis=1) > 1.0 - EPSILON * len(y)).all())

    def curvature_product(self, y, precision, direction):
        own, rows = y.argmax(axis=1), np.arange(len(y))
        target, pairs = precision[own, rows], precision.copy()
        pairs[own, rows] = 0.0
        # One-vs-each pairs the function of a row's class with each other one, tilted all functions.
        # In the differences to the former, minus the Hessian is diag(p) - c p p^T for both, with
        # c = 0 for one-vs-each. These p and c give it the diagonal of the precisions.
        for _ in range(3):
            coupling = _coupling(pairs, target)
            pairs = np.where(pairs > 0.0, precision / np.maximum(1.0 - coupling * pairs, 0.5), 0.0)
        change = direction - direction[own, rows]
        product = pairs * (change - _coupling(pairs, target) * (pairs * change).sum(axis=0))
        product[own, rows] = -product.sum(axis=0)
        return product


def _coupling(pairs, target):
    """Return the c at which the sum of all entries of diag(p) - c p p^T is the target, (n,)."""
    total = np.maximum(pairs.sum(axis=0), TINY)
    return np.maximum(1.0 - target / total, 0.0) / total


class LogisticSoftmax(_JointLikelihood):
    r"""The likelihood :math:`p(y = k | f) = \sigma(f_k) / \sum_l \sigma(f_l)`, by augmentation.

    Given Polya-Gamma, Poisson and gamma variables the likelihood is Gaussian in f. With the Poisson
    and gamma variables integrated out, a row contributes
    :math:`\log \sigma_y^+ - \log \sum_k (1 - \sigma_k^-)` to the bound, where

    .. math:: \sigma_k^\pm = \exp(\pm m_k / 2) / (2 \cosh(c_k / 2)), \qquad
        c_k^2 = m_k^2 + s_k + v_k r.

    This is the log likelihood with :math:`\sigma_k^\pm` in place of :math:`\sigma(\pm f_k)`. Let
    :math:`Y_k` be the share of class k and
    :math:`\psi_k = \sigma_k^- / \sum_l (1 - \sigma_l^-)`. The site of :math:`f_k` has precision
    :math:`(Y_k + \psi_k) \tanh(c_k / 2) / 2 c_k` and shift :math:`(Y_k - \psi_k) / 2`.

    References
    ----------
    Galy-Fajou, Wenzel, Donner, Opper 2019, who do not integrate the gamma variable out, so that
    their bound is looser.
    """

    # The bound has optima at huge prior means, where the sigmoid is flat.
    has_prior_mean = False

    def initial_states(self, y, weight):
        # At f = 0.
        even = 1.0 / self.n_functions
        return [
            SiteState(0.25 * weight * (share + even), 0.5 * weight * (share - even))
            for share in y.T
        ]

    def _expect_at(self, y, weight, mean, variance):
        y = y.T
        # The tilt must be positive, because theta divides by it.
        tilt = np.maximum(np.sqrt(mean**2 + variance), 1e-8)
        # c - |mean|, without cancellation.
        excess = variance / (tilt + np.abs(mean))
        tail = 0.5 * excess + np.log1p(np.exp(-tilt))
        log_plus, log_minus = np.minimum(mean, 0.0) - tail, -np.maximum(mean, 0.0) - tail
        # The sum of 1 - sigma^-, without cancellation.
        rest = -np.expm1(log_minus).sum(axis=0)
        psi = np.exp(log_minus) / rest
        precision = weight * (y + psi) * polya_gamma_mean(tilt)
        value = (y * log_plus).sum(axis=0) - np.log(rest)
        return weight * value, 0.5 * weight * (y - psi) - precision * mean, precision

    def log_probabilities(self, mean, variance):
        return _log(expected_logistic_softmax(mean, variance))

    def probabilities(self, f):
        return softmax(log_expit(f), axis=0).T


class DirichletTargets(_SoftmaxLink, KnownNoise, LabelLikelihood):
    r"""Labels of C classes as targets of C regressions with known noise.

    The class probabilities of a row of class y have a Dirichlet distribution with concentrations
    :math:`\alpha_k = \epsilon + [k = y]`: they are gamma variables divided by their sum. Each gamma
    variable is replaced by a log-normal variable of the same mean and variance. This gives
    :math:`f_k` a Gaussian target :math:`\log \alpha_k - \lambda_k / 2` with known noise variance
    :math:`\lambda_k = \log(1 + 1/\alpha_k)`. The class probabilities are the softmax of f.

    Parameters
    ----------
    concentration : float, default=0.01
        Concentration :math:`\epsilon` of every class before the label is observed.

    References
    ----------
    Milios, Camoriano, Michiardi, Rosasco, Filippone 2018, section 4.
    """

    takes_many_classes = True
    # The targets are finite, and so are the best prior means.
    mean_deviation = np.inf

    def __init__(self, concentration=0.01):
        self.concentration = concentration

    def for_classes(self, n_classes):
        is_number = isinstance(self.concentration, numbers.Real)
        if not (is_number and 0.0 < self.concentration <= sys.float_info.max):
            raise ValueError(
                f"concentration must be positive and finite, got {self.concentration!r}: values "
                "from 0.001 to 0.1 are usual"
            )
        likelihood = copy(self)
        likelihood.concentration, likelihood._n_classes = float(self.concentration), n_classes
        return likelihood

    def targets(self, codes, weight, rows):
        result = []
        for k in range(self._n_classes):
            alpha = self.concentration + (codes == k)
            variance = np.log1p(1.0 / alpha)
            y = np.log(alpha) - 0.5 * variance
            result.append(known_noise_targets(y, weight, variance, rows))
        return result


def class_shares(codes, weight, rows, n_classes):
    """Return the share of each class among the copies of each row, shape (N', C).

    See `Likelihood.targets` for the arguments.
    """
    shares = np.empty((len(rows.weight), n_classes))
    for k, share in enumerate(shares.T):
        share[:] = rows.mean((codes == k).astype(float), weight)
    return shares


def _log(probabilities):
    """Return logarithms, which are finite even if a probability underflows to zero."""
    return np.log(np.maximum(probabilities, TINY))
