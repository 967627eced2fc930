"""Whatever interrupts a fit leaves the estimator, the process and the user's data as they were.

What `tests.hardening.interruption` does at thousands of lines is done at some here.
"""

import os
import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF

from sparsegpc import GPNoise, SparseGPClassifier, SparseGPRegressor
from tests.hardening.interrupts import CASES, ERRORS, count_lines, interrupted, prepared
from tests.hardening.signals import interrupt, starve

FEW = {"classifier": 4, "noise process": 3, "threads": 3}
FEW |= {"warm start": 3, "stream of targets": 3, "selector": 3, "restarts": 3}
FEW |= {"neighbours": 3, "latent variables": 3}


@pytest.mark.parametrize(
    ("name", "fitted"), [("classifier", False), *((name, name != "threads") for name in FEW)]
)
def test_a_fit_is_all_or_nothing(name, fitted):
    case, rng = CASES[name], np.random.RandomState(3)
    with case.around():
        start = prepared(case, fitted)
        n_lines = count_lines(case, start)
        lines = [1, *rng.randint(1, n_lines - 20, size=FEW[name])]
        found = [
            interrupted(case, start, line, ERRORS[k % len(ERRORS)]) for k, line in enumerate(lines)
        ]
    wrong = [outcome for outcome in found if outcome.wrong or outcome.end == "completed"]
    assert not wrong, wrong
    assert sum(outcome.end == "as before" for outcome in found) >= len(lines) - 1


needs_posix = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs Linux")


@needs_posix
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classifier", "processes"])
def test_ctrl_c_ends_a_fit_and_leaves_nothing_behind(kind):
    ended = interrupt(kind, delay=0.7, n_signals=2, gap=0.003)
    assert ended.right, ended
    assert ended.seconds < 20.0


@needs_posix
@pytest.mark.slow
def test_memory_that_does_not_suffice_is_said_to():
    assert starve("regressor", 8) == "MemoryError"


STOPPED_EARLY = {
    "classifier": (SparseGPClassifier(n_inducing=8), 2),
    "softmax": (
        SparseGPClassifier(RBF(), n_inducing=8, n_restarts_optimizer=1, random_state=0),
        3,
    ),
    "one for each class": (SparseGPClassifier(n_inducing=8, likelihood="polya-gamma"), 3),
    "number by certificate": (SparseGPClassifier(n_inducing="auto", max_inducing=20), 2),
    "regressor": (SparseGPRegressor(n_inducing=8), 0),
    "polynomial noise": (SparseGPRegressor(n_inducing=8, noise="polynomial"), 0),
    "noise process": (SparseGPRegressor(n_inducing=8, noise=GPNoise(n_inducing=4)), 0),
    "noise chosen by the bound": (SparseGPRegressor(n_inducing=8, noise="auto"), 0),
    "points that move": (SparseGPRegressor(n_inducing=8, optimize_inducing=True), 0),
    "several outputs": (SparseGPRegressor(n_inducing=8), -1),
}


@pytest.mark.parametrize("name", STOPPED_EARLY)
def test_a_fit_that_runs_out_of_iterations_is_usable_and_says_so_once(name):
    estimator, n_classes = STOPPED_EARLY[name]
    rng = np.random.RandomState(0)
    X = rng.uniform(-2.0, 2.0, (90, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.standard_normal(90)
    if n_classes > 0:
        y = np.digitize(y, np.linspace(-0.4, 0.4, n_classes - 1))
    elif n_classes < 0:
        y = np.stack([y, -y], axis=1)
    model = clone(estimator).set_params(max_iter=1, tol=1e-12, main_effects=False)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X, y)
    said = [str(one.message) for one in caught]
    assert len([text for text in said if re.search(r"max_iter=1\b", text)]) == 1, said
    assert not model.converged_
    assert model.predict(X).shape == y.shape
    assert np.isfinite(model.predict(X)).all()
    if n_classes > 0:
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert np.isfinite(model.lower_bound_)
