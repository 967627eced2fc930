"""The tabular suite: its jobs, what becomes of failures, and its tables."""

import os
import time
from argparse import Namespace

import datasets
import evidence
import measure
import numpy as np
import pytest
import scores
import tabular
import tabular_report
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.base import BaseEstimator
from tabular_methods import CLASSES, METHODS, TARGETS, Method, OneDeviation

# Python warns about copies of a process with threads; the suite's has none but a progress bar's.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
BLANK = dict.fromkeys(tabular.FIELDS, "")


class Broken:
    """A model that raises."""

    def fit(self, X, y):
        raise ValueError("two\nlines")


class Endless:
    """A model whose fit never ends."""

    def fit(self, X, y):
        while True:
            pass


class Crashed:
    """A model whose fit ends the process."""

    def fit(self, X, y):
        os._exit(3)


@pytest.fixture
def local_sets(rng, tmp_path, monkeypatch):
    """A folder with rows of a straight line in the place of energy, and of two classes."""
    X = rng.randn(60, 2)
    np.savez(tmp_path / "energy.npz", X=X, y=3.0 * X[:, 0] + 5.0 + 0.1 * rng.randn(60))
    np.savez(tmp_path / "heart.npz", X=X, y=(X[:, 0] > 0.0) + 1)
    monkeypatch.setenv(datasets.FOLDER_VARIABLE, str(tmp_path))
    tabular.load.cache_clear()
    yield tmp_path
    tabular.load.cache_clear()


def options(**changed):
    """Return the arguments of the command line."""
    found = {"sets": ["energy", "heart"], "methods": ["linear"], "splits": 1, "max_rows": 40}
    return Namespace(**(found | {"seconds": 60.0, "revision": "here"} | changed))


def line(method, split, loss, revision="", name="heart", n_train=54, failure=""):
    """Return a line of the file of results, as it is read."""
    own = {"task": CLASSES, "set": name, "method": method, "revision": revision}
    sizes = {"n_train": str(n_train), "split": str(split), "n_columns": "2", "failure": failure}
    figures = dict.fromkeys(["brier", "calibration_error", "accuracy", "fit_seconds"], "0.5")
    return BLANK | own | sizes | figures | {"predict_seconds": "0", "log_loss": str(loss)}


def test_intervals_cover_and_densities_are_normal():
    y, mean, std = np.array([0.0, 1.6, 1.7]), np.zeros(3), np.ones(3)
    found = scores.regression_scores(y, mean, std)
    assert found["coverage"] == pytest.approx(2 / 3)
    assert found["rmse"] == pytest.approx(np.sqrt((1.6**2 + 1.7**2) / 3))
    assert found["log_density"] == pytest.approx(norm.logpdf(y).mean())
    inside = quad(norm.pdf, -scores.DEVIATIONS_OF_90, scores.DEVIATIONS_OF_90)[0]
    assert inside == pytest.approx(0.9, abs=1e-8)


def test_sampled_targets_have_the_scale_of_the_training_rows(local_sets):
    X, y, X_test, y_test = datasets.sampled_regression("energy", 0, 40, 6)
    whole = datasets.load_regression("energy")
    parts = datasets.split_regression(whole, *datasets.counted(60, 0, 40, 6))
    for one, other in zip((X, y, X_test, y_test), parts, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


class Memory(BaseEstimator):
    """Right on the rows that it saw, and zero elsewhere."""

    def fit(self, X, y):
        self.seen_ = dict(zip(X[:, 0], y, strict=True))
        return self

    def predict(self, X):
        return np.array([self.seen_.get(x, 0.0) for x in X[:, 0]])


def test_one_deviation_is_that_of_rows_that_were_not_fitted(rng):
    X, y = rng.randn(50, 1), rng.randn(50)
    model = OneDeviation(Memory()).fit(X, y)
    model.learn_deviation(X, y)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, y)
    np.testing.assert_allclose(std, np.sqrt(np.mean(y**2)))


def test_jobs_leave_out_what_a_method_is_not_made_for(monkeypatch):
    monkeypatch.delenv(datasets.FOLDER_VARIABLE, raising=False)
    asked = options(sets=["wine", "diabetes"], methods=["gpboost", "full"], max_rows=300)
    keys = [job[:5] for job in tabular.jobs(asked)]
    assert keys == [
        (CLASSES, "wine", 160, 0, "full"),
        (TARGETS, "diabetes", 300, 0, "gpboost"),
        (TARGETS, "diabetes", 300, 0, "full"),
    ]
    assert not METHODS["full"].applies(TARGETS, 1501, 0)
    assert not METHODS["catboost-uncertainty"].applies(CLASSES, 10, 2)


@FORKS
def test_fits_are_kept_and_not_repeated(local_sets, tmp_path, monkeypatch):
    pytest.importorskip("tqdm")
    path = tmp_path / "results.csv"
    asked = options(methods=["linear", "sparsegpc"])
    tabular.run(asked, path)
    records = evidence.read(path)
    assert tuple(records[0]) == tabular.FIELDS
    assert [record["failure"] for record in records] == [""] * 4
    found = {(record["set"], record["method"]): record for record in records}
    assert {record["n_test"] for record in records} == {"6"}
    for method, revision in (("linear", ""), ("sparsegpc", "here")):
        assert found["energy", method]["revision"] == revision
        assert float(found["energy", method]["rmse"]) < 0.2
        assert float(found["heart", method]["log_loss"]) < np.log(2.0)
    assert float(found["energy", "sparsegpc"]["bound"]) > -40 * norm.entropy()
    monkeypatch.setattr(tabular, "record_of", None)
    tabular.run(asked, path)
    assert len(evidence.read(path)) == 4


