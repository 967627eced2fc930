"""Which room may import which: the architecture, read off the import statements."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import sparsegpc

PACKAGE = Path(sparsegpc.__file__).parent

# What each room of the core may import of the others, from the bottom up. A room that is not
# listed belongs to the estimator layer, which the core may not import.
CORE = {
    "_arrays": set(),
    "_blas": set(),
    "_linalg": {"_arrays", "_blas"},
    "_rows": {"_arrays"},
    "_sources": set(),
    "_merging": {"_sources"},
    "_cluster": {"_rows", "_sources"},
    "_quadrature": set(),
    "_kernels": {"_arrays", "_linalg", "_rows"},
    "_kernel_algebra": {"_linalg", "_rows", "_kernels"},
    "_expectations": set(),
    "_class_integrals": {"_rows"},
    "_likelihoods": set(),
    "_gaussian": {"_likelihoods"},
    "_binary": {"_quadrature", "_expectations", "_likelihoods"},
    "_multiclass": {"_expectations", "_class_integrals", "_likelihoods", "_gaussian"},
    "_features": {"_arrays", "_linalg", "_rows"},
    "_bounds": {"_arrays", "_linalg", "_rows"},
    "_truncation": {"_bounds"},
    "_upper_bounds": {"_linalg", "_rows", "_bounds"},
    "_certificates": {"_linalg", "_rows", "_bounds", "_upper_bounds"},
    "_selection": {"_linalg", "_rows", "_cluster"},
    "_means": {"_linalg", "_bounds", "_likelihoods"},
    "_sites": {"_linalg", "_rows", "_bounds", "_likelihoods", "_means"},
    "_choices": {"_linalg", "_selection"},
    "_model": {
        "_linalg",
        "_rows",
        "_sources",
        "_cluster",
        "_features",
        "_bounds",
        "_likelihoods",
        "_sites",
        "_choices",
    },
    "_noise_process": {
        "_linalg",
        "_sources",
        "_bounds",
        "_likelihoods",
        "_gaussian",
        "_selection",
        "_sites",
        "_model",
    },
    "_curriculum": {"_linalg", "_choices"},
    "_inference": {"_linalg", "_rows", "_choices", "_model", "_curriculum"},
    "_growth": {"_inference"},
    "_stochastic": {"_linalg", "_rows", "_features", "_bounds"},
    "_stochastic_gaussian": {"_bounds", "_likelihoods", "_gaussian", "_stochastic"},
    "_stochastic_labels": {"_linalg", "_rows", "_bounds", "_merging", "_sites", "_stochastic"},
}
CORE_EXTERNALS = {"numpy", "scipy", "threadpoolctl"}
# Packages that are imported only when a user brings them along.
OPTIONAL = {"_cluster": {"dask", "distributed", "cloudpickle"}}
# scikit-learn requires joblib.
ESTIMATOR_EXTERNALS = CORE_EXTERNALS | {"sklearn", "joblib"}

FILES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def imports_of(source):
    """Return the absolute modules that a source imports anywhere, and whether any is relative."""
    modules, relative = set(), False
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            relative |= node.level > 0
            if node.level == 0 and node.module == "sparsegpc":
                # "from sparsegpc import _linalg" names a room, or a public name of __init__.
                modules |= {f"sparsegpc.{alias.name}" for alias in node.names}
            elif node.level == 0:
                modules.add(node.module)
        elif isinstance(node, ast.Call):
            modules |= _named_dynamically(node)
    return modules, relative


def _named_dynamically(call):
    """Modules that ``__import__`` or ``import_module`` load by a literal name."""
    function = call.func
    name = getattr(function, "id", None) or getattr(function, "attr", None)
    if name not in ("__import__", "import_module"):
        return set()
    return {arg.value for arg in call.args[:1] if isinstance(arg, ast.Constant)}


def split(modules):
    """Return the rooms of the package and the external packages among imported modules."""
    rooms, externals = set(), set()
    for module in modules:
        package, _, inner = module.partition(".")
        if package == "sparsegpc":
            rooms.add(inner.partition(".")[0] if inner.partition(".")[0] in FILES else "__init__")
        elif package not in sys.stdlib_module_names:
            externals.add(package)
    return rooms, externals


def rooms_and_externals(name):
    return split(imports_of(FILES[name].read_text(encoding="utf-8"))[0])


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import sklearn.base as b", {"sklearn.base"}),
        ("def f():\n    from sklearn.utils import x", {"sklearn.utils"}),
        ("if a:\n    import importlib\n    importlib.import_module('sklearn')", None),
        ("from sparsegpc import _linalg, _rows", {"sparsegpc._linalg", "sparsegpc._rows"}),
        ("from sparsegpc._linalg import cholesky", {"sparsegpc._linalg"}),
    ],
)
def test_the_reader_of_imports_sees_every_form(source, expected):
    modules, relative = imports_of(source)
    assert not relative
    assert modules == (expected or {"importlib", "sklearn"})


def test_the_reader_of_imports_sees_relative_ones():
    assert imports_of("def f():\n    from . import _linalg")[1]


def test_every_core_room_of_the_table_exists():
    assert set(CORE) <= set(FILES)


def test_the_table_itself_only_points_down():
    seen = set()
    for room, allowed in CORE.items():
        assert allowed <= seen, f"{room} stands below {allowed - seen}"
        seen.add(room)


@pytest.mark.parametrize("room", CORE)
def test_core_room_imports_only_the_rooms_that_it_may(room):
    rooms, _ = rooms_and_externals(room)
    assert rooms <= CORE[room]


@pytest.mark.parametrize("room", CORE)
def test_core_room_imports_numpy_and_scipy_only(room):
    _, externals = rooms_and_externals(room)
    assert externals <= CORE_EXTERNALS | OPTIONAL.get(room, set())


@pytest.mark.parametrize("name", sorted(set(FILES) - set(CORE)))
def test_estimator_layer_imports_the_core_and_scikit_learn_only(name):
    rooms, externals = rooms_and_externals(name)
    assert externals <= ESTIMATOR_EXTERNALS
    assert name == "__init__" or "__init__" not in rooms, "import the room, not the package"


@pytest.mark.parametrize("name", FILES)
def test_imports_are_absolute(name):
    assert not imports_of(FILES[name].read_text(encoding="utf-8"))[1]


def test_imports_have_no_cycle():
    graph = {name: rooms_and_externals(name)[0] for name in FILES}
    # Raises CycleError, which names the cycle.
    tuple(TopologicalSorter(graph).static_order())


def test_core_works_without_scikit_learn():
    """Each room is imported, from the bottom up, in a process where scikit-learn cannot be."""
    # A bare package stands in for sparsegpc/__init__.py, which offers the estimators.
    script = f"""
import importlib, sys, types
package = types.ModuleType("sparsegpc")
package.__path__ = [{str(PACKAGE)!r}]
sys.modules["sparsegpc"] = package
sys.modules["sklearn"] = None
for room in {list(CORE)!r}:
    importlib.import_module("sparsegpc." + room)
    loaded = [m for m in sys.modules if m.startswith("sklearn.")]
    assert not loaded, (room, loaded)
"""
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
