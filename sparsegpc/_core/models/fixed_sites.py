"""Certificates and gains of points, at the sites of an `Evaluation`."""

from dataclasses import replace

from sparsegpc._core.bounds.certificates import OF_SITES, certify
from sparsegpc._core.bounds.collapsed import collapse
from sparsegpc._core.bounds.point_gains import gains_of_new_points, gains_of_points
from sparsegpc._core.bounds.slacks import TIGHT

# Up to this many rows "auto" passes over the kernel matrix, at a cost quadratic in their number.
PASS_ROWS = 20_000
# Upper bounds that need no pass over the kernel matrix.
FAST_METHODS = ("trace", "cauchy-schwarz")


def certificate_of(model, evaluation, method="auto"):
    """Return the sum of the certificates of all functions, at their sites.

    If the sites depend on f, the exact posterior of the certificate is that of the same sites. One
    constant is added to all bounds, so that the lower bound is that of the model. `method` names an
    upper bound in `UPPER_BOUNDS`, or is "auto": `FAST_METHODS`, and "one-pass" and "two-moment" for
    up to `PASS_ROWS` rows. Cost N M^2 for each function, and that in `UPPER_BOUNDS`.
    """
    methods = _auto(model, "one-pass", "two-moment") if method == "auto" else (method,)
    return _certificate(model, evaluation, *at_fixed_sites(model, evaluation), methods)


def gap_per_row(model, evaluation, tol, before_pass):
    """Return the gap of a certificate in nats per row, as cheaply as comparing it to `tol` allows.

    The gap is that of "auto", but "two-moment" is left out if the gap without it is at most `tol`,
    or if the gap with it would exceed `tol` for any log determinant that the tight slack allows.
    ``before_pass()`` is called before "two-moment".
    """
    features, outputs = at_fixed_sites(model, evaluation)
    first = _certificate(model, evaluation, features, outputs, _auto(model, "one-pass"))
    largest_log_det = sum(
        float(TIGHT.row_term(sites.precision * features.residual).sum()) for sites, _ in outputs
    )
    least_gap = first.gap - 0.5 * largest_log_det
    hopeless = len(model.weight) > PASS_ROWS or least_gap > tol * model.total_weight
    if hopeless or first.gap_per_row <= tol:
        return first.gap_per_row
    before_pass()
    second = _certificate(model, evaluation, features, outputs, ("two-moment",))
    return min(first.gap_per_row, second.gap_per_row)


def point_gains(model, evaluation):
    """Return the `PointGains` of the points of an `Evaluation`. Cost 2 N M^2 for each function."""
    features, outputs = at_fixed_sites(model, evaluation)
    return gains_of_points(features, outputs, model.slack, model.fit_prior_mean)


def gains_of_rows(model, evaluation, Z):
    """Return the gain in nats of each row of `Z` (C, D) as a further inducing point, shape (C,)."""
    features, outputs = at_fixed_sites(model, evaluation)
    return gains_of_new_points(features, outputs, model.slack, model.fit_prior_mean, Z)


def _auto(model, *with_pass):
    """Return `FAST_METHODS`, and for up to `PASS_ROWS` rows methods that need a pass."""
    return (*FAST_METHODS, *with_pass) if len(model.weight) <= PASS_ROWS else FAST_METHODS


def at_fixed_sites(model, evaluation):
    """Return the `RowFeatures`, and the sites of each function with their optimal q(u)."""
    features = model.features_of(evaluation.posterior)
    outputs = [(solution.sites, solution.posterior) for solution in evaluation.solutions]
    if not model.likelihood.has_fixed_sites:
        outputs = [
            (sites, collapse(features, sites, model.slack, posterior.prior_mean))
            for sites, posterior in outputs
        ]
    return features, outputs


def _certificate(model, evaluation, features, outputs, methods):
    """Return the sum of the certificates of the outputs."""
    first, *others = certify(
        features, outputs, model.slack, methods, total_weight=model.total_weight
    )
    total = sum(others, first)
    if not model.likelihood.has_fixed_sites:
        total = replace(total, of=OF_SITES)
    return total.shifted(float(evaluation.elbo - total.lower_bound))
