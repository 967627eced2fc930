"""A likelihood of counts, as users would write it."""

import numpy as np
from scipy.special import gammaln

from sparsegpc.likelihoods import Expectation, Likelihood


class OwnPoisson(Likelihood):
    """Counts of mean exp(f)."""

    merges_unequal_targets = True

    def targets(self, y, weight, rows):
        target = np.empty(len(rows.weight), dtype=[("count", float), ("constant", float)])
        target["count"] = rows.mean(y, weight)
        target["constant"] = rows.mean(gammaln(y + 1.0), weight)
        return [target]

    def expect(self, y, weight, mean, inducing_variance, residual, v):
        log_rate = mean[0] + 0.5 * (inducing_variance[0] + v[0] * residual)
        rate = weight * np.exp(np.minimum(log_rate, 600.0))
        value = weight * (y["count"] * mean[0] - y["constant"]) - rate
        return Expectation(value, (weight * y["count"] - rate)[None], rate[None], v * rate)
