"""Classification into several classes by one binary model for each class against the rest."""

from copy import copy, deepcopy

import numpy as np
from scipy.special import logsumexp
from sklearn.base import clone

from sparsegpc._core.rows.threads import single_threaded_blas
from sparsegpc._estimators.concurrent_fits import fit_concurrently
from sparsegpc._estimators.messages.callbacks import class_task
from sparsegpc._estimators.messages.progress import evaluation_progress


def fit_one_vs_rest(template, rows, labels, seeds, *, previous, n_jobs, context=None):
    """Return a fitted binary estimator for each class, and its warnings.

    Parameters
    ----------
    template : SparseGPClassifier
        Its parameters are those of all estimators; its method ``_fit_classes(rows, progress)``
        fits.
    rows : PresentRows
    labels : ndarray of shape (C,)
        Labels of the classes.
    seeds : ndarray of int of shape (C,)
    previous : list of SparseGPClassifier or None
        Fitted estimators to start from.
    n_jobs : int or None
        As in joblib.
    context : sklearn.callback.CallbackContext or None
        Context of the fit of all classes.

    Returns
    -------
    estimators : list of SparseGPClassifier
    warnings_by_class : list of list of FitWarning
    """
    # The models share the callback, as it may be impossible to copy.
    callback, template = template.callback, copy(template).set_params(callback=None)
    # scikit-learn's callbacks are called through `context`.
    vars(template).pop("_skl_callbacks", None)
    names = getattr(template, "feature_names_in_", None)
    jobs = []
    for k, (label, seed) in enumerate(zip(labels, seeds, strict=True)):
        estimator = clone(template) if previous is None else deepcopy(previous[k])
        # Clones, so that the estimators share no object that a fit may change.
        parameters = clone(template).get_params(deep=False)
        parameters.update(class_weight=None, n_jobs=None, random_state=int(seed), callback=callback)
        # All models predict from the same columns.
        parameters.update(log_transform=False)
        estimator.set_params(**parameters)
        if names is not None:
            estimator.feature_names_in_ = names
        class_context = None
        if context is not None:
            class_context = context.subcontext(f"class {label} against the rest", max_subtasks=None)
        class_rows = rows._replace(y=(rows.y == k).astype(int))
        jobs.append((estimator, class_rows, class_context, label))
    fits = fit_concurrently(_fit_one, jobs, n_jobs)
    estimators, warnings_by_class = zip(*fits, strict=True)
    # Without the callback, models can be saved even if the callback cannot.
    for estimator in estimators:
        estimator.callback = None
    return list(estimators), list(warnings_by_class)


def _fit_one(estimator, rows, context, label):
    progress = evaluation_progress(estimator, context, label)
    # The caller's limit on BLAS threads does not apply in another process.
    with single_threaded_blas(), class_task(estimator, context):
        return estimator, estimator._fit_classes(rows, progress)


class OneVsRestLikelihood:
    """Likelihood of C classes: normalised probabilities of each class against the rest.

    Parameters
    ----------
    likelihoods : list of LabelLikelihood
        Binary likelihoods, one for each class against the rest.
    """

    def __init__(self, likelihoods):
        self._likelihoods = likelihoods

    def log_probabilities(self, mean, variance):
        """Return log probabilities (N, C), see `LabelLikelihood.log_probabilities`."""
        parts = [
            likelihood.log_probabilities(mean[k : k + 1], variance[k : k + 1])[:, 1]
            for k, likelihood in enumerate(self._likelihoods)
        ]
        log_proba = np.stack(parts, axis=1)
        return log_proba - logsumexp(log_proba, axis=1, keepdims=True)

    def probabilities(self, f):
        """Return probabilities (N, C), see `LabelLikelihood.probabilities`."""
        parts = [
            likelihood.probabilities(f[k : k + 1])[:, 1]
            for k, likelihood in enumerate(self._likelihoods)
        ]
        proba = np.stack(parts, axis=1)
        # If all probabilities of a row underflow, use their logarithms, which do not.
        lost = proba.sum(axis=1) == 0.0
        if lost.any():
            proba[lost] = np.exp(self.log_probabilities(f[:, lost], np.zeros((len(f), lost.sum()))))
        return proba / proba.sum(axis=1, keepdims=True)
