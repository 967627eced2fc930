"""
How do I predict grades?
========================

Grades, stages and ratings are classes with an order. ``likelihood="ordinal-logit"`` fits a single
function f of the columns, and cut points between the classes. This example grades the progression
of diabetes from records of 110 patients, and compares with the default, which ignores the order.
"""

# %%
# Two models
# ----------
# Classes are in the order of their sorted labels, so the grades are numbers here. For strings such
# as "mild" and "severe" take codes. Each quarter of the patients serves once as training set, and
# the others as test set. The ranked probability score is a squared error of the cumulative
# probabilities: the further a probability is from the right grade, the more it counts. ``predict``
# returns the most probable grade. If large mistakes cost more, take the median, the first grade at
# which the cumulative probability reaches one half.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

from sparsegpc import SparseGPClassifier

X, progression = load_diabetes(return_X_y=True, as_frame=True)
y = np.digitize(progression, [75, 125, 175, 250])
n_grades = 5
models = {
    name: SparseGPClassifier(likelihood=name, main_effects=False)
    for name in ("ordinal-logit", "softmax")
}


def scores(y, proba):
    """Return the log loss, the ranked probability score, and shares of predictions far off."""
    below = y[:, None] <= np.arange(n_grades)
    cumulative = proba.cumsum(axis=1)
    ranked = np.mean(np.sum((cumulative - below) ** 2, axis=1))
    predictions = proba.argmax(axis=1), (cumulative < 0.5).sum(axis=1)
    return log_loss(y, proba), ranked, *(np.mean(np.abs(k - y) >= 2) for k in predictions)


quarters = list(StratifiedKFold(4, shuffle=True, random_state=0).split(X, y))
print(f"{'':15s}{'log loss':>9s}{'ranked prob.':>14s}   off by 2 or more: predicted, median")
for name, model in models.items():
    found = []
    for test, train in quarters:
        proba = model.fit(X.iloc[train], y[train]).predict_proba(X.iloc[test])
        found.append(scores(y[test], proba))
    loss, ranked, predicted, median = np.mean(found, axis=0)
    print(f"{name:15s}{loss:9.3f}{ranked:14.3f}{predicted:30.1%}{median:8.1%}")

# %%
# Probabilities of the grades
# ---------------------------
# The first two panels show the probabilities of all grades, from the lowest at the bottom, if a
# patient with median values had another body mass index. The models are those of the last quarter.
# With an order the boundaries, which are the cumulative probabilities, fall together. Without one
# each grade has a function of its own. The third panel shows the grades as functions of f, and the
# cut points as lines.
figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.6), layout="constrained")
steps = np.linspace(*X["bmi"].quantile([0.01, 0.99]), 100)
patients = X.median().to_frame().T.loc[np.zeros(100, dtype=int)].assign(bmi=steps)
colours = plt.get_cmap("viridis")(np.linspace(0.1, 0.95, n_grades))
for ax, (name, model) in zip(axes, models.items(), strict=False):
    proba = model.predict_proba(patients)
    ax.stackplot(steps, proba.T, colors=colours, labels=[f"grade {k}" for k in range(n_grades)])
    ax.set(title=name, xlabel="body mass index, standardised", xlim=steps[[0, -1]], ylim=(0, 1))
axes[0].set_ylabel("probability")
model = models["ordinal-logit"]
f = np.linspace(-4.0, model.likelihood_.cut_points[-1] + 4.0, 200)
axes[2].stackplot(f, model.likelihood_.probabilities(f[None]).T, colors=colours)
for cut in model.likelihood_.cut_points:
    axes[2].axvline(cut, color="white", lw=1)
axes[2].set(title="ordinal-logit, at given f", xlabel="f", xlim=f[[0, -1]], ylim=(0, 1))
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=n_grades)
plt.show()
