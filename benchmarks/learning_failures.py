"""Does a fit find what the data ask for? One line for each way in which it may not.

Each kind of failure has a few problems, over several seeds. What a fit reaches stands beside what
it should reach, its reference: a search from good start values with the same model
(`fit_from_kernel`), the same model with a point at every row, one summand of a sum alone, the same
model with other settings, or scikit-learn's full regressor.

A bound is short if it is more than a nat and more than 1 % below its reference; 1 % is that of the
gain of the reference over a constant function. A score (R^2, accuracy, AUC, the share of columns
found) is short if it is more than .005 below, after `partial_fit` .05. A warning is short if it is
missing. The line of a problem has the case that falls short most; evaluations of the bound, on all
rows and on subsets, and CPU seconds are means over the fits, references left out. Rows 6 and 8 need
the folder of `datasets`. ::

    python benchmarks/learning_failures.py --rows 1 2 --out output/failures.jsonl
    python benchmarks/learning_failures.py --from output/failures.jsonl
"""

import argparse

import numpy as np
from learning_cases import KINDS
from records import append, print_table, read
from threadpoolctl import threadpool_limits

ROWS = dict(enumerate(KINDS, start=1))


def show(records):
    """Print one line for each problem and quantity."""
    groups = {}
    for one in records:
        groups.setdefault((one["row"], one["problem"], one["quantity"]), []).append(one)
    rows = []
    for (row, problem, quantity), own in sorted(groups.items(), key=lambda group: group[0][0]):
        worst = max(own, key=lambda one: one["excess"])
        n_short = sum(one["excess"] > 1.0 for one in own)
        cells = [f"{row}", problem, quantity, worst["case"]]
        cells += [f"{worst['reached']:.4g}", f"{worst['should']:.4g}"]
        for key, spec in (("on_all", ".0f"), ("on_subsets", ".0f"), ("cpu", ".2f")):
            found = [one[key] for one in own if key in one]
            cells.append(format(np.mean(found), spec) if found else "-")
        rows.append([*cells, f"{n_short} of {len(own)} short" if n_short else "ok"])
    header = ["row", "problem", "quantity", "worst case", "reached", "should"]
    print_table([*header, "on all", "on subsets", "CPU s", "verdict"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--out", help="file of JSON lines to append to")
    parser.add_argument("--from", dest="source", help="print the table of such a file, fit nothing")
    arguments = parser.parse_args()
    records = read(arguments.source) if arguments.source else []
    for row in [] if arguments.source else arguments.rows:
        for one in ROWS[row]():
            records.append({"row": row} | one)
            append(arguments.out, records[-1])
    show(records)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
