"""How far fits are apart that must agree: by circumstance and model, and across BLAS.

Without arguments, the models of `same_cases.LONG` that need no download, in this process under all
its circumstances, and in others: fresh, with threads, and with the kernels of other processors::

    SPARSEGPC_DATA=folder python -m tests.hardening.same_answer

Other interpreters, with another BLAS, are commands. ``debian_blas.sh`` makes some of Debian's numpy
and scipy: of the reference BLAS and LAPACK, ATLAS, BLIS and OpenBLAS::

    tests/hardening/debian_blas.sh FOLDER
    python -m tests.hardening.same_answer --only processes --interpreter FOLDER/reference

Each line is a model, with the largest relative difference of its bound and that of its predictions,
and where they occur. ``--cases`` is a regular expression of their names.
"""

import argparse
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.hardening import same_cases

ROOT = Path(__file__).parents[2]
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
# What the environment of another process has beside one thread.
FRESH = {
    "fresh process": {"PYTHONHASHSEED": "1"},
    "fresh process, other hashes": {"PYTHONHASHSEED": "2"},
}
THREADED = {f"{n} threads of BLAS": dict.fromkeys(THREADS, str(n)) for n in (2, 4)}
PROCESSORS = {
    f"OpenBLAS for {name}": {"OPENBLAS_CORETYPE": name}
    for name in ("Prescott", "Haswell", "Zen", "SkylakeX")
}
# Work on a cluster is slow.
FEW = r"classifier, given$|regressor, given$|classifier, hgv|regressor, hgv"


def chosen(cases, pattern):
    """Return the cases whose name the pattern is found in, and whose data are here."""
    return {
        name: case
        for name, case in cases.items()
        if re.search(pattern, name) and same_cases.is_here(case)
    }


def answers(cases):
    """Return the plain `Answer` of each case, None where a fit fails."""
    found = {}
    for name, case in cases.items():
        try:
            found[name] = same_cases.fit(case.estimator, *same_cases.load(case.data))
        except (RuntimeError, StopIteration, ValueError) as error:
            # An older scipy than is asked for; said rather than hidden, and the others go on.
            print(f"{name} failed: {error!r}", file=sys.stderr)
    return found


def elsewhere(names, command=(sys.executable,), long=True, **environment):
    """Return the plain answers of another interpreter or environment."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "answers.json")
        pattern = "^(" + "|".join(map(re.escape, names)) + ")$"
        arguments = ["-m", "tests.hardening.same_answer", "--record", str(path), "--cases", pattern]
        if not long:
            arguments.append("--short")
        own = {**os.environ, **dict.fromkeys(THREADS, "1"), **environment}
        subprocess.run([*command, *arguments], env=own, cwd=ROOT, check=True, timeout=3600)
        return {
            name: same_cases.Answer(bound, np.array(predictions), np.array(points))
            for name, (bound, predictions, points) in json.loads(path.read_text()).items()
        }


def record(cases, path):
    """Write the plain answers; numbers come back as they were."""
    found = {
        name: (answer.bound, answer.predictions.tolist(), answer.points.tolist())
        for name, answer in answers(cases).items()
    }
    Path(path).write_text(json.dumps(found))


def compared(found, expected):
    """Return whether two answers have the same bits, and how far bound and predictions are."""
    return (same_cases.is_same(found, expected), *same_cases.far(found, expected))


def here(case, plain, ways):
    """Return for each way how its answer is `compared`."""
    X, y = same_cases.load(case.data)
    takes_weights = "sample_weight" in inspect.signature(case.estimator.fit).parameters
    pairs = {
        name: way(case.estimator, X, y, plain)
        for name, way in ways.items()
        if takes_weights or name != "copies for weights"
    }
    return {name: compared(*pair) for name, pair in pairs.items()}


def line(name, distances):
    """Print the worst of the distances of a case; `distances` has them by circumstance."""
    if not distances:
        return
    worst, shown = (max(distances, key=lambda key: distances[key][k]) for k in (1, 2))
    n_same = sum(same for same, *_ in distances.values())
    print(
        f"{name:36s} {n_same:2d} of {len(distances):2d}  "
        f"{distances[worst][1]:7.1e} {distances[shown][2]:7.1e}  {worst}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default="", help="regular expression")
    parser.add_argument("--short", action="store_true", help="the cases of the test")
    parser.add_argument("--record", help="only write plain answers to this file")
    parser.add_argument("--only", choices=["circumstances", "processes"])
    parser.add_argument("--interpreter", action="append", default=[], help="command")
    arguments = parser.parse_args()
    all_cases = same_cases.SHORT if arguments.short else same_cases.LONG
    cases = chosen(all_cases, arguments.cases)
    if arguments.record:
        record(cases, arguments.record)
        return
    plain = answers(cases)
    heading = f"{'model':36s} same bits    bound  predicted, worst bound by"
    if arguments.only != "processes":
        ways = {**same_cases.SAME_BITS, **same_cases.SAME_NUMBERS}
        print(f"{heading} circumstance")
        for name in plain:
            few = same_cases.ON_WORKERS if re.search(FEW, name) else {}
            line(name, here(cases[name], plain[name], {**ways, **few}))
    if arguments.only != "circumstances":
        long = not arguments.short
        others = {
            name: elsewhere(plain, long=long, **own)
            for name, own in {**FRESH, **THREADED, **PROCESSORS}.items()
        }
        for command in arguments.interpreter:
            others[command] = elsewhere(plain, shlex.split(command), long=long)
        print(f"{heading} process")
        for name, expected in plain.items():
            distances = {
                other: compared(found[name], expected)
                for other, found in others.items()
                if name in found
            }
            line(name, distances)


if __name__ == "__main__":
    main()
