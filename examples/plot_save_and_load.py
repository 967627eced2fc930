"""
How do I save a model?
======================

With pickle, or with skops if others load the file. A saved model is small, since it keeps the
inducing points and no other training rows. The loaded model makes the same predictions.
"""

# %%
# A model to save
# ---------------
import pickle
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import skops.io
from sklearn.datasets import load_breast_cancer
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import SparseGPClassifier

X, y = load_breast_cancer(return_X_y=True)
model = make_pipeline(StandardScaler(), SparseGPClassifier(n_inducing=50)).fit(X, y)
folder = tempfile.TemporaryDirectory()

# %%
# Pickle
# ------
# Load only files that you trust: a pickle can run any code.
path = Path(folder.name) / "model.pkl"
path.write_bytes(pickle.dumps(model))
loaded = pickle.loads(path.read_bytes())
same = np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
print(f"pickle: {path.stat().st_size / 1024:.0f} KiB, same probabilities: {same}")

# %%
# skops
# -----
# ``skops.io`` (``pip install skops``) loads only types that you trust. ``get_untrusted_types``
# lists the others; check them and pass them as ``trusted``.
path = Path(folder.name) / "model.skops"
skops.io.dump(model, path)
unknown = skops.io.get_untrusted_types(file=path)
print(*unknown, sep="\n")
loaded = skops.io.load(path, trusted=unknown)
same = np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
print(f"skops: {path.stat().st_size / 1024:.0f} KiB, same probabilities: {same}")

# %%
# The size of the file
# --------------------
# A full Gaussian process keeps all rows and a number for each pair of them. The size of a sparse
# model depends on the number of inducing points only.
full = make_pipeline(
    StandardScaler(), GaussianProcessClassifier(ConstantKernel() * RBF(), optimizer=None)
).fit(X, y)
sizes = {
    "GaussianProcessClassifier": len(pickle.dumps(full)) / 1024,
    "SparseGPClassifier, 50 points": len(pickle.dumps(model)) / 1024,
}
figure, axes = plt.subplots(figsize=(6.4, 2.2), layout="constrained")
bars = axes.barh(list(sizes), list(sizes.values()), color=["tab:orange", "tab:blue"])
axes.bar_label(bars, fmt="%.0f", padding=4)
axes.set(xlabel=f"size of the pickle, KiB ({len(y)} rows of {X.shape[1]} columns)", xscale="log")
axes.margins(x=0.2)
plt.show()
folder.cleanup()
