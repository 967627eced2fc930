"""Fit ten thousand hostile but legal problems, and say which promises are broken.

    python -m tests.hardening.random_fits --runs 10000 --jobs 2 --log output/random_fits.jsonl
    python -m tests.hardening.random_fits --further --runs 3000 --log output/further_fits.jsonl

With ``--further`` the problems are those of `further_problems`, whose seeds are their own.

One line of JSON a problem is added to the log; seeds that it has are not fitted again. A problem is
drawn from its seed alone: ``--first 1234 --runs 1 --show`` repeats one and prints it.
"""

import argparse
import faulthandler
import json
import multiprocessing
import signal
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from tests.hardening import further_problems, problems
from tests.hardening.further_promises import FurtherPromises
from tests.hardening.promises import Promises, fit_and_check

# A fit that takes longer than this hangs, as far as its user is concerned.
PATIENCE = 600


# How a problem is drawn, and what checks it, by whether it is one of `further_problems`.
DRAWS = {
    False: (problems.draw_problem, Promises),
    True: (further_problems.draw_problem, FurtherPromises),
}


class Hanging(BaseException):
    """Raised in a fit that takes too long."""


def _give_up(signum, frame):
    raise Hanging


def run(seed, further=False):
    """Return what is written to the log about the problem of a seed."""
    draw, promises = DRAWS[further]
    start = time.perf_counter()
    signal.signal(signal.SIGALRM, _give_up)
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        problem = draw(seed, folder)
        signal.alarm(PATIENCE)
        try:
            broken, n_evaluations, warned = fit_and_check(problem, promises)
        except Hanging:
            broken, n_evaluations, warned = [f"hangs for {PATIENCE} s"], -1, []
        finally:
            signal.alarm(0)
    return {
        "seed": seed,
        "kind": type(problem.estimator).__name__,
        "broken": broken,
        "n_evaluations": int(n_evaluations),
        "n_warnings": len(warned),
        "seconds": round(time.perf_counter() - start, 2),
        "problem": str(problem) if broken else "",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--show", action="store_true", help="print each problem")
    parser.add_argument("--further", action="store_true", help="draw from further_problems")
    options = parser.parse_args()
    faulthandler.enable()
    seeds = range(options.first, options.first + options.runs)
    lines = []
    if options.log is not None and options.log.exists():
        lines = [json.loads(line) for line in options.log.read_text().splitlines()]
    known = {line["seed"] for line in lines}
    lines = [line for line in lines if line["seed"] in seeds]
    todo = [seed for seed in seeds if seed not in known]
    if options.show:
        for seed in todo:
            print(DRAWS[options.further][0](seed))
    with multiprocessing.Pool(options.jobs) as pool:
        for line in pool.imap_unordered(partial(run, further=options.further), todo):
            lines.append(line)
            if options.log is not None:
                options.log.parent.mkdir(parents=True, exist_ok=True)
                with options.log.open("a") as log:
                    log.write(json.dumps(line) + "\n")
            for text in line["broken"]:
                print(f"seed {line['seed']} ({line['kind']}): {text}", flush=True)
    report(lines)
    return any(line["broken"] for line in lines)


def report(lines):
    """Print what the fits came to."""
    broken = [line for line in lines if line["broken"]]
    print(f"{len(lines)} problems, {len(broken)} with broken promises")
    for kind, n in sorted(Counter(line["kind"] for line in lines).items()):
        own = [line for line in lines if line["kind"] == kind]
        n_broken = sum(bool(line["broken"]) for line in own)
        effort = np.array([line["n_evaluations"] for line in own])
        seconds = np.array([line["seconds"] for line in own])
        print(
            f"{kind:28s} {n:6d} fits, {n_broken} broken, evaluations median "
            f"{np.median(effort):.0f} most {effort.max()}, seconds median "
            f"{np.median(seconds):.2f} most {seconds.max():.1f}, "
            f"{np.mean([line['n_warnings'] > 0 for line in own]):.0%} warned"
        )


if __name__ == "__main__":
    sys.exit(main())
