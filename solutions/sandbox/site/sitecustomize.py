"""Python imports this as it starts in a sandbox: finds helpers/, and hides the debugger.

Landlock lets nobody list the project's folder, which would show the names of all below it, and Python lists a folder
to find a module. A kernel with debugpy opens a TCP port as it starts, and there is no network.
"""

import os
import sys
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location


class _Finder:
    """Comes before Python's own finders."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return where helpers is; its modules are found the usual way."""
        if name == "debugpy":
            raise ModuleNotFoundError("debugpy needs a network", name=name)
        for folder in sys.path if name == "helpers" else ():
            first = os.path.join(folder, name, "__init__.py")
            if os.path.isfile(first):
                return spec_from_file_location(name, first, submodule_search_locations=[os.path.dirname(first)])
        return None


sys.meta_path.insert(0, _Finder)
