"""Fitted regressors given further targets, at the hyperparameters that they have."""

from copy import copy

import numpy as np
from scipy.special import softmax

from sparsegpc._core.models.conditioning import condition
from sparsegpc._estimators.predictions.mixtures import Component


def conditioned(regressor, X, y, known_noise):
    """Return a copy of a regressor given further rows X (N, D) with targets y (K, N), in its units.

    `known_noise` (K, N) or None is as in predictions. The weights of the components of a mixture
    are multiplied by the densities of the targets.
    """
    y = (y - regressor._y_centre[:, None]) / regressor._y_scale[:, None]

    def given_targets(component):
        noise = regressor._noise_of(component, X, known_noise).expected()
        precision = regressor._y_scale[:, None] ** 2 / noise
        (posterior,) = component.posteriors
        return condition(posterior, X, y, precision)

    found = copy(regressor)
    best = Component(1.0, [regressor._posterior], regressor._noise)
    found._posterior, _ = given_targets(best)
    if regressor._mixture is not None:
        posteriors, log_densities = zip(*map(given_targets, regressor._mixture), strict=True)
        weights = np.array([component.weight for component in regressor._mixture])
        weights = softmax(np.log(weights) + np.sum(log_densities, axis=1))
        found._mixture = [
            component._replace(weight=weight, posteriors=[posterior])
            for component, weight, posterior in zip(
                regressor._mixture, weights.tolist(), posteriors, strict=True
            )
        ]
    return found
