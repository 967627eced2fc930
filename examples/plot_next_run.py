"""
Which run of a simulation comes next?
=====================================

A simulation takes hours, and we want its minimum. A Gaussian process learned from a few runs
predicts the outcome of any other run, with error bars. The *expected improvement* is high where the
prediction is low, and also where the error bars are wide. The next run is the one with the highest
expected improvement; then the model is learned again. This is Bayesian optimisation.
"""

# %%
# The simulation
# --------------
# The Branin function has three equal minima of 0.398. We pretend that each value is expensive, and
# begin with ten runs that cover both inputs evenly.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm, qmc
from sklearn.exceptions import ConvergenceWarning

from sparsegpc import SparseGPRegressor

LOWER, UPPER = np.array([-5.0, 0.0]), np.array([10.0, 15.0])


def simulate(X):
    """Return the Branin function of rows with two columns."""
    bowl = X[:, 1] - 5.1 / (4.0 * np.pi**2) * X[:, 0] ** 2 + 5.0 / np.pi * X[:, 0] - 6.0
    return bowl**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(X[:, 0]) + 10.0


def design(n_samples, seed):
    """Return rows that cover the range of each input evenly."""
    unit = qmc.LatinHypercube(2, seed=seed).random(n_samples)
    return qmc.scale(unit, LOWER, UPPER)


X = design(10, seed=0)
y = simulate(X)

# %%
# Expected improvement
# --------------------
# The runs are exact, so the improvement is that of f, whose moments the model returns. With
# ``normalize_y=True`` the unit of y does not matter. The warning that the noise is at its lower
# limit is what exact runs cause.
warnings.simplefilter("ignore", ConvergenceWarning)


def expected_improvement(model, candidates, best):
    """Return how far f is expected to lie below the best value so far, (n,)."""
    mean, variance = model.latent_mean_and_variance(candidates)
    deviation = np.sqrt(variance)
    score = (best - mean) / deviation
    return deviation * (score * norm.cdf(score) + norm.pdf(score))


for run in range(20):
    model = SparseGPRegressor(normalize_y=True).fit(X, y)
    candidates = design(2000, seed=run + 1)
    gain = expected_improvement(model, candidates, y.min())
    chosen = candidates[[gain.argmax()]]
    X, y = np.vstack([X, chosen]), np.append(y, simulate(chosen))
    if run % 5 == 4:
        print(f"after {len(y)} runs: lowest value {y.min():.3f}")

# %%
# The runs
# --------
# Circles are the first ten runs, and crosses those that were chosen. Most of them are near the
# three minima; the others are where the model was uncertain.
grid = np.stack(np.meshgrid(*np.linspace(LOWER, UPPER, 80).T, indexing="ij"), axis=-1)
rows = grid.reshape(-1, 2)
model = SparseGPRegressor(normalize_y=True).fit(X, y)
panels = {"predicted value": model.predict(rows), "true value": simulate(rows)}
figure, axes = plt.subplots(1, 2, figsize=(9.0, 4.2), sharey=True, layout="constrained")
style = {"levels": np.geomspace(0.3, 300.0, 13), "norm": "log", "cmap": "Blues_r", "extend": "both"}
for ax, (title, values) in zip(axes, panels.items(), strict=True):
    ax.contourf(*grid.T, values.reshape(80, 80).T, **style)
    ax.plot(*X[:10].T, "o", color="white", markeredgecolor="black", label="first runs")
    ax.plot(*X[10:].T, "x", color="black", label="chosen runs")
    ax.set(title=title, xlabel="input 1")
axes[0].set_ylabel("input 2")
axes[0].legend(loc="upper right")
plt.show()

# %%
# Constraints, failed runs and draws of f are in the :ref:`user guide <simulations>`.
