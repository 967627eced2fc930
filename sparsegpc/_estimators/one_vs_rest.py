"""Several classes by a binary model for each of them against all others."""

from contextlib import contextmanager, nullcontext
from copy import copy, deepcopy
from threading import Condition, current_thread

import numpy as np
from joblib import effective_n_jobs
from scipy.special import logsumexp
from sklearn import config_context, get_config
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from sparsegpc._core.rows.threads import available_threads, shared_threads, single_threaded_blas
from sparsegpc._estimators.messages.progress import watch_evaluations

# Seconds between looks at whether others are still at work.
PATIENCE = 0.1


class _OthersEnded(Exception):
    """Leave a job whose result nobody waits for any more."""


class _Together:
    """Jobs that end together: where one fails, or all are interrupted, no thread works on.

    Jobs in other processes are joblib's to end: what is sent there knows of nobody else.
    """

    def __init__(self):
        self._changed, self._threads, self._ended = Condition(), set(), False

    def __reduce__(self):
        return _Together, ()

    @contextmanager
    def job(self):
        """Be at work within this context, which does not begin after the end."""
        self._threads.add(current_thread())
        try:
            # Now that `end` would wait for this thread.
            self.check()
            yield
        finally:
            with self._changed:
                self._threads.discard(current_thread())
                self._changed.notify_all()

    def check(self):
        """Raise if there is nothing to work for."""
        if self._ended:
            raise _OthersEnded

    def end(self):
        """Let all jobs end at their next `check`, and wait for those in other threads."""
        self._ended = True
        with self._changed:
            while any(t.is_alive() for t in self._threads - {current_thread()}):
                self._changed.wait(PATIENCE)


def fit_one_vs_rest(template, rows, labels, seeds, *, previous, n_jobs, tasks=None):
    """Return a fitted binary estimator for each class, and the warnings that they gave.

    Parameters
    ----------
    template : SparseGPClassifier
        With the parameters of all of them; its method ``_fit_classes(rows, progress)`` fits.
    rows : PresentRows
    labels : ndarray of shape (C,)
        Of the classes, as users know them.
    seeds : ndarray of int of shape (C,)
    previous : list of SparseGPClassifier or None
        Fitted ones to start from.
    n_jobs : int or None
        As in joblib.
    tasks : Tasks or None
        Of scikit-learn's callbacks, which become those of all classes.

    Returns
    -------
    estimators : list of SparseGPClassifier
    told : list of list of Warned
    """
    if n_jobs is not None:
        # joblib would start as many processes, or fail at that.
        n_jobs = min(effective_n_jobs(n_jobs), len(seeds))
    n_at_once = min(effective_n_jobs(n_jobs), len(seeds))
    n_threads = max(1, available_threads() // n_at_once)
    # All of them together keep what one model may.
    memory = get_config()["working_memory"] / n_at_once
    # A callback is shared by all of them: what it holds need not be possible to copy.
    callback, template = template.callback, copy(template).set_params(callback=None)
    # These are told of the tasks below.
    vars(template).pop("_skl_callbacks", None)
    jobs, together = [], _Together()
    for k, (label, seed) in enumerate(zip(labels, seeds, strict=True)):
        estimator = clone(template) if previous is None else deepcopy(previous[k])
        # Clones, so that no two of them share what a fit may change.
        parameters = clone(template).get_params(deep=False)
        parameters.update(class_weight=None, n_jobs=None, random_state=int(seed), callback=callback)
        estimator.set_params(**parameters)
        part = None
        if tasks is not None:
            part = tasks.delegate(estimator, f"class {label} against the rest")
        of_class = rows._replace(y=(rows.y == k).astype(int))
        own = (estimator, of_class, n_threads, memory, part, label, together)
        jobs.append(delayed(_fit_one)(*own))
    try:
        estimators, told = zip(*Parallel(n_jobs=n_jobs)(jobs), strict=True)
    except BaseException:
        together.end()
        raise
    # Or a model could not be saved whose own callback was set to None.
    for estimator in estimators:
        estimator.callback = None
    return list(estimators), list(told)


def _fit_one(estimator, rows, n_threads, memory, tasks, label, together):
    progress = watch_evaluations(estimator, tasks, label, together.check)
    at_work = nullcontext() if tasks is None else tasks.work()
    # In another process the caller's limit of BLAS does not hold.
    limits = shared_threads(n_threads), config_context(working_memory=memory)
    with together.job(), limits[0], limits[1], single_threaded_blas(), at_work:
        return estimator, estimator._fit_classes(rows, progress)


class OneVsRestLink:
    """Probabilities of C classes: those of each against the rest, normalised.

    Parameters
    ----------
    likelihoods : list of LabelLikelihood
        Of two classes, one for each class against the rest.
    """

    def __init__(self, likelihoods):
        self._likelihoods = likelihoods

    def log_probabilities(self, mean, variance):
        """Return what `LabelLikelihood.log_probabilities` does, for a function of each class."""
        parts = [
            likelihood.log_probabilities(mean[k : k + 1], variance[k : k + 1])[:, 1]
            for k, likelihood in enumerate(self._likelihoods)
        ]
        log_proba = np.stack(parts, axis=1)
        return log_proba - logsumexp(log_proba, axis=1, keepdims=True)

    def probabilities(self, f):
        """Return what `LabelLikelihood.probabilities` does, for a function of each class."""
        parts = [
            likelihood.probabilities(f[k : k + 1])[:, 1]
            for k, likelihood in enumerate(self._likelihoods)
        ]
        proba = np.stack(parts, axis=1)
        # Where all of them underflow their logarithms do not.
        lost = proba.sum(axis=1) == 0.0
        if lost.any():
            proba[lost] = np.exp(self.log_probabilities(f[:, lost], np.zeros((len(f), lost.sum()))))
        return proba / proba.sum(axis=1, keepdims=True)
