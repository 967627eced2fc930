"""Formulas as MathML, which browsers show without a script from the network."""

import re

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

# Names of functions need space beside what is no bracket, which the converter leaves out.
NAMES, SPACE = "log|exp|cosh|tanh", '<mspace width="0.17em"/>'
BEFORE = re.compile(rf"(<mi>(?:{NAMES})</mi>)(?=<m(?:i|n|sub|sup|row|frac|style|subsup)\b)")
AFTER = re.compile(rf"(</(?:mi|mn|msub|mfrac|mstyle)>)(?=<mi>(?:{NAMES})</mi>)")


def mathml(latex, **options):
    """Return the MathML of a formula."""
    return AFTER.sub(rf"\1{SPACE}", BEFORE.sub(rf"\1{SPACE}", convert(latex, **options)))


def inline_math(translator, node):
    """Write a formula within a line."""
    translator.body.append(mathml(node.astext()))


def block_math(translator, node):
    """Write a displayed formula; one with line breaks is aligned at its ampersands."""
    latex = node.astext()
    if r"\\" in latex:
        latex = rf"\begin{{align*}}{latex}\end{{align*}}"
    translator.body.append(f'<div class="math">{mathml(latex, display="block")}</div>')


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
