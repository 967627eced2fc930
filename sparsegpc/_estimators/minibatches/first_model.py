"""Start values of the hyperparameters, learned from few rows without minibatches."""

from typing import NamedTuple

from sklearn.gaussian_process.kernels import Kernel

from sparsegpc._core.learning.faster_functions import fit_faster
from sparsegpc._core.learning.fit import fit
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.learning.runs import FitSettings, StartOptions
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import PivotedSelector
from sparsegpc._estimators.improvements.missed_functions import missed_function_starts
from sparsegpc._estimators.kernels.hyperparameters import Hyperparameters
from sparsegpc._estimators.kernels.initialization import (
    shorter_lengths,
    weak_prior,
)
from sparsegpc._estimators.kernels.named_kernels import KernelChoice
from sparsegpc._estimators.kernels.period_starts import function_starts
from sparsegpc._estimators.kernels.spread import Spread

# Points and steps of this fit, which takes a second or two.
START_POINTS, START_ITERATIONS = 200, 30


class FirstModel(NamedTuple):
    """A `SparseModel` of few rows, from which start values are learned.

    ``kernel`` is scikit-learn's kernel of f; ``hyperparameters`` are its `Hyperparameters`,
    followed by those of the likelihood; ``spread`` holds the distances of the rows; ``choice`` is
    what the parameters say of the kernel.
    """

    kernel: Kernel
    hyperparameters: Hyperparameters
    model: SparseModel
    spread: Spread
    choice: KernelChoice


def learn_theta(first, n_inducing):
    """Return the parameters learned from a `FirstModel`, for a model of `n_inducing` points."""
    hyperparameters, spread = first.hyperparameters, first.spread
    starts = StartOptions(function_starts(first)[0])
    selector = PivotedSelector(argmax, min(n_inducing, START_POINTS))
    settings = FitSettings(
        bounds=hyperparameters.bounds,
        max_iter=START_ITERATIONS,
        max_reselections=1,
        progress=Progress(),
        weak_prior=weak_prior(hyperparameters, spread),
        shorter_lengths=shorter_lengths(hyperparameters, spread),
    )
    result = fit(first.model, starts, selector, settings)
    of_column, others = missed_function_starts(first, result.best, may_be_single=True)
    if of_column or others:
        found = [*of_column, *others]
        result = fit_faster(first.model, result, found, selector, settings)
    return result.best.theta
