"""
Gaussian processes in pictures
==============================

What is a Gaussian process, a length scale, an inducing point, a bound? Six pictures for people who
have never used one.
"""

# %%
# A distribution of functions
# ---------------------------
# A Gaussian process says which functions are plausible before any data are seen, and which remain
# plausible afterwards. Left: five such functions. Right: five that remain after six measurements.
# They all pass near the points. Away from the points they differ, and there the band, which
# contains about 95 % of the functions at each x, is wide.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sparsegpc import HomoscedasticNoise, SparseGPClassifier, SparseGPRegressor

# sphinx_gallery_start_ignore
BLUE, ORANGE, GREY = "#2166ac", "#d95f02", "0.35"


def draw_band(axes, grid, mean, std, label=None, color=BLUE):
    """Draw a mean and the band of two standard deviations around it."""
    axes.fill_between(
        grid, mean - 2 * std, mean + 2 * std, color=color, alpha=0.2, lw=0, label=label
    )
    axes.plot(grid, mean, color=color, lw=2)


def draw_rows(axes, x, y, **kwargs):
    """Draw rows as points."""
    axes.plot(x, y, "o", **({"color": GREY, "ms": 4, "zorder": 3} | kwargs))


def finish(figure):
    """Remove what distracts."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    plt.show()


# sphinx_gallery_end_ignore
x = np.array([0.5, 1.2, 2.0, 2.4, 4.0, 4.4])
y = np.sin(2 * x)
grid = np.linspace(0.0, 6.0, 300)
before = GaussianProcessRegressor(RBF(0.7), alpha=0.01, optimizer=None)
after = GaussianProcessRegressor(RBF(0.7), alpha=0.01, optimizer=None).fit(x[:, None], y)

# sphinx_gallery_start_ignore
figure, panels = plt.subplots(1, 2, figsize=(6.4, 2.8), sharey=True, layout="constrained")
for axes, gp, title in zip(
    panels, (before, after), ("before any row", "after six rows"), strict=True
):
    mean, std = gp.predict(grid[:, None], return_std=True)
    axes.fill_between(grid, mean - 2 * std, mean + 2 * std, color=BLUE, alpha=0.15, lw=0)
    axes.plot(grid, gp.sample_y(grid[:, None], 5, random_state=4), lw=1, color=BLUE, alpha=0.7)
    axes.set(title=title, xlabel="x", ylim=(-3, 3))
draw_rows(panels[1], x, y, ms=6)
panels[0].set_ylabel("f(x)")
finish(figure)
# sphinx_gallery_end_ignore

# %%
# Length scale
# ------------
# The *length scale* is the distance over which the function changes. Too short, and the function
# follows every point. Too long, and it is too stiff. You need not choose it: each length scale has
# a score, the *log marginal likelihood*, and a fit searches for the highest. This score is the
# logarithm of the probability density that the model gives to the data. Its unit is the *nat*,
# that of natural logarithms.
rng = np.random.RandomState(0)
x = np.sort(rng.uniform(0.0, 6.0, size=40))
y = np.sin(2 * x) + 0.3 * rng.normal(size=40)
models = []
for length_scale in (0.05, 0.8, 8.0):
    kernel = ConstantKernel(1.0, "fixed") * RBF(length_scale, "fixed")
    noise = HomoscedasticNoise(0.09, "fixed")
    models.append(SparseGPRegressor(kernel, noise=noise).fit(x[:, None], y))

# sphinx_gallery_start_ignore
figure, panels = plt.subplots(1, 3, figsize=(6.4, 3.0), sharey=True, layout="constrained")
for axes, gp, title in zip(panels, models, ("too short", "suitable", "too long"), strict=True):
    mean, variance = gp.latent_mean_and_variance(grid[:, None])
    draw_band(axes, grid, mean, np.sqrt(variance))
    draw_rows(axes, x, y)
    length = gp.kernel_.k2.length_scale
    axes.set(
        title=f"{title}\n\N{MINUS SIGN}{-gp.lower_bound_:.0f} nats", xlabel="x", ylim=(-2.4, 2.4)
    )
    axes.plot(
        [0.2, min(0.2 + length, 5.8)], [-2.2, -2.2], color=ORANGE, lw=4, solid_capstyle="butt"
    )
panels[0].text(0.6, -2.28, "length scale", color=ORANGE, fontsize=9)
panels[0].set_ylabel("y")
finish(figure)
# sphinx_gallery_end_ignore

# %%
# Inducing points
# ---------------
# A full Gaussian process compares each row with every other. For ten thousand rows these are a
# hundred million numbers, and hundreds of billions of operations. A sparse Gaussian process
# describes the function by its values at a few places, the *inducing points* (ticks). Four points
# leave part of this function unknown, and the wide band says so. With twelve, the band is hard to
# tell from that of the full Gaussian process (dashed).
x = np.sort(rng.uniform(0.0, 6.0, size=500))
y = np.sin(2 * x) + 0.3 * rng.normal(size=500)
kernel = ConstantKernel(1.0, "fixed") * RBF(0.7, "fixed")
full = GaussianProcessRegressor(kernel, alpha=0.09, optimizer=None).fit(x[:, None], y)
sparse = {
    m: SparseGPRegressor(kernel, noise=noise, n_inducing=m, selection_tol=0.0).fit(x[:, None], y)
    for m in (4, 7, 12)
}

# sphinx_gallery_start_ignore
figure, panels = plt.subplots(1, 3, figsize=(6.4, 2.8), sharey=True, layout="constrained")
for axes, (m, gp) in zip(panels, sparse.items(), strict=True):
    draw_rows(axes, x, y, ms=1.5, alpha=0.5, zorder=1)
    mean, variance = gp.latent_mean_and_variance(grid[:, None])
    draw_band(axes, grid, mean, np.sqrt(variance))
    full_mean, full_std = full.predict(grid[:, None], return_std=True)
    for end in (full_mean - 2 * full_std, full_mean + 2 * full_std):
        axes.plot(grid, end, "k--", lw=0.8)
    for place in gp.inducing_points_[:, 0]:
        axes.axvline(place, 0.0, 0.07, color=ORANGE, lw=2)
    axes.set(title=f"{m} inducing points", xlabel="x", ylim=(-2.4, 2.4), xlim=(0, 6))
panels[0].set_ylabel("y")
finish(figure)
# sphinx_gallery_end_ignore

# %%
# The bound
# ---------
# How many points are enough? The attribute ``lower_bound_`` is never above the log marginal
# likelihood of the full model, and rises towards it with each point. In regression the method
# ``certificate`` computes a number that is never below it. Where the two meet, more points change
# nothing, and you know so without fitting the full model.
points = list(range(2, 21))
largest = SparseGPRegressor(kernel, noise=noise, n_inducing=20, selection_tol=0.0).fit(
    x[:, None], y
)
models = [largest.truncate(m, x[:, None], y) for m in points]
lower = [gp.lower_bound_ for gp in models]
upper = [gp.certificate(x[:, None], y).interval[1] for gp in models]

# sphinx_gallery_start_ignore
figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
mean = largest.prior_mean_
exact = GaussianProcessRegressor(kernel, alpha=0.09, optimizer=None).fit(x[:, None], y - mean)
axes.axhline(exact.log_marginal_likelihood_value_, color="k", ls="--", lw=1, label="full model")
axes.plot(points, upper, "v-", color=ORANGE, ms=4, label="above: certificate")
axes.plot(points, lower, "^-", color=BLUE, ms=4, label="below: lower_bound_")
axes.set(xlabel="inducing points", ylabel="log marginal likelihood, nats", xticks=range(2, 21, 2))
axes.legend(frameon=False)
finish(figure)
# sphinx_gallery_end_ignore

# %%
# Calibrated intervals
# --------------------
# A model is *calibrated* if what it predicts with a probability of 90 % happens nine times in ten.
# Left: 90 % intervals of 40 new targets; a few lie outside, as they should. Right: intervals of
# other probabilities, and the share of a thousand new targets in them. A calibrated model is on
# the diagonal.
gp = SparseGPRegressor().fit(x[:, None], y)
x_new = np.sort(rng.uniform(0.0, 6.0, size=1000))
y_new = np.sin(2 * x_new) + 0.3 * rng.normal(size=1000)
levels = np.linspace(0.05, 0.95, 19)
shares = []
for level in levels:
    low, high = gp.predict_interval(x_new[:, None], coverage=level)
    shares.append(np.mean((low <= y_new) & (y_new <= high)))

# sphinx_gallery_start_ignore
figure, panels = plt.subplots(1, 2, figsize=(6.4, 3.2), width_ratios=(1.4, 1), layout="constrained")
some = np.arange(0, 1000, 25)
low, high = gp.predict_interval(x_new[some, None], coverage=0.9)
inside = (low <= y_new[some]) & (y_new[some] <= high)
panels[0].vlines(x_new[some], low, high, color=BLUE, lw=3, alpha=0.4)
draw_rows(panels[0], x_new[some][inside], y_new[some][inside])
draw_rows(panels[0], x_new[some][~inside], y_new[some][~inside], color=ORANGE, ms=6)
title = f"{inside.sum()} of {len(some)} targets inside"
panels[0].set(title=title, xlabel="x", ylabel="y")
panels[1].plot([0, 1], [0, 1], "k:", lw=1)
panels[1].plot(levels, shares, "o-", color=BLUE, ms=4)
panels[1].set(xlabel="probability of the interval", ylabel="share of targets inside")
panels[1].set_aspect("equal")
finish(figure)
# sphinx_gallery_end_ignore

# %%
# Classes
# -------
# A classifier learns such a function, too: the log-odds of a class. Left: this function. Right: the
# probability of the class that follows from it. Both are uncertain in the middle, where there are
# no rows.
x = np.concatenate([rng.uniform(0.0, 2.5, size=60), rng.uniform(4.0, 6.0, size=60)])
labels = (rng.uniform(size=120) < 1 / (1 + np.exp(-4 * np.sin(2 * x)))).astype(int)
classifier = SparseGPClassifier().fit(x[:, None], labels)
mean, variance = classifier.latent_mean_and_variance(grid[:, None])
proba = classifier.predict_proba(grid[:, None])[:, 1]
low, high = classifier.predict_proba_interval(grid[:, None])

# sphinx_gallery_start_ignore
figure, panels = plt.subplots(1, 2, figsize=(6.4, 2.9), layout="constrained")
draw_band(panels[0], grid, mean, np.sqrt(variance))
panels[0].set(title="f, the log-odds", xlabel="x")
panels[1].fill_between(grid, low[:, 1], high[:, 1], color=BLUE, alpha=0.2, lw=0)
panels[1].plot(grid, proba, color=BLUE, lw=2)
panels[1].plot(x, labels * 1.1 - 0.05, "|", color=GREY, ms=7, mew=0.6)
panels[1].set(title="probability of class 1", xlabel="x (ticks: rows of both classes)")
finish(figure)
# sphinx_gallery_end_ignore

# %%
# Next: a first model in the :ref:`tour <tour>`, the choice of :ref:`n_inducing <how-many-points>`,
# and how to read a :ref:`certificate <certificate>`.
