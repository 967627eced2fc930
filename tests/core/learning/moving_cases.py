"""A regression and a classification with too few points for their targets."""

import numpy as np

from sparsegpc._core.bounds.slacks import SLACKS, TIGHT
from sparsegpc._core.kernels.algebra import FreeKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.likelihoods.binary import PolyaGammaLogit
from sparsegpc._core.likelihoods.gaussian import GaussianNoise, noisy_targets
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.models.noise_process import HeteroscedasticModel
from sparsegpc._core.rows.merged_rows import merge_rows
from tests.core.helpers import read_only

START = np.log([1.0, 1.0, 0.1])
BOUNDS = np.log([[1e-3, 1e3], [1e-2, 1e2], [1e-4, 1e2]])
M = 5


def make_rows(n=60, scale=1.0, constant=False):
    X = scale * np.random.RandomState(0).uniform(-3.0, 3.0, (n, 1))
    return merge_rows(np.hstack([X, np.full((n, 1), 4.0)]) if constant else X, np.ones(n))


def regression(slack="tight", model=SparseModel, free=(True, True), scale=1.0, constant=False, **o):
    """A model of three parameters with the noise, and too few points for its targets."""
    rows = make_rows(scale=scale, constant=constant)
    n = len(rows.X)
    y = np.sin(1.5 * rows.X[:, 0] / scale) + 0.2 * np.random.RandomState(1).randn(n)
    # The rows are sorted and distinct: they are their own merged rows.
    target = noisy_targets(y, np.ones(n), np.ones((n, 1)), merge_rows(rows.X, np.ones(n)))
    params = np.log([1.0, scale])
    kernel = FreeKernel(Scaled(Constant(), RBF()), params, np.array(free))
    return model(kernel, GaussianNoise(1), rows.X, [target], np.ones(n), slack=SLACKS[slack], **o)


def classification(slack="tight", **options):
    X = read_only(make_rows().X)
    y = np.where(np.sin(2.5 * X[:, 0]) + 0.3 * np.random.RandomState(2).randn(60) > 0.0, 1.0, -1.0)
    kernel = FreeKernel(Scaled(Constant(), RBF()), np.zeros(2), np.ones(2, dtype=bool))
    return SparseModel(
        kernel, PolyaGammaLogit(), X, [y], np.ones(60), slack=SLACKS[slack], **options
    )


def noisy_model(**options):
    """A regression with a noise process of its own."""
    model = regression()
    noise_kernel = FreeKernel(Scaled(Constant(), RBF()), np.zeros(2), np.ones(2, dtype=bool))
    return HeteroscedasticModel(
        model.kernel,
        GaussianNoise(0),
        model.X,
        model.targets,
        model.weight,
        slack=TIGHT,
        noise_kernel=noise_kernel,
        log_noise=[-2.0],
        **{"n_noise_points": 3, "noise_tol": 0.0, **options},
    )
