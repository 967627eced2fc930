"""
How do I monitor a fit?
=======================

A fit can print its progress and call your own function, and it records its history. It warns if it
stops before it converges.
"""

# %%
# Printed lines
# -------------
# ``verbose=1`` prints a line for each choice of inducing points, ``verbose=2`` one for each
# evaluation of the bound.
import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import make_friedman1
from sklearn.exceptions import ConvergenceWarning

from sparsegpc import SparseGPRegressor
from sparsegpc.displays import ConvergenceDisplay

X, y = make_friedman1(5000, n_features=5, noise=1.0, random_state=0)
model = SparseGPRegressor(n_inducing=100, verbose=1).fit(X, y)
print(f"converged: {model.converged_}, after {model.n_evaluations_} evaluations")

# %%
# The history
# -----------
# With many rows, learning begins on subsets of the rows and ends on all of them. The first 200 rows
# serve to choose start values, 2000 rows to decide whether the kernel needs main effects. The few
# low values there belong to shorter length scales, tried for columns along which the function is
# nearly linear. At the grey lines the inducing points are chosen again, with the current kernel;
# the bound may then drop slightly.
ConvergenceDisplay.from_estimator(model)
plt.show()

# %%
# A callback
# ----------
# The callback is called after each evaluation. This one stops the fit after twenty of them. The
# model is the best so far, and the fit warns that it did not reach its tolerance.


def stop_after_twenty(step):
    """Return whether to stop; ``step`` holds the entries of the history."""
    return step.iteration >= 20


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", ConvergenceWarning)
    stopped = SparseGPRegressor(n_inducing=100, callback=stop_after_twenty).fit(X, y)
for warning in caught:
    print(f"{warning.category.__name__}: {warning.message}")
print(f"bound when stopped {stopped.lower_bound_:.1f}, at convergence {model.lower_bound_:.1f}")
