"""Makes the lab usable for a notebook that was opened alone, as in Colab and Kaggle.

There the first code cell of a handed-out notebook fetches the student archive and calls `set_up` out of it. It needs
Python alone, and leaves every installed package as it is: PyTorch, CUDA and NumPy of such a place belong together.
"""

import importlib
import re
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from helpers.course.artifacts import artifacts_folder, use_artifacts
from trtcpu.errors import LabError

_LAB = Path(__file__).resolve().parents[2]
_DRIVE = Path("/content/drive/MyDrive")
_NOT_NEEDED = {"ipykernel", "jupyterlab", "nbgrader"}  # such a place has its own notebook, and grades nothing
_VERSION = re.compile(r"\d[\w.!]*(\+[\w.]+)?")


def set_up() -> None:
    """Install the packages of the lab that are missing; say where the lab is, and where the steps' files go.

    Where Google Drive is mounted in Colab the files go there, so that they outlive the session.

    Raises:
        LabError: a package cannot be installed.
    """
    installed = _install()
    importlib.invalidate_caches()
    if _DRIVE.is_dir():
        use_artifacts(_DRIVE / "trt-lab")
    print(f"The lab is in {_LAB.name}/" + (f"; installed for it: {', '.join(installed)}" if installed else ""))
    print(
        f"What a step makes, the next one needs: it goes to {artifacts_folder()}/; "
        f"how to keep it says {_LAB.name}/README.md, Colab and Kaggle"
    )


def _install() -> list[str]:
    """Install what is missing of the lab's packages, each as new as what is here allows; return their names."""
    here = {
        _normal(found.metadata["Name"]): found.version for found in metadata.distributions() if found.metadata["Name"]
    }
    listed = re.search(r"^dependencies = \[\n(.*?)^\]", (_LAB / "pyproject.toml").read_text(), re.M | re.S)[1]
    asked = {_normal(re.match(r"[\w.-]+", line)[0]): line for line in re.findall(r'"([^"]+)"', listed)}
    missing = {name: line for name, line in asked.items() if name not in here and name not in _NOT_NEEDED}
    if missing:
        kept = "".join(f"{name}=={version}\n" for name, version in here.items() if _VERSION.fullmatch(version or ""))
        with tempfile.TemporaryDirectory() as folder:
            (constraints := Path(folder) / "installed.txt").write_text(kept)
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            done = subprocess.run([*command, "-c", str(constraints), *missing.values()], capture_output=True, text=True)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")] or [done.stderr.strip()]
            raise LabError(
                f"cannot install {', '.join(missing)} beside what is here; pip says: {said[-1][:500]}; "
                "check that this place may use the internet and run this cell again"
            )
    return list(missing)


def _normal(name: str) -> str:
    """Return a package's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()
