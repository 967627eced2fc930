"""What the models' work over rows holds: on a cluster it is sent to every worker.

So nothing in it may grow with the number of rows, as it would if a function held a model.
"""

import numpy as np
import pytest
from cloudpickle import dumps

from sparsegpc._core.bounds.slacks import SPHERICAL, TIGHT
from sparsegpc._core.kernels.algebra import Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.likelihoods.binary import BernoulliLogit
from sparsegpc._core.likelihoods.gaussian import GaussianNoise, noisy_targets
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.models.noise_process import HeteroscedasticModel
from sparsegpc._core.rows.blocks import RowBlocks
from sparsegpc._core.rows.merged_rows import merge_rows
from sparsegpc._core.selection.selectors import InducingPoints
from tests.core.helpers import free

N_ROWS, M = 4000, 6
KERNEL = free(Scaled(Constant(), RBF(1)), np.zeros(2))


@pytest.fixture
def sizes(monkeypatch):
    """The sizes of all functions that rows are visited with, in bytes."""
    found, visit = [], RowBlocks.visit

    def measured(self, function, *inputs):
        found.append(len(dumps(function)))
        return visit(self, function, *inputs)

    monkeypatch.setattr(RowBlocks, "visit", measured)
    return found


def rows_and_values():
    rng = np.random.RandomState(0)
    rows = merge_rows(rng.randn(N_ROWS, 2), np.ones(N_ROWS))
    return rows, np.sin(rows.X[:, 0]) + 0.3 * rng.randn(N_ROWS)


def of_labels():
    rows, y = rows_and_values()
    targets = [np.where(y > 0.0, 1.0, -1.0)]
    model = SparseModel(KERNEL, BernoulliLogit(), rows.X, targets, rows.weight, slack=SPHERICAL)
    return model, np.zeros(2), None


def of_noise():
    rows, y = rows_and_values()
    model = HeteroscedasticModel(
        KERNEL,
        GaussianNoise(0),
        rows.X,
        [noisy_targets(y, rows.weight, np.empty((N_ROWS, 0)), rows)],
        rows.weight,
        slack=TIGHT,
        noise_kernel=KERNEL,
        n_noise_points=M,
        noise_tol=0.0,
        log_noise=[-2.0],
    )
    return model, np.zeros(4), rows.X[M : 2 * M]


@pytest.mark.parametrize("build", [of_labels, of_noise])
def test_no_function_holds_the_rows(build, sizes):
    model, theta, Z_noise = build()
    points = InducingPoints(model.X[:M], None, Z_noise)
    found = model.evaluate(theta, points, model.initial_state())
    model.states_from(theta, found.posterior)
    found.posterior.moments(model.X)
    assert len(sizes) > 5
    assert max(sizes) < model.X.nbytes / 4
