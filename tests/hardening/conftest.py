"""Fixtures of the tests of hardening."""

import pytest

from tests.hardening.interrupts import quick_start


@pytest.fixture
def quick_batches():
    """Few iterations for what batches begin with."""
    with quick_start():
        yield
