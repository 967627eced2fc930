"""
What if a gauge has a limit?
============================

This example learns from readings of a gauge that shows nothing above its limit. Such a reading is
censored: the number is only known to be larger. The example compares what is learned if the model
knows that, if it takes the limit for the number, and if these rows are left out.
"""

# %%
# The data
# --------
# The water level at a coast over five days, in metres above a mark. The gauge shows 6 at most.
import matplotlib.pyplot as plt
import numpy as np

from sparsegpc import SparseGPRegressor

LIMIT = 6.0


def level(day):
    """Return the mean level at a time in days."""
    return 4.0 + 3.5 * np.sin(2.0 * np.pi * day) + np.cos(2.0 * np.pi * day / 5.0)


rng = np.random.RandomState(0)
day = np.sort(rng.uniform(0.0, 5.0, 400))
number = level(day) + 0.6 * rng.normal(size=400)
reading, observed = np.minimum(number, LIMIT), number < LIMIT
print(f"{np.mean(~observed):.0%} of {len(day)} readings are at the limit")

# %%
# Three models
# ------------
# ``event`` is 1, or True, where the number was observed, and 0 where the reading is a lower limit.
# At an upper limit it would be -1.
X = day[:, None]
models = {
    "limits as such": SparseGPRegressor().fit(X, reading, event=observed),
    "limits taken for numbers": SparseGPRegressor().fit(X, reading),
    "without these rows": SparseGPRegressor().fit(X[observed], reading[observed]),
}
for name, model in models.items():
    lower, upper = model.predict_interval(X)
    inside = np.mean((lower < number) & (number < upper))
    noise = np.sqrt(model.noise_variance_)
    print(f"{name:25s} noise {noise:.2f}, 90 % intervals contain {inside:.0%} of the numbers")

# %%
# The standard deviation of the noise was 0.6.
#
# What they predict
# -----------------
# Where most numbers exceed the limit, the first model knows little more than that, so its band is
# wide.
grid = np.linspace(0.0, 5.0, 400)
figure, axes = plt.subplots(3, 1, figsize=(7.0, 7.5), sharex=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    mean, variance = model.latent_mean_and_variance(grid[:, None])
    margin = 1.645 * np.sqrt(variance)
    ax.fill_between(grid, mean - margin, mean + margin, color="tab:blue", alpha=0.3, lw=0)
    ax.plot(grid, mean, color="tab:blue", label="mean of f, 90 % band")
    ax.plot(grid, level(grid), "k--", lw=1, label="true level")
    ax.plot(day[observed], reading[observed], ".", color="0.5", ms=3, label="reading")
    if "without" not in name:
        ax.plot(
            day[~observed], reading[~observed], "^", color="tab:red", ms=3, label="at the limit"
        )
    ax.set(title=name, ylabel="level", ylim=(-2.0, 11.0))
axes[0].legend(loc="upper center", ncols=4, fontsize="small")
axes[-1].set_xlabel("day")
plt.show()

# %%
# Probabilities of readings
# -------------------------
# Predictions are of the number, not of the reading. A reading is at the limit if the number exceeds
# it:
model = models["limits as such"]
at_limit = model.predict_exceedance(X, LIMIT)
high = at_limit > 0.8
print(f"{at_limit[high].mean():.0%} predicted, {np.mean(~observed[high]):.0%} found at the limit")
