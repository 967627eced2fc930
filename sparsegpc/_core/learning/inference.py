r"""Learning a sparse model: hyperparameters by their gradient, points by selection, in turns.

One *climb* alternates two steps. Points are chosen with the current kernel and site precisions;
then the bound, maximised over the sites at each evaluation, is maximised over the kernel's
parameters, by its gradient at fixed sites (envelope theorem). The curvature that one choice of
points teaches serves the next; see `curriculum`. Choosing again is not monotone, so the best state
ever seen is kept. Several starts are ranked on a subset of the rows first. A climb that ends at the
trivial optimum, where f is constant, is repeated with the line search of L-BFGS-B, and then from
the other starts. With many rows a climb begins on growing subsets of them. Where points move they
do so by L-BFGS-B.
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError
from scipy.optimize import minimize

from sparsegpc._core.learning.curriculum import Curvature, follow, subsets
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.models.model import Evaluation
from sparsegpc._core.numerics.linalg import JITTER_ATTEMPTS, SMALLEST_JITTER
from sparsegpc._core.selection.choices import PivotedChoice

# Ranking the starts: rows, inducing points and steps spent on each.
RANKING_ROWS, RANKING_POINTS, RANKING_ITERATIONS = 1000, 50, 3
# The last evaluation solves the sites to this share of the bound's tolerance.
FINAL_TOL_SHARE, MAX_FINAL_ITERATIONS = 1e-4, 500
# While points move the sites are solved to this share: in many directions the line search gives up
# on what sites that are almost solved for say of the gradient.
MOVING_TOL_SHARE = 1e-3
# Pairs that L-BFGS-B remembers; where points move scipy's ten are too few.
MEMORY = 30
# Steps in a row that may fail to raise the bound: of the optimiser, and choices of points.
PATIENCE = 2
# In what steps of the tolerance the bound and its slopes are told while points move. Their last
# digits differ between processors, and over many directions the search magnifies that to more than
# the tolerance.
MOVING_BOUND_STEP, MOVING_SLOPE_STEP = 2.0**-8, 2.0**-4
# While points move: among many directions a small gain or two says little.
MOVING_PATIENCE = 4
# Length of the optimiser's first step in theta, from gradients (nats) at least this large.
FIRST_STEP, SMALL_GRADIENT = 0.5, 30.0
# A gain over a constant function of less than this many nats per row, or 1 in all, is none.
TRIVIAL_GAIN = 1e-3
# Growth of the jitter after a round in which theta moved to where it did not suffice.
JITTER_STEP = 100.0
# Why a fit did not converge that was asked to stop.
STOPPED = "the callback asked to stop"
# scipy's status of L-BFGS-B for the limit of its iterations.
REACHED_MAX_ITER = 1


class FitResult(NamedTuple):
    """What a fit found: the best evaluation, the bound after each choice of points, and how.

    ``message`` says why it did not converge; empty if it did. ``full_evaluations`` is how many
    evaluations of the bound were on all rows, ``stopped`` whether it was asked to stop.
    """

    best: Evaluation
    bounds: list
    trivial: bool
    message: str
    full_evaluations: int = 0
    stopped: bool = False

    @property
    def converged(self):
        return not self.message


class _Stopped(Exception):
    """Leave a minimiser at once."""


def _rounded(values, step):
    """Return multiples of a power of two, about `step`: they are exact.

    Values whose neighbours are further than that stay as they are.
    """
    step = np.maximum(2.0 ** np.floor(np.log2(step)), np.spacing(np.abs(values)))
    return step * np.round(values / step)


class _Ascent:
    """Maximisation of the bound over `theta`, and the inducing points if `moves` is not None.

    Sites are warm-started from one evaluation to the next. Within its box L-BFGS-B takes the
    gradient itself as its first step, so the objective is scaled to make that step `FIRST_STEP`
    long, less where the gradient is small: a start near the optimum. Points move in units of
    `moves`, one for each column.
    """

    def __init__(self, model, start, moves=None, progress=None):
        self._model, self._moves = model, moves
        self._progress = Progress() if progress is None else progress
        self._site_tol = None if moves is None else MOVING_TOL_SHARE * model.tol
        self._patience = PATIENCE if moves is None else MOVING_PATIENCE
        self.best = start
        self._states = start.states
        self._first = start
        self._worst = start.bound
        self._last, self._small_gains = start.bound, 0
        norm = float(np.linalg.norm(self._gradient(start)))
        self._scale = -FIRST_STEP / max(norm, SMALL_GRADIENT)
        self.failed = False

    def pack(self, theta, Z):
        """Return what the minimiser sees."""
        return theta if self._moves is None else np.append(theta, Z / self._moves)

    def _unpack(self, x):
        if self._moves is None:
            return x, self.best.chosen
        theta, Z = np.split(x, [len(self.best.theta)])
        Z = Z.reshape(self.best.chosen.Z.shape) * self._moves
        return theta, self.best.chosen._replace(Z=Z, indices=None, selection=None)

    def _gradient(self, evaluation):
        if self._moves is None:
            return evaluation.grad_theta
        gradient = np.append(evaluation.grad_theta, evaluation.grad_Z * self._moves)
        return _rounded(gradient, MOVING_SLOPE_STEP * self._model.tol)

    def _bound(self, evaluation):
        if self._moves is None:
            return evaluation.bound
        return _rounded(evaluation.bound, MOVING_BOUND_STEP * self._model.tol)

    def __call__(self, x):
        """Return the scaled negative bound and its gradient, for a minimiser."""
        evaluation, self._first = self._first, None
        if evaluation is None:
            theta, chosen = self._unpack(x)
            try:
                evaluation = self._model.evaluate(
                    theta,
                    chosen,
                    self._states,
                    jitter=self.best.jitter,
                    tol=self._site_tol,
                    wrt_Z=self._moves is not None,
                )
            except LinAlgError:
                # A step too far: look worse than anything seen, so that the line search retreats.
                self.failed = True
                return self._scale * (self._worst - abs(self._worst)), np.zeros_like(x)
            self._progress.evaluated(self._model, evaluation)
        self._states = evaluation.states
        if evaluation.bound > self.best.bound:
            self.best = evaluation
        if self._progress.stopped:
            raise _Stopped
        self._worst = min(self._worst, evaluation.bound)
        return self._scale * self._bound(evaluation), self._scale * self._gradient(evaluation)

    def stop_when_flat(self, x):
        """Count an iteration; stop the minimiser after some in a row that gain less than tol."""
        self._model.counts.optimizer_iterations += 1
        gain, self._last = self.best.bound - self._last, self.best.bound
        self._small_gains = self._small_gains + 1 if gain < self._model.tol else 0
        if self._small_gains == self._patience:
            raise StopIteration


def _ascend(model, start, bounds, max_iter, progress, moves=None):
    """Maximise over theta, and the points if they may move, from the evaluation `start`.

    Returns the best evaluation, how the search ended (empty if it converged), and whether Kuu could
    not be factored on the way.
    """
    ascent = _Ascent(model, start, moves, progress)
    x = ascent.pack(start.theta, start.chosen.Z)
    free = np.broadcast_to([-np.inf, np.inf], (len(x) - len(start.theta), 2))
    try:
        result = minimize(
            ascent,
            x,
            jac=True,
            method="L-BFGS-B",
            bounds=np.concatenate([bounds, free]),
            callback=ascent.stop_when_flat,
            options={"maxiter": max_iter, "ftol": 0.0, "gtol": 0.0, "maxcor": MEMORY},
        )
    except _Stopped:
        return ascent.best, "", ascent.failed
    # Any end but the limit is one where the line search finds nothing better. There is none where
    # the bounds leave nothing free to move.
    message = ""
    if result.get("status") == REACHED_MAX_ITER:
        message = _out_of_iterations(max_iter)
    return ascent.best, message, ascent.failed


def _out_of_iterations(max_iter):
    return f"the optimizer took all of max_iter={max_iter} iterations: raise it, or loosen tol"


def _move_points(model, climb, bounds, max_iter, progress):
    """Return the climb after a joint maximisation over theta and the places of the points."""
    start = model.evaluate(
        climb.best.theta,
        climb.best.chosen,
        climb.best.states,
        jitter=climb.best.jitter,
        attempts=JITTER_ATTEMPTS,
        wrt_Z=True,
    )
    progress.choose()
    progress.evaluated(model, start)
    spread = model.X.std(axis=0)
    moves = np.where(spread > 0.0, spread, 1.0)
    best, message, failed = _ascend(model, start, bounds, max_iter, progress, moves)
    if failed and not message:
        message = "inducing points came too close to each other: ask for fewer of them"
    return _Climb(best, [*climb.bounds, best.evidence], message)


class _Climb(NamedTuple):
    """The best evaluation of a climb, the bound after each choice, how it ended if unconverged."""

    best: Evaluation
    bounds: list
    message: str


class _Begin(NamedTuple):
    """Where a climb begins: states and curvature are None where nothing is known of them."""

    theta: np.ndarray
    states: tuple | None = None
    curvature: Curvature | None = None


def _climb(
    model,
    begin,
    choose,
    bounds,
    *,
    max_iter,
    max_reselections,
    progress,
    first=None,
    report=None,
):
    """Choose points and maximise over theta in turns; return a `_Climb`.

    After it was asked to stop no more is done than a model needs: one choice, one evaluation.
    """
    best, message, history, stalled, failed = None, "", [], 0, False
    theta, states, curvature = begin
    states = model.initial_state() if states is None else states
    current, jitter = None, SMALLEST_JITTER
    for _ in range(max_reselections + 1):
        chosen, first = first, None
        if chosen is None:
            chosen = model.choose(choose, theta, states)
        if not failed and current is not None and chosen.equals(current.chosen):
            break
        # The jitter found here is kept while theta moves, so that the bound stays smooth.
        current = model.evaluate(
            theta,
            chosen,
            states,
            jitter=jitter,
            attempts=JITTER_ATTEMPTS,
            wrt_theta=max_iter > 0,
        )
        progress.choose()
        progress.evaluated(model, current)
        jitter, end, failed = current.jitter, "", False
        if max_iter and len(theta) and not progress.stopped:
            if curvature is None:
                current, end, failed = _ascend(model, current, bounds, max_iter, progress)
            else:
                reached = -np.inf if best is None else best.bound
                current, ended, failed = follow(
                    model, current, bounds, max_iter, curvature, reached, progress
                )
                end = "" if ended else _out_of_iterations(max_iter)
        if failed:
            jitter *= JITTER_STEP
        history.append(current.evidence)
        if report is not None:
            report(len(history), len(chosen.Z), current.evidence)
        stalled = 0 if best is None or current.bound > best.bound + model.tol else stalled + 1
        if best is None or current.bound > best.bound:
            best, message = current, end
        if stalled == PATIENCE or (model.keeps(choose) and not failed) or progress.stopped:
            break
        theta, states = current.theta, current.states
    return _Climb(best, history, message)


def trivial_gain(total_weight):
    """Return the gain in nats, for rows of this total weight, up to which it is none."""
    return min(1.0, TRIVIAL_GAIN * total_weight)


def _floor(model):
    """Return the bound up to which a model is no better than a constant function."""
    return model.constant_bound() + trivial_gain(model.total_weight)


def _is_worse_than_constant(model, outcome):
    return outcome is None or not outcome.best.bound >= model.constant_bound()


def _rank(model, starts, bounds, n_points, progress):
    """Return the starts, each after a few iterations on a subset of the rows, the best first.

    A start that fell to a constant function there is returned as it was: on all rows it may not.
    """
    n_rows = len(model.weight)
    if n_rows > RANKING_ROWS:
        model = model.subset(np.linspace(0, n_rows - 1, RANKING_ROWS).astype(np.intp))
    choose, floor = PivotedChoice("argmax", min(n_points, RANKING_POINTS)), _floor(model)
    ranked, failure = [], None
    for start in starts:
        if ranked and progress.stopped:
            break
        try:
            best = _climb(
                model,
                _Begin(start),
                choose,
                bounds,
                max_iter=RANKING_ITERATIONS,
                max_reselections=0,
                progress=progress,
            ).best
        except LinAlgError as error:
            failure = error.with_traceback(None)
        else:
            ranked.append((best.bound, best.theta if best.bound > floor else start))
    if not ranked:
        raise failure
    ranked.sort(key=lambda pair: -pair[0])
    return [theta for _, theta in ranked]


def _approach(model, theta, choose, bounds, **limits):
    """Climb on growing subsets of the rows, and return the `_Begin` of a climb on all of them.

    A small subset may mislead, so each is climbed from `theta`, too, and the better end carried on.
    Where a subset knows nothing better than a constant function nothing is: all rows may.
    """
    best = curvature = None
    try:
        for small, part in subsets(model, choose, theta):
            if limits["progress"].stopped:
                break
            begins = [_fresh(small, theta)]
            if best is not None:
                begins.append(_Begin(best.theta, _carried(best, small), curvature))
            ends = [_climb(small, begin, part, bounds, **limits).best for begin in begins]
            k = int(np.argmax([end.bound for end in ends]))
            best, curvature = ends[k], begins[k].curvature
            best = best if best.bound > _floor(small) else None
        if best is not None:
            return _Begin(best.theta, _carried(best, model), curvature)
    except LinAlgError:
        # What a subset cannot tell is left to the climb on all rows, which raises if it fails, too.
        pass
    return _fresh(model, theta)


def _fresh(model, theta):
    """Return the `_Begin` at `theta` where nothing is known of the curvature but a guess."""
    guess = SMALL_GRADIENT / FIRST_STEP / model.total_weight
    return _Begin(theta, None, Curvature(len(theta), guess))


def _carried(evaluation, model):
    """Return states for the rows of `model` that follow from an evaluation on other rows."""
    posteriors = [solution.posterior for solution in evaluation.solutions]
    return model.states_from(evaluation.theta, evaluation.chosen.Z, posteriors, evaluation.jitter)


def _begins(model, theta, choose, bounds, first, **limits):
    """Return where to begin a climb from `theta`, in turns until one succeeds.

    Points that are given to begin with belong to `theta`, which therefore stays.
    """
    if not limits["max_iter"] or not len(theta) or limits["progress"].stopped:
        return [_Begin(theta)]
    if first is not None:
        return [_fresh(model, theta), _Begin(theta)]
    return [_approach(model, theta, choose, bounds, **limits), _Begin(theta)]


def settle(model, theta, chosen, states, jitter, wrt_theta=True):
    """Return the evaluation at given hyperparameters and points, to the final tolerance."""
    return model.evaluate(
        theta,
        chosen,
        states,
        jitter=jitter,
        attempts=JITTER_ATTEMPTS,
        tol=FINAL_TOL_SHARE * model.tol,
        max_iter=MAX_FINAL_ITERATIONS,
        wrt_theta=wrt_theta,
    )


def _plan(ranked, restarts, spares):
    """Return the starts in order, each once: those to climb from, then those for want of better."""
    plan = [(theta, True) for theta in (ranked[0], *restarts)]
    for theta in (*ranked[1:], *spares):
        if not any(np.array_equal(theta, planned) for planned, _ in plan):
            plan.append((theta, False))
    return plan


def fit(
    model,
    starts,
    bounds,
    choose,
    *,
    max_iter,
    max_reselections,
    move_points=False,
    restarts=(),
    spares=(),
    first=None,
    report=None,
    progress=None,
):
    """Learn hyperparameters and inducing points.

    Parameters
    ----------
    model : SparseModel
    starts : list of ndarray of shape (P,)
        Candidate starts, ranked on a subset first; the best is climbed from.
    bounds : ndarray of shape (P, 2)
        Of theta.
    choose : PivotedChoice or FixedChoice
    max_iter : int
        Most steps of theta for one choice of points; 0 keeps theta as it is.
    max_reselections : int
        How often points may be chosen again.
    move_points : bool
        At the end, maximise over the places of the points along with theta.
    restarts : list of ndarray of shape (P,)
        Further starts, each climbed from.
    spares : list of ndarray of shape (P,)
        Starts climbed from only while all that was found is no better than a constant function.
        The candidates not climbed from are such, too.
    first : Chosen or None
        Points to begin with; None asks `choose`.
    report : callable or None
        Called as ``report(n_choices, n_points, bound)`` after each choice of points.
    progress : Progress or None
        Is told of all evaluations of the bound, those on subsets included. Once it is ``stopped``
        the best that was found is settled on all rows, and returned.

    Returns
    -------
    FitResult

    Raises
    ------
    LinAlgError
        If the kernel cannot be factored, or the bound not computed, from any start.
    """
    progress = Progress() if progress is None else progress
    limits = {"max_iter": max_iter, "max_reselections": max_reselections, "progress": progress}
    n_before = model.counts.full_evaluations
    starts = [np.clip(start, *bounds.T) for start in starts] if max_iter else list(starts)
    ranked = starts
    if len(starts) > 1 and not progress.stopped:
        ranked = _rank(model, starts, bounds, choose.n_points, progress)
    floor, outcome, failure = _floor(model), None, None

    def attempt(begin, first=None):
        """Return a climb, the outcome if it is the best so far; None if it fails."""
        nonlocal outcome, failure
        try:
            climb = _climb(model, begin, choose, bounds, **limits, first=first, report=report)
        except LinAlgError as error:
            failure = error.with_traceback(None)
            return None
        if outcome is None or climb.best.bound > outcome.best.bound:
            outcome = climb
        return climb

    for theta, needed in _plan(ranked, restarts, [*starts, *spares]):
        if outcome is not None and (
            progress.stopped or not (needed or outcome.best.bound <= floor)
        ):
            break
        for begin in _begins(model, theta, choose, bounds, first, **limits):
            climb = attempt(begin, first)
            if climb is not None and (climb.best.bound > floor or progress.stopped):
                break
        first = None
    if max_iter and not progress.stopped and _is_worse_than_constant(model, outcome):
        anywhere = ranked[0] if outcome is None else outcome.best.theta
        attempt(_Begin(model.constant_theta(anywhere, bounds)))
    if outcome is None:
        raise failure
    if move_points and max_iter and not progress.stopped:
        outcome = _move_points(model, outcome, bounds, max_iter, progress)
    best, stopped = outcome.best, progress.stopped
    best = settle(model, best.theta, best.chosen, best.states, best.jitter, wrt_theta=max_iter > 0)
    progress.evaluated(model, best)
    message = STOPPED if stopped else outcome.message
    if not best.converged:
        message = (
            f"the sites did not settle in {MAX_FINAL_ITERATIONS} passes: limit the variance of the "
            "kernel, or divide large weights by a common factor"
        )
    n_full = model.counts.full_evaluations - n_before
    trivial = best.bound <= floor
    return FitResult(best, outcome.bounds, trivial, message, n_full, progress.stopped)
