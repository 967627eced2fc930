"""Effects of columns: the posterior of parts of f, and of differences of averages of f."""

import numbers

import numpy as np
from sklearn.gaussian_process import kernels as sk
from sklearn.utils.validation import check_is_fitted

from sparsegpc._core.rows.blocks import RowBlocks, Table
from sparsegpc._core.rows.threads import single_threaded_blas
from sparsegpc._estimators.input.settings import row_options
from sparsegpc._estimators.input.validation import validated_rows
from sparsegpc._estimators.kernels.kernel_trees import ADDITIVE, effect_summands
from sparsegpc._estimators.predictions.effect_shares import shares_of_models
from sparsegpc._estimators.predictions.mixtures import mixture_moments
from sparsegpc.kernels import MainEffects, OrthogonalAdditive

# An average over more rows than this becomes one over this many quantiles of the column.
MOST_QUANTILES = 1000


class ColumnEffects:
    """Methods of estimators that tell how f depends on columns."""

    # Factors of the effects of each function. Those of a regressor have the units of y.
    _effect_scale = 1.0

    def effects(self, X, features=None, reference=None):
        """Return the posterior of the effects of single columns, at the values in the rows of X.

        If the kernel is a sum with :class:`sparsegpc.kernels.MainEffects`,
        :class:`sparsegpc.kernels.OrthogonalAdditive` or a :class:`sparsegpc.kernels.Columns` of a
        single column among its summands, f is a sum, too: each column d contributes a function f_d
        of its own. The effects, and what interactions and other summands contribute, add up to f
        minus its prior mean, with the learned hyperparameters: effects are not averaged, unlike
        predictions from few rows (`hyperparameters`). A further summand of all columns may hold
        most of what a column does; :class:`sparsegpc.displays.EffectsDisplay` and
        `average_difference` take all of f into account. Within a `Columns` only its columns have
        effects; those of columns outside all of these kernels are zero.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The effect of a column depends on its values only, so X can be a grid for each column.
        features : list of int or str, or None, default=None
            Numbers or names of the columns. None means all.
        reference : array-like of shape (n_reference, n_features) or None, default=None
            Rows over which each effect is to have mean zero, for example those of `fit`. Effects
            are determined only up to constants, so without a reference the standard deviations
            include the uncertainty of these constants. The effects of `OrthogonalAdditive` need no
            reference, as they have mean zero under its densities.

        Returns
        -------
        mean : ndarray of shape (n_samples, n_effects) or (n_samples, n_effects, n_functions)
            Posterior mean of f_d at the value of column d in each row, for each of `features`. The
            second shape is that with several outputs, or one function per class. In units of y for
            regressors, else in those of f. With one model for each class, those of a class whose
            kernel has no effects are zero.
        std : ndarray of the shape of `mean`
            Posterior standard deviation.

        Raises
        ------
        ValueError
            If no kernel has one of these among its summands, or `features` are not columns.

        Notes
        -----
        The cost is that of a prediction for each column. Of a reference of more than 1000 rows,
        1000 quantiles of each column are used.
        """
        # A slice reads a source into memory; each column is taken by itself.
        X = self._check_rows(X)[:]
        columns = column_numbers(features, X.shape[1], getattr(self, "feature_names_in_", ()))
        if reference is not None:
            reference = validated_rows(self, reference, reset=False)[:]
        with single_threaded_blas():
            kernels = _kernels_of(self._fitted_estimators, X.shape[1])
            moments = [
                _effects(model, by_column, X, columns, reference)
                for model, by_column in zip(self._fitted_estimators, kernels, strict=True)
            ]
        mean, variance = (np.concatenate(part, axis=-1) for part in zip(*moments, strict=True))
        mean, std = self._effect_scale * mean, self._effect_scale * np.sqrt(variance)
        return (mean, std) if mean.shape[-1] > 1 else (mean[..., 0], std[..., 0])

    def average_difference(self, X, reference):
        """Return the posterior of the average of f over rows, minus its average over other rows.

        For example, the average effect of a treatment, if the rows of X are those of `reference`
        with another treatment; or a point of the partial dependence on a column, if all rows of X
        have the same value there. The errors of f at the rows are correlated, which the standard
        deviation takes into account. The kernel need not be additive. A column that did not vary in
        the rows of `fit` has no effect here, as nothing is known of it.

        A kernel by name takes weak effects for none if they do not raise the bound. Then both the
        mean and the standard deviation are too small; they are nearly zero if f does not depend on
        the columns that differ, which says nothing about how large their effect may be. To estimate
        the effect of one column, give it a wide prior: :ref:`user guide <treatment-effects>`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        reference : array-like of shape (n_reference, n_features)

        Returns
        -------
        mean : float or ndarray of shape (n_functions,)
            Posterior mean, in units of y for regressors, else in those of f. Several outputs, and
            classes with a function each, have an array.
        std : float or ndarray of the shape of `mean`
            Posterior standard deviation. Like predictions, both are averaged over hyperparameters
            if these were drawn.

        Notes
        -----
        With n rows in all, the cost is O(n^2 D + n M D) for M points and D columns, for each draw
        of the hyperparameters.

        Examples
        --------
        >>> import numpy as np
        >>> from sparsegpc import SparseGPRegressor
        >>> rng = np.random.RandomState(0)
        >>> age, treated = rng.uniform(0, 6, size=400), rng.randint(2, size=400)
        >>> y = np.sin(age) + 0.5 * treated + 0.3 * rng.normal(size=400)
        >>> model = SparseGPRegressor().fit(np.c_[age, treated], y)
        >>> all_treated, none = np.c_[age, np.ones(400)], np.c_[age, np.zeros(400)]
        >>> mean, std = model.average_difference(all_treated, none)
        >>> print(f"{mean:.2f} +- {std:.2f}")
        0.50 +- 0.03
        """
        X, reference = self._check_rows(X)[:], self._check_rows(reference)[:]
        weights, means, variances = [], [], []
        with single_threaded_blas():
            for component in self._components:
                parts = [part.difference_moments(X, reference) for part in component.posteriors]
                mean, variance = map(np.concatenate, zip(*parts, strict=True))
                weights.append(component.weight)
                means.append(mean)
                variances.append(variance)
        mean, variance = mixture_moments(weights, means, variances)
        mean, std = self._effect_scale * mean, self._effect_scale * np.sqrt(variance)
        return (mean, std) if len(mean) > 1 else (float(mean[0]), float(std[0]))

    def effect_shares(self):
        r"""Return the shares of columns and pairs of columns in the variance of f.

        They are Sobol indices of the posterior mean of f, in closed form, for a kernel that is
        :class:`sparsegpc.kernels.OrthogonalAdditive`, possibly times a constant and within
        :class:`sparsegpc.kernels.Columns`. The shares are those for independent columns with the
        normal densities of the kernel. If the columns of the data depend on each other, they
        describe the function, not the variance of f over these rows.

        Returns
        -------
        shares : dict
            From tuples of one or two columns, by number or, if `fit` got a data frame, by name, to
            shares in descending order. A share is a number from 0 to 1 or, with several functions,
            an array of shape (n_functions,), sorted by the mean. They add up to one if the order
            of the kernel is 1 or 2; otherwise the rest is the share of larger sets of columns. All
            are zero if the posterior mean is constant.

        Raises
        ------
        ValueError
            If the kernel is none of these.

        Notes
        -----
        This needs M^2 D^2 operations for M inducing points and D columns, and no rows. The
        uncertainty of f does not enter. If the densities do not fit the columns, or points lie far
        out, the shares include regions where the data do not determine the function.

        Examples
        --------
        >>> import numpy as np
        >>> from sparsegpc import SparseGPRegressor
        >>> from sparsegpc.kernels import OrthogonalAdditive
        >>> rng = np.random.RandomState(0)
        >>> X = rng.normal(size=(300, 2))
        >>> y = 2 * X[:, 0] + X[:, 1] + X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=300)
        >>> model = SparseGPRegressor(OrthogonalAdditive(), n_inducing=30).fit(X, y)
        >>> {columns: round(share, 2) for columns, share in model.effect_shares().items()}
        {(0,): 0.67, (0, 1): 0.17, (1,): 0.17}
        """
        check_is_fitted(self)
        labels = list(getattr(self, "feature_names_in_", range(self.n_features_in_)))
        with single_threaded_blas():
            return shares_of_models(self._fitted_estimators, labels)


