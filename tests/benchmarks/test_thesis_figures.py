"""The programs behind the figures of Passerello 2021; the documentation draws the figures."""

import numpy as np
import pytest
import thesis_convergence
import thesis_pictures
import thesis_sparsity
from evidence import append, read
from numpy.testing import assert_allclose, assert_array_equal


@pytest.fixture
def labelled(rng):
    """Return 40 rows of two columns and labels that depend on both."""
    X = rng.standard_normal((40, 2))
    return X, (X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(40) > 0.0).astype(int)


def test_published_curves_end_below_the_non_sparse_bound():
    curves = thesis_sparsity.mean_curves(read(thesis_sparsity.PUBLISHED))
    methods = [key for key in curves if key[1] != "full"]
    assert {name for name, _ in methods} < set(thesis_sparsity.SETS)
    assert {method for _, method in methods} < set(thesis_sparsity.METHODS)
    for name, method in methods:
        n_inducing, bounds = curves[name, method]
        n_rows, line = curves[name, "full"]
        assert n_inducing[-1] < n_rows[0]
        assert bounds[0] < bounds[-1] < line[0] + 0.01


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [([-9.0, -2.5, -2.1], 20), ([-2.0, -9.0, -2.1], 30), ([-9.0, -9.0, -9.0], None)],
)
def test_points_within_asks_for_all_that_follow(bounds, expected):
    curve = np.array([10, 20, 30]), np.array(bounds)
    assert thesis_sparsity.points_within(curve, -2.0) == expected


def test_results_are_appended_and_averaged(tmp_path, labelled):
    path = tmp_path / "few.csv"
    rows = [thesis_sparsity.fitted_row("made", "uniform", 5, seed, *labelled) for seed in (0, 1)]
    for row in rows:
        append(path, [row])
    rows = read(path)
    assert [row["seed"] for row in rows] == ["0", "1"]
    n_inducing, bounds = thesis_sparsity.mean_curves(rows)["made", "uniform"]
    assert_array_equal(n_inducing, [5])
    assert_allclose(bounds, np.mean([float(row["bound"]) for row in rows]))


def test_jobs_leave_out_what_large_sets_cannot_have():
    jobs = list(thesis_sparsity.jobs(["heart", "magic"], 3))
    assert ("heart", "full", None, 0) in jobs
    assert len(set(jobs)) == len(jobs)
    assert not any(
        name == "magic" and (n is None or "moved" in method) for name, method, n, _ in jobs
    )


@pytest.mark.parametrize("n_evaluations", [1, 20, 21, 1000])
def test_kept_evaluations_have_both_ends(n_evaluations):
    kept = thesis_convergence.kept_evaluations(n_evaluations)
    few = min(n_evaluations, thesis_convergence.KEPT_FIRST)
    assert_array_equal(kept[:few], np.arange(few))
    assert kept[-1] == n_evaluations - 1
    assert len(kept) <= thesis_convergence.KEPT_FIRST + thesis_convergence.KEPT_LATER


def test_adam_finds_the_minimum_of_a_parabola():
    class Parabola:
        start, centre = np.zeros(2), np.array([1.0, -2.0])

        def __call__(self, x):
            self.last = x
            return ((x - self.centre) ** 2).sum(), 2.0 * (x - self.centre)

    objective = Parabola()
    thesis_convergence.adam(objective, 300)
    assert_allclose(objective.last, objective.centre, atol=0.05)


def test_our_curve_is_of_the_given_points_and_rises(labelled):
    X, y = labelled
    bounds = thesis_convergence.our_curve(X, y, X[:6])
    assert len(bounds) > 5
    assert thesis_convergence.our_optimum(X, y) > bounds.max() > bounds[0]
    # The starts are compared with points of their own, which would be the same for any Z.
    assert thesis_convergence.our_curve(X, y, X[6:12])[0] != bounds[0]


def test_explicit_bound_has_the_gradient_of_its_value(rng, labelled):
    X, y = labelled
    model = thesis_pictures.fitted(X, y, n_inducing=4, **thesis_pictures.PGPR)
    objective = thesis_pictures.explicit_bound(model, X, y)
    x = 0.3 * rng.standard_normal(len(objective.prior()))
    steps = 1e-5 * np.eye(len(x))
    slope = [(objective(x + step)[0] - objective(x - step)[0]) / 2e-5 for step in steps]
    assert_allclose(objective(x)[1], slope, rtol=1e-6, atol=1e-6)


def test_closed_form_is_the_maximum_over_explicit_posteriors(labelled):
    row = thesis_pictures.equality_row(5, *labelled)
    assert_allclose(float(row["explicit"]), float(row["closed_form"]), atol=1e-5)
    assert float(row["best_perturbation"]) < 0.0


def test_polya_gamma_variance_is_least_where_f_is_zero():
    mean, variance = np.array([0.0, 1.0, 50.0]), np.array([1e-8, 1e-8, 0.0])
    expected = [4.0, 2.0 / np.tanh(0.5), 100.0]
    assert_allclose(thesis_pictures.polya_gamma_variance(mean, variance), expected, rtol=1e-6)
