"""
What does each column do by itself?
===================================

The learned function of a Gaussian process depends on all columns at once, so it is hard to look at.
Averaged over the other columns it is a curve for each column, and the posterior gives it a band.
"""

# %%
# The data
# --------
# The progress of diabetes within a year after ten measurements of 442 patients. The pipeline scales
# the columns; the pictures show the original values.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process.kernels import RBF
from sklearn.inspection import PartialDependenceDisplay
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import SparseGPRegressor
from sparsegpc.displays import EffectsDisplay
from sparsegpc.kernels import MainEffects

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = make_pipeline(StandardScaler(), SparseGPRegressor()).fit(X, y)

# %%
# Curves with bands
# -----------------
# A curve tells by how much the prediction would change on average if all patients had this value in
# the column. The display selects the six columns with the largest effects. The ticks are the
# deciles of the column; beyond them few rows support the curve, and its band is wide. A column of
# few values, such as ``sex``, has a point for each value.
EffectsDisplay.from_estimator(model, X)
plt.show()

# %%
# The partial dependence of scikit-learn is nearly the same curve, up to a constant: it averages
# over all rows, the display over 200 of them. It comes without a band.
figure, axes = plt.subplots(1, 2, figsize=(8.0, 3.6), layout="constrained")
PartialDependenceDisplay.from_estimator(model, X, ["bmi", "s5"], ax=axes)
plt.show()

# %%
# Does an effect depend on another column?
# ----------------------------------------
# With ``by`` there is a curve for each of a few values of another column. Where curves are
# parallel, the two columns do not interact.
EffectsDisplay.from_estimator(model, X, features=["bmi", "bp", "s5"], by="sex")
plt.show()

# %%
# The numbers behind the curves
# -----------------------------
# ``average_difference`` compares the average of f over two sets of rows. The errors of f at the
# rows are correlated, which the standard deviation takes into account.
scale, gp = model[:-1].transform, model[-1]
for value in (20.0, 35.0):
    mean, std = gp.average_difference(scale(X.assign(bmi=value)), scale(X))
    print(f"a body mass index of {value:.0f} for all: {mean:6.1f} +- {std:.1f}")

# %%
# Does a sum of functions suffice?
# --------------------------------
# Averages over all other columns hide interactions. The bound compares a function of all columns, a
# sum of functions of one column each, and both together. (The default ``main_effects="auto"``
# compares the first and the last in a similar way, with a length scale for each column.)
interactions = 1.0 * RBF(3.0)
effects = MainEffects(np.full(X.shape[1], 0.1), length_scale=2.0)
kernels = {"all columns": interactions, "effects": effects, "both": interactions + effects}
for name, kernel in kernels.items():
    gp = SparseGPRegressor(kernel, n_inducing=100, normalize_y=True).fit(scale(X), y)
    print(f"{name:12s} bound {gp.lower_bound_:8.1f}")

# %%
# The sum of functions has a higher bound than the function of all columns, and both together gain
# little more: these data show little interaction.
