"""
Should I weight rare classes?
=============================

Usually not. Rows and classes can have weights, but for a rare class, here 6 % of the rows, a
threshold has the same effect and keeps the probabilities calibrated.
"""

# %%
# One rare class
# --------------
# The probabilities of the plain model correspond to the frequencies of the classes. With
# ``class_weight="balanced"`` they are those for equally frequent classes.
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
plain = SparseGPClassifier(n_inducing=40).fit(X_train, y_train)
balanced = SparseGPClassifier(n_inducing=40, class_weight="balanced").fit(X_train, y_train)

# %%
# A threshold instead of weights
# ------------------------------
# If missing a rare row costs as much as sixteen false alarms, raise the alarm at probabilities
# above 1/17, about the share of the rare class. The plain model with this threshold decides as well
# as the weighted one, and its probabilities stay calibrated.
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
plt.show()

# %%
# Weights of rows
# ---------------
# A row of weight three counts like three copies. So to save time, keep a quarter of the large class
# with a weight of four. The probabilities stay calibrated.
rng = np.random.RandomState(0)
kept = (y_train == 1) | (rng.uniform(size=len(y_train)) < 0.25)
weight = np.where(y_train == 1, 1.0, 4.0)[kept]
thinned = SparseGPClassifier(n_inducing=40).fit(X_train[kept], y_train[kept], sample_weight=weight)
proba = thinned.predict_proba(X_test)[:, 1]
print(f"{kept.sum()} of {len(kept)} rows, weighted: log loss {log_loss(y_test, proba):.3f}")
print(f"mean probability {proba.mean():.3f}, share of the rare class {y_test.mean():.3f}")
