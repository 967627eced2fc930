"""The classifier that learns from minibatches: that it finds what the one of all rows finds."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import SparseGPClassifier, StochasticSparseGPClassifier
from sparsegpc._core.minibatches.stochastic_model import StochasticModel
from tests.estimators.simple_kernel import SIMPLE, simple_kernel

KERNEL = ConstantKernel(4.0) * RBF(1.5)
SELECTORS = ["hgv", "rpcholesky", "greedy-variance", "kmeans", "uniform"]
BINARY = ["bernoulli-logit", "bernoulli-probit", "polya-gamma", "conditional-polya-gamma"]
MANY = ["softmax", "logistic-softmax", "dirichlet", "ordinal-logit"]
# Fits in milliseconds, where what is learned is not the point.
FIXED = {"kernel": KERNEL, "learning_rate": 0.0}
QUICK = {"batch_size": 20, "n_epochs": 2}
PUBLIC = (
    "classes_",
    "class_weight_",
    "prior_mean_",
    "inducing_points_",
    "lower_bound_",
    "log_prior_",
    "n_steps_",
    "n_samples_seen_",
)


def blobs(n=80, n_classes=2, seed=0):
    """Return read-only rows in the square from -3 to 3, and noisy labels from their places."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3.0, 3.0, (n, 2))
    f = np.stack([3.0 * np.sin(X[:, 0]), 2.0 * X[:, 1], np.ones(n)])[:n_classes]
    y = (f + rng.gumbel(size=f.shape)).argmax(axis=0)
    X.flags.writeable = y.flags.writeable = False
    return X, y


def grid(n=4):
    """Return points on a grid that reaches beyond the rows of `blobs`."""
    side = np.linspace(-4.0, 4.0, n)
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)


def model_of(**parameters):
    return StochasticSparseGPClassifier(
        **{"n_inducing": 12, "random_state": 0, **simple_kernel(parameters)}
    )


def fixed_model(**parameters):
    return model_of(**{**FIXED, **parameters})


def of_all_rows(model, X, y, sample_weight=None):
    """Return the classifier of all rows at the points and hyperparameters of a fitted model."""
    return SparseGPClassifier(
        model.kernel_,
        likelihood=model.likelihood,
        selector=model.inducing_points_,
        bound=model.bound,
        fit_prior_mean=model.fit_prior_mean,
        class_weight=model.class_weight,
        optimizer=None,
        tol=1e-7,
    ).fit(X, y, sample_weight=sample_weight)


def stream(model, X, y, sizes, sample_weight=None, classes=None):
    """Give a model the rows block by block."""
    ends = np.cumsum(sizes)
    assert ends[-1] == len(y)
    classes = np.unique(y) if classes is None else classes
    for last, size in zip(ends, sizes, strict=True):
        rows = slice(last - size, last)
        weight = None if sample_weight is None else sample_weight[rows]
        model.partial_fit(X[rows], y[rows], classes, weight)
    return model


def assert_same(one, other, bound=1e-4, proba=5e-3):
    """Compare the bound and the probabilities of two fitted classifiers."""
    assert_allclose(one.lower_bound_, other.lower_bound_, rtol=bound)
    assert_allclose(one.predict_proba(grid()), other.predict_proba(grid()), atol=proba)


def assert_identical(one, other):
    """Compare everything that two fitted classifiers show, to the last bit."""
    assert one.kernel_ == other.kernel_
    for name in PUBLIC:
        assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert_array_equal(one.predict_log_proba(grid()), other.predict_log_proba(grid()))


@pytest.fixture(scope="module")
def learned():
    """A classifier that has learned its kernel on `blobs(300)`; not to be changed."""
    return model_of(batch_size=50).fit(*blobs(300))


# With fixed hyperparameters: against the solver of all rows