@FORKS
@pytest.mark.parametrize(
    ("model", "failure"),
    [
        (Broken, "ValueError: two lines"),
        (Endless, "time limit"),
        (Crashed, "process ended with code 3"),
    ],
)
def test_failures_count_as_the_constant(model, failure, local_sets, monkeypatch):
    method = Method("broken", dict.fromkeys((CLASSES, TARGETS), lambda seed: model()))
    monkeypatch.setitem(tabular.METHODS, "broken", method)
    job = dict(zip(tabular.KEY, (TARGETS, "energy", 40, 0, "broken", ""), strict=True))
    record = tabular.record_of(job | {"seconds": 0.1})
    y, y_test = tabular.load("energy", 0, 40)[1::2]
    assert record["failure"] == failure
    assert (record["method"], record["n_test"]) == ("broken", 6)
    assert record["rmse"] == pytest.approx(np.sqrt(np.mean((y_test - y.mean()) ** 2)))
    assert "fit_seconds" not in record
    assert set(record) <= set(tabular.FIELDS)


@FORKS
def test_a_copy_of_the_process_keeps_its_changes_to_itself():
    kept = []
    assert measure.in_fork(lambda job: kept.append(job) or len(kept), "job") == 1
    assert kept == []
    with pytest.raises(measure.ChildError) as caught:
        measure.in_fork(lambda job: os._exit(job), 7)
    assert caught.value.code == 7


@FORKS
def test_the_limit_counts_seconds_of_the_processor():
    def sleep_within_limit(seconds):
        measure.limit_cpu(1.0)
        time.sleep(seconds)
        return "awake"

    assert measure.in_fork(sleep_within_limit, 1.3) == "awake"


def test_missing_libraries_are_named(monkeypatch, capsys):
    monkeypatch.setitem(tabular.METHODS, "none", Method("none", {}, "no_such_library"))
    assert tabular.installed(["linear", "none"]) == ["linear"]
    assert "no_such_library is not installed" in capsys.readouterr().out


def test_only_splits_that_all_methods_have_count():
    records = [line("linear", split, 0.5) for split in (0, 1, 2)]
    records += [line("forest", split, 0.25) for split in (1, 0)]
    # With more rows, but fewer methods.
    records.append(line("linear", 0, 0.1, n_train=99))
    table = tabular_report.Table(records, CLASSES)
    assert table.size("heart") == (54, 2, 2)
    assert table.values("heart", "linear", "log_loss").tolist() == [0.5, 0.5]


def test_mean_ranks_are_those_of_the_last_revision():
    losses = {"linear": 0.3, "forest": 0.5}
    records = [line(method, 0, loss) for method, loss in losses.items()]
    records += [line("sparsegpc", 0, 0.4, "before"), line("sparsegpc", 0, 0.3, "after")]
    table = tabular_report.Table(tabular_report.latest(records), CLASSES)
    assert table.mean_ranks("log_loss") == {"sparsegpc": 1.5, "linear": 1.5, "forest": 3.0}


def test_a_revision_of_one_task_leaves_the_other_its_last_one():
    records = [line("sparsegpc", 0, 0.4, "before")]
    other = line("sparsegpc", 0, 0.3, "after") | {"task": "regression"}
    assert tabular_report.latest([*records, other]) == [*records, other]


def test_history_has_the_fits_that_all_revisions_have():
    records = [line("sparsegpc", 0, 0.4, "before"), line("sparsegpc", 0, 0.3, "after")]
    records += [line("sparsegpc", 1, 0.9, "after"), line("linear", 0, 0.1)]
    text = tabular_report.history(records, CLASSES)
    assert "Means over 1 fits" in text
    assert '"before","0.400",' in text
    assert '"after","0.300",' in text
    assert "linear" not in text


def test_differences_within_two_errors_tie():
    peers = {"linear": (0.3, 0.3, 0.3), "forest": (0.5, 0.5, 0.6), "catboost": (0.1, 0.1, 0.1)}
    records = [line(m, i, loss) for m, losses in peers.items() for i, loss in enumerate(losses)]
    records += [line("sparsegpc", i, loss) for i, loss in enumerate((0.2, 0.4, 0.33))]
    table = tabular_report.Table(records, CLASSES)
    counts = [table.against("sparsegpc", peer, "log_loss") for peer in peers]
    assert counts == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    counts = [table.against(peer, "sparsegpc", "accuracy") for peer in peers]
    assert counts == [[0, 1, 0]] * 3


def test_tables_mark_the_best_and_the_failed():
    records = [line("linear", 0, 0.3), line("forest", 0, 0.7, failure="time limit")]
    table = tabular_report.Table(records, CLASSES)
    text = tabular_report.per_set(table, "log_loss")
    assert '"heart","54","2","1","0.700†","**0.300**"' in text
    assert '"random forest","heart","1","time limit"' in tabular_report.failures(records)


def test_results_have_the_columns_and_no_fit_twice():
    records = evidence.read(tabular_report.RESULTS)
    assert tuple(records[0]) == tabular.FIELDS
    keys = [tuple(record[name] for name in tabular.KEY) for record in records]
    assert len(set(keys)) == len(keys)


def test_render_writes_all_tables(tmp_path):
    tabular_report.render(tmp_path)
    for name in ("classification_summary", "regression_pairs", "regression_rmse", "failures"):
        assert (tmp_path / f"tabular_{name}.rst").stat().st_size > 0
