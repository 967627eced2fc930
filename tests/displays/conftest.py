"""Pictures that need no screen, and that no test leaves behind."""

import pytest


@pytest.fixture(autouse=True)
def _figures():
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    yield
    plt.close("all")
