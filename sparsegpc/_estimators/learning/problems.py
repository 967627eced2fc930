"""The problems among which a fit chooses: one for each kernel and transform of the columns."""

from sparsegpc._core.models.evaluation import Counts
from sparsegpc._estimators.kernels.sklearn_kernels import NO_WHITE_NOISE, adapt_kernel
from sparsegpc._estimators.kernels.spread import measure_spread
from sparsegpc._estimators.learning.problem import Problem, with_likelihood


class Problems:
    """Base of the problems of an estimator's data.

    All of them share the counts and the record of evaluations, and those with the same transform of
    the columns share the merged rows.

    Parameters
    ----------
    estimator : BaseSparseGP
    data : PresentRows or Targets
    places : ndarray of int of shape (N,)
        The indices of these rows among the user's.
    progress : Progress
    """

    def __init__(self, estimator, data, places, progress):
        self._estimator, self._data = estimator, data
        self._places, self._progress = places, progress
        self._counts, self._rows = Counts(), {}

    def _merged(self, data, transform):
        """Return the merged `UniqueRows` of data that have a transform, or None."""
        raise NotImplementedError

    def _rows_with(self, transform):
        """Return the data, the merged rows and their `Spread`, with a transform, or None."""
        if transform not in self._rows:
            data = self._data
            if transform is not None:
                data = data._replace(X=transform(data.X))
            merged = self._merged(data, transform)
            self._rows[transform] = data, merged, measure_spread(merged.X, merged.weight)
        return self._rows[transform]

    def _problem(self, choice, **parts):
        """Return the `Problem` for a `KernelChoice`, given the parts that are not shared."""
        return Problem(
            places=self._places,
            progress=self._progress,
            transform=choice.transform,
            untransformed_X=self._data.X,
            **parts,
        )


class LikelihoodProblems(Problems):
    """The `Problem` of `PresentRows` and the likelihood of an estimator for any `KernelChoice`."""

    def _merged(self, data, transform):
        return self._estimator._merged(data)

    def problem(self, choice):
        """Return the `Problem` for a `KernelChoice`."""
        estimator = self._estimator
        data, rows, spread = self._rows_with(choice.transform)
        kernel = choice.resolve(spread)
        parameters = adapt_kernel(kernel, estimator.n_features_in_, refuse_white=NO_WHITE_NOISE)
        options = {"prior": choice.prior(parameters, spread), "counts": self._counts}
        model = estimator._model(parameters.kernel, data, rows, **options)
        parameters = with_likelihood(parameters, model)
        return self._problem(
            choice, rows=rows, spread=spread, kernel=kernel, parameters=parameters, model=model
        )
