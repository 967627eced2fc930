"""
Which kernel, noise and columns? Ask the bound
==============================================

A search by the bound compares models without validation rows. Here eight models of the progress of
diabetes are compared in this way: two kernels, two kinds of noise, and columns as they are or as
normal scores. Cross-validation confirms the choice, and takes three times as long.
"""

# %%
# Eight candidates
# ----------------
# Each candidate is a combination of the parameters in the grid, and is fitted once. Its bound plus
# its log prior is a measure of the evidence for the model, in nats.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import BoundSearch, NormalScores, SparseGPRegressor

X, y = load_diabetes(return_X_y=True, scaled=False)
pipeline = make_pipeline(StandardScaler(), SparseGPRegressor(n_inducing=40, main_effects=False))
grid = {
    "sparsegpregressor__kernel": ["rbf", "matern32"],
    "sparsegpregressor__noise": ["homoscedastic", "gp"],
    "standardscaler": [StandardScaler(), NormalScores()],
}
search = BoundSearch(pipeline, grid).fit(X, y)


KERNELS = {"rbf": "RBF", "matern32": "Matérn 3/2"}
NOISES = {"homoscedastic": "one noise", "gp": "noise of x"}


def describe(parameters):
    """Return the names of the kernel, the noise and the columns of a candidate."""
    is_scored = isinstance(parameters["standardscaler"], NormalScores)
    return (
        KERNELS[parameters["sparsegpregressor__kernel"]],
        NOISES[parameters["sparsegpregressor__noise"]],
        "normal scores" if is_scored else "as they are",
    )


names = [describe(parameters) for parameters in search.results_["params"]]
bounds = search.results_["bound"]
print("chosen:", ", ".join(names[search.best_index_]))

# %%
# What cross-validation says
# --------------------------
# The mean log density of rows that the model has not seen measures predicted means and standard
# deviations together. It takes three fits for each candidate.


def validated_density(parameters):
    """Return the mean log density of held-out rows, in nats per row."""
    densities = []
    for train, test in KFold(3, shuffle=True, random_state=0).split(X):
        model = clone(pipeline).set_params(**parameters).fit(X[train], y[train])
        rows = model[:-1].transform(X[test])
        densities.append(model[-1].log_predictive_density(rows, y[test]))
    return np.concatenate(densities).mean()


densities = np.array([validated_density(parameters) for parameters in search.results_["params"]])
for name, bound, density in zip(names, bounds, densities, strict=True):
    text = ", ".join(name)
    print(f"{text:40s} bound {bound:8.1f}   density of new rows {density:.4f}")

# %%
# The two agree: the candidates at the upper right are good by both measures. Noise that depends on
# the row matters most.
styles = {"one noise": ("o", "tab:blue"), "noise of x": ("s", "tab:orange")}
figure, axes = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
for (kernel, noise, columns), bound, density in zip(names, bounds, densities, strict=True):
    marker, color = styles[noise]
    filled = color if columns == "normal scores" else "none"
    size = 60 if kernel == "RBF" else 130
    axes.scatter(bound, density, s=size, marker=marker, edgecolors=color, facecolors=filled)
best = search.best_index_
axes.annotate(
    "chosen",
    (bounds[best], densities[best]),
    xytext=(-8, -22),
    textcoords="offset points",
    ha="right",
    arrowprops={"arrowstyle": "-", "color": "0.4"},
)
axes.set(
    title="The bound of all rows, and the density of held-out rows",
    xlabel="bound (nats, 442 rows)",
    ylabel="log density of held-out rows (nats per row)",
)
for noise, (marker, color) in styles.items():
    axes.scatter([], [], s=60, marker=marker, edgecolors=color, facecolors="none", label=noise)
axes.scatter([], [], s=60, color="0.6", label="filled: normal scores")
axes.scatter([], [], s=130, edgecolors="0.6", facecolors="none", label="large: Matérn 3/2")
axes.legend(loc="upper left", fontsize=8)
plt.show()
