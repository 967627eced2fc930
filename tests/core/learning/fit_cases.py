"""Models that remember their evaluations, and fits of small data."""

import numpy as np
import pytest

from sparsegpc._core.bounds.slacks import TIGHT
from sparsegpc._core.kernels.algebra import FreeKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.learning import growing_subsets
from sparsegpc._core.learning.fit import fit
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.learning.runs import FitSettings, StartOptions
from sparsegpc._core.likelihoods.binary import PolyaGammaLogit
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import InducingPoints, PivotedSelector

LIKELIHOOD = PolyaGammaLogit()
BOUNDS = np.log([[1e-3, 1e3], [1e-2, 1e2]])
START = np.log([1.0, 1.0])
HOPELESS = [np.log([1.0, 1e-2]), np.log([1e-3, 1e2])]
GOOD = np.linspace(-3.0, 3.0, 10)[:, None]
BAD = [np.linspace(2.8 + 0.01 * k, 3.0, 3)[:, None] for k in range(6)]


class RecordingModel(SparseModel):
    """A model that keeps bound, theta and number of points of every evaluation it completes.

    ``passes`` holds those of the site solver in each evaluation of it and of its subsets.
    """

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.seen, self.passes = [], []

    def evaluate(self, theta, points, *args, **options):
        evaluation = super().evaluate(theta, points, *args, **options)
        self.seen.append((evaluation.objective, np.array(theta), len(points.Z)))
        self.passes.append(sum(solution.n_iter for solution in evaluation.solutions))
        return evaluation

    def subset(self, rows, weak_prior=None):
        other = super().subset(rows, weak_prior)
        other.seen = []
        return other

    def best_seen(self, n_points):
        """The ranking of the starts may use more points than the model has."""
        return max(bound for bound, _, m in self.seen if m <= n_points)


def make_data(seed=0, n=60, noise=0.3):
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3.0, 3.0, size=(n, 1))
    y = np.where(np.sin(2.5 * X[:, 0]) + noise * rng.randn(n) > -0.2, 1.0, -1.0)
    return X, y


def make_model(X=None, y=None, *, free=(True, True), model=RecordingModel, weight=None, **options):
    if X is None:
        X, y = make_data()
    weight = np.ones(len(y)) if weight is None else weight
    for array in (X, y, weight):
        array.flags.writeable = False
    kernel = FreeKernel(Scaled(Constant(), RBF()), START.copy(), np.array(free))
    return model(kernel, LIKELIHOOD, X, [y], weight, **{"slack": TIGHT, **options})


def settings_of(bounds=BOUNDS, max_iter=100, max_reselections=0, progress=None, **options):
    progress = Progress() if progress is None else progress
    return FitSettings(bounds, max_iter, max_reselections, progress, **options)


def learn(model, starts=(START,), choose=None, *, move_points=False, **options):
    choose = PivotedSelector(argmax, 8) if choose is None else choose
    more = {name: options.pop(name) for name in StartOptions._fields[1:] if name in options}
    settings = settings_of(**{"max_iter": 30, "max_reselections": 4, **options})
    return fit(model, StartOptions(list(starts), **more), choose, settings, move_points=move_points)


def constant_log_likelihood(y):
    counts = np.array([np.sum(y > 0), np.sum(y < 0)])
    return float((counts * np.log(counts / len(y))).sum())


def rounding(model):
    return 1e-9 * model.total_weight


class ScriptedSelector:
    """Hand out given sets of points in turn, the last one for ever."""

    fixed = or_centroids = False

    def __init__(self, *sets):
        self.sets, self.calls, self.asked = sets, 0, []

    def __call__(self, kernel, theta, rows, precision):
        self.asked.append((np.array(theta), precision))
        Z = self.sets[min(self.calls, len(self.sets) - 1)]
        self.calls += 1
        return InducingPoints(Z)


class DividedModel(RecordingModel):
    """Keeps the subsets that it was asked for."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.parts = []

    def subset(self, rows, weak_prior=None):
        other = super().subset(rows, weak_prior)
        self.parts.append(other)
        return other

    @property
    def sizes(self):
        return [len(part.weight) for part in self.parts]


def make_divided(n=2000, model=DividedModel, **options):
    return make_model(*make_data(n=n), model=model, **options)


def without_subsets(choose=None, n=2000, tol=1e-5, **options):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing_subsets, "MANY_ROWS", np.inf)
        model = make_divided(n, tol=tol)
        return model, learn(model, choose=choose, **options)
