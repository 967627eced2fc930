r"""Deviations from the mean that depend linearly on the columns, which f should explain.

Where columns are nearly equal, a function of their difference varies fast between rows that hardly
differ. Such a function may need a large variance, far from where a search begins.

Let t be the maxima of the sites, :math:`C = V^T V + P^{-1}` their covariance and
:math:`\alpha = C^{-1} (t - \mu)` the deviations, which are :math:`b_n - p_n m_n` as in
`deviations`. If the model is right, then for the columns A of X

.. math:: h = A^T \alpha \sim N(0, G), \qquad G = A^T C^{-1} A,

so :math:`h^T G^{-1} h` has a chi-squared distribution. An additional linear function whose slopes
have the variance s adds :math:`s \lambda^2` to the variance :math:`\lambda` of the component of h
along an eigenvector of G.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc

from sparsegpc._core.numerics.linalg import solve_lower
from sparsegpc._core.rows.blocks import Table
from sparsegpc._core.rows.sources import spaced_rows, take_rows

# Number of rows that tell the mean and the deviation of a column.
MOMENT_ROWS = 5000
# Linear deviations that are more likely by chance are not significant.
LEAST_CHANCE = 1e-3
# Smaller eigenvalues of G are rounding errors: relative to the largest one, and to A^T P A. So are
# smaller deviations of columns, relative to their means.
LEAST_EIGENVALUE, ROUNDING = 1e-9, 1e-12


class LinearDeviations(NamedTuple):
    """How much deviations depend on the columns.

    ``chi_squared`` is :math:`h^T G^{-1} h` of all functions together, with ``n_components``, the
    rank of their G, degrees of freedom. ``slope_variance`` is the variance of slopes that the
    component with the largest square suggests, for columns of variance one.
    """

    chi_squared: float
    n_components: int
    slope_variance: float

    @property
    def is_significant(self):
        return bool(chdtrc(self.n_components, self.chi_squared) < LEAST_CHANCE)


def linear_deviations(model, evaluation):
    """Return the `LinearDeviations` of an `Evaluation`, or None if there can be none.

    Cost N (M + D) (M + K D) for K functions.
    """
    few = take_rows(model.X, spaced_rows(model.weight, MOMENT_ROWS), memory=np.inf)
    centre, deviation = few.mean(axis=0), few.std(axis=0)
    varies = deviation > ROUNDING * np.abs(centre)
    if not varies.any():
        return None
    features = model.features_of(evaluation.posterior)

    def columns(X):
        """Return the columns in units of their deviations, after a column of ones."""
        scaled = (X[:, varies] - centre[varies]) / deviation[varies]
        return np.column_stack([np.ones(len(X)), scaled])

    of_functions = [
        _components(features, Table(model.X), columns, q, solution.sites)
        for q, solution in zip(evaluation.posterior.functions, evaluation.solutions, strict=True)
    ]
    components, variances = np.concatenate(of_functions, axis=1)
    if not len(variances):
        return None
    squares = components**2 / variances
    largest = int(squares.argmax())
    slope_variance = max(squares[largest] - 1.0, 0.0) / variances[largest]
    return LinearDeviations(float(squares.sum()), len(squares), float(slope_variance))


def _components(features, X, columns, q, sites):
    """Return the components of h along the eigenvectors of G, and their variances, (2, n).

    `q` is the `FunctionPosterior` at the `sites`. The component along the ones is left out, as the
    prior mean may have any value.
    """

    def sums(V, X, precision, shift):
        A = columns(X)
        weighted = precision[:, None] * A
        alpha = shift - precision * (q.prior_mean + q.w @ V)
        return A.T @ weighted, V @ weighted, alpha @ A

    squares, cross, h = features.sum(sums, X, sites.precision, sites.shift)
    half = solve_lower(q.LB, cross)
    G, rounding = squares - half.T @ half, ROUNDING * squares.diagonal()
    if not G[0, 0] > rounding[0]:
        # There is no noise, so f explains all deviations.
        return np.empty((2, 0))
    shares = G[0, 1:] / G[0, 0]
    variances, vectors = np.linalg.eigh(G[1:, 1:] - np.outer(shares, G[0, 1:]))
    kept = variances > max(LEAST_EIGENVALUE * variances[-1], rounding[1:].max())
    return np.array([(h[1:] - shares * h[0]) @ vectors[:, kept], variances[kept]])
