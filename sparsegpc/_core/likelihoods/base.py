r"""What a likelihood is to the rest of the core: a maker of Gaussian sites.

A likelihood knows targets and weights of rows and the moments of f there; it knows neither kernels
nor inducing points. ``y`` is an array of N entries; the likelihood says what an entry holds. A
likelihood offers

``slacks``
    The slacks of the bound that it admits, the tightest first.
``n_functions``
    How many functions f of the columns it ties together.
``n_params``, ``at(params)``
    The number of its own parameters, and the likelihood at values of them. What follows is asked
    of ``at(params)``.
``params_gradient(y, weight, mean, variance)``
    The derivative of the bound w.r.t. the parameters at given moments of f, if it has any.
``log_prior()``
    The logarithm of a prior of the parameters, and its derivative, if it has any.
``has_fixed_sites``
    Whether the sites do not depend on f, so that nothing needs to be solved for.
``initial_states(y, weight)``
    A list with one state for each function, before anything is known of f.
``sites(state, y, weight)``
    The `Sites` of one function.
``constant_bound(y, weight, fit_prior_mean)``
    The log likelihood of the best constant f, or of f = 0 if the prior mean is not learned.
``constant_params(y, weight, fit_prior_mean)``
    Its own parameters there, if it has any.

If its sites depend on f, a state is a `SiteState`, and it offers further

``has_own_slack``
    Whether `expect` accounts for the residuals by itself; then it is given ``v = 1``.
``expect(y, weight, mean, explained, residual, v)``
    An `Expectation` at moments of its K functions at n rows: ``mean`` and ``explained``, the
    variance that comes from q(u), are of shape (K, n), the residual (n,), and its shrinkages v
    (K, n): the variance of f is ``explained + v residual``.

A likelihood of labels is a `LabelLikelihood`, which makes its own targets of them.
"""

from typing import NamedTuple

import numpy as np


class Sites(NamedTuple):
    """Gaussian sites ``exp(shift f - precision f^2 / 2 + own)``, each of shape (N,)."""

    precision: np.ndarray
    shift: np.ndarray
    own: np.ndarray


class SiteState(NamedTuple):
    """Precision and shift of the sites of one function, shape (N,) each."""

    precision: np.ndarray
    shift: np.ndarray

    def sites(self):
        """Return the `Sites` without own terms."""
        return Sites(*self, np.zeros(len(self.shift)))


class Expectation(NamedTuple):
    """What a likelihood contributes to the bound at given moments of f, and its derivatives.

    ``value`` (n,) in nats; ``slope`` (K, n) is the derivative w.r.t. the mean, ``precision``
    (K, n) minus twice that w.r.t. the variance, and ``residual_cost`` (K, n) minus twice that
    w.r.t. the residual, both positive.
    """

    value: np.ndarray
    slope: np.ndarray
    precision: np.ndarray
    residual_cost: np.ndarray


def polya_gamma_mean(tilt):
    r"""Return :math:`\theta(c) = \tanh(c / 2) / 2c`, the mean of PG(1, c), at tilts c > 0."""
    return np.tanh(0.5 * tilt) / (2.0 * tilt)


class LabelLikelihood:
    """What the likelihoods of class labels share.

    Parameters that must be known before the number of classes is are those of the constructor.
    """

    # Whether it takes any number of classes, or two only.
    takes_many_classes = False
    n_functions = 1
    n_params = 0
    has_fixed_sites = False
    has_own_slack = False
    # Whether the prior means of its functions may be learned; else they are zero.
    has_prior_mean = True

    def __repr__(self):
        return f"{type(self).__name__}()"

    def _lacks(self, method):
        return NotImplementedError(
            f"likelihood {self!r} must define the method {method}: use a likelihood that does, "
            "such as BernoulliLogit()"
        )

    def for_classes(self, n_classes):
        """Return the likelihood for this number of classes."""
        return self

    def at(self, params):
        return self

    def sites(self, state, y, weight):
        return state.sites()

    def targets(self, codes, weight, rows):
        """Return what `SparseModel` takes as targets.

        Parameters
        ----------
        codes : ndarray of int of shape (N,)
            The number of each row's class.
        weight : ndarray of shape (N,)
        rows : MergedRows

        Returns
        -------
        list of array of shape (N',)
            One for each output, with an entry for each merged row.
        """
        raise self._lacks("targets")

    def log_probabilities(self, mean, variance):
        """Return the logarithms of the classes' probabilities, integrated over f.

        Parameters
        ----------
        mean, variance : ndarray of shape (K, n)
            Of all functions.

        Returns
        -------
        ndarray of shape (n, C)
        """
        raise self._lacks("log_probabilities")

    def probabilities(self, f):
        """Return the classes' probabilities, shape (n, C), at given f, shape (K, n)."""
        raise self._lacks("probabilities")
