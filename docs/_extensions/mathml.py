"""Formulas as MathML, which browsers show without a script from the network."""

from docutils.nodes import SkipNode
from latex2mathml.converter import convert


def inline_math(translator, node):
    """Write a formula within a line."""
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
    return {"parallel_read_safe": True, "parallel_write_safe": True}
