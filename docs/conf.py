"""Sphinx settings."""

import sys
from importlib import import_module
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt

import sparsegpc

matplotlib.use("Agg")

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "_extensions"), str(HERE.parent / "benchmarks")]

project = "sparsegpc"
author = "The sparsegpc developers"
copyright = "2026, The sparsegpc developers"
release = sparsegpc.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "public_names",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_results", "generated/backreferences"]
default_role = None

html_theme = "furo"
html_title = "sparsegpc"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_copy_source = False
html_show_sourcelink = False
# Fonts and colours are the reader's own: nothing comes from the network.
pygments_style = "tango"
pygments_dark_style = "monokai"

autosummary_generate = True
# Pages of modules list what these offer, wherever it is defined.
autosummary_ignore_module_all = False
autodoc_member_order = "bysource"
# The descriptions of parameters say more than the types of the fields.
autodoc_typehints = "none"
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_\w+\.py$",
    "ignore_pattern": r"(__init__|demo)\.py$",
    "within_subsection_order": "gallery_order.NewcomersOrder",
    "abort_on_example_error": True,
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("sparsegpc",),
    "reference_url": {"sparsegpc": None},
    "download_all_examples": False,
    # That page would load scripts from the network.
    "write_computation_times": False,
    "remove_config_comments": True,
    "show_signature": False,
    "thumbnail_size": (480, 320),
    # A model at the end of a block would print a page of parameters.
    "capture_repr": (),
}


def render_results(app):
    """Write tables and pictures of the reproductions, which pages include."""
    with matplotlib.rc_context():
        import_module("report").render_all(HERE / "_results")
    # The gallery would take figures that are still open for those of its first example.
    plt.close("all")


def setup(app):
    # Before the examples run, which takes longer.
    app.connect("builder-inited", render_results, priority=100)
