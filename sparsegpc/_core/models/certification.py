"""Certificates of a model at given hyperparameters and points."""

from dataclasses import replace

from sparsegpc._core.bounds.certificates import OF_SITES, certify
from sparsegpc._core.bounds.collapsed import collapse

# Up to this many rows "auto" includes "one-pass", whose cost is quadratic in the number of rows.
ONE_PASS_ROWS = 20_000
# Upper bounds that need no pass over the kernel matrix.
FAST_METHODS = ("trace", "cauchy-schwarz")


def certificate_of(model, evaluation, method="auto"):
    """Return the sum of the certificates of all functions, at their sites.

    If the sites depend on f, the exact posterior of the certificate is that of the same sites. One
    constant is added to all bounds, so that the lower bound is that of the model.

    Parameters
    ----------
    model : SparseModel
    evaluation : Evaluation
    method : str
        Name of an upper bound in `UPPER_BOUNDS`, or "auto": `FAST_METHODS`, and "one-pass" for
        up to `ONE_PASS_ROWS` rows.

    Returns
    -------
    Certificate

    Notes
    -----
    Cost N M^2 for each function, and N^2 D / 2 for each pass over the kernel matrix.
    """
    features = features_at(model, evaluation)
    outputs = [(solution.sites, solution.posterior) for solution in evaluation.solutions]
    sites_depend_on_f = not model.likelihood.has_fixed_sites
    if sites_depend_on_f:
        outputs = [
            (sites, collapse(features, sites, model.slack, posterior.prior_mean))
            for sites, posterior in outputs
        ]
    methods = _methods(method, len(model.weight))
    first, *others = certify(
        features, outputs, model.slack, methods, total_weight=model.total_weight
    )
    total = sum(others, first)
    if sites_depend_on_f:
        total = replace(total, of=OF_SITES)
    return total.shifted(float(evaluation.elbo - total.lower_bound))


def features_at(model, evaluation):
    """Return the `RowFeatures` of the training rows at an evaluation."""
    posterior = evaluation.posterior
    return model.row_features(
        posterior.kernel,
        posterior.theta,
        posterior.Z,
        jitter=posterior.jitter,
    )


def _methods(method, n_rows):
    """Return the names of the upper bounds to compute."""
    if method != "auto":
        return (method,)
    return (*FAST_METHODS, "one-pass") if n_rows <= ONE_PASS_ROWS else FAST_METHODS
