"""Rows that are read by slices: what comes out, how much is read at a time, and what is refused."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array

from sparsegpc._core.rows import sources
from sparsegpc._core.rows.merged_rows import find_rows, merge_rows
from sparsegpc._core.rows.sources import (
    RowSource,
    column_deviations,
    gives_slices,
    map_rows,
    spaced_rows,
    take_rows,
)


class OnlySlices:
    """Rows that can be had by slices only, and how many were, at most, by one."""

    def __init__(self, rows):
        self._rows = rows
        self.shape, self.dtype = rows.shape, rows.dtype
        self.most, self.n_reads = 0, 0

    def __getitem__(self, rows):
        assert isinstance(rows, slice)
        assert rows.step is None
        self.most, self.n_reads = max(self.most, rows.stop - rows.start), self.n_reads + 1
        return self._rows[rows]

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("read as a whole")


def mapped(path, rows, **options):
    """Return a read-only memory map of `rows`."""
    np.ascontiguousarray(rows).tofile(path)
    return np.memmap(path, dtype=rows.dtype, mode="r", shape=rows.shape, **options)


@pytest.fixture
def X(rng):
    return rng.standard_normal((100, 3))


@pytest.fixture(params=["memmap", "slices"])
def wrap(request, tmp_path):
    """A function that puts an array where it is read by slices."""
    if request.param == "slices":
        return OnlySlices
    return lambda rows: mapped(tmp_path / "rows", rows)


ASKED = [
    slice(10, 30),
    slice(90, 200),
    slice(None),
    slice(5, 5),
    slice(10, 30, 7),
    slice(30, 10, -1),
    np.array([3, 4, 50]),
    np.array([50, 3, 99, 3, 0]),
    np.array([], dtype=int),
]


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_rows_are_those_of_the_array(asked, wrap, X):
    source = RowSource(wrap(X))
    rows = source[asked]
    np.testing.assert_array_equal(rows, X[asked])
    assert type(rows) is np.ndarray
    assert rows.dtype == np.float64
    assert rows.flags.c_contiguous
    assert source.shape == (100, 3)
    assert len(source) == 100


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_rows_of_a_subset_of_a_subset_are_those_of_the_array(asked, wrap, rng):
    X = rng.standard_normal((300, 2))
    odd, some = np.arange(1, 300, 2), np.flatnonzero(np.arange(150) % 3)
    subset = RowSource(wrap(X)).subset(odd).subset(some)
    assert len(subset) == 100
    np.testing.assert_array_equal(subset[asked], X[odd][some][asked])


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", ">f8", "<i2", "u1", "?"])
def test_real_numbers_of_any_type_become_floats(dtype, wrap):
    X = np.arange(24).reshape(8, 3).astype(dtype)
    rows = RowSource(wrap(X))[2:7]
    assert rows.dtype == np.float64
    assert rows.dtype.isnative
    np.testing.assert_array_equal(rows, X[2:7].astype(float))


def test_it_is_never_an_array(X):
    with pytest.raises(TypeError, match="by slices"):
        np.asarray(RowSource(OnlySlices(X)))


def test_far_rows_are_read_apart_and_near_ones_together(monkeypatch, rng):
    monkeypatch.setattr(sources, "READ_BYTES", 8 * 50)
    given = OnlySlices(rng.standard_normal((10_000, 1)))
    near, far = np.arange(100, 110), np.array([3000, 9000])
    indices = np.concatenate([far, near[::2]])
    np.testing.assert_array_equal(RowSource(given)[indices], given._rows[indices])
    assert given.n_reads == 3
    assert given.most == 9
    RowSource(given)[np.arange(0, 10_000, 10)]
    assert given.most <= 50


def test_what_is_known_of_all_rows_is_read_in_pieces(monkeypatch, rng):
    monkeypatch.setattr(sources, "READ_BYTES", 8 * 3 * 7)
    X = rng.standard_normal((100, 3)) * [1.0, 5.0, 0.0] + [0.0, 1e6, 3.0]
    weight = rng.uniform(size=100)
    given = OnlySlices(X)
    source = RowSource(given)
    np.testing.assert_array_equal(source.min(axis=0), X.min(axis=0))
    np.testing.assert_array_equal(source.max(axis=0), X.max(axis=0))
    np.testing.assert_allclose(source.std(axis=0), X.std(axis=0), rtol=1e-12)
    mean = weight @ X / weight.sum()
    expected = np.sqrt(weight @ (X - mean) ** 2 / weight.sum())
    found = column_deviations(source, weight, X[3])
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(map_rows(lambda rows: rows.T**2, source), X.T**2)
    few = source.subset(np.array([2, 50, 51]))
    np.testing.assert_array_equal(few.max(axis=0), X[[2, 50, 51]].max(axis=0))
    assert given.most == 7


def test_ranges_are_read_once(X):
    given = OnlySlices(X)
    source = RowSource(given)
    assert source.first_not_finite() is None
    source.min(axis=0), source.max(axis=0)
    assert given.n_reads == 1


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 41, 99])
def test_the_first_value_that_is_not_finite_is_found(value, row, monkeypatch, X):
    monkeypatch.setattr(sources, "READ_BYTES", 8 * 3 * 7)
    X[row, 1] = value
    X[99, 2] = np.nan
    assert RowSource(OnlySlices(X)).first_not_finite() == (row, 1)


def test_integers_are_finite_without_being_read():
    given = OnlySlices(np.arange(10).reshape(5, 2))
    assert RowSource(given).first_not_finite() is None
    assert given.n_reads == 0


def test_rows_that_change_between_two_readings_are_reported(X):
    given = OnlySlices(X)
    source = RowSource(given)
    source._ranges = np.full(3, np.nan), np.full(3, np.nan)
    with pytest.raises(ValueError, match="must not change"):
        source.first_not_finite()


def test_slices_of_another_shape_than_promised_are_refused(X):
    given = OnlySlices(X)
    given._rows = np.zeros((20, 4))
    with pytest.raises(ValueError, match=r"X\[0:10\] must have the shape \(10, 3\), got \(10, 4\)"):
        RowSource(given)[:10]


def test_masked_values_are_refused_but_a_mask_of_nothing_is_none(X):
    given = OnlySlices(np.ma.masked_greater(X, X.max() + 1.0))
    np.testing.assert_array_equal(RowSource(given)[:5], X[:5])
    given = OnlySlices(np.ma.masked_less(X, 0.0))
    with pytest.raises(ValueError, match="rows 0 to 99, which are masked"):
        RowSource(given)[:]


def test_numbers_of_rows_that_nobody_knows_are_refused(X):
    given = OnlySlices(X)
    given.shape = (np.nan, 3)
    with pytest.raises(ValueError, match=r"must have known numbers of rows .* \(nan, 3\)"):
        RowSource(given)


def test_complex_numbers_are_refused(X):
    with pytest.raises(ValueError, match="real numbers, got the dtype complex128"):
        RowSource(OnlySlices(X.astype(complex)))


def test_rows_within_the_memory_are_read_at_once_and_others_later(X):
    indices = np.array([3, 5, 60])
    source = RowSource(OnlySlices(X))
    read = take_rows(source, indices, 8 * 3 * 3)
    assert type(read) is np.ndarray
    later = take_rows(source, indices, 8 * 3 * 3 - 1)
    assert isinstance(later, RowSource)
    for rows in (read, later[:], take_rows(X, indices)):
        np.testing.assert_array_equal(rows, X[indices])


def test_all_rows_are_the_source_itself(X):
    source = RowSource(OnlySlices(X))
    assert source.subset(np.arange(100)) is source


@pytest.mark.parametrize(("n", "expected"), [(5, [0, 24, 49, 74, 99]), (100, range(100))])
def test_spaced_rows_reach_from_end_to_end(n, expected, X):
    np.testing.assert_array_equal(spaced_rows(X, n), expected)
    np.testing.assert_array_equal(spaced_rows(X[:3], n), [0, 1, 2])


VIEWS = {
    "whole": lambda X: X,
    "later rows": lambda X: X[11:],
    "every other row": lambda X: X[::2],
    "backwards": lambda X: X[::-1],
    "some columns": lambda X: X[:, 1:3],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("skipped", [0, 40, 4096 * 2 + 8])
def test_a_memory_map_goes_to_another_process_as_a_place_in_a_file(view, skipped, tmp_path, rng):
    X = rng.standard_normal((5000, 4))
    path = tmp_path / "rows"
    with path.open("wb") as file:
        file.write(bytes(skipped) + X.tobytes())
    source = RowSource(VIEWS[view](np.memmap(path, np.float64, "r", skipped, X.shape)))
    for _ in range(2):
        sent = pickle.dumps(source)
        assert len(sent) < 1000
        source = pickle.loads(sent)
        np.testing.assert_array_equal(source[:], VIEWS[view](X))


def test_what_differs_from_the_file_goes_to_another_process_by_value(tmp_path, X):
    mapped(tmp_path / "rows", X)
    changed = np.memmap(tmp_path / "rows", np.float64, "c", shape=X.shape)
    changed[7] = 0.0
    arrived = pickle.loads(pickle.dumps(RowSource(changed)))
    np.testing.assert_array_equal(arrived[6:9], changed[6:9])


class Frame(OnlySlices):
    __dataframe__ = None


class Tensor(OnlySlices):
    __dlpack__ = None


def test_what_is_read_by_slices(tmp_path, X):
    assert gives_slices(mapped(tmp_path / "rows", X))
    assert gives_slices(OnlySlices(X))
    # With three dimensions too, to be refused before anything is read.
    assert gives_slices(OnlySlices(X[None]))


def test_what_is_in_memory_is_not_read_by_slices(tmp_path, X):
    column = mapped(tmp_path / "rows", X[:, 0])
    for given in (X, X.tolist(), csr_array(X), Frame(X), Tensor(X), column, OnlySlices(X[0]), "X"):
        assert not gives_slices(given)


def test_rows_of_a_source_are_neither_sorted_nor_merged(rng):
    X = rng.standard_normal((6, 2))[[3, 1, 1, 0, 5, 3]]
    weight, values = rng.uniform(size=(2, 6))
    source = RowSource(OnlySlices(X))
    rows = merge_rows(source, weight)
    assert rows.X is source
    assert rows.weight is weight
    np.testing.assert_array_equal(rows.mean(values, weight), values)
    assert rows.mean(np.arange(6), weight).dtype == np.float64
    np.testing.assert_array_equal(rows.total(values), values)
    np.testing.assert_array_equal(rows.repeated(values), values)
    np.testing.assert_array_equal(rows.first, np.arange(6))
    assert find_rows(X[:1], source) is None


def test_mapped_rows_are_those_of_the_function(wrap, X):
    source = RowSource(wrap(X)).mapped(lambda rows: 2.0 * rows + 1.0)
    np.testing.assert_array_equal(source[10:20], 2.0 * X[10:20] + 1.0)
    np.testing.assert_array_equal(source[np.array([5, 3])], 2.0 * X[[5, 3]] + 1.0)
    np.testing.assert_array_equal(source.subset(np.arange(1, 100, 2))[:4], 2.0 * X[1:8:2] + 1.0)
    np.testing.assert_array_equal(source.max(axis=0), 2.0 * X.max(axis=0) + 1.0)
