"""
May I weight samples, and should I for rare classes?
====================================================

Yes: rows and classes can have weights. For a rare class, here six rows of a hundred, they are
often not needed: a threshold does the same, and keeps the probabilities true.
"""

# %%
# One rare class
# --------------
# The plain model has probabilities of the classes as they are. With ``class_weight="balanced"``
# both classes count the same, and probabilities are as if both were equally frequent.
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
print(f"{y_train.mean():.1%} of {len(y_train)} training rows are of the rare class")
plain = SparseGPClassifier(n_inducing=40).fit(X_train, y_train)
balanced = SparseGPClassifier(n_inducing=40, class_weight="balanced").fit(X_train, y_train)

# %%
# A decision needs no weights
# ---------------------------
# If missing a rare row costs as much as sixteen false alarms, raise the alarm from a probability
# of 1/17, the share of the rare class. The plain model with a threshold decides as well as the
# weighted one, and its probabilities stay true.
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
    title="What comes true of predicted probabilities",
    xlabel="predicted probability of the rare class",
    ylabel="share of the rare class",
)
plt.show()

# %%
# Weights of rows
# ---------------
# A weight is a number of copies: the weight three is the row three times over, and zero is no row.
# So a large class can be thinned and its rows weighted up again, which keeps the probabilities
# true and saves time.
rng = np.random.RandomState(0)
kept = (y_train == 1) | (rng.uniform(size=len(y_train)) < 0.25)
weight = np.where(y_train == 1, 1.0, 4.0)[kept]
thinned = SparseGPClassifier(n_inducing=40).fit(X_train[kept], y_train[kept], sample_weight=weight)
proba = thinned.predict_proba(X_test)[:, 1]
print(f"{kept.sum()} of {len(kept)} rows, weighted: log loss {log_loss(y_test, proba):.3f}")
print(f"mean probability {proba.mean():.3f}, share of the rare class {y_test.mean():.3f}")
