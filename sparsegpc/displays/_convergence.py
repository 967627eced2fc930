"""The lower bound on the way of a fit."""

import numpy as np

from sparsegpc._estimators.classifier import SparseGPClassifier
from sparsegpc._estimators.regressor import SparseGPRegressor
from sparsegpc._estimators.stochastic_classifier import StochasticSparseGPClassifier
from sparsegpc._estimators.stochastic_regressor import StochasticSparseGPRegressor
from sparsegpc.displays._drawing import (
    BLUE,
    PALE,
    VERMILION,
    add_legend,
    axes_or_new,
    need_matplotlib,
    settings,
)
from sparsegpc.displays._inputs import fitted_model, refuse_one_vs_rest

KINDS = (
    SparseGPClassifier,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPRegressor,
)
AXES = {"evaluations": "evaluations of the bound", "seconds": "time since the start of the fit, s"}


class ConvergenceDisplay:
    """The lower bound over the evaluations of a fit, and where inducing points were chosen.

    A fit tries a few starts, raises the lower bound over the hyperparameters, chooses the inducing
    points again with the kernel that it has learned, and goes on. With many rows it begins on
    subsets of them. The bound of a subset is another quantity than that of all rows, so the picture
    shows nats per row, and subsets in another colour. Equal rows that were merged count as one, as
    in ``history_``. Where a few poor starts would take most of the vertical axis it begins above
    them. With minibatches there is one evaluation for each epoch, or call of ``partial_fit``.

    It is recommended to use `from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    choice : ndarray of shape (n_evaluations,)
        How many times points had been chosen before those of each evaluation.
    n_samples : ndarray of shape (n_evaluations,)
        Number of rows of each evaluation.
    n_inducing : ndarray of shape (n_evaluations,)
        Inducing points of each.
    lower_bound : ndarray of shape (n_evaluations,)
        In nats, of these rows.
    seconds : ndarray of shape (n_evaluations,)
        Time from the start of the fit to each.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it is drawn.
    figure_ : matplotlib Figure
        Its figure.
    line_ : matplotlib Line2D
        The bound of all rows, with gaps where points are chosen.
    subset_line_ : matplotlib Line2D or None
        The bound of subsets of the rows; None if there are none, or if they are not asked for.
    choice_lines_ : matplotlib LineCollection
        Vertical lines where points were chosen again.
    legend_ : matplotlib Legend
        Below the axes.

    See Also
    --------
    SparsityDisplay : What fewer inducing points would have cost.
    SparseGPClassifier : Its ``history_`` is what this shows.

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

    def __init__(self, *, choice, n_samples, n_inducing, lower_bound, seconds):
        self.choice = choice
        self.n_samples = n_samples
        self.n_inducing = n_inducing
        self.lower_bound = lower_bound
        self.seconds = seconds

    @classmethod
    def from_estimator(
        cls,
        estimator,
        *,
        against="evaluations",
        subsets=True,
        ax=None,
        line_kw=None,
        subset_kw=None,
        choice_kw=None,
        legend_kw=None,
    ):
        """Draw the way of a fit.

        Parameters
        ----------
        estimator : estimator with ``history_``, or Pipeline
            Fitted: SparseGPClassifier, SparseGPRegressor or one that learns from minibatches, or a
            pipeline that ends in one.
        against : {"evaluations", "seconds"}, default="evaluations"
            What runs along the horizontal axis.
        subsets : bool, default=True
            Whether to draw evaluations on subsets of the rows, too.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        line_kw : dict or None, default=None
            Settings for `matplotlib.axes.Axes.plot` of the bound of all rows.
        subset_kw : dict or None, default=None
            Those of the bound of subsets.
        choice_kw : dict or None, default=None
            Settings for `matplotlib.axes.Axes.vlines` where points were chosen again.
        legend_kw : dict or None, default=None
            Settings for `matplotlib.axes.Axes.legend`.

        Returns
        -------
        display : ConvergenceDisplay
            Drawn.
        """
        need_matplotlib(f"{cls.__name__}.from_estimator")
        model = fitted_model(estimator, KINDS).estimator
        refuse_one_vs_rest(model, cls.__name__)
        return cls(**{name: np.asarray(values) for name, values in model.history_.items()}).plot(
            ax,
            against=against,
            subsets=subsets,
            line_kw=line_kw,
            subset_kw=subset_kw,
            choice_kw=choice_kw,
            legend_kw=legend_kw,
        )

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
        """Draw it.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        against : {"evaluations", "seconds"}, default="evaluations"
            What runs along the horizontal axis.
        subsets : bool, default=True
            Whether to draw evaluations on subsets of the rows, too.
        line_kw : dict or None, default=None
            Settings for `matplotlib.axes.Axes.plot` of the bound of all rows.
        subset_kw : dict or None, default=None
            Those of the bound of subsets.
        choice_kw : dict or None, default=None
            Settings for `matplotlib.axes.Axes.vlines` where points were chosen again.
        legend_kw : dict or None, default=None
            Settings for `matplotlib.axes.Axes.legend`.

        Returns
        -------
        display : ConvergenceDisplay
            This one.
        """
        need_matplotlib(f"{type(self).__name__}.plot")
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

        def line(kept, name, given, **own):
            drawn = _with_gaps(x, per_row, kept, breaks)
            return ax.plot(*drawn, **settings(name, given, "line", **style, **own))[0]

        self.line_ = line(whole, "line_kw", line_kw, color=BLUE, label=f"all {n_rows} rows")
        self.subset_line_ = None
        if not (shown == whole).all():
            sizes = self.n_samples[~whole]
            label = f"fewer rows: {sizes.min()} to {sizes.max()}"
            self.subset_line_ = line(~whole, "subset_kw", subset_kw, color=VERMILION, label=label)
        starts = [k for k in starts if shown[k] and shown[k - 1]]
        self.choice_lines_ = ax.vlines(
            [0.5 * (x[k - 1] + x[k]) for k in starts],
            0.0,
            1.0,
            transform=ax.get_xaxis_transform(),
            **settings(
                "choice_kw",
                choice_kw,
                "collection",
                color=PALE,
                linewidth=1.0,
                zorder=0,
                # matplotlib leaves out of legends what begins with an underscore.
                label="points chosen again" if starts else "_never",
            ),
        )
        ax.set(xlabel=AXES[against], ylabel="lower bound, nats per row")
        ax.set_ylim(_limits(per_row[shown], before))
        self.legend_ = add_legend(ax, legend_kw, n_columns=3)
        return self


def _with_gaps(x, y, kept, breaks):
    """Return what is kept of a line, with gaps before `breaks` and where something is left out."""
    y = np.where(kept, y, np.nan)
    return np.insert(np.asarray(x, float), breaks, np.nan), np.insert(y, breaks, np.nan)


def _limits(values, before):
    """Return the vertical limits: a few low values do not squeeze the others.

    `before` are those of what was drawn before, or nothing; both are to be seen.
    """
    # The first steps from poor starts may be so low that the others are not visible: the axis
    # begins above the lowest fifth of the evaluations if these would take most of it.
    lowest, low, high = np.quantile(values, [0.0, 0.2, 1.0])
    if low - lowest <= 0.7 * (high - lowest):
        low = lowest
    margin = 0.05 * ((high - low) or 1.0)
    return min([low - margin, *before]), max([high + margin, *before])
