"""A learning problem: rows, kernel and likelihood, and the estimator with its parameters."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import Kernel

from sparsegpc._core.learning.all_rows import learning_part
from sparsegpc._core.learning.more_points import (
    COMPARISON_COST_ROWS,
    EXACT_COST_ROWS,
    FIRST_POINTS,
    FULL_COST_ROWS,
    NEARLY_ALL,
    PART_COST_ROWS,
    affordable_points,
    has_small_known_noise,
)
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.learning.single_start import FitSettings
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.merged_rows import MergedRows
from sparsegpc._core.rows.sources import RowSource
from sparsegpc._estimators.kernels.hyperparameters import Hyperparameters
from sparsegpc._estimators.kernels.initialization import shorter_lengths, weak_prior
from sparsegpc._estimators.kernels.named_kernels import KernelChoice
from sparsegpc._estimators.kernels.spread import Spread
from sparsegpc._estimators.learning.point_selection import first_points
from sparsegpc._estimators.messages.progress import print_line
from sparsegpc._estimators.noise.base import NoisePlan


class Problem(NamedTuple):
    """The input of a search.

    ``estimator``, ``rng``
        The estimator with the parameters of the search, and its random generator.
    ``choice``
        The `KernelChoice`, without "auto".
    ``rows``, ``spread``
        The `MergedRows`, and the distances between them.
    ``places``, ``untransformed_X``
        The indices (N,) of the user's rows from which the rows are merged, and these rows (N, D)
        without the transform of the choice.
    ``kernel``, ``hyperparameters``
        scikit-learn's kernel of f, and its `Hyperparameters`, followed by those of the likelihood.
    ``model``, ``whole``
        The core's model from which to learn, of all rows or a part of them, and that of all rows,
        for the posterior in the end.
    ``progress``
        The record of the evaluations.
    ``build``
        The function that has built the problem, given a `KernelChoice`.
    ``plan``
        The `NoisePlan` of a regressor.
    """

    estimator: BaseEstimator
    rng: np.random.RandomState
    choice: KernelChoice
    rows: MergedRows
    places: np.ndarray
    untransformed_X: np.ndarray | RowSource
    spread: Spread
    kernel: Kernel
    hyperparameters: Hyperparameters
    model: SparseModel
    whole: SparseModel
    progress: Progress
    build: Callable
    plan: NoisePlan | None = None

    def with_choice(self, **changes):
        """Return the problem with another kernel, given what changes in its `KernelChoice`."""
        return self.build(self.choice._replace(**changes))

    @property
    def offset(self):
        """The constant that converts the model's bound to the user's units by addition, in nats."""
        return self.progress.offset * self.model.total_weight

    @property
    def learns(self):
        """Whether hyperparameters are learned."""
        return self.estimator.optimizer is not None and len(self.hyperparameters.theta) > 0

    @property
    def moves_points(self):
        """Whether every fit moves its points."""
        is_demanded = self.estimator.optimize_inducing not in ("auto", False)
        return is_demanded and self.estimator.optimizer is not None

    @property
    def chooses_points(self):
        """Whether the number of points and their kind are left to the fit."""
        is_free = self.estimator.n_inducing is None and isinstance(self.estimator.selector, str)
        return is_free and not self.moves_points

    @property
    def seeks_number(self):
        """Whether a fit adds points until the certificate holds: ``n_inducing="auto"``."""
        return self.estimator.n_inducing == "auto"

    @property
    def learns_from_part(self):
        """Whether the model from which to learn leaves rows out."""
        return self.model is not self.whole

    def with_part(self):
        """Return the problem, with a part of the rows to learn from if there are very many.

        All rows remain if nothing is learned, if a certificate for them decides about the points,
        or if their number determines how uncertain the hyperparameters are.
        """
        is_averaged = getattr(self.estimator, "hyperparameters", None) == "average"
        if self.seeks_number or is_averaged or not self.learns:
            return self
        return self._replace(model=learning_part(self.whole, first_points(self.estimator)))

    @property
    def needed_gain(self):
        """What an addition to the kernel must gain in the objective, in nats: half of log N.

        This is the penalty of the Bayesian information criterion for one parameter. Of the N rows,
        copies that were merged count once: they tell nothing of how f varies.
        """
        return 0.5 * np.log(len(self.model.weight))

    @property
    def settings(self):
        """The `FitSettings` of a fit."""
        hyperparameters, spread = self.hyperparameters, self.spread
        return FitSettings(
            bounds=hyperparameters.bounds,
            max_iter=self.estimator.max_iter if self.learns or self.moves_points else 0,
            max_reselections=self.estimator.max_reselections,
            progress=self.progress,
            weak_prior=weak_prior(hyperparameters, spread),
            shorter_lengths=shorter_lengths(hyperparameters, spread),
            report=self.report,
        )

    @property
    def most_points(self):
        """The most points that a fit uses by default."""
        n_points = self._affordable(PART_COST_ROWS if self.learns_from_part else FULL_COST_ROWS)
        n_rows = len(self.model.weight)
        # A point at every row loses nothing.
        return max(n_points, n_rows) if n_points > NEARLY_ALL * n_rows else n_points

    @property
    def default_points(self):
        """The number of points with which learning begins by default.

        Variance that few points leave unexplained costs its ratio to the noise. If that is small
        and cannot grow, the best hyperparameters for too few points are far from those for enough.
        """
        if self.learns_from_part or not has_small_known_noise(self.model):
            return FIRST_POINTS
        return self._affordable(EXACT_COST_ROWS)

    @property
    def points_for_comparison(self):
        """The number of points with which the default kernel is compared with rougher ones."""
        return max(self.default_points, self._affordable(COMPARISON_COST_ROWS))

    def _affordable(self, cost_rows):
        return affordable_points(len(self.model.weight), self.model.n_functions, cost_rows)

    def check_points_may_move(self):
        """Raise NotImplementedError if the kernel has no derivatives w.r.t. the points."""
        kernel, X = self.hyperparameters.kernel, self.model.X
        _, pullback = kernel.evaluate(np.zeros(kernel.n_params), X[:1], X[:1])
        pullback(np.ones((1, 1)), wrt_Z=True)

    def print_line(self, text):
        """Print a line about the fit if the estimator is verbose."""
        if self.estimator.verbose:
            print_line(type(self.estimator).__name__, text, self.progress.label)

    def report(self, n_choices, n_points, bound):
        """Print a line about a choice of points if the estimator is verbose."""
        bound = bound + self.offset
        self.print_line(f"choice {n_choices}: {n_points} points, bound {bound:.4f}")

    def untransformed(self, points):
        """Return the locations of `InducingPoints` in the user's columns, shape (M, D)."""
        if self.choice.transform is None:
            return points.Z
        if points.indices is None:
            return self.choice.transform.inverse(points.Z)
        return self.untransformed_X[self.rows.first[points.indices]]
