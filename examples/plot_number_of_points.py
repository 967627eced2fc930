"""
How many inducing points do I need?
===================================

Beside the default there are four ways to choose: add points until the certificate is small, compare
smaller numbers of points, remove points that add little, or search by cross-validation.
"""

# %%
# By the certificate
# ------------------
# ``n_inducing="auto"`` doubles the number of points until the gap of the certificate is at most
# ``certificate_tol`` nats per row, or until more points gain little. No rows are held out. The
# tolerance here is a tenth of the default.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import SparseGPClassifier
from sparsegpc.displays import SparsityDisplay

# sphinx_gallery_thumbnail_number = 2
X, y = load_breast_cancer(return_X_y=True)
grown = make_pipeline(
    StandardScaler(), SparseGPClassifier(n_inducing="auto", certificate_tol=1e-3)
).fit(X, y)
gp = grown[-1]
print(f"{len(y)} rows; growth ended because: {gp.growth_end_}")
for step in gp.growth_:
    print(
        f"{step['n_inducing']:4d} points: bound {step['lower_bound']:7.2f} nats, "
        f"at most {step['gap_per_row']:.5f} nats per row are missing"
    )

# %%
# By the cost of fewer points
# ---------------------------
# Points are chosen one after the other, so the first m of them are a selection of m points. The
# display shows bound and certificate for each m, with the learned kernel. Where the bound is level
# and the certificate small, more points do not help.
figure, axes = plt.subplots(2, 1, figsize=(6.4, 7.5), layout="constrained")
display = SparsityDisplay.from_estimator(grown, X, y, ax=axes)
plt.show()

# %%
# By what each point adds
# -----------------------
# ``point_cost`` removes the points that add less to the bound than so many nats. A cost near zero
# removes hardly any, but leaves the points in the order of their worth: the last ones are those
# that a higher cost would remove. So the first m of them are a better choice of m points than the
# first m that were chosen, which had to be good for any labels.
worth = make_pipeline(
    StandardScaler(),
    SparseGPClassifier(n_inducing="auto", certificate_tol=1e-3, point_cost=1e-3),
).fit(X, y)
rows, ordered = worth[:-1].transform(X), worth[-1]
sizes = np.unique(np.geomspace(5, len(ordered.inducing_points_), 14).astype(int))

figure, axes = plt.subplots(2, 1, figsize=(6.4, 7.0), layout="constrained")
for model, label in ((gp, "as chosen"), (ordered, "by worth")):
    bounds = [model.truncate(m, rows, y).lower_bound_ for m in sizes]
    axes[0].plot(sizes, bounds, "o-", markersize=4, label=label)
axes[0].set(xlabel="inducing points", ylabel="lower bound, nats")
axes[0].legend(title="the first points", frameon=False)
for cost in (0.3, 1.0):
    few = clone(ordered).set_params(point_cost=cost).fit(rows, y)
    gains = np.sort(few.point_gains(rows, y))[::-1]
    print(f"cost {cost}: {len(gains)} points, bound {few.lower_bound_:.2f}")
    axes[1].plot(np.arange(1, len(gains) + 1), gains, "o", markersize=4, label=f"cost {cost:g}")
    axes[1].axhline(cost, color=axes[1].lines[-1].get_color(), linewidth=0.8)
axes[1].set(yscale="log", xlabel="inducing points that are left", ylabel="gain, nats")
axes[1].legend(frameon=False)
plt.show()

# %%
# By cross-validation
# -------------------
# The search minimises the log loss of held-out rows. It needs fewer points than the certificate,
# which bounds the error of the whole posterior: with ten points or more, the differences are
# smaller than the error bars.
sizes = [5, 10, 20, 40, 80]
search = GridSearchCV(
    make_pipeline(StandardScaler(), SparseGPClassifier(selection_tol=0.0)),
    {"sparsegpclassifier__n_inducing": sizes},
    scoring="neg_log_loss",
    cv=3,
).fit(X, y)
found = search.cv_results_
print(f"best by log loss: {search.best_params_['sparsegpclassifier__n_inducing']} points")

figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
error = found["std_test_score"] / np.sqrt(search.n_splits_)
axes.errorbar(sizes, -found["mean_test_score"], error, fmt="o-", capsize=3)
axes.set(xlabel="inducing points", ylabel="log loss of 3 folds, nats per row", xscale="log")
axes.set_xticks(sizes, sizes)
axes.minorticks_off()
plt.show()
