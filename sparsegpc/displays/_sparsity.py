"""Plot of the bound and the certificate against the number of inducing points."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils._optional_dependencies import check_matplotlib_support

from sparsegpc._estimators.classifier import SparseGPClassifier
from sparsegpc._estimators.generalized_regressor import SparseGPGeneralizedRegressor
from sparsegpc._estimators.regressor import SparseGPRegressor
from sparsegpc._estimators.selector import InducingPointSelector
from sparsegpc.displays._drawing import (
    BLUE,
    GREEN,
    VERMILION,
    add_legend,
    axes_or_new,
    checked_axes,
    settings,
)
from sparsegpc.displays._inputs import fitted_model, refuse_one_vs_rest, sizes_of_prefixes

KINDS = (SparseGPClassifier, SparseGPRegressor, SparseGPGeneralizedRegressor)


@dataclass(kw_only=True, eq=False, repr=False)
class SparsityDisplay:
    """Plot of lower bound, cost per row and certificate against the number of inducing points.

    Hyperparameters are those of the fitted model. As points are chosen one after the other, its
    first m points are also the choice of m points. The plot therefore shows whether the model has
    enough points: if the bound is level and the certificate small, more points will not help. It
    does not show that a fit with fewer points would learn other hyperparameters. If the points are
    centroids, which ``selector="auto"`` may choose, m centroids of larger groups of rows would have
    a higher bound than the first m. The certificate of a classifier may increase with the number of
    points as long as there are far too few.

    It is recommended to use `from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    n_inducing : ndarray of shape (n_sizes,)
        Numbers of inducing points, ascending.
    lower_bound : ndarray of shape (n_sizes,)
        Lower bound on the log marginal likelihood, in nats.
    cost_per_row : ndarray of shape (n_sizes,)
        Cost of the residual variance, in nats per row: the ``cost_per_row_`` of a fit.
    gap_per_row : ndarray of shape (n_sizes,)
        Upper minus lower bound, in nats per row: the gap of the certificate.

    Attributes
    ----------
    axes_ : ndarray of shape (2,) of matplotlib Axes
        Left: the bound. Right: the cost and the certificate.
    figure_ : matplotlib Figure
        Figure of the axes.
    bound_line_ : matplotlib Line2D
        The lower bound.
    cost_line_ : matplotlib Line2D
        The cost per row.
    gap_line_ : matplotlib Line2D
        The certificate.
    legend_ : matplotlib Legend
        Legend of cost and certificate, below their axes.

    See Also
    --------
    ConvergenceDisplay : The bound during a fit.
    SparseGPClassifier.truncate : The model with the first points only.
    SparseGPRegressor.certificate : Errors of predictions that the gap allows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sparsegpc import SparseGPRegressor
    >>> from sparsegpc.displays import SparsityDisplay
    >>> X = load_iris().data
    >>> model = SparseGPRegressor(n_inducing=20).fit(X[:, :3], X[:, 3])
    >>> display = SparsityDisplay.from_estimator(model, X[:, :3], X[:, 3])
    >>> display.n_inducing
    array([ 1,  2,  4,  6,  8, 13, 20])
    >>> bool((display.gap_per_row > 0.0).all())
    True
    """

    n_inducing: np.ndarray
    lower_bound: np.ndarray
    cost_per_row: np.ndarray
    gap_per_row: np.ndarray

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y,
        *,
        n_inducing=None,
        sample_weight=None,
        noise_variance=None,
        exposure=None,
        event=None,
        **plot_kw,
    ):
        """Compute the bounds and the cost of a fitted model with its first points, and draw them.

        Parameters
        ----------
        estimator : estimator, Pipeline or BoundSearch
            A fitted SparseGPClassifier, SparseGPRegressor or SparseGPGeneralizedRegressor, a
            pipeline that ends in one, or a search among them.
        X, y : array-like
            The data given to `fit`, which are not kept.
        n_inducing : int, array-like of int or None, default=None
            Numbers of points. None means about 8 numbers in geometric progression, from 1 to the
            number of points of the model.
        sample_weight, noise_variance, exposure, event : array-like, float or None, default=None
            As in `fit` of the estimators that take them.
        **plot_kw : dict
            Arguments of `plot`, such as `ax`.

        Returns
        -------
        display : SparsityDisplay

        Raises
        ------
        ValueError
            If the data are not those of `fit`, the points were not chosen one after the other, or
            `n_inducing` is out of range.

        Notes
        -----
        Each number m of points costs O(N m^2) for N rows, and several times that for a classifier,
        as the sites are solved for again. With up to 20 000 rows the certificate adds one pass over
        the N x N kernel matrix with m columns, O(N^2 m).
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        fitted = fitted_model(estimator, KINDS)
        model = fitted.estimator
        refuse_one_vs_rest(model, cls.__name__)
        _refuse_unordered(model)
        sizes = sizes_of_prefixes(n_inducing, len(model.inducing_points_))
        data = {"X": fitted.transform(X), "y": y, "sample_weight": sample_weight}
        given = {"noise_variance": noise_variance, "exposure": exposure, "event": event}
        data |= {name: value for name, value in given.items() if value is not None}
        # This raises ValueError if the data are not those of fit.
        whole = model.certificate(**data)
        n_points = len(model.inducing_points_)
        models = [model if m == n_points else model.truncate(m, **data) for m in sizes]
        certificates = [
            whole if smaller is model else smaller.certificate(**data) for smaller in models
        ]
        return cls(
            n_inducing=sizes,
            lower_bound=np.array([smaller.lower_bound_ for smaller in models]),
            cost_per_row=np.array([smaller.cost_per_row_ for smaller in models]),
            gap_per_row=np.array([certificate.gap_per_row for certificate in certificates]),
        ).plot(**plot_kw)

    def plot(self, ax=None, *, bound_kw=None, cost_kw=None, gap_kw=None, legend_kw=None):
        """Draw the display.

        Parameters
        ----------
        ax : array-like of two matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        bound_kw, cost_kw, gap_kw, legend_kw : dict or None, default=None
            Settings for `matplotlib.axes.Axes.plot` of the lower bound, of the cost per row and of
            the certificate, and for `matplotlib.axes.Axes.legend`.

        Returns
        -------
        display : SparsityDisplay
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        axes = axes_or_new(ax, n_axes=2, width=9.0, height=4.0)
        self.axes_ = left, right = checked_axes(axes, 2)
        self.figure_ = left.figure
        style = {"marker": "o", "markersize": 4.5, "linewidth": 1.5}
        [self.bound_line_] = left.plot(
            self.n_inducing, self.lower_bound, **settings(bound_kw, "line", **style, color=BLUE)
        )
        [self.gap_line_] = right.plot(
            self.n_inducing,
            self.gap_per_row,
            **settings(
                gap_kw,
                "line",
                **{**style, "marker": "s"},
                color=VERMILION,
                label="certificate: upper minus lower bound",
            ),
        )
        [self.cost_line_] = right.plot(
            self.n_inducing,
            self.cost_per_row,
            **settings(
                cost_kw, "line", **style, color=GREEN, label="cost of the residual variance"
            ),
        )
        left.set(xscale="log", xlabel="inducing points", ylabel="lower bound, nats")
        right.set(xscale="log", yscale="log", xlabel="inducing points", ylabel="nats per row")
        for axes in (left, right):
            _tick_at(axes, self.n_inducing)
        self.legend_ = add_legend(right, legend_kw, n_columns=1)
        return self


def _refuse_unordered(model):
    """Raise ValueError if the first m points are not a choice of m points."""
    # With a cost they are in the order of their worth.
    if model.inducing_indices_ is not None or model.point_cost > 0.0:
        return
    selector = model.selector
    if isinstance(selector, InducingPointSelector):
        selector = selector.method
    kmeans = isinstance(selector, str) and selector == "kmeans"
    if kmeans or model.inducing_moved_:
        why = "are centres of k-means" if kmeans else "were moved together"
        raise ValueError(
            f"the inducing points of estimator {why}, so that the first m of them say nothing "
            "about a model with m points: fit models with different n_inducing and compare their "
            "lower_bound_, or fit with selector='rpcholesky' and optimize_inducing=False"
        )


def _tick_at(ax, numbers):
    """Label a logarithmic axis with these numbers, except those too close to a larger one."""
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    # Twelve ticks fit an axis that is half a figure wide.
    room = (numbers[-1] / numbers[0]) ** (1.0 / 12)
    ticks = [numbers[-1]]
    for number in numbers[-2::-1]:
        if number * room <= ticks[-1]:
            ticks.append(number)
    ax.xaxis.set_major_locator(FixedLocator(ticks[::-1]))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
    ax.xaxis.set_minor_locator(NullLocator())
