"""What users are told while a model is learned: lines of text, their callback, scikit-learn's."""

from contextlib import contextmanager

from numpy.linalg import LinAlgError

from sparsegpc._core.learning.progress import Progress

# From this level of verbose on there is a line for each evaluation.
EVERY_EVALUATION = 2


class _FromCallback(Exception):
    """An error of a callback that learning would take for one of its own."""


@contextmanager
def errors_of_callbacks():
    """Let errors of callbacks through that were hidden from learning."""
    try:
        yield
    except _FromCallback as error:
        raised = error.__cause__
        # Its own cause stays, ours is not to be seen.
        raise raised from raised.__cause__


def say(estimator, text, label=None):
    """Print a line about an estimator: of all the package, here only."""
    of_class = "" if label is None else f"class {label}, "
    print(f"[{type(estimator).__name__}] {of_class}{text}")  # noqa: T201, asked for by verbose


class Listeners:
    """Those who are told of each step of a fit.

    Parameters
    ----------
    estimator : BaseEstimator
        With the parameters `verbose` and `callback`.
    tasks : Tasks or None
        Of scikit-learn's callbacks.
    describe : callable or None
        Returns the line of text of a `Step`; None prints nothing.
    check : callable or None
        Is called first; what it raises ends the fit before anybody is told.
    """

    def __init__(self, estimator, tasks=None, describe=None, check=None):
        self._estimator, self._tasks, self._describe = estimator, tasks, describe
        self._check = check

    def __call__(self, step):
        """Tell all of a step, and return whether one of them asks to stop."""
        if self._check is not None:
            self._check()
        if self._describe is not None:
            say(self._estimator, self._describe(step), step.label)
        try:
            told = self._tasks is not None and self._tell_tasks(step)
            callback = self._estimator.callback
            return bool(callback is not None and callback(step)) or told
        except LinAlgError as error:
            raise _FromCallback from error

    def _tell_tasks(self, step):
        raise NotImplementedError


class EpochListeners(Listeners):
    """Those who are told of each epoch."""

    def _tell_tasks(self, step):
        return self._tasks.done("epoch")


class EvaluationListeners(Listeners):
    """Those who are told of each evaluation of the bound, choice of points by choice."""

    _choice = _of_choice = None
    _n_left = 0

    def __init__(self, estimator, tasks=None, check=None):
        every = estimator.verbose >= EVERY_EVALUATION
        super().__init__(estimator, tasks, _describe_evaluation if every else None, check)

    def _tell_tasks(self, step):
        stop = False
        # A line search may evaluate more often than it steps: the rest is another task.
        if step.choice != self._choice or not self._n_left:
            stop = self._tasks.close()
            # Before the first step and at the end there is an evaluation, too.
            self._choice, self._n_left = step.choice, self._estimator.max_iter + 2
            self._of_choice = self._tasks.begin("choice of points", self._n_left)
        self._n_left -= 1
        return self._of_choice.done("evaluation") or stop


def _describe_evaluation(step):
    return (
        f"evaluation {step.iteration + 1}: {step.n_samples} rows, {step.n_inducing} points, bound "
        f"{step.lower_bound:.4f}, {step.seconds:.2f} s"
    )


def watch_epochs(estimator, n_epochs, tasks=None):
    """Return the `Progress` of a fit by epochs, after which sites of all rows are solved for."""

    def describe(step):
        k = step.iteration + 1
        when = f"epoch {k} of {n_epochs}" if k <= n_epochs else "all rows at the end"
        rows = f"bound {step.lower_bound:.4f} of {step.n_samples} rows"
        return f"{when}: {rows}, {step.seconds:.2f} s"

    return Progress(EpochListeners(estimator, tasks, describe if estimator.verbose else None))


def watch_calls(estimator):
    """Return the `Progress` of a call of `partial_fit`, which goes on from those before."""
    return Progress(past=getattr(estimator, "history_", None))


def watch_evaluations(estimator, tasks=None, label=None, check=None):
    """Return the `Progress` of a fit that evaluates the bound; `check` may raise to end it."""
    return Progress(EvaluationListeners(estimator, tasks, check), label)
