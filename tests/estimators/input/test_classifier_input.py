"""Odd but legal input gives a right answer, and a fit that is interrupted changes nothing."""

import copy
import re
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
)

from sparsegpc import SparseGPClassifier

N = 40
X, Y = make_moons(N, noise=0.3, random_state=0)
X.flags.writeable = Y.flags.writeable = False
ROW = 3


@pytest.fixture(scope="module")
def reference():
    """A fitted classifier that is not to be changed."""
    kernel = ConstantKernel(5.0) * RBF(1.0)
    return SparseGPClassifier(kernel, optimizer=None, n_inducing=10).fit(X, Y)


@pytest.fixture
def fitted(reference):
    """A fitted classifier that may be changed."""
    return copy.deepcopy(reference)


def test_a_fit_that_is_interrupted_leaves_the_last_one_as_it_was(fitted):
    class Interrupted(RBF):
        def __call__(self, X, Y=None, eval_gradient=False):
            raise KeyboardInterrupt

    state = dict(vars(fitted))
    with pytest.raises(KeyboardInterrupt):
        fitted.set_params(kernel=Interrupted()).fit(X[:, :1], 1 - Y)
    assert {**vars(fitted), "kernel": None} == {**state, "kernel": None}


# What must work


ONE_COLUMN_CONSTANT = np.column_stack([X, np.full(N, 7.3)])
LEGAL = {
    "one constant column": (ONE_COLUMN_CONSTANT, Y),
    "all columns constant": (np.full((N, 2), 0.1), Y),
    "all zero": (np.zeros((N, 2)), Y),
    "repeated rows": (np.tile(X, (4, 1)), np.tile(Y, 4)),
    "conflicting labels": (np.tile(X, (2, 1)), np.concatenate([Y, 1 - Y])),
    "some conflicting labels": (np.concatenate([X, X[:9]]), np.concatenate([Y, 1 - Y[:9]])),
    "two rows": (X[:2], [0, 1]),
    "two equal rows": (X[[0, 0]], [0, 1]),
    "three rows": (X[:3], [0, 1, 1]),
    "one against many": (X, np.arange(N) == 7),
    "all but one": (X, np.arange(N) != 7),
    "tiny scale": (1e-12 * X, Y),
    "huge scale": (1e12 * X, Y),
    "offset": (X + 1e9, Y),
    "negative offset": (X - 1e9, Y),
    "offset beyond the digits": (X + 1e18, Y),
    "columns of different scales": (X * [1e-12, 1e12], Y),
    "one far row": (np.concatenate([X, [[1e9, -1e9]]]), np.append(Y, 1)),
    "more columns than rows": (np.random.RandomState(0).randn(20, 200), np.arange(20) % 2),
    "separable": (X + 9.0 * Y[:, None], Y),
    "duplicated columns": (np.tile(X, (1, 4)), Y),
}


@pytest.mark.parametrize("name", LEGAL)
def test_odd_data_are_fitted_with_finite_results(name, capfd):
    rows, labels = np.asarray(LEGAL[name][0], dtype=float), np.asarray(LEGAL[name][1])
    model = SparseGPClassifier(n_inducing=10**6, max_iter=5)
    assert_fits(model, rows, labels)
    assert capfd.readouterr() == ("", "")


CAUSES = (
    "stopped before its bound converged",
    "the learned function is constant",
    "the learned model is poor",
    "the bound still rises where hyperparameters meet their limits",
    "has standard deviation",
    "a weight counts copies",
    "rows repeat others, targets included",
)


