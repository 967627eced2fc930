"""
What does each column do by itself?
===================================

The learned function of a Gaussian process depends on all columns at once, so it is hard to look at.
If the kernel is a sum, so is the function: with ``MainEffects`` among the summands each column
contributes a function of its own, whose posterior is a curve with a band.
"""

# %%
# The data
# --------
# The progress of diabetes within a year after ten measurements of 442 patients. The pipeline scales
# the columns, so that one length scale suits all; the pictures show the original values.
import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process.kernels import RBF
from sklearn.inspection import PartialDependenceDisplay
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import SparseGPRegressor
from sparsegpc.displays import EffectsDisplay
from sparsegpc.kernels import MainEffects

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
n_columns = X.shape[1]

# %%
# Does a sum of functions suffice?
# --------------------------------
# The bound compares a function of all columns, a sum of functions of one column each, and both
# together. Each effect has a variance of its own, which tells how large it is. (The default
# ``main_effects="auto"`` compares the first and the last in a similar way, with a length scale for
# each column.)
interactions = 1.0 * RBF(3.0)
effects = MainEffects([0.1] * n_columns, length_scale=2.0)
kernels = {"all columns": interactions, "effects": effects, "both": interactions + effects}
models = {}
for name, kernel in kernels.items():
    regressor = SparseGPRegressor(kernel, n_inducing=100, normalize_y=True)
    models[name] = make_pipeline(StandardScaler(), regressor).fit(X, y)
    print(f"{name:12s} bound {regressor.lower_bound_:8.1f}")

# %%
# The sum of functions has a higher bound than the function of all columns, and both together gain
# little more: these data show little interaction.
#
# Curves with bands
# -----------------
# Each function has the mean zero over the patients, and the unit of y. The display selects the six
# columns whose effects vary most. The ticks are the deciles of the column; beyond them few rows
# support the curve, and its band is wide. A column of few values, such as ``sex``, has a point for
# each value.
EffectsDisplay.from_estimator(models["effects"], X)
plt.show()

# %%
# The same curves from the predictions
# ------------------------------------
# The partial dependence of scikit-learn averages predictions over the other columns. For a sum of
# functions it is the same curve, up to a constant. It comes without a band, and takes a prediction
# of all rows for each value on the grid.
figure, axes = plt.subplots(1, 2, figsize=(8.0, 3.6), layout="constrained")
PartialDependenceDisplay.from_estimator(models["effects"], X, ["bmi", "s5"], ax=axes)
plt.show()

# %%
# The numbers behind the curves
# -----------------------------
# The method ``effects`` returns the effect of each column in each row. Here is the spread of each
# effect over the patients, and how well it is known.
regressor = models["effects"][-1]
rows = models["effects"][:-1].transform(X)
mean, std = regressor.effects(rows, reference=rows)
print("column   spread   mean std")
for name, spread, uncertainty in zip(X.columns, mean.std(axis=0), std.mean(axis=0), strict=True):
    print(f"{name:6s} {spread:8.1f} {uncertainty:10.1f}")
