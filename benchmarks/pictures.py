"""What pictures of the reproductions share: style and panels."""


def new_panels(n_panels, height=2.5):
    """Return a figure and its panels, in two columns; those that are left over are hidden."""
    plt = _styled_pyplot()
    n_lines = -(-n_panels // 2)
    figure, panels = plt.subplots(
        n_lines, 2, figsize=(6.0, height * n_lines + 0.9), squeeze=False, layout="constrained"
    )
    for axes in panels.flat[n_panels:]:
        axes.set_visible(False)
    return figure, panels.flat[:n_panels]


def new_panel(width, height):
    """Return a figure of one panel."""
    plt = _styled_pyplot()
    return plt.subplots(figsize=(width, height), layout="constrained")


def save(figure, path):
    """Write the picture and forget the figure."""
    import matplotlib.pyplot as plt

    figure.savefig(path)
    plt.close(figure)


def _styled_pyplot():
    """Return pyplot, set to what all pictures share: legible at a phone's width."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "font.size": 11,
            "axes.titlesize": 11,
            "axes.labelsize": 11,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "lines.linewidth": 1.6,
            "legend.frameon": False,
            "figure.dpi": 150,
        }
    )
    return plt
