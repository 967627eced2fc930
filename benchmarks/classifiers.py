"""The classifiers that the benchmarks compare, by name, and how they are measured."""

import time

import numpy as np
from gpflow_peer import GPflowSVGP, gpflow_is_installed
from kernel_settings import ONE_LENGTH_SCALE
from scores import all_scores
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression

from sparsegpc import SparseGPClassifier
from sparsegpc.likelihoods import NAMES as LIKELIHOODS

PEERS = ("full", "gpflow", "logistic", "boosting")
WITH_LENGTH_SCALE = ("full", "gpflow")
# The full model takes O(N^3) time: it is left out where there are more rows.
FULL_ROWS = 1500


def peer_names(n_train, n_classes, asked, starts):
    """Return the names of the peers that can be fitted, one for each start of a length scale.

    "gpflow" is two of them, with points that stay and that move.
    """
    names = []
    for peer in asked:
        kinds = ["gpflow fixed", "gpflow moved"] if peer == "gpflow" else [peer]
        if peer in WITH_LENGTH_SCALE:
            kinds = [f"{kind} l0={start}" for start in starts for kind in kinds]
        possible = {
            "full": n_train <= FULL_ROWS,
            "gpflow": n_classes == 2 and gpflow_is_installed(),
        }
        names += kinds if possible.get(peer, True) else []
    return names


def build(name, n_points, n_columns, seed, arguments, max_iter=500):
    """Return the classifier of that name; `max_iter` limits GPflow's L-BFGS-B."""
    kind, _, start = name.partition(" l0=")
    length_scale = np.sqrt(n_columns) if start == "sqrt" else 1.0
    if name in LIKELIHOODS:
        return SparseGPClassifier(
            likelihood=name,
            n_inducing=n_points,
            selector=arguments.selector,
            selection_tol=0.0,
            optimize_inducing=arguments.optimize_inducing,
            random_state=seed,
            **ONE_LENGTH_SCALE,
        )
    if kind == "full":
        kernel = ConstantKernel() * RBF(length_scale)
        return GaussianProcessClassifier(kernel, random_state=seed)
    if kind == "logistic":
        return LogisticRegression(max_iter=1000)
    if kind == "boosting":
        return HistGradientBoostingClassifier(random_state=seed)
    return GPflowSVGP(
        n_points,
        move_points=kind == "gpflow moved",
        length_scale=length_scale,
        max_iter=max_iter,
        max_seconds=arguments.peer_seconds,
        seed=seed,
    )


def passes(model):
    """Return how often the site solver went over the rows, per evaluation and function."""
    if not hasattr(model, "n_site_iterations_"):
        return np.nan
    n_functions = 1 if model.estimators_ else np.size(model.prior_mean_)
    return model.n_site_iterations_ / model.n_evaluations_ / n_functions


def measure(model, X_train, y_train, X_test, y_test):
    """Fit the model and return the figures of one split, by name."""
    start = time.process_time()
    model.fit(X_train, y_train)
    seconds = time.process_time() - start
    # A class without training rows has probability zero.
    proba = np.zeros((len(y_test), max(y_train.max(), y_test.max()) + 1))
    proba[:, model.classes_] = model.predict_proba(X_test)
    return {
        **all_scores(y_test, proba),
        "bound": getattr(model, "lower_bound_", np.nan),
        "seconds": seconds,
        "evaluations": getattr(model, "n_evaluations_", np.nan),
        "passes": passes(model),
    }
