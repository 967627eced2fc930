"""The programs that measure whether fits find what the data ask for."""

from argparse import Namespace

import learning_cases
import learning_failures
import numpy as np
import pytest
import random_problems
from evidence import append, read
from scipy.stats import norm
from searches import allowance, constant_bound, fit_from_kernel, give_up_below
from sklearn.gaussian_process.kernels import RBF

from sparsegpc import SparseGPRegressor

# Small problems have columns that look irrelevant, and the progress bar of a run a thread.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture
def small_problems(monkeypatch):
    """Make problems small, and their references quick."""
    monkeypatch.setattr(random_problems, "ROWS", (12, 13))
    monkeypatch.setattr(random_problems, "MANY_ROWS", (14, 15))
    monkeypatch.setattr(random_problems, "N_SEARCHES", 2)


def test_constant_bound_is_the_highest_likelihood(rng):
    y = rng.standard_normal(9)
    assert constant_bound(y) == pytest.approx(norm.logpdf(y, y.mean(), y.std()).sum())
    labels = np.array([1, 1, 1, 0])
    assert constant_bound(labels) == pytest.approx(np.log([0.75, 0.75, 0.75, 0.25]).sum())


def test_allowance_is_a_nat_or_a_share_of_the_gain():
    y = np.array([0, 1] * 100)
    assert allowance(-138.0, y) == 1.0
    assert allowance(constant_bound(y) + 300.0, y) == pytest.approx(3.0)


def test_searches_keep_to_their_start(rng):
    X = np.linspace(0.0, 1.0, 30)[:, None]
    y = 2.0 * X[:, 0] + 0.3 * np.sin(40.0 * X[:, 0])
    slow, fast = (
        fit_from_kernel(SparseGPRegressor(1.0 * RBF(scale), n_inducing=30), X, y)
        for scale in (1.0, 0.05)
    )
    assert slow.kernel_.k2.length_scale > 0.3 > 0.1 > fast.kernel_.k2.length_scale
    assert slow.lower_bound_ < fast.lower_bound_ - 5.0


def test_searches_are_given_up_far_below_the_best():
    step = Namespace(iteration=20, lower_bound=-76.0)
    assert give_up_below(-50.0, -100.0)(step)
    assert not give_up_below(-60.0, -100.0)(step)
    step.iteration = 2
    assert not give_up_below(-50.0, -100.0)(step)


def test_random_problems_are_repeatable_and_differ():
    one, same, other = (random_problems.make_problem(number) for number in (3, 3, 4))
    np.testing.assert_array_equal(one.X, same.X)
    np.testing.assert_array_equal(one.y, same.y)
    assert one.description() == same.description()
    assert one.description() != other.description()
    assert len(one.y) > random_problems.MOST_DENSE
    assert other.model.n_inducing == random_problems.FEW_POINTS


def test_references_and_fits_are_kept_and_not_repeated(small_problems, tmp_path, monkeypatch):
    pytest.importorskip("tqdm")
    results, references = tmp_path / "results.csv", tmp_path / "references.csv"
    asked = Namespace(problems=1, revision="here")
    random_problems.run(asked, results, references)
    assert [record["number"] for record in read(references)] == ["0"]
    records = read(results)
    assert tuple(records[0]) == random_problems.FIELDS
    monkeypatch.setattr(random_problems, "best_end", None)
    random_problems.run(Namespace(problems=1, revision="other"), results, references)
    monkeypatch.setattr(random_problems, "record_of", None)
    random_problems.run(asked, results, references)
    assert [record["revision"] for record in read(results)] == ["here", "other"]


def test_a_reference_is_the_best_of_its_searches(small_problems):
    problem = random_problems.make_problem(1)
    bound, start = random_problems.best_end(problem)
    kernels = list(random_problems.start_kernels(problem))
    model = problem.model.set_params(kernel=kernels[start], random_state=start)
    assert bound == pytest.approx(fit_from_kernel(model, problem.X, problem.y).lower_bound_)
    assert len(kernels) == 2


def test_report_names_fits_that_are_short(small_problems, tmp_path, capsys):
    results, references = tmp_path / "results.csv", tmp_path / "references.csv"
    for number, reached in ((0, -9.5), (1, -99.0)):
        append(references, [{"number": number, "bound": -9.0}])
        description = random_problems.make_problem(number).description()
        found = {"revision": "here", "reached": reached, "evaluations": 7, "seconds": 0.5}
        append(results, [description | found], random_problems.FIELDS)
    random_problems.report(results, references)
    out = capsys.readouterr().out
    assert "here: 50.0 % of 2 problems" in out
    assert "-99" in out
    assert "-9.5" not in out


def test_the_line_of_a_problem_has_its_worst_case(capsys):
    cases = [
        {"row": 1} | learning_cases.record("sums", case, "R^2", reached, 0.9, 0.01)
        for case, reached in (("a", 0.895), ("b", 0.8), ("c", 0.7))
    ]
    learning_failures.show(cases)
    line = capsys.readouterr().out.splitlines()[3].split()
    assert line == ["1", "sums", "R^2", "c", "0.7", "0.9", "-", "-", "-", "2", "of", "3", "short"]


def test_cases_count_evaluations_and_seconds():
    first = next(learning_cases.exact_targets())
    assert first["on_all"] > 1
    assert first["on_subsets"] == 0
    assert first["reached"] == pytest.approx(first["should"], abs=1.0)
    assert first["excess"] < 1.0


def test_fits_of_rare_labels_are_not_short(monkeypatch):
    starts = []

    def reached_before(model, X, y):
        """Return what two searches reach in ten seconds."""
        starts.append(model.kernel)
        return Namespace(lower_bound_=-6.35)

    monkeypatch.setattr(learning_cases, "fit_from_kernel", reached_before)
    first = next(learning_cases.rare_labels())
    assert first["case"] == "3 of 4000, seed 0"
    assert first["should"] == -6.35
    assert first["excess"] < 1.0
    assert len(starts) == 2
