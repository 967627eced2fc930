"""The programs that repeat the tables of Titsias 2025 and of Hensman et al. 2015."""

from argparse import Namespace

import evidence
import hensman_references
import hensman_tables
import numpy as np
import pytest
import titsias_tables
from datasets import Data

MINUS = "\N{MINUS SIGN}"
ARGUMENTS = Namespace(
    tables=["3"],
    sets=None,
    methods=["exact", "standard", "tight"],
    splits=1,
    max_iter=200,
    epochs=1,
)


@pytest.fixture
def wave(rng):
    """200 noisy rows of a sine, in the place of Snelson's."""
    X = rng.uniform(0.0, 6.0, (200, 1))
    return Data(X, np.sin(2.0 * X[:, 0]) + 0.3 * rng.randn(200), None)


@pytest.fixture
def two_moons(rng):
    """400 + 60 rows of two classes in two columns, with an official split."""
    angle = rng.uniform(0.0, np.pi, 460)
    y = np.arange(460) % 2
    sign = 1 - 2 * y
    X = np.column_stack([np.cos(angle) * sign + 0.5 * y, np.sin(angle) * sign + 0.2 * y])
    return Data(X + 0.15 * rng.randn(460, 2), y, [np.arange(400, 460)])


@pytest.mark.parametrize(
    ("program", "key"),
    [
        (titsias_tables, ("table", "set", "method", "n_inducing", "quantity")),
        (hensman_tables, ("set", "method", "size")),
    ],
)
def test_each_published_figure_is_there_once(program, key):
    records = evidence.read(program.PUBLISHED)
    keys = [tuple(record[name] for name in key) for record in records]
    assert len(set(keys)) == len(keys) > 50


@pytest.mark.parametrize("program", [titsias_tables, hensman_tables, hensman_references])
def test_results_have_the_columns_and_no_fit_twice(program):
    records = evidence.read(program.RESULTS)
    assert tuple(records[0]) == program.FIELDS
    keys = [tuple(record[name] for name in program.KEY) for record in records]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("table", ["1", "2", "3", "5"])
def test_titsias_fragments_show_the_published_figures(table, tmp_path):
    titsias_tables.render(tmp_path)
    text = (tmp_path / f"titsias_table{table}.rst").read_text(encoding="utf-8")
    shown = {"1": "0.821 (0.008)", "2": "0.152 (0.003)", "3": "0.0715"}
    shown["5"] = f"{MINUS}8.203 (0.190)"
    assert f'"{shown[table]}"' in text


def test_snelson_fits_are_kept_and_not_repeated(wave, tmp_path, monkeypatch):
    pytest.importorskip("tqdm")
    path = tmp_path / "results.csv"
    monkeypatch.setattr(titsias_tables, "is_available", lambda name: True)
    monkeypatch.setattr(titsias_tables, "load_regression", lambda name: wave)
    titsias_tables.run(ARGUMENTS, path)
    records = {record["method"]: record for record in evidence.read(path)}
    assert list(records) == ["exact", "standard", "tight"]
    bounds = [float(records[m]["bound_per_row"]) for m in ("standard", "tight", "exact")]
    assert bounds == sorted(bounds)
    monkeypatch.setattr(titsias_tables, "FITS", {})
    titsias_tables.run(ARGUMENTS, path)
    assert len(evidence.read(path)) == 3


def test_points_that_stay_are_rows_or_centres_and_others_move(wave, monkeypatch):
    monkeypatch.setattr(titsias_tables, "load_regression", lambda name: wave)
    monkeypatch.setattr(titsias_tables, "SHORTENED", {"pol": 100})
    figures = {
        method: titsias_tables.fit_medium("pol", method, 6, 0, ARGUMENTS)
        for method in ("tight", titsias_tables.STAY)
    }
    assert figures["tight"]["n_train"] == 100
    bounds = [own["bound_per_row"] for own in figures.values()]
    assert bounds[0] > bounds[1] + 1e-3


def test_mean_and_error_over_splits():
    assert titsias_tables.mean_and_error(["1.0", "3.0"]) == "2.000 (1.000)"
    assert titsias_tables.mean_and_error(["1.25"]) == "1.250"


def test_only_negative_numbers_get_a_minus_sign():
    assert evidence.with_minus("-0.5 (0.1)") == f"{MINUS}0.5 (0.1)"
    assert evidence.with_minus("M-1, a -b") == "M-1, a -b"


