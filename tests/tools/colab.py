"""Steps 1 and 2 as in Colab: its versions of the packages, an empty folder, the release from a server on this machine.

    python -m tests.tools.colab         # sets up results/colab/ first, which needs a package index

The notebooks are the handed-out ones with the solutions' answers; they run with the quick settings and ResNet-18.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Annotated

import nbformat
import typer

from helpers.handout import HANDOUT, cell_name
from solutions.grading.release import NAME, make_release
from tests.stand_in_wheels import served
from tests.tools.pins import ROOT

PYTHON = "3.12"
VERSIONS = Path(__file__).with_suffix(".txt")
FOLDER = ROOT / "results" / "colab"
STEPS = ("01_export", "02_fp16")
_UV = (sys.executable, "-m", "uv", "--quiet", "--no-config")
_EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=900, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[1])
"""


def set_up() -> Path:
    """Make the environment where it is not there; return its Python."""
    python = FOLDER / "bin" / "python"
    if not python.is_file():
        for command in (
            ("venv", "--clear", "--no-python-downloads", "--python", PYTHON, str(FOLDER)),
            ("pip", "install", "--python", str(python), "-r", str(VERSIONS)),
        ):
            if subprocess.run([*_UV, *command], cwd=ROOT).returncode:
                sys.exit(f"error: no environment like Colab's: it needs Python {PYTHON} and a package index")
    return python


def versions(python: Path) -> dict[str, str]:
    """Return the versions of all packages in an environment."""
    listed = subprocess.check_output([*_UV, "pip", "list", "--format", "json", "--python", str(python)], text=True)
    return {each["name"]: each["version"] for each in json.loads(listed)}


def answered(step: str, archive: Path) -> nbformat.NotebookNode:
    """Return a step's notebook out of the release, with the solution's answers."""
    with zipfile.ZipFile(archive) as release:
        notebook = nbformat.reads(release.read(f"{NAME}/{HANDOUT}/{step}/{step}.ipynb").decode(), as_version=4)
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


def run(python: Path, content: Path, server: Path) -> None:
    """Release into `server`, serve it, and execute the steps in the empty folder `content`.

    Raises:
        subprocess.CalledProcessError: a notebook failed.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TRT_LAB"))}
    environment = {**kept, "TRT_LAB_QUICK": "1", "TRT_LAB_MODEL": "resnet18", "TRT_LAB_ENGINE": "cpu"}
    with served(server) as address:
        make_release(ROOT, server / f"{NAME}.zip", address)
        for step in STEPS:
            nbformat.write(answered(step, server / f"{NAME}.zip"), content / f"{step}.ipynb")
            command = [str(python), "-Xfrozen_modules=off", "-c", _EXECUTE, f"{step}.ipynb"]
            subprocess.run(command, cwd=content, env=environment, check=True)
            _tell(step, nbformat.read(content / f"{step}.ipynb", as_version=4))


def _tell(step: str, executed: nbformat.NotebookNode) -> None:
    checks = [cell for cell in executed.cells if cell.cell_type == "code" and "feedback.check" in cell.source]
    passed = sum("✓" in str(cell.outputs) for cell in checks)
    first = next(cell for cell in executed.cells if cell.id == "elsewhere")
    said = "".join(output.get("text", "") for output in first.outputs).strip()
    print(f"{step}: {passed} of {len(checks)} visible checks passed; its first cell said:\n  {said}", flush=True)


def main(
    python: Annotated[Path | None, typer.Option(help="of an environment with tests/tools/colab.txt installed")] = None,
) -> None:
    """Run the steps and compare the environment before and after."""
    python = (python or set_up()).absolute()
    before = versions(python)
    with tempfile.TemporaryDirectory() as content, tempfile.TemporaryDirectory() as server:
        try:
            run(python, Path(content), Path(server))
        except subprocess.CalledProcessError:
            sys.exit("error: a notebook failed as it would in Colab; the traceback is above")
    after = versions(python)
    changed = {name: (version, after.get(name)) for name, version in before.items() if after.get(name) != version}
    print(f"Python {PYTHON}, torch {after['torch']}, numpy {after['numpy']}: {len(after) - len(before)} packages added")
    sys.exit(f"error: packages that were there have changed: {changed}" if changed else 0)


if __name__ == "__main__":
    typer.run(main)
