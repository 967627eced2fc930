"""Tasks for scikit-learn's own callbacks, which exist since scikit-learn 1.9.

Each fit is a task, and each of its evaluations of the bound or epochs a subtask. With one model per
class, the fit has a subtask for each class, which contains the evaluations.
"""

from contextlib import contextmanager

import numpy as np

from sparsegpc._estimators.base_estimator import all_or_nothing

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:
    # Before scikit-learn 1.9.
    CALLBACK_SUPPORT = ()
else:
    CALLBACK_SUPPORT = (CallbackSupportMixin,)


@contextmanager
def fit_task(estimator, X, y, sample_weight=None, n_subtasks=None):
    """Report the beginning and the end of a fit, and restore the estimator if the fit fails.

    X, y and sample_weight are the user's arguments; `n_subtasks` is None if unknown. Yields a
    `sklearn.callback.CallbackContext`, or None without callbacks.
    """
    context = None
    # scikit-learn removes the context from the estimator after the fit, even if it fails.
    if hasattr(estimator, "_init_callback_context"):
        context = estimator._init_callback_context(max_subtasks=n_subtasks)
    with all_or_nothing(estimator):
        if context is None or not hasattr(estimator, "_skl_callbacks"):
            yield None
            return
        # scikit-learn's scorers need arrays of weights; a common weight does not change a score.
        metadata = {"sample_weight": sample_weight} if np.ndim(sample_weight) else None
        data = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        context.call_on_fit_task_begin(**data)
        yield context
        # The estimator is fitted by now, so callbacks can use it directly.
        context.call_on_fit_task_end(**data, reconstruction_attributes={})


@contextmanager
def class_task(estimator, context):
    """Report the beginning and the end of the fit of one class, unless `context` is None."""
    if context is not None:
        context.call_on_fit_task_begin(estimator=estimator)
    yield
    if context is not None:
        context.call_on_fit_task_end(estimator=estimator)


def report_step(estimator, context, name):
    """Report a step, a task without subtasks; return whether a callback asks to stop."""
    step = context.subcontext(task_name=name)
    step.call_on_fit_task_begin(estimator=estimator)
    return step.call_on_fit_task_end(estimator=estimator)