def column_numbers(features, n_features, names):
    """Return the numbers of the columns that are given by number or name; None means all."""
    if features is None:
        return list(range(n_features))
    places = dict(zip([*range(n_features), *names], [*range(n_features)] * 2, strict=False))

    def is_column(feature):
        # Other values may be equal to a number, or have no hash.
        is_label = isinstance(feature, (str, numbers.Integral)) and not isinstance(feature, bool)
        return is_label and feature in places

    is_list = not isinstance(features, str) and np.iterable(features) and len(features) > 0
    if not is_list or not all(map(is_column, features)):
        also = f" or among the names {list(names)}," if len(names) else ""
        raise ValueError(
            f"features must be a list of numbers of columns, from 0 to {n_features - 1},{also} got "
            f"{features!r}: give for example [0], or None"
        )
    return [places[feature] for feature in features]


def _effects(model, kernels, X, columns, reference):
    """Return mean and variance of the effects, shape (N, n_effects, K) each.

    `kernels` are those of single columns; None means that there are no effects.
    """
    if kernels is None:
        return np.zeros((2, len(X), len(columns), len(model._posterior.functions)))
    mean, variance = [], []
    for d in columns:
        at, points = X[:, [d]], model._posterior.Z[:, [d]]
        centre = None if reference is None else _quantiles(reference[:, [d]])
        moments = _centred_moments(model._posterior, kernels[d], points, at, centre)
        mean.append(moments[0])
        variance.append(moments[1])
    # (n_effects, K, N) to (N, n_effects, K)
    return np.moveaxis(mean, 2, 0), np.moveaxis(variance, 2, 0)


