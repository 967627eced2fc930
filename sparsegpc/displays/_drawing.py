"""Drawing functions that the displays share: axes, colours, settings and legends."""

import numpy as np

# Colours that colour-blind readers can distinguish (Okabe and Ito).
BLUE, SKY, VERMILION, GREEN = "#0072B2", "#56B4E9", "#D55E00", "#009E73"
GREY, PALE = "#5F5F5F", "#C8C8C8"
# Settings of a colour. If a user gives one of the first two, no default colour is used.
COLOURS = ("color", "c", "facecolor", "edgecolor")


def axes_or_new(ax, *, n_axes=1, width=6.4, height=4.4):
    """Return `ax` or, if it is None, new axes side by side; `width` and `height` are in inches."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(1, n_axes, figsize=(width, height), layout="constrained")[1]


def checked_axes(ax, n_axes):
    """Return axes as a flat array; raise ValueError if there are not `n_axes`."""
    axes = np.ravel(ax)
    if len(axes) != n_axes:
        raise ValueError(
            f"ax must hold {n_axes} Axes, got {len(axes)}: make them by plt.subplots(1, {n_axes}), "
            "or leave ax out"
        )
    return axes


def settings(given, artist, **defaults):
    """Return the settings of an artist, under full names: defaults, updated by those of a user.

    ``artist``, "line" or "collection", determines the abbreviations, such as "lw", that the user
    may have `given` in a dict or None.
    """
    from matplotlib import cbook, collections, lines

    kinds = {"line": lines.Line2D, "collection": collections.Collection}
    given = cbook.normalize_kwargs(given or {}, kinds[artist])
    if any(colour in given for colour in COLOURS[:2]):
        defaults = {key: value for key, value in defaults.items() if key not in COLOURS}
    return {**defaults, **given}


def add_legend(ax, given, n_columns):
    """Add a legend below the axes, or where the user's settings place it.

    It has up to `n_columns` columns, depending on the width of the axes.
    """
    from matplotlib.transforms import ScaledTranslation

    given = dict(given or {})
    if "loc" not in given and "bbox_to_anchor" not in given:
        # 34 points leave room for the tick labels and the label of the axis.
        down = ScaledTranslation(0.0, -34.0 / 72.0, ax.figure.dpi_scale_trans)
        given.update(
            loc="upper center", bbox_to_anchor=(0.5, 0.0), bbox_transform=ax.transAxes + down
        )
    width = ax.bbox.width / ax.figure.dpi
    # An entry is about 1.45 inches wide; a legend wider than its axes would squeeze them.
    n_columns = max(1, min(n_columns, int(width / 1.45)))
    return ax.legend(**{"ncols": n_columns, "fontsize": "small", "frameon": False, **given})
