"""Residuals of a fit, and whether some of them are outliers."""

import numpy as np

from sparsegpc._core.rows.sources import spaced_rows, take_rows
from sparsegpc._estimators.input.targets import centres, deviations

# The number of rows whose residuals count, and the fewest that tell which are usual.
RESIDUAL_ROWS, FEWEST_RESIDUALS = 5000, 30
# Residuals have heavy tails if their deviation is HEAVY_TAILED times what most of them suggest.
# That of a Student-t distribution with four degrees of freedom is 1.29 times.
HEAVY_TAILED = 1.25
# If a larger share of the targets is equal, Student-t noise may describe these alone: as its scale
# falls, the density of a share that exceeds df / (1 + df) outweighs that of all other targets, and
# df is at least .3.
MOST_EQUAL = 0.2


def residuals(fitted):
    """Return residuals (n_outputs, n) of some rows of a `FittedProblem`, and indices of the rows.

    Return None if they are too few to tell which are usual.
    """
    model, posterior = fitted.problem.model, fitted.result.best.posterior
    rows = spaced_rows(model.weight, RESIDUAL_ROWS)
    if len(rows) < FEWEST_RESIDUALS:
        return None
    targets = np.stack([y["mean"][rows] for y in model.targets])
    return targets - posterior.moments(take_rows(model.X, rows, memory=np.inf))[0], rows


def deviation_ratios(differences, weight):
    """Return the ratio of the deviation of residuals (n_outputs, n) to what most of them suggest.

    The result has the shape (n_outputs,).
    """
    middle = centres(differences, weight, robust=True)
    usual = deviations(differences, weight, middle, robust=True)
    return deviations(differences, weight, np.zeros(len(differences))) / usual


def has_heavy_tails(fitted):
    """Return whether the residuals of an output of a `FittedProblem` have heavy tails.

    The noise is the same at all rows: noise that varies follows single outliers. Outputs of which
    many targets are equal are left out.
    """
    found = residuals(fitted)
    if found is None:
        return False
    differences, rows = found
    ratios = deviation_ratios(differences, fitted.problem.model.weight[rows])
    shares = fitted.problem.builder.equal_shares()
    return bool(np.any((ratios > HEAVY_TAILED) & (shares <= MOST_EQUAL)))
