r"""Observation models as makers of Gaussian sites.

A likelihood knows targets and weights of rows and the moments of f there; it knows neither kernels
nor inducing points. It keeps one number per row, its *state*, from which the sites follow, and says
how the state moves once f has new moments. ``y`` is an array of N entries; the likelihood says what
an entry holds. A likelihood offers

``slacks``
    The slacks of the bound that it admits, the tightest first.
``n_params``, ``at(params)``
    The number of its own parameters, and the likelihood at values of them. What follows is asked
    of ``at(params)``.
``params_gradient(y, weight, mean, variance)``
    The derivative of the bound w.r.t. the parameters at given moments of f, if it has any.
``log_prior()``
    The logarithm of a prior of the parameters, and its derivative, if it has any.
``has_fixed_sites``
    Whether the sites depend on f at all; if not, `update` and `gain` are not asked for.
``initial_state(y, weight)``
    The state before anything is known of f, shape (N,).
``sites(state, y, weight)``
    `Sites` for that state.
``update(mean, variance)``
    The state that is optimal for the given moments of f.
``gain(old, new, weight)``
    By how much, at least, the bound rises (nats) when the state moves from `old` to `new`,
    and the curvature of the bound in the logarithm of the state, per row.
``log_probabilities(mean, variance)``
    Logarithms of the predictive class probabilities, integrated over f, if targets are labels.
``constant_bound(y, weight, fit_prior_mean)``
    The log likelihood of the best constant f, or of f = 0 if the prior mean is not learned.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from sparsegpc._quadrature import log_expected_sigmoid

LOG_2 = np.log(2.0)


class Sites(NamedTuple):
    """Gaussian sites ``exp(shift f - precision f^2 / 2 + own)``, each of shape (N,)."""

    precision: np.ndarray
    shift: np.ndarray
    own: np.ndarray


def _log_cosh(x):
    x = np.abs(x)
    return x + np.log1p(np.exp(-2.0 * x)) - LOG_2


class PolyaGammaLogit:
    r"""The logistic likelihood :math:`\sigma(y f)` bounded by Polya-Gamma augmentation.

    With a variable :math:`\omega_n \sim PG(w_n, 0)` per row, of weight w, the likelihood is
    conditionally Gaussian, and for the optimal :math:`q(\omega_n) = PG(w_n, c_n)`

    .. math::
        w \log \sigma(y f) \ge \tfrac12 w y f - \tfrac12 w \theta(c) (f^2 - c^2)
        - w \log 2 \cosh(c / 2), \qquad \theta(c) = \frac{\tanh(c/2)}{2c}.

    The state is the squared tilt :math:`c^2`; its optimum is the second moment of f. Labels are in
    [-1, 1]: rows that were merged carry their weighted mean.

    References
    ----------
    Polson, Scott, Windle 2013, theorem 1; Passerello 2021, section 4.1 (there with unit weights).
    """

    slacks = ("tight", "spherical", "standard")
    n_params = 0
    has_fixed_sites = False

    def at(self, params):
        return self

    def initial_state(self, y, weight):
        return np.full(len(y), 0.25)

    def sites(self, state, y, weight):
        tilt, precision = self._tilt_and_precision(state)
        own = 0.5 * state * precision - _log_cosh(0.5 * tilt) - LOG_2
        return Sites(weight * precision, 0.5 * weight * y, weight * own)

    def update(self, mean, variance):
        return mean**2 + variance

    def gain(self, old, new, weight):
        old_tilt, old_precision = self._tilt_and_precision(old)
        new_tilt, new_precision = self._tilt_and_precision(new)
        gain = 0.5 * old_precision * (new - old)
        gain -= _log_cosh(0.5 * new_tilt) - _log_cosh(0.5 * old_tilt)
        # -theta'(c^2) c^4 / 2, with theta' = d theta / d c^2.
        half_sech = 0.5 / np.cosh(np.minimum(0.5 * new_tilt, 300.0))
        curvature = 0.25 * (new_precision - half_sech**2) * new
        return weight * gain, weight * curvature

    def log_probabilities(self, mean, variance):
        return np.stack(
            [log_expected_sigmoid(-mean, variance), log_expected_sigmoid(mean, variance)], axis=-1
        )

    def constant_bound(self, y, weight, fit_prior_mean=True):
        total = float(weight.sum())
        if not fit_prior_mean:
            return -LOG_2 * total
        counts = np.array([weight @ (1.0 + y), weight @ (1.0 - y)]) / 2.0
        return float(xlogy(counts, counts / total).sum())

    @staticmethod
    def _tilt_and_precision(state):
        tilt = np.sqrt(np.maximum(state, 1e-16))
        return tilt, np.tanh(0.5 * tilt) / (2.0 * tilt)
