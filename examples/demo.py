"""Run examples of the gallery as scripts and write their pictures to output/.

python examples/demo.py                         # four examples, in under a minute
python examples/demo.py memmap save_and_load    # some by name
python examples/demo.py --all                   # all examples
"""

import argparse
import runpy
import time
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FOLDER = Path(__file__).resolve().parent
OUTPUT = FOLDER.parent / "output"
FIRST_LOOK = ("quickstart", "inducing_points", "heteroscedastic_noise", "calibration")


def run(name):
    """Run an example, save its figures and print their paths."""
    print(f"\n=== {name} ===")
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
        runpy.run_path(str(FOLDER / f"plot_{name}.py"))
    for place, number in enumerate(plt.get_fignums(), start=1):
        picture = OUTPUT / (f"{name}.png" if place == 1 else f"{name}_{place}.png")
        plt.figure(number).savefig(picture, dpi=100)
        print(f"picture: {picture.relative_to(FOLDER.parent)}")
    plt.close("all")
    print(f"{time.perf_counter() - start:.1f} s")


def main():
    """Run the examples that the command line names."""
    known = sorted(path.stem.removeprefix("plot_") for path in FOLDER.glob("plot_*.py"))
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog=f"examples: {', '.join(known)}"
    )
    parser.add_argument("names", nargs="*", metavar="name", help="an example, see below")
    parser.add_argument("--all", action="store_true", help="all of them")
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(known):
        parser.error(f"no such example: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    OUTPUT.mkdir(exist_ok=True)
    for name in known if chosen.all else chosen.names or FIRST_LOOK:
        run(name)


if __name__ == "__main__":
    main()
