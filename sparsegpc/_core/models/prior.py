r"""Priors of the hyperparameters.

A prior of the n entries x of theta at its ``indices`` has three methods, which leave out the
constant of the density:

- ``log_density(x)``;
- ``gradient(x)``, shape (n,);
- ``curvature(x)``, a positive semi-definite matrix of shape (n, n): minus the Hessian of the log
  density, or of a quadratic lower bound on it that touches it at x.

`ProductPrior`, the prior of a model, has the same methods as functions of all of theta (P,).
"""

from typing import NamedTuple

import numpy as np


class NormalPrior(NamedTuple):
    """Independent normal distributions of the entries of theta at ``indices`` (n,).

    ``mean`` (n,); ``deviation``, their standard deviation, in units of theta.
    """

    indices: np.ndarray
    mean: np.ndarray
    deviation: float

    @classmethod
    def of_all(cls, mean, deviation):
        """Return the prior of all P entries of theta, with means of shape (P,)."""
        return cls(np.arange(len(mean)), mean, deviation)

    def log_density(self, x):
        distance = (x - self.mean) / self.deviation
        return -0.5 * float(distance @ distance)

    def gradient(self, x):
        return (self.mean - x) / self.deviation**2

    def curvature(self, x):
        return np.eye(len(x)) / self.deviation**2


class TyingPrior(NamedTuple):
    r"""A prior that ties some entries of theta to each other, as strongly as the data suggest.

    The n entries at ``indices`` minus their ``units`` (n,) have a normal distribution about a
    common mean, of which nothing is assumed. Its variance has an inverse gamma distribution of
    shape `SHAPE`, a, and scale b, so the differences have a multivariate Student-t distribution:

    .. math:: \log p = -c \log\left(1 + \tfrac{1}{2 b} \sum_i \delta_i^2\right),
        \quad c = \tfrac{n - 1}{2} + a, \quad b = c \tau^2,

    where :math:`\delta_i` are the differences from the mean of the n entries. Near zero, this is
    the log density of a normal distribution with the standard deviation `DEVIATION`,
    :math:`\tau`, for any n. With the same b for all n the maximum would be so narrow for many
    entries that a search stays there, although most of the probability lies elsewhere.
    """

    indices: np.ndarray
    units: np.ndarray

    SHAPE = 1.0
    DEVIATION = 0.3

    @property
    def count(self):
        """The constant c."""
        return 0.5 * (len(self.indices) - 1) + self.SHAPE

    @property
    def scale(self):
        """The constant b."""
        return self.count * self.DEVIATION**2

    def _differences(self, x):
        tied = x - self.units
        return tied - tied.mean()

    def _slope(self, differences):
        """Return minus the derivative of the log density with respect to sum(delta^2) / 2."""
        return self.count / (self.scale + 0.5 * float(differences @ differences))

    def log_density(self, x):
        differences = self._differences(x)
        return -self.count * float(np.log1p(0.5 * float(differences @ differences) / self.scale))

    def gradient(self, x):
        differences = self._differences(x)
        return -self._slope(differences) * differences

    def curvature(self, x):
        # The log is concave in delta^2, so its tangent gives a quadratic lower bound.
        return self._slope(self._differences(x)) * (np.eye(len(x)) - 1.0 / len(x))


class MeanOfOthersPrior(NamedTuple):
    """Normal distributions of some entries of theta about the mean of others plus an ``offset``.

    ``indices`` (k + n,) are those of the k = ``n_entries`` entries, then those of the n others. If
    neither the data nor another factor depend on an entry, it is at that mean at the maximum, and
    the others are what they would be without it.
    """

    indices: np.ndarray
    offset: float
    n_entries: int = 1

    DEVIATION = 0.3

    def _distances(self, x):
        """Return the distance of each entry from the mean, in standard deviations."""
        mean = x[self.n_entries :].mean() + self.offset
        return (x[: self.n_entries] - mean) / self.DEVIATION

    def log_density(self, x):
        distances = self._distances(x)
        return -0.5 * float(distances @ distances)

    def gradient(self, x):
        distances, n_others = self._distances(x), len(x) - self.n_entries
        by_other = distances.sum() / (n_others * self.DEVIATION)
        return np.append(-distances / self.DEVIATION, np.full(n_others, by_other))

    def curvature(self, x):
        k, n_others = self.n_entries, len(x) - self.n_entries
        slopes = np.hstack([np.eye(k), np.full((k, n_others), -1.0 / n_others)]) / self.DEVIATION
        return slopes.T @ slopes


class ProductPrior(NamedTuple):
    """The product of several priors, ``factors``; with none of them, no prior at all."""

    factors: tuple = ()

    @property
    def indices(self):
        """The entries of theta that have a prior, in no order and possibly more than once."""
        none = np.zeros(0, dtype=int)
        return np.concatenate([none, *(factor.indices for factor in self.factors)])

    def joined(self, other, n_entries):
        """Return the product with another prior, of the entries that follow the first ones.

        `n_entries` entries precede those of `other`, a `ProductPrior`.
        """
        moved = [factor._replace(indices=factor.indices + n_entries) for factor in other.factors]
        return ProductPrior((*self.factors, *moved))

    def after(self, n_entries):
        """Return the product of the factors that do not concern the first `n_entries` entries."""
        return ProductPrior(tuple(f for f in self.factors if f.indices.min() >= n_entries))

    def log_density(self, theta):
        return sum((factor.log_density(theta[factor.indices]) for factor in self.factors), 0.0)

    def gradient(self, theta):
        total = np.zeros(len(theta))
        for factor in self.factors:
            total[factor.indices] += factor.gradient(theta[factor.indices])
        return total

    def curvature(self, theta):
        total = np.zeros((len(theta), len(theta)))
        for factor in self.factors:
            indices = factor.indices
            total[np.ix_(indices, indices)] += factor.curvature(theta[indices])
        return total
