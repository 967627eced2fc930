"""The candidates of a search: their parameters, fits and lower bounds."""

import warnings
from time import perf_counter
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import _num_samples

from sparsegpc._estimators.base_sparse_gp import BaseSparseGP
from sparsegpc._estimators.concurrent_fits import fit_concurrently
from sparsegpc._estimators.messages.reporting import print_line
from sparsegpc._estimators.messages.user_warnings import warn_user
from sparsegpc._estimators.meta_estimators.delegation import last_step
from sparsegpc._estimators.minibatches.base import BaseMinibatches

# Bounds of the same model differ by less than this, in nats.
SAME_BOUND = 1e-6
# Where scikit-learn's transformers keep the arguments of set_output.
OUTPUT = "_sklearn_output_config"


class CandidateFit(NamedTuple):
    """The fit of a candidate.

    ``bound`` is the lower bound plus the log prior, in nats; ``values`` says whose density is
    bounded, and ``without_copies`` whether the fit left out copies of rows; ``estimator`` is None
    unless it is kept.
    """

    bound: float
    seconds: float
    values: str = ""
    without_copies: bool = False
    estimator: BaseEstimator | None = None
    error: Exception | None = None
    warnings: tuple = ()


class Candidates:
    """An estimator with each combination of parameters of a grid.

    The grid is that of `sklearn.model_selection.ParameterGrid`. With joblib's `n_jobs`, several are
    fitted at once. If `verbose`, each prints a line after its fit. For ``results`` see
    `BoundSearch.results_`.
    """

    def __init__(self, estimator, param_grid, n_jobs, verbose):
        grid = list(ParameterGrid(param_grid))
        if not grid:
            raise ValueError(
                f"param_grid must hold a candidate or more, got {param_grid!r}: give a dict, which "
                "may be empty"
            )
        self._estimators = [_candidate(estimator, parameters) for parameters in grid]
        self._n_jobs, self._verbose = n_jobs, verbose
        self.results = {
            "params": grid,
            "screening_bound": np.full(len(grid), np.nan),
            "bound": np.full(len(grid), np.nan),
            "screening_seconds": np.zeros(len(grid)),
            "seconds": np.zeros(len(grid)),
            "error": [""] * len(grid),
        }

    def __len__(self):
        return len(self._estimators)

    def name(self, k):
        """Return the number of a candidate and its parameters, for a message."""
        parameters = self.results["params"][k].items()
        text = ", ".join(f"{key}={value!r}" for key, value in parameters)
        return f"candidate {k} ({text})" if text else f"candidate {k}"

    def finalists(self, n_finalists):
        """Return the indices of those with the best bounds for the screening rows, in order.

        Of those with the same bound, which have learned the same model, only the first one counts.
        """
        lower_bounds = self.results["screening_bound"]
        # Failures, which are nan, come last.
        order = np.argsort(-lower_bounds, kind="stable")[: np.isfinite(lower_bounds).sum()]
        is_new = -np.diff(lower_bounds[order], prepend=np.inf) > SAME_BOUND
        return sorted(order[is_new][:n_finalists])

    def fit(self, indices, data, stage=""):
        """Fit candidates to the arguments `data`, and return each `CandidateFit`.

        In the ``stage`` "screening_" the fitted estimators are not kept.
        """
        jobs = [
            (clone(self._estimators[k]), data, not stage, self.name(k) if self._verbose else None)
            for k in indices
        ]
        fits = fit_concurrently(_fit_candidate, jobs, self._n_jobs)
        errors = [fit.error for fit in fits if fit.error is not None]
        if len(errors) == len(fits):
            of_all = "" if len(fits) == len(self) else f"the best {len(fits)} of {len(self)} "
            errors[0].add_note(f"All {of_all}candidates of BoundSearch failed, this one first.")
            raise errors[0]
        _check_comparable(fits)
        _warn_of_copies(fits)
        for k, fit in zip(indices, fits, strict=True):
            self.results[f"{stage}bound"][k] = fit.bound
            self.results[f"{stage}seconds"][k] = fit.seconds
            if fit.error is not None:
                self.results["error"][k] = f"{type(fit.error).__name__}: {fit.error}"
        return fits

    def warn_of_failures(self):
        """Warn if some candidates have failed."""
        errors = self.results["error"]
        failed = [k for k, error in enumerate(errors) if error]
        if failed:
            warn_user(
                f"{len(failed)} of {len(errors)} candidates failed, the first, number {failed[0]}, "
                f"with {errors[failed[0]]}: see results_['error']",
                FitFailedWarning,
            )


def _candidate(estimator, parameters):
    """Return an unfitted clone with these parameters, after a check of its last step."""
    candidate = clone(estimator).set_params(**clone(parameters, safe=False))
    last = last_step(candidate)
    if not isinstance(last, (BaseSparseGP, BaseMinibatches)):
        raise TypeError(
            "estimator must be an estimator of sparsegpc, such as SparseGPRegressor, or a Pipeline "
            f"that ends in one, as only they have comparable bounds, got {last!r}"
        )
    # A step of the grid that replaces one for which the user has called set_output does the same.
    output = isinstance(estimator, Pipeline) and getattr(estimator[0], OUTPUT, None)
    return candidate.set_output(**output) if output else candidate


def _check_comparable(fits):
    """Raise ValueError if the bounds are bounds on a density of different values."""
    values = {fit.values for fit in fits if fit.error is None}
    if len(values) > 1:
        raise ValueError(
            "the bounds of the candidates must be bounds on a density of the same values to be "
            f"compared, got bounds for {' and for '.join(sorted(values))}: search among the "
            "candidates of one kind, and compare the kinds by cross-validation"
        )


def _warn_of_copies(fits):
    """Warn if some bounds count copies of rows, and others do not."""
    if len({fit.without_copies for fit in fits if fit.error is None}) > 1:
        warn_user(
            "some candidates left out copies of rows, which hid the noise, and others counted "
            "them, so their bounds are for different rows: leave out copies of records before the "
            "search"
        )


def _fit_candidate(candidate, data, keep, name):
    """Return the `CandidateFit` of `_fitted`; print a line about it unless `name` is None."""
    fit = _fitted(candidate, data, keep)
    if name is not None:
        outcome = f"bound {fit.bound:.2f}" if fit.error is None else f"failed ({fit.error})"
        rows = f"{_num_samples(data['X'])} rows"
        print_line("BoundSearch", f"{name}: {outcome}, {rows}, {fit.seconds:.1f} s")
    return fit


def _fitted(candidate, data, keep):
    """Fit a candidate to the arguments `data`, and return its `CandidateFit`."""
    start = perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            candidate.fit(**data)
        except Exception as error:
            return CandidateFit(np.nan, perf_counter() - start, error=error)
    model = last_step(candidate)
    return CandidateFit(
        bound=float(model.lower_bound_ + model.log_prior_),
        seconds=perf_counter() - start,
        values=getattr(model, "_bounded_values", "targets"),
        without_copies=getattr(model, "_without_copies", False),
        estimator=candidate if keep else None,
        warnings=tuple(warning.message for warning in caught) if keep else (),
    )
