"""Save models with some interpreters, and load each of them with all others.

    python -m tests.hardening.persistence_versions PYTHON1 PYTHON2 ...

Each interpreter has this package and another version of scikit-learn, numpy or scipy. It fits every
model of `saved_models`, and saves it in several ways beside what it says of new rows. Loaded models
must say the same: to the last bit with the same versions, else to `TOLERANCE`, relative to the
largest number of an array. Bounds on the data of fit are computed anew, to `BOUND_TOLERANCE`. Files
that numpy itself cannot read, since a newer one wrote them, are counted apart.
"""

import argparse
import json
import pickle
import platform
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import joblib
import numpy as np
import scipy
import sklearn
import skops.io

from tests.hardening.saved_models import (
    CASES,
    QUESTIONS,
    UNFITTED,
    VARIANTS,
    answers,
    bounds,
    go_on,
)

TOLERANCE, BOUND_TOLERANCE = 1e-12, 1e-8
# What numpy 1 says of arrays in protocol 5, and of generators, that numpy 2 has pickled.
TOO_NEW_FOR_NUMPY = ("numpy._core.numeric", "is not a known BitGenerator")
ALL = {**CASES, **VARIANTS}


def _pickled(protocol):
    def save(model, path):
        path.write_bytes(pickle.dumps(model, protocol=protocol))

    return save, lambda path: pickle.loads(path.read_bytes())


def _from_skops(path):
    return skops.io.load(path, trusted=skops.io.get_untrusted_types(file=path))


WAYS = {
    **{f"pickle {protocol}": _pickled(protocol) for protocol in (2, 3, 4, 5)},
    "joblib": (lambda model, path: joblib.dump(model, path), lambda path: joblib.load(path, "r")),
    "joblib zlib": (lambda model, path: joblib.dump(model, path, compress=3), joblib.load),
    "joblib lzma": (lambda model, path: joblib.dump(model, path, ("xz", 2)), joblib.load),
    "skops": (skops.io.dump, _from_skops),
}
# What comes after predictions takes longer. The arrays of the first can only be read.
USED_FURTHER = ("joblib", "pickle 5")


def versions():
    libraries = {"sklearn": sklearn, "numpy": np, "scipy": scipy, "joblib": joblib, "skops": skops}
    found = {name: library.__version__ for name, library in libraries.items()}
    return {"python": platform.python_version(), **found}


def save_all(folder):
    """Fit, and save in all ways what was fitted and what it answers."""
    folder.mkdir()
    warnings.simplefilter("ignore")
    for name, make in ALL.items():
        model = make()
        for way, (save, _) in WAYS.items():
            save(model, folder / f"{name} - {way}")
        said = answers(model, QUESTIONS), answers(model), bounds(model)
        (folder / f"{name} - answers").write_bytes(pickle.dumps(said, protocol=2))
    for name, model in UNFITTED.items():
        for way, (save, _) in WAYS.items():
            save(model, folder / f"unfitted {name} - {way}")
    (folder / "versions").write_text(json.dumps(versions()))


def load_all(folder):
    """Return the largest deviations, what failed, and how many files numpy could not read."""
    theirs = json.loads((folder / "versions").read_text())
    same, newer = theirs == versions(), major(theirs["numpy"]) > major(np.__version__)
    found = dict.fromkeys([*WAYS, "bounds"], 0.0)
    failed, unread = [], 0
    warnings.simplefilter("ignore")
    for way, (_, load) in WAYS.items():
        for name in ALL:
            try:
                said, drawn, known = pickle.loads((folder / f"{name} - answers").read_bytes())
                model = load(folder / f"{name} - {way}")
                here = answers(model, QUESTIONS)
                found[way] = max(found[way], deviation(said, here))
                if same:
                    found[way] = max(found[way], deviation(drawn, answers(model)))
                if way in USED_FURTHER:
                    found["bounds"] = max(found["bounds"], deviation(known, bounds(model)))
                    go_on(model)
            except Exception as error:
                if newer and any(text in str(error) for text in TOO_NEW_FOR_NUMPY):
                    unread += 1
                else:
                    failed.append(f"{name}, {way}: {type(error).__name__}: {error}")
        for name, model in UNFITTED.items():
            try:
                if repr(load(folder / f"unfitted {name} - {way}")) != repr(model):
                    failed.append(f"unfitted {name}, {way}: not the same parameters")
            except Exception as error:
                failed.append(f"unfitted {name}, {way}: {type(error).__name__}: {error}")
    limits = dict.fromkeys(WAYS, 0.0 if same else TOLERANCE)
    limits["bounds"] = BOUND_TOLERANCE
    failed += [f"{way}: off by {off:.1e}" for way, off in found.items() if not off <= limits[way]]
    return {"deviations": found, "failed": failed, "unread": unread}


def major(version):
    return int(version.partition(".")[0])


def deviation(before, after):
    """Return the largest difference, relative to the largest entry of each array."""
    if before.keys() != after.keys():
        return np.inf
    return max((_difference(before[name], after[name]) for name in before), default=0.0)


def _difference(one, other):
    one, other = np.asarray(one), np.asarray(other)
    if one.shape != other.shape:
        return np.inf
    if one.dtype.kind not in "fiu":
        return 0.0 if np.array_equal(one, other) else np.inf
    largest = float(np.abs(one - other).max())
    return largest / max(float(np.abs(one).max()), np.finfo(float).tiny) if largest else 0.0


def run(python, *arguments):
    command = [python, "-m", "tests.hardening.persistence_versions", *map(str, arguments)]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return finished.stdout


def main(pythons):
    """Print a matrix, savers down and loaders across, and return what failed."""
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        folders = [Path(folder) / str(k) for k in range(len(pythons))]
        for python, place in zip(pythons, folders, strict=True):
            run(python, "--save", place)
            what = json.loads((place / "versions").read_text())
            print(f"{place.name}: " + ", ".join(f"{name} {v}" for name, v in what.items()))
        print(f"\n{len(ALL)} models, {len(UNFITTED)} not fitted, {len(WAYS)} ways:", *WAYS, sep=" ")
        print("Largest relative deviation of predictions / of bounds; saved by (down), loaded by")
        print("(the number of files that an older numpy could not read)\n")
        print("   " + "".join(f"{k:>21}" for k in range(len(pythons))))
        columns = [json.loads(run(python, "--load", *folders)) for python in pythons]
        for i in range(len(pythons)):
            line = f"{i:>2} "
            for j, column in enumerate(columns):
                off = column[i]["deviations"]
                cell = f"{max(off[way] for way in WAYS):.0e} / {off['bounds']:.0e}"
                cell += f" ({column[i]['unread']})" if column[i]["unread"] else ""
                line += f"{cell if not column[i]['failed'] else 'FAILED':>21}"
                failed += [f"saved by {i}, loaded by {j}: {what}" for what in column[i]["failed"]]
            print(line)
    print()
    print("\n".join(failed) or "Nothing failed.")
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("pythons", nargs="*", help="interpreters; none is this one")
    parser.add_argument("--save", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--load", type=Path, nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.save:
        save_all(options.save)
    elif options.load:
        print(json.dumps([load_all(folder) for folder in options.load]))
    else:
        sys.exit(bool(main(options.pythons or [sys.executable])))
