"""Docstrings in numpydoc's form, against signatures and fitted attributes."""

import ast
import importlib
import inspect
import pkgutil
import re
import sys
import warnings
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest

import sparsegpc
from sparsegpc import decomposition, displays, kernels
from tests.for_each import for_each

# numpydoc's order.
SECTIONS = (
    "Parameters",
    "Attributes",
    "Returns",
    "Yields",
    "Raises",
    "Warns",
    "See Also",
    "Notes",
    "References",
    "Examples",
)


class Entry(NamedTuple):
    """One line ``names : type`` of a section, and what is indented below it."""

    names: list
    type: str
    description: str


class Docstring:
    """The parts of a docstring in numpydoc's form.

    Attributes
    ----------
    summary : str
    sections : dict
        Lines of each section, by title, in their order. The text before the first has none.
    """

    def __init__(self, text):
        lines = inspect.cleandoc(text).splitlines()
        starts = [
            k
            for k in range(len(lines) - 1)
            if lines[k] and re.fullmatch("-+", lines[k + 1]) and len(lines[k + 1]) == len(lines[k])
        ]
        self.summary = lines[0]
        self.text = lines[1 : starts[0] if starts else len(lines)]
        self.sections = {
            lines[start]: lines[start + 2 : end] for start, end in pairwise([*starts, len(lines)])
        }

    def entries(self, title):
        """Return the `Entry` of each unindented line of a section."""
        entries = []
        for line in self.sections.get(title, []):
            if line and not line.startswith(" "):
                names, _, kind = line.partition(" : ")
                entries.append(Entry([name.strip() for name in names.split(",")], kind, ""))
            elif entries:
                last = entries.pop()
                entries.append(last._replace(description=f"{last.description} {line.strip()}"))
        return entries

    def names(self, title):
        return [name for entry in self.entries(title) for name in entry.names]


def own_methods(cls):
    """Return the public functions that the package itself defines and describes, by name."""
    found = {}
    for parent in reversed(cls.__mro__):
        if parent.__module__.startswith("sparsegpc."):
            # A class method holds its function.
            members = {n: getattr(f, "__func__", f) for n, f in vars(parent).items()}.items()
            found |= {
                n: f
                for n, f in members
                if inspect.isfunction(f)
                and not n.startswith("_")
                and not inherits_docstring(cls, n, f)
            }
    return found


def inherits_docstring(cls, name, function):
    """Return whether a method does what scikit-learn's docstring of the same method says."""
    others = [base for base in cls.__mro__ if not base.__module__.startswith("sparsegpc.")]
    return function.__doc__ is None and any(
        getattr(vars(base).get(name), "__doc__", None) for base in others
    )


def parameters(function):
    everything = dict(inspect.signature(function).parameters)
    return {name: value for name, value in everything.items() if name not in ("self", "cls")}


# From which module each public class is imported.
MODULES_OF = {
    name: module.__name__
    for module in (sparsegpc, decomposition, displays, kernels)
    for name in module.__all__
    if inspect.isclass(getattr(module, name))
}
CLASSES = {name: getattr(sys.modules[module], name) for name, module in MODULES_OF.items()}
# Arguments of classes that need some.
ARGUMENTS = {
    "BoundSearch": (sparsegpc.SparseGPClassifier(), {}),
    "LocalCorrection": (sparsegpc.SparseGPClassifier(),),
}
# Classes that learn, and those that hold settings of them.
ESTIMATORS = {name: cls for name, cls in CLASSES.items() if hasattr(cls, "fit")}
METHODS = {
    f"{name}.{method}": function
    for name, cls in CLASSES.items()
    for method, function in own_methods(cls).items()
}
SIGNATURES = {name: (cls, cls.__init__) for name, cls in CLASSES.items()} | {
    name: (function, function) for name, function in METHODS.items()
}
MODULES = [
    importlib.import_module(module.name)
    for module in pkgutil.walk_packages(sparsegpc.__path__, "sparsegpc.")
]
ROOM_MEMBERS = {
    f"{module.__name__}.{name}": member
    for module in MODULES
    for name, member in vars(module).items()
    if (inspect.isfunction(member) or inspect.isclass(member))
    and member.__module__ == module.__name__
    and not name.startswith("_")
}
EVERY_CLASS = for_each(CLASSES)
EVERY_ESTIMATOR = pytest.mark.parametrize("name", ESTIMATORS)
EVERY_METHOD = for_each(METHODS)
EVERY_SIGNATURE = for_each(SIGNATURES)


# The parser itself


SAMPLE = """Do something.

    A paragraph.

    Parameters
    ----------
    a, b : int or None, default=None
        Two numbers.

        More of them.
    c : {"x", "y"}, default="x"

    Returns
    -------
    float
        A number.
    """


def test_the_parser_reads_a_docstring():
    docstring = Docstring(SAMPLE)
    assert docstring.summary == "Do something."
    assert docstring.text == ["", "A paragraph.", ""]
    assert list(docstring.sections) == ["Parameters", "Returns"]
    first, second = docstring.entries("Parameters")
    assert first.names == ["a", "b"]
    assert first.type == "int or None, default=None"
    assert first.description.split() == ["Two", "numbers.", "More", "of", "them."]
    assert second == Entry(["c"], '{"x", "y"}, default="x"', " ")
    assert docstring.names("Parameters") == ["a", "b", "c"]
    assert docstring.names("Raises") == []


def test_the_parser_reads_a_docstring_without_sections():
    docstring = Docstring("Do something.\n\nMore.")
    assert (docstring.text, docstring.sections) == (["", "More."], {})


def test_the_methods_of_all_estimators_are_seen():
    assert {"SparseGPClassifier.fit", "InducingPointSelector.transform"} <= set(METHODS)
    assert {"SparseGPRegressor.predict", "SparseGPRegressor.truncate"} <= set(METHODS)
    assert "SparseGPClassifier.get_params" not in METHODS