def _centred_moments(posterior, kernel, points, at, centre):
    r"""Return mean and variance of :math:`f_d(x) - \sum_j f_d(x_j) / J`, shape (K, N) each.

    The arguments hold the values of the column: `points` (M, 1), `at` (N, 1) and `centre`, (J, 1)
    or None for no centre.
    """
    values, index = np.unique(at, return_inverse=True)
    if centre is not None:
        with_centre = kernel(points, centre).mean(axis=1, keepdims=True)
        of_centre = kernel(centre).mean()

    def block(values):
        cross, variance = kernel(points, values), kernel.diag(values)
        if centre is not None:
            cross -= with_centre
            variance = variance - 2.0 * kernel(values, centre).mean(axis=1) + of_centre
        return (), posterior.part_moments(cross, variance)

    blocks = RowBlocks(len(values), max(len(points), MOST_QUANTILES), **row_options())
    _, moments = blocks.visit(block, Table(values[:, None]))
    return [part[:, index.ravel()] for part in moments]


def _quantiles(values):
    """Return at most `MOST_QUANTILES` evenly spaced order statistics of values (J, 1)."""
    n = min(len(values), MOST_QUANTILES)
    places = ((np.arange(n) + 0.5) * len(values) / n).astype(np.intp)
    return np.sort(values, axis=0)[places]


def _kernels_of(models, n_features):
    """Return for each model the kernels of the effects of single columns, None if it has none."""
    found = [_kernels_by_column(model.kernel_, n_features) for model in models]
    if all(by_column is None for by_column in found):
        raise ValueError(
            f"the kernel {models[0].kernel_} has no effects of single columns among its summands: "
            "fit with main_effects=True, which adds them if X has several columns, or with kernel "
            "+ sparsegpc.kernels.MainEffects(), OrthogonalAdditive() or Columns(RBF(), [0])"
        )
    return found


def _kernels_by_column(kernel, n_features):
    """Return the kernel of one column for the effect of each, None if there are no effects.

    The kernel of a column that no additive kernel sees is zero.
    """
    summands = list(effect_summands(kernel, np.arange(n_features)))
    if not summands:
        return None
    by_column = [[] for _ in range(n_features)]
    for factor, part, columns in summands:
        for d, effect in zip(columns, _single_effects(part, len(columns)), strict=True):
            by_column[d].append(sk.ConstantKernel(factor) * effect)
    return [sum(parts[1:], parts[0]) if parts else sk.ConstantKernel(0.0) for parts in by_column]


def _single_effects(kernel, n_features):
    """Yield the kernel of the effect of each column of a kernel from `effect_summands`."""
    if type(kernel) not in ADDITIVE:
        yield kernel
        return
    if type(kernel) is MainEffects:
        for variance, scale in zip(*kernel._by_column(n_features), strict=True):
            yield sk.ConstantKernel(variance) * sk.RBF(scale)
        return
    variance = np.ravel(kernel.variance)[0]
    for scale, *density in zip(*kernel._by_column(n_features), strict=True):
        yield OrthogonalAdditive(scale, variance, *density)
