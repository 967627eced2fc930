"""
How long will machines last, if many still run?
===============================================

This example learns durations of which some are censored: when the data were collected, these
machines still ran, so their durations are only known to be longer. It compares the learned survival
functions with Kaplan-Meier estimates, and shows what goes wrong without the censored rows.
"""

# %%
# The data
# --------
# Machines run under different loads. The typical duration falls with the load, but not in a
# straight line. Each machine was observed for a random time; those that outlasted it are censored.
import matplotlib.pyplot as plt
import numpy as np

from sparsegpc import SparseGPGeneralizedRegressor


def typical_duration(load):
    """Return the scale of the durations, in months."""
    return 12.0 + 20.0 / (1.0 + np.exp(12.0 * (load - 0.5)))


rng = np.random.RandomState(0)
load = rng.uniform(0.0, 1.0, 600)
X = load[:, None]
duration = typical_duration(load) * rng.weibull(2.0, 600)
observed_for = rng.uniform(6.0, 48.0, 600)
event = duration <= observed_for
time = np.minimum(duration, observed_for)
print(f"{(~event).mean():.0%} of {len(time)} machines still ran")

# %%
# Which distribution?
# -------------------
# Both are bounds on the log density of the same data, so the higher one belongs to the more
# probable model. The shape of the Weibull distribution was 2; a shape above 1 means that machines
# wear out.
models = {
    name: SparseGPGeneralizedRegressor(likelihood=name).fit(X, time, event=event)
    for name in ("weibull", "log-normal")
}
for name, model in models.items():
    print(f"{name:12s} bound {model.lower_bound_:8.1f}   shape {model.likelihood_.shape:.2f}")
model = models["weibull"]

# %%
# Survival functions
# ------------------
# The Kaplan-Meier estimate multiplies, over the times of events, the shares of machines still at
# risk that survived. It ignores the load, so each of its curves uses the machines with a load close
# to a given one; the model uses all machines for each curve.


def kaplan_meier(time, event):
    """Return the times of events and the estimated probabilities of surviving them."""
    times = np.unique(time[event])
    at_risk = (time >= times[:, None]).sum(axis=1)
    ended = ((time == times[:, None]) & event).sum(axis=1)
    return times, np.cumprod(1.0 - ended / at_risk)


months = np.linspace(0.1, 48.0, 200)
figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
for centre, color in ((0.15, "tab:blue"), (0.5, "tab:green"), (0.85, "tab:red")):
    near = np.abs(load - centre) < 0.1
    times, survival = kaplan_meier(time[near], event[near])
    axes.step([0.0, *times], [1.0, *survival], where="post", color=color, alpha=0.6, lw=1)
    (learned,) = model.survival_function([[centre]], months)
    axes.plot(months, learned, color=color, lw=2, label=f"load {centre}")
axes.plot([], [], color="grey", alpha=0.6, lw=1, label="Kaplan-Meier")
axes.set(xlabel="months", ylabel="share that still runs", xlim=(0.0, 48.0), ylim=(0.0, 1.02))
axes.legend()
plt.show()

# %%
# Without the censored rows
# -------------------------
# Machines that ended while they were observed are those that ended early. A model of these alone,
# or one that takes the end of the observation for the end of the machine, predicts too short a
# life.
grid = np.linspace(0.0, 1.0, 100)
fits = {
    "censored rows as such": model,
    "only machines that ended": SparseGPGeneralizedRegressor(likelihood="weibull").fit(
        X[event], time[event]
    ),
    "all taken for ended": SparseGPGeneralizedRegressor(likelihood="weibull").fit(X, time),
}
truth = typical_duration(grid) * np.log(2.0) ** 0.5
figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
axes.plot(grid, truth, "k--", lw=1, label="true median")
for name, fitted in fits.items():
    median = fitted.predict_quantiles(grid[:, None], 0.5)
    axes.plot(grid, median, label=name)
    print(f"{name:26s} mean error of the median {np.mean(median - truth):5.1f} months")
axes.plot(load[event], time[event], ".", color="grey", ms=3, alpha=0.6, label="ended")
axes.plot(load[~event], time[~event], "^", color="tab:olive", ms=3, alpha=0.6, label="still ran")
axes.set(xlabel="load", ylabel="months", xlim=(0.0, 1.0), ylim=(0.0, 50.0))
axes.legend(ncols=2, fontsize=8)
plt.show()
