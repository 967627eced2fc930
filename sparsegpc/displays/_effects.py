"""Plot of the effects of single columns, with bands."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils._optional_dependencies import check_matplotlib_support

from sparsegpc.displays._drawing import BLUE, GREY, add_legend, checked_axes, settings
from sparsegpc.displays._inputs import ANY_KIND, fitted_model, gaussian_quantile, grid_size
from sparsegpc.displays._transformed_table import TransformedTable

# A column with at most this many distinct values is drawn at these values.
MOST_LEVELS = 10
# How many panels are drawn unless columns are given.
MOST_PANELS = 6
PER_ROW = 3


@dataclass(kw_only=True, eq=False, repr=False)
class EffectsDisplay:
    r"""Plot of the effects of single columns: the functions of which f is a sum, with bands.

    For models whose kernel contains :class:`sparsegpc.kernels.MainEffects` or
    :class:`sparsegpc.kernels.OrthogonalAdditive`. A curve is the posterior mean of the function of
    one column, and its band a central interval of the probability `coverage`, at each value of the
    column. Each function has mean zero over the rows of X, so it tells by how much f changes with
    this column alone; what columns do together is not shown. A column of at most 10 distinct values
    has a point with an interval for each of them.

    It is recommended to use `from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    grids : list of ndarray of shape (n_values,)
        Ascending values of each column.
    means, stds : list of ndarray of shape (n_values,)
        Posterior means and standard deviations, in units of y for regressors, else of f.
    deciles : list of ndarray of shape (9,)
        Deciles of each column among the rows.
    names : list of str
        Names of the columns.
    ylabel : str
        Label of the effects.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes of shape (n_effects,)
        Axes of the effects.
    figure_ : matplotlib Figure
        Figure of the axes.
    lines_ : list of matplotlib Line2D
        The means.
    bands_ : list of matplotlib collections
        The bands: filled areas, or vertical lines for columns of few values.
    decile_lines_ : list of matplotlib Line2D
        Ticks at the bottom at the deciles of each column.
    legend_ : matplotlib Legend
        Below one of the axes.

    See Also
    --------
    RegressionDisplay : Predictions along one column, at given values of the others.
    sklearn.inspection.PartialDependenceDisplay : For any model, without bands.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sparsegpc import SparseGPRegressor
    >>> from sparsegpc.displays import EffectsDisplay
    >>> from sparsegpc.kernels import MainEffects
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> model = SparseGPRegressor(MainEffects(500.0, 2.0), n_inducing=60, optimizer=None)
    >>> model = make_pipeline(StandardScaler(), model).fit(X, y)
    >>> display = EffectsDisplay.from_estimator(model, X, features=["bmi", "sex"])
    >>> [axes.get_xlabel() for axes in display.axes_]
    ['bmi', 'sex']
    """

    grids: list
    means: list
    stds: list
    deciles: list
    names: list
    ylabel: str

    @classmethod
    def from_estimator(
        cls, estimator, X, *, features=None, target=None, grid_resolution=100, **plot_kw
    ):
        """Compute the effects of single columns, and draw them.

        Parameters
        ----------
        estimator : estimator of this package, Pipeline or BoundSearch
            Fitted with a kernel that has :class:`sparsegpc.kernels.MainEffects` or
            :class:`sparsegpc.kernels.OrthogonalAdditive` among its summands. In a pipeline these
            are effects of the transformed columns. If the steps before the estimator turn a column
            of numbers into one other column, as scalers do, the effect is drawn against the column
            of X. Otherwise it is drawn against the transformed column, named as by
            ``get_feature_names_out``: for example, an effect for each level of a category.
        X : array-like of shape (n_samples, n_features)
            Rows over which each effect has mean zero, for example those of `fit`. The grids
            span their range.
        features : list of int or str, or None, default=None
            Numbers or, in a data frame, names of the columns of X, or names of transformed columns.
            None means all or, if there are more than six, the six whose effects vary most over the
            rows.
        target : int, str or None, default=None
            With several functions, which of them: the label of a class or the number of an output.
            None is allowed if there is only one.
        grid_resolution : int, default=100
            Number of grid points along a column of more than 10 distinct values.
        **plot_kw : dict
            Arguments of `plot`, such as `coverage` and `ax`.

        Returns
        -------
        display : EffectsDisplay

        Raises
        ------
        ValueError
            If the kernel has neither of the two among its summands, or `features`, `target` or an
            argument of `plot` is invalid.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        fitted = fitted_model(estimator, ANY_KIND)
        size, (place, ylabel) = grid_size(grid_resolution), _function(fitted.estimator, target)
        table = TransformedTable(fitted, X)
        columns = _columns(features, table, fitted.estimator)
        values = [table.values(d) for d in columns]
        grids = [_grid(of_column, size) for of_column in values]
        effects = []
        for d, grid in zip(columns, grids, strict=True):
            points = table.points(d, grid)
            moments = fitted.estimator.effects(points, [d], table.reference)
            effects.append([part.reshape(len(grid), -1)[:, place] for part in moments])
        return cls(
            grids=grids,
            means=[mean for mean, _ in effects],
            stds=[std for _, std in effects],
            deciles=[np.quantile(of_column, np.arange(1, 10) / 10.0) for of_column in values],
            names=[table.names[d] for d in columns],
            ylabel=ylabel,
        ).plot(**plot_kw)

    def plot(
        self, ax=None, *, coverage=0.95, line_kw=None, band_kw=None, decile_kw=None, legend_kw=None
    ):
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, array of them or None, default=None
            As many axes as effects; None makes a figure.
        coverage : float, default=0.95
            Probability of the band at each value of the column, between 0 and 1.
        line_kw, band_kw, decile_kw, legend_kw : dict or None, default=None
            Settings for `matplotlib.axes.Axes.plot` of the means, for
            `matplotlib.axes.Axes.fill_between`, or `matplotlib.axes.Axes.vlines` for columns of few
            values, of the bands, for `matplotlib.axes.Axes.plot` of the deciles, and for
            `matplotlib.axes.Axes.legend`.

        Returns
        -------
        display : EffectsDisplay

        Raises
        ------
        ValueError
            If `coverage` is invalid, or the number of axes is not that of the effects.
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        half_width = gaussian_quantile(coverage)
        self.axes_ = _panels(ax, len(self.names))
        self.figure_ = self.axes_[0].figure
        self.lines_, self.bands_, self.decile_lines_ = [], [], []
        label = f"{100.0 * coverage:.4g} % band"
        for axes, grid, mean, std, deciles, name in zip(
            self.axes_, self.grids, self.means, self.stds, self.deciles, self.names, strict=True
        ):
            ends = mean - half_width * std, mean + half_width * std
            style = {"alpha": 0.35, "label": label}
            if len(grid) <= MOST_LEVELS:
                style = settings(band_kw, "collection", **style, linewidth=10.0, color=BLUE)
                self.bands_.append(axes.vlines(grid, *ends, **style))
                shape = {"linestyle": "none", "marker": "o", "markersize": 4.0}
                axes.set_xticks(grid)
                axes.margins(x=0.2)
            else:
                style = settings(band_kw, "collection", **style, linewidth=0.0, facecolor=BLUE)
                self.bands_.append(axes.fill_between(grid, *ends, **style))
                shape = {"linewidth": 1.8}
                axes.set_xlim(grid[0], grid[-1])
            style = settings(line_kw, "line", **shape, color=BLUE, label="mean effect")
            self.lines_ += axes.plot(grid, mean, **style)
            style = {"color": GREY, "linestyle": "none", "marker": "|", "markersize": 8.0}
            self.decile_lines_ += axes.plot(
                deciles,
                np.full(len(deciles), 0.02),
                transform=axes.get_xaxis_transform(),
                **settings(decile_kw, "line", **style, label="deciles"),
            )
            axes.set_xlabel(name)
            if ax is not None or axes.get_subplotspec().is_first_col():
                axes.set_ylabel(self.ylabel)
        # The legend is below the panel in the middle of the last row.
        last, first = len(self.axes_) - 1, (len(self.axes_) - 1) // PER_ROW * PER_ROW
        self.legend_ = add_legend(self.axes_[(first + last) // 2], legend_kw, n_columns=3)
        return self


def _columns(features, table, model):
    """Return the numbers of the columns to draw, among those that the estimator sees."""
    if features is not None:
        return table.chosen(features)
    columns = np.flatnonzero(np.ptp(np.asarray(table.reference), axis=0) > 0.0)
    if len(columns) > MOST_PANELS:
        variation = model.effects(table.reference, list(columns))[0].std(axis=0)
        # The largest of several functions.
        variation = variation.reshape(len(columns), -1).max(axis=1)
        columns = columns[np.sort(variation.argsort()[-MOST_PANELS:])]
    return list(columns)


def _grid(values, size):
    """Return the distinct values if they are few, else evenly spaced ones over their range."""
    levels = np.unique(values)
    if len(levels) <= MOST_LEVELS:
        return levels
    return np.linspace(levels[0], levels[-1], size)


def _function(model, target):
    """Return the place of the function that `target` selects, and the label of its effects."""
    classes = getattr(model, "classes_", None)
    n_functions = np.size(model.prior_mean_)
    of_y = hasattr(model, "predict_noise_std")
    label = "effect on y" if of_y else "effect on f"
    if n_functions == 1 and target is None:
        return 0, label
    choices = list(range(n_functions) if classes is None else classes)
    if n_functions == 1 or target not in choices:
        rule = "None, as there is one function" if n_functions == 1 else f"one of {choices}"
        raise ValueError(f"target must be {rule}, got {target!r}: it selects one of the functions")
    return choices.index(target), f"{label}, {target}"


def _panels(ax, n_effects):
    """Return axes for the effects: those given, or a new figure with up to three in a row."""
    if ax is not None:
        return checked_axes(ax, n_effects)
    import matplotlib.pyplot as plt

    n_columns = min(PER_ROW, n_effects)
    n_rows = -(-n_effects // n_columns)
    size = {"figsize": (0.6 + 2.9 * n_columns, 0.5 + 2.6 * n_rows), "layout": "constrained"}
    panels = plt.subplots(n_rows, n_columns, sharey=True, squeeze=False, **size)[1].ravel()
    for unused in panels[n_effects:]:
        unused.remove()
    return panels[:n_effects]
