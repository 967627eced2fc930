"""Classification into several classes by one binary model for each class against the rest."""

from copy import copy, deepcopy

import numpy as np
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.gaussian_process.kernels import CompoundKernel
from sklearn.utils import check_random_state

from sparsegpc._core.rows.threads import single_threaded_blas
from sparsegpc._estimators.concurrent_fits import fit_concurrently
from sparsegpc._estimators.messages.callbacks import class_task
from sparsegpc._estimators.messages.reporting import evaluation_progress
from sparsegpc._estimators.messages.user_warnings import merge_classes

# Attributes that are summed over the models of all classes, and those that are listed.
SUMMED = (
    "lower_bound_",
    "log_prior_",
    "cost_per_row_",
    "n_iter_",
    "n_evaluations_",
    "n_site_iterations_",
)
LISTED = (
    "inducing_points_",
    "inducing_indices_",
    "inducing_moved_",
    "lower_bounds_",
    "history_",
    "growth_",
    "growth_end_",
    "likelihood_",
    "hyperparameter_draws_",
    "hyperparameter_weights_",
    "ess_",
    "kernel_weights_",
)


def fit_one_vs_rest(classifier, rows, context):
    """Fit a binary model for each class, set the classifier's attributes, and return the warnings.

    All models have the parameters of the classifier. `rows` are `PresentRows`; `context` is the
    `sklearn.callback.CallbackContext` of the fit of all classes, or None.
    """
    labels = classifier.classes_
    _refuse_needs_of_one_model(classifier, len(labels))
    rng = check_random_state(classifier.random_state)
    seeds = rng.randint(np.iinfo(np.int32).max, size=len(labels))
    jobs = []
    for k, (label, seed) in enumerate(zip(labels, seeds, strict=True)):
        class_context = None
        if context is not None:
            class_context = context.subcontext(f"class {label} against the rest", max_subtasks=None)
        class_rows = rows._replace(y=(rows.y == k).astype(int))
        jobs.append((_binary(classifier, k, int(seed)), class_rows, class_context, label))
    fits = fit_concurrently(_fit_one, jobs, classifier.n_jobs)
    models, warnings_by_class = zip(*fits, strict=True)
    # Without the callback, models can be saved even if the callback cannot.
    for model in models:
        model.callback = None
    _store(classifier, list(models))
    return merge_classes(labels, warnings_by_class)


def _binary(classifier, k, seed):
    """Return the estimator of class `k` to fit, with the parameters of the classifier."""
    # The models share the callback, as it may be impossible to copy.
    template = copy(classifier).set_params(callback=None)
    # scikit-learn's callbacks are called through the context of the fit.
    vars(template).pop("_skl_callbacks", None)
    previous = getattr(classifier, "estimators_", None) if classifier.warm_start else None
    estimator = clone(template) if previous is None else deepcopy(previous[k])
    # A clone, so that the estimators share no object that a fit may change.
    parameters = clone(template).get_params(deep=False)
    parameters.update(class_weight=None, n_jobs=None, random_state=seed)
    # All models predict from the same columns.
    parameters.update(callback=classifier.callback, log_transform=False)
    estimator.set_params(**parameters)
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(classifier, name):
            setattr(estimator, name, getattr(classifier, name))
    estimator.classes_, estimator.class_weight_ = np.arange(2), np.ones(2)
    return estimator


def _refuse_needs_of_one_model(classifier, n_classes):
    """Raise ValueError if the parameters ask for what only a single model of all classes can do."""
    transforms = classifier.log_transform != "auto" and classifier.log_transform
    for setting, is_asked, remedy in (
        ("log_transform=True", transforms, "transform columns in a pipeline"),
        ("hyperparameters='average'", classifier.hyperparameters == "average", "leave it out"),
    ):
        if is_asked:
            raise ValueError(
                f"{setting} needs a single model for all classes, got likelihood="
                f"{classifier.likelihood!r}, which fits one for each of {n_classes} classes: "
                f"choose 'softmax', or {remedy}"
            )


def _fit_one(estimator, rows, context, label):
    progress = evaluation_progress(estimator, context, label)
    # The caller's limit on BLAS threads does not apply in another process.
    with single_threaded_blas(), class_task(estimator, context):
        return estimator, estimator._learn_rows(rows, progress)


def _store(classifier, models):
    """Set the attributes of a classifier from the models of its classes."""
    # Remove what an earlier fit of a single model has set.
    names = "_theta", "_posterior", "_mixture", "_transform", "_without_copies", "_choice_weight"
    for name in names:
        vars(classifier).pop(name, None)
    classifier.estimators_ = models
    classifier._likelihood = OneVsRestLikelihood([model._likelihood for model in models])
    classifier.log_scales_ = np.full(classifier.n_features_in_, np.inf)
    classifier.kernel_ = CompoundKernel([model.kernel_ for model in models])
    for name in SUMMED:
        setattr(classifier, name, sum(getattr(model, name) for model in models))
    for name in LISTED:
        setattr(classifier, name, [getattr(model, name) for model in models])
    classifier.prior_mean_ = np.array([model.prior_mean_ for model in models])
    classifier.converged_ = all(model.converged_ for model in models)
    classifier.jitter_ = max(model.jitter_ for model in models)
    relevances = [model.feature_relevance_ for model in models]
    no_lengths = relevances[0] is None
    classifier.feature_relevance_ = None if no_lengths else np.max(relevances, axis=0)


class OneVsRestLikelihood:
    """Likelihood of C classes: normalised probabilities of each class against the rest.

    `likelihoods` is a list of binary ones, each a `LabelLikelihood`.
    """

    def __init__(self, likelihoods):
        self._likelihoods = likelihoods

    def _by_class(self, method, *moments):
        """Return what a method of each likelihood says about its own class, shape (N, C)."""
        parts = [
            getattr(likelihood, method)(*(part[k : k + 1] for part in moments))[:, 1]
            for k, likelihood in enumerate(self._likelihoods)
        ]
        return np.stack(parts, axis=1)

    def log_probabilities(self, mean, variance):
        """Return log probabilities (N, C), see `LabelLikelihood.log_probabilities`."""
        log_proba = self._by_class("log_probabilities", mean, variance)
        return log_proba - logsumexp(log_proba, axis=1, keepdims=True)

    def probabilities(self, f):
        """Return probabilities (N, C), see `LabelLikelihood.probabilities`."""
        proba = self._by_class("probabilities", f)
        # If all probabilities of a row underflow, use their logarithms, which do not.
        lost = proba.sum(axis=1) == 0.0
        if lost.any():
            proba[lost] = np.exp(self.log_probabilities(f[:, lost], np.zeros((len(f), lost.sum()))))
        return proba / proba.sum(axis=1, keepdims=True)
