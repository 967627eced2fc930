"""
How do I fit rows that do not fit in memory?
============================================

Pass a memory map. Rows in a file are read block by block, and scikit-learn's ``working_memory``
limits the memory for arrays. To be quick, this example has a hundred thousand rows; time and
memory grow at most in proportion to their number.
"""

# %%
# A file of rows
# --------------
# The rows are written in blocks, so they are never in memory all at once. X can be any array with
# slices of rows: ``numpy.memmap`` as here, h5py, zarr or Dask.
import tempfile
import time
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import sklearn

from sparsegpc import SparseGPRegressor, StochasticSparseGPRegressor

N_ROWS, N_COLUMNS, BLOCK = 100_000, 3, 10_000


def function(X):
    """Return the true function, of three columns."""
    return np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2]


def draw_rows(n_rows, rng):
    """Return rows and noisy targets."""
    X = rng.standard_normal((n_rows, N_COLUMNS))
    return X, function(X) + 0.3 * rng.standard_normal(n_rows)


folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "rows.npy"
rng = np.random.RandomState(0)
file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(N_ROWS, N_COLUMNS))
y = np.empty(N_ROWS)
for start in range(0, N_ROWS, BLOCK):
    rows = slice(start, start + BLOCK)
    file[rows], y[rows] = draw_rows(BLOCK, rng)
file.flush()
X_test, y_test = draw_rows(2000, rng)
print(f"{path.stat().st_size / 2**20:.0f} MiB of rows in the file")

# %%
# Fit from the file
# -----------------
# ``working_memory`` limits the arrays that hold a number for each row and inducing point; blocks
# that do not fit are computed again. A fit also keeps about forty numbers for each row. With three
# columns this is more than the rows themselves; a file pays off with hundreds of columns. Most of
# the learning uses subsets of the rows.
rows_on_disk = np.load(path, mmap_mode="r")


def measured_fit(model, X, y):
    """Fit a model; return the time in seconds and the peak of memory for arrays in MiB."""
    tracemalloc.start()
    start = time.perf_counter()
    with sklearn.config_context(working_memory=64):
        model.fit(X, y)
    seconds = time.perf_counter() - start
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return seconds, peak


sizes = (6_250, 25_000, N_ROWS)
found = []
print(f"{'rows':>8s}{'seconds':>9s}{'peak MiB':>10s}{'test R2':>9s}")
for n in sizes:
    model = SparseGPRegressor(n_inducing=40, max_reselections=0)
    seconds, peak = measured_fit(model, rows_on_disk[:n], y[:n])
    found.append((seconds, peak))
    print(f"{n:8d}{seconds:9.2f}{peak:10.0f}{model.score(X_test, y_test):9.3f}")

# %%
# Time and memory
# ---------------
figure, (above, below) = plt.subplots(2, 1, figsize=(6.4, 6.4), sharex=True, layout="constrained")
for axes, values, name in zip((above, below), np.transpose(found), ("seconds", "MiB"), strict=True):
    axes.plot(sizes, values, "o-")
    axes.set(ylabel=name, ylim=(0.0, None))
above.set_title("Time for a fit")
below.set(title="Peak of memory for arrays during a fit", xlabel="rows")
below.set_xticks(sizes, [f"{n:,}".replace(",", " ") for n in sizes])
plt.show()

# %%
# Minibatches
# -----------
# If a pass over the file takes long, learn from minibatches, which read each row once or a few
# times. Predictions read the file block by block, too.
stochastic = StochasticSparseGPRegressor(n_inducing=40, n_epochs=1)
seconds, peak = measured_fit(stochastic, rows_on_disk, y)
print(f"{seconds:.2f} s, {peak:.0f} MiB, test R2 {stochastic.score(X_test, y_test):.3f}")
mean = stochastic.predict(rows_on_disk)
print(
    f"{len(mean)} predictions; R2 on the rows of the file {1.0 - np.var(y - mean) / np.var(y):.3f}"
)

# %%
# Windows cannot remove a file that is mapped.
del file, rows_on_disk
folder.cleanup()
