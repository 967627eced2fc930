"""Base class of the estimators that learn from minibatches."""

import numbers
from collections.abc import Callable
from dataclasses import field
from typing import NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.minibatches.epochs import epochs, solve_best
from sparsegpc._core.optimisers.adam import inverse_time_decay, rate_with_memory
from sparsegpc._core.rows.merged_rows import merge_rows, merge_with_targets
from sparsegpc._core.rows.threads import single_threaded_blas
from sparsegpc._core.selection.selectors import CandidateRows, InducingPoints
from sparsegpc._estimators.base_estimator import Estimator, all_or_nothing, with_parameters
from sparsegpc._estimators.input.settings import row_options
from sparsegpc._estimators.kernels.named_kernels import KERNEL_CONSTRAINTS
from sparsegpc._estimators.kernels.sklearn_kernels import adapt_kernel
from sparsegpc._estimators.learning.point_selection import (
    METHODS,
    check_inducing_points,
    make_selector,
)
from sparsegpc._estimators.messages.callbacks import CALLBACK_SUPPORT, fit_task
from sparsegpc._estimators.messages.fit_warnings import describe_rough, describe_trivial
from sparsegpc._estimators.messages.reporting import epoch_progress
from sparsegpc._estimators.messages.target_warnings import order_warnings
from sparsegpc._estimators.messages.user_warnings import FitWarning, emit_warnings
from sparsegpc._estimators.messages.weight_warnings import weight_warnings
from sparsegpc._estimators.minibatches.first_model import learn_theta
from sparsegpc._estimators.predictions.effects import ColumnEffects

# Start values are learned from this many rows.
START_ROWS = 2000
# Steps of the hyperparameters in as many rows as `memory` holds. The gradients that Adam remembers
# are then those of less than half of them.
MOVES_IN_MEMORY = 30
# `history_` keeps this many calls of partial_fit, to keep the model of an endless stream small.
LONGEST_HISTORY = 1000


class FirstRows(NamedTuple):
    """The first rows of a stream: X (N, D), y and weight, shape (N,) each; y may hold records.

    Points and hyperparameters were last learned when there were ``n_learned`` rows.
    """

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    n_learned: int = 0

    def and_further(self, X, y, weight):
        """Return these rows, followed by further ones."""
        both = zip(self[:3], (X, y, weight), strict=True)
        return FirstRows(*map(np.concatenate, both), self.n_learned)


