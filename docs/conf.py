"""Sphinx settings."""

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

import sparsegpc

project = "sparsegpc"
author = "The sparsegpc developers"
copyright = "2026, The sparsegpc developers"
release = sparsegpc.__version__

extensions = ["sphinx.ext.autodoc", "numpydoc"]
html_theme = "alabaster"
html_theme_options = {
    "description": sparsegpc.__doc__.splitlines()[0],
    "fixed_sidebar": True,
    "page_width": "1060px",
}
html_math_renderer = "mathml"
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
numpydoc_show_class_members = False


def inline_math(translator, node):
    """Write a formula as MathML, which browsers show without a script from the network."""
    translator.body.append(convert(node.astext()))


def block_math(translator, node):
    """Write a displayed formula; one with line breaks is aligned at its ampersands."""
    latex = node.astext()
    if r"\\" in latex:
        latex = rf"\begin{{align*}}{latex}\end{{align*}}"
    translator.body.append(f'<div class="math">{convert(latex, display="block")}</div>')


def without_departure(render):
    """Return the pair that Sphinx wants: visit and skip, depart never."""

    def visit(translator, node):
        render(translator, node)
        raise SkipNode

    return visit, None


def setup(app):
    app.add_html_math_renderer(
        "mathml", without_departure(inline_math), without_departure(block_math)
    )