@pytest.mark.parametrize(
    ("likelihood", "bound", "n_classes"),
    [
        ("bernoulli-logit", "tight", 2),
        ("bernoulli-logit", "standard", 2),
        ("bernoulli-probit", "tight", 2),
        ("bernoulli-probit", "standard", 2),
        ("polya-gamma", "tight", 2),
        ("polya-gamma", "standard", 2),
        ("conditional-polya-gamma", "tight", 2),
        ("softmax", "standard", 2),
        ("softmax", "tight", 3),
        ("softmax", "standard", 3),
        ("logistic-softmax", "tight", 3),
        ("dirichlet", "tight", 3),
        ("dirichlet", "standard", 2),
        ("ordinal-logit", "tight", 3),
        ("ordinal-logit", "standard", 2),
    ],
)
def test_at_fixed_hyperparameters_it_is_the_classifier_of_all_rows(likelihood, bound, n_classes):
    X, y = blobs(n_classes=n_classes)
    fit_prior_mean = bound == "tight"
    model = fixed_model(likelihood=likelihood, bound=bound, fit_prior_mean=fit_prior_mean)
    model.fit(X, y)
    assert model.kernel_ == KERNEL
    assert len(model.inducing_points_) == 12
    full = of_all_rows(model, X, y)
    assert_same(model, full)
    assert_allclose(model.prior_mean_, full.prior_mean_, atol=0.1)


@pytest.mark.parametrize("likelihood", BINARY + MANY)
def test_the_default_bound_is_the_highest_that_there_is(likelihood):
    X, y = blobs()
    model = fixed_model(likelihood=likelihood, n_inducing=4).fit(X, y)
    bounds = []
    for bound in ("standard", "tight"):
        try:
            bounds.append(fixed_model(likelihood=likelihood, n_inducing=4, bound=bound).fit(X, y))
        except ValueError as error:
            assert "not available" in str(error)  # noqa: PT017
    assert model.lower_bound_ == max(other.lower_bound_ for other in bounds)


def test_fixed_sites_of_a_stream_end_at_the_classifier_of_all_rows():
    X, y = blobs(n_classes=3)
    model = fixed_model(likelihood="dirichlet", bound="tight", selector=grid(3), batch_size=9)
    stream(model, X, y, [20, 15, 45])
    assert_same(model, of_all_rows(model, X, y), bound=1e-8, proba=1e-8)
    assert model.n_steps_ == 3 + 2 + 5
    assert model.n_samples_seen_ == 80


@pytest.mark.parametrize(("likelihood", "n_classes"), [("bernoulli-logit", 2), ("softmax", 3)])
def test_a_stream_ends_close_to_the_classifier_of_all_rows(likelihood, n_classes):
    X, y = blobs(600, n_classes)
    model = fixed_model(likelihood=likelihood, bound="standard", selector=grid(4))
    stream(model, X, y, [50] * 12)
    assert_same(model, of_all_rows(model, X, y), bound=0.02, proba=0.08)


def test_memory_keeps_as_much_evidence_as_that_many_rows():
    X, y = blobs(300)
    model = fixed_model(selector=grid(), memory=50)
    stream(model, X, y, [50] * 6)
    # The last block stands alone; a batch is settled to 0.001 nats per row.
    assert_same(model, of_all_rows(model, X[-50:], y[-50:]), bound=0.01, proba=0.05)
    assert model.n_samples_seen_ == 300


# What is learned


@pytest.mark.parametrize(("likelihood", "n_classes"), [("bernoulli-logit", 2), ("softmax", 3)])
def test_learning_comes_close_to_the_classifier_of_all_rows(likelihood, n_classes):
    X, y = blobs(400, n_classes)
    points, kernel = X[:20], ConstantKernel() * RBF([1.0, 1.0])
    options = {"likelihood": likelihood, "selector": points, "bound": "standard"}
    full = SparseGPClassifier(kernel, **options).fit(X, y)
    model = model_of(kernel=kernel, batch_size=75, **options).fit(X, y)
    assert model.lower_bound_ < full.lower_bound_ + 0.5
    assert model.lower_bound_ > full.lower_bound_ - 0.01 * len(y)
    assert_array_equal(model.inducing_points_, points)
    # The bound is that of what was learned, for all rows.
    assert_same(model, of_all_rows(model, X, y))


def test_probabilities_of_breast_cancer_are_those_of_all_rows():
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.RandomState(0).permutation(len(y))
    train, test = order[:400], order[400:]
    losses = []
    for cls, options in (
        (SparseGPClassifier, {}),
        (StochasticSparseGPClassifier, {"batch_size": 100}),
    ):
        model = make_pipeline(StandardScaler(), cls(n_inducing=50, **options))
        losses.append(log_loss(y[test], model.fit(X[train], y[train]).predict_proba(X[test])))
    assert abs(losses[1] - losses[0]) < 0.01


def test_three_classes_are_learned():
    X, y = load_iris(return_X_y=True)
    model = make_pipeline(StandardScaler(), model_of(batch_size=50, n_epochs=2)).fit(X, y)
    assert model.score(X, y) > 0.95
    assert model[-1].prior_mean_.shape == (3,)


