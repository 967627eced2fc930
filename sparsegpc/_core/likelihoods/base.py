r"""What a likelihood is to the rest of the package: a maker of Gaussian sites.

A likelihood takes targets and weights of rows and the moments of f there, and depends on neither
kernels nor inducing points. `Likelihood` declares all that it offers, with defaults where there are
any, and `LabelLikelihood` adds what class labels need.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

# The slacks that likelihoods admit, the tightest first: those that make f given their variables
# Gaussian, and those of which expectations are known.
CONDITIONALLY_GAUSSIAN = ("tight", "spherical", "standard")
BY_EXPECTATIONS = ("spherical", "standard")
# Limit of constant functions: exp(-30) is as good as zero.
LARGEST_CONSTANT = 30.0


class Sites(NamedTuple):
    """Gaussian sites ``exp(shift f - precision f^2 / 2 + log_scale)``, each of shape (N,)."""

    precision: np.ndarray
    shift: np.ndarray
    log_scale: np.ndarray


class SiteState(NamedTuple):
    """Precision and shift of the sites of one function, shape (N,) each."""

    precision: np.ndarray
    shift: np.ndarray

    def sites(self):
        """Return the `Sites`, their log scales zero."""
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


class Likelihood:
    r"""How targets of any kind, labels or numbers, follow from K functions f of the columns.

    A subclass defines `targets` and `expect`; or, if its sites do not depend on f, `targets` and
    `sites`. The attributes below and all other methods have defaults. The core asks for
    expectations under Gaussian f and for their derivatives, and for nothing else.

    Three conditions. Precisions must be positive, which they are where the logarithm of the
    likelihood is concave in f. The numbers of `expect` must be derivatives of each other to about
    nine digits: where they are not, good steps are rejected and fits stop early. And all must be
    finite at any moments that a search may visit.

    Attributes
    ----------
    slacks : tuple of str
        The slacks of the bound that it admits, the tightest first: "tight" only where the
        likelihood is conditionally Gaussian.
    n_functions : int
        How many functions f of the columns it ties together, K.
    n_params : int
        Number P of its own parameters that are learned, for each output: logarithms, whose
        exponentials messages show.
    has_fixed_sites : bool
        Whether the sites do not depend on f, so that nothing needs to be solved for. Then K is 1:
        several functions are several outputs.
    has_own_slack : bool
        Whether `expect` accounts for the residuals by itself; then it is given ``v = 1``.
    has_prior_mean : bool
        Whether the prior means of its functions may be learned; else they are zero.

    See Also
    --------
    LabelLikelihood : What likelihoods of class labels offer further.

    Notes
    -----
    A target is an entry of an array ``y`` of N entries; the likelihood says what an entry holds. A
    structured array holds several numbers for each row.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsegpc.likelihoods import Expectation, Likelihood
    >>> class Poisson(Likelihood):
    ...     '''Counts with the rate exp(f), but for the constants log y!.'''
    ...
    ...     def targets(self, y, weight, rows):
    ...         return [rows.mean(y, weight)]
    ...
    ...     def expect(self, y, weight, mean, inducing_variance, residual, v):
    ...         log_rate = mean[0] + 0.5 * (inducing_variance[0] + v[0] * residual)
    ...         rate = weight * np.exp(np.minimum(log_rate, 600.0))
    ...         value, slope = weight * y * mean[0] - rate, weight * y - rate
    ...         return Expectation(value, slope[None], rate[None], v * rate)
    >>> found = Poisson().constant_bound(np.array([1.0, 3.0]), np.ones(2))
    >>> bool(abs(found - (4 * np.log(2) - 4)) < 1e-6)
    True
    """

    slacks = BY_EXPECTATIONS
    n_functions = 1
    n_params = 0
    has_fixed_sites = False
    has_own_slack = False
    has_prior_mean = True

    def __repr__(self):
        return f"{type(self).__name__}()"

    def _lacks(self, method):
        return NotImplementedError(
            f"likelihood {self!r} must define the method {method}: use a likelihood that does, "
            "such as BernoulliLogit()"
        )

    def targets(self, y, weight, rows):
        """Return what the model takes as targets.

        Parameters
        ----------
        y : ndarray of shape (N,)
            Targets as users give them; class labels as numbers from 0 on.
        weight : ndarray of shape (N,)
        rows : UniqueRows
            How equal rows were merged: ``rows.mean(values, weight)`` averages over copies,
            ``rows.total(values)`` adds them up, both (N,) to (N',).

        Returns
        -------
        list of array of shape (N',)
            One for each output, with an entry for each merged row. Outputs are independent given
            the hyperparameters, and share kernel and inducing points.
        """
        raise self._lacks("targets")

    def at(self, params):
        """Return the likelihood at values of its parameters, shape (P,).

        What follows is asked of it.
        """
        return self

    def expect(self, y, weight, mean, inducing_variance, residual, v):
        """Return the `Expectation` at moments of the K functions at n rows.

        Parameters
        ----------
        y, weight : array of shape (n,)
        mean, inducing_variance : ndarray of shape (K, n)
            The mean of f, and the part of its variance that comes from q(u).
        residual : ndarray of shape (n,)
            The part of its prior variance that the inducing points miss.
        v : ndarray of shape (K, n)
            The scale of that part: the variance of f is ``inducing_variance + v * residual``.

        Returns
        -------
        Expectation
        """
        if not self.has_fixed_sites:
            raise self._lacks("expect")
        p, shift, log_scale = self.sites(None, y, weight)
        mean, variance = mean[0], inducing_variance[0] + v[0] * residual
        value = log_scale + shift * mean - 0.5 * p * (mean**2 + variance)
        return Expectation(value, (shift - p * mean)[None], p[None], v * p)

    def sites(self, state, y, weight):
        """Return the `Sites` of one function, at one of the `initial_states` or a later one."""
        if self.has_fixed_sites:
            raise self._lacks("sites")
        return state.sites()

    def initial_states(self, y, weight):
        """Return a list with the `SiteState` of each function before anything is known of f.

        They are those of a second-order expansion at the best constant functions. A state is None
        if sites are fixed.
        """
        if self.has_fixed_sites:
            return [None]
        constants = self._best_constants(y, weight)
        found = self._expect_constants(constants, y, weight)
        shift = found.slope + found.precision * constants[:, None]
        return list(map(SiteState, found.precision, shift))

    def constant_bound(self, y, weight, fit_prior_mean=True):
        """Return the log likelihood of the best constant f, or of f = 0 without `fit_prior_mean`.

        In nats. A fit that is no better warns.
        """
        constants = np.zeros(self.n_functions)
        if fit_prior_mean:
            constants = self._best_constants(y, weight)
        return float(self._expect_constants(constants, y, weight).value.sum())

    def _expect_constants(self, constants, y, weight):
        """Return the `Expectation` where the functions are known to be constants, shape (K,)."""
        mean = np.repeat(constants[:, None], len(weight), axis=1)
        none = np.zeros(mean.shape)
        return self.expect(y, weight, mean, none, none[0], np.ones(mean.shape))

    def _best_constants(self, y, weight, n_steps=50):
        """Return the constant functions of the largest likelihood, shape (K,)."""

        def negative(constants):
            found = self._expect_constants(constants, y, weight)
            return -float(found.value.sum()), -found.slope.sum(axis=1)

        limits = [(-LARGEST_CONSTANT, LARGEST_CONSTANT)] * self.n_functions
        options = {"maxiter": n_steps}
        start = np.zeros(self.n_functions)
        return minimize(negative, start, jac=True, bounds=limits, options=options).x

    def initial_params(self, y, weight):
        """Return where the parameters start for one output, shape (P,)."""
        return np.zeros(self.n_params)

    def params_bounds(self, y, weight):
        """Return the limits of the parameters for one output, shape (P, 2)."""
        return np.tile([-np.inf, np.inf], (self.n_params, 1))

    def params_names(self):
        """Return what the parameters are called in messages to users, a list of P strings."""
        return [f"likelihood parameter {k}" for k in range(self.n_params)]

    def params_gradient(self, y, weight, mean, variance):
        """Return the derivative of the bound w.r.t. the parameters at given moments of f.

        Parameters
        ----------
        y, weight : array of shape (N,)
        mean, variance : ndarray of shape (K, N)
            With the scaled residual in the variance.

        Returns
        -------
        ndarray of shape (P,)
        """
        raise self._lacks("params_gradient")

    def log_prior(self):
        """Return the logarithm of a prior of the parameters, in nats, and its slope, shape (P,).

        It must not exceed zero, or the bound with it added would be none.
        """
        return 0.0, np.zeros(self.n_params)

    def constant_params(self, y, weight, fit_prior_mean=True):
        """Return parameters that go with a constant f, shape (P,)."""
        return self.initial_params(y, weight)


def by_output(functions, n_functions):
    """Return a list with the entries of each output's functions, `n_functions` of them each."""
    return [functions[k : k + n_functions] for k in range(0, len(functions), n_functions)]


def best_constant_bound(likelihood, y, weight, fit_prior_mean):
    """Return what the best constant functions of one output reach, the log prior included."""
    there = likelihood.at(likelihood.constant_params(y, weight, fit_prior_mean))
    return there.constant_bound(y, weight, fit_prior_mean) + there.log_prior()[0]


class LabelLikelihood(Likelihood):
    """What a likelihood of class labels offers beside what every `Likelihood` does.

    A subclass defines `log_probabilities` and `probabilities`. What must be known before the number
    of classes is are parameters of the constructor.

    Attributes
    ----------
    takes_many_classes : bool
        Whether it takes any number of classes, or two only.

    See Also
    --------
    Likelihood : What every likelihood offers.
    """

    takes_many_classes = False

    def for_classes(self, n_classes):
        """Return the likelihood for this number of classes."""
        return self

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
