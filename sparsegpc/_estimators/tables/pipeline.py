"""A pipeline for tables of mixed columns."""

from sklearn.base import clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline

from sparsegpc._estimators.classifier import SparseGPClassifier
from sparsegpc._estimators.generalized_regressor import SparseGPGeneralizedRegressor
from sparsegpc._estimators.input.validation import refuse_repeated_names
from sparsegpc._estimators.meta_estimators.bound_search import BoundSearch
from sparsegpc._estimators.noise.registry import AUTO, DEFAULT
from sparsegpc._estimators.regressor import SparseGPRegressor
from sparsegpc._estimators.tables.column_scaler import ColumnScaler
from sparsegpc._estimators.tables.columns import (
    Levels,
    Numbers,
    VaryingColumns,
    category_columns,
    number_columns,
)
from sparsegpc._estimators.tables.indicators import Indicators
from sparsegpc._estimators.tables.normal_scores import NormalScores

ESTIMATORS = {"classifier": SparseGPClassifier, "regressor": SparseGPRegressor}
SEARCHED = (*ESTIMATORS.values(), SparseGPGeneralizedRegressor)
# A label carries less information than a number, so comparing candidates takes more of them.
SCREENED_LABELS, SCREENED_NUMBERS = 2000, 500


def tabular_pipeline(estimator, *, search=True, n_jobs=None, verbose=0):
    """Make a pipeline for a table of numbers and categories with missing values.

    Numbers, booleans and the positions of ordered categories are standardised, those that span
    decades without their means; missing ones become
    the median of their column, and an additional column marks them. If a column lacks values only
    in new rows, predictions do not take it into account, and a warning is issued. Other categories
    become a column of zeros and ones for each level, one of which stands for a missing value.
    Levels with a single row share a column, as do the rarest ones if there would be more than 200
    columns. An additional column marks levels that no training row has: the model expects that
    their effects differ from those of the known levels about as much as these differ from each
    other. Other columns that are constant in the training rows are dropped; if all are, the model
    gets one of them, predicts the mean and warns. With `search`, the bound on the log evidence then
    chooses how numbers enter the kernel, the kernel, and in regression the noise.

    Parameters
    ----------
    estimator : {"classifier", "regressor"} or estimator
        The last step of the pipeline. The names mean :class:`SparseGPClassifier` and
        :class:`SparseGPRegressor` with default settings. A :class:`SparseGPGeneralizedRegressor`
        may be given as well: pass exposures to `fit` as ``exposure``, and without `search` as
        ``model__exposure``. Without `search`, any estimator of scikit-learn's interface may be
        given.
    search : bool, default=True
        Whether to choose by the bound, with :class:`BoundSearch`: numbers as they are or as
        :class:`NormalScores`; the kernel "rbf", "matern32" or "laplacian"; in regression the noise
        "homoscedastic" or "auto". What the given estimator sets (a kernel, or a noise other than
        "homoscedastic") stays as it is. There are up to 6 candidates, or 12 with a noise to choose;
        those with "auto" noise take the longest. If there are more than 500 rows (2000 in
        classification), all are fitted to that many rows, and the best two to all rows.
    n_jobs : int or None, default=None
        Number of candidates of the search that are fitted at once, see :class:`BoundSearch`.
    verbose : int, default=0
        With 1 or more, the search prints a line for each candidate, with its bound and seconds.

    Returns
    -------
    model : BoundSearch or Pipeline
        Not fitted. With `search` a :class:`BoundSearch` over the pipeline, which after `fit` is its
        attribute ``best_estimator_``. The steps of the pipeline are "table", "varying" and "model".

    Raises
    ------
    ValueError
        If `estimator` is another string, or there is no search for the estimator.

    See Also
    --------
    BoundSearch : Chooses among candidates of your own.
    sklearn.compose.ColumnTransformer : Converts columns as you specify.

    Notes
    -----
    X may be a data frame of pandas or polars, where dtypes tell numbers from categories (integers
    that are codes of categories should have the dtype category; if it is ordered, they enter as
    numbers), or an array of floats with nan for
    missing values. A column of objects is numeric if it holds only numbers, None and nan; if it
    holds text as well, its values are compared as text. Text that reads like a number is not
    converted. A warning names columns of categories most of whose values are in a single row. In
    new rows, text in a column of numbers is read as a number. Text that is not a number counts as
    missing, with a warning. Predictions also warn if most rows have levels that no training row
    has, and one of these may be a known level that is spelled otherwise, or if most of 20 rows or
    more have numbers in a column that are beyond those of all training rows. The parameters
    ``table__categories__encode__min_frequency`` and ``table__categories__encode__max_categories``
    of the pipeline decide which levels share a column.

    Dates, times, periods and objects other than numbers and text, such as lists, are refused by
    `fit`: convert them to numbers first, such as the year, the day of the year, or the hours since
    an event.

    The search takes sample weights as ``fit(X, y, sample_weight=w)``; without a search, pass
    ``model__sample_weight=w``. Only the model uses them. If scikit-learn's metadata routing is
    enabled, pass ``sample_weight=w`` to either, and let the estimator request it:
    ``tabular_pipeline(SparseGPRegressor().set_fit_request(sample_weight=True))``.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsegpc import tabular_pipeline
    >>> rng = np.random.RandomState(0)
    >>> X = np.empty((100, 2), dtype=object)
    >>> X[:, 0], X[:, 1] = np.exp(2 * rng.normal(size=100)), rng.choice(["red", "blue"], 100)
    >>> y = np.log(X[:, 0].astype(float)) + (X[:, 1] == "red") + 0.1 * rng.normal(size=100)
    >>> X[:10, 0] = None
    >>> model = tabular_pipeline("regressor").fit(X, y)
    >>> bool(model.score(X[10:], y[10:]) > 0.95)
    True
    """
    if isinstance(estimator, str):
        if estimator not in ESTIMATORS:
            raise ValueError(
                "estimator must be 'classifier', 'regressor' or an estimator, got "
                f"{estimator!r}: give one of them"
            )
        model = ESTIMATORS[estimator]()
    else:
        model = clone(estimator)
    pipeline = Pipeline(
        [("table", _table_to_numbers()), ("varying", VaryingColumns()), ("model", model)]
    )
    if not search:
        return pipeline
    grid = _candidates(model)
    n_rows = SCREENED_LABELS if is_classifier(model) else SCREENED_NUMBERS
    return BoundSearch(pipeline, grid, n_screening_rows=n_rows, n_jobs=n_jobs, verbose=verbose)


