"""Tables of measured times, memory and coverage."""

import few_rows
import fit_times
import interval_coverage
import large_sets
import numpy as np
import pytest
import scaling


def test_cells_hold_regressor_and_classifier():
    fits = [("regression", 500, 0.25), ("classification", 500, 12.3), ("regression", 5000, 9.0)]
    records = [
        {"task": task, "n_rows": str(n_rows), "n_columns": "5", "n_inducing": "50"}
        | {"n_threads": "1", "fit_cpu": str(seconds)}
        for task, n_rows, seconds in fits
    ]
    text = fit_times.table(records, "fit_cpu", lambda value: f"{value:.1f}")
    assert '"500","5","0.2, 12.3"' in text
    assert '"5 000","5","9.0, \N{EN DASH}"' in text


def test_files_of_results_hold_each_fit_once():
    for program in (few_rows, fit_times, interval_coverage, large_sets, scaling):
        records = program.read(program.RESULTS)
        keys = [tuple(record[name] for name in program.KEY) for record in records]
        assert len(set(keys)) == len(keys) > 0
        assert set(records[0]) == set(program.FIELDS)


@pytest.mark.parametrize("n_rows", [19, 20])
def test_conformal_margin_keeps_its_promise(n_rows):
    """Of n + 1 exchangeable rows, each in turn the new one, enough are inside: no distribution."""
    rng = np.random.RandomState(0)
    lower, y = rng.normal(size=(2, n_rows + 1))
    upper = lower + rng.exponential(size=n_rows + 1)
    n_inside = 0
    for new in range(n_rows + 1):
        others = np.arange(n_rows + 1) != new
        margin = interval_coverage.conformal_margin(lower[others], upper[others], y[others], 0.9)
        n_inside += lower[new] - margin <= y[new] <= upper[new] + margin
    assert n_inside == np.ceil(0.9 * (n_rows + 1))


def test_series_of_scaling_differ_in_one_size():
    last = {"n_threads": 1.0, "seed": 0.0, "n_rows": 500.0}
    records = [
        {"part": part, "task": task, "set": "made", "n_points": m, "made_columns": d} | last
        for part, task, m, d in [
            ("points", "regression", 50.0, 8.0),
            ("columns", "regression", 25.0, 10.0),
            ("points", "regression", 25.0, 8.0),
            ("points", "classification", 25.0, 8.0),
            ("columns", "regression", 25.0, 5.0),
        ]
    ]
    for record in records:
        record["n_columns"] = record["made_columns"]
    found = [[(r["n_points"], r["n_columns"]) for r in own] for own in scaling.series(records)]
    assert found == [[(25.0, 8.0), (50.0, 8.0)], [(25.0, 5.0), (25.0, 10.0)], [(25.0, 8.0)]]


def test_slopes_of_scaling_are_exponents():
    records = [{"part": "rows", "n_rows": n, "fit_cpu": 3.0 * n**1.5} for n in (10, 20, 50, 90)]
    line = scaling.slope_line(records, "fit_cpu", "a fit")
    assert line.startswith(
        "The slope of the CPU seconds of a fit is 1.50 over all sizes, 1.50 over"
    )


def test_cells_of_large_sets_are_rounded_or_dashes():
    assert large_sets.rounded("0.123456", 2) == "0.12"
    assert large_sets.rounded("9138678", 2) == "9 100 000"
    assert large_sets.rounded("", 3) == "\N{EN DASH}"
