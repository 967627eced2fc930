"""Plot of a regressor along one column: mean, band of f and band of y."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.utils._optional_dependencies import check_matplotlib_support
from sklearn.utils.validation import check_array, check_consistent_length

from sparsegpc._estimators.generalized_regressor import SparseGPGeneralizedRegressor
from sparsegpc._estimators.input.validation import checked_targets
from sparsegpc._estimators.minibatches.generalized_regressor import (
    StochasticSparseGPGeneralizedRegressor,
)
from sparsegpc._estimators.minibatches.regressor import StochasticSparseGPRegressor
from sparsegpc._estimators.regressor import SparseGPRegressor
from sparsegpc.displays._drawing import BLUE, GREY, SKY, add_legend, axes_or_new, settings
from sparsegpc.displays._inputs import (
    along,
    column_labels,
    fitted_model,
    gaussian_quantile,
    grid_size,
    numeric_rows,
    which_column,
)

GENERALIZED = (SparseGPGeneralizedRegressor, StochasticSparseGPGeneralizedRegressor)
KINDS = (SparseGPRegressor, StochasticSparseGPRegressor, *GENERALIZED)


@dataclass(kw_only=True, eq=False, repr=False)
class RegressionDisplay:
    r"""Plot of a regressor along one column: mean, bands of f and of y, rows and inducing points.

    Both bands are central intervals of probability `coverage`. The band of f describes the
    uncertainty of the function and shrinks as rows are added; for a
    :class:`SparseGPGeneralizedRegressor` it is that of the mean of y given f. The band of y
    includes the noise, as in `predict_interval`, and should contain a proportion `coverage` of
    the targets. All other columns are fixed at reference values. As rows and inducing points have
    other values in these columns, they need not follow the bands.

    It is recommended to use `from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    grid : ndarray of shape (grid_resolution,)
        Values of the column, in ascending order.
    mean : ndarray of shape (grid_resolution,)
        Predictive mean, in units of y.
    f_interval : callable
        ``f_interval(coverage)`` returns the lower and the upper end of the band of f, in units of
        y, two arrays of shape (grid_resolution,).
    y_interval : callable or None
        The same for the band of y. None if the noise on the grid is unknown.
    x, y : ndarray of shape (n_samples,)
        The column of the rows to draw, and their targets.
    inducing_points : ndarray of shape (n_points,)
        The column of the inducing points.
    xlabel, ylabel : str
        Names of the column and of the targets.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the axes.
    line_ : matplotlib Line2D
        The mean.
    f_band_ : matplotlib PolyCollection
        The band of f.
    y_band_ : matplotlib PolyCollection or None
        The band of y; None if the noise is unknown.
    scatter_ : matplotlib PathCollection
        The rows.
    inducing_ : matplotlib Line2D
        Ticks at the bottom, one for each inducing point.
    legend_ : matplotlib Legend
        Below the axes.

    See Also
    --------
    InducingPointsDisplay : The plot of a classifier.
    sklearn.inspection.PartialDependenceDisplay : Averages over the other columns.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sparsegpc import SparseGPRegressor
    >>> from sparsegpc.displays import RegressionDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> X = X[["bmi"]]
    >>> model = SparseGPRegressor(n_inducing=20).fit(X, y)
    >>> display = RegressionDisplay.from_estimator(model, X, y)
    >>> display.ax_.get_xlabel()
    'bmi'
    >>> lower, upper = display.y_interval(0.5)
    >>> bool((lower < display.mean).all() and (display.mean < upper).all())
    True
    """

    grid: np.ndarray
    mean: np.ndarray
    f_interval: Callable
    y_interval: Callable | None
    x: np.ndarray
    y: np.ndarray
    inducing_points: np.ndarray
    xlabel: str
    ylabel: str

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y,
        *,
        feature=None,
        reference=None,
        grid_resolution=200,
        noise_variance=None,
        **plot_kw,
    ):
        """Predict along one column, and draw the bands with rows and inducing points.

        Parameters
        ----------
        estimator : estimator, Pipeline or BoundSearch
            A SparseGPRegressor or SparseGPGeneralizedRegressor, or its stochastic version, fitted
            to one output. Pipeline steps before the regressor need ``inverse_transform``, so
            that the inducing points can be drawn in the columns of X.
        X : array-like of shape (n_samples, n_features)
            Rows to draw, not necessarily those of `fit`. The grid spans their range.
        y : array-like of shape (n_samples,)
            Their targets. Divide counts by their exposures, since the model is drawn for an
            exposure of 1.
        feature : int, str or None, default=None
            The number of the column or, in a data frame, its name. None is allowed if there is only
            one column.
        reference : array-like of shape (n_features,) or None, default=None
            Values of all columns; that of `feature` is ignored. None means the medians.
        grid_resolution : int, default=200
            Number of grid points along the column.
        noise_variance : float or None, default=None
            Variance of the noise along the column, for a model that was fitted with known noise. If
            it is None, such a model has no band of y.
        **plot_kw : dict
            Arguments of `plot`, such as `coverage` and `ax`.

        Returns
        -------
        display : RegressionDisplay

        Raises
        ------
        ValueError
            If there is more than one output, or if `feature`, `reference` or an argument of `plot`
            is invalid.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        fitted = fitted_model(estimator, KINDS)
        model = fitted.estimator
        inducing_points = fitted.inverse_transform(model.inducing_points_)
        rows, size, names = numeric_rows(X), grid_size(grid_resolution), column_labels(X)
        targets = checked_targets(y)
        check_consistent_length(rows, targets)
        if targets.ndim > 1 or np.ndim(model.prior_mean_) > 0:
            raise ValueError(
                "RegressionDisplay is for one target in one dimension, got y of shape "
                f"{targets.shape} and an estimator of {np.size(model.prior_mean_)}: fit a model to "
                "one of them"
            )
        column = which_column(feature, names)
        grid = along(rows[:, column], size)
        rows_on_grid = fitted.transform_along(X, _reference(reference, rows), column, grid)
        mean, f_interval, y_interval = _along_grid(model, rows_on_grid, noise_variance)
        return cls(
            grid=grid,
            mean=mean,
            f_interval=f_interval,
            y_interval=y_interval,
            x=rows[:, column],
            y=targets,
            inducing_points=inducing_points[:, column],
            xlabel=names[column],
            ylabel=str(getattr(y, "name", None) or "y"),
        ).plot(**plot_kw)

    def plot(
        self,
        ax=None,
        *,
        coverage=0.95,
        line_kw=None,
        f_band_kw=None,
        y_band_kw=None,
        scatter_kw=None,
        inducing_kw=None,
        legend_kw=None,
    ):
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        coverage : float, default=0.95
            Probability of each band at each value of the column, between 0 and 1.
        line_kw, f_band_kw, y_band_kw : dict or None, default=None
            Settings for `matplotlib.axes.Axes.plot` of the mean, and for
            `matplotlib.axes.Axes.fill_between` of the bands.
        scatter_kw, inducing_kw, legend_kw : dict or None, default=None
            Settings for `matplotlib.axes.Axes.scatter` of the rows, for `matplotlib.axes.Axes.plot`
            of the inducing points, and for `matplotlib.axes.Axes.legend`.

        Returns
        -------
        display : RegressionDisplay
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        f_ends = self.f_interval(coverage)
        self.ax_ = ax = axes_or_new(ax)
        self.figure_ = ax.figure

        def band(ends, name, given, **style):
            label = f"{100.0 * coverage:.4g} % band of {name}"
            return ax.fill_between(
                self.grid,
                *ends,
                **settings(given, "collection", linewidth=0.0, label=label, **style),
            )

        self.y_band_ = None
        if self.y_interval is not None:
            ends = self.y_interval(coverage)
            self.y_band_ = band(ends, "y", y_band_kw, facecolor=SKY, alpha=0.25)
        self.f_band_ = band(f_ends, "f", f_band_kw, facecolor=BLUE, alpha=0.35)
        [self.line_] = ax.plot(
            self.grid,
            self.mean,
            **settings(line_kw, "line", color=BLUE, linewidth=1.8, label="mean"),
        )
        self.scatter_ = ax.scatter(
            self.x,
            self.y,
            **settings(
                scatter_kw,
                "collection",
                s=12,
                facecolor=GREY,
                edgecolor="none",
                alpha=0.6,
                zorder=1.5,
                label="rows",
            ),
        )
        [self.inducing_] = ax.plot(
            self.inducing_points,
            np.full(len(self.inducing_points), 0.025),
            transform=ax.get_xaxis_transform(),
            **settings(
                inducing_kw,
                "line",
                color="black",
                linestyle="none",
                marker="|",
                markersize=9.0,
                label=f"{len(self.inducing_points)} inducing points",
            ),
        )
        ax.set(xlabel=self.xlabel, ylabel=self.ylabel, xlim=(self.grid[0], self.grid[-1]))
        self.legend_ = add_legend(ax, legend_kw, n_columns=3)
        return self


def _reference(reference, rows):
    if reference is None:
        return np.median(rows, axis=0)
    reference = check_array(reference, dtype=np.float64, ensure_2d=False, input_name="reference")
    if reference.shape != rows.shape[1:]:
        raise ValueError(
            f"reference must have one value for each of the {rows.shape[1]} columns of X, got an "
            f"array of shape {reference.shape}: None is the median of each"
        )
    return reference


def _along_grid(model, rows, noise_variance):
    """Return the mean of y, `f_interval` and `y_interval` at rows, see `RegressionDisplay`."""
    mean, variance = model.latent_mean_and_variance(rows)
    std = np.sqrt(variance)
    if isinstance(model, GENERALIZED):
        if noise_variance is not None:
            raise ValueError(
                f"noise_variance must be None for a {type(model).__name__}, got "
                f"{noise_variance!r}: leave it out"
            )
        # The band of E[y | f], which is proportional to exp(f).
        log_mean = model.likelihood_.log_mean_factor() + mean
        f_interval = partial(_log_normal_interval, log_mean, std)
        return model.predict(rows), f_interval, partial(model.predict_interval, rows)
    y_interval = None
    # A model that was fitted with known noise does not know that of other rows.
    if noise_variance is not None or model._noise is not None:
        y_interval = partial(model.predict_interval, rows, noise_variance=noise_variance)
    return mean, partial(_gaussian_interval, mean, std), y_interval


def _gaussian_interval(mean, std, coverage):
    half_width = gaussian_quantile(coverage) * std
    return mean - half_width, mean + half_width


def _log_normal_interval(mean, std, coverage):
    return tuple(map(np.exp, _gaussian_interval(mean, std, coverage)))
