"""A learning problem: rows, kernel and likelihood, and the estimator with its parameters."""

from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import Kernel

from sparsegpc._core.learning.all_rows import learning_part
from sparsegpc._core.learning.default_points import DefaultPoints
from sparsegpc._core.learning.runs import FitSettings
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.merged_rows import MergedRows
from sparsegpc._core.rows.sources import RowSource
from sparsegpc._estimators.kernels.hyperparameters import Hyperparameters
from sparsegpc._estimators.kernels.initialization import shorter_lengths, weak_prior
from sparsegpc._estimators.kernels.named_kernels import KernelChoice
from sparsegpc._estimators.kernels.spread import Spread
from sparsegpc._estimators.learning.point_selection import first_points
from sparsegpc._estimators.messages.reporting import print_line


class ProblemRows(NamedTuple):
    """The rows of a problem, and which of the user's rows they are.

    ``merged``, ``spread``
        The `MergedRows`, and the distances between them.
    ``places``, ``untransformed_X``
        The indices (N,) of the user's rows from which the rows are merged, and these rows (N, D)
        without the transform of the columns.
    """

    merged: MergedRows
    spread: Spread
    places: np.ndarray
    untransformed_X: np.ndarray | RowSource

    def user_indices(self, points):
        """Return the indices (M,) of `InducingPoints` among the user's rows, or None."""
        return None if points.indices is None else self.places[self.merged.first[points.indices]]

    def user_columns(self, points, transform):
        """Return the locations (M, D) of `InducingPoints` in the user's columns.

        The columns of the merged rows have a `transform`, or None.
        """
        if transform is None:
            return points.Z
        if points.indices is None:
            return transform.inverse(points.Z)
        return self.untransformed_X[self.merged.first[points.indices]]


class Problem(NamedTuple):
    """The input of a search.

    ``builder``
        The `ProblemBuilder` of this problem and of those with other kernels. What they share is in
        the builder: a random generator, the record of evaluations and a regressor's `NoisePlan`.
    ``estimator``
        The estimator with the parameters of the search; in a comparison, a simplified copy.
    ``choice``, ``kernel``
        The `KernelChoice`, without "auto", and scikit-learn's kernel of f that results from it.
    ``rows``
        The `ProblemRows`.
    ``hyperparameters``
        The `Hyperparameters` of the kernel, followed by those of the likelihood.
    ``model``, ``whole``
        The core's model from which to learn, of all rows or a part of them, and that of all rows,
        for the posterior in the end.
    """

    builder: object
    estimator: BaseEstimator
    choice: KernelChoice
    kernel: Kernel
    rows: ProblemRows
    hyperparameters: Hyperparameters
    model: SparseModel
    whole: SparseModel

    @property
    def rng(self):
        """The random generator."""
        return self.builder.rng

    @property
    def progress(self):
        """The `Progress` that records the evaluations."""
        return self.builder.progress

    @property
    def plan(self):
        """The `NoisePlan` of a regressor, else None."""
        return self.builder.plan

    @property
    def spread(self):
        """The `Spread` of the rows."""
        return self.rows.spread

    def with_choice(self, **changes):
        """Return the problem with another kernel, given what changes in its `KernelChoice`."""
        return self.builder.build(self.choice._replace(**changes))

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
    def default_points(self):
        """The `DefaultPoints`, the numbers of points if the user leaves them open."""
        return DefaultPoints(self.model, self.learns_from_part)

    def print_line(self, text):
        """Print a line about the fit if the estimator is verbose."""
        if self.estimator.verbose:
            print_line(type(self.estimator).__name__, text, self.progress.label)

    def print_verdict(self, comparison, is_kept):
        """Print a line about a comparison, and whether what was tried is kept, if verbose."""
        self.print_line(f"{comparison}: {'kept' if is_kept else 'left out'}")

    def report(self, n_choices, n_points, bound):
        """Print a line about a choice of points if the estimator is verbose."""
        bound = bound + self.offset
        self.print_line(f"choice {n_choices}: {n_points} points, bound {bound:.4f}")
