"""
Are the probabilities calibrated?
=================================

Of all rows with a predicted probability of 0.8 for a class, four in five should belong to that
class. This example checks it and compares with scikit-learn's Gaussian process, logistic regression
and gradient boosting. Then it shows the uncertainty of a single probability.
"""

# %%
# Predicted probabilities and observed frequencies
# ------------------------------------------------
# The data are two overlapping moons, with 300 training rows and ten thousand test rows.
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import make_moons
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss

from sparsegpc import SparseGPClassifier

X, y = make_moons(10_300, noise=0.45, random_state=0)
X_train, y_train, X_test, y_test = X[:300], y[:300], X[300:], y[300:]
models = {
    "SparseGPClassifier": SparseGPClassifier(),
    "GaussianProcessClassifier": GaussianProcessClassifier(ConstantKernel() * RBF()),
    "LogisticRegression": LogisticRegression(),
    "HistGradientBoosting": HistGradientBoostingClassifier(random_state=0),
}
print(f"{'':26s}{'accuracy':>9s}{'log loss':>10s}{'Brier':>8s}")
probabilities = {}
for name, model in models.items():
    proba = model.fit(X_train, y_train).predict_proba(X_test)[:, 1]
    probabilities[name] = proba
    print(
        f"{name:26s}{model.score(X_test, y_test):9.3f}{log_loss(y_test, proba):10.4f}"
        f"{brier_score_loss(y_test, proba):8.4f}"
    )

# %%
styles = {
    "SparseGPClassifier": {"color": "tab:blue", "marker": "o", "lw": 2},
    "GaussianProcessClassifier": {"color": "tab:cyan", "marker": "D", "lw": 1.2},
    "LogisticRegression": {"color": "0.55", "marker": "s", "lw": 1.2},
    "HistGradientBoosting": {"color": "tab:orange", "marker": "^", "lw": 1.2},
}
figure, axes = plt.subplots(figsize=(6.4, 6.0), layout="constrained")
axes.plot([0, 1], [0, 1], "k:", lw=1, label="perfect", zorder=0)
for name, proba in probabilities.items():
    CalibrationDisplay.from_predictions(
        y_test,
        proba,
        n_bins=12,
        strategy="quantile",
        ax=axes,
        name=f"{name}, {log_loss(y_test, proba):.3f}",
        ref_line=False,
        ms=5,
        **styles[name],
    )
axes.set(
    title="Predicted probabilities and observed frequencies",
    xlabel="predicted probability of class 1",
    ylabel="share of class 1",
    aspect="equal",
)
axes.legend(loc="upper left", fontsize=8, title="log loss", title_fontsize=8)
plt.show()

# %%
# The uncertainty of a probability
# --------------------------------
# Here X is one column with a gap. In the gap the probability is similar to that of the rows around
# it, but its interval is wide, since there are no data.


def true_probability(x):
    """Return the probability of class 1."""
    return expit(3.0 * np.sin(x) + 0.5)


rng = np.random.RandomState(0)
x = rng.uniform(0.0, 12.0, size=500)
x = x[(x < 6.0) | (x > 9.0)]
labels = (rng.uniform(size=len(x)) < true_probability(x)).astype(int)
one_column = SparseGPClassifier().fit(x[:, None], labels)
grid = np.linspace(0.0, 12.0, 400)
truth = true_probability(grid)
low, high = (ends[:, 1] for ends in one_column.predict_proba_interval(grid[:, None]))
inside = np.mean((low <= truth) & (truth <= high))
print(f"The 95 % interval contains the true probability on {inside:.0%} of the grid")

figure, axes = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
axes.fill_between(grid, low, high, color="tab:blue", alpha=0.2, lw=0, label="95 % interval")
proba = one_column.predict_proba(grid[:, None])[:, 1]
axes.plot(grid, proba, color="tab:blue", lw=2, label="predict_proba")
axes.plot(grid, truth, "k--", lw=1, label="true probability")
for label, height in ((0, -0.05), (1, 1.05)):
    at = x[labels == label]
    axes.plot(at, np.full(len(at), height), "|", color="0.35", ms=7, mew=0.6)
axes.text(7.5, -0.05, "no rows here", ha="center", va="center", fontsize=8, color="0.35")
axes.set(
    title="The uncertainty of a probability",
    xlabel="x (ticks: rows of class 1 above, class 0 below)",
    ylabel="probability of class 1",
    xlim=(0.0, 12.0),
    ylim=(-0.1, 1.25),
    yticks=np.linspace(0.0, 1.0, 6),
)
axes.legend(loc="upper center", fontsize=8, ncols=3, frameon=False)
plt.show()
