"""What displays share of drawing: matplotlib where it is needed, colours, settings, legends."""

import numpy as np

# Colours that also differ for the colour-blind (Okabe and Ito).
BLUE, SKY, VERMILION, GREEN = "#0072B2", "#56B4E9", "#D55E00", "#009E73"
GREY, PALE = "#5F5F5F", "#C8C8C8"
# Settings of a colour: any one that is given replaces all defaults.
COLOURS = ("color", "c", "facecolor", "edgecolor")


def need_matplotlib(caller):
    """Raise ImportError, which names the caller, where matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"{caller} requires matplotlib. You can install it with `pip install matplotlib`"
        ) from error


def axes_or_new(ax, *, n_axes=1, width=6.4, height=4.4):
    """Return `ax`, or new axes side by side in a figure of so many inches if it is None."""
    if ax is not None:
        _refuse_no_axes(ax)
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(1, n_axes, figsize=(width, height), layout="constrained")[1]


def _refuse_no_axes(ax):
    """Raise TypeError for what is neither Axes nor an array of them."""
    for one in np.ravel(np.asarray(ax, dtype=object)):
        if not hasattr(one, "get_figure") or not hasattr(one, "plot"):
            raise TypeError(
                f"ax must be matplotlib Axes or None, got {one!r}: make them by plt.subplots()"
            )


def settings(name, given, artist, **defaults):
    """Return settings of an artist: the defaults, and above them those that a user gives.

    Parameters
    ----------
    name : str
        Of the user's parameter.
    given : dict or None
        It may hold abbreviations, such as "lw".
    artist : {"line", "collection"}
        What kind of artist, which knows its abbreviations.
    **defaults
        In full.
    """
    given = checked_settings(name, given)
    from matplotlib import cbook, collections, lines

    kinds = {"line": lines.Line2D, "collection": collections.Collection}
    given = cbook.normalize_kwargs(given, kinds[artist])
    if any(colour in given for colour in COLOURS[:2]):
        defaults = {key: value for key, value in defaults.items() if key not in COLOURS}
    return {**defaults, **given}


def checked_settings(name, given):
    """Return a user's settings as a new dictionary, empty for None; TypeError for anything else."""
    if given is not None and not isinstance(given, dict):
        raise TypeError(
            f"{name} must be a dictionary of matplotlib's settings or None, got {given!r}: "
            "give for example {'alpha': 0.5}"
        )
    return dict(given or {})


def add_legend(ax, given, n_columns):
    """Put a legend below the axes, where no data are, or where the user's settings place it.

    It has up to `n_columns` columns, as the axes are wide.
    """
    from matplotlib.transforms import ScaledTranslation

    given = checked_settings("legend_kw", given)
    if "loc" not in given and "bbox_to_anchor" not in given:
        # 34 points for the tick labels and the label of the axis.
        down = ScaledTranslation(0.0, -34.0 / 72.0, ax.figure.dpi_scale_trans)
        given.update(
            loc="upper center", bbox_to_anchor=(0.5, 0.0), bbox_transform=ax.transAxes + down
        )
    width = ax.bbox.width / ax.figure.dpi
    # An entry is about 1.45 inches wide; a legend wider than its axes would squeeze them.
    n_columns = max(1, min(n_columns, int(width / 1.45)))
    return ax.legend(**{"ncols": n_columns, "fontsize": "small", "frameon": False, **given})
