r"""Certificates: bounds on the errors of a sparse posterior relative to the exact one.

A lower bound and an upper bound U bracket the log marginal likelihood, and
:math:`\mathrm{KL}(q \,\|\, \mathrm{exact}) \le U - \mathrm{bound}(q)`. For labels the exact
posterior is the one with an inducing point at every row and the *same sites*: a certificate bounds
the error that the inducing points cause, not the error of the Gaussian sites.

References
----------
Burt, Rasmussen, van der Wilk 2020, proposition 1, bounds means and variances for small
divergences. The inequalities of `Certificate` are sharper and hold for every divergence.
"""

import math
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

import numpy as np

from sparsegpc._core.bounds.upper_bounds import UPPER_BOUNDS, standard_bound, upper_bounds

# The quantity that the bounds of a classifier bracket, up to one constant.
OF_SITES = "log marginal likelihood of the sites"
# From this value on, bounds on mean errors and variance ratios are not worth printing.
USEFUL = 5.0


def certify(features, outputs, slack, methods, *, total_weight, **cg_options):
    """Return a list with the `Certificate` of each output; `upper_bounds` takes the arguments.

    `total_weight` is the sum of the weights of the rows. The certificates of independent outputs
    can be added.
    """
    return [
        Certificate(
            total_weight,
            float(posterior.bound),
            standard_bound(features, sites, posterior, slack),
            {name: float(bound) for name, bound in bounds.upper.items()},
            float(bounds.improved_lower),
        )
        for (sites, posterior), bounds in zip(
            outputs, upper_bounds(features, outputs, slack, methods, **cg_options), strict=True
        )
    ]


def variance_ratios(gamma):
    r"""Return the two roots of :math:`\rho - 1 - \log \rho = \gamma`, the smaller one first.

    If the Kullback-Leibler divergence of two Gaussians is at most gamma / 2, the ratio of their
    variances is between the roots. In terms of Lambert's function the roots are
    :math:`-W_0(-e^{-1-\gamma})` and :math:`-W_{-1}(-e^{-1-\gamma})`.

    Notes
    -----
    Both Newton iterations start outside the roots of a convex function, so they converge
    monotonically. The first one computes the logarithm of the smaller root, which itself underflows
    to zero from gamma = 745 on.
    """
    if math.isinf(gamma):
        return 0.0, math.inf
    s = math.sqrt(2.0 * gamma)
    # For small gamma Newton's method loses digits, and a series does not.
    if gamma < 1e-6:
        even, odd = s**2 / 3.0 - s**4 / 270.0, s + s**3 / 36.0
        return 1.0 + (even - odd), 1.0 + (even + odd)
    low, high = -(gamma + s), gamma + s
    # From these starts five Newton steps converge to rounding error.
    for _ in range(5):
        low -= (math.expm1(low) - low - gamma) / math.expm1(low)
        high -= (high - math.log1p(high) - gamma) * (1.0 + high) / high
    return math.exp(low), 1.0 + high


