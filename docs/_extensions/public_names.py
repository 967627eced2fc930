"""Warn of public names that no page documents, and quiet references of inherited docstrings."""

import importlib
import inspect
import re

from sphinx.util import logging

MODULES = (
    "sparsegpc",
    "sparsegpc.decomposition",
    "sparsegpc.displays",
    "sparsegpc.kernels",
    "sparsegpc.likelihoods",
)
logger = logging.getLogger(__name__)
# :ref:`text <label>`, :term:`word` and :ref:`label`, which lead to scikit-learn's documentation.
TITLED_REFERENCE = re.compile(r":(?:ref|term):`([^`<]+?)\s*<[^`>]*>`|:term:`([^`<]+)`")
BARE_REFERENCE = re.compile(r":ref:`[^`<]+`")


def public_names(module_name):
    """Yield the full names of what a module offers, and of the public methods of its classes."""
    module = importlib.import_module(module_name)
    for name in module.__all__:
        thing = getattr(module, name)
        if name.startswith("__") or inspect.ismodule(thing):
            continue
        yield f"{module_name}.{name}"
        if inspect.isclass(thing):
            for member in dir(thing):
                if not member.startswith("_") and callable(getattr(thing, member)):
                    yield f"{module_name}.{name}.{member}"


def warn_of_undocumented(app, env):
    """Warn of each public name that is not in the index of the documentation."""
    documented = env.get_domain("py").objects
    for module_name in MODULES:
        for name in public_names(module_name):
            if name not in documented:
                logger.warning("%s is public, but no page documents it", name)


def unlink_foreign_references(app, what, name, thing, options, lines):
    """Turn references of docstrings inherited from scikit-learn into plain text."""
    if (getattr(thing, "__module__", None) or "").startswith("sklearn."):
        for number, line in enumerate(lines):
            line = TITLED_REFERENCE.sub(lambda found: found[1] or found[2], line)
            lines[number] = BARE_REFERENCE.sub("scikit-learn's documentation", line)


def setup(app):
    app.connect("env-check-consistency", warn_of_undocumented)
    # After numpydoc, which rewrites docstrings at the default priority.
    app.connect("autodoc-process-docstring", unlink_foreign_references, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
