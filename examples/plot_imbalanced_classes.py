"""
Should I weight rare classes?
=============================

Usually not. For a rare class, here 6 % of the rows, a threshold has the same effect and keeps the
probabilities calibrated. Class weights are for data whose class frequencies differ from those where
the model will be used.
"""

# %%
# One rare class
# --------------
# The probabilities of the plain model correspond to the frequencies of the classes. With
# ``class_weight="balanced"`` the model is the same, but its probabilities are those for equally
# frequent classes.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import make_classification
from sklearn.metrics import average_precision_score, balanced_accuracy_score, log_loss
from sklearn.model_selection import train_test_split

from sparsegpc import SparseGPClassifier

X, y = make_classification(
    9_500,
    n_features=3,
    n_informative=3,
    n_redundant=0,
    n_clusters_per_class=2,
    weights=[0.94],
    class_sep=0.6,
    flip_y=0.0,
    random_state=0,
)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=1500, stratify=y, random_state=0
)
print(f"{y_train.mean():.1%} of {len(y_train)} training rows belong to the rare class")
plain = SparseGPClassifier().fit(X_train, y_train)
balanced = SparseGPClassifier(class_weight="balanced").fit(X_train, y_train)

# %%
# A threshold instead of weights
# ------------------------------
# If missing a rare row costs as much as sixteen false alarms, raise the alarm at probabilities
# above 1/17, about the share of the rare class. The plain model with this threshold makes the same
# decisions as the balanced one with a threshold of one half, and its probabilities stay calibrated.
rate = y_train.mean()
decisions = {
    "plain, threshold 1/2": (plain, 0.5),
    "plain, threshold at the rate": (plain, rate),
    "balanced, threshold 1/2": (balanced, 0.5),
}
print(f"{'':30s}{'balanced acc.':>14s}{'avg. precision':>15s}{'log loss':>9s}")
for name, (model, threshold) in decisions.items():
    proba = model.predict_proba(X_test)[:, 1]
    print(
        f"{name:30s}{balanced_accuracy_score(y_test, proba > threshold):14.3f}"
        f"{average_precision_score(y_test, proba):15.3f}{log_loss(y_test, proba):9.3f}"
    )

# %%
figure, axes = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
for name, model, style in (
    ("plain", plain, {"color": "tab:blue", "marker": "o"}),
    ("balanced", balanced, {"color": "tab:orange", "marker": "s"}),
):
    proba = model.predict_proba(X_test)[:, 1]
    CalibrationDisplay.from_predictions(
        y_test, proba, n_bins=8, strategy="uniform", ax=axes, name=name, **style
    )
axes.set(
    title="Predicted probabilities and observed frequencies",
    xlabel="predicted probability of the rare class",
    ylabel="share of the rare class",
)
axes.legend(loc="upper left")
plt.show()

# %%
# Other class frequencies
# -----------------------
# To save time or labels, rows of the large class can be left out. Here a quarter of them is kept,
# so the probabilities are too high for the population. A class weight of four, the factor by which
# the large class is more frequent there than in the data, corrects this.
rng = np.random.RandomState(0)
kept = (y_train == 1) | (rng.uniform(size=len(y_train)) < 0.25)
print(f"{kept.sum()} of {len(kept)} rows, share of the rare class {y_test.mean():.3f}")
for class_weight in (None, {0: 4.0, 1: 1.0}):
    thinned = SparseGPClassifier(class_weight=class_weight).fit(X_train[kept], y_train[kept])
    proba = thinned.predict_proba(X_test)[:, 1]
    print(
        f"class_weight={class_weight!s:18s} log loss {log_loss(y_test, proba):.3f}, "
        f"mean probability {proba.mean():.3f}"
    )
