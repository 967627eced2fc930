"""Tables and pictures of reproductions and the tabular suite, from files of results.

Nothing is fitted here. The documentation calls `render_all` when it is built; by hand

    python benchmarks/report.py FOLDER
"""

import argparse
from importlib import import_module
from pathlib import Path

# Each of these has a function ``render(folder)``.
PROGRAMS = (
    "thesis_report",
    "thesis_sparsity",
    "thesis_convergence",
    "thesis_pictures",
    "titsias_tables",
    "lin_table",
    "hensman_tables",
    "hensman_references",
    "uhrenholt_points",
    "tabular_report",
    "fit_times",
    "scaling",
    "large_sets",
    "interval_coverage",
    "few_rows",
)


def render_all(folder):
    """Write all fragments (.rst) and pictures into a folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        import_module(name).render(folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    render_all(parser.parse_args().folder)
