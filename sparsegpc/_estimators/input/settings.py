"""Options of the core that follow from the environment and scikit-learn's settings."""

from sklearn import get_config

from sparsegpc._core.rows.threads import available_threads


def row_options():
    """Return options of `RowBlocks`: the available threads and scikit-learn's working memory."""
    return {"n_threads": available_threads(), "memory": int(get_config()["working_memory"] * 2**20)}
