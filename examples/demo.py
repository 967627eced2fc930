"""The main job: fit, compare and draw, on data that scikit-learn ships.

1. Breast cancer, 90 % for training: a pipeline of StandardScaler and SparseGPClassifier, its number
   of inducing points and selection tolerance chosen by GridSearchCV, beside logistic regression and
   scikit-learn's GaussianProcessClassifier on the same split.
2. Two moons: decision boundary, inducing points and Polya-Gamma variance (as Figures 5.1 and 5.5 of
   Passerello 2021), written to output/demo.png.
"""

import time
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import SparseGPClassifier

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OUTPUT = Path(__file__).parent.parent / "output" / "demo.png"


def compare_on_breast_cancer():
    """Print accuracy, log loss and seconds of three classifiers on one split."""
    X, y = load_breast_cancer(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.1, stratify=y, random_state=0
    )
    print(f"Breast cancer: {len(y_train)} training rows, {len(y_test)} test rows")

    search = GridSearchCV(
        make_pipeline(StandardScaler(), SparseGPClassifier()),
        {
            "sparsegpclassifier__n_inducing": [10, 25, 50, 100],
            "sparsegpclassifier__selection_tol": [0.0, 1e-5, 1e-3],
        },
        scoring="neg_log_loss",
        cv=5,
    )
    start = time.perf_counter()
    search.fit(X_train, y_train)
    seconds = time.perf_counter() - start
    chosen = {name.split("__")[1]: value for name, value in search.best_params_.items()}
    print(f"GridSearchCV over {len(search.cv_results_['params'])} settings x 5 folds took ", end="")
    print(f"{seconds:.1f} s and chose {chosen}\n")

    models = {
        "SparseGPClassifier": search.best_estimator_,
        "LogisticRegression": make_pipeline(StandardScaler(), LogisticRegression()),
        "GaussianProcessClassifier": make_pipeline(
            StandardScaler(), GaussianProcessClassifier(ConstantKernel() * RBF())
        ),
    }
    print(f"{'':26s}{'accuracy':>9s}{'log loss':>10s}{'fit s':>8s}{'points':>8s}{'bound':>10s}")
    for name, model in models.items():
        start = time.perf_counter()
        model.fit(X_train, y_train)
        seconds = time.perf_counter() - start
        loss = log_loss(y_test, model.predict_proba(X_test))
        line = f"{name:26s}{model.score(X_test, y_test):9.3f}{loss:10.4f}{seconds:8.2f}"
        if name == "SparseGPClassifier":
            gp = model[-1]
            line += f"{len(gp.inducing_points_):8d}{gp.lower_bound_:10.2f}"
        elif name == "GaussianProcessClassifier":
            line += f"{len(y_train):8d}"
        print(line)


def polya_gamma_variance(mean, variance):
    """Return the variance of a pseudo-observation at points where f has these moments."""
    tilt = np.sqrt(mean**2 + variance)
    return 2.0 * tilt / np.tanh(tilt / 2.0)


def draw_two_moons():
    """Draw the classifier's view of a two-dimensional problem."""
    X, y = make_moons(400, noise=0.25, random_state=0)
    gp = SparseGPClassifier(likelihood="polya-gamma").fit(X, y)
    low, high = X.min(axis=0) - 0.4, X.max(axis=0) + 0.4
    grid = np.meshgrid(*(np.linspace(a, b, 200) for a, b in zip(low, high, strict=True)))
    points = np.column_stack([axis.ravel() for axis in grid])
    proba = gp.predict_proba(points)[:, 1].reshape(grid[0].shape)
    noise = polya_gamma_variance(*gp.latent_mean_and_variance(points)).reshape(grid[0].shape)

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    shade = left.contourf(*grid, proba, np.linspace(0, 1, 21), cmap="coolwarm", alpha=0.6)
    figure.colorbar(shade, ax=left, ticks=[0, 0.25, 0.5, 0.75, 1], label="probability of class 1")
    left.set_title("Decision boundary and inducing points")
    contours = right.contourf(*grid, noise, 20, cmap="viridis_r")
    figure.colorbar(contours, ax=right, label="Pólya-Gamma variance")
    right.set_title("Pólya-Gamma variance: lowest at the boundary")
    for axes, alpha in ((left, 1.0), (right, 0.5)):
        axes.scatter(*X[y == 0].T, s=10, c="tab:blue", lw=0, alpha=alpha, label="class 0")
        axes.scatter(*X[y == 1].T, s=10, c="tab:red", lw=0, alpha=alpha, label="class 1")
        axes.contour(*grid, proba, [0.5], colors="black", linewidths=1.5)
        n_points = len(gp.inducing_points_)
        axes.scatter(
            *gp.inducing_points_.T,
            s=45,
            facecolors="none",
            edgecolors="black",
            label=f"{n_points} inducing points",
        )
        axes.set(xlabel="feature 0", ylabel="feature 1", aspect="equal")
    left.legend(loc="lower left", fontsize=8, framealpha=0.9)
    OUTPUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUTPUT, dpi=110)
    print(f"\nTwo moons: {len(y)} rows, {n_points} inducing points chosen by the model")
    print(f"Picture written to {OUTPUT.relative_to(OUTPUT.parent.parent)}")


if __name__ == "__main__":
    compare_on_breast_cancer()
    draw_two_moons()
