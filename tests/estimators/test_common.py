"""What scikit-learn asks of every estimator, with nothing excused."""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_get_feature_names_out_error,
    check_global_output_transform_pandas,
    check_global_set_output_transform_polars,
    check_inplace_ensure_writeable,
    check_param_validation,
    check_set_output_transform,
    check_set_output_transform_pandas,
    check_set_output_transform_polars,
    check_transformer_get_feature_names_out,
    check_transformer_get_feature_names_out_pandas,
    parametrize_with_checks,
)

from sparsegpc import (
    BoundSearch,
    HomoscedasticNoise,
    InducingPointSelector,
    LocalCorrection,
    NormalScores,
    SparseGPClassifier,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPGeneralizedRegressor,
    StochasticSparseGPRegressor,
)
from sparsegpc.decomposition import BayesianGPLVM

# Quick ones: what they add to the default does not depend on which length scale is learned.
QUICK = {
    "kernel": ConstantKernel(1.0) * RBF(3.0, "fixed"),
    "max_iter": 1,
    "max_reselections": 0,
    "random_state": 0,
}

# scikit-learn's checks fit labels that are pure noise, two rows, and columns of 1e5; what is said
# about such data is tested elsewhere. The other category is for checks of libraries not installed.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
    # The targets of scikit-learn's checks are often classes.
    pytest.mark.filterwarnings("ignore:.*of the targets are equal:UserWarning"),
    # Some repeat rows, which hide the noise.
    pytest.mark.filterwarnings("ignore:.* counted by their weights, repeat others:UserWarning"),
    pytest.mark.filterwarnings("ignore:.* rows repeat others, targets included:UserWarning"),
]


def classifiers():
    """Return classifiers of each way to fit; what they predict is tested elsewhere.

    By default more than two classes are a joint model; where the likelihood is one of two classes
    there is one model for each. Dirichlet targets are a regression. Points are rows, means, or
    moved, and as many as asked for or as needed.
    """
    # With warm_start a second fit goes on from the first, so it is not among the choices.
    options = [
        {"likelihood": "dirichlet", "selector": "kmeans", "fit_prior_mean": False},
        {
            "likelihood": "bernoulli-probit",
            "n_inducing": "auto",
            "max_inducing": 10,
            "point_cost": 0.1,
        },
        {
            "likelihood": "polya-gamma",
            "selector": "rpcholesky",
            "class_weight": "balanced",
            "n_inducing": 5,
            "optimize_inducing": True,
        },
        {"likelihood": "ordinal-logit"},
    ]
    quick = {**QUICK, "n_inducing": 10}
    default = SparseGPClassifier(n_inducing=5, max_iter=1, max_reselections=1)
    models = [SparseGPClassifier(**{**quick, **option}) for option in ({}, *options)]
    return [*models, default]


def regressors():
    """Return regressors of each kind of noise and each way to fit."""
    # With warm_start a second fit goes on from the first, so it is not among the choices.
    options = [
        {
            "noise": "polynomial",
            "selector": "rpcholesky",
            "optimize_inducing": True,
            "n_inducing": 20,
        },
        {"noise": "gp", "tol": 1e-2, "n_inducing": 5},
        {"noise": "student-t", "n_inducing": 10, "point_cost": 0.5},
        {
            "noise": HomoscedasticNoise(0.5, "fixed"),
            "n_inducing": "auto",
            "selector": "uniform",
            "normalize_y": True,
            "fit_prior_mean": False,
        },
    ]
    quick = [SparseGPRegressor(**{"random_state": 0, **QUICK, **option}) for option in options]
    default = SparseGPRegressor(max_iter=1, max_reselections=1)
    return [SparseGPRegressor(n_inducing=20, **QUICK), *quick, default]


def generalized_regressors():
    """Return regressors of positive numbers; scikit-learn's checks have no others."""
    options = [
        {"likelihood": "gamma", "n_inducing": 20, "max_iter": 3},
        {"likelihood": "log-normal", "n_inducing": "auto", "max_inducing": 20, "selector": "hgv"},
        {"likelihood": "weibull", "n_inducing": 5, "optimize_inducing": True},
    ]
    quick = [SparseGPGeneralizedRegressor(**{**QUICK, **option}) for option in options]
    default = SparseGPGeneralizedRegressor(n_inducing=5, max_iter=1, fit_prior_mean=False)
    return [*quick, default]


