"""
How do I fit more than two classes?
===================================

In the same way as two classes. This example fits handwritten digits, with a function for each of
the ten classes and one kernel and set of inducing points for all. Then it fits rows with several
labels and counts of labels.
"""

# %%
# Ten digits
# ----------
# The default for more than two classes is ``likelihood="softmax"``. ``"dirichlet"`` is regression
# on transformed labels, which is faster. With a likelihood of two classes the estimator fits a
# model for each class against the rest. The columns are pixels, which all have the same unit, so
# one length scale suits them.
import time

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import SparseGPClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X / 16.0, y, train_size=400, stratify=y, random_state=0
)
settings = {"length_scales": "common", "main_effects": False, "n_inducing": 40}
models = {
    "softmax": SparseGPClassifier(**settings),
    "dirichlet": SparseGPClassifier(likelihood="dirichlet", **settings),
    "one against the rest": SparseGPClassifier(likelihood="bernoulli-logit", **settings),
    "logistic regression": LogisticRegression(max_iter=1000),
}
print(f"{len(y_train)} training rows, {len(y_test)} test rows")
print(f"{'':22s}{'accuracy':>9s}{'log loss':>10s}{'seconds':>9s}")
for name, model in models.items():
    start = time.perf_counter()
    model.fit(X_train, y_train)
    seconds = time.perf_counter() - start
    loss = log_loss(y_test, model.predict_proba(X_test))
    print(f"{name:22s}{model.score(X_test, y_test):9.3f}{loss:10.4f}{seconds:9.2f}")

# %%
# The least certain predictions
# -----------------------------
# The bars are probabilities, blue for the true class. Black lines are 95 % intervals.
model = models["softmax"]
n_drawn = 8
rows = np.argsort(model.predict_proba(X_test).max(axis=1))[:n_drawn]
proba, (low, high) = model.predict_proba(X_test[rows]), model.predict_proba_interval(X_test[rows])
figure = plt.figure(figsize=(6.4, 8.4), layout="constrained")
parts = figure.subfigures(n_drawn // 2, 2).flat
for part, row, p, a, b in zip(parts, rows, proba, low, high, strict=True):
    image, bars = part.subplots(1, 2, width_ratios=(1, 1.2))
    image.imshow(X_test[row].reshape(8, 8), cmap="gray_r")
    image.set_title(f"a {y_test[row]}", fontsize=10)
    image.set(xticks=[], yticks=[])
    colours = np.where(model.classes_ == y_test[row], "tab:blue", "0.7")
    bars.barh(model.classes_, p, color=colours)
    bars.hlines(model.classes_, a, b, color="black", lw=1)
    bars.set(xlim=(0, 1), yticks=model.classes_)
    bars.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
    bars.tick_params(labelsize=8, length=0)
    bars.invert_yaxis()
    bars.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Several labels for each row
# ---------------------------
# scikit-learn's ``MultiOutputClassifier`` fits a model for each label.
X, Y = make_multilabel_classification(800, n_features=10, n_classes=4, random_state=0)
X_train, X_test, Y_train, Y_test = train_test_split(X, Y, random_state=0)
for estimator in (SparseGPClassifier(n_inducing=50), LogisticRegression()):
    several = make_pipeline(StandardScaler(), MultiOutputClassifier(estimator))
    probabilities = several.fit(X_train, Y_train).predict_proba(X_test)
    losses = [log_loss(truth, p) for truth, p in zip(Y_test.T, probabilities, strict=True)]
    each = "  ".join(f"{loss:.3f}" for loss in losses)
    print(f"{type(estimator).__name__:20s} log loss of each label: {each}")

# %%
# Counts of labels
# ----------------
# Each row has 5 to 59 trials. Give it once for its successes and once for its failures, with the
# counts as weights.
rng = np.random.RandomState(0)
x = np.linspace(0.0, 10.0, 41)[:, None]
rate = expit(2.0 * np.sin(x[:, 0]))
trials = rng.randint(5, 60, size=len(x))
successes = rng.binomial(trials, rate)
counts = SparseGPClassifier().fit(
    np.concatenate([x, x]),
    np.repeat([1, 0], len(x)),
    sample_weight=np.concatenate([successes, trials - successes]),
)
low, high = (ends[:, 1] for ends in counts.predict_proba_interval(x))
print(f"mean error of the rate          {np.abs(counts.predict_proba(x)[:, 1] - rate).mean():.3f}")
print(f"mean error of successes/trials  {np.abs(successes / trials - rate).mean():.3f}")
print(f"true rates in their intervals   {np.mean((low <= rate) & (rate <= high)):.0%}")
