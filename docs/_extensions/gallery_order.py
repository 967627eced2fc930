"""The order of the gallery: as a newcomer would ask."""

from pathlib import Path

ORDER = (
    "plot_in_pictures",
    "plot_quickstart",
    "plot_inducing_points",
    "plot_number_of_points",
    "plot_convergence",
    "plot_compare_with_sklearn",
    "plot_calibration",
    "plot_imbalanced_classes",
    "plot_many_classes",
    "plot_ordered_classes",
    "plot_heteroscedastic_noise",
    "plot_outliers",
    "plot_counts",
    "plot_censored",
    "plot_survival",
    "plot_next_run",
    "plot_effects",
    "plot_choose_by_the_bound",
    "plot_neighbours",
    "plot_selector_in_pipeline",
    "plot_latent_variables",
    "plot_memmap",
    "plot_save_and_load",
)


class NewcomersOrder:
    """Sort key of examples: their place in `ORDER`.

    Parameters
    ----------
    folder : str
        Folder of the examples; not used.
    """

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, file_name):
        name = Path(file_name).stem
        if name not in ORDER:
            raise ValueError(
                f"the example {file_name} has no place in the gallery: add {name!r} to ORDER in "
                "docs/_extensions/gallery_order.py"
            )
        return ORDER.index(name)
