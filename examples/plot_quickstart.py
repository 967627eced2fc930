"""
How do I fit a first model?
===========================

Call ``fit`` of an estimator with its defaults. This example fits two classes with thirty columns,
shows the attributes of the model, and fits a first regression.
"""

# %%
# Classification
# --------------
# The model learns its kernel and chooses its inducing points. The kernel has a length scale for
# each column, so the columns may have different units. scikit-learn's full Gaussian process and
# logistic regression, which need scaled columns, are fitted to the same rows.
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import SparseGPClassifier, SparseGPRegressor

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
model = SparseGPClassifier()
others = [
    make_pipeline(StandardScaler(), GaussianProcessClassifier(ConstantKernel() * RBF())),
    make_pipeline(StandardScaler(), LogisticRegression()),
]
print(f"{len(y_train)} training rows, {len(y_test)} test rows")
print(f"{'':26s}{'accuracy':>9s}{'log loss':>9s}{'seconds':>9s}")
for each in (model, *others):
    start = time.perf_counter()
    each.fit(X_train, y_train)
    seconds = time.perf_counter() - start
    loss = log_loss(y_test, each.predict_proba(X_test))
    name = type(each if each is model else each[-1]).__name__
    print(f"{name:26s}{each.score(X_test, y_test):9.3f}{loss:9.4f}{seconds:9.2f}")

# %%
# The learned model
# -----------------
# ``lower_bound_`` is a lower bound on the log marginal likelihood of the training rows. The
# certificate tells how far the model is from one with a point at every row, given the same sites.
# ``feature_relevance_`` holds the standard deviation of each column divided by its length scale.
# It tells how fast f varies along a column. Here that is similar for all columns, since the data do
# not call for anything else.
print(f"{len(model.inducing_points_)} inducing points, bound {model.lower_bound_:.2f} nats")
print(model.certificate(X_train, y_train))
relevance = model.feature_relevance_
print(f"relevance of the columns from {relevance.min():.4f} to {relevance.max():.4f}")

# %%
# Probabilities and their uncertainty
# -----------------------------------
# A probability near one half may mean that both classes are likely, or that there are few rows
# nearby. The interval distinguishes the two cases: it is narrow in the first and wide in the
# second.
proba = model.predict_proba(X_test)[:, 1]
low, high = (ends[:, 1] for ends in model.predict_proba_interval(X_test))
order = np.argsort(proba)
place = np.arange(len(order))
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.vlines(place, low[order], high[order], color="0.75", lw=1.5, label="95 % interval")
for label, colour, marker in ((0, "tab:orange", "s"), (1, "tab:blue", "o")):
    of_class = y_test[order] == label
    axes.plot(
        place[of_class],
        proba[order][of_class],
        marker,
        color=colour,
        ms=4,
        label=f"{load_breast_cancer().target_names[label]} (true class)",
    )
axes.set(xlabel="test rows, sorted", ylabel="probability of benign", ylim=(-0.02, 1.02))
axes.legend(loc="upper left")
plt.show()

# %%
# Regression
# ----------
# ``return_std`` returns the standard deviation of a new target. ``latent_mean_and_variance``
# returns the moments of the function without noise.
X, y = load_diabetes(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
regressor = SparseGPRegressor().fit(X_train, y_train)
mean, std = regressor.predict(X_test, return_std=True)
inside = np.abs(y_test - mean) < 2.0 * std
print(f"R2 {regressor.score(X_test, y_test):.3f}")
print(f"{inside.mean():.0%} of the test targets are within two standard deviations")
