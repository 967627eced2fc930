"""Scaling of the numbers of a table."""

import numpy as np
from sklearn.preprocessing import StandardScaler

from sparsegpc._estimators.kernels.log_transform import spans_decades


class ColumnScaler(StandardScaler):
    """A `StandardScaler` that keeps the origin of columns that span decades.

    Their logarithms, which a fit may take, need it. If metadata is routed, it wants no weights;
    otherwise `fit` of a pipeline would raise an error for weights that the model requests. skops
    cannot save a request that is set for an instance.
    """

    __metadata_request__fit = {"sample_weight": False}

    def fit(self, X, y=None, sample_weight=None):
        """Learn means and standard deviations; see `StandardScaler`."""
        super().fit(X, y, sample_weight)
        values = np.asarray(X, dtype=np.float64)
        self.mean_[spans_decades(values.min(axis=0), values.max(axis=0))] = 0.0
        return self
