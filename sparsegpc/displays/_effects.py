"""Plot of how f changes with single columns on average, also by the value of another column."""

import warnings
from dataclasses import dataclass
from itertools import cycle

import numpy as np
from sklearn.utils._optional_dependencies import check_matplotlib_support

from sparsegpc.displays._drawing import (
    BLUE,
    GREEN,
    GREY,
    SKY,
    VERMILION,
    add_legend,
    checked_axes,
    settings,
)
from sparsegpc.displays._inputs import ANY_KIND, fitted_model, gaussian_quantile, grid_size
from sparsegpc.displays._varied_table import MOST_LEVELS, VariedTable

# How many panels are drawn unless columns are given.
MOST_PANELS = 6
PER_ROW = 3
# Labels of categories with more characters together are rotated.
MOST_CHARACTERS = 30
# Colours of the curves for different values of another column, and how far apart their points are,
# relative to the distance of the values.
COLOURS, APART = (BLUE, VERMILION, GREEN, SKY), 0.12
# Over how many rows f is averaged, and how many rows and values show which columns matter.
AVERAGED_ROWS, TRIAL_ROWS, TRIAL_VALUES = 200, 30, 5


@dataclass(kw_only=True, eq=False, repr=False)
class EffectsDisplay:
    r"""Plot of how f changes with single columns, averaged over the others, with bands.

    A curve is the partial dependence of f: by how much f would change on average if all rows had
    this value in the column. The band is a central interval of the probability `coverage` of this
    average, at each value. The rows are up to 200 of those given, in which the column is
    distributed as in all of them. If the kernel is a sum of functions of single columns, the curves
    are these functions, with mean zero over the rows. A column of at most 10 distinct values, and
    one of categories, has a point with an interval for each of them.

    With another column `by` there are several curves, each with all rows set to one value of that
    column. Curves that are not parallel show an interaction of the two columns.

    It is recommended to use `from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    grids : list of ndarray of shape (n_values,)
        Ascending values of each column of numbers, or the most frequent categories, as strings.
    means, stds : list of ndarray of shape (n_values,) or (n_levels, n_values)
        Posterior means and standard deviations, in units of y for regressors, else of f; with `by`,
        those of each curve.
    deciles : list of ndarray of shape (9,) or None
        Deciles of each column of numbers among the rows; None for categories.
    names : list of str
        Names of the columns.
    ylabel : str
        Label of the effects.
    by : str or None, default=None
        The name of the column whose values the curves have.
    levels : list of str or None, default=None
        These values.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes of shape (n_effects,)
        Axes of the effects.
    figure_ : matplotlib Figure
        Figure of the axes.
    lines_ : list of matplotlib Line2D
        The means, panel by panel.
    bands_ : list of matplotlib collections
        The bands: filled areas, or vertical lines for columns of few values.
    decile_lines_ : list of matplotlib Line2D
        Ticks at the bottom at the deciles of each column of numbers.
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
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> model = make_pipeline(StandardScaler(), SparseGPRegressor()).fit(X, y)
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
    by: str | None = None
    levels: list | None = None

    @classmethod
    def from_estimator(
        cls, estimator, X, *, features=None, by=None, target=None, grid_resolution=50, **plot_kw
    ):
        """Compute the effects of single columns, and draw them.

        Parameters
        ----------
        estimator : estimator of this package, Pipeline or BoundSearch
            Fitted. In a pipeline, effects are those of the columns before its first step.
        X : array-like of shape (n_samples, n_features)
            Rows over which to average, for example those of `fit`. The grids span their range.
        features : list of int or str, or None, default=None
            Numbers or, in a data frame, names of the columns of X. None means all that vary or, if
            there are more than six, the six with the largest effects.
        by : int, str or None, default=None
            The number or the name of a column for whose values there are separate curves: for all
            of them if they are at most four, else for the four most frequent categories, or for
            the first, fifth and ninth deciles of numbers. It has no panel of its own.
        target : int, str or None, default=None
            With several functions, which of them: the label of a class or the number of an output.
            None is allowed if there is only one.
        grid_resolution : int, default=50
            Number of grid points along a column of more than 10 distinct values.
        **plot_kw : dict
            Arguments of `plot`, such as `coverage` and `ax`.

        Returns
        -------
        display : EffectsDisplay

        Raises
        ------
        ValueError
            If `features`, `by`, `target` or an argument of `plot` is invalid.

        Notes
        -----
        A value on a grid, of each curve, takes about the time to predict 400 rows, for M inducing
        points and D columns, plus O(200^2 D).
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        fitted = fitted_model(estimator, ANY_KIND)
        size, (place, ylabel) = grid_size(grid_resolution), _function(fitted.estimator, target)
        table = VariedTable(X)
        moderator = None if by is None else _moderator(by, table)
        columns = _columns(features, fitted, table, moderator)
        if not columns:
            beside = "" if moderator is None else f" beside {table.names[moderator]!r}"
            raise ValueError(
                f"there must be a column of X{beside} that varies, got none: give more rows, or "
                "other features"
            )
        grids = [table.grid(d, size) for d in columns]
        levels = None if moderator is None else table.few_values(moderator)
        effects = [
            _effects(fitted, table, d, grid, AVERAGED_ROWS, moderator, levels)
            for d, grid in zip(columns, grids, strict=True)
        ]
        return cls(
            grids=grids,
            means=[mean[..., place] for mean, _ in effects],
            stds=[std[..., place] for _, std in effects],
            deciles=[_deciles(table.numbers(d)) for d in columns],
            names=[table.names[d] for d in columns],
            ylabel=ylabel,
            by=None if moderator is None else table.names[moderator],
            levels=None if levels is None else _texts(levels),
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
        band_label = f"{100.0 * coverage:.4g} % band"
        labels = ["mean effect"] if self.by is None else [f"{self.by} {x}" for x in self.levels]
        for axes, grid, means, stds, deciles, name in zip(
            self.axes_, self.grids, self.means, self.stds, self.deciles, self.names, strict=True
        ):
            has_points = len(grid) <= MOST_LEVELS
            if has_points:
                grid = _mark_values(axes, grid, is_category=deciles is None)
            else:
                axes.set_xlim(grid[0], grid[-1])
            width = APART * min(np.diff(grid), default=1.0) if has_points else 0.0
            parts = labels, np.atleast_2d(means), np.atleast_2d(stds), cycle(COLOURS)
            curves = zip(*parts, strict=False)
            for k, (label, mean, std, colour) in enumerate(curves):
                x = grid + width * (k - 0.5 * (len(labels) - 1))
                ends = mean - half_width * std, mean + half_width * std
                style = {"alpha": 0.35, "label": band_label if k == 0 else None}
                if has_points:
                    style |= {"linewidth": 10.0 / len(labels), "color": colour}
                    draw, shape = axes.vlines, {"linestyle": "none", "marker": "o"}
                    shape["markersize"] = 4.0
                else:
                    style |= {"linewidth": 0.0, "facecolor": colour}
                    draw, shape = axes.fill_between, {"linewidth": 1.8}
                self.bands_.append(draw(x, *ends, **settings(band_kw, "collection", **style)))
                style = settings(line_kw, "line", **shape, color=colour, label=label)
                self.lines_ += axes.plot(x, mean, **style)
            style = {"color": GREY, "linestyle": "none", "marker": "|", "markersize": 8.0}
            if deciles is not None:
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


def _columns(features, fitted, table, moderator):
    """Return the indices of the columns of X to draw, without the moderator."""
    columns = [d for d in table.chosen(features) if d != moderator]
    if features is not None or len(columns) <= MOST_PANELS:
        return columns
    variation = []
    for d in columns:
        grid = table.grid(d, TRIAL_VALUES)
        grid = grid[np.unique(np.linspace(0, len(grid) - 1, TRIAL_VALUES).astype(int))]
        mean, _ = _effects(fitted, table, d, grid, TRIAL_ROWS)
        # The largest of several functions.
        variation.append(np.ptp(mean, axis=0).max())
    return [columns[k] for k in np.sort(np.argsort(variation)[-MOST_PANELS:])]


def _moderator(by, table):
    """Return the index of the column `by`, for whose values there are separate curves."""
    if isinstance(by, bool) or by not in [*table.names, *range(len(table.names))]:
        raise ValueError(
            f"by must be the number or the name of a column of X, got {by!r}: the names are "
            f"{table.names}"
        )
    return table.chosen([by])[0]


def _effects(fitted, table, column, grid, n_rows, moderator=None, levels=None):
    """Return means and standard deviations of the effects of a column, (n_values, K) each.

    With `levels` of a column `moderator`, they are those at each level, (n_levels, n_values, K).
    """
    rows = table.spread_rows(column, n_rows)
    reference, moments = fitted.transform(rows), []
    shape = (len(grid), -1) if moderator is None else (len(levels), len(grid), -1)
    with warnings.catch_warnings():
        # The effect of zero is in the picture.
        warnings.filterwarnings("ignore", message="all rows of fit had the same value")
        for level in [None] if moderator is None else levels:
            at_level = rows if moderator is None else table.with_value(rows, moderator, level)
            for value in grid:
                changed = fitted.transform(table.with_value(at_level, column, value))
                moments.append(fitted.estimator.average_difference(changed, reference))
    return tuple(np.reshape(part, shape) for part in zip(*moments, strict=True))


def _mark_values(axes, grid, is_category):
    """Label the values of a column of few values, and return their places, (n_values,)."""
    places = np.arange(len(grid)) if is_category else grid
    axes.set_xticks(places)
    if is_category:
        is_long = sum(map(len, grid)) > MOST_CHARACTERS
        axes.set_xticklabels(grid, **({"rotation": 30.0, "ha": "right"} if is_long else {}))
    axes.margins(x=0.2)
    return places


def _texts(levels):
    """Return categories, or numbers with as few digits as tell them apart, as a list of texts."""
    if levels.dtype.kind != "f":
        return [str(level) for level in levels]
    texts = ([f"{level:.{digits}g}" for level in levels] for digits in range(3, 18))
    return next(found for found in texts if len(set(found)) == len(levels))


def _deciles(values):
    """Return the deciles of numbers (N,), some of which may be missing, or None for None."""
    return None if values is None else np.nanquantile(values, np.arange(1, 10) / 10.0)


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