# Public classes and methods


@EVERY_SIGNATURE
def test_summary_is_one_sentence_on_one_line(name):
    docstring = Docstring(SIGNATURES[name][0].__doc__)
    assert re.fullmatch(r"[A-Z][^.]*\.", docstring.summary)
    assert not docstring.text or docstring.text[0] == ""


@EVERY_SIGNATURE
def test_sections_are_known_and_in_the_order_of_numpydoc(name):
    titles = list(Docstring(SIGNATURES[name][0].__doc__).sections)
    assert titles == [title for title in SECTIONS if title in titles]


@EVERY_SIGNATURE
def test_documented_parameters_are_those_of_the_signature(name):
    documented, function = SIGNATURES[name]
    names = [name.lstrip("*") for name in Docstring(documented.__doc__).names("Parameters")]
    assert names == list(parameters(function))


@EVERY_SIGNATURE
def test_documented_defaults_are_those_of_the_signature(name):
    documented, function = SIGNATURES[name]
    for entry in Docstring(documented.__doc__).entries("Parameters"):
        for parameter in entry.names:
            default = parameters(function)[parameter.lstrip("*")].default
            match = re.search(r"default=(.+)$", entry.type)
            if default is inspect.Parameter.empty:
                assert match is None, parameter
            else:
                assert match is not None, f"{parameter} does not say its default"
                assert ast.literal_eval(match[1]) == default, parameter


@EVERY_SIGNATURE
def test_every_parameter_has_a_type_and_those_of_constructors_a_description(name):
    documented, _ = SIGNATURES[name]
    for entry in Docstring(documented.__doc__).entries("Parameters"):
        assert entry.type, entry.names
        # A raw docstring keeps a backslash, and the type ends there.
        assert not entry.type.endswith("\\"), entry.names
        assert entry.description.strip() or not inspect.isclass(documented), entry.names


@EVERY_CLASS
def test_class_has_the_sections_of_a_class(name):
    titles = set(Docstring(CLASSES[name].__doc__).sections)
    needed = {"Parameters", "See Also", "Examples"}
    if name in ESTIMATORS:
        needed |= {"Attributes", "Notes", "References"}
    assert needed <= titles


@EVERY_METHOD
def test_method_says_what_it_returns(name):
    docstring = Docstring(METHODS[name].__doc__)
    assert docstring.entries("Returns")
    assert all(entry.type for entry in docstring.entries("Returns"))


@EVERY_METHOD
def test_fit_returns_self_by_the_name_of_its_class(name):
    cls, _, method = name.partition(".")
    if method == "fit":
        [entry] = Docstring(METHODS[name].__doc__).entries("Returns")
        assert (entry.names, entry.type) == (["self"], cls)


@EVERY_ESTIMATOR
def test_documented_attributes_are_those_that_fit_sets(name):
    """Both ways: none is missing, and none is promised in vain."""
    rng = np.random.RandomState(0)
    X, y = rng.randn(20, 2), rng.randint(0, 2, 20)
    with warnings.catch_warnings():
        # Labels without any relation to the rows may be found out to be so.
        warnings.simplefilter("ignore")
        fitted = CLASSES[name](*ARGUMENTS.get(name, ())).fit(X, y)
    public = {a for a in dir(fitted) if a.endswith("_") and not a.startswith("_")}
    documented = Docstring(CLASSES[name].__doc__).names("Attributes")
    assert len(documented) == len(set(documented))
    assert set(documented) - {"feature_names_in_"} == public


@EVERY_CLASS
def test_every_attribute_has_a_type_and_a_description(name):
    for entry in Docstring(CLASSES[name].__doc__).entries("Attributes"):
        assert entry.type, entry.names
        assert entry.description.strip(), entry.names


@EVERY_CLASS
def test_references_are_numbered_from_one_and_each_is_cited(name):
    text = CLASSES[name].__doc__
    listed = re.findall(r"^ *\.\. \[(\d+)\]", text, re.MULTILINE)
    cited = set(re.findall(r"\[(\d+)\]_", text))
    assert listed == [str(k + 1) for k in range(len(listed))]
    assert cited == set(listed)


@EVERY_CLASS
def test_examples_hold_commands_that_import_the_class(name):
    examples = "\n".join(Docstring(CLASSES[name].__doc__).sections["Examples"])
    assert f">>> from {MODULES_OF[name]} import {name}" in examples
    assert re.search(r"^(?!>>>|\.\.\.)\S", examples, re.MULTILINE), "no result is shown"


@EVERY_SIGNATURE
def test_lines_are_no_longer_than_those_of_code(name):
    assert max(len(line) for line in SIGNATURES[name][0].__doc__.splitlines()) <= 100


@EVERY_CLASS
def test_docstring_belongs_to_the_class_itself(name):
    assert "__doc__" in vars(CLASSES[name])


# Rooms


@for_each(MODULES)
def test_every_room_says_what_it_is(module):
    assert re.fullmatch(r"[A-Z].*[.:]", module.__doc__.splitlines()[0])


@for_each(ROOM_MEMBERS)
def test_functions_and_classes_with_a_public_name_have_a_docstring(name):
    # A named tuple without one has its signature in its place.
    member = ROOM_MEMBERS[name]
    assert member.__doc__, name
    assert not member.__doc__.startswith(f"{member.__name__}("), name


@for_each(ROOM_MEMBERS)
def test_parameters_that_a_room_documents_exist(name):
    member = ROOM_MEMBERS[name]
    documented = Docstring(member.__doc__).names("Parameters")
    actual = list(parameters(member))
    assert documented in ([], actual) or [n.lstrip("*") for n in documented] == actual
