r"""How far a sparse posterior can be from the exact one, and the errors that this allows.

A lower bound and an upper one bracket the log marginal likelihood, and
:math:`\mathrm{KL}(q \,\|\, \mathrm{exact}) \le U - \mathrm{bound}(q)`. For Polya-Gamma sites the
exact posterior is the dense one of the *same sites*: a certificate says what the inducing points
cost, not what the augmentation does.

References
----------
Burt, Rasmussen, van der Wilk 2020, proposition 1, of which `Certificate` holds sharper forms,
valid at any distance.
"""

import math
import numbers
from dataclasses import dataclass

from sparsegpc._core.bounds.upper_bounds import UPPER_BOUNDS, standard_bound, upper_bounds

# What the bounds of a classifier are of.
OF_SITES = "bound with a point at every row and the same sites"
# Fields of a certificate that are numbers.
NUMBERS = ("total_weight", "lower_bound", "standard_bound", "improved_lower_bound")


def certify(features, outputs, slack, methods, *, total_weight, **cg_options):
    """Return a list with the `Certificate` of each output; see `upper_bounds`.

    `total_weight` is that of the rows. The certificates of independent outputs may be added.
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

    Between them are the ratios of variances of two Gaussians whose Kullback-Leibler divergence is
    at most gamma / 2. In terms of Lambert's function they are :math:`-W_0(-e^{-1-\gamma})` and
    :math:`-W_{-1}(-e^{-1-\gamma})`.

    Notes
    -----
    Both iterations start outside the roots of a convex function, so they converge monotonically.
    The smaller root is found as a logarithm: it underflows to zero from gamma = 745 on.
    """
    if math.isinf(gamma):
        return 0.0, math.inf
    s = math.sqrt(2.0 * gamma)
    # Where Newton's method would lose digits, a series.
    if gamma < 1e-6:
        even, odd = s**2 / 3.0 - s**4 / 270.0, s + s**3 / 36.0
        return 1.0 + (even - odd), 1.0 + (even + odd)
    low, high = -(gamma + s), gamma + s
    # Five steps reach rounding from these starts.
    for _ in range(5):
        low -= (math.expm1(low) - low - gamma) / math.expm1(low)
        high -= (high - math.log1p(high) - gamma) * (1.0 + high) / high
    return math.exp(low), 1.0 + high


