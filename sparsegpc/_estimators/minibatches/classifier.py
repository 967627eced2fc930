"""The classifier that learns from minibatches: for many rows, and for streams."""

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import _check_partial_fit_first_call

from sparsegpc._core.likelihoods.base import LabelLikelihood
from sparsegpc._core.rows.merged_rows import merge_with_targets
from sparsegpc._estimators.base_estimator import with_parameters
from sparsegpc._estimators.input.labels import (
    check_classes,
    class_codes,
    class_factors,
    refuse_other_order,
    validated_labels,
)
from sparsegpc._estimators.input.validation import present_rows, refuse_overflow
from sparsegpc._estimators.messages.user_warnings import FitWarning
from sparsegpc._estimators.minibatches.sites import SiteMinibatches
from sparsegpc._estimators.predictions.labels import ClassPredictions
from sparsegpc.likelihoods import NAMES, resolve_likelihood

# Rows of a stream are not in random order if this fraction of them would have to change their class
# to have the shares of the classes in earlier rows. Both must have ENOUGH_WEIGHT.
DIFFERENT, ENOUGH_WEIGHT = 0.5, 20.0


@with_parameters
class StochasticSparseGPClassifier(ClassPredictions, SiteMinibatches):
    r"""Sparse Gaussian process classification from minibatches of rows.

    The model of :class:`SparseGPClassifier` learned from one batch of rows at a time: for data sets
    with so many rows that a pass over all of them is expensive, and, through `partial_fit`, for
    streams. The approximate posterior takes natural-gradient steps [2]_ on a bound that is a sum
    over rows [1]_; for each batch they are repeated until the bound of the batch stops rising, so
    there is no step size to choose. The hyperparameters follow averaged gradients. With up to a few
    tens of thousands of rows, :class:`SparseGPClassifier` reaches a better optimum sooner.

    Parameters
    ----------
    likelihood : str or LabelLikelihood, default="auto"
        Distribution of the labels given f, as in :class:`SparseGPClassifier`, but those for two
        classes do not allow more.
    class_weight : dict, "balanced" or None, default=None
        Factors of the class probabilities, as in :class:`SparseGPClassifier`; `partial_fit` does
        not accept "balanced".

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted. With a likelihood for two classes, a large f favours ``classes_[1]``;
        with "ordinal-logit" it favours the last class.
    class_weight_ : ndarray of shape (n_classes,)
        Factors of the class probabilities, from `class_weight`; ones if it is None.
    likelihood_ : likelihood
        Likelihood with its learned parameters. With "ordinal-logit" its attribute `cut_points`
        holds the cut points.

    See Also
    --------
    SparseGPClassifier : Learns from all rows at once.
    StochasticSparseGPRegressor : Regression.

    Notes
    -----
    A step costs O(b M^2 + M^3) time for b rows in a batch, and O(b M) memory, each times C for C
    functions. Each pass over all N rows at the end costs O(N M^2) time, and its memory is limited
    by scikit-learn's ``working_memory``. Rows with equal columns and labels are merged, and their
    weights added; rows with equal columns but different labels are not merged. Rows of a
    `numpy.memmap`, or of another array that is read by slices, are read batch by batch and, except
    for the first rows of a stream, never merged. A saved model takes about (12 C + 8) M^2 + 24 M D
    bytes; after `partial_fit` it takes up to 8 M D bytes more, and 8 (D + 2) for each row that it
    keeps.

    References
    ----------
    .. [1] Hensman, Matthews, Ghahramani, "Scalable variational Gaussian process classification",
       AISTATS 2015.
    .. [2] Khan, Lin, "Conjugate-computation variational inference: converting variational inference
       in non-conjugate models to inferences in conjugate models", AISTATS 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sparsegpc import StochasticSparseGPClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> classifier = StochasticSparseGPClassifier(n_inducing=50, batch_size=100)
    >>> model = make_pipeline(StandardScaler(), classifier).fit(X, y)
    >>> model.score(X, y) > 0.97
    True
    >>> model.predict_proba(X).shape
    (569, 2)
    """

    class_weight: dict | str | None = None

    _parameter_constraints = {
        **SiteMinibatches._parameter_constraints,
        "likelihood": [StrOptions({"auto", *NAMES}), LabelLikelihood],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Learn from all rows, in batches.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels of two classes or more.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Each row's log-likelihood is multiplied by its weight: a weight of k has the effect of k
            copies of the row. If weights are not counts, their scale matters: :ref:`user guide
            <weights>`.

        Returns
        -------
        self : StochasticSparseGPClassifier

        Raises
        ------
        ValueError
            If the input is not finite or has wrong shapes, `y` has one class only, the likelihood
            does not support the number of classes or the bound, or the kernel does not fit the
            data.
        numpy.linalg.LinAlgError
            If the kernel is not positive semi-definite.

        Warns
        -----
        ConvergenceWarning
            If `callback` stopped the fit, the learned model is no better than a constant one, or
            the hyperparameters learned from batches are worse for all rows than a constant f; the
            model is then that of the first rows, or constant. Also if the residuals of neighbouring
            rows are correlated, so that a function is missing.
        UserWarning
            If the weights do not look like counts, or depend on the class only; or if classes are
            ordered alphabetically, with "ordinal-logit".
        """
        return self._fit(X, y, sample_weight)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Learn from further rows.

        The first rows of a stream are kept until there are 2000 of them, or 20 for each point if
        that is more, but at most about `memory`. Whenever their number has doubled, the inducing
        points and the hyperparameters are learned anew from all of them. Later rows are used once:
        the points stay, and the hyperparameters follow gradients. So the rows should come in random
        order. Calls with fewer rows than points take as long as with that many.

        If the likelihood is not "dirichlet", the constant mean of f has a normal prior in a stream,
        with mean 0 and standard deviation 3, so that a class that has not occurred yet keeps a
        positive probability. With two classes it is about 0.2 after one row of the other class and
        0.02 after 20 rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels, among `classes`.
        classes : array-like of shape (n_classes,) or None, default=None
            All labels that can occur in the stream. Required in the first call, optional later.
            With "ordinal-logit" they must be sorted, as this is the order of the classes.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            As in `fit`.

        Returns
        -------
        self : StochasticSparseGPClassifier

        Raises
        ------
        ValueError
            As in `fit`; if `classes` is missing in the first call, differs from it later or, with
            "ordinal-logit", is not sorted; if `y` holds another label, or if `class_weight` is
            "balanced".

        Warns
        -----
        UserWarning
            If `memory` is None and the shares of the classes are far from those in earlier rows, as
            in rows that are sorted by label.
        """
        if self.class_weight == "balanced":
            raise ValueError(
                'class_weight="balanced" needs all rows at once, but partial_fit gets them in '
                "blocks: give a dict of a factor for each class, or use fit"
            )
        return self._partial_fit(X, y, sample_weight, classes)

    def _learn_all(self, X, codes, weight, progress):
        self._class_totals = self._totals(codes, weight)
        return super()._learn_all(X, codes, weight, progress)

    def _learn_block(self, X, codes, weight, progress):
        now = self._totals(codes, weight)
        before = self._class_totals if hasattr(self, "kernel_") else np.zeros_like(now)
        found = super()._learn_block(X, codes, weight, progress)
        self._class_totals = before + now
        # The rows that are kept are learned from in random order.
        if self.memory is None and self._first_rows is None:
            found = found + _order_warnings(self.classes_, before, now)
        return found

    def _totals(self, codes, weight):
        """Return the total weight of each class, shape (n_classes,)."""
        return np.bincount(codes, weight, minlength=len(self.classes_))

    def _shuffled(self, codes, rng):
        # The rows that come first have all classes.
        order = rng.permutation(len(codes))
        firsts = np.unique(codes[order], return_index=True)[1]
        return np.concatenate([order[np.sort(firsts)], np.delete(order, firsts)])

    def _suffice(self, codes):
        # With rows of one class the search would learn a constant f.
        return len(np.unique(codes)) > 1

    def _merged_rows(self, X, y, sample_weight, *classes, reset):
        # `classes` holds that argument of partial_fit, and nothing in fit.
        X, y = validated_labels(self, X, y, reset=reset)
        refuse_overflow(X, "X")
        rows = present_rows(X, y, sample_weight)
        if classes:
            _check_partial_fit_first_call(self, *classes)
            refuse_other_order(self.likelihood, y, *classes)
        else:
            self.classes_ = np.unique(rows.y)
        check_classes(self.classes_)
        X, codes, weight = merge_with_targets(
            rows.X, class_codes(rows.y, self.classes_), rows.weight
        )
        self.class_weight_ = class_factors(self.class_weight, self.classes_, codes, weight)
        return X, codes, weight

    def _initial_likelihood(self):
        n_classes = len(self.classes_)
        likelihood = resolve_likelihood(self.likelihood, n_classes)
        if n_classes > 2 and not likelihood.takes_many_classes:
            raise ValueError(
                f"likelihood={self.likelihood!r} is for two classes, got {n_classes}: use "
                '"softmax", "ordinal-logit", "logistic-softmax" or "dirichlet", or '
                "SparseGPClassifier, which fits one model for each class"
            )
        return likelihood.for_classes(n_classes)


def _order_warnings(classes, before, now):
    """Return a list with a `FitWarning` if rows of a stream are not in random order.

    `before` and `now` (n_classes,) are the total weights of the classes in earlier rows and in
    those of this call.
    """
    if min(before.sum(), now.sum()) < ENOUGH_WEIGHT:
        return []
    earlier, recent = before / before.sum(), now / now.sum()
    change = np.abs(recent - earlier)
    if 0.5 * change.sum() < DIFFERENT:
        return []
    k = int(change.argmax())
    text = (
        f"the class {classes[k]} has a share of {recent[k]:.2g} in the rows of this call and of "
        f"{earlier[k]:.2g} in all earlier ones, so they are not in random order: shuffle rows that "
        "are sorted by label, or set memory if the classes change over time"
    )
    return [FitWarning(UserWarning, text)]
