"""Gains of inducing points of a model, at the sites of an evaluation."""

from sparsegpc._core.bounds.point_gains import gains_of_new_points, gains_of_points
from sparsegpc._core.models.certification import at_fixed_sites


def point_gains(model, evaluation):
    """Return the `PointGains` of the points of an `Evaluation`. Cost 2 N M^2 for each function."""
    features, outputs = at_fixed_sites(model, evaluation)
    return gains_of_points(features, outputs, model.slack, model.prior_mean is None)


def gains_of_rows(model, evaluation, Z):
    """Return the gain in nats of each row of `Z` (C, D) as a further inducing point, shape (C,)."""
    features, outputs = at_fixed_sites(model, evaluation)
    return gains_of_new_points(features, outputs, model.slack, model.prior_mean is None, Z)
