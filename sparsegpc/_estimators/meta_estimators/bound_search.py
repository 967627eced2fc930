"""A search among candidates that compares their lower bounds on the log evidence."""

import numbers
from dataclasses import field

import numpy as np
from sklearn.base import BaseEstimator, _fit_context, is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import indexable
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.metadata_routing import UNUSED, _routing_enabled
from sklearn.utils.validation import _check_method_params, _num_samples

from sparsegpc._estimators.base_estimator import with_parameters
from sparsegpc._estimators.concurrent_fits import N_JOBS
from sparsegpc._estimators.input.validation import check_weights
from sparsegpc._estimators.messages.user_warnings import warn_user
from sparsegpc._estimators.meta_estimators.candidates import Candidates
from sparsegpc._estimators.meta_estimators.delegation import DelegatingEstimator, last_step


@with_parameters
class BoundSearch(DelegatingEstimator):
    r"""Choose among candidates by their lower bounds on the log evidence, without validation rows.

    The candidates are an estimator of this package, or a pipeline that ends in one, with each
    combination of the given parameters: kernels, kinds of noise, transformers of the columns.
    Learning maximises a lower bound on the log marginal likelihood (evidence) of the targets plus a
    log prior of the hyperparameters. The candidate with the highest sum
    ``lower_bound_ + log_prior_`` becomes the model. Each is fitted once, to all rows that it gets,
    whereas cross-validation would fit it several times to fewer rows [1]_.

    With many rows, all candidates are first fitted to `n_screening_rows` of them, and the best
    `n_finalists` to all rows: what is best for few rows is often, but not always, best for all.

    Parameters
    ----------
    estimator : estimator
        An estimator of this package, or a `sklearn.pipeline.Pipeline` that ends in one.
    param_grid : dict or list of dict
        Names of parameters, and lists of values, as for `sklearn.model_selection.ParameterGrid`.
        Put the simplest value first, see `tol`. Values that are steps of a pipeline return what
        ``set_output`` of the pipeline has asked for. The search has no ``set_output``: call that of
        its attribute ``estimator`` before `fit`.
    n_screening_rows : int, default=1000
        Number of rows to which all candidates are fitted if there are more. They are evenly spaced
        in the order of y, so that they hold the classes in their proportions, and each class at
        least once. More rows make the choice more reliable and slower.
    n_finalists : int, default=2
        Number of candidates that are fitted to all rows.
    tol : float, default=1.0
        Among candidates within this many nats of the best, the first one in the order of
        `sklearn.model_selection.ParameterGrid` is chosen. A nat is a factor of e between the
        probabilities of the data, which is "not worth more than a bare mention" [2]_.
    n_jobs : int or None, default=None
        Number of candidates that are fitted at once, by joblib; they share cores and memory.
    verbose : int, default=0
        With 1 or more, prints a line after the fit of each candidate: its parameters, its bound
        plus log prior, the number of rows, and the seconds.

    Attributes
    ----------
    best_estimator_ : estimator
        The chosen candidate, fitted to all rows.
    best_params_ : dict
        Its parameters.
    best_index_ : int
        Its index in `results_`.
    lower_bound_ : float
        Its lower bound on the log marginal likelihood, in nats, in units of y.
    log_prior_ : float
        The log prior of its hyperparameters, in nats. It is at most zero, and zero without a prior.
    results_ : dict of list or ndarray
        One entry for each candidate, in the order of `sklearn.model_selection.ParameterGrid`:
        "params"; "screening_bound" and "bound", the lower bound plus the log prior for the
        screening rows and for all rows, in nats, nan where the candidate was not fitted or failed;
        "screening_seconds" and "seconds", the wall-clock time of these fits, zero without a fit;
        and "error", the exception of the last fit as a str, empty if it succeeded.
    classes_ : ndarray of shape (n_classes,)
        Class labels, if the estimator is a classifier.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if X had column names that are strings.

    See Also
    --------
    tabular_pipeline : Makes a search for tables of mixed columns.
    sklearn.model_selection.GridSearchCV : Search by cross-validation, with any score.

    Notes
    -----
    Bounds can be compared if they are bounds on a density of the *same values y*, as they are for
    other transformers of X, kernels, kinds of noise and ``normalize_y``. A wrapper that transforms
    y is refused. Likelihoods of counts can be compared with each other, and so can those of
    positive numbers, or of labels; but "dirichlet", and one model per class against the rest, bound
    the density of other values, and `fit` refuses to compare them with others.

    The bound does not integrate over the hyperparameters. Each further one therefore raises it by
    about half a nat even if the data do not call for it, and by more if few rows decide, which
    favours ``noise="polynomial"`` with many columns. Too few inducing points are a disadvantage for
    candidates that need many.

    Do not search over `length_scales`: the log prior of tied length scales omits its constant and
    is at most zero, so it can only count against them, and "free" would win.

    With C candidates, the cost is that of C fits to the screening rows and of `n_finalists` fits to
    all rows.

    References
    ----------
    .. [1] MacKay, "Bayesian interpolation", Neural Computation 4, 1992.
    .. [2] Kass, Raftery, "Bayes factors", Journal of the American Statistical Association 90, 1995,
       section 3.2.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sparsegpc import BoundSearch, SparseGPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> pipeline = make_pipeline(StandardScaler(), SparseGPRegressor(n_inducing=50))
    >>> grid = {"sparsegpregressor__noise": ["homoscedastic", "gp"]}
    >>> search = BoundSearch(pipeline, grid).fit(X, y)
    >>> search.best_params_
    {'sparsegpregressor__noise': 'gp'}
    >>> search.results_["bound"].shape
    (2,)
    """

    estimator: BaseEstimator = field(kw_only=False)
    param_grid: dict | list = field(kw_only=False)
    n_screening_rows: int = 1000
    n_finalists: int = 2
    tol: float = 1.0
    n_jobs: int | None = None
    verbose: int = 0

    _parameter_constraints = {
        "estimator": [HasMethods(["fit"])],
        "param_grid": [dict, list],
        "n_screening_rows": [Interval(numbers.Integral, 1, None, closed="left")],
        "n_finalists": [Interval(numbers.Integral, 1, None, closed="left")],
        "tol": [Interval(numbers.Real, 0, None, closed="left")],
        "n_jobs": N_JOBS,
        "verbose": ["verbose"],
    }

    _fitted_name = "best_estimator_"
    # The requests of the nested estimator count, so there is no set_fit_request.
    __metadata_request__fit = {"sample_weight": UNUSED}

    # Parameters of the nested estimator are validated by its own fit.
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None, **params):
        """Fit the candidates, and keep the one with the highest bound.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Labels or targets.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            As in :meth:`SparseGPRegressor.fit`, passed to the last step of a pipeline only. If
            scikit-learn's metadata routing is enabled, the estimator, or steps of a pipeline, must
            request it: ``BoundSearch(SparseGPRegressor().set_fit_request(sample_weight=True),
            ...)``. Rows of weight zero are not used for screening.
        **params : dict
            Other arguments of the estimator's `fit`. In a pipeline the last step gets them; those
            of other steps have the step's name before theirs, as in ``step__argument``. If metadata
            routing is enabled, they must be requested in the same way as weights. Of those
            with an entry for each row, the entries of the screening rows are passed with these
            rows.

        Returns
        -------
        self : BoundSearch

        Raises
        ------
        TypeError
            If a candidate is neither an estimator of this package nor a pipeline that ends in one.
        ValueError
            If `param_grid` has no candidate or an unknown parameter, or the bounds of the
            candidates cannot be compared.
        Exception
            If all candidates fail: the exception of the first one.

        Warns
        -----
        FitFailedWarning
            If some candidates fail, see "error" in `results_`.
        UserWarning
            If only some candidates left out copies of rows because they hid the noise.
        Warning
            Warnings of the chosen candidate's fit to all rows, with its parameters before the text;
            those of others are not shown.
        """
        candidates = Candidates(self.estimator, self.param_grid, self.n_jobs, self.verbose)
        X, y = indexable(X, y)
        data = {"X": X, "y": y, **self._fit_arguments(sample_weight, params)}
        finalists = range(len(candidates))
        rows = self._screening_rows(X, y, sample_weight, len(candidates))
        if rows is not None:
            candidates.fit(finalists, _check_method_params(X, data, rows), "screening_")
            finalists = candidates.finalists(self.n_finalists)
        fits = candidates.fit(finalists, data)
        candidates.warn_of_failures()
        lower_bounds = np.array([fit.bound for fit in fits])
        best = int(np.flatnonzero(lower_bounds >= np.nanmax(lower_bounds) - self.tol)[0])
        self.results_, self.best_index_ = candidates.results, int(finalists[best])
        self.best_params_ = self.results_["params"][self.best_index_]
        self.best_estimator_ = fits[best].estimator
        model = last_step(self.best_estimator_)
        self.lower_bound_, self.log_prior_ = model.lower_bound_, model.log_prior_
        for warning in fits[best].warnings:
            # The user has not set the parameters of which it speaks.
            warning.args = (f"{candidates.name(self.best_index_)}: {warning}",)
            warn_user(warning)
        return self

    def _screening_rows(self, X, y, sample_weight, n_candidates):
        """Return the indices of the screening rows, or None if all rows decide at once."""
        present = np.flatnonzero(check_weights(sample_weight, _num_samples(X)))
        few = len(present) <= self.n_screening_rows
        if few or n_candidates <= self.n_finalists or y is None:
            return None
        is_label = is_classifier(self.estimator)
        return present[spaced_by_target(np.asarray(y)[present], self.n_screening_rows, is_label)]

    def _fit_arguments(self, sample_weight, params):
        """Return the arguments of the estimator's `fit` other than X and y."""
        if sample_weight is not None:
            params = {"sample_weight": sample_weight, **params}
        if _routing_enabled():
            return self._routed("fit", params)
        estimator, name = self.estimator, ""
        while isinstance(estimator, Pipeline):
            name += f"{estimator.steps[-1][0]}__"
            estimator = estimator[-1]
        named = {name + key: value for key, value in params.items() if "__" not in key}
        given = {key: value for key, value in params.items() if "__" in key}
        if repeated := sorted(set(named) & set(given)):
            raise TypeError(
                f"fit got {repeated[0]} and {repeated[0].removeprefix(name)}, which are the same "
                "argument of the last step: give one of them"
            )
        return named | given


def spaced_by_target(y, n_rows, is_label):
    """Return sorted indices of `n_rows` rows, evenly spaced in the order of y.

    Targets y have the shape (N,) or (N, n_outputs). Of labels, every class has one row at least, so
    there can be a few rows more.
    """
    keys = y.reshape(len(y), -1).T[::-1]
    firsts = np.empty(0, dtype=np.intp)
    if is_label:
        _, firsts, keys = np.unique(y, return_index=True, return_inverse=True)
        keys = keys.reshape(1, -1)
    places = ((np.arange(n_rows) + 0.5) * (len(y) / n_rows)).astype(np.intp)
    return np.union1d(np.lexsort(keys)[places], firsts)
