"""What a fit reports on its way: printed lines, and steps for the user's and other callbacks."""

from numpy.linalg import LinAlgError

from sparsegpc._core.learning.progress import Progress
from sparsegpc._estimators.messages.callbacks import report_step


def print_line(name, text, label=None):
    """Print a line about the fit of an estimator of this name, or of its model for a class."""
    prefix = "" if label is None else f"class {label}, "
    print(f"[{name}] {prefix}{text}")  # noqa: T201, asked for by verbose


def evaluation_progress(estimator, context=None, label=None):
    """Return the `Progress` of a fit whose steps are evaluations of the bound."""

    def describe(step):
        return (
            f"evaluation {step.iteration + 1}: {step.n_samples} rows, {step.n_inducing} points, "
            f"bound {step.lower_bound:.4f}, {step.seconds:.2f} s"
        )

    describe = describe if estimator.verbose >= 2 else None
    return _progress(estimator, "evaluation", describe, context, label)


def epoch_progress(estimator, n_epochs, context=None):
    """Return the `Progress` of a fit in epochs; a last step uses all rows."""

    def describe(step):
        k = step.iteration + 1
        name = f"epoch {k} of {n_epochs}" if k <= n_epochs else "all rows at the end"
        bound = f"bound {step.lower_bound:.4f} of {step.n_samples} rows"
        return f"{name}: {bound}, {step.seconds:.2f} s"

    return _progress(estimator, "epoch", describe if estimator.verbose else None, context)


def _progress(estimator, task_name, describe, context, label=None):
    def on_step(step):
        if describe is not None:
            print_line(type(estimator).__name__, describe(step), label)
        try:
            stop = context is not None and report_step(estimator, context, task_name)
            return bool(estimator.callback is not None and estimator.callback(step)) or stop
        except LinAlgError as error:
            # The search would treat a LinAlgError as a failed evaluation, and continue.
            raise RuntimeError(f"the callback raised a LinAlgError: {error}") from error

    return Progress(on_step, label)