@pytest.mark.parametrize(("size", "expected"), [("8", 8), ("3%", 4), ("30%", 42), ("all", 140)])
def test_sizes(size, expected):
    assert hensman_tables.n_points(size, 140) == expected


def test_interval_is_two_deviations_around_the_median():
    assert hensman_tables.median_text([0.1, 0.2, 0.6]) == ".20 ± .53"
    assert hensman_tables.median_text([0.1]) == hensman_tables.MISSING


def test_panel_is_kept_with_its_lines_and_points(two_moons, tmp_path, monkeypatch):
    pytest.importorskip("tqdm")
    pytest.importorskip("contourpy")
    monkeypatch.setattr(hensman_tables, "cached_data", lambda name: two_moons)
    results, lines = tmp_path / "results.csv", tmp_path / "lines.csv"
    job = (hensman_tables.BANANA, "chosen", "8", 0)
    hensman_tables.run([job], results, lines)
    (record,) = evidence.read(results)
    assert float(record["log_loss"]) < np.log(2.0)
    parts = evidence.read(lines)
    (points,) = (part for part in parts if part["kind"] == "point")
    assert len(points["x"].split()) == len(points["y"].split()) == 8
    X, y = two_moons.X[:400], two_moons.y[:400]
    model = hensman_tables.fitted("chosen", "8", X, y, 0)
    boundary = np.hstack(
        [[p["x"].split(), p["y"].split()] for p in parts if p["kind"] == "boundary"]
    ).T.astype(np.float64)
    assert np.abs(model.predict_proba(boundary)[:, 1] - 0.5).max() < 0.1


def test_hensman_fragments_and_pictures(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.delenv("SPARSEGPC_DATA", raising=False)
    hensman_tables.render(tmp_path)
    text = (tmp_path / "hensman_table1.rst").read_text(encoding="utf-8")
    assert '"ringnorm (400)","8",".41 ± .09"' in text
    for method in ("moved", "chosen"):
        assert (tmp_path / f"hensman_banana_{method}.png").stat().st_size > 10_000


def test_references_are_kept_and_not_repeated(two_moons, tmp_path, monkeypatch):
    pytest.importorskip("tqdm")
    pytest.importorskip("contourpy")
    X, y = two_moons.X, two_moons.y
    parts = X[:60], y[:60], X[400:], y[400:]
    monkeypatch.setattr(hensman_references, "split_rows", lambda name, split: parts)
    path = tmp_path / "results.csv"
    sizes = {"EPFitc": "8", "EPFitc, centres": "8", "EP": "all", "MFSp": "8", "MF": "all"}
    asked = [("ida_banana", method, size, 0) for method, size in sizes.items()]
    lines = tmp_path / "lines.csv"
    hensman_references.run(asked, path, lines)
    hensman_references.run(asked, path, lines)
    records = evidence.read(path)
    assert [record["n_inducing"] for record in records] == ["8", "8", "60", "8", "60"]
    assert all(float(record["log_loss"]) < 0.6 for record in records)
    assert not any(map(hensman_references.has_failed, records))
    panels = {line["method"]: line for line in evidence.read(lines) if line["kind"] == "point"}
    assert list(panels) == ["EPFitc", "EPFitc, centres", "MFSp"]
    assert len(panels["MFSp"]["x"].split()) == 8


def test_references_count_failures_and_splits_beside_the_median():
    key = {"set": "a", "method": "EP", "size": "all"}
    lines = [("0.2", "1"), ("0.3", "0"), ("0.7", "1"), ("0.4", "1")]
    records = [key | {"log_loss": loss, "converged": reached} for loss, reached in lines]
    assert hensman_references.cell(records, "a", "EP", "all") == ".35 ± .43 (2 of 4 failed)"
    assert hensman_references.cell(records[::3], "a", "EP", "all") == ".30 ± .28 (2 splits)"
    assert hensman_references.cell(5 * records[::3], "a", "EP", "all") == ".30 ± .21"


def test_references_stand_beside_the_published_figures(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.delenv("SPARSEGPC_DATA", raising=False)
    hensman_references.render(tmp_path)
    for method in ("EPFitc", "MFSp"):
        assert (tmp_path / f"hensman_banana_{method}.png").stat().st_size > 10_000
    text = (tmp_path / "hensman_references.rst").read_text(encoding="utf-8")
    (row,) = (line for line in text.splitlines() if line.startswith('   "ringnorm (400)"'))
    cells = row.strip().strip('"').split('","')
    assert cells[2] == ".34 ± .01"
    assert cells[5] == ".46 ± .00"
    assert hensman_tables.MISSING not in row
