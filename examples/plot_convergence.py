"""
How do I follow a fit, and has it converged?
============================================

A fit can print its progress and call a function of yours, and it keeps a history. It warns if it
stopped before it converged.
"""

# %%
# Lines
# -----
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
# With many rows, learning begins on subsets of them, which is cheap, and ends on all. Between the
# dashed lines the inducing points stay the same; there they are chosen again with the kernel that
# was learned. The bound may drop a little at such a line, and what counts is the end.
ConvergenceDisplay.from_estimator(model)
plt.show()

# %%
# A callback
# ----------
# It is called after each evaluation, here to stop after twenty of them. The best model so far is
# kept. The fit warns, since it did not reach its tolerance.


def stop_after_twenty(step):
    """Ask to stop learning; ``step`` has the entries of the history."""
    return step.iteration >= 20


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", ConvergenceWarning)
    stopped = SparseGPRegressor(n_inducing=100, callback=stop_after_twenty).fit(X, y)
for warning in caught:
    print(f"{warning.category.__name__}: {warning.message}")
print(f"bound when stopped {stopped.lower_bound_:.1f}, at convergence {model.lower_bound_:.1f}")
