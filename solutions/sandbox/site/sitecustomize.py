"""Python imports this as it starts in a sandbox: finds helpers/ and trtcpu/, and hides the debugger.

Landlock lets nobody list the project's folder, which would show the names of all below it, and Python lists a folder
to find a module. A kernel with debugpy opens a TCP port as it starts, and there is no network. A sitecustomize of the
environment's own, which this one hides, runs after it.
"""

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec, spec_from_file_location


class _Finder:
    """Comes before Python's own finders."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return where helpers or trtcpu is; their modules are found the usual way."""
        if name == "debugpy":
            raise ModuleNotFoundError("debugpy needs a network", name=name)
        for folder in sys.path if name in ("helpers", "trtcpu") else ():
            first = os.path.join(folder, name, "__init__.py")
            if os.path.isfile(first):
                return spec_from_file_location(name, first, submodule_search_locations=[os.path.dirname(first)])
        return None


def _run_hidden() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    hidden = PathFinder.find_spec(__name__, [folder for folder in sys.path if os.path.abspath(folder) != here])
    if hidden is not None and hidden.loader is not None:
        hidden.loader.exec_module(module_from_spec(hidden))


sys.meta_path.insert(0, _Finder)
_run_hidden()
