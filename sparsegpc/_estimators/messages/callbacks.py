"""Callbacks of scikit-learn, which it has from 1.9 on: the tasks that a fit tells them of.

The interface is experimental there, so this is the one room that knows it. A fit is a task; its
subtasks are the choices of inducing points, and theirs the evaluations of the bound. With
minibatches its subtasks are the epochs; with one model for each class there is a task for each.
"""

from contextlib import contextmanager

import numpy as np

from sparsegpc._estimators.input.validation import all_or_nothing

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:
    # Before scikit-learn 1.9.
    CALLBACK_SUPPORT = ()
else:
    CALLBACK_SUPPORT = (CallbackSupportMixin,)


@contextmanager
def announced_fit(estimator, X, y, sample_weight=None, n_subtasks=None):
    """Tell the callbacks of an estimator of its fit, which is all or nothing.

    Parameters
    ----------
    estimator : BaseEstimator
    X, y, sample_weight : array-like, float or None
        As the user gave them.
    n_subtasks : int or None
        None where it is not known.

    Yields
    ------
    Tasks or None
        None where there are no callbacks, as before scikit-learn 1.9.
    """
    context = None
    # Before anything is put back after an error: scikit-learn reads off the estimator whom it has
    # to tell of the end.
    if hasattr(estimator, "_init_callback_context"):
        context = estimator._init_callback_context(max_subtasks=n_subtasks)
    with all_or_nothing(estimator):
        if context is None or not hasattr(estimator, "_skl_callbacks"):
            yield None
            return
        # No score depends on a weight that is one number, and scikit-learn's take none.
        metadata = {"sample_weight": sample_weight} if np.ndim(sample_weight) else None
        data = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        context.call_on_fit_task_begin(**data)
        tasks = Tasks(estimator, context)
        yield tasks
        tasks.close()
        # The estimator is fitted as it stands.
        context.call_on_fit_task_end(**data, reconstruction_attributes={})


class Tasks:
    """The subtasks of a task, of which there is at most one at a time that is not ended.

    Parameters
    ----------
    estimator : BaseEstimator
        As the hooks of callbacks take it.
    context : sklearn.callback.CallbackContext
        Of the task.
    """

    def __init__(self, estimator, context):
        self._estimator, self._context, self._open = estimator, context, None

    def begin(self, name, n_subtasks=None):
        """End the subtask before, begin another, and return its `Tasks`."""
        self.close()
        context = self._context.subcontext(task_name=name, max_subtasks=n_subtasks)
        context.call_on_fit_task_begin(estimator=self._estimator)
        self._open = Tasks(self._estimator, context)
        return self._open

    def done(self, name):
        """Tell of a subtask without any of its own; return whether a callback asks to stop."""
        context = self._context.subcontext(task_name=name)
        context.call_on_fit_task_begin(estimator=self._estimator)
        return context.call_on_fit_task_end(estimator=self._estimator)

    def close(self):
        """End the subtask that is open, and those within it; return whether to stop."""
        task, self._open = self._open, None
        if task is None:
            return False
        task.close()
        return task._context.call_on_fit_task_end(estimator=self._estimator)

    def delegate(self, estimator, name):
        """Return the `Tasks` of a subtask for another estimator to `work` at."""
        return Tasks(estimator, self._context.subcontext(task_name=name, max_subtasks=None))

    @contextmanager
    def work(self):
        """Begin the task itself, and end it with the block."""
        self._context.call_on_fit_task_begin(estimator=self._estimator)
        yield
        self.close()
        self._context.call_on_fit_task_end(estimator=self._estimator)