def test_epochs_learn_what_the_first_rows_do_not_tell(monkeypatch):
    X, y = blobs(600)
    # Without the search among the first rows, everything is learned from batches.
    monkeypatch.setattr(
        "sparsegpc._estimators.minibatches.base.learn_theta",
        lambda first, n_inducing: first.hyperparameters.theta,
    )
    kernel = ConstantKernel() * RBF(0.3)
    bounds = [
        model_of(kernel=kernel, selector=X[:30], batch_size=60, n_epochs=n).fit(X, y).lower_bound_
        for n in (0, 1, 4, 12)
    ]
    assert (np.diff(bounds) > [10.0, 1.0, -3.0]).all(), bounds


def test_moving_the_points_raises_the_bound():
    X, y = blobs(400)
    points = 0.3 * X[:6] + 4.0
    still, moved = (
        model_of(
            kernel=ConstantKernel() * Matern(1.0, nu=1.5),
            selector=points,
            batch_size=50,
            n_epochs=15,
            optimize_inducing=optimize,
        ).fit(X, y)
        for optimize in (False, True)
    )
    assert_array_equal(still.inducing_points_, points)
    assert np.abs(moved.inducing_points_ - points).max() > 0.1
    assert moved.lower_bound_ > still.lower_bound_ + 2.0
    assert_same(moved, of_all_rows(moved, X, y))


def test_a_stream_learns():
    X, y = blobs(1500)
    test = blobs(500, seed=1)
    model, losses = model_of(n_inducing=20), []
    for first in range(0, 1500, 75):
        rows = slice(first, first + 75)
        model.partial_fit(X[rows], y[rows], [0, 1])
        losses.append(log_loss(test[1], model.predict_proba(test[0])))
    full = SparseGPClassifier(n_inducing=20, **SIMPLE).fit(X, y)
    assert losses[-1] < losses[0] - 0.02
    assert losses[-1] < log_loss(test[1], full.predict_proba(test[0])) + 0.02
    assert model.n_steps_ == 20


def test_memory_forgets_labels_that_have_changed():
    X, y = blobs(700)
    y = np.where(np.arange(700) < 600, y, 1 - y)
    scores = {}
    for memory in (None, 100):
        model = fixed_model(n_inducing=30, memory=memory)
        stream(model, X, y, [100] * 7)
        scores[memory] = model.score(X[600:], y[600:])
    assert scores[100] > 0.8 > 0.6 > scores[None]


def test_partial_fit_goes_on_from_fit():
    X, y = blobs(300)
    model = fixed_model(likelihood="dirichlet", selector=grid(), batch_size=40).fit(
        X[:200], y[:200]
    )
    assert model.n_steps_ == 0
    model.partial_fit(X[200:], y[200:])
    assert model.n_steps_ == 3
    assert model.n_samples_seen_ == 300
    whole = fixed_model(likelihood="dirichlet", selector=grid()).fit(X, y)
    assert_same(model, whole, bound=1e-8, proba=1e-8)


def test_fit_begins_anew():
    X, y = blobs(100)
    model = model_of(**QUICK)
    model.fit(X + 1.0, 1 - y).partial_fit(X, y).fit(X, y)
    assert_identical(model, model_of(**QUICK).fit(X, y))
    X, y = blobs(100, 3)
    model.set_params(**FIXED).fit(X[:, :1], y)
    assert model.n_features_in_ == 1
    assert_array_equal(model.classes_, [0, 1, 2])


# Classes


@pytest.mark.parametrize("labels", [["no", "yes"], [-1, 1], [False, True], [2.0, 3.0]])
def test_labels_may_be_anything(labels):
    X, y = blobs(100)
    named = np.array(labels)[y]
    model, plain = fixed_model().fit(X, named), fixed_model().fit(X, y)
    assert_array_equal(model.classes_, labels)
    assert_array_equal(model.predict(grid()), np.array(labels)[plain.predict(grid())])
    assert_array_equal(model.predict_proba(grid()), plain.predict_proba(grid()))
    blocks = stream(fixed_model(), X, named, [50, 50])
    assert_array_equal(blocks.classes_, labels)


