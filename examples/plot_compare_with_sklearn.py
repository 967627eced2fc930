"""
How does it compare with scikit-learn's Gaussian processes?
===========================================================

The time of a full Gaussian process grows with the cube of the number of rows, that of a sparse one
in proportion to it. With the same rows the predictions are almost equal.
"""

# %%
# Fits to more and more rows
# --------------------------
# The targets are Friedman's first function of five columns plus noise. For classification the label
# tells whether a target is above the median. All models learn a kernel of the same form, with one
# length scale for all columns, which is not the default of this package.
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.metrics import log_loss

from sparsegpc import SparseGPClassifier, SparseGPRegressor

N_TEST = 2000
KERNEL = {"length_scales": "common", "main_effects": False}
ROWS_FULL, ROWS_SPARSE = (100, 200, 400, 800), (100, 200, 400, 800, 1600, 3200)


def seconds_of_fit(model, X, y):
    """Fit a model and return the time in seconds."""
    start = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - start


def gaussian_log_loss(y, mean, std):
    """Return the mean negative log density of targets, in nats per row."""
    return np.mean(0.5 * ((y - mean) / std) ** 2 + np.log(std) + 0.5 * np.log(2.0 * np.pi))


X, y = make_friedman1(max(ROWS_SPARSE) + N_TEST, n_features=5, noise=1.0, random_state=0)
X_test, y_test, X, y = X[:N_TEST], y[:N_TEST], X[N_TEST:], y[N_TEST:]
threshold = np.median(y)
regressors = {
    "full": (
        GaussianProcessRegressor(ConstantKernel() * RBF() + WhiteKernel(), normalize_y=True),
        ROWS_FULL,
    ),
    "sparse": (SparseGPRegressor(n_inducing=100, **KERNEL), ROWS_SPARSE),
}
classifiers = {
    "full": (GaussianProcessClassifier(ConstantKernel() * RBF()), ROWS_FULL),
    "sparse": (SparseGPClassifier(n_inducing=100, **KERNEL), ROWS_SPARSE),
}
results = {}
print(f"{'task':16s}{'model':8s}{'rows':>6s}{'seconds':>9s}{'log loss':>10s}")
for task, models in (("regression", regressors), ("classification", classifiers)):
    for name, (model, sizes) in models.items():
        found = []
        for n in sizes:
            if task == "regression":
                seconds = seconds_of_fit(model, X[:n], y[:n])
                loss = gaussian_log_loss(y_test, *model.predict(X_test, return_std=True))
            else:
                seconds = seconds_of_fit(model, X[:n], y[:n] > threshold)
                loss = log_loss(y_test > threshold, model.predict_proba(X_test))
            found.append((n, seconds, loss))
            print(f"{task:16s}{name:8s}{n:6d}{seconds:9.2f}{loss:10.4f}")
        results[task, name] = np.transpose(found)

# %%
# Time and log loss
# -----------------
# With the same rows both predict equally well. The full model is faster for fewer than about three
# hundred rows. Beyond that, twice as many rows take up to eight times as long, and the kernel
# matrix of a quarter of a million rows would need 500 GB. The sparse model can use more rows and
# reaches lower log losses.
styles = {
    "full": {"color": "tab:orange", "marker": "s", "zorder": 3},
    "sparse": {"color": "tab:blue", "marker": "o", "lw": 3, "ms": 8},
}
names = {
    ("regression", "full"): "GaussianProcessRegressor",
    ("regression", "sparse"): "SparseGPRegressor",
    ("classification", "full"): "GaussianProcessClassifier",
    ("classification", "sparse"): "SparseGPClassifier",
}
figure, (above, below) = plt.subplots(2, 1, figsize=(6.4, 8.0), sharex=True, layout="constrained")
for (task, name), (sizes, seconds, losses) in results.items():
    line = {"ls": "-" if task == "regression" else "--", **styles[name]}
    above.plot(sizes, seconds, **line, label=names[task, name])
    below.plot(sizes, losses, **line)
above.set(ylabel="seconds for a fit", xscale="log", yscale="log", title="Time")
above.legend(fontsize=9)
below.set(xlabel="training rows", ylabel="nats per test row", title="Log loss of test rows")
below.set_xticks(ROWS_SPARSE, ROWS_SPARSE)
below.minorticks_off()
plt.show()
