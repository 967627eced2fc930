"""What the environment and scikit-learn's settings imply for the core."""

from sklearn import get_config

from sparsegpc._core.rows.threads import available_threads


def row_options():
    """Return the options of `RowBlocks` that the environment and scikit-learn's settings imply."""
    return {"n_threads": available_threads(), "memory": int(get_config()["working_memory"] * 2**20)}
