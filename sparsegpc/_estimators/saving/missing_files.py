"""What it means if a saved model asks for a file of this package that is not there.

The version that saved the model had such a file. Python's own message names the file only, and
nothing of the model is read before.
"""

import sys
from importlib.abc import MetaPathFinder

from sparsegpc._version import __version__


class _MissingFiles(MetaPathFinder):
    """Asked last, for what no other finder has found."""

    def find_spec(self, fullname, path=None, target=None):
        if not fullname.startswith("sparsegpc._"):
            return None
        raise ModuleNotFoundError(
            f"No module named {fullname!r} in sparsegpc {__version__}. A saved model that asks for "
            "it comes from another version of sparsegpc: fit it again with "
            f"{__version__}, or load it with the version that saved it",
            name=fullname,
        )


def explain_missing_files():
    """Let imports of private files that do not exist say why a saved model may need them."""
    if not any(type(finder).__name__ == _MissingFiles.__name__ for finder in sys.meta_path):
        sys.meta_path.append(_MissingFiles())
