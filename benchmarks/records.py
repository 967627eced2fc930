"""Measurements as JSON lines, as tables that can be pasted into a page, and as slopes."""

import json
from pathlib import Path

import numpy as np


def append(path, record):
    """Append a record to a file of JSON lines, if there is a path for one."""
    if path is None:
        return
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        file.write(json.dumps(record) + "\n")


def read(path):
    """Return the records of a file of JSON lines."""
    with open(path) as file:
        return [json.loads(line) for line in file if line.strip()]


def text(value, spec=""):
    """Return a number as text, or a dash where there is none."""
    if value is None or (isinstance(value, float) and not np.isfinite(value)):
        return "-"
    return format(value, spec)


def print_table(header, rows):
    """Print a simple table of reStructuredText; all cells are texts."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    rule = "  ".join("=" * width for width in widths)
    print(rule)
    print("  ".join(map(str.ljust, header, widths)).rstrip())
    print(rule)
    for row in rows:
        cells = [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]
        print("  ".join(cells).rstrip())
    print(rule, flush=True)


def slope(x, y):
    """Return the slope of the straight line through log y over log x, by least squares."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