def test_a_block_may_lack_a_class():
    X, y = blobs(200, 3)
    order = np.argsort(y == 2, kind="stable")
    X, y = X[order], y[order]
    assert 2 not in y[:100]
    model = stream(fixed_model(), X, y, [100, 100], classes=[0, 1, 2])
    assert model.predict_proba(X).shape == (200, 3)
    assert np.isfinite(model.predict_log_proba(X)).all()


@pytest.mark.parametrize("learning_rate", [0.0, 0.1])
def test_a_stream_may_begin_with_one_class(learning_rate):
    X, y = blobs(300)
    order = np.argsort(y[:100], kind="stable")
    X, y = np.concatenate([X[:100][order], X[100:]]), np.concatenate([y[:100][order], y[100:]])
    model = model_of(n_inducing=20, learning_rate=learning_rate)
    model.partial_fit(X[:30], y[:30], classes=[0, 1])
    assert (model.predict(grid()) == 0).all()
    model.partial_fit(X[30:], y[30:])
    assert model.score(X, y) > 0.75


@pytest.mark.filterwarnings("ignore:the learned function is constant")
def test_a_rare_class_is_among_the_rows_that_tell_where_to_begin():
    X, y = blobs(6000)
    y = np.zeros(6000, dtype=int)
    y[17] = 1
    model = model_of(n_epochs=0, n_inducing=5, batch_size=6000).fit(X, y)
    assert model.kernel_ != model_of().fit(*blobs()).kernel_
    assert np.isfinite(model.lower_bound_)
    assert model.predict_proba(X)[:, 1].mean() < 0.01


def test_classes_of_a_stream_are_held_to():
    X, y = blobs(60)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model_of().partial_fit(X, y)
    with pytest.raises(ValueError, match="two classes or more"):
        model_of().partial_fit(X, y, classes=[0])
    with pytest.raises(ValueError, match="the label 1, which is not in classes_"):
        model_of().partial_fit(X, y, classes=[0, 2])
    model = fixed_model().partial_fit(X, y, classes=[1, 0])
    with pytest.raises(ValueError, match="is not the same as on last call"):
        model.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="the label 5, which is not in classes_"):
        model.partial_fit(X, np.where(y == 1, 5, y))
    assert model.n_samples_seen_ == 60


# Weights


def test_weights_are_repetition(rng):
    X, y = blobs(90)
    weight = rng.randint(0, 4, 90)
    copies = np.repeat(np.arange(90), weight)
    rng.shuffle(copies)
    for model in (model_of(**QUICK), fixed_model(likelihood="softmax", selector="kmeans")):
        weighted = clone(model).fit(X, y, sample_weight=weight)
        assert_identical(weighted, clone(model).fit(X[copies], y[copies]))
        plain = clone(model).fit(X, y)
        assert np.abs(weighted.predict_proba(grid()) - plain.predict_proba(grid())).max() > 1e-3
    streamed, repeated = (model_of(batch_size=20) for _ in range(2))
    streamed.partial_fit(X, y, [0, 1], weight).partial_fit(X, y, sample_weight=weight)
    repeated.partial_fit(X[copies], y[copies], [0, 1]).partial_fit(X[copies], y[copies])
    assert_identical(streamed, repeated)


def test_class_weights_multiply_the_probabilities():
    X, y = blobs(100)
    weight = np.arange(100) % 3
    plain = fixed_model().fit(X, y, weight)
    proba = plain.predict_proba(grid())
    balanced = weight.sum() / 2.0 / np.bincount(y, weight)
    for class_weight, factors in (("balanced", balanced), ({1: 3.0}, np.array([1.0, 3.0]))):
        model = fixed_model(class_weight=class_weight).fit(X, y, weight)
        expected = proba * factors / (proba @ factors)[:, None]
        assert_allclose(model.predict_proba(grid()), expected, rtol=1e-10)
        assert model.lower_bound_ == plain.lower_bound_
    blocks = stream(fixed_model(class_weight={1: 3.0}, selector=grid()), X, y, [50, 50])
    plain = stream(fixed_model(selector=grid()), X, y, [50, 50])
    assert_allclose(blocks.decision_function(grid()), plain.decision_function(grid()) + np.log(3.0))


def test_the_order_of_rows_does_not_matter_at_all(rng):
    X, y = blobs(100)
    order = rng.permutation(100)
    assert_identical(
        model_of(**QUICK).fit(X[order], y[order]),
        model_of(**QUICK).fit(X, y),
    )


# Repeatability


