"""Copies of a fitted estimator that also predict from the nearest training rows."""

from copy import copy
from typing import NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import CompoundKernel
from sklearn.neighbors import NearestNeighbors

from sparsegpc._core.nearest_rows.learning import learn_from_neighbours, number_of_blocks
from sparsegpc._core.nearest_rows.leave_one_out import LeaveOneOutPosterior
from sparsegpc._core.nearest_rows.posterior import LocalPosterior
from sparsegpc._core.rows.merged_rows import merge_rows
from sparsegpc._core.rows.threads import single_threaded_blas
from sparsegpc._estimators.base_sparse_gp import BaseSparseGP
from sparsegpc._estimators.kernels.relevance import inverse_length_scales
from sparsegpc._estimators.model_of_rows import ModelOfRows

# The share of the rows of a block that are drawn from all rows. Without them, the length scale of a
# column in which neighbours agree would not be determined.
DISTANT_SHARE = 0.25
# With fewer rows for each point, the points explain nearly everything, so what blocks of rows tell
# is nothing new.
ROWS_PER_POINT = 2


class Corrections(NamedTuple):
    """A fitted estimator with its training rows, and copies of it that use them.

    ``parts`` holds a `Part` for each model, one or one for each class. ``n_relearned`` is the
    number of hyperparameters that were learned from blocks of rows.
    """

    estimator: BaseSparseGP
    parts: list
    n_neighbors: int
    n_relearned: int = 0

    @classmethod
    def of(cls, estimator, X, y, n_neighbors, sample_weight=None, **params):
        """Return the corrections of a fitted estimator, given the data of its `fit`."""
        with single_threaded_blas():
            models = estimator._models_of_rows(X, y, sample_weight, **params)
            parts = [Part.of(model) for model in models]
        return cls(estimator, parts, n_neighbors)

    def has_neighbours(self):
        """Return whether a row has others as neighbours, in all parts."""
        return all(len(part.rows) > 1 for part in self.parts)

    def learns(self):
        """Return whether hyperparameters are learned, in any part."""
        return self.estimator.optimizer is not None and any(
            len(part.fitted.theta) for part in self.parts
        )

    def learns_quickly(self):
        """Return whether hyperparameters are learned with Gaussian noise or a single function."""
        first = self.parts[0].fitted.model
        is_small = len(self.parts) == first.n_functions == 1
        return self.learns() and (is_small or first.likelihood.has_fixed_sites)

    def has_many_rows(self):
        """Return whether there are `ROWS_PER_POINT` distinct rows for each point, in any part."""
        return any(
            len(part.rows) >= ROWS_PER_POINT * len(part.fitted.estimator.inducing_points_)
            for part in self.parts
        )

    def relearned(self, rng):
        """Return the corrections with hyperparameters learned from blocks of rows."""
        with single_threaded_blas():
            parts = [part.relearned(rng) for part in self.parts]
        models = [part.fitted.estimator for part in parts]
        n_relearned = sum(len(part.fitted.theta) for part in parts)
        estimator = self._with_models(models)
        return self._replace(estimator=estimator, parts=parts, n_relearned=n_relearned)

    def corrected(self, mode, leaves_out=False):
        """Return a copy of the fitted estimator that predicts in this mode.

        With `leaves_out`, training rows that equal the row to predict are no neighbours of it, and
        the posterior has not seen them.
        """
        if mode == "points" and not leaves_out:
            return self.estimator
        options = self.n_neighbors, mode, leaves_out
        return self._with_models([part.corrected(*options) for part in self.parts])

    def _with_models(self, models):
        """Return the estimator with other models of its parts."""
        if len(models) == 1:
            return models[0]
        whole = copy(self.estimator)
        whole.estimators_ = models
        whole.kernel_ = CompoundKernel([model.kernel_ for model in models])
        return whole


