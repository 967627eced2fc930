"""The Bayesian GP-LVM as a transformer: what it finds, predicts, fills in and refuses."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc.decomposition import BayesianGPLVM

QUICK = {"n_inducing": 10, "max_iter": 300, "tol": 1e-3}


def curve(t, rng, noise=0.1):
    """Return noisy rows on a curve in five dimensions, at places t on it."""
    bent = [t + 0.3 * np.sin(2.0 * t), np.tanh(t), t - 0.2 * t**2]
    X = np.stack([t, *bent, np.ones_like(t)], axis=1)
    return 3.0 + 2.0 * X + noise * rng.normal(size=X.shape)


@pytest.fixture(scope="module")
def places():
    return np.linspace(-2.0, 2.0, 60)


@pytest.fixture(scope="module")
def X(places):
    return curve(places, np.random.RandomState(0))


@pytest.fixture(scope="module")
def fitted(X):
    """Return a fitted model that is not to be changed."""
    return BayesianGPLVM(**QUICK).fit(X)


@pytest.fixture(scope="module")
def new_rows():
    rng = np.random.RandomState(1)
    t = rng.uniform(-1.8, 1.8, size=40)
    return t, curve(t, rng), curve(t, rng, noise=0.0)


def test_one_component_follows_the_curve_and_the_other_is_irrelevant(fitted, places):
    relevant, irrelevant = fitted.component_relevance_
    assert relevant > 10.0 * irrelevant
    order = np.argsort(np.argsort(fitted.embedding_[:, 0]))
    assert abs(np.corrcoef(order, np.arange(len(places)))[0, 1]) > 0.99
    assert_allclose(fitted.noise_variance_, 0.01, rtol=0.4)
    assert (np.diff(fitted.component_relevance_) <= 0.0).all()


def test_new_rows_are_placed_and_predicted(fitted, new_rows):
    t, rows, exact = new_rows
    mean, std = fitted.transform(rows, return_std=True)
    assert abs(np.corrcoef(mean[:, 0], t)[0, 1]) > 0.99
    assert ((std > 0.0) & (std < 2.0)).all()
    predicted, spread = fitted.inverse_transform(mean, return_std=True)
    assert np.abs(predicted - exact).mean() < 0.1
    errors = (rows - predicted) / spread
    assert 0.5 < np.sqrt((errors**2).mean()) < 1.3


def test_training_rows_are_placed_where_the_fit_put_them(fitted, X):
    mean, std = fitted.transform(X, return_std=True)
    assert_allclose(mean, fitted.embedding_, atol=0.1)
    assert_allclose(std**2, fitted.embedding_variance_, rtol=0.2)


def test_missing_values_of_new_rows_are_filled_in(fitted, new_rows):
    _, rows, exact = new_rows
    holes = rows.copy()
    holes[:, 1] = np.nan
    holes[::2, 3] = np.nan
    filled = fitted.inverse_transform(fitted.transform(holes))
    assert np.abs(filled - exact)[:, 1].mean() < 0.2
    assert exact[:, 1].std() > 1.5


def test_missing_values_of_training_rows_are_filled_in(X, places):
    holes, rng = X.copy(), np.random.RandomState(2)
    missing = rng.uniform(size=X.shape) < 0.2
    missing[5] = True
    holes[missing] = np.nan
    model = BayesianGPLVM(**QUICK).fit(holes)
    filled = model.inverse_transform(model.embedding_)
    errors = np.abs(filled - curve(places, rng, noise=0.0))[missing]
    assert np.median(errors) < 0.2
    assert_allclose(model.embedding_[5], 0.0, atol=0.01)
    assert_allclose(model.embedding_variance_[5], 1.0, atol=0.01)


def test_scores_have_the_units_of_the_columns(fitted, X, new_rows):
    _, rows, _ = new_rows
    larger = BayesianGPLVM(**QUICK).fit(10.0 * X)
    n_values = X.size
    assert_allclose(larger.lower_bound_, fitted.lower_bound_ - n_values * np.log(10.0), rtol=1e-3)
    scores = fitted.score_samples(rows)
    assert_allclose(larger.score_samples(10.0 * rows), scores - 5 * np.log(10.0), atol=0.1)
    assert_allclose(fitted.score(rows), scores.mean())
    far = rows + 5.0 * (np.arange(5) == 2)
    assert (fitted.score_samples(far) < scores - 10.0).all()
    # A row without values has the density one.
    assert_allclose(fitted.score_samples(np.full((1, 5), np.nan)), 0.0, atol=1e-8)


def test_the_tight_bound_is_higher(fitted, X):
    standard = BayesianGPLVM(**QUICK, bound="standard").fit(X)
    assert standard.lower_bound_ < fitted.lower_bound_ + 1.0
    few = {"n_components": 1, "n_inducing": 2, "tol": 1e-5}
    tight, standard = (BayesianGPLVM(**few, bound=b).fit(X) for b in ("tight", "standard"))
    assert tight.lower_bound_ > standard.lower_bound_ + 0.02


def test_too_few_iterations_are_reported_and_enough_are_not(X):
    with pytest.warns(ConvergenceWarning, match=r"max_iter=2 iterations.*Raise max_iter") as found:
        model = BayesianGPLVM(max_iter=2).fit(X)
    assert found[0].filename == __file__
    assert model.n_iter_ == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BayesianGPLVM(**QUICK).fit(X)


def test_a_fit_can_be_repeated_and_depends_on_the_seed(fitted, X):
    again = clone(fitted).fit(X)
    assert_array_equal(again.embedding_, fitted.embedding_)
    other = clone(fitted).set_params(random_state=1).fit(X)
    assert not np.array_equal(other.embedding_, fitted.embedding_)


def test_it_works_in_a_pipeline(X):
    pipeline = make_pipeline(StandardScaler(), BayesianGPLVM(1, **QUICK))
    T = pipeline.fit_transform(X)
    assert list(pipeline.get_feature_names_out()) == ["bayesiangplvm0"]
    assert np.abs(pipeline.inverse_transform(T) - X).mean() < 0.3


@pytest.mark.parametrize("value", [0.0, 7.0])
def test_rows_that_are_all_equal_have_no_places(value):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = BayesianGPLVM(max_iter=30).fit(np.full((6, 2), value))
    assert np.isfinite(model.embedding_).all()
    assert_allclose(model.inverse_transform(model.embedding_), value)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1.0, np.nan], [2.0, np.nan], [0.0, np.nan]], "column 1 has none: leave it out"),
        ([[1.0, 2.0]], "minimum of 2 is required"),
        ([[1.0, 2.0], [np.inf, 1.0]], "infinity"),
        ([[1.0, 2.0], [1e200, 1.0]], "square overflows"),
        (np.ma.masked_array(np.eye(3), np.eye(3)), "no masked values"),
    ],
)
def test_bad_rows_are_refused_and_nothing_is_left(rows, message):
    model = BayesianGPLVM()
    with pytest.raises(ValueError, match=message):
        model.fit(rows)
    assert not [name for name in vars(model) if name.endswith("_")]
    with pytest.raises(NotFittedError):
        model.transform(np.eye(3))


def test_latent_variables_of_another_number_are_refused(fitted):
    with pytest.raises(ValueError, match=r"each of the 2 components, got the shape \(1, 3\)"):
        fitted.inverse_transform([[0.0, 0.0, 0.0]])


@pytest.mark.parametrize("n_patterns", [1, 2])
def test_a_file_has_the_size_that_is_documented(n_patterns):
    n_rows, n_columns, n_latent, n_points = 80, 6, 2, 30
    X = np.random.RandomState(0).standard_normal((n_rows, n_columns))
    X[0, : n_patterns - 1] = np.nan
    model = BayesianGPLVM(n_latent, n_inducing=n_points, tol=1e3).fit(X)
    numbers = (1 + n_patterns) * n_points**2 + (n_columns + n_latent) * n_points
    numbers += 2 * n_rows * n_latent
    assert 0 < len(pickle.dumps(model)) - 8 * numbers < 3000
