"""Models of targets of which some are only limits."""

import numpy as np

from sparsegpc._core.likelihoods.censored import CensoredGaussian, censored_targets
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.merged_rows import merge_rows


def censored_rows(targets):
    """Return the `MergedRows` of censored `Targets`: rows that agree in all that is given."""
    given = [targets.y, targets.event]
    if targets.noise_variance is not None:
        given.append(targets.noise_variance)
    return merge_rows(targets.X, targets.weight, targets=np.concatenate(given).T)


def censored_model(kernel, targets, rows, options, noise_variance, learns_noise=True):
    """Return the core's model of censored `Targets` at their `censored_rows`.

    `noise_variance` (n_outputs, N) is what is known of the variance of the noise, None if nothing.
    """
    likelihood, weight = CensoredGaussian(learns_noise=learns_noise), targets.weight
    known = np.zeros(targets.y.shape) if noise_variance is None else noise_variance
    outputs = zip(targets.y, targets.event, known, strict=True)
    y = [likelihood.targets(censored_targets(*output), weight, rows)[0] for output in outputs]
    return SparseModel(kernel, likelihood, rows.X, y, rows.weight, **options)
