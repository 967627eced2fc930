"""The best bound so far against the CPU seconds of a fit: recorded, printed and drawn."""

import csv
import time
from unittest.mock import patch

import numpy as np

from sparsegpc._core.models.model import SparseModel

# CPU seconds at which the table has the bound.
TIMES = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)
# The picture goes so many times the range of the final bounds below the lowest of them.
BELOW = 1.5
OURS = ("#08306b", "#3182bd", "#6baed6", "#54278f")
PEERS = ("#7f2704", "#e6550d", "#636363")


def record(model, X, y):
    """Fit and return CPU seconds and bound of each evaluation on all rows, shape (2, n)."""
    evaluations, evaluate = [], SparseModel.evaluate
    start = time.process_time()

    def recorded(self, *args, **kwargs):
        result = evaluate(self, *args, **kwargs)
        seconds = time.process_time() - start
        evaluations.append((len(self.weight), seconds, float(result.objective)))
        return result

    with patch.object(SparseModel, "evaluate", recorded):
        model.fit(X, y)
    if hasattr(model, "trace_"):
        return np.transpose(model.trace_)
    n_rows, *curve = np.transpose(evaluations)
    return np.stack(curve)[:, n_rows == n_rows.max()]


def best_so_far(curve):
    """Return CPU seconds and the highest bound up to then."""
    return curve[0], np.maximum.accumulate(curve[1])


def print_table(curves):
    """Print the best bound at some times, of {(set, model): curve}."""
    print(
        f"{'set':14s}{'model':24s}" + "".join(f"{f'{t:g} s':>11s}" for t in TIMES) + "  at the end"
    )
    for (name, model), curve in curves.items():
        seconds, bound = best_so_far(curve)
        texts = []
        for end in TIMES:
            known = bound[seconds <= end]
            texts.append(f"{known[-1]:11.1f}" if len(known) and end < seconds[-1] else f"{'':11s}")
        end = f"{bound[-1]:12.2f} ({seconds[-1]:.1f} s)"
        print(f"{name:14s}{model:24s}" + "".join(texts) + end, flush=True)


def read(paths):
    """Return {(set, model): curve} from CSV files that part "curves" wrote."""
    points = {}
    for path in paths:
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                point = float(row["seconds"]), float(row["bound"])
                points.setdefault((row["set"], row["model"]), []).append(point)
    return {key: np.transpose(values) for key, values in points.items()}


def spread_out(heights, gap):
    """Return heights in the same order that are at least `gap` apart, and moved little for it."""
    order = np.argsort(heights)
    # With i gaps subtracted, heights that are a gap apart are heights that do not fall: blocks of
    # those that would are put at their mean.
    blocks = []
    for rank, index in enumerate(order):
        blocks.append([heights[index] - rank * gap, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (low, m), (high, n) = blocks[-2:]
            blocks[-2:] = [[(m * low + n * high) / (m + n), m + n]]
    result = np.empty(len(heights))
    result[order] = np.repeat(*zip(*blocks, strict=True)) + gap * np.arange(len(heights))
    return result


def draw(curves, is_ours, path):
    """Draw {(set, model): curve}, a panel for each set; peers' lines are dashed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(name for name, _ in curves))
    figure, panels = plt.subplots(
        1, len(names), figsize=(0.6 + 6.4 * len(names), 4.2), squeeze=False, layout="constrained"
    )
    for axes, name in zip(panels[0], names, strict=True):
        own = {model: best_so_far(curve) for (n, model), curve in curves.items() if n == name}
        _draw_panel(axes, own, is_ours)
        axes.set(title=name, xlabel="CPU seconds since the start of the fit")
    panels[0, 0].set_ylabel("best lower bound so far, nats")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _draw_panel(axes, curves, is_ours):
    from matplotlib.ticker import LogLocator, NullFormatter

    ends = np.array([bound[-1] for _, bound in curves.values()])
    span = max(np.ptp(ends), 0.02 * np.abs(ends).max())
    low, high = ends.min() - BELOW * span, ends.max() + 0.25 * span
    last = max(seconds[-1] for seconds, _ in curves.values())
    # A curve is of interest from where it comes into the picture.
    first = min(
        seconds[np.argmax(bound > low)] for seconds, bound in curves.values() if bound[-1] > low
    )
    axes.set(xscale="log", xlim=(0.7 * first, last), ylim=(low, high))
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    heights = spread_out(ends, 0.06 * (high - low))
    colours = {True: iter(OURS * 9), False: iter(PEERS * 9)}
    for (model, (seconds, bound)), height in zip(curves.items(), heights, strict=True):
        ours = is_ours(model)
        style = {"color": next(colours[ours]), "lw": 2.0 if ours else 1.5}
        # It rises from below where all rows are first evaluated.
        axes.step(
            [seconds[0], *seconds],
            [low, *bound],
            where="post",
            ls="-" if ours else (0, (4, 2)),
            **style,
        )
        # Where the fit ends, and from there the bound that it leaves.
        axes.plot(seconds[-1], bound[-1], "o", ms=5, color=style["color"], clip_on=False)
        axes.plot([seconds[-1], last], [bound[-1]] * 2, ls=":", lw=0.8, color=style["color"])
        axes.annotate(
            f"{model}  {bound[-1]:.1f}",
            (1.0, bound[-1]),
            xycoords=axes.get_yaxis_transform(),
            xytext=(1.02, height),
            textcoords=axes.get_yaxis_transform(),
            va="center",
            fontsize=9,
            color=style["color"],
            annotation_clip=False,
        )
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", lw=0.4, color="0.88")
