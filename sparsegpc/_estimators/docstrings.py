"""Docstrings in numpydoc's form that also describe what a class inherits."""

import re
from inspect import cleandoc

SECTIONS = ("Parameters", "Attributes")
SECTION = r"(?ms)^{}\n-+\n(.*?)(?=^\S[^\n]*\n-+\n|\Z)"


def describe_inherited(cls, bases):
    """Add the parameters and attributes that the docstrings of `bases` describe to that of `cls`.

    Those of the bases come first, in their order; what the class says itself replaces what a base
    says. A section that the class does not have is not added.
    """
    text = cleandoc(cls.__doc__)
    for title in SECTIONS:
        entries = {}
        for each in (*bases, cls):
            entries |= _entries(each.__doc__, title)
        section = f"{title}\n{'-' * len(title)}\n{''.join(entries.values())}\n"
        text = re.sub(SECTION.format(title), lambda _, section=section: section, text)
    cls.__doc__ = text.rstrip()


def _entries(docstring, title):
    """Return a dict from the names of each entry of a section to its lines."""
    found = re.search(SECTION.format(title), cleandoc(docstring))
    parts = re.split(r"(?m)^(?=\S)", found[1]) if found else []
    return {part.split(" : ")[0]: f"{part.rstrip()}\n" for part in parts if part.strip()}
