"""
What if the noise differs from row to row?
==========================================

This example compares three models of the noise: one variance for all rows, a polynomial, and a
second Gaussian process. The targets are a smooth function plus noise whose variance is quadratic in
x, as in Figure 3.1 of Passerello (2021).
"""

# %%
# The data
# --------
import matplotlib.pyplot as plt
import numpy as np

from sparsegpc import SparseGPRegressor
from sparsegpc.displays import RegressionDisplay


def function(x):
    """Return the true function."""
    return np.sin(1.5 * x) + 0.3 * x


def noise_std(x):
    """Return the true standard deviation of the noise."""
    return 0.02 + 0.12 * x


def draw_rows(n_rows, rng):
    """Return rows and noisy targets."""
    X = rng.uniform(0.0, 6.0, size=(n_rows, 1))
    return X, function(X[:, 0]) + noise_std(X[:, 0]) * rng.standard_normal(n_rows)


# sphinx_gallery_thumbnail_number = 2
rng = np.random.RandomState(0)
X, y = draw_rows(300, rng)
X_test, y_test = draw_rows(2000, rng)

# %%
# Three models of the noise
# -------------------------
# The log density of test targets measures the quality of mean and noise together; higher is better.
# A single variance is far too large on the left and too small on the right.
models = {
    noise: SparseGPRegressor(noise=noise).fit(X, y)
    for noise in ("homoscedastic", "polynomial", "gp")
}
print(f"{'noise':15s}{'bound':>9s}{'test log density':>18s}{'error of the noise std':>24s}")
for noise, model in models.items():
    density = model.log_predictive_density(X_test, y_test).mean()
    error = np.abs(model.predict_noise_std(X_test) - noise_std(X_test[:, 0])).mean()
    print(f"{noise:15s}{model.lower_bound_:9.2f}{density:18.3f}{error:24.3f}")

# %%
# Bands of f and of y
# -------------------
# The dark band contains the function with a probability of 95 %, and gets narrower with more rows.
# The light band contains a new target and includes the noise. The ticks at the bottom are the
# inducing points.
titles = {
    "homoscedastic": "One noise variance for all rows",
    "polynomial": "Log variance a quadratic polynomial",
    "gp": "Log variance a second Gaussian process",
}
x = np.linspace(0.0, 6.0, 300)
figure, panels = plt.subplots(
    3, 1, figsize=(6.4, 10.0), sharex=True, sharey=True, layout="constrained"
)
for axes, (noise, model) in zip(panels, models.items(), strict=True):
    RegressionDisplay.from_estimator(model, X, y, ax=axes)
    axes.plot(x, function(x), "k--", lw=1, label="true function")
    axes.set(title=titles[noise], ylim=(-2.8, 4.5), xlabel="x", ylabel="y")
    axes.label_outer()
    axes.get_legend().remove()
panels[0].legend(loc="upper left", fontsize=8, ncols=2)
plt.show()

# %%
# The standard deviation of the noise
# -----------------------------------
figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
axes.plot(x, noise_std(x), "k--", lw=1, label="truth")
for noise, model in models.items():
    axes.plot(x, model.predict_noise_std(x[:, None]), label=noise)
axes.set(xlabel="x", ylabel="standard deviation of the noise", xlim=(0.0, 6.0), ylim=(0.0, None))
axes.legend()
plt.show()
