"""What the tests of learning share."""

import pytest

from sparsegpc._core.learning import curriculum


@pytest.fixture
def early(monkeypatch):
    """Learn from subsets even of few rows: of 2000, those of 125 and 500."""
    monkeypatch.setattr(curriculum, "FEWEST_ROWS", 1000)
    monkeypatch.setattr(curriculum, "SMALLEST_SUBSET", 100)
