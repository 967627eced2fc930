"""
Where are the inducing points?
==============================

This example shows, for two classes and two columns, which rows the model selects and why.
"""

# %%
# Probability and points
# ----------------------
# With ``selector="rpcholesky"`` a few of the four hundred rows are the inducing points, and
# ``inducing_indices_`` holds their numbers. The default may replace them by means of similar rows.
# On the line both classes are equally probable.
import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from sparsegpc import SparseGPClassifier
from sparsegpc.displays import InducingPointsDisplay

X, y = make_moons(400, noise=0.25, random_state=0)
model = SparseGPClassifier(likelihood="polya-gamma", selector="rpcholesky").fit(X, y)
print(f"{len(model.inducing_points_)} of {len(y)} rows are inducing points")
print("the first of them are rows", model.inducing_indices_[:5])
InducingPointsDisplay.from_estimator(model, X, y)
plt.show()

# %%
# How rows are selected
# ---------------------
# The Pólya-Gamma model treats each label as a noisy measurement of the log-odds f. The variance of
# this noise is lowest, 4, where f is certainly zero, and higher where a class is certain: there a
# label contains little information. The probability of drawing a row is proportional to the
# variance of f that the points so far leave unexplained, divided by the variance of the noise. The
# first factor changes by orders of magnitude, the second by a factor of five. So the points cover
# all rows instead of following the boundary.
InducingPointsDisplay.from_estimator(model, X, y, response="pg_variance")
plt.show()

# %%
# The uncertainty of f
# --------------------
# The standard deviation of f grows with the distance from the rows.
InducingPointsDisplay.from_estimator(model, X, y, response="latent_std")
plt.show()

# %%
# Fewer points
# ------------
# ``n_inducing`` limits their number. With ten points the boundary is nearly the same. The
# difference of the bounds is the loss in nats.
few = SparseGPClassifier(likelihood="polya-gamma", n_inducing=10).fit(X, y)
print(f"{len(model.inducing_points_)} points: bound {model.lower_bound_:.2f} nats")
print(f"{len(few.inducing_points_)} points: bound {few.lower_bound_:.2f} nats")
InducingPointsDisplay.from_estimator(few, X, y)
plt.show()
