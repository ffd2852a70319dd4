"""Makes the lab usable for a notebook that was opened alone, as in Colab and Kaggle.

The first code cell of a handed-out notebook runs this file, which a release has beside its archive, where there is no
lab. It fetches the archive, installs the packages that are missing, and leaves every installed one as it is: PyTorch,
CUDA and NumPy of such a place belong together. It needs Python alone. `release`, the address of both files, comes from
the cell.
"""

import importlib
import io
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from importlib import metadata
from pathlib import Path

FOLDER = Path("trt-lab-student")  # as in the archive
DRIVE = Path("/content/drive/MyDrive")
_NOT_NEEDED = {"ipykernel", "jupyterlab", "nbgrader"}  # such a place has its own notebook, and grades nothing


def main(release: str) -> None:
    """Bring the lab of `release` into the folder FOLDER and this session.

    Raises:
        RuntimeError: it cannot be fetched, or a package cannot be installed.
    """
    if not (FOLDER / "helpers").is_dir():
        _fetch(f"{release}/{FOLDER}.zip")
    installed = _install()
    sys.path.insert(0, str(FOLDER.resolve()))
    importlib.invalidate_caches()
    print(f"The lab is in {FOLDER}/" + (f"; installed for it: {', '.join(installed)}" if installed else ""))
    if DRIVE.is_dir():
        os.environ.setdefault("TRT_LAB_ARTIFACTS", str(DRIVE / "trt-lab"))
    if not os.environ.get("TRT_LAB_ARTIFACTS"):
        print(f"The next step needs what this one makes: how to keep it says {FOLDER}/README.md, Colab and Kaggle")


def _fetch(address: str) -> None:
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            archive = zipfile.ZipFile(io.BytesIO(answer.read()))
        with tempfile.TemporaryDirectory(dir=".") as folder:
            archive.extractall(folder)
            (Path(folder) / FOLDER).rename(FOLDER)
    except (OSError, zipfile.BadZipFile) as error:
        raise RuntimeError(
            f"the lab could not be fetched from {address}: {error}; is this place allowed to use the internet? "
            "(Kaggle: Settings, Internet on)"
        ) from None


def _install() -> list[str]:
    """Install what is missing of the lab's packages and return their names."""
    here = {found.metadata["Name"].lower().replace("_", "-"): found.version for found in metadata.distributions()}
    listed = re.search(r"^dependencies = \[\n(.*?)^\]", (FOLDER / "pyproject.toml").read_text(), re.M | re.S)[1]
    asked = {re.match(r"[\w.-]+", line)[0]: line for line in re.findall(r'"([^"]+)"', listed)}
    missing = {name: line for name, line in asked.items() if name not in here and name not in _NOT_NEEDED}
    if missing:
        kept = "".join(f"{name}=={version}\n" for name, version in here.items())
        with tempfile.TemporaryDirectory() as folder:
            (constraints := Path(folder) / "installed.txt").write_text(kept)
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            done = subprocess.run([*command, "-c", str(constraints), *missing.values()], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"cannot install {', '.join(missing)}; pip says: {done.stderr.strip()[-500:]}")
    return list(missing)


main(globals()["release"])
