"""Steps 1 and 2 as in Colab: its versions of the packages, an empty folder, the archive from a server on this machine.

    python -m tests.tools.colab         # sets up results/colab/ first, which needs Python 3.12 and a package index

The notebooks are the handed-out ones with the solutions' answers; they run with the quick settings and ResNet-18. Then
`feedback.validate()` runs step 1 once more, from a notebook as in Colab.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import nbformat
import typer
from nbformat.v4 import new_code_cell, new_notebook

from helpers.checks.points.rooms import CHECKS
from helpers.course.handout import HANDOUT, cell_name
from helpers.course.steps import STEPS
from solutions.grading.addresses import BUNDLE
from solutions.grading.labs import make_release
from tests.stand_in_wheels import served
from tests.tools.environments import UV, is_here, to_install, to_make
from tests.tools.pins import ROOT

PYTHON = "3.12"
VERSIONS = Path(__file__).with_suffix(".txt")
FOLDER = ROOT / "results" / "colab"
_EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=900, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[1])
"""


def set_up() -> None:
    """Make the environment: with what Colab has, and nothing that an earlier run installed."""
    if not is_here(PYTHON):
        sys.exit(f"error: Python {PYTHON} is not on this machine; Colab's versions are for that one")
    for command in (to_make(FOLDER, PYTHON), to_install(FOLDER, "-r", str(VERSIONS))):
        if subprocess.run(command, cwd=ROOT).returncode:
            sys.exit(f"error: {VERSIONS.name} could not be installed; is there a package index, and 7 GB of disk?")


def versions() -> dict[str, str]:
    """Return the versions of all packages in the environment."""
    command = [*UV, "pip", "list", "--format", "json", "--python", str(FOLDER / "bin" / "python")]
    return {each["name"]: each["version"] for each in json.loads(subprocess.check_output(command, text=True))}


def answered(step: str, archive: Path) -> nbformat.NotebookNode:
    """Return a step's notebook out of the archive, with the solution's answers."""
    with zipfile.ZipFile(archive) as release:
        notebook = nbformat.reads(release.read(f"{BUNDLE}/{HANDOUT}/{step}/{step}.ipynb").decode(), as_version=4)
    source = nbformat.read(ROOT / "solutions" / step / f"{step}.ipynb", as_version=4)
    answers = {
        cell_name(cell): re.sub(r"^[ \t]*### (BEGIN|END) SOLUTION.*\n?", "", cell.source, flags=re.M)
        for cell in source.cells
        if cell_name(cell) and cell.metadata.nbgrader.solution
    }
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = answers.get(cell_name(cell), cell.source)
    return notebook


def tried(content: Path, server: Path) -> None:
    """Serve the archive from the folder `server`, execute the notebooks in the empty `content`, print what was seen.

    Raises:
        subprocess.CalledProcessError: a notebook failed.
    """
    archive = server / f"{BUNDLE}.zip"
    make_release(ROOT, archive)
    with served(server) as address:
        for step in STEPS[:2]:
            notebook = answered(step, archive)
            _execute(notebook, content / f"{step}.ipynb", f"{address}/{archive.name}")
            passed = json.loads((content / "artifacts" / ".progress.json").read_text()).get(step, [])
            checks = [name for name, check in CHECKS.items() if check.step == step]
            print(f"{step}: {len(passed)} of {len(checks)} visible checks passed; its first cell said:")
            print(_said(next(cell for cell in notebook.cells if cell.id == "elsewhere")), flush=True)
        ask = f"from helpers import feedback\n\nfeedback.validate('{STEPS[0]}.ipynb')"
        first = next(cell for cell in notebook.cells if cell.id == "elsewhere")
        notebook = new_notebook(cells=[first, new_code_cell(ask)])
        _execute(notebook, content / "validate.ipynb", f"{address}/{archive.name}")
        print(f"feedback.validate() said:\n{_said(notebook.cells[1])}", flush=True)


def _execute(notebook: nbformat.NotebookNode, path: Path, bundle: str) -> None:
    """Execute a notebook at `path` in the environment's kernel; its cells have the outputs afterwards."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TRT_LAB"))}
    quick = {"TRT_LAB_QUICK": "1", "TRT_LAB_MODEL": "resnet18", "TRT_LAB_ENGINE": "cpu", "TRT_LAB_BUNDLE": bundle}
    nbformat.write(notebook, path)
    quiet = {"PYDEVD_DISABLE_FILE_VALIDATION": "1"}  # a warning of the kernel's debugger
    command = [str(FOLDER / "bin" / "python"), "-c", _EXECUTE, path.name]
    subprocess.run(command, cwd=path.parent, env={**kept, **quick, **quiet}, check=True)
    notebook.cells = nbformat.read(path, as_version=4).cells


def _said(cell: nbformat.NotebookNode) -> str:
    texts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
    return "\n".join(f"  {line.rpartition(chr(13))[2]}" for line in "".join(texts).strip().splitlines())


def main() -> None:
    """Run the steps and compare the environment before and after."""
    set_up()
    before = versions()
    with tempfile.TemporaryDirectory() as content, tempfile.TemporaryDirectory() as server:
        try:
            tried(Path(content), Path(server))
        except subprocess.CalledProcessError:
            sys.exit("error: a notebook failed as it would in Colab; the traceback is above")
    after = versions()
    changed = {name: (version, after.get(name)) for name, version in before.items() if after.get(name) != version}
    print(f"Python {PYTHON}, torch {after['torch']}, numpy {after['numpy']}: {len(after) - len(before)} packages added")
    sys.exit(f"error: packages that were there have changed: {changed}" if changed else 0)


if __name__ == "__main__":
    typer.run(main)
