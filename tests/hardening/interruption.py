"""Interrupt fits of every kind at thousands of lines, and say what they leave behind.

    python -m tests.hardening.interruption --points 50

For each kind of fit, of an unfitted and of a fitted estimator, so many lines of the package are
drawn from all that the call runs. There it meets a KeyboardInterrupt, a MemoryError or an error of
a callback, in turn. The estimator must be as it was, bit by bit, or in the very last lines
completed; nothing else may have changed.
"""

import argparse
import tempfile
import time
from collections import Counter

import numpy as np

from tests.hardening.interrupts import CASES, ERRORS, count_lines, interrupted, prepared


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=50, help="lines for each kind of fit")
    parser.add_argument("--cases", nargs="*", default=list(CASES), help="kinds of fits")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, ends, n_wrong, begin = np.random.RandomState(options.seed), Counter(), 0, time.time()
    columns = f"{'lines':>9}{'tried':>7}{'as before':>11}{'completed':>11}{'wrong':>7}"
    print(f"{'fit':32}{'of':>10}{columns}")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.cases:
            case = CASES[name]
            for fitted in (False, True):
                with case.around():
                    found, n_lines = _run(case, fitted, options.points, rng, folder)
                own = Counter(outcome.end for outcome in found)
                wrong = [outcome for outcome in found if outcome.wrong]
                print(
                    f"{name:32}{'a fitted' if fitted else 'a new':>10}{n_lines:9}{len(found):7}"
                    f"{own['as before']:11}{own['completed']:11}{len(wrong):7}",
                    flush=True,
                )
                for outcome in wrong:
                    print(f"    {outcome.place}: {'; '.join(outcome.wrong)}", flush=True)
                ends += own
                n_wrong += len(wrong)
    n = sum(ends.values())
    print(f"{n} interrupts, {dict(ends)}, {n_wrong} wrong, {time.time() - begin:.0f} s")
    return n_wrong > 0


def _run(case, fitted, n_points, rng, folder):
    start = prepared(case, fitted, folder)
    n_lines = count_lines(case, start, folder)
    # The first and the last lines always: there the way in and out is.
    edges = [*range(1, 6), *range(n_lines - 4, n_lines + 1)] if n_points > 10 else []
    lines = [*edges, *rng.randint(1, n_lines + 1, size=n_points - len(edges))]
    found = []
    for k, line in enumerate(lines):
        outcome = interrupted(case, start, line, ERRORS[k % len(ERRORS)], folder)
        # Threads may run a few lines more or less than the first time.
        if outcome.end != "not reached" or outcome.wrong:
            found.append(outcome)
    return found, n_lines


if __name__ == "__main__":
    raise SystemExit(main())
