"""Whether probabilities are what they say, and how certain the model is of them.

1. A few hundred rows of two overlapping classes, and many to test on: log loss, Brier score and
   calibration curves beside those of logistic regression and gradient boosting.
2. One column with a gap: the probability, and its 95 % interval under the posterior, which is wide
   where there are no data.

The picture is written to output/calibration.png.
"""

import time
from pathlib import Path

import matplotlib
import numpy as np
from scipy.special import expit
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import make_moons
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss

from sparsegpc import SparseGPClassifier

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OUTPUT = Path(__file__).parent.parent / "output" / "calibration.png"
STYLES = {
    "SparseGPClassifier": {"color": "tab:blue", "marker": "o", "lw": 2},
    "LogisticRegression": {"color": "0.55", "marker": "s", "lw": 1.2},
    "HistGradientBoosting": {"color": "tab:orange", "marker": "^", "lw": 1.2},
}


def draw_calibration(axes):
    """Print scores of three classifiers and draw how often what they predict comes true."""
    X, y = make_moons(10400, noise=0.45, random_state=0)
    X_train, y_train, X_test, y_test = X[:400], y[:400], X[400:], y[400:]
    models = {
        "SparseGPClassifier": SparseGPClassifier(),
        "LogisticRegression": LogisticRegression(),
        "HistGradientBoosting": HistGradientBoostingClassifier(random_state=0),
    }
    print(f"Two moons: {len(y_train)} training rows, {len(y_test)} test rows")
    print(f"{'':22s}{'accuracy':>9s}{'log loss':>10s}{'Brier':>8s}{'fit s':>8s}")
    for name, model in models.items():
        start = time.perf_counter()
        model.fit(X_train, y_train)
        seconds = time.perf_counter() - start
        proba = model.predict_proba(X_test)
        print(
            f"{name:22s}{model.score(X_test, y_test):9.3f}{log_loss(y_test, proba):10.4f}"
            f"{brier_score_loss(y_test, proba[:, 1]):8.4f}{seconds:8.2f}"
        )
        CalibrationDisplay.from_predictions(
            y_test,
            proba[:, 1],
            n_bins=12,
            strategy="quantile",
            ax=axes,
            name=f"{name}, log loss {log_loss(y_test, proba):.3f}",
            ref_line=False,
            ms=5,
            **STYLES[name],
        )
    axes.plot([0, 1], [0, 1], "k:", lw=1, label="perfect", zorder=0)
    axes.set(
        title="What comes true of predicted probabilities",
        xlabel="predicted probability of class 1",
        ylabel="share of class 1",
        aspect="equal",
    )
    axes.legend(loc="upper left", fontsize=8)


def true_probability(x):
    """Return the probability of class 1."""
    return expit(3.0 * np.sin(x) + 0.5)


def draw_interval(axes):
    """Draw the probability and its interval, and print how often that holds the true one."""
    rng = np.random.RandomState(0)
    x = rng.uniform(0.0, 12.0, size=500)
    x = x[(x < 6.0) | (x > 9.0)]
    y = rng.uniform(size=len(x)) < true_probability(x)
    model = SparseGPClassifier().fit(x[:, None], y)
    grid = np.linspace(0.0, 12.0, 400)
    proba = model.predict_proba(grid[:, None])[:, 1]
    low, high = (ends[:, 1] for ends in model.predict_proba_interval(grid[:, None]))
    truth = true_probability(grid)
    inside = np.mean((low <= truth) & (truth <= high))
    print(f"\nOne column: {len(x)} rows, none between 6 and 9")
    print(f"The 95 % interval holds the true probability on {inside:.0%} of the grid")
    axes.fill_between(grid, low, high, color="tab:blue", alpha=0.2, lw=0, label="95 % interval")
    axes.plot(grid, proba, color="tab:blue", lw=2, label="predict_proba")
    axes.plot(grid, truth, "k--", lw=1, label="true probability")
    for label, height in ((0, -0.05), (1, 1.05)):
        at = x[y == label]
        axes.plot(at, np.full(len(at), height), "|", color="0.35", ms=7, mew=0.6)
    axes.text(7.5, -0.05, "no rows here", ha="center", va="center", fontsize=8, color="0.35")
    axes.set(
        title="How certain a probability is",
        xlabel="x (ticks: rows of class 1 above, class 0 below)",
        ylabel="probability of class 1",
        xlim=(0.0, 12.0),
        ylim=(-0.1, 1.25),
        yticks=np.linspace(0.0, 1.0, 6),
    )
    axes.legend(loc="upper center", fontsize=8, ncols=3, frameon=False)


def main():
    """Fit, compare and draw."""
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11, 4.8), width_ratios=(1, 1.25), layout="constrained"
    )
    draw_calibration(left)
    draw_interval(right)
    OUTPUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUTPUT, dpi=100)
    print(f"Picture written to {OUTPUT.relative_to(OUTPUT.parent.parent)}")


if __name__ == "__main__":
    main()
