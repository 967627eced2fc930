"""
What if some targets are plainly wrong?
=======================================

A few targets far from all others, such as failures of a sensor, pull the prediction towards them
and make the noise look large. ``noise="student-t"`` models noise with outliers: the further a
target is from what the other rows suggest, the less it counts.
"""

# %%
# The data
# --------
# A smooth function with a little noise. One target in ten is wrong, most of them too high.
import matplotlib.pyplot as plt
import numpy as np

from sparsegpc import SparseGPRegressor
from sparsegpc.displays import RegressionDisplay


def function(x):
    """Return the true function."""
    return np.sin(1.5 * x) + 0.3 * x


rng = np.random.RandomState(0)
X = rng.uniform(0.0, 6.0, size=(120, 1))
y = function(X[:, 0]) + 0.1 * rng.standard_normal(120)
wrong = rng.choice(120, 12, replace=False)
y[wrong] += rng.choice([-1.0, 1.0], 12, p=[0.25, 0.75]) * rng.uniform(1.0, 4.0, 12)

# %%
# Gaussian and Student-t noise
# ----------------------------
# The error is that of the predicted function. The bound on the log marginal likelihood tells which
# noise suits the data better, without knowledge of the truth. With Gaussian noise, a warning says
# that the residuals look like those of outliers.
x = np.linspace(0.0, 6.0, 300)
models = {
    "Gaussian noise": SparseGPRegressor().fit(X, y),
    "Student-t noise": SparseGPRegressor(noise="student-t").fit(X, y),
}
for name, model in models.items():
    error = np.sqrt(np.mean((model.predict(x[:, None]) - function(x)) ** 2))
    print(f"{name:16s} bound {model.lower_bound_:7.1f}, error {error:.3f}")
robust = models["Student-t noise"]
print(f"degrees of freedom {robust.noise_df_:.2f}, scale {robust.noise_scale_:.3f}")

# %%
# Intervals
# ---------
# The dark band contains the function with a probability of 90 %, the light band a new target. Under
# Student-t noise both are narrow. With so few degrees of freedom the standard deviation of y is
# infinite, or nearly so: the ends of the light band are quantiles, as in ``predict_interval``.
figure, panels = plt.subplots(
    2, 1, figsize=(6.4, 7.0), sharex=True, sharey=True, layout="constrained"
)
for axes, (name, model) in zip(panels, models.items(), strict=True):
    RegressionDisplay.from_estimator(model, X, y, ax=axes, coverage=0.9)
    axes.plot(x, function(x), "k--", lw=1, label="true function")
    axes.set(title=name, ylim=(-3.0, 6.5), xlabel="x", ylabel="y")
    axes.label_outer()
    axes.get_legend().remove()
panels[0].legend(loc="upper left", fontsize=8, ncols=2)
plt.show()
