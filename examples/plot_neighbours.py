"""
Do the nearest rows know more than the points?
==============================================

A function that varies fast needs many inducing points. ``LocalCorrection`` predicts from a few of
them and from the training rows that are nearest to the row to predict.
"""

# %%
# The data
# --------
# A chirp: the frequency of the wave grows with x. Of 600 noisy rows, 20 become inducing points.
# With so few, the regressor learns a smooth function and takes the fast waves for noise.
import matplotlib.pyplot as plt
import numpy as np

from sparsegpc import LocalCorrection, SparseGPRegressor


def wave(x):
    return np.sin(0.5 * x**2)


rng = np.random.RandomState(0)
X = rng.uniform(0.0, 10.0, size=(600, 1))
y = wave(X[:, 0]) + 0.1 * rng.normal(size=600)

model = LocalCorrection(SparseGPRegressor(n_inducing=20), n_neighbors=20).fit(X, y)

# %%
# What the training rows say
# --------------------------
# Some training rows are predicted in five ways, each without itself: from the points, from points
# and neighbours, and from the neighbours alone; the last two also with hyperparameters that are
# learned again from blocks of neighbouring rows. The way with the highest mean log density, in
# nats, is chosen, unless its advantage may be chance.
for choice, score in model.validation_scores_.items():
    print(f"{choice:21s} {score:6.2f}")
print("chosen:", model.mode_, "relearned" if model.relearned_ else "as learned")

# %%
# The noise has a standard deviation of 0.1.
deviations = [fit.noise_variance_**0.5 for fit in (model.estimator_, model.corrected_estimator_)]
print("learned: {:.2f}, and once more: {:.2f}".format(*deviations))

# %%
# Two bands
# ---------
# Twenty points cannot follow the fast waves; the band tells so. The neighbours can. The corrected
# mean may jump slightly where the set of neighbours changes.
grid = np.linspace(0.0, 10.0, 500)[:, None]
figure, axes = plt.subplots(2, sharex=True, sharey=True, figsize=(8.0, 5.0), layout="constrained")
models = {"20 inducing points": model.estimator_, "and 20 neighbours": model}
for ax, (title, fitted) in zip(axes, models.items(), strict=True):
    mean = fitted.predict(grid)
    lower, upper = fitted.predict_interval(grid, coverage=0.95)
    ax.plot(X[:, 0], y, ".", color="0.7", markersize=3, label="rows")
    ax.plot(grid[:, 0], wave(grid[:, 0]), "k:", linewidth=1, label="true function")
    ax.plot(grid[:, 0], mean, label="mean")
    ax.fill_between(grid[:, 0], lower, upper, alpha=0.3, label="95 % of y")
    ax.set_title(title)
axes[0].plot(model.estimator_.inducing_points_[:, 0], np.full(20, -2.0), "k|", label="points")
axes[0].set_ylim(-2.3, 2.8)
axes[0].legend(ncols=5, loc="upper center", fontsize="small")
axes[1].set_xlabel("x")
plt.show()