def test_results_follow_the_random_state_and_leave_the_global_one_alone():
    X, y = blobs(100)
    np.random.seed(5)
    expected = np.random.RandomState(5).uniform()
    one, same, other = (model_of(random_state=seed, **QUICK).fit(X, y) for seed in (0, 0, 1))
    assert np.random.uniform() == expected
    assert_identical(one, same)
    assert one.kernel_ != other.kernel_


def test_results_do_not_depend_on_the_way_a_stream_is_saved():
    X, y = blobs(200)
    straight, saved = model_of(batch_size=30), model_of(batch_size=30)
    for first in range(0, 200, 50):
        rows = slice(first, first + 50)
        straight.partial_fit(X[rows], y[rows], [0, 1])
        saved = pickle.loads(pickle.dumps(saved.partial_fit(X[rows], y[rows], [0, 1])))
    assert_identical(saved, straight)


def test_nothing_that_was_given_is_changed():
    X, y = (array.copy() for array in blobs())
    weight, points, classes = np.ones(80), X[:8].copy(), np.array([0, 1])
    kernel = ConstantKernel() * RBF(1.0)
    given = [X, y, weight, points, classes]
    before = [array.copy() for array in given]
    model = model_of(kernel=kernel, selector=points, optimize_inducing=True, **QUICK)
    model.fit(X, y, weight).partial_fit(X, y, classes, weight)
    for array, old in zip(given, before, strict=True):
        assert_array_equal(array, old)
    assert kernel == ConstantKernel() * RBF(1.0) != model.kernel_
    predictions = model.predict_proba(grid())
    for array in given:
        array += 1
    assert_array_equal(model.predict_proba(grid()), predictions)
    assert_array_equal(model.classes_, [0, 1])


def test_rows_on_disk_are_learned_as_those_in_memory(tmp_path):
    X, y = blobs(300)
    # Sorted as rows in memory are, so that batches are the same.
    order = np.lexsort(X.T[::-1])
    X, y = X[order], y[order]
    rows = np.memmap(tmp_path / "rows", dtype=np.float64, mode="w+", shape=X.shape)
    rows[:] = X
    on_disk, in_memory = (model_of(batch_size=50, n_epochs=2).fit(x, y) for x in (rows, X))
    assert_allclose(on_disk.lower_bound_, in_memory.lower_bound_, rtol=1e-9)
    assert_allclose(on_disk.predict_proba(rows), in_memory.predict_proba(X), rtol=1e-7)


# Predictions agree with each other


@pytest.mark.parametrize("n_classes", [2, 3])
def test_predictions_agree(n_classes):
    X, y = blobs(200, n_classes)
    model = fixed_model().fit(X, y)
    proba, log_proba = model.predict_proba(grid()), model.predict_log_proba(grid())
    assert proba.shape == (16, n_classes)
    assert_allclose(proba.sum(axis=1), 1.0)
    assert_allclose(np.exp(log_proba), proba, rtol=1e-6)
    assert_array_equal(model.predict(grid()), proba.argmax(axis=1))
    decision = model.decision_function(grid())
    if n_classes == 2:
        assert_allclose(decision, log_proba[:, 1] - log_proba[:, 0])
    else:
        assert_array_equal(decision, log_proba)
    low, high = model.predict_proba_interval(grid())
    assert (low < high).all()
    mean, variance = model.latent_mean_and_variance(grid())
    assert mean.shape == variance.shape == ((16,) if n_classes == 2 else (16, 3))
    draws = model.sample_f(grid(2), 4000, random_state=0)
    mean, variance = model.latent_mean_and_variance(grid(2))
    assert_allclose(draws.mean(axis=-1), mean, atol=5.0 * np.sqrt(variance.max() / 4000))


# Choice of points, attributes


@pytest.mark.parametrize("selector", SELECTORS)
def test_points_are_chosen_among_the_rows(selector):
    X, y = blobs(150)
    model = fixed_model(selector=selector).fit(X, y)
    assert model.inducing_points_.shape == (12, 2)
    assert len(np.unique(model.inducing_points_, axis=0)) == 12
    if selector != "kmeans":
        assert {tuple(point) for point in model.inducing_points_} <= {tuple(row) for row in X}


def test_the_public_attributes(learned):
    names = {name for name in vars(learned) if name.endswith("_") and not name.startswith("_")}
    assert names == {*PUBLIC, "history_", "kernel_", "likelihood_", "n_features_in_"}
    assert isinstance(learned.lower_bound_, float)
    assert isinstance(learned.prior_mean_, float)
    assert learned.n_steps_ == 10 * 6
    assert learned.n_samples_seen_ == 300


