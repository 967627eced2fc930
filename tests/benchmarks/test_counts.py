"""The benchmark of counts: its sets, splits and figures."""

from argparse import Namespace

import counts
import numpy as np
import pytest
import records
from numpy.testing import assert_allclose
from scipy.stats import poisson


@pytest.fixture
def data(rng):
    """300 counts whose rate is proportional to exposure."""
    X, exposure = rng.uniform(0.0, 6.0, (300, 1)), rng.choice([1.0, 4.0], 300)
    y = rng.poisson(exposure * np.exp(1.0 + np.sin(X[:, 0]))).astype(float)
    return counts.Counts(X, y, exposure)


def test_a_table_has_every_method(data, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(counts.SETS, "made", lambda: data)
    monkeypatch.setattr(counts, "methods", lambda *_: {"poisson": counts.SparseGP("poisson")})
    arguments = Namespace(
        splits=1, rows=100, points=[], minibatches=False, out=tmp_path / "counts.jsonl"
    )
    counts.compare("made", arguments)
    assert "made: 100 training rows, 30 test rows" in capsys.readouterr().out
    (record,) = records.read(arguments.out)
    assert record["method"] == "poisson"
    assert 0.3 < record["d2"] < 1.0
    assert 0.75 < record["coverage"] <= 1.0


def test_blocks_teach_what_all_rows_do(data, monkeypatch):
    monkeypatch.setattr(counts, "BLOCK", 130)
    streamed, whole = counts.Stream("poisson"), counts.SparseGP("poisson")
    for model in (streamed, whole):
        model.fit(data)
    assert_allclose(streamed.mean(data), whole.mean(data), rtol=0.2)


def test_rates_become_counts_of_the_exposure(data):
    class Constant:
        def fit(self, X, rate, sample_weight):
            self.rate = np.average(rate, weights=sample_weight)

        def predict(self, X):
            return np.full(len(X), self.rate)

    model = counts.Rates(Constant())
    model.fit(data)
    mean = data.exposure * data.y.sum() / data.exposure.sum()
    assert_allclose(model.mean(data), mean)
    assert_allclose(model.log_density(data), poisson.logpmf(data.y, mean))
    lower, upper = model.interval(data)
    assert (poisson.cdf(upper, mean) >= 0.95).all()
    assert (poisson.cdf(lower - 1, mean) < 0.05).all()
    assert_allclose(counts.measure(model, data, data)["d2"], 0.0, atol=1e-10)


def test_delays_are_counted_within_the_hour(monkeypatch):
    """Three flights in two hours of the first day of March, a Friday."""
    columns = np.zeros((3, 8))
    columns[:, 3] = [60, 119, 120]
    columns[:, 5], columns[:, 6], columns[:, 7] = 5, 1, 3
    labels = np.array([1.0, 0.0, 1.0])
    monkeypatch.setattr(
        counts, "load_regression", lambda name: counts.Counts(columns, labels, None)
    )
    found = counts.delays()
    assert_allclose(found.X, [[1.0, 5.0, 59.0], [2.0, 5.0, 59.0]])
    assert_allclose(found.y, [1.0, 1.0])
    assert_allclose(found.exposure, [2.0, 1.0])
