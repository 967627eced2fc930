"""Plot of the lower bound during a fit."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils._optional_dependencies import check_matplotlib_support

from sparsegpc.displays._drawing import BLUE, PALE, VERMILION, add_legend, axes_or_new, settings
from sparsegpc.displays._inputs import ANY_KIND, fitted_model, refuse_one_vs_rest

AXES = {"evaluations": "evaluations of the bound", "seconds": "time since the start of the fit, s"}


@dataclass(kw_only=True, eq=False, repr=False)
class ConvergenceDisplay:
    """Plot of the lower bound during a fit, and of where inducing points were chosen.

    A fit tries a few starts, and then alternates between maximising the lower bound over the
    hyperparameters and choosing the inducing points again with the learned kernel. It begins with
    200 of the rows and, with many rows, continues with larger subsets. As bounds for a subset and
    for all rows are not comparable, the plot shows nats per row, and subsets in another colour. The
    vertical axis leaves out a few poor starts if they would take up most of it. With minibatches
    there is one evaluation for each epoch, or for each call of ``partial_fit``.

    It is recommended to use `from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    choice, n_samples, n_inducing, lower_bound, seconds : ndarray of shape (n_evaluations,)
        Of each evaluation: the number of the choice of points, counted from 0; the numbers of rows
        and points; the lower bound for these rows, in nats; and the time since the fit began.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the axes.
    line_ : matplotlib Line2D
        The bound of all rows, with gaps where points are chosen.
    subset_line_ : matplotlib Line2D or None
        The bound of subsets of the rows; None if there are no subsets, or if they are not drawn.
    choice_lines_ : matplotlib LineCollection
        Vertical lines where points were chosen again.
    legend_ : matplotlib Legend
        Below the axes.

    See Also
    --------
    SparsityDisplay : The bound with fewer inducing points.
    SparseGPClassifier : Its ``history_`` contains the data of this plot.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sparsegpc import SparseGPRegressor
    >>> from sparsegpc.displays import ConvergenceDisplay
    >>> X = load_iris().data
    >>> model = SparseGPRegressor(n_inducing=20).fit(X[:, :3], X[:, 3])
    >>> display = ConvergenceDisplay.from_estimator(model)
    >>> display.ax_.get_ylabel()
    'lower bound, nats per row'
    """

    choice: np.ndarray
    n_samples: np.ndarray
    n_inducing: np.ndarray
    lower_bound: np.ndarray
    seconds: np.ndarray

    @classmethod
    def from_estimator(cls, estimator, **plot_kw):
        """Draw the lower bound during a fit.

        Parameters
        ----------
        estimator : estimator with ``history_``, Pipeline or BoundSearch
            A fitted estimator of this package, a pipeline that ends in one, or a search among them.
        **plot_kw : dict
            Arguments of `plot`, such as `against` and `ax`.

        Returns
        -------
        display : ConvergenceDisplay
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        model = fitted_model(estimator, ANY_KIND).estimator
        refuse_one_vs_rest(model, cls.__name__)
        history = {name: np.asarray(values) for name, values in model.history_.items()}
        return cls(**history).plot(**plot_kw)

    def plot(
        self,
        ax=None,
        *,
        against="evaluations",
        subsets=True,
        line_kw=None,
        subset_kw=None,
        choice_kw=None,
        legend_kw=None,
    ):
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        against : {"evaluations", "seconds"}, default="evaluations"
            Quantity on the horizontal axis.
        subsets : bool, default=True
            Whether to draw the evaluations on subsets of the rows, too.
        line_kw, subset_kw, choice_kw, legend_kw : dict or None, default=None
            Settings for `matplotlib.axes.Axes.plot` of the bound of all rows and of subsets, for
            `matplotlib.axes.Axes.vlines` where points were chosen again, and for
            `matplotlib.axes.Axes.legend`.

        Returns
        -------
        display : ConvergenceDisplay
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        if against not in tuple(AXES):
            raise ValueError(
                f"against must be one of {tuple(AXES)}, got {against!r}: give its name"
            )
        whole, n_rows = self.n_samples == self.n_samples.max(), self.n_samples.max()
        shown = np.ones_like(whole) if subsets else whole
        x = np.arange(1, len(whole) + 1) if against == "evaluations" else self.seconds
        per_row = self.lower_bound / self.n_samples
        starts = np.flatnonzero(np.diff(self.choice) != 0) + 1
        breaks = np.union1d(starts, np.flatnonzero(np.diff(whole)) + 1)
        self.ax_ = ax = axes_or_new(ax)
        self.figure_ = ax.figure
        before = ax.get_ylim() if ax.has_data() else ()
        style = {"marker": "o", "markersize": 3.5, "linewidth": 1.5}

        def line(mask, given, **defaults):
            points = _with_gaps(x, per_row, mask, breaks)
            return ax.plot(*points, **settings(given, "line", **style, **defaults))[0]

        self.line_ = line(whole, line_kw, color=BLUE, label=f"all {n_rows} rows")
        self.subset_line_ = None
        if not (shown == whole).all():
            least, most = self.n_samples[~whole].min(), self.n_samples[~whole].max()
            label = f"{least} rows" if least == most else f"fewer rows: {least} to {most}"
            self.subset_line_ = line(~whole, subset_kw, color=VERMILION, label=label)
        starts = [k for k in starts if shown[k] and shown[k - 1]]
        self.choice_lines_ = ax.vlines(
            [0.5 * (x[k - 1] + x[k]) for k in starts],
            0.0,
            1.0,
            transform=ax.get_xaxis_transform(),
            **settings(
                choice_kw,
                "collection",
                color=PALE,
                linewidth=1.0,
                zorder=0,
                # matplotlib's legends leave out labels that begin with an underscore.
                label="points chosen again" if starts else "_never",
            ),
        )
        ax.set(xlabel=AXES[against], ylabel="lower bound, nats per row")
        ax.set_ylim(_limits(per_row[shown], before))
        self.legend_ = add_legend(ax, legend_kw, n_columns=3)
        return self


def _with_gaps(x, y, mask, breaks):
    """Return the points of a line to draw, with gaps before `breaks` and at omitted points."""
    y = np.where(mask, y, np.nan)
    return np.insert(np.asarray(x, float), breaks, np.nan), np.insert(y, breaks, np.nan)


def _limits(values, before):
    """Return vertical limits, which leave out a few low values that need most of the axis.

    `before` holds the limits of earlier plots on these axes, or is empty; the result includes them.
    """
    # The first steps from poor starts may be so low that the other steps are hard to distinguish.
    # If the lowest fifth of the evaluations would take up most of the axis, it starts above them.
    lowest, low, high = np.quantile(values, [0.0, 0.2, 1.0])
    if low - lowest <= 0.7 * (high - lowest):
        low = lowest
    margin = 0.05 * ((high - low) or 1.0)
    return min([low - margin, *before]), max([high + margin, *before])
