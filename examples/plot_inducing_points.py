"""
Where are the inducing points?
==============================

Two classes in two columns: which rows the model keeps, and why.
"""

# %%
# Probability and points
# ----------------------
# The model keeps a few of four hundred rows as its inducing points. ``inducing_indices_`` says
# which; nothing else of the training rows is in the model. The line is where both classes are
# equally probable.
import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from sparsegpc import SparseGPClassifier
from sparsegpc.displays import InducingPointsDisplay

X, y = make_moons(400, noise=0.25, random_state=0)
model = SparseGPClassifier(likelihood="polya-gamma").fit(X, y)
print(f"{len(model.inducing_points_)} of {len(y)} rows are inducing points")
print("the first of them are rows", model.inducing_indices_[:5])
InducingPointsDisplay.from_estimator(model, X, y)
plt.show()

# %%
# Why those
# ---------
# The Pólya-Gamma model treats each label as a noisy measurement of the log-odds f. The variance of
# that noise is lowest, 4, where f is known to be zero, and higher where a class is certain: there
# a label says little that was not known. A row is drawn with a probability in proportion to what
# the points so far leave of the variance of f there, divided by the variance of the noise. The
# first of these changes by orders of magnitude, the second by a factor of five. So the points cover
# all of the rows, and are not concentrated along the boundary.
InducingPointsDisplay.from_estimator(model, X, y, response="pg_variance")
plt.show()

# %%
# What the model does not know
# ----------------------------
# The standard deviation of f grows away from all rows, whatever the probability.
InducingPointsDisplay.from_estimator(model, X, y, response="latent_std")
plt.show()

# %%
# Fewer points
# ------------
# ``n_inducing`` is a limit. With ten points the boundary is nearly the same; the bound tells what
# is lost.
few = SparseGPClassifier(likelihood="polya-gamma", n_inducing=10).fit(X, y)
print(f"{len(model.inducing_points_)} points: bound {model.lower_bound_:.2f} nats")
print(f"{len(few.inducing_points_)} points: bound {few.lower_bound_:.2f} nats")
InducingPointsDisplay.from_estimator(few, X, y)
plt.show()
