"""Certificates of a model at given hyperparameters and points."""

from dataclasses import replace

from sparsegpc._core.bounds.certificates import OF_SITES, certify
from sparsegpc._core.bounds.collapsed import collapse
from sparsegpc._core.numerics.linalg import JITTER_ATTEMPTS

# "auto" includes a pass over the kernel matrix up to this many rows, where it is fast enough.
ONE_PASS_ROWS = 20_000
# Upper bounds that need no pass over the kernel matrix.
FAST_METHODS = ("trace", "cauchy-schwarz")


def certificate_of(model, evaluation, method="auto"):
    """Return the `Certificate` of all functions together, at their sites.

    If the sites depend on f, the certificate compares with the exact posterior of the same sites.
    All its bounds are then shifted by one constant, so that the lower one is that of the model.

    Parameters
    ----------
    model : SparseModel
    evaluation : Evaluation
    method : str
        Name of an upper bound in `UPPER_BOUNDS`. "auto" takes the best of the fast ones.

    Returns
    -------
    Certificate

    Notes
    -----
    Cost N M^2 for each function, and N^2 D / 2 for a pass over the kernel matrix.
    """
    features = features_at(model, evaluation)
    outputs = [(solution.sites, solution.posterior) for solution in evaluation.solutions]
    sites_only = not model.likelihood.has_fixed_sites
    if sites_only:
        outputs = [
            (sites, collapse(features, sites, model.slack, posterior.prior_mean))
            for sites, posterior in outputs
        ]
    methods = _methods(method, len(model.weight))
    first, *others = certify(
        features, outputs, model.slack, methods, total_weight=model.total_weight
    )
    total = sum(others, first)
    if sites_only:
        total = replace(total, of=OF_SITES)
    return total.shifted(float(evaluation.elbo - total.lower_bound))


def features_at(model, evaluation):
    """Return the `RowFeatures` of the training rows at an evaluation."""
    posterior = evaluation.posterior
    return model.row_features(
        posterior.kernel,
        posterior.theta,
        posterior.Z,
        jitter=evaluation.jitter,
        attempts=JITTER_ATTEMPTS,
    )


def _methods(method, n_rows):
    """Return the names of the upper bounds to compute."""
    if method != "auto":
        return (method,)
    return (*FAST_METHODS, "one-pass") if n_rows <= ONE_PASS_ROWS else FAST_METHODS
