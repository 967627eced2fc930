"""Several classes by a binary model for each of them against all others."""

from copy import deepcopy

from joblib import effective_n_jobs
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from sparsegpc._rows import available_threads, shared_threads, single_threaded_blas


def fit_one_vs_rest(template, rows, codes, seeds, *, previous, n_jobs):
    """Return a fitted binary estimator for each class, and the warnings that they gave.

    Parameters
    ----------
    template : SparseGPClassifier
        With the parameters of all of them; its method ``_fit_classes(rows, codes)`` fits.
    rows : LabelledRows
    codes : ndarray of int of shape (N,)
    seeds : ndarray of int of shape (C,)
    previous : list of SparseGPClassifier or None
        Fitted ones to start from.
    n_jobs : int or None
        As in joblib.

    Returns
    -------
    estimators : list of SparseGPClassifier
    told : list of list of (category, message)
    """
    n_threads = max(1, available_threads() // min(effective_n_jobs(n_jobs), len(seeds)))
    tasks = []
    for k, seed in enumerate(seeds):
        estimator = clone(template) if previous is None else deepcopy(previous[k])
        # Clones, so that no two of them share what a fit may change.
        parameters = clone(template).get_params(deep=False)
        parameters.update(class_weight=None, n_jobs=None, random_state=int(seed))
        estimator.set_params(**parameters)
        tasks.append(delayed(_fit_one)(estimator, rows, codes == k, n_threads))
    estimators, told = zip(*Parallel(n_jobs=n_jobs)(tasks), strict=True)
    return list(estimators), list(told)


def _fit_one(estimator, rows, is_class, n_threads):
    # In another process the caller's limit of BLAS does not hold.
    with shared_threads(n_threads), single_threaded_blas():
        return estimator, estimator._fit_classes(rows, is_class.astype(int))


def normalised(log_proba):
    """Return logarithms of probabilities that sum to one in each row of (N, C)."""
    return log_proba - logsumexp(log_proba, axis=1, keepdims=True)