def test_hyperparameters_stay_within_their_bounds():
    X, y = blobs(200)
    kernel = ConstantKernel(1.0, (0.5, 1.5)) * Matern([1.0, 1.0], (0.9, 1.1), nu=1.5)
    model = model_of(kernel=kernel, batch_size=20, learning_rate=1.0, n_epochs=3).fit(X, y)
    low, high = kernel.bounds.T
    assert (model.kernel_.theta >= low).all()
    assert (model.kernel_.theta <= high).all()
    assert np.isclose(model.kernel_.theta, high).any()


def test_no_training_rows_are_kept_but_the_inducing_points():
    X, y = blobs(2000)
    model = fixed_model().fit(X, y).partial_fit(X, y)
    assert len(pickle.dumps(model)) < 10_000


# With the rest of scikit-learn


def test_a_clone_is_not_fitted(learned):
    copy = clone(learned)
    assert copy.get_params() == learned.get_params()
    assert set(vars(copy)) == set(copy.get_params())


@pytest.mark.filterwarnings("ignore:.*worse for all rows than a constant function")
def test_cross_validation_and_grid_search_in_a_pipeline():
    X, y = blobs(200)
    pipeline = make_pipeline(StandardScaler(), fixed_model(n_inducing=20))
    assert (cross_val_predict(pipeline, 100.0 * X, y, cv=3) == y).mean() > 0.8
    name = "stochasticsparsegpclassifier__n_inducing"
    search = GridSearchCV(pipeline, {name: [1, 20]}, cv=2).fit(X, y)
    assert search.best_params_ == {name: 20}


@pytest.mark.parametrize(
    "method",
    [
        "predict",
        "predict_proba",
        "predict_log_proba",
        "decision_function",
        "latent_mean_and_variance",
        "predict_proba_interval",
        "sample_f",
    ],
)
def test_methods_need_a_fit(method):
    with pytest.raises(NotFittedError, match="StochasticSparseGPClassifier instance is not fitted"):
        getattr(model_of(), method)(grid())


# Bad and odd input

ROWS, LABELS = blobs(30)
REFUSED = {
    "points of other columns": ({"selector": np.zeros((3, 5))}, {}, "5 columns, but X has 2"),
    "points not finite": ({"selector": [[np.nan, 0.0]]}, {}, "selector contains NaN"),
    "no such selector": ({"selector": "best"}, {}, "'selector' parameter"),
    "no such likelihood": ({"likelihood": "poisson"}, {}, "'likelihood' parameter"),
    "white kernel": ({"kernel": RBF() + WhiteKernel()}, {}, "leave the WhiteKernel out"),
    "length scales": ({"kernel": RBF([1.0, 1.0, 1.0])}, {}, "3 length scales"),
    "learning rate": ({"learning_rate": 1.5}, {}, r"'learning_rate' .* in the range \[0.0, 1.0\]"),
    "epochs": ({"n_epochs": -1}, {}, "'n_epochs' parameter"),
    "batch size": ({"batch_size": 0}, {}, "'batch_size' parameter"),
    "memory": ({"memory": 0}, {}, "'memory' parameter"),
    "spherical": ({"bound": "spherical"}, {}, "'bound' parameter"),
    "class weight": ({"class_weight": {0: -1.0}}, {}, "class_weight must hold positive"),
    "two labels": ({}, {"y": np.column_stack([LABELS, LABELS])}, "1d array|multioutput"),
    "continuous": ({}, {"y": LABELS + 0.5 * ROWS[:, 0]}, "Unknown label type"),
    "label not finite": ({}, {"y": np.where(LABELS > 0, np.nan, 0.0)}, "NaN"),
    "row not finite": ({}, {"X": np.where(ROWS > 2.0, np.nan, ROWS)}, "NaN"),
    "lengths": ({}, {"y": LABELS[:-1]}, "inconsistent numbers of samples"),
    "huge rows": ({}, {"X": 1e200 * ROWS}, "whose square overflows"),
    "negative weight": ({}, {"sample_weight": -np.ones(30)}, "must not be negative"),
    "no weight": ({}, {"sample_weight": np.zeros(30)}, "non-zero number"),
    "no rows": ({}, {"X": ROWS[:0], "y": LABELS[:0], "sample_weight": None}, "0 sample"),
}


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_leaves_no_trace(case, method):
    parameters, data, message = REFUSED[case]
    model = model_of(**parameters)
    before = dict(vars(model))
    extra = {"classes": [0, 1]} if method == "partial_fit" else {}
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(**{"X": ROWS, "y": LABELS, **extra, **data})
    assert vars(model) == before