class TableTransformer(ColumnTransformer):
    """A `ColumnTransformer` that refuses a table in which columns have the same name."""

    def fit_transform(self, X, y=None, **params):
        refuse_repeated_names(X)
        return super().fit_transform(X, y, **params)

    def transform(self, X, **params):
        refuse_repeated_names(X)
        return super().transform(X, **params)


def _table_to_numbers():
    """Return the transformer of a table to numbers; its step "scores" is to be replaced."""
    # A column without values becomes constant, and is dropped.
    imputer = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    numbers = Pipeline(
        [
            ("floats", Numbers()),
            ("scores", "passthrough"),
            ("impute", imputer),
            ("scale", ColumnScaler()),
        ]
    )
    categories = Pipeline([("levels", Levels()), ("encode", Indicators())])
    return TableTransformer(
        [("numbers", numbers, number_columns), ("categories", categories, category_columns)],
        sparse_threshold=0.0,
    )


def _candidates(model):
    """Return the grid of parameters of a search, the simplest values first."""
    if not isinstance(model, SEARCHED):
        raise ValueError(
            "search=True needs a SparseGPClassifier, a SparseGPRegressor or a "
            f"SparseGPGeneralizedRegressor, got {model!r}: set search=False, or make a BoundSearch "
            "of your own"
        )
    grid = {"table__numbers__scores": ["passthrough", NormalScores()]}
    if model.kernel is None:
        grid["model__kernel"] = ["rbf", "matern32", "laplacian"]
    if getattr(model, "noise", None) == DEFAULT:
        grid["model__noise"] = [DEFAULT, AUTO]
    return grid
