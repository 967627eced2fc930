"""What the tests of learning share."""

import pytest

from sparsegpc._core.learning import growing_subsets


@pytest.fixture
def early(monkeypatch):
    """Learn from subsets even of few rows: of 2000, those of 125 and 500."""
    monkeypatch.setattr(growing_subsets, "MANY_ROWS", 1000)
    monkeypatch.setattr(growing_subsets, "SMALLEST_SUBSET", 100)