def test_one_class_is_refused_by_fit():
    with pytest.raises(ValueError, match="one class"):
        model_of().fit(ROWS, np.zeros(30))
    with pytest.raises(ValueError, match="one class"):
        model_of().fit(ROWS, LABELS, sample_weight=(LABELS == 1).astype(float))


@pytest.mark.parametrize("likelihood", BINARY)
def test_likelihoods_of_two_classes_refuse_more(likelihood):
    X, y = blobs(60, 3)
    message = f"likelihood='{likelihood}' is for two classes, got 3: use .*softmax"
    with pytest.raises(ValueError, match=message):
        model_of(likelihood=likelihood).fit(X, y)
    with pytest.raises(ValueError, match=message):
        model_of(likelihood=likelihood).partial_fit(X, y, [0, 1, 2])


def test_balance_is_refused_by_streams():
    model = model_of(class_weight="balanced")
    with pytest.raises(ValueError, match=r'class_weight="balanced" needs all rows at once'):
        model.partial_fit(ROWS, LABELS, [0, 1])


def test_a_block_that_is_refused_leaves_the_stream_as_it_was():
    model, same = (model_of(batch_size=10).partial_fit(ROWS, LABELS, [0, 1]) for _ in range(2))
    for data, message in (
        ({"X": ROWS[:, :1]}, "X has 1 features, but .* is expecting 2"),
        ({"y": LABELS[:-1]}, "inconsistent numbers of samples"),
        ({"y": np.full(30, np.nan)}, "NaN"),
        ({"sample_weight": np.zeros(30)}, "non-zero number"),
    ):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(**{"X": ROWS, "y": LABELS, **data})
        assert_identical(model, same)
    X, y = blobs(40, seed=1)
    assert_identical(model.partial_fit(X, y), same.partial_fit(X, y))


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_an_interruption_leaves_the_model_as_it_was(method, monkeypatch):
    model = model_of(**QUICK).partial_fit(ROWS, LABELS, [0, 1])
    before, original, calls = dict(vars(model)), StochasticModel.step, []

    def interrupted(self, *args, **kwargs):
        calls.append(None)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(self, *args, **kwargs)

    monkeypatch.setattr(StochasticModel, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        getattr(model, method)(*blobs(60, seed=1))
    after = vars(model)
    assert set(after) == set(before)
    assert all(after[name] is before[name] for name in before)


ODD = {
    "two rows": (ROWS[:2], np.array([0, 1])),
    "equal rows": (np.zeros((30, 2)), LABELS),
    "constant column": (ROWS * [1.0, 0.0], LABELS),
    "columns of different units": (ROWS * [1e6, 1e-6], LABELS),
    "an outlier": (np.vstack([ROWS[:-1], [[1e4, 1e4]]]), LABELS),
    "separable": (ROWS, (ROWS[:, 0] > 0).astype(int)),
}


@pytest.mark.filterwarnings("ignore:.*worse for all rows than a constant")
@pytest.mark.filterwarnings("ignore:the learned function is constant")
@pytest.mark.parametrize("name", ODD)
def test_odd_data_are_fitted_with_finite_results(name):
    X, y = ODD[name]
    model = model_of(optimize_inducing=True, batch_size=7, n_epochs=3)
    for fitted in (
        model.fit(X, y),
        clone(model).partial_fit(X, y, [0, 1]),
        model.partial_fit(X, y),
    ):
        assert np.isfinite(fitted.predict_log_proba(ROWS)).all()
        assert np.isfinite([fitted.lower_bound_, fitted.prior_mean_]).all()


@pytest.mark.parametrize("learning_rate", [0.0, 0.1])
def test_a_class_may_come_in_a_later_block(learning_rate):
    X = np.random.RandomState(1).randn(150, 3)
    y = np.array(["a", "b", "c"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)]
    model = fixed_model(n_inducing=20, batch_size=50, learning_rate=learning_rate)
    early = y != "c"
    model.partial_fit(X[early], y[early], ["a", "b", "c"]).partial_fit(X, y)
    assert model.score(X, y) > 0.85
