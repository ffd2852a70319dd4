"""A notebook that was opened alone: its first cell does nothing where the lab is, and fetches it where it is not."""

import os
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import nbformat
import pytest

from helpers.lab import STEPS
from solutions.grading.addresses import in_colab, release_address, repository_address
from solutions.grading.labs import FIRST_CELL
from solutions.grading.layout import ROOT
from solutions.grading.release import ELSEWHERE, NAME
from tests.stand_in_wheels import add_wheel, served

_PROJECT = 'dependencies = [\n    "madeup>=1,<3",\n    "nbgrader>=0.9",\n    "nbformat>=5",\n]\n'
_FILES = {"helpers/__init__.py": "WHERE = __file__\n", "pyproject.toml": _PROJECT}


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A release's folder with a lab of one module that needs a package nobody has, and an index that has it."""
    folder = tmp_path / "release"
    folder.mkdir()
    with zipfile.ZipFile(folder / f"{NAME}.zip", "w") as archive:
        for name, text in _FILES.items():
            archive.writestr(f"{NAME}/{name}", text)
    (folder / ELSEWHERE.name).write_bytes(ELSEWHERE.read_bytes())
    for version in ("1.5", "2.0", "3.0"):
        add_wheel(folder / "index", "madeup", version)
    for version in ("5.1", "5.2"):
        add_wheel(folder / "index", "nbformat", version)
    return folder


@pytest.fixture
def alone(release: Path, tmp_path: Path) -> Path:
    """A Python with one of the two packages that the lab needs, in a version that is not the newest."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    wheel = release / "index" / "nbformat" / "nbformat-5.1-py3-none-any.whl"
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-index"]
    subprocess.run([*pip, str(wheel)], check=True)
    return environment / "bin" / "python"


def _first_cell(python: Path, address: str, folder: Path, after: str = "") -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON", "TRT_LAB"))}
    environment = {**kept, "PIP_INDEX_URL": f"{address}/index", "PIP_CONFIG_FILE": os.devnull}
    code = FIRST_CELL.format(release=address) + "\n" + after
    return subprocess.run([str(python), "-c", code], cwd=folder, env=environment, capture_output=True, text=True)


def test_where_the_lab_is_it_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urllib.request, "urlopen", lambda *given: pytest.fail("it went to the network"))
    exec(FIRST_CELL.format(release="https://nowhere.invalid"), {})


def test_elsewhere_it_fetches_the_lab_and_installs_what_is_missing_only(
    release: Path, alone: Path, tmp_path: Path
) -> None:
    ask = "import helpers, madeup, nbformat; print(helpers.WHERE, madeup.__version__, nbformat.__version__)"
    with served(release) as address:
        done = _first_cell(alone, address, tmp_path / "content", ask)
        assert done.returncode == 0, done.stderr
        again = _first_cell(alone, address, tmp_path / "content", ask)
    said, where = done.stdout.splitlines()[0], done.stdout.splitlines()[-1]
    assert said == f"The lab is in {NAME}/; installed for it: madeup"
    assert where == f"{tmp_path}/content/{NAME}/helpers/__init__.py 2.0 5.1"
    assert again.stdout.splitlines()[0] == f"The lab is in {NAME}/", "nothing is fetched or installed twice"


def test_what_cannot_be_fetched_or_installed_is_said(release: Path, alone: Path, tmp_path: Path) -> None:
    with served(release) as address:
        (release / "index" / "madeup").rename(release / "index" / "another")
        done = _first_cell(alone, address, tmp_path / "first")
        assert "RuntimeError: cannot install madeup; pip says:" in done.stderr
        (release / f"{NAME}.zip").write_bytes(b"a page that says not found")
        done = _first_cell(alone, address, tmp_path / "second")
    assert (
        f"RuntimeError: the lab could not be fetched from {address}/{NAME}.zip: File is not a zip file" in done.stderr
    )
    assert not list((tmp_path / "second").iterdir()), "nothing half-written stays"


@pytest.mark.parametrize("name", ["00_start.ipynb", *(f"{step}/{step}.ipynb" for step in STEPS)])
def test_each_notebook_has_the_cell_and_a_link_that_opens_it_in_colab(name: str) -> None:
    notebook = nbformat.read(ROOT / "labs" / name, as_version=4)
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    assert first.source == FIRST_CELL.format(release=release_address(ROOT))
    assert f"({in_colab(repository_address(ROOT), f'labs/{name}')})" in notebook.cells[0].source
