"""Where the steps keep what they hand on.

artifact("resnet50.onnx")  # its path; if it is missing, an error that names the step to run
"""

import re
from collections.abc import Sequence
from pathlib import Path

from helpers.course.steps import NOTEBOOKS, made_by
from helpers.tools.cells import as_python, defines
from helpers.tools.files import atomic_write
from trtcpu.errors import InputError

_DEFINITIONS = {"TensorRTInference": "inference.py"}

_chosen: list[Path] = []


def use_artifacts(folder: str | Path | None) -> None:
    """Keep the steps' files in `folder` from now on, in this process; None: in the usual place again."""
    _chosen[:] = [Path(folder)] if folder is not None else []


def artifacts_folder() -> Path:
    """Return the folder that the steps share: `artifacts` beside the steps' folders, unless another one is in use.

    A notebook runs in its own step's folder (`labs/02_fp16/`), so that is beside it; elsewhere, the current folder's.
    """
    return _chosen[0] if _chosen else notebooks_folder() / "artifacts"


def notebooks_folder() -> Path:
    """Return the folder of the steps' folders as seen from a notebook of the lab; elsewhere, the current folder."""
    here = Path.cwd()
    return here.parent if here.name in NOTEBOOKS else here


def artifact_path(name: str, folder: str | Path | None = None) -> Path:
    """Return where the artifact `name` belongs, whether or not it is there.

    Raises:
        InputError: no step makes a file of that name.
    """
    made_by(name)
    return (Path(folder) if folder is not None else artifacts_folder()) / name


def artifact(name: str, folder: str | Path | None = None) -> Path:
    """Return the path of an artifact that an earlier step made.

    Raises:
        InputError: it is missing or empty (the message names the step to run), or no step makes it.
    """
    path = artifact_path(name, folder)
    if not path.is_file():
        raise InputError(f"{name} is missing: expected {path}; run step {made_by(name)}, which makes it")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty; run step {made_by(name)} again, which makes it")
    return path


def keep_definition(name: str, cells: Sequence[str]) -> Path:
    """Write the last of the executed `cells` that defines class `name` to its artifact, for the steps that follow.

    Its magics are left out: these steps may load it outside a notebook. In a notebook `cells` is IPython's `In`. The
    cell must import what the class needs.

    Raises:
        InputError: no cell defines it.
    """
    found = next((text for text in map(as_python, reversed(cells)) if defines(text, name)), None)
    if found is None:
        raise InputError(f"no executed cell defines class {name}; run the cell that defines it, then this one")
    target = artifact_path(_DEFINITIONS[name])
    atomic_write(target, re.sub(r"^get_ipython\(\)\..*\n?", "", found, flags=re.MULTILINE).rstrip() + "\n")
    return target


def load_definition(name: str, folder: str | Path | None = None) -> type:
    """Return the class `name` that an earlier step kept.

    Raises:
        InputError: it was not kept, or its file does not run or does not define it.
    """
    path = artifact(_DEFINITIONS[name], folder)
    namespace: dict[str, object] = {"__name__": path.stem}
    try:
        exec(compile(path.read_text(), str(path), "exec"), namespace)
        return namespace[name]
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        step = made_by(path.name)
        raise InputError(
            f"{path} does not give class {name} ({reason}); in step {step}, put its imports into the same "
            "cell and run the step again"
        ) from error