def stochastic_regressors():
    """Return regressors from minibatches."""
    quick = {"kernel": QUICK["kernel"], "n_epochs": 1, "n_inducing": 20}
    options = [
        {**quick, "learning_rate": 0.0},
        {"n_epochs": 1, "n_inducing": 10},
        {**quick, "optimize_inducing": True, "batch_size": 7, "selector": "hgv"},
        {"fit_prior_mean": False, "selector": "kmeans", "memory": 20, "learning_rate": 0.0},
    ]
    return [StochasticSparseGPRegressor(**{"random_state": 0, **option}) for option in options]


def stochastic_generalized_regressors():
    """Return regressors of positive numbers from minibatches."""
    quick = {"kernel": QUICK["kernel"], "n_inducing": 20}
    options = [
        {**quick, "likelihood": "log-normal", "n_epochs": 1},
        {**quick, "likelihood": "gamma", "optimize_inducing": True, "batch_size": 7, "n_epochs": 1},
        {"n_inducing": 5, "fit_prior_mean": False, "memory": 20, "n_epochs": 0},
    ]
    return [StochasticSparseGPGeneralizedRegressor(**option) for option in options]


def stochastic_classifiers():
    """Return classifiers from minibatches."""
    quick = {"kernel": QUICK["kernel"], "n_epochs": 1, "n_inducing": 10}
    options = [
        {**quick, "learning_rate": 0.0},
        {"n_epochs": 1, "n_inducing": 5},
        {**quick, "likelihood": "softmax", "optimize_inducing": True, "batch_size": 7},
        {"likelihood": "dirichlet", "learning_rate": 0.0, "fit_prior_mean": False, "memory": 20},
        {**quick, "likelihood": "ordinal-logit"},
    ]
    return [StochasticSparseGPClassifier(**{"random_state": 0, **option}) for option in options]


def selectors():
    """Return selectors of rows, of means, and by labels."""
    options = [{}, {"method": "kmeans", "random_state": 0}, {"weighting": "classification"}]
    return [InducingPointSelector(**option) for option in options]


def searches():
    """Return searches by the bound, with and without a pipeline and a screening of candidates.

    What is checked is the search, so its candidates learn no hyperparameters.
    """
    quick = {**QUICK, "n_inducing": 10, "optimizer": None}
    regressor, classifier = SparseGPRegressor(**quick), SparseGPClassifier(**quick)
    # Scaling ignores weights, so the pipeline has none.
    steps = [FunctionTransformer(validate=True), FunctionTransformer(validate=True, func=np.arctan)]
    pipeline = make_pipeline(steps[0], classifier)
    return [
        BoundSearch(regressor, {"fit_prior_mean": [True, False]}),
        BoundSearch(
            regressor, {"kernel": [RBF(), QUICK["kernel"]]}, n_screening_rows=10, n_finalists=1
        ),
        BoundSearch(pipeline, {"functiontransformer": steps}),
    ]


def corrections():
    """Return estimators that predict from neighbours, of labels and of numbers.

    What is checked is what neighbours add, so the models learn no hyperparameters.
    """
    quick = {**QUICK, "n_inducing": 10, "optimizer": None}
    return [
        LocalCorrection(SparseGPRegressor(**quick), n_neighbors=5, n_validation=10),
        LocalCorrection(SparseGPClassifier(**quick), n_neighbors=5, mode="both"),
    ]


def latent_variables():
    """Return models of latent variables; with more components than columns, and by either bound."""
    quick = {"n_inducing": 5, "max_iter": 20}
    return [BayesianGPLVM(**quick), BayesianGPLVM(4, bound="standard", **quick)]


def by_name(estimator):
    return repr(estimator).replace(" ", "").replace("\n", "")


# The first of each kind is asked everything.
KINDS = [
    classifiers(),
    stochastic_classifiers(),
    regressors(),
    generalized_regressors(),
    stochastic_regressors(),
    stochastic_generalized_regressors(),
    selectors(),
    searches(),
    corrections(),
    [NormalScores()],
    latent_variables(),
]
every_transformer = pytest.mark.parametrize(
    "estimator", [*selectors(), NormalScores(), *latent_variables()[:1]], ids=by_name
)
one_of_each = pytest.mark.parametrize("estimator", [own[0] for own in KINDS], ids=by_name)