def assert_fits(model, rows, labels, weight=None):
    """Fit, and check that all is finite and that each cause is warned of once at most."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(rows, labels, sample_weight=weight)
        proba = model.predict_proba(rows)
        mean, variance = model.latent_mean_and_variance(rows)
        decision = model.decision_function(rows)
    texts = [str(item.message) for item in caught]
    counts = [sum(cause in text for text in texts) for cause in CAUSES]
    assert sum(counts) == len(texts), texts
    assert max(counts) <= 1, texts
    assert {item.category for item in caught} <= {ConvergenceWarning, UserWarning}
    for values in (proba, mean, variance, decision, model.lower_bounds_, model.inducing_points_):
        assert np.isfinite(values).all()
    assert (variance >= 0.0).all()
    assert_allclose(proba.sum(axis=1), 1.0)
    assert np.isfinite([model.lower_bound_, model.prior_mean_]).all()
    assert model.lower_bound_ <= 0.0
    assert 1 <= len(model.inducing_points_) <= len(np.unique(rows, axis=0))
    return texts


@pytest.mark.parametrize("selector", ["rpcholesky", "greedy-variance", "kmeans", "uniform"])
@pytest.mark.parametrize("name", ["all columns constant", "two rows", "two equal rows"])
def test_odd_data_with_every_selector(name, selector):
    rows, labels = LEGAL[name]
    model = SparseGPClassifier(
        RBF(1.0, (1e-3, 1e15)), selector=selector, random_state=0, max_iter=5, tol=1e-2
    )
    assert_fits(model, np.asarray(rows), np.asarray(labels))


@pytest.mark.filterwarnings("ignore:a weight counts copies")
@pytest.mark.parametrize("smallest", [1e-12, 1.0])
def test_weights_over_twelve_orders_of_magnitude(smallest, rng):
    weight = rng.permutation(smallest * np.logspace(0, 12, N))
    model = SparseGPClassifier(n_inducing=10, max_iter=30)
    assert_fits(model, X, Y, weight)
    heaviest = weight.argmax()
    assert model.predict_proba(X[[heaviest]])[0, Y[heaviest]] > 0.5


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_an_absurd_scale_gives_the_answer_of_a_good_one(scale):
    model = SparseGPClassifier(n_inducing=10)
    plain = model.fit(X, Y).predict_proba(X)
    bound = model.lower_bound_
    assert_allclose(model.fit(scale * X, Y).predict_proba(scale * X), plain, atol=1e-4)
    assert_allclose(model.lower_bound_, bound, rtol=1e-4)


def test_an_offset_of_a_billion_gives_the_answer_without_it():
    rows = np.round(X * 2.0**16) / 2.0**16  # so that adding it loses nothing
    model = SparseGPClassifier(n_inducing=10)
    plain = model.fit(rows, Y).predict_proba(rows)
    offset = 2.0**30
    assert_allclose(model.fit(rows + offset, Y).predict_proba(rows + offset), plain, atol=1e-5)


def test_a_constant_column_changes_nothing():
    model = SparseGPClassifier(n_inducing=10)
    plain, bound = model.fit(X, Y).predict_proba(X), model.lower_bound_
    proba = model.fit(ONE_COLUMN_CONSTANT, Y).predict_proba(ONE_COLUMN_CONSTANT)
    # The starts may differ, and so may the last digits of the kernel that is learned.
    assert_allclose(model.lower_bound_, bound, rtol=1e-4)
    assert_allclose(proba, plain, atol=1e-3)


def test_conflicting_labels_everywhere_give_even_odds():
    model = SparseGPClassifier()
    texts = assert_fits(model, *map(np.asarray, LEGAL["conflicting labels"]))
    assert_allclose(model.predict_proba(X), 0.5, atol=1e-6)
    assert_allclose(model.lower_bound_, 2 * N * np.log(0.5), rtol=1e-3)
    assert re.search("constant", texts[0])


def test_constant_columns_give_the_frequencies():
    labels = np.arange(N) < 10
    model = SparseGPClassifier(n_inducing=3)
    texts = assert_fits(model, np.full((N, 3), -2.5), labels)
    assert_allclose(model.predict_proba([[-2.5] * 3])[0], [0.75, 0.25], atol=1e-3)
    assert len(model.inducing_points_) == 1
    assert len(texts) == 1


def test_separable_classes_are_fitted_perfectly():
    rows, labels = LEGAL["separable"]
    model = SparseGPClassifier()
    assert_fits(model, rows, labels)
    assert model.score(rows, labels) == 1.0


def test_one_far_row_does_not_spoil_the_others():
    rows, labels = LEGAL["one far row"]
    kernel = ConstantKernel() * RBF(1.0)
    plain = SparseGPClassifier(kernel, n_inducing=20).fit(X, Y)
    model = SparseGPClassifier(kernel, n_inducing=20)
    assert_fits(model, rows, labels)
    # A row that shares nothing with the others costs what its label alone is worth, or so.
    assert plain.lower_bound_ - 1.0 < model.lower_bound_ < plain.lower_bound_ - 0.3
    assert model.score(X, Y) >= plain.score(X, Y) > 0.7


def test_the_gradient_is_right_with_a_far_row():
    rows, labels = LEGAL["one far row"]
    kernel = ConstantKernel() * RBF(np.ones(2))
    model = SparseGPClassifier(kernel, n_inducing=20, optimizer=None, tol=1e-9).fit(rows, labels)
    _, gradient = model.lower_bound(X=rows, y=labels, eval_gradient=True)
    steps = 1e-4 * np.eye(len(gradient))
    theta = model.kernel_.theta
    expected = [
        (model.lower_bound(theta + d, rows, labels) - model.lower_bound(theta - d, rows, labels))
        for d in steps
    ]
    assert_allclose(gradient, np.array(expected) / 2e-4, rtol=1e-3, atol=1e-3)
