"""Fit again and again in one process, while another thread predicts.

    python -m tests.hardening.long_run --fits 10000

Each round fits every model of `saved_models`, on data of its own, and compares what it says of new
rows with the first round, bit by bit. A thread beside predicts from models of the first round. The
memory that the process holds is printed once in a while; after some rounds it must not grow.
"""

import argparse
import gc
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np

from tests.hardening.saved_models import CASES, VARIANTS, answers

# Rounds after which caches are full, and by how many bytes memory may grow later.
WARM_UP, ALLOWED = 3, 32 * 2**20
# Models that depend on the state of a generator that the user passes.
STATEFUL = ("generator",)


def resident():
    """Return the bytes of memory that the process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return 4096 * pages


class Predictions:
    """A thread that predicts from fitted models until the context ends, and counts differences."""

    def __init__(self, models, expected):
        self._models, self._expected = models, expected
        self._end, self.n_done, self.different = threading.Event(), 0, set()
        self.error = None

    def __enter__(self):
        self._thread = threading.Thread(target=self._predict)
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._end.set()
        self._thread.join()

    def _predict(self):
        try:
            while not self._end.is_set():
                for name, model in self._models.items():
                    if bits_of(model) != self._expected[name]:
                        self.different.add(name)
                    self.n_done += 1
                    # Most of the time belongs to the fits.
                    if self._end.wait(0.05):
                        return
        except Exception as error:  # To be raised in the main thread.
            self.error = error


def bits_of(model):
    """Return the bits of all that a fitted estimator says of new rows."""
    return {name: np.asarray(answer).tobytes() for name, answer in answers(model).items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=10_000, help="at least four for each model")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    builders = {name: fit for name, fit in (CASES | VARIANTS).items() if name not in STATEFUL}
    models = {name: fit() for name, fit in builders.items()}
    expected = {name: bits_of(model) for name, model in models.items()}
    n_rounds = -(-options.fits // len(builders))
    different, settled, last = set(), None, time.monotonic()
    with Predictions(models, expected) as beside:
        for k in range(n_rounds):
            for name, fit in builders.items():
                if bits_of(fit()) != expected[name]:
                    different.add(name)
            gc.collect()
            held = resident()
            if k == WARM_UP:
                settled = held
            if time.monotonic() - last > 60.0 or k == n_rounds - 1:
                last = time.monotonic()
                print(f"{(k + 1) * len(builders)} fits, {held / 2**20:.0f} MiB", flush=True)
    if beside.error is not None:
        raise beside.error
    grown = 0 if settled is None else held - settled
    print(
        f"{n_rounds * len(builders)} fits of {len(builders)} models and {beside.n_done} models "
        f"asked beside: fits that differ {sorted(different)}, answers that differ "
        f"{sorted(beside.different)}, memory grown by {grown / 2**20:.1f} MiB"
    )
    return int(bool(different or beside.different or grown > ALLOWED))


if __name__ == "__main__":
    sys.exit(main())