# The checks of which the outcome depends on how a model is fitted and predicts. The others are of
# input, tags and parameters, and of code that all models of a kind share, such as that which leaves
# parameters as they are. How well each way to fit predicts is tested where that way is, and what
# comes of one row under `input`.
OF_FITS = {
    "check_classifiers_one_label",
    "check_fit_idempotent",
    "check_methods_subset_invariance",
    "check_regressor_multioutput",
    "check_sample_weight_equivalence_on_dense_data",
    "check_transformer_general",
    "check_transformer_preserve_dtypes",
}


def is_of_fits(check):
    """Return whether a check is one of these, in its plain form."""
    return check.func.__name__ in OF_FITS and not check.keywords.get("readonly_memmap")


def every_check():
    """Return a mark with all checks of the first of each kind, and those of fits of the others."""
    first = {id(own[0]) for own in KINDS}
    mark = parametrize_with_checks([estimator for own in KINDS for estimator in own]).mark
    chosen = [
        (estimator, check)
        for estimator, check in mark.args[1]
        if id(estimator) in first or is_of_fits(check)
    ]
    return pytest.mark.parametrize(mark.args[0], chosen, **mark.kwargs)


@every_check()
def test_scikit_learn_check(estimator, check):
    check(estimator)


def check(function, estimator):
    function(type(estimator).__name__, estimator)


@one_of_each
def test_parameters_are_validated(estimator):
    check(check_param_validation, estimator)


@one_of_each
def test_column_names_are_checked_by_every_method(estimator):
    check(check_dataframe_column_names_consistency, estimator)


@one_of_each
def test_read_only_input_is_accepted_and_kept(estimator):
    check(check_inplace_ensure_writeable, estimator)


# The checks of the output's type fit a frame and transform an array, and the other way round.
@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names")
@every_transformer
@pytest.mark.parametrize(
    "function",
    [
        check_transformer_get_feature_names_out,
        check_transformer_get_feature_names_out_pandas,
        check_get_feature_names_out_error,
        check_set_output_transform,
        check_set_output_transform_pandas,
        check_global_output_transform_pandas,
        check_set_output_transform_polars,
        check_global_set_output_transform_polars,
    ],
    ids=lambda function: function.__name__,
)
def test_transformer_output(estimator, function):
    check(function, estimator)


def test_set_output_works_in_a_pipeline():
    pytest.importorskip("pandas")
    X = np.random.RandomState(0).randn(30, 3)
    pipeline = make_pipeline(StandardScaler(), InducingPointSelector(n_components=4, tol=0))
    frame = pipeline.set_output(transform="pandas").fit_transform(X)
    assert list(frame.columns) == [f"inducingpointselector{k}" for k in range(4)]
    assert list(pipeline.get_feature_names_out()) == list(frame.columns)


@pytest.mark.parametrize("estimator", [*classifiers(), *stochastic_classifiers()], ids=by_name)
def test_the_classifier_says_that_it_takes_any_number_of_classes(estimator):
    tags = get_tags(estimator)
    assert is_classifier(estimator)
    assert tags.classifier_tags.multi_class
    assert not tags.classifier_tags.multi_label
    assert tags.target_tags.required
    assert not tags.input_tags.sparse
    assert not tags.input_tags.allow_nan


@pytest.mark.parametrize("estimator", regressors(), ids=by_name)
def test_the_regressor_says_that_it_takes_several_outputs(estimator):
    tags = get_tags(estimator)
    assert is_regressor(estimator)
    assert tags.target_tags.multi_output
    assert tags.target_tags.required
    assert not tags.input_tags.sparse
    assert not tags.input_tags.allow_nan


@pytest.mark.parametrize("estimator", stochastic_regressors(), ids=by_name)
def test_the_regressor_from_minibatches_says_that_it_takes_one_output(estimator):
    tags = get_tags(estimator)
    assert is_regressor(estimator)
    assert not tags.target_tags.multi_output
    assert tags.target_tags.required
    assert not tags.input_tags.sparse
    assert not tags.input_tags.allow_nan


def test_the_selector_says_when_it_needs_a_target():
    assert not get_tags(InducingPointSelector()).target_tags.required
    assert get_tags(InducingPointSelector(weighting="classification")).target_tags.required


def test_a_clone_of_every_estimator_has_the_same_parameters():
    for estimator in (estimator for own in KINDS for estimator in own):
        assert repr(clone(estimator)) == repr(estimator)
