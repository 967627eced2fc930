"""Homoscedastic noise of targets of which some are only limits."""

import numpy as np

from sparsegpc._core.likelihoods.censored import CensoredGaussian
from sparsegpc._core.likelihoods.responses import observations
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.merged_rows import merge_rows
from sparsegpc._estimators.noise.polynomial import PolynomialPlan


class CensoredPlan(PolynomialPlan):
    """Plan of a constant log noise variance if some targets are censored."""

    def rows_of(self, targets, merged):
        both = np.concatenate([targets.y, targets.event]).T
        return merge_rows(targets.X, targets.weight, targets=both)

    def model(self, kernel, targets, rows, options):
        likelihood, weight = CensoredGaussian(), targets.weight
        y = [
            likelihood.targets(observations(output, event=event), weight, rows)[0]
            for output, event in zip(targets.y, targets.event, strict=True)
        ]
        return SparseModel(kernel, likelihood, rows.X, y, rows.weight, **options)
