"""Descriptions of targets whose scale does not suit the kernel."""

import numpy as np

from sparsegpc._estimators.kernels.hyperparameters import SOME_ROWS

# With less than this fraction of the targets' deviation, f cannot explain much of them.
SMALLEST_SHARE = 0.2
# If the deviations of two outputs have at least this ratio, a common kernel visibly costs accuracy.
UNLIKE = 10.0


def describe_mismatch(kernel, X, variance, remedy, constant=False):
    """Describe targets whose scale does not suit the limits of the kernel, or return "".

    `variance` (n_outputs,) holds the variances of the targets; `remedy` tells how to scale them. If
    the learned function is no better than a `constant` one, limits that are too large for the
    targets count, too.
    """
    if len(variance) == 0:
        return ""
    least, most = np.sqrt([variance.min(), variance.max()])
    if most >= UNLIKE * least:
        return (
            f"the standard deviations of the outputs range from {least:.3g} to {most:.3g}, but the "
            f"outputs share one kernel, which can hide some of them: {remedy}"
        )
    low, high = _deviations_of_f(kernel, X)
    if high < SMALLEST_SHARE * most or (constant and low > least / SMALLEST_SHARE):
        return (
            f"the limits of the kernel give f a standard deviation from {low:.3g} to {high:.3g}, "
            f"but that of the targets is {most:.3g}: {remedy}, or change these limits"
        )
    return ""


def _deviations_of_f(kernel, X):
    """Return the least and the largest prior standard deviation of f within the limits."""
    free = [h for h in kernel.hyperparameters if not h.fixed]
    is_length = [h.name.endswith("length_scale") for h in free for _ in range(h.n_elements)]
    low, high = np.reshape(kernel.bounds, (-1, 2)).T
    # It grows with other hyperparameters, but never with a length scale.
    X, ends = X[:SOME_ROWS], np.where(is_length, [high, low], [low, high])
    with np.errstate(all="ignore"):
        return [float(np.sqrt(np.mean(kernel.clone_with_theta(theta).diag(X)))) for theta in ends]
