"""Settings and data shared by all tests."""

import gc
import os

# Two BLAS threads make matrices of this size several times slower. Before numpy is imported.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# Each garbage collection would visit the objects of all tests, which takes half a second. So it is
# off until pytest has found the tests, and later collections leave their objects out.
gc.disable()

import numpy as np
import pytest
from hypothesis import settings

# The same examples at every run, so that a change is what makes a test fail; `make harden` sets the
# variable and draws new ones.
settings.register_profile(
    "sparsegpc",
    deadline=None,
    max_examples=12,
    print_blob=True,
    derandomize="SPARSEGPC_NEW_EXAMPLES" not in os.environ,
)
settings.load_profile("sparsegpc")


def pytest_collection_finish():
    """Collect garbage from now on, but not among the tests."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def rng():
    """A generator with a fixed seed."""
    return np.random.RandomState(0)
