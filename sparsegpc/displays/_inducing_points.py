"""Plot of a binary classifier of two columns: shading, decision boundary and inducing points."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils._optional_dependencies import check_matplotlib_support
from sklearn.utils.validation import check_consistent_length

from sparsegpc._core.likelihoods.base import polya_gamma_mean
from sparsegpc._estimators.classifier import SparseGPClassifier
from sparsegpc._estimators.input.validation import refuse_masked
from sparsegpc._estimators.minibatches.classifier import StochasticSparseGPClassifier
from sparsegpc.displays._drawing import BLUE, VERMILION, add_legend, axes_or_new, settings
from sparsegpc.displays._inputs import (
    along,
    column_labels,
    fitted_model,
    grid_size,
    like_rows,
    numeric_rows,
    refuse_one_vs_rest,
)
from sparsegpc.likelihoods import (
    BernoulliLogit,
    ConditionalPolyaGamma,
    OrdinalLogit,
    PolyaGammaLogit,
)

RESPONSES = ("probability", "pg_variance", "latent_std")
LABELS = {
    "pg_variance": "Pólya-Gamma variance of pseudo-observations",
    "latent_std": "standard deviation of f",
}
# Likelihoods for which f is the log-odds, to which the augmentation applies.
LOGISTIC = (BernoulliLogit, ConditionalPolyaGamma, OrdinalLogit, PolyaGammaLogit)
# Shades against which rows and points are visible.
LIGHT_BLUE, LIGHT_VERMILION, LIGHT_GREY = "#7FB8D8", "#EAAE7F", "#8C8C8C"


@dataclass(kw_only=True, eq=False, repr=False)
class InducingPointsDisplay:
    r"""Plot of a binary classifier of two columns: shading, boundary, rows and inducing points.

    The shading shows the probability of the second class or one of two measures of uncertainty.
    "latent_std" is the standard deviation of f, which is large where there are no rows.
    "pg_variance" is the variance of the pseudo-observations of f into which the Pólya-Gamma
    augmentation [1]_ turns the labels,

    .. math::
        \frac{2 c}{\tanh(c / 2)}, \qquad c^2 = E[f]^2 + V[f],

    for a row of weight one. Its minimum is 4, where f is certain to be zero: rows at the decision
    boundary are the most informative about f, and have the largest weights in the choice of points
    (section 5.2 of [2]_).

    It is recommended to use `from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    xx0, xx1 : ndarray of shape (grid_resolution, grid_resolution)
        Both columns at the points of a grid, as `numpy.meshgrid` returns them.
    probability : ndarray of shape (grid_resolution, grid_resolution)
        Probability of the second class.
    response : {"probability", "pg_variance", "latent_std"}
        Quantity that is shaded.
    values : ndarray of shape (grid_resolution, grid_resolution)
        The shading.
    X : ndarray of shape (n_samples, 2)
        Rows to draw.
    y : ndarray of shape (n_samples,)
        Their labels.
    classes : ndarray of shape (2,)
        Class labels.
    inducing_points : ndarray of shape (n_points, 2)
        Inducing points, in the columns of X.
    xlabel, ylabel : str
        Names of the columns.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the axes.
    surface_ : matplotlib QuadContourSet
        The shading.
    boundary_ : matplotlib QuadContourSet or None
        Line on which both classes are equally probable; None if it does not cross the grid.
    scatter_ : list of matplotlib PathCollection
        The rows of each class.
    inducing_ : matplotlib PathCollection
        The inducing points.
    colorbar_ : matplotlib Colorbar
        Colour bar of the shading.
    legend_ : matplotlib Legend
        Below the axes.

    See Also
    --------
    sklearn.inspection.DecisionBoundaryDisplay : Responses of any classifier, without inducing
        points.
    RegressionDisplay : The plot of a regressor.

    References
    ----------
    .. [1] Polson, Scott, Windle, "Bayesian inference for logistic models using Polya-Gamma latent
       variables", JASA 108, 2013.
    .. [2] Passerello, "Heteroscedastic inducing point selection for sparse Gaussian process
       classification", Imperial College London, 2021.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sparsegpc import SparseGPClassifier
    >>> from sparsegpc.displays import InducingPointsDisplay
    >>> X, y = make_moons(100, noise=0.25, random_state=0)
    >>> model = SparseGPClassifier().fit(X, y)
    >>> display = InducingPointsDisplay.from_estimator(model, X, y, response="pg_variance")
    >>> bool(display.values.min() >= 4.0)
    True
    """

    xx0: np.ndarray
    xx1: np.ndarray
    probability: np.ndarray
    response: str
    values: np.ndarray
    X: np.ndarray
    y: np.ndarray
    classes: np.ndarray
    inducing_points: np.ndarray
    xlabel: str
    ylabel: str

    @classmethod
    def from_estimator(
        cls, estimator, X, y, *, response="probability", grid_resolution=150, **plot_kw
    ):
        """Compute the shading of a fitted classifier, and draw it with rows and inducing points.

        Parameters
        ----------
        estimator : SparseGPClassifier, StochasticSparseGPClassifier, Pipeline or BoundSearch
            Fitted to two classes. Pipeline steps before the classifier need ``inverse_transform``,
            so that the inducing points can be drawn in the columns of X.
        X : array-like of shape (n_samples, 2)
            Rows to draw, not necessarily those of `fit`. The grid spans their range.
        y : array-like of shape (n_samples,)
            Their labels.
        response : {"probability", "pg_variance", "latent_std"}, default="probability"
            Quantity to shade. "pg_variance" needs a logistic likelihood for two classes,
            "latent_std" any likelihood for two classes.
        grid_resolution : int, default=150
            Number of grid points along each axis.
        **plot_kw : dict
            Arguments of `plot`, such as `ax`.

        Returns
        -------
        display : InducingPointsDisplay

        Raises
        ------
        ValueError
            If X does not have two columns, the classifier does not have two classes, or `response`
            is unknown or not defined for its likelihood.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        fitted = fitted_model(estimator, (SparseGPClassifier, StochasticSparseGPClassifier))
        model = fitted.estimator
        _check_response(response, model)
        inducing_points = fitted.inverse_transform(model.inducing_points_)
        rows, size = numeric_rows(X, n_columns=2), grid_size(grid_resolution)
        refuse_masked(y, "y")
        y = column_or_1d(y)
        check_consistent_length(rows, y)
        if not np.isin(y, model.classes_).all():
            raise ValueError(
                f"y must hold labels of the classes {model.classes_} of the estimator, got "
                f"{np.setdiff1d(y, model.classes_)}: leave these rows out"
            )
        grid = np.meshgrid(*(along(column, size) for column in rows.T))
        points = np.column_stack([axis.ravel() for axis in grid])
        rows_on_grid = fitted.transform(like_rows(X, points))
        probability = model.predict_proba(rows_on_grid)[:, 1].reshape(size, size)
        values = probability
        if response != "probability":
            values = _uncertainty(response, *model.latent_mean_and_variance(rows_on_grid))
        xlabel, ylabel = column_labels(X)
        return cls(
            xx0=grid[0],
            xx1=grid[1],
            probability=probability,
            response=response,
            values=values.reshape(size, size),
            X=rows,
            y=y,
            classes=model.classes_,
            inducing_points=inducing_points,
            xlabel=xlabel,
            ylabel=ylabel,
        ).plot(**plot_kw)

    def plot(
        self,
        ax=None,
        *,
        surface_kw=None,
        boundary_kw=None,
        scatter_kw=None,
        inducing_kw=None,
        colorbar_kw=None,
        legend_kw=None,
    ):
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        surface_kw, boundary_kw, scatter_kw : dict or None, default=None
            Settings for `matplotlib.axes.Axes.contourf` of the shading, for
            `matplotlib.axes.Axes.contour` of the decision boundary, and for
            `matplotlib.axes.Axes.scatter` of the rows.
        inducing_kw, colorbar_kw, legend_kw : dict or None, default=None
            Settings for `matplotlib.axes.Axes.scatter` of the inducing points, for
            `matplotlib.figure.Figure.colorbar`, and for `matplotlib.axes.Axes.legend`.

        Returns
        -------
        display : InducingPointsDisplay
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        self.ax_ = ax = axes_or_new(ax, height=5.4)
        self.figure_ = ax.figure
        self._plot_surface(surface_kw, colorbar_kw or {})
        self.boundary_ = None
        if self.probability.min() < 0.5 < self.probability.max():
            given = boundary_kw or {}
            style = {"colors": "black", "linewidths": 1.5} if "cmap" not in given else {}
            self.boundary_ = ax.contour(
                self.xx0, self.xx1, self.probability, [0.5], **{**style, **given}
            )
            # matplotlib's legends have no entries for contours, so add an empty line.
            look = {"color": self.boundary_.get_edgecolor()[0]}
            look["linewidth"] = self.boundary_.get_linewidth()[0]
            ax.plot([], [], **look, label="decision boundary")
        style = {"s": 18, "edgecolor": "white", "linewidth": 0.3}
        self.scatter_ = [
            ax.scatter(
                *self.X[self.y == label].T,
                **settings(
                    scatter_kw, "collection", **style, facecolor=colour, marker=marker, label=name
                ),
            )
            for label, name, colour, marker in zip(
                self.classes, self._class_names(), (BLUE, VERMILION), "o^", strict=True
            )
        ]
        self.inducing_ = ax.scatter(
            *self.inducing_points.T,
            **settings(
                inducing_kw,
                "collection",
                s=48,
                facecolor="none",
                edgecolor="black",
                linewidth=1.1,
                label=f"{len(self.inducing_points)} inducing points",
            ),
        )
        ax.set(
            xlabel=self.xlabel,
            ylabel=self.ylabel,
            xlim=(self.xx0.min(), self.xx0.max()),
            ylim=(self.xx1.min(), self.xx1.max()),
        )
        self.legend_ = add_legend(ax, legend_kw, n_columns=2)
        return self

    def _class_names(self):
        """Return a name for each class: a label that is a string, else "class" and the label."""
        # matplotlib's legends leave out labels that begin with an underscore.
        is_name = [isinstance(c, str) and not c.startswith("_") for c in self.classes]
        return [
            str(c) if named else f"class {c}"
            for c, named in zip(self.classes, is_name, strict=True)
        ]

    def _plot_surface(self, surface_kw, colorbar_kw):
        from matplotlib.colors import LinearSegmentedColormap
        from matplotlib.ticker import MaxNLocator

        given, names = surface_kw or {}, self._class_names()
        if self.response == "probability":
            # The colours are opaque, as transparent levels leave lines where they meet.
            colours = LinearSegmentedColormap.from_list("", [LIGHT_BLUE, "white", LIGHT_VERMILION])
            style = {"levels": np.linspace(0.0, 1.0, 21)}
            label, ticks = f"probability of {names[1]}", np.linspace(0.0, 1.0, 5)
        else:
            colours = LinearSegmentedColormap.from_list("", ["white", LIGHT_GREY])
            style = {"levels": 20}
            label, ticks = LABELS[self.response], MaxNLocator(6, steps=[1, 2, 2.5, 5, 10])
        if "colors" not in given:
            style["cmap"] = colours
        self.surface_ = self.ax_.contourf(self.xx0, self.xx1, self.values, **{**style, **given})
        self.colorbar_ = self.figure_.colorbar(
            self.surface_, **{"ax": self.ax_, "label": label, "ticks": ticks, **colorbar_kw}
        )


def _check_response(response, model):
    """Raise ValueError if `response` is not defined for a fitted classifier."""
    if response not in RESPONSES:
        raise ValueError(f"response must be one of {RESPONSES}, got {response!r}: give its name")
    n_classes = len(model.classes_)
    if n_classes != 2:
        raise ValueError(
            f"InducingPointsDisplay is for two classes, but estimator has {n_classes}: see "
            "sklearn.inspection.DecisionBoundaryDisplay for their boundaries"
        )
    refuse_one_vs_rest(model, "InducingPointsDisplay")
    if response == "pg_variance" and not isinstance(model.likelihood_, LOGISTIC):
        raise ValueError(
            "response='pg_variance' needs a likelihood of two classes of which f is the log-odds, "
            "'bernoulli-logit', 'ordinal-logit', 'polya-gamma' or 'conditional-polya-gamma', got "
            f"{model.likelihood!r}: choose another response"
        )
    if response == "latent_std" and np.size(model.prior_mean_) > 1:
        raise ValueError(
            "response='latent_std' needs a likelihood with one function f for two classes, such as "
            f"'bernoulli-logit', got {model.likelihood!r}: choose another response"
        )


def _uncertainty(response, mean, variance):
    """Return the shading "pg_variance" or "latent_std" from the moments of f."""
    if response == "latent_std":
        return np.sqrt(variance)
    tilt = np.sqrt(mean**2 + variance)
    # A lower limit of the tilt avoids 0 / 0; in float64 the variance at 1e-8 equals that at zero.
    return 1.0 / polya_gamma_mean(np.maximum(tilt, 1e-8))
