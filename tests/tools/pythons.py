"""The lab under each supported Python that is on this machine: install, import, `trtlab doctor`, one notebook.

    python -m tests.tools.pythons [VERSION …]       # all of them, or for example 3.13

Each gets an environment of its own in results/pythons/, which needs a package index.
Warnings are errors in the imports.
"""

import os
import subprocess
import sys
import time
from typing import Annotated

import typer

from tests.tools.environments import is_here, to_install, to_make
from tests.tools.pins import CONSTRAINTS, PYTHONS, ROOT

FOLDER = ROOT / "results" / "pythons"
_IMPORT_ALL = """
import importlib, pkgutil, sys, warnings
import nbgrader.api, onnxscript, openvino, torch.onnx, torchvision  # theirs may warn
warnings.simplefilter("error")
tops = ("trtcpu", "helpers", "trtlab", "solutions")
names = [found.name for top in tops for found in pkgutil.walk_packages([top], f"{top}.")]
names = [name for name in names if not name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
print(len(names), "modules")
"""
_ONE_NOTEBOOK = """
import sys, tempfile
from pathlib import Path
from solutions.grading.solve import execute
step = "01_export"
with tempfile.TemporaryDirectory() as folder:
    given = {"TRT_LAB_QUICK": "1", "TRT_LAB_MODEL": "resnet18"}
    _, earned, worth = execute(Path("solutions") / step / f"{step}.ipynb", Path(folder) / "artifacts", given)
print(f"{step}: {earned:g} of {worth:g} points")
sys.exit(earned < worth)
"""


def tried(version: str) -> str:
    """Return what was seen under a Python, a line; a step that fails says so and ends it."""
    python = FOLDER / version / "bin" / "python"
    if not is_here(version):
        return "not on this machine"
    steps = {
        "environment": to_make(FOLDER / version, version),
        "install": to_install(FOLDER / version, "-c", str(CONSTRAINTS), "-e", ".[grade]"),
        "imports": [str(python), "-c", _IMPORT_ALL],
        "trtlab doctor": [str(python.with_name("trtlab")), "doctor"],
        "notebook": [str(python), "-c", _ONE_NOTEBOOK],
    }
    said, started = [], time.monotonic()
    for name, command in steps.items():
        done = subprocess.run(command, cwd=ROOT, env=_environment(), capture_output=True, text=True)
        if done.returncode:
            return f"{name} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        said.append(f"{name}: {done.stdout.strip()}" if name in ("imports", "notebook") else name)
    return f"{', '.join(said)}; {time.monotonic() - started:.0f} s"


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "TRT_LAB_ENGINE": "cpu"}


def main(
    versions: Annotated[list[str] | None, typer.Argument(help="such as 3.13; all where none is named")] = None,
) -> None:
    """Try the lab under each Python and print a line each."""
    failed = False
    for version in versions or PYTHONS:
        outcome = tried(version)
        failed = failed or "failed" in outcome
        print(f"Python {version}: {outcome}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    typer.run(main)
