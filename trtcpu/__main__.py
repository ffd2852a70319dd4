"""Run TensorRT code that knows nothing of the CPU engine: `python -m trtcpu SCRIPT [ARGS]` or `-m MODULE [ARGS]`.

`tensorrt`, `pycuda` and cuda-python's `cuda` are found in stand_ins/, before any that is installed, by the script and
by the Python processes that it starts.
"""

import os
import runpy
import sys
from pathlib import Path

_USAGE = "usage: python -m trtcpu SCRIPT [ARGS] | python -m trtcpu -m MODULE [ARGS]"


def main(arguments: list[str]) -> None:
    """Run a script or a module under TensorRT's names."""
    as_module = arguments[:1] == ["-m"]
    given = arguments[as_module:]
    if not given or given[0].startswith("-"):
        sys.exit(_USAGE)
    if not as_module and not Path(given[0]).is_file():
        sys.exit(f"error: there is no script {given[0]}; {_USAGE}")
    names = str(Path(__file__).parent / "stand_ins")
    package = str(Path(__file__).parents[1])
    inherited = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    os.environ["PYTHONPATH"] = os.pathsep.join([names, *inherited, package])
    sys.argv = given
    sys.path[:0] = [names] if as_module else [names, str(Path(given[0]).resolve().parent)]
    if as_module:
        runpy.run_module(given[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(given[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
