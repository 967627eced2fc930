"""What the reproductions share: files of results, a line for each fit, and tables made of them."""

import csv
import re
from pathlib import Path

# In a cell without a figure: a hyphen would be a list.
MISSING = "\N{EN DASH}"


def read(path):
    """Return the records of a CSV file, texts by name; none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def append(path, records, fields=None):
    """Append records to a CSV file, which is made if it is missing; floats have six digits.

    Without `fields` all records have the keys of the first.
    """
    is_new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, fields or records[0], lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows({key: _rounded(value) for key, value in one.items()} for one in records)


def pending(jobs, path, key):
    """Yield the jobs without a record in a CSV file yet, behind a progress bar that names them.

    A job is a tuple of the values that its record has for the names in `key`.
    """
    from tqdm import tqdm

    done = {tuple(record[name] for name in key) for record in read(path)}
    progress = tqdm([job for job in jobs if tuple(map(str, job)) not in done], unit="fit")
    for job in progress:
        progress.set_postfix_str(" ".join(map(str, job)))
        yield job


def parse_or_render(parser, render):
    """Return the parsed arguments; with ``--render`` write the tables instead, and exit."""
    parser.add_argument("--render", metavar="FOLDER", help="write the tables, fit nothing")
    arguments = parser.parse_args()
    if arguments.render:
        Path(arguments.render).mkdir(parents=True, exist_ok=True)
        render(arguments.render)
        parser.exit()
    return arguments


def _rounded(value):
    return f"{value:.6g}" if isinstance(value, float) else value


def csv_table(header, rows, title=None, stubs=1):
    """Return a csv-table directive; all cells are texts, the first `stubs` of a row its head."""
    lines = [
        ".. csv-table::" + ("" if title is None else f" {title}"),
        "   :header-rows: 1",
        f"   :stub-columns: {stubs}",
        "",
    ]
    lines += ["   " + ",".join(map(_quoted, row)) for row in [header, *rows]]
    return "\n".join(lines) + "\n"


def _quoted(cell):
    unbroken = cell.replace(" / ", "\N{NO-BREAK SPACE}/\N{NO-BREAK SPACE}").replace('"', '""')
    return f'"{with_minus(unbroken)}"'


def with_minus(text):
    """Return the text with minus signs before its negative numbers."""
    return re.sub(r"(?<![\w)])-(?=[.\d])", "\N{MINUS SIGN}", text)


def grouped(value):
    """Return a number without decimals as text, its thousands apart."""
    return f"{value:,.0f}".replace(",", " ")


def dash(value, spec=""):
    """Return a number as text, or a dash for None."""
    return MISSING if value is None else format(value, spec)
