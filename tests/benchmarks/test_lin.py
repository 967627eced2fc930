"""The program that runs the sets of Lin et al. 2023."""

import csv
from argparse import Namespace

import evidence
import lin_table
import numpy as np
import pytest
from datasets import Data
from sklearn.metrics import mean_squared_error

from sparsegpc import LocalCorrection, SparseGPRegressor


@pytest.fixture
def wave(rng):
    """150 noisy rows of a sine, the last 30 of which are the test rows of the first split."""
    X = rng.uniform(0.0, 6.0, (150, 1))
    y = 5.0 + 2.0 * np.sin(2.0 * X[:, 0]) + 0.2 * rng.randn(150)
    return Data(X, y, [np.arange(120, 150), np.arange(30)])


def test_results_have_the_columns_and_no_fit_twice():
    records = evidence.read(lin_table.RESULTS)
    assert tuple(records[0]) == lin_table.FIELDS
    keys = [tuple(record[name] for name in lin_table.KEY) for record in records]
    assert len(set(keys)) == len(keys)


def test_fits_run_on_the_official_split_and_once(wave, tmp_path, monkeypatch):
    path = tmp_path / "lin.csv"
    monkeypatch.setattr(lin_table, "is_available", lambda name: True)
    monkeypatch.setattr(lin_table, "load_regression", lambda name: wave)
    arguments = Namespace(sets=["pol"], points=12, max_iter=50, max_reselections=2, splits=1)
    lin_table.run(arguments, path)
    (record,) = evidence.read(path)
    assert (record["n_train"], record["n_test"]) == ("120", "30")
    # In units of the deviation of the targets: the noise is .2 of about 1.4.
    assert 0.08 < float(record["points_rmse"]) < 0.25
    assert 0.08 < float(record["corrected_rmse"]) < 0.25
    assert float(record["points_log_density"]) > 0.3
    monkeypatch.setattr(lin_table, "figures", None)
    lin_table.run(arguments, path)
    assert len(evidence.read(path)) == 1


def test_scores_are_those_of_the_models_own_density(wave):
    model = LocalCorrection(SparseGPRegressor(n_inducing=4), mode="both").fit(wave.X, wave.y)
    rmse, log_density = lin_table.scores(model, wave.X[:20], wave.y[:20])
    own = model.corrected_estimator_.log_predictive_density(wave.X[:20], wave.y[:20])
    assert log_density == pytest.approx(own.mean(), rel=1e-10)
    assert rmse**2 == pytest.approx(mean_squared_error(wave.y[:20], model.predict(wave.X[:20])))


def test_table_averages_splits_and_separates_limits():
    one = dict.fromkeys(lin_table.FIELDS, "1.0") | {
        "set": "bike",
        "mode": "both",
        "n_inducing": "64",
        "max_iter": "100",
        "max_reselections": "10",
    }
    records = [
        one | {"points_rmse": "0.1"},
        one | {"points_rmse": "0.2", "mode": "neighbors"},
        one | {"max_iter": "20", "points_rmse": "0.4"},
    ]
    lines = lin_table.table(records).splitlines()
    rows = [next(csv.reader([line.strip()])) for line in lines if '"bike"' in line]
    assert [row[3] for row in rows] == ["1", "2"]
    assert [row[5] for row in rows] == ["0.400", "0.150"]
    assert [row[7] for row in rows] == ["both", "both, neighbors"]
    # A set without a fit has a row of dashes.
    assert any(f'"pol","{evidence.MISSING}"' in line for line in lines)


def test_comparison_shows_the_published_figures_beside_ours():
    one = dict.fromkeys(lin_table.FIELDS, "0.5") | {
        "set": "kin40k",
        "n_inducing": "1024",
        "max_iter": "100",
        "max_reselections": "0",
    }
    # With a lower limit: not shown.
    short = one | {"max_iter": "20", "points_rmse": "0.9"}
    fragment = lin_table.comparison([short, one], evidence.read(lin_table.TITSIAS))
    kin40k, protein = (
        next(csv.reader([line.strip()]))
        for line in fragment.splitlines()
        if line[3:5] in ('"k', '"p')
    )
    # Titsias 2025, tables 4 and 2, SVGP-new.
    assert kin40k[1:] == [
        *("0.182 (0.001)", "0.158 (0.000)", "0.500", "0.500"),
        *("0.152 (0.003)", "0.286 (0.002)", "0.500", "0.500"),
    ]
    assert protein[3:5] == [evidence.MISSING] * 2