@with_parameters
class BaseMinibatches(*CALLBACK_SUPPORT, ColumnEffects, Estimator):
    """Implement the steps of `fit` and `partial_fit`, given the core's models and merged rows.

    Parameters
    ----------
    kernel : kernel of sklearn.gaussian_process.kernels, str or None, default=None
        Covariance of f, an object or a name as in :class:`SparseGPRegressor`; None means "rbf". A
        WhiteKernel raises a ValueError. Free hyperparameters start from a fit to a few thousand
        rows.
    length_scales : {"auto", "tied", "free", "common"}, default="auto"
        "tied" means one length scale for each column, with a prior that keeps them about equal, in
        units of the columns' standard deviations, unless the data clearly call for different ones.
        "free" means one for each column without a prior, and "common" one for all columns. "auto"
        leaves an object as it is, and for a kernel by name depends on the number of columns:
        :ref:`user guide <kernels>`.
    main_effects : bool, default=False
        Whether to add :class:`sparsegpc.kernels.MainEffects`, a function of each single column, to
        a kernel by name.
    n_inducing : int, default=200
        Maximum number of inducing points. They are chosen among 20 random rows for each point, or
        as many first rows of a stream, but at least 2000.
    selector : str or array of shape (n_points, n_features), default="rpcholesky"
        How points are chosen: "hgv", "rpcholesky", "greedy-variance", "kmeans" or "uniform", see
        :class:`InducingPointSelector`. An array gives the points themselves.
    bound : {"tight", "standard"}, default="tight"
        How the bound accounts for the residual variance, the part of the prior variance of f that
        the inducing points do not explain. "standard" counts all of it, and "tight" reduces it by
        the best factor for each row.
    fit_prior_mean : bool, default=True
        Whether to learn the constant mean of f. Otherwise it is zero.
    batch_size : int, default=1024
        Rows in a batch. The hyperparameters move once for each batch; `partial_fit` adds up the
        gradients of smaller blocks until they have as many rows. With `memory` a batch of a stream
        holds at most a thirtieth of it.
    n_epochs : int, default=10
        Number of passes of `fit` over all rows that learn hyperparameters. Further passes with
        fixed hyperparameters then give the optimal posterior.
    learning_rate : float, default=0.1
        Approximate length of the first steps of the logarithms of the hyperparameters. The rate
        decreases to zero during `fit`; during `partial_fit` it decreases ever more slowly, and with
        `memory` only until a hyperparameter can change by a factor of e within so many rows. 0
        keeps the start values of the hyperparameters.
    memory : int or None, default=None
        Number of recent rows that `partial_fit` effectively takes into account, also for the
        hyperparameters. None means all at first. In a long stream it means about half of all rows,
        and the hyperparameters follow changes ever more slowly: :ref:`user guide <minibatches>`.
    optimize_inducing : bool, default=False
        Whether to learn the locations of the points together with the hyperparameters.
    random_state : int, RandomState instance or None, default=0
        Seed for the choice of points and the order of rows.
    verbose : int, default=0
        1 prints a line for each epoch of `fit`.
    callback : callable or None, default=None
        Called after each epoch of `fit`, and at its end, with a named tuple, which holds
        ``iteration``, the number of the call; and ``n_samples``, ``n_inducing``, ``lower_bound``
        and ``seconds``, as in `history_`. If it returns True, no more epochs follow. It is pickled
        with the model. From version 1.9, pass scikit-learn's own callbacks to ``set_callbacks``.

    Attributes
    ----------
    kernel_ : kernel
        Kernel of f with the learned hyperparameters.
    prior_mean_ : float or ndarray
        Constant mean of f, or of each function if there are several.
    inducing_points_ : ndarray of shape (n_points, `n_features_in_`)
        Inducing points.
    lower_bound_ : float
        After `fit`, a lower bound on the log marginal likelihood of all rows, in nats. After
        `partial_fit`, an estimate for about the last `memory` rows, which is not a bound.
    log_prior_ : float
        Log density of the prior of the hyperparameters, in nats, up to a constant.
    history_ : dict of ndarray
        One entry after each epoch of `fit` and at its end, or for each of the last 1000 calls of
        `partial_fit`: "choice" (of inducing points, always 0); "n_samples", the effective number of
        rows, which is N at the end of `fit`; "n_inducing"; "lower_bound", estimated from these
        rows, in nats; and "seconds", the total time.
    n_steps_ : int
        Number of batches so far.
    n_samples_seen_ : int
        Number of rows given to `fit`, or to all calls of `partial_fit`. Rows of a call that are
        equal in columns and targets count once, and rows of weight zero do not count.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if X had column names that are strings.
    """

    kernel: Kernel | str | None = field(default=None, kw_only=False)
    length_scales: str = "auto"
    main_effects: bool = False
    n_inducing: int = 200
    selector: str | np.ndarray = "rpcholesky"
    bound: str = "tight"
    fit_prior_mean: bool = True
    batch_size: int = 1024
    n_epochs: int = 10
    learning_rate: float = 0.1
    memory: int | None = None
    optimize_inducing: bool = False
    random_state: int | np.random.RandomState | None = 0
    verbose: int = 0
    callback: Callable | None = None

    _parameter_constraints = {
        **KERNEL_CONSTRAINTS,
        "main_effects": ["boolean"],
        "n_inducing": [Interval(numbers.Integral, 1, None, closed="left")],
        "selector": [StrOptions(set(METHODS)), "array-like"],
        "fit_prior_mean": ["boolean"],
        "batch_size": [Interval(numbers.Integral, 1, None, closed="left")],
        "n_epochs": [Interval(numbers.Integral, 0, None, closed="left")],
        "learning_rate": [Interval(numbers.Real, 0, 1, closed="both")],
        "memory": [Interval(numbers.Integral, 1, None, closed="left"), None],
        "optimize_inducing": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "callback": [callable, None],
    }

    # If the mean of f ranges over less than this, f looks constant.
    _visible_range = 0.2

    @property
    def _n_learning_epochs(self):
        return self.n_epochs if self.learning_rate > 0.0 else 0

    @property
    def _n_candidates(self):
        """Number of random rows to choose points among: 20 or more for each point."""
        return max(START_ROWS, 20 * self.n_inducing)

    def _fit(self, X, y, sample_weight, *row_arguments):
        """Implement `fit`, which gets these arguments."""
        n_epochs = self._n_learning_epochs
        task = fit_task(self, X, y, sample_weight, n_subtasks=n_epochs + 1)
        with task as context, single_threaded_blas():
            rows = self._merged_rows(X, y, sample_weight, *row_arguments, reset=True)
            found = self._learn_all(*rows, epoch_progress(self, n_epochs, context))
            labels = y if is_classifier(self) else None
            if is_classifier(self):
                found = order_warnings(self.likelihood, y) + found
            emit_warnings(weight_warnings(sample_weight, rows, labels) + found)
        return self

    def _partial_fit(self, X, y, sample_weight, *row_arguments):
        """Implement `partial_fit`, which gets these arguments."""
        with all_or_nothing(self), single_threaded_blas():
            progress = Progress(past=getattr(self, "history_", None))
            is_first = not hasattr(self, "kernel_")
            rows = self._merged_rows(X, y, sample_weight, *row_arguments, reset=is_first)
            found = self._learn_block(*rows, progress)
            scaled = "the weights of all calls"
            emit_warnings(weight_warnings(sample_weight, rows, scaled=scaled) + found)
        return self

    def _merged_rows(self, X, y, sample_weight, *row_arguments, reset):
        """Validate a user's input; return X, targets and weights of the merged rows."""
        raise NotImplementedError

    def _start(self, X, y, weight, rng):
        """Return the state before any batch, and the `FirstModel`, from shuffled rows.

        There may be more targets and weights than rows `X`, of which `_n_candidates` suffice.
        """
        first = self._first_model(X[:START_ROWS], y, weight)
        theta, kernel = first.hyperparameters.theta, first.hyperparameters.kernel
        if self.learning_rate > 0.0 and self._suffice(y[:START_ROWS]):
            theta = learn_theta(first, self.n_inducing)
        Z = self._choose_points(kernel, theta[: kernel.n_params], X, weight, rng)
        self._bounds, self._prior = first.hyperparameters.bounds, first.model.prior
        self.kernel_ = first.kernel
        return self._model().start(theta, Z), first

    def _first_model(self, X, y, weight):
        """Return the `FirstModel` of rows `X`, the first of those with these targets."""
        raise NotImplementedError

    def _model_options(self, likelihood):
        """Return the options of `SparseModel` that the parameters imply."""
        return {
            "slack": self._slack,
            "fit_prior_mean": self.fit_prior_mean and likelihood.has_prior_mean,
            **row_options(),
        }

    def _model(self, of_stream=False):
        """Return the core's model for the current kernel."""
        return self._batches(
            adapt_kernel(self.kernel_, self.n_features_in_).kernel,
            of_stream,
            slack=self._slack,
            fit_prior_mean=self.fit_prior_mean,
            learn_Z=self.optimize_inducing,
            bounds=self._bounds,
            prior=self._prior,
            **row_options(),
        )

    def _batches(self, kernel, of_stream, **options):
        """Return the `StochasticModel` with these options, for a stream or for given rows."""
        raise NotImplementedError

    def _suffice(self, y):
        """Return whether hyperparameters can be learned from these targets."""
        return True

    def _choose_points(self, kernel, theta, X, weight, rng):
        """Return the points that `selector` chooses among shuffled rows, or those that it holds."""
        if not isinstance(self.selector, str):
            return check_inducing_points(self.selector, X.shape[1])
        n_rows = self._n_candidates
        rows = merge_rows(X[:n_rows], weight[:n_rows])
        choose = make_selector(self.selector, self.n_inducing, 0.0, rows, rng)
        candidates = CandidateRows(rows.X, float(rows.weight.sum()), row_options())
        return choose(kernel, theta, candidates, rows.weight).Z

    def _learn_all(self, X, y, weight, progress):
        """Learn from all rows, in batches; solve for their posterior, and return warnings."""
        rng = check_random_state(self.random_state)
        order = self._shuffled(y, rng)
        chosen = order[: self._n_candidates]
        start, first = self._start(X[chosen], y[order], weight[order], rng)
        rows = X, self._centred(y), weight
        model, n_epochs, batch_size = self._model(), self._n_learning_epochs, self.batch_size
        options = {"batch_size": batch_size, "rng": rng, "learning_rate": self.learning_rate}
        n_done, end = 0, start
        for state in epochs(model, start, *rows, n_epochs=n_epochs, **options):
            n_done, end = n_done + 1, state
            progress.add(round(state.n_rows), len(state.Z), model.bound(state))
            if progress.stopped:
                break
        if n_epochs:
            self._state, astray = solve_best(model, end, start, *rows, batch_size)
        else:
            self._state, astray = model.solve(end, *rows, batch_size), False
        self.n_steps_ = n_done * -(-len(y) // batch_size)
        self.n_samples_seen_ = len(y)
        self._first_rows = None
        self._store(model)
        progress.add(len(y), len(start.Z), self.lower_bound_)
        self.history_ = progress.history()
        return self._epoch_warnings(model, first, rows[1], weight, n_done, astray)

    def _epoch_warnings(self, model, first, y, weight, n_done, astray):
        """Return a list of each `FitWarning` about what was learned in `n_done` epochs."""
        texts = self._describe_epochs(n_done, astray)
        learns = self.learning_rate > 0.0 and len(first.hyperparameters.theta) > 0
        trivial = learns and not astray and model.is_trivial(self._state, y, weight)
        mismatch = self._describe_mismatch(first, trivial) if learns else ""
        if trivial:
            texts.append(describe_trivial(self, first, weight, mismatch=mismatch))
        elif self._n_learning_epochs and not texts:
            texts.append(describe_rough(first.model, self._applied_to(first.model)))
        found = [FitWarning(UserWarning, mismatch)] if mismatch and not trivial else []
        return found + [FitWarning(ConvergenceWarning, text) for text in texts if text]

    def _describe_mismatch(self, first, constant=False):
        """Describe targets whose scale does not suit the kernel of a `FirstModel`, or return "".

        `constant` tells whether the learned function is no better than a constant one.
        """
        return ""

    def _applied_to(self, model):
        """Return the `Evaluation` of a `SparseModel` at the learned parameters and points."""
        theta, points = self._state.theta, InducingPoints(self._state.Z)
        states = model.states_from(theta, self._posterior)
        return model.evaluate(theta, points, states, wrt_theta=False)

    def _describe_epochs(self, n_done, is_astray):
        """Return a list of what went wrong in the epochs of `fit`."""
        name, texts, n_epochs = type(self).__name__, [], self._n_learning_epochs
        if n_done < n_epochs:
            texts.append(
                f"{name} stopped after {n_done} of {n_epochs} epochs: the callback asked to stop. "
                "The model is usable"
            )
        if is_astray:
            texts.append(
                f"{name} learned hyperparameters from batches of rows that are worse for all rows "
                "than a constant function: the model is that of the first rows, or constant. If X "
                "is informative, raise batch_size or n_epochs, or lower learning_rate"
            )
        return texts

    @property
    def _n_first_rows(self):
        """Number of first rows of a stream that are kept; none that `memory` would discount."""
        enough = self._n_candidates
        return enough if self.memory is None else min(enough, self.memory)

    @property
    def _n_stream_batch(self):
        """Number of rows of a stream after which the hyperparameters move, if they are learned."""
        if self.memory is None or self.learning_rate == 0.0:
            return self.batch_size
        return min(self.batch_size, -(-self.memory // MOVES_IN_MEMORY))

    def _learn_block(self, X, y, weight, progress):
        """Learn from a block of a stream, and return warnings."""
        if not hasattr(self, "kernel_"):
            self._first_rows = FirstRows(X[:0], y[:0], weight[:0])
            self.n_steps_ = self.n_samples_seen_ = 0
        # Consecutive rows may be similar.
        order = self._shuffled(y, check_random_state(self.random_state))
        n_first, found = 0, []
        if self._first_rows is not None:
            n_first = max(0, self._n_first_rows - len(self._first_rows.y))
            found = self._learn_first(*(part[order[:n_first]] for part in (X, y, weight)))
        if n_first < len(y):
            self._learn_further(X, y, weight, order[n_first:], self.learning_rate)
        self.n_steps_ += -(-len(y) // self._n_stream_batch)
        self.n_samples_seen_ += len(y)
        progress.add(round(self._state.n_rows), len(self._state.Z), self.lower_bound_)
        self.history_ = progress.history(LONGEST_HISTORY)
        return found

    def _learn_first(self, X, y, weight):
        """Learn from some of the first rows of a stream, and return warnings.

        Whenever their number has doubled, everything is learned afresh from all of them. Once there
        are enough, they are no longer kept.
        """
        rows, found = self._first_rows.and_further(X, y, weight), []
        n_rows = len(rows.y)
        is_last = n_rows >= self._n_first_rows
        if is_last or n_rows >= 2 * rows.n_learned:
            rng = check_random_state(self.random_state)
            X, y, weight = merge_with_targets(*rows[:3])
            order = self._shuffled(y, rng)
            X, y, weight = X[order], y[order], weight[order]
            self._state, first = self._start(X, y, weight, rng)
            # So few rows say little of whether the learned function is constant.
            mismatch = self._describe_mismatch(first) if self.learning_rate > 0.0 else ""
            found = [FitWarning(UserWarning, mismatch)] if mismatch else []
            rows = rows._replace(n_learned=n_rows)
        # Before that, the hyperparameters are soon learned anew, so steps would be wasted.
        learning_rate = self.learning_rate if is_last else 0.0
        self._learn_further(X, y, weight, np.arange(len(y)), learning_rate)
        self._first_rows = None if is_last else rows
        return found

    def _shuffled(self, y, rng):
        """Return a random order of rows."""
        return rng.permutation(len(y))

    def _centred(self, y):
        """Return the targets of the core's model."""
        return y

    def _store(self, model):
        """Set the attributes of the learned state of the core's model."""
        self._posterior = posterior = model.posterior(self._state)
        self.kernel_ = self.kernel_.clone_with_theta(posterior.theta)
        self.inducing_points_ = posterior.Z
        self.lower_bound_ = sum(q.bound for q in posterior.functions)
        self.log_prior_ = model.log_prior(self._state.theta)[0]

    def _learn_further(self, X, y, weight, order, learning_rate):
        """Learn from the rows `order` of a stream, in batches."""
        model, n_batch = self._model(of_stream=True), self._n_stream_batch
        for first in range(0, len(order), n_batch):
            rows = order[first : first + n_batch]
            # With rows that came since the last move, there may be more than in a batch.
            n_move = max(n_batch, self._state.n_gradient + len(rows))
            self._state = model.step(
                self._state,
                X[rows],
                self._centred(y[rows]),
                weight[rows],
                n_total=self.memory,
                learning_rate=self._stream_rate(learning_rate, n_move),
                rows_per_move=n_batch if self.memory is None else n_move,
            )
        self._store(model)

    def _stream_rate(self, learning_rate, n_rows):
        """Return the rate of the next move of the hyperparameters, after `n_rows` rows."""
        n_steps = self._state.adam.n_steps
        if self.memory is None:
            return inverse_time_decay(learning_rate, n_steps)
        shares = min(1.0, n_rows / self.batch_size), n_rows / self.memory
        return rate_with_memory(learning_rate, n_steps, *shares)
