"""Sphinx settings."""

import sparsegpc

project = "sparsegpc"
author = "The sparsegpc developers"
copyright = "2026, The sparsegpc developers"
release = sparsegpc.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc"]
html_theme = "alabaster"
html_theme_options = {
    "description": sparsegpc.__doc__.splitlines()[0],
    "fixed_sidebar": True,
    "page_width": "1060px",
}
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
