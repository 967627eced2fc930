"""
Counts in periods of unequal length
===================================

Somebody counts cyclists on a bridge, now for ten minutes, now for three hours. How many come in an
hour, and how sure is that? This example compares counts by a Gaussian process with
scikit-learn's linear and boosted Poisson regressions.
"""

# %%
# Data
# ----
# The rate depends on the hour of the day. It also varies with what is not recorded, such as the
# weather, so that counts vary more than those of a Poisson distribution. Each count refers to its
# own *exposure*, the hours during which somebody counted.
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import poisson
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import d2_tweedie_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from sparsegpc import SparseGPGeneralizedRegressor


def true_rate(hour):
    """Return cyclists per hour: two rush hours over a slow wave."""
    rush = np.exp(-0.5 * (hour - 8.0) ** 2) + 1.3 * np.exp(-0.3 * (hour - 17.5) ** 2)
    return np.exp(2.2 + 0.8 * np.sin((hour - 7.0) * np.pi / 12.0) + 1.2 * rush)


def draw(n, rng):
    """Return hours of the day (n, 1), exposures and counts."""
    hour, exposure = rng.uniform(0.0, 24.0, n), rng.choice([1 / 6, 1.0, 3.0], n)
    weather = rng.gamma(5.0, size=n) / 5.0
    return hour[:, None], exposure, rng.poisson(exposure * true_rate(hour) * weather)


rng = np.random.RandomState(0)
X, exposure, y = draw(250, rng)
X_new, exposure_new, y_new = draw(5000, rng)

# %%
# Models
# ------
# The Gaussian process takes the exposure as an argument of ``fit`` and ``predict``. The negative
# binomial distribution is its default for counts. scikit-learn's models fit rates, with the
# exposures as weights; to the linear one we give splines of the hour.
gp = SparseGPGeneralizedRegressor().fit(X, y, exposure=exposure)
gp_poisson = SparseGPGeneralizedRegressor(likelihood="poisson").fit(X, y, exposure=exposure)
splines = make_pipeline(SplineTransformer(12), PoissonRegressor(alpha=1e-3, max_iter=1000))
splines.fit(X, y / exposure, poissonregressor__sample_weight=exposure)
boosting = HistGradientBoostingRegressor(loss="poisson", random_state=0)
boosting.fit(X, y / exposure, sample_weight=exposure)

rates = {
    "negative binomial": gp.predict(X_new),
    "Poisson": gp_poisson.predict(X_new),
    "PoissonRegressor": splines.predict(X_new),
    "HistGradientBoosting": boosting.predict(X_new),
}
print(f"size of the negative binomial distribution (true value 5): {gp.likelihood_.size:.1f}")
print(f"bounds: negative binomial {gp.lower_bound_:.0f}, Poisson {gp_poisson.lower_bound_:.0f}")

# %%
# Intervals
# ---------
# The Gaussian processes have predictive intervals, for which the exposure matters. To the other
# models we give those of a Poisson distribution at their mean.


def intervals(name, coverage):
    """Return the ends of intervals for the new counts."""
    if name in ("negative binomial", "Poisson"):
        model = gp if name == "negative binomial" else gp_poisson
        return model.predict_interval(X_new, coverage, exposure=exposure_new)
    return poisson(exposure_new * rates[name]).interval(coverage)


def share_inside(name, coverage):
    """Return the share of new counts in their intervals."""
    lower, upper = intervals(name, coverage)
    return np.mean((lower <= y_new) & (y_new <= upper))


print(f"{'':22s}{'explained deviance':>20s}{'in intervals of 90 %':>22s}")
for name, rate in rates.items():
    explained = d2_tweedie_score(y_new / exposure_new, rate, sample_weight=exposure_new, power=1)
    print(f"{name:22s}{explained:20.3f}{share_inside(name, 0.9):22.2f}")

# %%
colours = {
    "negative binomial": "tab:blue",
    "Poisson": "tab:cyan",
    "PoissonRegressor": "0.5",
    "HistGradientBoosting": "tab:orange",
}
figure, (left, right) = plt.subplots(
    1, 2, figsize=(11.0, 4.6), layout="constrained", width_ratios=[1.7, 1.0]
)
hours = np.linspace(0.0, 24.0, 300)[:, None]
lower, upper = gp.predict_interval(hours, 0.9)
left.fill_between(
    hours[:, 0], lower, upper, step="mid", color="tab:blue", alpha=0.12, lw=0,
    label="90 % of counts in one hour",
)  # fmt: skip
left.scatter(X[:, 0], y / exposure, s=6 + 14 * exposure, color="k", alpha=0.3, lw=0)
left.plot(hours, true_rate(hours), "k:", lw=1.5, label="true rate")
left.plot(hours, gp.predict(hours), color="tab:blue", lw=2, label="negative binomial")
left.plot(hours, splines.predict(hours), color="0.5", lw=1.2, label="PoissonRegressor")
left.plot(hours, boosting.predict(hours), color="tab:orange", lw=1.2, label="HistGradientBoosting")
left.set(
    xlabel="hour of the day",
    ylabel="cyclists per hour",
    xlim=(0, 24),
    ylim=(0, 115),
    title="Rates; the area of a point grows with its exposure",
)
left.legend(frameon=False, loc="upper left")

nominal = np.array([0.3, 0.5, 0.7, 0.8, 0.9, 0.95])
for name, colour in colours.items():
    shares = [share_inside(name, coverage) for coverage in nominal]
    right.plot(nominal, shares, "o-", color=colour, ms=4, label=name)
right.plot([0.3, 1.0], [0.3, 1.0], "k:", lw=1, label="nominal")
right.set(
    xlabel="probability of the interval",
    ylabel="share of new counts inside",
    title="Coverage",
)
right.legend(frameon=False, loc="upper left")
plt.show()

# %%
# Counts of ten minutes scatter most, and carry the least weight. Intervals that allow only the
# variation of a Poisson distribution are too narrow. Those of the Gaussian process with the Poisson
# likelihood are wider, since it mistakes the additional variation for variation of its function,
# which then follows single rows. The negative binomial intervals contain somewhat more than the
# nominal share, because counts are discrete.
