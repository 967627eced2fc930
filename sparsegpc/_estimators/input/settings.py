"""Options of the core that follow from parameters, the environment and scikit-learn's settings."""

from sklearn import get_config

from sparsegpc._core.bounds.slacks import SLACKS, sums_over_rows
from sparsegpc._core.rows.threads import available_threads


def row_options():
    """Return options of `RowBlocks`: the available threads and scikit-learn's working memory."""
    return {"n_threads": available_threads(), "memory": int(get_config()["working_memory"] * 2**20)}


def resolve_slack(bound, likelihood, *, in_batches=False):
    """Return the `Slack` named by the parameter `bound`; "auto" means the tightest one."""
    offered, where = likelihood.slacks, ""
    if in_batches:
        offered, where = sums_over_rows(offered), " from minibatches"
    if bound != "auto" and bound not in offered:
        raise ValueError(
            f"bound={bound!r} is not available for {type(likelihood).__name__}{where}: choose "
            f"'auto' or one of {offered}"
        )
    return SLACKS[offered[0] if bound == "auto" else bound]