class Part(NamedTuple):
    """A model of a fitted estimator with its merged training rows.

    ``fitted`` is a `ModelOfRows`; ``rows`` (N, D) are in memory, and ``sites`` holds the sites of
    each function at them.
    """

    fitted: ModelOfRows
    rows: np.ndarray
    sites: list

    @classmethod
    def of(cls, fitted):
        """Return the part with the sites at the learned posterior."""
        evaluation = fitted.solved()
        sites = [solution.sites for solution in evaluation.solutions]
        return cls(fitted, *_merged(fitted.model.X, sites))

    def relearned(self, rng):
        """Return the part with hyperparameters learned from blocks of rows."""
        estimator = self.fitted.estimator
        if not len(self.fitted.theta):
            return self
        model = copy(self.fitted.model)
        model.X = model.X[:]
        blocks = _blocks(estimator, model.X, *number_of_blocks(model), rng)
        means = [function.prior_mean for function in estimator._posterior.functions]
        theta = learn_from_neighbours(model, means, blocks, *self.fitted.starts())
        estimator = self.fitted.estimator_at(theta)
        return Part.of(self.fitted._replace(estimator=estimator, theta=theta))

    def corrected(self, n_neighbors, mode, leaves_out):
        """Return a copy of the model's estimator that predicts in this mode."""
        model = copy(self.fitted.estimator)
        trained = model._posterior, self.rows, self.sites
        # Neighbours alone do not use q(u).
        uses_posterior = mode != "neighbors"
        left_out = LeaveOneOutPosterior(*trained) if leaves_out and uses_posterior else None
        if mode == "points":
            model._posterior = left_out
        else:
            nearest = NearestRows(model, self.rows, n_neighbors, leaves_out)
            model._posterior = LocalPosterior(*trained, nearest, uses_posterior, left_out)
        return model


def _blocks(estimator, X, n_blocks, size, rng):
    """Return the indices of the rows of each block, for merged rows X: near and distant ones."""
    n_distant = int(DISTANT_SHARE * size)
    centres = X[rng.choice(len(X), n_blocks, replace=False)]
    near = NearestRows(estimator, X, size - n_distant, leaves_out=False)(centres)
    every = np.arange(len(X))
    distant = [rng.choice(np.setdiff1d(every, rows), n_distant, replace=False) for rows in near]
    return np.concatenate([near, np.array(distant, dtype=int)], axis=1)


class NearestRows:
    """Search of the nearest rows, by distance in units of the length scales of a fitted model.

    Rows must be distinct. With `leaves_out`, one that equals the row given is left out.
    """

    def __init__(self, model, rows, n_neighbors, leaves_out):
        rates = inverse_length_scales(model.kernel_, rows.shape[1])
        self._rates = np.ones(rows.shape[1]) if rates is None else rates
        # Differences of large numbers would lose digits.
        self._centre = rows.mean(axis=0)
        self._leaves_out = leaves_out
        self._rows = rows if leaves_out else None
        self._n = min(n_neighbors, len(rows) - leaves_out)
        self._search = NearestNeighbors().fit(self._scaled(rows))

    def __call__(self, X):
        """Return the indices (n, k) of the nearest rows."""
        n_found = self._n + self._leaves_out
        index = self._search.kneighbors(self._scaled(X), n_found, return_distance=False)
        if not self._leaves_out:
            return index
        is_same = (self._rows[index] == X[:, None]).all(axis=2)
        # The others in order, and the farthest one dropped where none is the same.
        order = np.argsort(is_same, axis=1, kind="stable")
        return np.take_along_axis(index, order, axis=1)[:, : self._n]

    def _scaled(self, X):
        return (X - self._centre) * self._rates


def _merged(X, sites):
    """Return the merged rows of X (N, D), in memory, and the sites of each function at them.

    Sites at equal rows refer to the same value of f, so their precisions and shifts add up.
    """
    merged = merge_rows(X[:], np.ones(len(X)))
    return merged.X, [
        site._replace(precision=merged.total(site.precision), shift=merged.total(site.shift))
        for site in sites
    ]
