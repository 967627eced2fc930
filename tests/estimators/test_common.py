"""What scikit-learn asks of every estimator, with nothing excused."""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks, get_tags
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
    HomoscedasticNoise,
    InducingPointSelector,
    SparseGPClassifier,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPRegressor,
)

# Quick ones: what they add to the default does not depend on which length scale is learned.
QUICK = {
    "kernel": ConstantKernel(1.0) * RBF(3.0, "fixed"),
    "max_iter": 5,
    "max_reselections": 1,
    "random_state": 0,
}

# scikit-learn's checks fit labels that are pure noise, two rows, and columns of 1e5; what is said
# about such data is tested elsewhere. The other category is for checks of libraries not installed.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
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
        {"likelihood": "bernoulli-probit", "n_inducing": "auto", "max_inducing": 10},
        {
            "likelihood": "polya-gamma",
            "selector": "rpcholesky",
            "class_weight": "balanced",
            "n_inducing": 5,
            "optimize_inducing": True,
        },
    ]
    quick = {**QUICK, "max_iter": 3, "n_inducing": 10}
    first = SparseGPClassifier(n_inducing=20, max_iter=5)
    return [first, *(SparseGPClassifier(**{**quick, **option}) for option in options)]


def regressors():
    """Return regressors of each kind of noise and each way to fit."""
    # With warm_start a second fit goes on from the first, so it is not among the choices.
    options = [
        {
            "noise": "polynomial",
            "selector": "rpcholesky",
            "optimize_inducing": True,
            "n_inducing": 40,
        },
        {"noise": "gp", "max_iter": 2, "tol": 1e-2, "n_inducing": 20},
        {
            "noise": HomoscedasticNoise(0.5, "fixed"),
            "n_inducing": "auto",
            "selector": "uniform",
            "normalize_y": True,
            "fit_prior_mean": False,
        },
    ]
    quick = [SparseGPRegressor(**{"random_state": 0, **QUICK, **option}) for option in options]
    return [SparseGPRegressor(), *quick]


def stochastic_regressors():
    """Return regressors from minibatches; that of all defaults but for the seed first."""
    options = [
        {},
        {"optimize_inducing": True, "batch_size": 7, "n_epochs": 2, "selector": "hgv"},
        {"fit_prior_mean": False, "selector": "kmeans", "memory": 20, "learning_rate": 0.0},
    ]
    return [StochasticSparseGPRegressor(**{"random_state": 0, **option}) for option in options]


def stochastic_classifiers():
    """Return classifiers from minibatches; that of all defaults but for the seed first."""
    quick = {"kernel": QUICK["kernel"], "n_epochs": 1, "n_inducing": 10}
    options = [
        {},
        {**quick, "likelihood": "softmax", "optimize_inducing": True, "batch_size": 7},
        {"likelihood": "dirichlet", "learning_rate": 0.0, "fit_prior_mean": False, "memory": 20},
    ]
    return [StochasticSparseGPClassifier(**{"random_state": 0, **option}) for option in options]


def selectors():
    """Return selectors of rows, of means, and by labels."""
    options = [{}, {"method": "kmeans", "random_state": 0}, {"weighting": "classification"}]
    return [InducingPointSelector(**option) for option in options]


def by_name(estimator):
    return repr(estimator).replace(" ", "").replace("\n", "")


every_model = pytest.mark.parametrize(
    "estimator",
    [*classifiers(), *stochastic_classifiers(), *regressors(), *stochastic_regressors()],
    ids=by_name,
)
every_selector = pytest.mark.parametrize("estimator", selectors(), ids=by_name)
one_of_each = pytest.mark.parametrize(
    "estimator",
    [
        SparseGPClassifier(),
        SparseGPRegressor(),
        StochasticSparseGPClassifier(random_state=0),
        StochasticSparseGPRegressor(random_state=0),
        InducingPointSelector(),
    ],
    ids=by_name,
)


def every_check(estimators):
    """Return scikit-learn's mark with a list in it: before 1.7 it holds a generator."""
    mark = parametrize_with_checks(estimators).mark
    return pytest.mark.parametrize(mark.args[0], list(mark.args[1]), **mark.kwargs)


@every_check(
    [
        *classifiers(),
        *stochastic_classifiers(),
        *regressors(),
        *stochastic_regressors(),
        *selectors(),
    ]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


def check(function, estimator):
    function(type(estimator).__name__, estimator)


@one_of_each
def test_parameters_are_validated(estimator):
    check(check_param_validation, estimator)


@every_model
def test_column_names_are_checked_by_every_method(estimator):
    check(check_dataframe_column_names_consistency, estimator)


@every_selector
def test_column_names_are_checked_by_every_method_of_the_selector(estimator):
    check(check_dataframe_column_names_consistency, estimator)


@pytest.mark.skipif(
    not hasattr(estimator_checks, "check_all_zero_sample_weights_error"), reason="newer check"
)
@pytest.mark.parametrize(
    "estimator",
    [
        SparseGPClassifier(),
        SparseGPRegressor(),
        StochasticSparseGPClassifier(random_state=0),
        StochasticSparseGPRegressor(random_state=0),
    ],
    ids=by_name,
)
def test_weights_that_are_all_zero_are_refused(estimator):
    check(estimator_checks.check_all_zero_sample_weights_error, estimator)


@one_of_each
def test_read_only_input_is_accepted_and_kept(estimator):
    check(check_inplace_ensure_writeable, estimator)


# The checks of the output's type fit a frame and transform an array, and the other way round.
@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names")
@every_selector
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
    for estimator in [
        *classifiers(),
        *stochastic_classifiers(),
        *regressors(),
        *stochastic_regressors(),
        *selectors(),
    ]:
        assert repr(clone(estimator)) == repr(estimator)
