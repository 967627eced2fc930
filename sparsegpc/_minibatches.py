"""What the estimators that learn from minibatches share: parameters, and where they begin."""

import numbers

from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils._param_validation import Interval, StrOptions

from sparsegpc import _inference
from sparsegpc._adapters import start_values
from sparsegpc._choices import PivotedChoice
from sparsegpc._gaussian import GaussianNoise
from sparsegpc._merging import merge_rows
from sparsegpc._model import SparseModel
from sparsegpc._selector import METHODS, check_inducing_points, make_choice
from sparsegpc._settings import row_options

# Rows from which hyperparameters start, and their number of points.
START_ROWS, START_POINTS, START_ITERATIONS = 2000, 100, 30
# Inducing points are chosen among so many rows for each of them.
ROWS_PER_POINT = 20

CONSTRAINTS = {
    "kernel": [Kernel, None],
    "n_inducing": [Interval(numbers.Integral, 1, None, closed="left")],
    "selector": [StrOptions(set(METHODS)), "array-like"],
    "fit_prior_mean": ["boolean"],
    "batch_size": [Interval(numbers.Integral, 1, None, closed="left")],
    "n_epochs": [Interval(numbers.Integral, 0, None, closed="left")],
    "learning_rate": [Interval(numbers.Real, 0, 1, closed="both")],
    "memory": [Interval(numbers.Integral, 1, None, closed="left"), None],
    "optimize_inducing": ["boolean"],
    "random_state": ["random_state"],
}


def n_first_rows(n_inducing):
    """Return how many rows, taken at random, tell where to begin."""
    return max(START_ROWS, ROWS_PER_POINT * n_inducing)


def learn_theta(model, parameters, spread, n_inducing):
    """Return the parameters that a `SparseModel` of some rows would learn by itself.

    Parameters
    ----------
    model : SparseModel
        Of at most `START_ROWS` rows.
    parameters : AdaptedKernel
        With those of the likelihood behind the kernel's.
    spread : Spread
        Of the rows.
    n_inducing : int
        How many points there will be for all rows.
    """
    found = _inference.fit(
        model,
        start_values(parameters, spread),
        parameters.bounds,
        PivotedChoice("argmax", min(n_inducing, START_POINTS)),
        max_iter=START_ITERATIONS,
        max_reselections=1,
    )
    return found.best.theta


def choose_points(kernel, theta, X, weight, *, selector, n_inducing, slack, rng):
    """Return the inducing points that `selector` takes among shuffled rows, or is.

    Parameters
    ----------
    kernel : FreeKernel
    theta : ndarray of shape (P,)
        The kernel's parameters.
    X : ndarray of shape (N, D)
    weight : ndarray of shape (N,)
    selector : str or array-like of shape (M, D)
    n_inducing : int
    slack : str
    rng : numpy.random.RandomState
    """
    if not isinstance(selector, str):
        return check_inducing_points(selector, X.shape[1])
    n_rows = n_first_rows(n_inducing)
    rows = merge_rows(X[:n_rows], weight[:n_rows])
    choose = make_choice(selector, n_inducing, 0.0, rows.X, rows.weight, rng)
    # The choice sees kernel and rows of a model; it needs no targets.
    model = SparseModel(
        kernel, GaussianNoise(0), rows.X, [], rows.weight, slack=slack, **row_options()
    )
    return choose(model, theta, rows.weight).Z
