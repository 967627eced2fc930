"""Which room may import which: the architecture, read off the import statements."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import sparsegpc
from tests.for_each import for_each

PACKAGE = Path(sparsegpc.__file__).parent

# What each package of the core may import of the others, from the bottom up. What is in none of
# them belongs to the estimator layer, which the core may not import.
CORE = {
    "numerics": set(),
    "rows": {"numerics"},
    "kernels": {"numerics", "rows"},
    "likelihoods": {"numerics", "rows"},
    "optimisers": {"numerics"},
    "latent_inputs": {"numerics", "rows", "optimisers"},
    "bounds": {"numerics", "rows"},
    "selection": {"numerics", "rows"},
    "models": {"numerics", "rows", "likelihoods", "optimisers", "bounds", "selection"},
    "diagnostics": {"numerics", "rows", "models"},
    "periods": {"numerics", "rows", "selection", "diagnostics"},
    "learning": {"numerics", "rows", "likelihoods", "optimisers", "bounds", "selection", "models"},
    "nearest_rows": {"numerics", "rows", "likelihoods", "optimisers", "selection", "learning"},
    "minibatches": {
        "numerics",
        "rows",
        "likelihoods",
        "optimisers",
        "bounds",
        "models",
        "learning",
    },
}
CORE_EXTERNALS = {"numpy", "scipy", "threadpoolctl"}
# Packages that are imported only when a user brings them along.
OPTIONAL = {
    "_core.rows.dask_blocks": {"distributed"},
    "_core.rows.dask_client": {"dask", "cloudpickle"},
    "displays._drawing": {"matplotlib"},
    "displays._effects": {"matplotlib"},
    "displays._inducing_points": {"matplotlib"},
    "displays._sparsity": {"matplotlib"},
}
# scikit-learn requires joblib.
ESTIMATOR_EXTERNALS = CORE_EXTERNALS | {"sklearn", "joblib"}

FILES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
ROOMS = [name for name in FILES if name.startswith("_core.")]


def imports_of(source):
    """Return the absolute modules that a source imports anywhere, and whether any is relative."""
    modules, relative = set(), False
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            relative |= node.level > 0
            if node.level == 0 and node.module == "sparsegpc":
                # "from sparsegpc import likelihoods" names a room, or a public name of __init__.
                modules |= {f"sparsegpc.{alias.name}" for alias in node.names}
            elif node.level == 0:
                # A name of a package is a room of it; other names are what a room holds.
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                rooms = {name for name in inner if name.removeprefix("sparsegpc.") in FILES}
                modules |= rooms or {node.module}
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
            # "sparsegpc.distribute" is no file, but a name that the package's __init__ offers.
            rooms.add(inner if inner in FILES else inner.rpartition(".")[0] or "__init__")
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
        ("from sparsegpc import likelihoods", {"sparsegpc.likelihoods"}),
        ("from sparsegpc._core.rows import blocks", {"sparsegpc._core.rows.blocks"}),
        ("from sparsegpc._core.rows.blocks import Table", {"sparsegpc._core.rows.blocks"}),
    ],
)
def test_the_reader_of_imports_sees_every_form(source, expected):
    modules, relative = imports_of(source)
    assert not relative
    assert modules == (expected or {"importlib", "sklearn"})


def test_the_reader_of_imports_sees_relative_ones():
    assert imports_of("def f():\n    from . import blocks")[1]


def package_of(room):
    """Return the package of a room of the core, or None of one above it."""
    parts = room.split(".")
    return parts[1] if parts[0] == "_core" and len(parts) > 1 else None


def test_the_table_lists_every_package_of_the_core():
    assert {package_of(room) for room in ROOMS} == set(CORE)


def test_the_table_itself_only_points_down():
    seen = set()
    for package, allowed in CORE.items():
        assert allowed <= seen, f"{package} stands below {allowed - seen}"
        seen.add(package)


@for_each(ROOMS)
def test_core_room_imports_only_the_packages_that_it_may(room):
    rooms, _ = rooms_and_externals(room)
    own = package_of(room)
    assert {package_of(other) for other in rooms} <= CORE[own] | {own}


@for_each(ROOMS)
def test_core_room_imports_numpy_and_scipy_only(room):
    _, externals = rooms_and_externals(room)
    assert externals <= CORE_EXTERNALS | OPTIONAL.get(room, set())


@for_each(sorted(set(FILES) - set(ROOMS)))
def test_estimator_layer_imports_the_core_and_scikit_learn_only(name):
    rooms, externals = rooms_and_externals(name)
    assert externals <= ESTIMATOR_EXTERNALS | OPTIONAL.get(name, set())
    assert name == "__init__" or "__init__" not in rooms, "import the room, not the package"
    # The latent variable model stands alone.
    assert "decomposition" not in rooms
    assert name == "decomposition" or "latent_inputs" not in {package_of(room) for room in rooms}


@for_each(FILES)
def test_imports_are_absolute(name):
    assert not imports_of(FILES[name].read_text(encoding="utf-8"))[1]


def test_imports_have_no_cycle():
    graph = {name: rooms_and_externals(name)[0] for name in FILES}
    # Raises CycleError, which names the cycle.
    tuple(TopologicalSorter(graph).static_order())


def test_core_works_without_scikit_learn():
    """Each room is imported in a process where scikit-learn cannot be."""
    # A bare package stands in for sparsegpc/__init__.py, which offers the estimators.
    script = f"""
import importlib, sys, types
package = types.ModuleType("sparsegpc")
package.__path__ = [{str(PACKAGE)!r}]
sys.modules["sparsegpc"] = package
sys.modules["sklearn"] = None
for room in {ROOMS!r}:
    importlib.import_module("sparsegpc." + room)
    loaded = [m for m in sys.modules if m.startswith("sklearn.")]
    assert not loaded, (room, loaded)
"""
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
