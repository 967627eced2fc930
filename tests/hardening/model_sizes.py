"""Print the bytes of saved models beside the documented formula, over rows, points and columns.

    python -m tests.hardening.model_sizes

With M points, D columns and C functions a model has ``4 t M (M + 1) + 8 s M^2 + 8 (b D + v) M``
bytes and some thousand more: t triangles, s square arrays, b arrays of points and v vectors, which
depend on the kind of model.
"""

import pickle
import warnings
from itertools import product

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from sparsegpc import (
    GPNoise,
    InducingPointSelector,
    SparseGPClassifier,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPGeneralizedRegressor,
    StochasticSparseGPRegressor,
)

# Bytes of all that does not grow with points, for one model and for each further one within it:
# parameters, kernels, names, history.
REST, REST_OF_PART = 6_000, 1_500
ROWS = (1000, 5000)
NOISE_POINTS = 30
GENERALIZED = (SparseGPGeneralizedRegressor, StochasticSparseGPGeneralizedRegressor)
BATCHES = {"learning_rate": 0.0, "batch_size": 500}
# Points are rows, whose indices are kept.
FIXED = {
    "optimizer": None,
    "max_reselections": 0,
    "selection_tol": 0.0,
    "selector": "rpcholesky",
}


class Kind:
    """An estimator, the number of its functions, and its arrays for each point or pair of points.

    Parameters
    ----------
    estimator : estimator
    n_functions : int
        Classes, or outputs of a regressor.
    triangles, squares, tables, vectors : int
        Triangles and other arrays of shape (M, M), and arrays of shape (M, D) and (M,).
    n_noise_points : int
        Those of a noise process.
    n_parts : int
        Models within it.
    """

    def __init__(
        self,
        estimator,
        n_functions,
        *,
        triangles=0,
        squares=0,
        tables,
        vectors,
        n_noise_points=0,
        n_parts=0,
    ):
        self.estimator, self.n_functions = estimator, n_functions
        self.triangles, self.squares = triangles, squares
        self.tables, self.vectors = tables, vectors
        self.n_noise_points = n_noise_points
        self.rest = REST + n_parts * REST_OF_PART

    def formula(self, n_points, n_columns):
        """Return the bytes of a model without ``rest``."""
        numbers = self.triangles * n_points * (n_points + 1) // 2 + self.squares * n_points**2
        numbers += (self.tables * n_columns + self.vectors) * n_points
        if self.n_noise_points:
            # Its points and the factor of their covariance, and the posterior of each output.
            pairs = (1 + self.n_functions) * self.n_noise_points * (self.n_noise_points + 1) // 2
            numbers += pairs + (n_columns + self.n_functions) * self.n_noise_points
        return 8 * numbers

    def measured(self, n_rows, n_points, n_columns):
        """Return the bytes of a pickle, and the number of points, of a model of drawn rows."""
        X = np.random.RandomState(0).randn(n_rows, n_columns)
        f = X[:, 0] + 0.1 * np.random.RandomState(1).randn(n_rows)
        outputs = [f * (1.0 + k) for k in range(self.n_functions)]
        y = f if self.n_functions == 1 else np.stack(outputs, axis=1)
        estimator = self.estimator
        if isinstance(estimator, GENERALIZED):
            y = np.exp(f)
        if hasattr(estimator, "predict_proba"):
            y = np.digitize(f, np.linspace(-1.0, 1.0, max(self.n_functions, 2) + 1)[1:-1])
        name = "n_components" if isinstance(estimator, InducingPointSelector) else "n_inducing"
        model = estimator.set_params(**{name: n_points, "kernel": RBF(np.sqrt(n_columns) / 2.0)})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            points = model.fit(X, y).inducing_points_
        n_points = len(points[0]) if isinstance(points, list) else len(points)
        return len(pickle.dumps(model)), n_points


def kinds(numbers_of_classes):
    """Return the kinds of models by their names."""
    one = {"triangles": 2, "tables": 1, "vectors": 3}
    batches = {"triangles": 3, "squares": 1, "tables": 2, "vectors": 4}
    noise = GPNoise(n_inducing=NOISE_POINTS, selection_tol=0.0)
    moved = StochasticSparseGPRegressor(
        optimize_inducing=True, n_epochs=1, learning_rate=0.1, batch_size=500
    )
    found = {
        "selection": Kind(InducingPointSelector(tol=0.0), 1, squares=1, tables=1, vectors=3),
        "two classes": Kind(SparseGPClassifier(**FIXED), 1, **one),
        "positive numbers": Kind(SparseGPGeneralizedRegressor(**FIXED), 1, **one),
        "noise process": Kind(
            SparseGPRegressor(noise=noise, **FIXED), 1, **one, n_noise_points=NOISE_POINTS
        ),
        "two classes, batches": Kind(StochasticSparseGPClassifier(**BATCHES), 1, **batches),
        "targets, batches": Kind(StochasticSparseGPRegressor(**BATCHES), 1, **batches),
        "positive numbers, batches": Kind(
            StochasticSparseGPGeneralizedRegressor(**BATCHES), 1, **batches
        ),
        "targets, batches, moved": Kind(moved, 1, **{**batches, "tables": 3}),
    }
    for C in numbers_of_classes:
        found[f"{C} classes, one model"] = Kind(
            SparseGPClassifier(**FIXED), C, triangles=C + 1, tables=1, vectors=2 * C + 1
        )
        found[f"{C} classes, one for each"] = Kind(
            SparseGPClassifier(likelihood="bernoulli-logit", **FIXED),
            C,
            triangles=2 * C,
            tables=C,
            vectors=3 * C,
            n_parts=C,
        )
        found[f"{C} classes, batches"] = Kind(
            StochasticSparseGPClassifier(**BATCHES),
            C,
            triangles=C + 2,
            squares=C,
            tables=2,
            vectors=4 * C,
        )
    for C in (1, 2):
        found[f"{C} outputs"] = Kind(
            SparseGPRegressor(**FIXED), C, triangles=C + 1, tables=1, vectors=2 * C + 1
        )
    return found


def main():
    grid = list(product((20, 80, 160), (2, 30)))
    print(f"Rest: bytes beyond the formula, least and most over N in {ROWS}, (M, D) in {grid}.\n")
    print(
        f"{'model':<26}{'t':>3}{'s':>3}{'b':>3}{'v':>4}{'bytes at the last':>19}{'formula':>9}"
        f"{'rest':>13}"
    )
    for name, kind in kinds([3, 6]).items():
        rests = []
        for N, (M, D) in product(ROWS, grid):
            size, n_points = kind.measured(N, M, D)
            formula = kind.formula(n_points, D)
            rests.append(size - formula)
        print(
            f"{name:<26}{kind.triangles:>3}{kind.squares:>3}{kind.tables:>3}{kind.vectors:>4}"
            f"{size:>19}{formula:>9}{min(rests):>7}{max(rests):>6}",
            flush=True,
        )


if __name__ == "__main__":
    main()
