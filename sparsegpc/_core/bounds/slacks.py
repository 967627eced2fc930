r"""The slack of the bound: the penalty for variance that the inducing points do not explain.

A row with precision p and residual r has the *residual ratio* :math:`p_n r_n \ge 0`, its residual
variance in units of the noise variance. At fixed Gaussian sites the slack is, for any
:math:`v_n \in (0, 1]`,

.. math:: -\tfrac12 \textstyle\sum_n (v_n p_n r_n - \log v_n + v_n - 1).

In general the expected log likelihood of a row is taken at the variance :math:`s_n + v_n r_n`,
where :math:`s_n` comes from q(u), and :math:`\frac12 \sum_n (v_n - \log v_n - 1)` is subtracted.
This is a bound if the expected log likelihood does not increase with the variance of f, or of any
of its functions: for all likelihoods that are log-concave, and all of the package (theorem of
docs/theory.rst, "Labels"). If v is the same for all rows, no condition is necessary.

The *scale* v is 1 (standard), the best number for all rows (spherical), or the best number for
each row (tight). The slacks increase in this order. With t the sum of the residual ratios the best
scales and the slacks at fixed sites are

========= ====================== ====================================== ========================
slack     scale                  value                                  reference
========= ====================== ====================================== ========================
standard  :math:`1`              :math:`-\frac12 t`                     Titsias 2009; Passerello
                                                                        2021, equation 3.2
spherical :math:`1/(1+t/N)`      :math:`-\frac N2 \log(1 + t/N)`        Artemev 2021; Titsias
                                                                        2025, section 4
tight     :math:`1/(1+p_n r_n)`  :math:`-\frac12 \sum \log(1+p_n r_n)`  Titsias 2025,
                                                                        proposition 3.3, here
                                                                        more generally
========= ====================== ====================================== ========================

To add a slack, write a class and add its name to `SLACKS` and to `Likelihood.slacks`.
"""

import numpy as np


class Slack:
    """The value and the scale of a slack, and the sum over rows that they depend on.

    The scale is constant or maximises the bound, so gradients of the bound hold it fixed.

    Attributes
    ----------
    is_sum_over_rows : bool
        Whether the slack is a sum over rows, so that a batch of rows gives an unbiased estimate.
    has_unit_scale : bool
        Whether the scale is always 1.
    """

    is_sum_over_rows = True
    has_unit_scale = False

    def row_term(self, ratio):
        """Return the term of each row, shape (n,); `value` takes the sum over all rows."""
        return ratio

    def value(self, total, n_rows):
        """Return the slack in nats from the sum of the `row_term` of `n_rows` rows."""
        return -0.5 * total

    def scale(self, ratio, mean_ratio):
        """Return v, a number or an array of shape (n,), from the residual ratios (n,) of some rows.

        `mean_ratio` is the mean over all rows.
        """
        raise NotImplementedError

    def rescaled(self, total, factor):
        """Return the sum of the `row_term` after all ratios have been multiplied by a factor.

        If this needs the rows, the old sum is returned; only the value of the bound depends on it.
        """
        return factor * total


class Standard(Slack):
    """The slack of q(f|u) = p(f|u), with v = 1."""

    has_unit_scale = True

    def scale(self, ratio, mean_ratio):
        return 1.0


class Spherical(Slack):
    """The slack with the best common scale of all rows."""

    is_sum_over_rows = False

    def value(self, total, n_rows):
        return -0.5 * n_rows * np.log1p(total / n_rows)

    def scale(self, ratio, mean_ratio):
        return 1.0 / (1.0 + mean_ratio)


class Tight(Slack):
    """The slack with the best scale of each row."""

    def row_term(self, ratio):
        return np.log1p(ratio)

    def scale(self, ratio, mean_ratio):
        return 1.0 / (1.0 + ratio)

    def rescaled(self, total, factor):
        return total


STANDARD, SPHERICAL, TIGHT = Standard(), Spherical(), Tight()
# The slacks by their public names, the tightest first.
SLACKS = {"tight": TIGHT, "spherical": SPHERICAL, "standard": STANDARD}
# A change of log v by this much changes the bound of a row by less than 1e-12 nats.
SETTLED = 1e-6
# This many steps of log v are enough unless the ratio is huge; the bound holds at any scale.
N_STEPS = 8
# The slope of the fixed-point map of log v is below 3/4, and far below zero only over short ranges.
STEP_LENGTHS = (0.05, 4.0)


def sums_over_rows(names):
    """Return a tuple of those of `names` whose slacks are sums over rows."""
    return tuple(name for name in names if SLACKS[name].is_sum_over_rows)


def scales_for(likelihood, slack):
    """Return the slack that sets v: `STANDARD`, so v = 1, if the likelihood has its own slack."""
    return STANDARD if likelihood.has_own_slack else slack


def scales_at(slack, precision, residual, mean_ratios=None):
    """Return the scales v at site precisions, both of shape (K, n).

    `mean_ratios` are those of all rows for each function; None means that these are all rows.
    """
    v = np.empty(precision.shape)
    for k, p in enumerate(precision):
        ratio = p * residual
        v[k] = slack.scale(ratio, ratio.mean() if mean_ratios is None else mean_ratios[k])
    return v


def settle_scales(slack, expect, residual, mean_ratios):
    """Return an `Expectation` at scales v (K, n) that are consistent with its precisions, and v.

    The precisions depend on the scales. Fixed-point steps of log v are too short where the
    precision falls with the variance of f, and too long where it rises. So the secant method adapts
    the length of the step of each row. ``expect(v)`` returns the `Expectation` of K functions, and
    `mean_ratios` holds the mean residual ratio of all rows for each function.
    """
    log_v = np.zeros((len(mean_ratios), len(residual)))
    old_step = move = None
    for k in range(N_STEPS + 1):
        v = np.exp(log_v)
        expected = expect(v)
        step = np.log(scales_at(slack, expected.precision, residual, mean_ratios)) - log_v
        if k == N_STEPS or np.abs(step).max() < SETTLED:
            break
        length = 1.0 if old_step is None else _secant_length(old_step, step, move)
        old_step, move = step, np.minimum(length * step, -log_v)
        log_v = log_v + move
    return expected, v


def _secant_length(old_step, step, move):
    """Return the lengths of steps by the secant method, from the last steps and moves of log v."""
    change = old_step - step
    length = np.divide(move, change, out=np.ones_like(change), where=change != 0.0)
    return np.clip(length, *STEP_LENGTHS)
