"""Concurrent fits, which share the threads and the memory that a single fit may use."""

import numbers

from joblib import effective_n_jobs
from sklearn import config_context, get_config
from sklearn.utils._param_validation import Interval
from sklearn.utils.parallel import Parallel, delayed

from sparsegpc._core.rows.threads import available_threads, shared_threads

# What the parameter `n_jobs` may be.
N_JOBS = [
    Interval(numbers.Integral, 1, None, closed="left"),
    Interval(numbers.Integral, None, -1, closed="right"),
    None,
]


def fit_concurrently(fit, jobs, n_jobs):
    """Return a list with ``fit(*job)`` for each job, with joblib's `n_jobs`."""
    if n_jobs is not None:
        # joblib would start more processes than there are jobs, or fail to start so many.
        n_jobs = min(effective_n_jobs(n_jobs), len(jobs))
    n_at_once = min(effective_n_jobs(n_jobs), len(jobs))
    n_threads = max(1, available_threads() // n_at_once)
    memory = get_config()["working_memory"] / n_at_once
    calls = (delayed(_fit_within)(n_threads, memory, fit, job) for job in jobs)
    return Parallel(n_jobs=n_jobs)(calls)


def _fit_within(n_threads, memory, fit, job):
    with shared_threads(n_threads), config_context(working_memory=memory):
        return fit(*job)
