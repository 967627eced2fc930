"""Noise that is known: at each row, or the same for all rows and fixed."""

import numpy as np

from sparsegpc._core.likelihoods.gaussian import KnownNoise, known_noise_targets
from sparsegpc._core.models.model import SparseModel
from sparsegpc._estimators.noise.base import NoisePlan
from sparsegpc._estimators.noise.censored import censored_model
from sparsegpc._estimators.noise.polynomial import constant_noise


class KnownPlan(NoisePlan):
    """Noise that is known at each row, or fixed variances `constant` (n_outputs,) at all rows."""

    is_known = True

    def __init__(self, constant=None):
        self.constant = constant

    def model(self, kernel, targets, rows, options):
        likelihood, noise = KnownNoise(), targets.noise_variance
        if self.constant is not None:
            noise = np.broadcast_to(self.constant[:, None], targets.y.shape)
        if targets.event is not None:
            return censored_model(kernel, targets, rows, options, noise, learns_noise=False)
        y = [
            known_noise_targets(output, targets.weight, variance, rows)
            for output, variance in zip(targets.y, noise, strict=True)
        ]
        return SparseModel(kernel, likelihood, rows.X, y, rows.weight, **options)

    def learned(self, evaluation):
        if self.constant is None:
            # What the user gives for each row is unknown at others.
            return None
        return constant_noise(evaluation.points.Z, np.log(self.constant))
