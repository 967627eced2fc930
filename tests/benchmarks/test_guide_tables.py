"""Tables of the user guide: times of fits, and coverage of intervals."""

import fit_times
import interval_coverage
import numpy as np
import pytest


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
    for program in (fit_times, interval_coverage):
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
