"""
Can I use the inducing points without a Gaussian process?
=========================================================

Yes. ``InducingPointSelector`` is a transformer. A linear model on its features is a kernel model.
"""

# %%
# With logistic regression
# ------------------------
# Inner products of the features are the Nyström approximation of the kernel at the chosen rows.
# scikit-learn's ``Nystroem`` draws rows with equal probabilities. If some groups of rows are dense
# and others wide, this leaves regions without a point; greedy selection does not.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes, make_blobs
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import InducingPointSelector

X, groups = make_blobs(1000, centers=8, cluster_std=[0.2] * 4 + [1.0] * 4, random_state=3)
y = groups % 2
sizes = (5, 10, 15, 20, 40)


def held_out_loss(mapping):
    """Return the log loss of logistic regression on these features, of three folds."""
    model = make_pipeline(mapping, LogisticRegression(C=10.0))
    return -cross_val_score(model, X, y, scoring="neg_log_loss", cv=3).mean()


chosen = [held_out_loss(InducingPointSelector(RBF(1.0), n_components=m, tol=0.0)) for m in sizes]
drawn = [
    [held_out_loss(Nystroem(gamma=0.5, n_components=m, random_state=seed)) for seed in range(3)]
    for m in sizes
]
print(f"{'points':>8s}{'chosen':>10s}{'drawn, mean of 3':>20s}")
for m, loss, losses in zip(sizes, chosen, drawn, strict=True):
    print(f"{m:8d}{loss:10.3f}{np.mean(losses):20.3f}")

# %%
figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
axes.plot(sizes, chosen, "o-", color="tab:blue", label="InducingPointSelector")
axes.plot(sizes, np.mean(drawn, axis=1), "s-", color="tab:orange", label="Nystroem, mean of 3")
axes.fill_between(
    sizes, np.min(drawn, axis=1), np.max(drawn, axis=1), color="tab:orange", alpha=0.2, lw=0
)
axes.set(xlabel="points", ylabel="log loss of 3 folds, nats per row", ylim=(0.0, None))
axes.legend()
plt.show()

# %%
# The selected rows
# -----------------
# These are the first ten points of both methods. The selector takes a point in each group before a
# second one in a dense group.
selector = InducingPointSelector(RBF(1.0), n_components=10, tol=0.0).fit(X)
random_rows = np.random.RandomState(0).choice(len(X), size=10, replace=False)
figure, axes = plt.subplots(figsize=(6.4, 5.0), layout="constrained")
axes.scatter(*X.T, s=5, c="0.8", lw=0, label="rows")
axes.scatter(*selector.inducing_points_.T, s=70, marker="o", c="tab:blue", label="chosen")
axes.scatter(*X[random_rows].T, s=50, marker="s", c="tab:orange", label="drawn")
axes.set(xlabel="first column", ylabel="second column", aspect="equal")
axes.legend()
plt.show()

# %%
# With ridge regression
# ---------------------
# A search can include the parameters of the selector. ``costs_`` lists the cost that remains after
# each point.
X, y = load_diabetes(return_X_y=True)
search = GridSearchCV(
    make_pipeline(StandardScaler(), InducingPointSelector(tol=0.0), Ridge()),
    {
        "inducingpointselector__n_components": [20, 50],
        "inducingpointselector__kernel": [RBF(5.0), RBF(10.0)],
        "ridge__alpha": [0.1, 1.0],
    },
).fit(X, y)
print(f"R2 of five folds {search.best_score_:.3f} with {search.best_params_}")
print("linear ridge regression:", end=" ")
print(f"{cross_val_score(make_pipeline(StandardScaler(), Ridge()), X, y).mean():.3f}")
