r"""The base classes of likelihoods.

A likelihood computes expectations and Gaussian sites from the targets and weights of rows and the
moments of f at the rows. It depends on neither kernels nor inducing points. `Likelihood` declares
all methods, with defaults where possible, and `LabelLikelihood` those of class labels.
"""

import inspect
from functools import partial
from typing import NamedTuple

import numpy as np

from sparsegpc._core.likelihoods.constants import best_constants


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
        """Return the `Sites`, with log scales of zero."""
        return Sites(*self, np.zeros(len(self.shift)))


class Expectation(NamedTuple):
    """The contribution of n rows to the bound at given moments of f, and its derivatives.

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
    r"""Base class of likelihoods: the density of targets given K functions f of the columns.

    A subclass defines `targets` and `expect`; or, if its sites do not depend on f, `targets` and
    `sites`. The attributes below and all other methods have defaults. Models use only expectations
    under Gaussian f and their derivatives.

    A subclass must meet three conditions. Precisions are not negative, which holds if the logarithm
    of the likelihood is concave in f; for one that is not, leave "tight" out of `slacks` and return
    ``np.maximum(precision, 1e-6)``. The fields of an `Expectation` are derivatives of each other to
    about nine digits; otherwise the optimiser rejects good steps and fits stop early. All fields
    are finite at all moments that a search can visit. A fit raises ValueError if it finds a
    precision that is negative or, at its start, a field that is not finite or of another shape, or
    slopes that are clearly wrong.

    Attributes
    ----------
    slacks : tuple of str
        The slacks that the bound can have, the tightest first. "tight" requires that the value does
        not increase with any variance of f, which the first condition implies; the others hold
        without it.
    n_functions : int
        Number K of functions f that the density of a target depends on.
    n_params : int
        Number P of learned parameters of the likelihood for each output. They are logarithms, and
        messages show their exponentials.
    has_fixed_sites : bool
        Whether the sites do not depend on f, so that no iteration is necessary. Then K is 1, and
        several functions are several outputs.
    has_own_slack : bool
        Whether `expect` includes the slack; then the argument `v` of `expect` is 1.
    has_prior_mean : bool
        Whether the prior means of the functions can be learned; otherwise they are zero.
    mean_deviation : float
        Standard deviation of a normal prior, with mean 0, of the prior means. It keeps these finite
        in a stream, and in all predictions their variance. Labels and counts have 3. Infinity means
        that there is no such prior.
    to_little_noise : float or tuple of P floats
        What to add to the initial parameters for about a tenth of the standard deviation of the
        noise. A search for functions that vary fast starts there.
    merges_unequal_targets : bool
        Whether `targets` sums up rows with equal X and different y, False by default: only rows
        that agree in both are merged. Averages may replace the targets of such rows only if the log
        likelihood is linear in what is averaged, as that of counts is in y and log y!. Otherwise
        the bound is silently that of other data.

    See Also
    --------
    LabelLikelihood : Base class of the likelihoods of class labels.

    Notes
    -----
    The targets are an array ``y`` with one entry for each row. The likelihood defines what an entry
    holds; a structured array can hold several numbers for each row.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsegpc.likelihoods import Expectation, Likelihood
    >>> class OwnPoisson(Likelihood):
    ...     '''Counts with the rate exp(f), without the constants log y!.'''
    ...
    ...     merges_unequal_targets = True
    ...
    ...     def targets(self, y, weight, rows):
    ...         return [rows.mean(y, weight)]
    ...
    ...     def expect(self, y, weight, mean, inducing_variance, residual, v):
    ...         log_rate = mean[0] + 0.5 * (inducing_variance[0] + v[0] * residual)
    ...         rate = weight * np.exp(np.minimum(log_rate, 600.0))
    ...         value, slope = weight * y * mean[0] - rate, weight * y - rate
    ...         return Expectation(value, slope[None], rate[None], v * rate)
    >>> bound = OwnPoisson().constant_bound(np.array([1.0, 3.0]), np.ones(2))
    >>> bool(abs(bound - (4 * np.log(2) - 4)) < 1e-6)
    True
    """

    slacks = ("tight", "spherical", "standard")
    n_functions = 1
    n_params = 0
    has_fixed_sites = False
    has_own_slack = False
    has_prior_mean = True
    mean_deviation = np.inf
    to_little_noise = 0.0
    merges_unequal_targets = False

    def __repr__(self):
        """Show the arguments of the constructor that differ from their defaults.

        Learned parameters are attributes of the same names.
        """
        shown = []
        for name, parameter in inspect.signature(type(self)).parameters.items():
            value = getattr(self, name, parameter.default)
            if repr(value) != repr(parameter.default):
                text = f"{value:.3g}" if isinstance(value, float) else repr(value)
                shown.append(f"{name}={text}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def _lacks(self, method):
        return NotImplementedError(
            f"likelihood {self!r} must define the method {method}: use a likelihood that does, "
            "such as BernoulliLogit()"
        )

    def targets(self, y, weight, rows):
        """Return the targets of each output, as `expect` and `sites` take them.

        Parameters
        ----------
        y : ndarray of shape (N,)
            Targets of the user, with class labels encoded as 0, 1, ...
        weight : ndarray of shape (N,)
        rows : MergedRows
            The merged rows: ``rows.mean(values, weight)`` averages over the copies of each row and
            ``rows.total(values)`` adds them up. Both take (N,) arrays and return (N',) arrays.
            ``rows.first`` (N',) is the index of the first copy: unless `merges_unequal_targets`,
            ``y[rows.first]`` is the target of all copies.

        Returns
        -------
        list of array of shape (N',)
            One array for each output, with one entry for each merged row. Outputs are independent
            given the hyperparameters, and share the kernel and the inducing points.
        """
        raise self._lacks("targets")

    def at(self, params):
        """Return the likelihood with the given parameters, shape (P,), for the methods below."""
        return self

    def expect(self, y, weight, mean, inducing_variance, residual, v):
        """Return the `Expectation` at moments of the K functions at n rows.

        Parameters
        ----------
        y, weight : array of shape (n,)
        mean, inducing_variance : ndarray of shape (K, n)
            The mean of f, and the part of its variance that comes from q(u).
        residual : ndarray of shape (n,)
            The part of the prior variance of f that the inducing points do not explain.
        v : ndarray of shape (K, n)
            The scale of the residual: the variance of f is ``inducing_variance + v * residual``.

        Returns
        -------
        Expectation
        """
        variance = inducing_variance + v * residual
        moments = (mean[0], variance[0]) if self.n_functions == 1 else (mean, variance)
        value, slope, precision = self._expect_at(y, weight, *moments)
        slope, precision = slope.reshape(mean.shape), precision.reshape(mean.shape)
        return Expectation(value, slope, precision, v * precision)

    def _expect_at(self, y, weight, mean, variance):
        """Return value, slope and precision of the `Expectation` at moments of f.

        It can be defined in place of `expect` if the value depends on the whole variance only.
        Moments, slope and precision have the shape (K, n), but (n,) if there is one function.
        """
        if not self.has_fixed_sites:
            raise self._lacks("expect")
        p, shift, log_scale = self.sites(None, y, weight)
        value = log_scale + shift * mean - 0.5 * p * (mean**2 + variance)
        return value, shift - p * mean, p

    def knows_curvature(self, y):
        """Return whether `curvature_product` is defined at all rows, and nearly exact.

        Then the search for the means of q(u) takes Newton steps for all functions together, which
        is worthwhile if they depend on each other.
        """
        return False

    def curvature_product(self, y, precision, direction):
        """Return minus the Hessian of the value in the means, times a direction, at n rows.

        A positive semi-definite matrix that is similar to it may replace it.

        Parameters
        ----------
        y : array of shape (n,)
        precision : ndarray of shape (K, n)
            That of the `Expectation`, the diagonal of minus the Hessian of each row.
        direction : ndarray of shape (K, n)

        Returns
        -------
        ndarray of shape (K, n)
        """
        raise self._lacks("curvature_product")

    def sites(self, state, y, weight):
        """Return the `Sites` of one function from its `SiteState`, None if sites are fixed."""
        if self.has_fixed_sites:
            raise self._lacks("sites")
        return state.sites()

    def peaks(self, y, weight):
        """Return the place of the maximum of each fixed site and its logarithm there, or None.

        Both have the shape (N,). With them the bound keeps all its digits if the noise is tiny. The
        place must not depend on the parameters of the likelihood.
        """
        return None

    def initial_states(self, y, weight):
        """Return a list with the initial `SiteState` of each function, None if sites are fixed.

        The default is the second-order expansion at the best constant functions.
        """
        if self.has_fixed_sites:
            return [None]
        constants = self._best_constants(y, weight)
        expected = self._expect_constants(constants, y, weight)
        shift = expected.slope + expected.precision * constants[:, None]
        return list(map(SiteState, expected.precision, shift))

    def constant_bound(self, y, weight, fit_prior_mean=True):
        """Return the log likelihood, in nats, of the best constant f.

        Without `fit_prior_mean` it is that of f = 0. A fit with no higher bound issues a warning.
        """
        constants = np.zeros(self.n_functions)
        if fit_prior_mean:
            constants = self._best_constants(y, weight)
        return float(self._expect_constants(constants, y, weight).value.sum())

    def _expect_constants(self, constants, y, weight):
        """Return the `Expectation` if the functions equal `constants`, shape (K,)."""
        mean = np.repeat(constants[:, None], len(weight), axis=1)
        zeros = np.zeros(mean.shape)
        return self.expect(y, weight, mean, zeros, zeros[0], np.ones(mean.shape))

    def _constants_and_params(self, constants, y, weight):
        """Return the log likelihood of constants (K,) plus the log prior of the parameters.

        Also return its derivatives w.r.t. the constants, (K,), and w.r.t. the parameters, (P,).
        """
        expected = self._expect_constants(constants, y, weight)
        mean = np.repeat(constants[:, None], len(weight), axis=1)
        by_params = self.params_gradient(y, weight, mean, np.zeros(mean.shape))
        log_prior, slope = self.log_prior()
        value = float(expected.value.sum()) + log_prior
        return value, expected.slope.sum(axis=1), by_params + slope

    def _best_constants(self, y, weight):
        """Return the constant functions that maximise the likelihood, shape (K,)."""
        expect = partial(self._expect_constants, y=y, weight=weight)
        return best_constants(expect, self.n_functions)

    def initial_params(self, y, weight):
        """Return the initial parameters of one output, shape (P,)."""
        return np.zeros(self.n_params)

    def params_bounds(self, y, weight):
        """Return the limits of the parameters of one output, shape (P, 2)."""
        return np.tile([-np.inf, np.inf], (self.n_params, 1))

    def params_names(self):
        """Return the names of the parameters in messages, a list of P strings."""
        return [f"likelihood parameter {k}" for k in range(self.n_params)]

    def params_gradient(self, y, weight, mean, variance):
        """Return the derivative of the bound w.r.t. the parameters at given moments of f.

        Parameters
        ----------
        y, weight : array of shape (N,)
        mean, variance : ndarray of shape (K, N)
            Moments of f; the variance includes the scaled residual.

        Returns
        -------
        ndarray of shape (P,)
        """
        raise self._lacks("params_gradient")

    def log_prior(self):
        """Return the log prior of the parameters, in nats, and its gradient, shape (P,).

        The log prior must not exceed zero, so that the bound plus the log prior is a lower bound.
        """
        return 0.0, np.zeros(self.n_params)

    def constant_params(self, y, weight, fit_prior_mean=True):
        """Return the parameters for a constant f, shape (P,)."""
        return self.initial_params(y, weight)


def by_output(functions, n_functions):
    """Return a list of slices of `functions`, the `n_functions` of each output."""
    return [functions[k : k + n_functions] for k in range(0, len(functions), n_functions)]


def joint_log_prior(likelihoods):
    """Return the log prior of the parameters of all outputs, and its gradient (P,)."""
    values, slopes = zip(*(likelihood.log_prior() for likelihood in likelihoods), strict=True)
    return sum(values), np.concatenate(slopes)


def joint_params_gradient(likelihoods, targets, weight, mean, variance):
    """Return the `params_gradient` of all outputs, (P,), given the moments of f, (K, N) each."""
    n_functions = likelihoods[0].n_functions
    moments = by_output(mean, n_functions), by_output(variance, n_functions)
    outputs = zip(likelihoods, targets, *moments, strict=True)
    return np.concatenate(
        [likelihood.params_gradient(y, weight, *parts) for likelihood, y, *parts in outputs]
    )


def best_constant_bound(likelihood, y, weight, fit_prior_mean):
    """Return the `constant_bound` of one output at its `constant_params`, plus the log prior."""
    likelihood = likelihood.at(likelihood.constant_params(y, weight, fit_prior_mean))
    return likelihood.constant_bound(y, weight, fit_prior_mean) + likelihood.log_prior()[0]


def normal_log_prior(x, mean, deviation):
    """Return the log density of a normal prior at x, minus its maximum, and its derivative."""
    step = (x - mean) / deviation
    return -0.5 * step**2, -step / deviation


class LabelLikelihood(Likelihood):
    """Base class of the likelihoods of class labels.

    A subclass also defines `log_probabilities` and `probabilities`. Settings that do not depend on
    the number of classes are parameters of the constructor.

    Attributes
    ----------
    takes_many_classes : bool
        Whether the likelihood admits more than two classes.

    See Also
    --------
    Likelihood : Base class of all likelihoods.
    """

    takes_many_classes = False
    # With rows of a single class, the prior mean would go to infinity, and probabilities to zero.
    mean_deviation = 3.0

    def for_classes(self, n_classes):
        """Return the likelihood for this number of classes."""
        return self

    def log_probabilities(self, mean, variance):
        """Return the logarithms of the classes' probabilities, integrated over f.

        Parameters
        ----------
        mean, variance : ndarray of shape (K, n)
            Moments of all functions.

        Returns
        -------
        ndarray of shape (n, C)
        """
        raise self._lacks("log_probabilities")

    def probabilities(self, f):
        """Return the classes' probabilities, shape (n, C), at given f, shape (K, n)."""
        raise self._lacks("probabilities")
