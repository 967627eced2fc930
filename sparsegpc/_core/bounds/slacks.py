r"""The slack of the bound: its penalty for variance that the inducing points leave unexplained.

With precision p and residual r the cost of a row is :math:`p_n r_n \ge 0`. In q the covariance R
of the residual process, in units of the site deviations, is replaced by
:math:`R^{1/2} \mathrm{diag}(v) R^{1/2}`, which gives the slack

.. math:: -\tfrac12 \textstyle\sum_n (v_n p_n r_n - \log v_n + v_n - 1).

The *scale* v is 1 (standard), the best number for all rows (spherical), or the best one for each
row (tight), so the slacks increase in this order, where t is the sum of the costs:

========= ====================== ====================================== ========================
slack     scale                  value                                  reference
========= ====================== ====================================== ========================
standard  :math:`1`              :math:`-\frac12 t`                     Titsias 2009; Passerello
                                                                        2021, equation 3.2
spherical :math:`1/(1+t/N)`      :math:`-\frac N2 \log(1 + t/N)`        Artemev 2021; Titsias
                                                                        2025, section 4
tight     :math:`1/(1+p_n r_n)`  :math:`-\frac12 \sum \log(1+p_n r_n)`  Titsias 2025,
                                                                        proposition 3.3, here
                                                                        for unequal precisions
========= ====================== ====================================== ========================

To add a slack, write a class and add its name to `SLACKS`; `likelihoods.base` says which
likelihoods admit it.
"""

import numpy as np


class Slack:
    """A slack: its value, its scale, and the sum over rows that it needs.

    The scale is the best of a family, or constant: gradients of the bound take it as given.

    Attributes
    ----------
    is_sum_over_rows : bool
        Whether the slack of all rows is the sum of those of each, so that a batch estimates it.
    has_unit_scale : bool
        Whether the scale is 1 whatever the costs.
    """

    is_sum_over_rows = True
    has_unit_scale = False

    def row_term(self, cost):
        """Return the term of each row, shape (n,), whose sum over all rows `value` takes."""
        return cost

    def value(self, total, n_rows):
        """Return the slack in nats from the sum of the `row_term` of `n_rows` rows."""
        return -0.5 * total

    def scale(self, cost, mean_cost):
        """Return v, a number or of shape (n,), at the costs (n,) of some rows.

        `mean_cost` is the mean of the cost over all rows.
        """
        raise NotImplementedError

    def rescaled(self, total, factor):
        """Return the sum of the `row_term` after all costs have been multiplied by a factor.

        A slack that would need the rows for it returns the old sum, which only the value of the
        bound depends on.
        """
        return factor * total


class Standard(Slack):
    """The residual process keeps the prior's covariance."""

    has_unit_scale = True

    def scale(self, cost, mean_cost):
        return 1.0


class Spherical(Slack):
    """One scale for all rows."""

    is_sum_over_rows = False

    def value(self, total, n_rows):
        return -0.5 * n_rows * np.log1p(total / n_rows)

    def scale(self, cost, mean_cost):
        return 1.0 / (1.0 + mean_cost)


class Tight(Slack):
    """A scale for each row."""

    def row_term(self, cost):
        return np.log1p(cost)

    def scale(self, cost, mean_cost):
        return 1.0 / (1.0 + cost)

    def rescaled(self, total, factor):
        return total


STANDARD, SPHERICAL, TIGHT = Standard(), Spherical(), Tight()
# By their public names, the tightest first.
SLACKS = {"tight": TIGHT, "spherical": SPHERICAL, "standard": STANDARD}


def sums_over_rows(names):
    """Return those of some slacks' names of which batches of rows give estimates."""
    return tuple(name for name in names if SLACKS[name].is_sum_over_rows)


def scales_for(likelihood, slack):
    """Return the slack that gives the scales of a likelihood: 1 for one with a slack of its own."""
    return STANDARD if likelihood.has_own_slack else slack


def settle_scales(slack, expect, residual, mean_costs, n_steps=8):
    """Return an `Expectation` at the scales that its own precisions imply.

    Parameters
    ----------
    slack : Slack
    expect : callable
        ``expect(v)`` returns the `Expectation` of K functions at the scales v, shape (K, n).
    residual : ndarray of shape (n,)
    mean_costs : sequence of float of length K
        The mean of the cost over all rows for each function.
    n_steps : int, default=8
        Most steps. Eight are enough unless the cost is huge; the bound holds at any scale.

    Returns
    -------
    expected : Expectation
    v : ndarray of shape (K, n)
        The scales that it was found at.
    """
    v = np.ones((len(mean_costs), len(residual)))
    expected = expect(v)
    for _ in range(n_steps):
        settled = np.empty_like(v)
        for row, precision, mean_cost in zip(settled, expected.precision, mean_costs, strict=True):
            row[:] = slack.scale(precision * residual, mean_cost)
        if np.array_equal(settled, v):
            break
        v = settled
        expected = expect(v)
    return expected, v
