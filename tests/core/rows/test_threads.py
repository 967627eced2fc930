"""BLAS on one thread while it is needed, and not a moment longer, whoever comes and goes."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from threadpoolctl import ThreadpoolController

from sparsegpc._core.rows import threads
from sparsegpc._core.rows.threads import (
    available_threads,
    fair_threads,
    shared_threads,
    single_threaded_blas,
)

PATIENCE = 60.0


def blas_threads():
    info = ThreadpoolController().select(user_api="blas").info()
    return [library["num_threads"] for library in info]


def set_blas_threads(n_threads):
    for library in threads._libraries():
        threads._set_threads(library, n_threads)


@pytest.fixture
def two_blas_threads():
    """BLAS at two threads, whatever the environment; skipped where BLAS has only one."""
    before = blas_threads()
    set_blas_threads(2)
    try:
        if not blas_threads() or min(blas_threads()) < 2:
            pytest.skip("this BLAS cannot use two threads")
        yield
    finally:
        set_blas_threads(max(before, default=1))


@pytest.mark.usefixtures("two_blas_threads")
def test_single_threaded_blas_limits_and_restores():
    before = blas_threads()
    with single_threaded_blas():
        assert set(blas_threads()) == {1}
        assert available_threads() == 2, "row blocks may use what BLAS gave up"
    assert blas_threads() == before


@pytest.mark.usefixtures("two_blas_threads")
def test_single_threaded_blas_restores_after_an_exception():
    before = blas_threads()
    with pytest.raises(ArithmeticError), single_threaded_blas():
        raise ArithmeticError
    assert blas_threads() == before


@pytest.mark.usefixtures("two_blas_threads")
def test_single_threaded_blas_nests():
    before = blas_threads()
    with single_threaded_blas():
        with single_threaded_blas():
            pass
        assert set(blas_threads()) == {1}
    assert blas_threads() == before


@pytest.mark.usefixtures("two_blas_threads")
def test_available_threads_follows_the_limit_of_the_moment():
    assert available_threads() == max(blas_threads()) == 2


@pytest.mark.usefixtures("two_blas_threads")
def test_single_threaded_blas_restores_when_users_overlap_without_nesting():
    before = blas_threads()
    first, second = single_threaded_blas(), single_threaded_blas()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(blas_threads()) == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == before


@pytest.mark.usefixtures("two_blas_threads")
def test_the_last_to_leave_restores_in_whatever_thread():
    before = blas_threads()
    entered, may_leave = threading.Event(), threading.Event()

    def other():
        with single_threaded_blas():
            entered.set()
            assert may_leave.wait(PATIENCE)

    with ThreadPoolExecutor(1) as pool:
        with single_threaded_blas():
            task = pool.submit(other)
            assert entered.wait(PATIENCE)
        assert set(blas_threads()) == {1}
        may_leave.set()
        task.result()
    assert blas_threads() == before


@pytest.mark.usefixtures("two_blas_threads")
def test_it_holds_in_a_thread_after_another_has_used_it():
    with single_threaded_blas():
        pass

    def within():
        with single_threaded_blas():
            return blas_threads()

    with ThreadPoolExecutor(1) as pool:
        assert set(pool.submit(within).result()) == {1}


@pytest.mark.usefixtures("two_blas_threads")
def test_limits_of_others_around_it_are_kept_and_restored():
    before = blas_threads()

    def within():
        with single_threaded_blas():
            return blas_threads()

    with ThreadPoolExecutor(1) as pool, ThreadpoolController().limit(limits=2, user_api="blas"):
        assert set(pool.submit(within).result()) == {1}
        assert set(blas_threads()) == {2}
    assert blas_threads() == before


@pytest.mark.usefixtures("two_blas_threads")
@pytest.mark.parametrize("moment", ["entering", "restoring"])
def test_what_an_interrupt_left_undone_is_done_by_the_next(monkeypatch, moment):
    before = blas_threads()
    set_threads, calls = threads._set_threads, []

    def interrupted(library, n_threads):
        calls.append(n_threads)
        if calls.count(n_threads) == 1 and n_threads == (1 if moment == "entering" else 2):
            raise KeyboardInterrupt
        set_threads(library, n_threads)

    monkeypatch.setattr(threads, "_set_threads", interrupted)
    with pytest.raises(KeyboardInterrupt), single_threaded_blas():
        pass
    assert moment == "restoring" or blas_threads() == before
    with single_threaded_blas():
        assert set(blas_threads()) == {1}
        assert available_threads() == 2
    assert blas_threads() == before


@pytest.mark.usefixtures("two_blas_threads")
def test_a_context_that_was_never_left_ends_with_its_life():
    before, user = blas_threads(), single_threaded_blas()
    user.__enter__()
    assert set(blas_threads()) == {1}
    del user
    assert blas_threads() == before


def test_threads_are_shared_among_those_with_work_unless_they_were_before():
    inside, may_leave = threading.Barrier(3), threading.Event()

    def other(share):
        with shared_threads(share), single_threaded_blas():
            inside.wait(PATIENCE)
            assert may_leave.wait(PATIENCE)

    with ThreadPoolExecutor(2) as pool, single_threaded_blas():
        assert fair_threads(8) == 8
        tasks = [pool.submit(other, None), pool.submit(other, 3)]
        inside.wait(PATIENCE)
        try:
            assert fair_threads(8) == 8 // 3
            assert fair_threads(1) == 1
            with shared_threads(5):
                assert fair_threads(5) == 5
        finally:
            may_leave.set()
        for task in tasks:
            task.result()
        assert fair_threads(8) == 8