@dataclass(frozen=True)
class Certificate:
    r"""How far a sparse posterior can be from the exact one with the same kernel and sites.

    With gamma twice a bound on the divergence, at every point x, 1 the sparse posterior and 2 the
    exact one: :math:`|\mu_1 - \mu_2| \le \sigma_1 \sqrt{e^\gamma - 1}`;
    :math:`\sigma_1^2 / \sigma_2^2` is between the `variance_ratios`; and no event's probability is
    off by more than :math:`\sqrt\gamma / 2` (Pinsker). Predictions use p(f|u), whose bound is the
    standard one. Their mean is that of the fitted bound's posterior, too, and their variance not
    smaller, so for the mean the smaller gap counts.

    Parameters
    ----------
    total_weight : float
        Total weight of the rows.
    lower_bound : float
        The bound that was fitted, in nats.
    standard_bound : float
        The bound with the standard slack at the same sites.
    upper_bounds : dict
        Upper bounds, by name.
    improved_lower_bound : float
        The best lower bound known. It narrows the bracket of the log marginal likelihood, but
        belongs to another posterior, so it implies nothing about this one.
    of : str, default="log marginal likelihood"
        What the bounds are of. For a classifier it is its bound with an inducing point at every row
        and the same Gaussian sites: how good Gaussian sites are for labels is not certified.

    See Also
    --------
    SparseGPRegressor : Its method `certificate` returns one.

    Notes
    -----
    The certificates of independent outputs over the same rows add up, because divergences do. The
    sum holds for each output, less sharply than its own.

    Examples
    --------
    >>> from sparsegpc import Certificate
    >>> found = Certificate(100, -50.0, -50.01, {"one-pass": -49.99}, -50.0)
    >>> print(round(found.gap, 4), round(found.kl, 4), round(found.mean_error, 4))
    0.01 0.02 0.1421
    """

    total_weight: float
    lower_bound: float
    standard_bound: float
    upper_bounds: dict
    improved_lower_bound: float
    of: str = "log marginal likelihood"

    def __post_init__(self):
        if not (isinstance(self.upper_bounds, dict) and self.upper_bounds):
            raise ValueError(
                f"upper_bounds must be a dictionary of one bound or more, got "
                f"{self.upper_bounds!r}: give for example {{'one-pass': -49.9}}"
            )
        given = {name: getattr(self, name) for name in NUMBERS}
        given.update({f"upper_bounds[{name!r}]": b for name, b in self.upper_bounds.items()})
        for name, value in given.items():
            if not isinstance(value, numbers.Real) or math.isnan(value):
                raise ValueError(
                    f"{name} must be a number, got {value!r}: certificates are made by the method "
                    "certificate of a fitted estimator"
                )
        if not 0.0 < self.total_weight < math.inf:
            raise ValueError(
                f"total_weight must be positive and finite, got {self.total_weight!r}: give the "
                "sum of the weights of the rows"
            )

    def __add__(self, other):
        if not isinstance(other, Certificate):
            return NotImplemented
        if self.total_weight != other.total_weight:
            raise ValueError(
                "certificates add up over outputs of the same rows, not over total weights "
                f"{self.total_weight:g} and {other.total_weight:g}: give one for the same data"
            )
        shared = [name for name in self.upper_bounds if name in other.upper_bounds]
        if not shared:
            raise ValueError(
                "certificates add up by the same upper bounds, not "
                f"{list(self.upper_bounds)} and {list(other.upper_bounds)}: ask for one method"
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
        """Return the certificate with a number added to every bound: targets in another unit.

        Parameters
        ----------
        nats : float

        Returns
        -------
        certificate : Certificate

        Raises
        ------
        ValueError
            If `nats` is not a finite number.
        """
        if not isinstance(nats, numbers.Real) or not math.isfinite(nats):
            raise ValueError(f"nats must be a finite number, got {nats!r}: give 0.0 for no shift")
        return Certificate(
            self.total_weight,
            self.lower_bound + nats,
            self.standard_bound + nats,
            {name: bound + nats for name, bound in self.upper_bounds.items()},
            self.improved_lower_bound + nats,
            self.of,
        )

    @property
    def upper_bound(self):
        """The least upper bound."""
        return min(self.upper_bounds.values())

    @property
    def gap(self):
        """Nats between the upper bound and the fitted bound."""
        return self.upper_bound - self.lower_bound

    @property
    def gap_per_row(self):
        """Nats per row between the upper bound and the fitted bound."""
        return self.gap / self.total_weight

    @property
    def kl(self):
        """Bound on the divergence of the predictive posterior from the exact one, in nats."""
        return self.upper_bound - self.standard_bound

    @property
    def mean_error(self):
        """Bound on the error of a mean, in standard deviations of the sparse posterior."""
        gamma = 2.0 * self.gap
        return math.sqrt(math.expm1(gamma)) if gamma < 700.0 else math.inf

    @property
    def variance_ratio(self):
        """Bounds (low, high) on the variance of f, as a multiple of the exact one."""
        return variance_ratios(2.0 * self.kl)

    @property
    def coverage_error(self):
        """Bound on the error of the probability of any event, at most 1."""
        return min(math.sqrt(0.5 * self.kl), 1.0)

    @property
    def _reference(self):
        return "dense posterior of the same sites" if self.of == OF_SITES else "exact posterior"

    def __str__(self):
        lines = [
            f"within {_up(self.kl)} nats of the {self._reference} "
            f"({_up(self.kl / self.total_weight)} per row)",
            _describe_errors(self.mean_error, self.variance_ratio, self.coverage_error),
            f"{self.of} at least {self.improved_lower_bound:.3f}, and at most",
        ]
        lines += [
            f"{bound:14.3f}  {name}: {UPPER_BOUNDS[name]}"
            for name, bound in sorted(self.upper_bounds.items(), key=lambda item: item[1])
        ]
        return "\n".join(lines)


def _describe_errors(mean_error, variance_ratio, coverage_error, largest=5.0):
    """Return the errors in words, but for bounds from `largest` on, which are of no use."""
    low, high = variance_ratio
    told = []
    if mean_error < largest:
        told.append(f"means off by at most {_up(mean_error)} posterior standard deviations")
    if high < largest:
        # Near 1 the digits that matter are those of the difference.
        floor = 1.0 - _rounded(1.0 - low, math.ceil) if low > 0.9 else _rounded(low, math.floor)
        ceiling = 1.0 + _rounded(high - 1.0, math.ceil)
        told.append(f"variances between {floor:.10g} and {ceiling:.10g} times the exact ones")
    if coverage_error < 1.0:
        told.append(f"probabilities of any interval off by at most {_up(coverage_error)}")
    if len(told) == 3:
        return "\n".join(told)
    untold = "nothing useful certified about " + ("the rest" if told else "single predictions")
    return "\n".join([*told, f"{untold}: more inducing points or a sharper upper bound are needed"])


def _rounded(value, towards):
    """Return a non-negative number with two digits, by `math.ceil` or `math.floor`."""
    if value == 0.0 or math.isinf(value):
        return value
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    # A number of two digits but for its rounding error keeps them.
    nearest = round(value / unit)
    whole = nearest if abs(value / unit - nearest) < 1e-9 else towards(value / unit)
    return whole * unit


def _up(value):
    """Format a bound with two digits, rounded up."""
    return f"{_rounded(value, math.ceil):.4g}"