@dataclass(frozen=True)
class Certificate:
    r"""Bounds on the errors of a sparse posterior relative to the exact one.

    Both posteriors have the same kernel and sites. At any x let f have mean :math:`m` and variance
    :math:`\tau^2` under the sparse posterior, and :math:`m_*` and :math:`\tau_*^2` under the exact
    one. If their divergence is at most :math:`\gamma / 2`, then
    :math:`|m - m_*| \le \tau \sqrt{e^\gamma - 1}`; :math:`\tau^2 / \tau_*^2` is between the
    `variance_ratios`; and the probabilities of any event differ by at most :math:`\sqrt\gamma / 2`
    (Pinsker's inequality).

    Predictions use p(f|u) q(u), whose lower bound is the standard one, so :math:`\gamma` is twice
    `kl`. For means it is twice the smaller `gap`, because the posterior of the fitted bound has the
    same mean and no larger variance.

    Parameters
    ----------
    total_weight : float
        Total weight of the rows.
    lower_bound : float
        The bound that was fitted, in nats.
    standard_bound : float
        The bound with the standard slack at the same sites, in nats.
    upper_bounds : dict
        Upper bounds by the names of their methods, in nats.
    improved_lower_bound : float
        The highest lower bound that was computed, the lower end of `interval`. As the bound of
        another posterior, it does not enter the bounds on errors.
    of : str, default="log marginal likelihood"
        The quantity that the bounds bracket. For a classifier it is that of its Gaussian sites,
        plus the constant that makes `lower_bound` the fitted bound. With "polya-gamma" this is the
        bound with a point at every row and the same tilts; with other likelihoods only differences
        between the bounds are meaningful. The error of the sites is not certified.

    See Also
    --------
    SparseGPRegressor : Its method `certificate` returns a certificate.

    Notes
    -----
    The sum of the certificates of independent outputs over the same rows is a certificate of all
    outputs, because their divergences add up. It also holds for each output, whose own certificate
    is sharper.

    Examples
    --------
    >>> from sparsegpc import Certificate
    >>> c = Certificate(100, -50.0, -50.01, {"one-pass": -49.99}, -50.0)
    >>> print(round(c.gap, 4), round(c.kl, 4), round(c.mean_error, 4))
    0.01 0.02 0.1421
    """

    total_weight: float
    lower_bound: float
    standard_bound: float
    upper_bounds: dict
    improved_lower_bound: float
    of: str = "log marginal likelihood"

    def __add__(self, other):
        if not isinstance(other, Certificate):
            return NotImplemented
        if self.total_weight != other.total_weight:
            raise ValueError(
                "the certificates of a sum must have the same total weight, got "
                f"{self.total_weight:g} and {other.total_weight:g}: add certificates of outputs "
                "with the same rows"
            )
        shared = [name for name in self.upper_bounds if name in other.upper_bounds]
        if not shared:
            raise ValueError(
                "the certificates of a sum must share an upper bound, got "
                f"{list(self.upper_bounds)} and {list(other.upper_bounds)}: compute all of them "
                "with the same method"
            )
        return Certificate(
            self.total_weight,
            self.lower_bound + other.lower_bound,
            self.standard_bound + other.standard_bound,
            {name: self.upper_bounds[name] + other.upper_bounds[name] for name in shared},
            self.improved_lower_bound + other.improved_lower_bound,
            self.of,
        )

    def shifted(self, nats):
        """Return the certificate with a constant added to every bound.

        Parameters
        ----------
        nats : float
            The constant, in nats.

        Returns
        -------
        certificate : Certificate
        """
        return replace(
            self,
            lower_bound=self.lower_bound + nats,
            standard_bound=self.standard_bound + nats,
            upper_bounds={name: bound + nats for name, bound in self.upper_bounds.items()},
            improved_lower_bound=self.improved_lower_bound + nats,
        )

    @property
    def upper_bound(self):
        """The lowest upper bound, in nats."""
        return min(self.upper_bounds.values())

    @property
    def interval(self):
        """The interval (low, high), in nats, that contains the quantity `of`.

        In regression this is the log marginal likelihood of the exact Gaussian process. Where the
        points suffice, the methods "two-moment" and "conjugate-gradient" make the interval narrow.
        Rounding errors of the quadratic form of the targets are not included; their relative size
        is up to about 1e-15 times the ratio of the prior variance of f to the noise variance.
        """
        return self.improved_lower_bound, self.upper_bound

    @property
    def gap(self):
        """Difference of the upper bound and the fitted bound, in nats."""
        return self.upper_bound - self.lower_bound

    @property
    def gap_per_row(self):
        """Difference of the upper bound and the fitted bound, in nats per row."""
        return self.gap / self.total_weight

    @property
    def kl(self):
        """Bound on the divergence of the predictive posterior from the exact one, in nats."""
        return self.upper_bound - self.standard_bound

    @property
    def mean_error(self):
        """Bound on the error of the mean of f, in standard deviations of the sparse posterior."""
        gamma = 2.0 * self.gap
        return math.sqrt(math.expm1(gamma)) if gamma < 700.0 else math.inf

    @property
    def variance_ratio(self):
        """Bounds (low, high) on the ratio of the variance of f to the exact variance."""
        return variance_ratios(2.0 * self.kl)

    @property
    def coverage_error(self):
        """Bound on the error of the probability of any event, at most 1."""
        return min(math.sqrt(0.5 * self.kl), 1.0)

    @property
    def _reference(self):
        return "dense posterior of the same sites" if self.of == OF_SITES else "exact posterior"

    def __str__(self):
        low, high = self.interval
        lines = [
            f"within {_up(self.kl)} nats of the {self._reference} "
            f"({_up(self.kl / self.total_weight)} per row)",
            _describe_errors(self.mean_error, self.variance_ratio, self.coverage_error),
            f"{self.of} between {_decimals(low, np.floor)} and {_decimals(high, np.ceil)}",
            "upper bounds by method:",
        ]
        lines += [
            f"{_decimals(bound, np.ceil):>14}  {name}: {UPPER_BOUNDS[name]}"
            for name, bound in sorted(self.upper_bounds.items(), key=lambda item: item[1])
        ]
        return "\n".join(lines)


def _describe_errors(mean_error, variance_ratio, coverage_error):
    """Return text with the bounds on errors that are useful."""
    low, high = variance_ratio
    lines = []
    if mean_error < USEFUL:
        lines.append(f"means off by at most {_up(mean_error)} posterior standard deviations")
    if high < USEFUL:
        # Near 1 the difference from 1 is rounded to two digits.
        floor = 1.0 - _rounded(1.0 - low) if low > 0.9 else _rounded(low, ROUND_FLOOR)
        ceiling = 1.0 + _rounded(high - 1.0)
        lines.append(f"variances between {floor:.10g} and {ceiling:.10g} times the exact ones")
    if coverage_error < 1.0:
        lines.append(f"probabilities of any interval off by at most {_up(coverage_error)}")
    if len(lines) < 3:
        missing = "other errors" if lines else "errors of single predictions"
        lines.append(f"no useful bound on {missing}: use more inducing points or another method")
    return "\n".join(lines)


def _rounded(value, towards=ROUND_CEILING):
    """Return a number rounded to two digits, ignoring rounding errors in later digits."""
    return float(Context(prec=2, rounding=towards).create_decimal(f"{value:.12g}"))


def _decimals(value, towards):
    """Return text with three decimals, rounded so that the bound still holds."""
    return f"{towards(round(1e3 * value, 6)) / 1e3:z.3f}"


def _up(value):
    """Return a bound as text, rounded up to two digits."""
    return f"{_rounded(value):.4g}"
