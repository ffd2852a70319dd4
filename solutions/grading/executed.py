"""`python -m solutions.grading.executed`: which outputs of the committed solutions are older than their code.

An executed cell keeps a digest of its code in its metadata, and the notebook where and when it ran: one device, one day
for all eight steps, since they are read as one book; an optional notebook is read for itself, and names its own.
"""

import datetime
import hashlib
import platform
from importlib.metadata import version

from nbformat import NotebookNode

from helpers.course.handout import read_notebook
from helpers.course.steps import STEPS
from helpers.engine.backend import DEVICE, ENGINE, trt
from solutions.grading.course import Course

# Our key in the metadata of notebooks and cells.
ABOUT = "trt_lab"

_PACKAGES = ("torch", "torchvision", "onnx", "onnxruntime", "numpy")


def stamp(notebook: NotebookNode) -> None:
    """Write into an executed notebook's metadata which code its outputs are of, where and when it ran, in place."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata[ABOUT] = {"executed": _digest(cell)}
    engine = {"tensorrt": trt.__version__} if ENGINE == "tensorrt" else {"openvino": version("openvino")}
    versions = {"python": platform.python_version(), **engine, **{name: version(name) for name in _PACKAGES}}
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    notebook.metadata[ABOUT] = {"device": DEVICE, "date": today, "versions": versions}


def outdated(course: Course) -> list[str]:
    """Return a line for each step with outputs of other code than its cells', and one where the devices differ."""
    notebooks = {step: read_notebook(course.source(step)) for step in course.present}
    devices = {step: notebook.metadata.get(ABOUT, {}).get("device", "none") for step, notebook in notebooks.items()}
    changed = {
        step: [
            str(number)
            for number, cell in enumerate(notebook.cells, 1)
            if cell.cell_type == "code" and cell.metadata.get(ABOUT, {}).get("executed") != _digest(cell)
        ]
        for step, notebook in notebooks.items()
    }
    lines = [f"{step}: other code ran in cells {', '.join(cells)}" for step, cells in changed.items() if cells]
    if len({devices[step] for step in devices.keys() & set(STEPS)}) > 1:
        where = "; ".join(f"{step} on {device}" for step, device in devices.items())
        lines.append(f"the steps ran on different devices: {where}")
    return lines


def warn(lines: list[str]) -> None:
    """Print what `outdated` found. Students get no outputs, so only a release of ours refuses it (STRICT=1)."""
    if lines:
        print("warning: outputs in solutions/ are of other code than their cells; `make solutions KEEP=1` renews them")
        print("\n".join(f"  {line}" for line in lines))


def _digest(cell: NotebookNode) -> str:
    return hashlib.sha256(cell.source.encode()).hexdigest()[:16]


if __name__ == "__main__":
    warn(outdated(Course.at(".")))
