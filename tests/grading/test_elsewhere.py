"""A notebook that was opened alone: its first cell does nothing where the lab is, and fetches it where it is not."""

import os
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import nbformat
import pytest

from helpers.course import elsewhere
from solutions.grading import labs
from solutions.grading.addresses import BUNDLE, NOT_PUBLISHED, bundle_address, in_colab
from solutions.grading.course import Course
from solutions.grading.labs import FIRST_CELL
from solutions.grading.layout import ROOT
from tests.helpers.data.local_server import url_of_nothing
from tests.stand_in_wheels import add_wheel, served

_PROJECT = 'dependencies = [\n    "madeup>=1,<3",\n    "nbgrader>=0.9",\n    "nbformat>=5",\n]\n'
_CELL = FIRST_CELL.format(bundle="https://nowhere.invalid/lab.zip", folder=BUNDLE)


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A folder with the archive of a lab that needs a package nobody has, and an index that has it."""
    folder = tmp_path / "release"
    folder.mkdir()
    with zipfile.ZipFile(folder / f"{BUNDLE}.zip", "w") as archive:
        archive.writestr(f"{BUNDLE}/pyproject.toml", _PROJECT)
        for package in ("helpers", "trtcpu"):
            for path in (ROOT / package).rglob("*.py"):
                archive.write(path, f"{BUNDLE}/{path.relative_to(ROOT)}")
    for wheel in ("madeup 1.5", "madeup 2.0", "madeup 3.0", "nbformat 5.1", "nbformat 5.2"):
        add_wheel(folder / "index", *wheel.split())
    return folder


@pytest.fixture
def alone(release: Path, tmp_path: Path) -> Path:
    """A Python with one of the two packages that the lab needs, in a version that is not the newest."""
    python = tmp_path / "environment" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "environment")], check=True)
    wheel = release / "index" / "nbformat" / "nbformat-5.1-py3-none-any.whl"
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--no-index", str(wheel)], check=True)
    return python


def _first_cell(python: str | Path, address: str, folder: Path, after: str = "") -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON", "TRT_LAB"))}
    bundle = f"{address}/{BUNDLE}.zip"
    ours = {"PIP_INDEX_URL": f"{address}/index", "PIP_CONFIG_FILE": os.devnull, "TRT_LAB_BUNDLE": bundle}
    command = [str(python), "-c", f"{_CELL}\n{after}"]
    return subprocess.run(command, cwd=folder, env=kept | ours, capture_output=True, text=True)


def test_where_the_lab_is_it_asks_nobody_and_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(urllib.request, "urlretrieve", lambda *given: pytest.fail("it went to the network"))
    exec(_CELL, {})
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_elsewhere_it_fetches_the_lab_and_installs_what_is_missing_only(
    release: Path, alone: Path, tmp_path: Path
) -> None:
    ask = "import helpers, madeup, nbformat; print(helpers.__file__, madeup.__version__, nbformat.__version__)"
    with served(release) as address:
        done = _first_cell(alone, address, tmp_path / "content", ask)
        assert done.returncode == 0, done.stderr
        again = _first_cell(alone, address, tmp_path / "content", ask)
    said, kept, where = done.stdout.splitlines()
    assert said == f"The lab is in {BUNDLE}/; installed for it: madeup"
    assert f"it goes to {tmp_path}/content/artifacts/" in kept
    assert where == f"{tmp_path}/content/{BUNDLE}/helpers/__init__.py 2.0 5.1"
    assert again.stdout.splitlines()[0] == f"The lab is in {BUNDLE}/", "nothing is installed twice"


@pytest.mark.slow
def test_without_a_network_one_line_says_so(alone: Path, tmp_path: Path) -> None:
    done = _first_cell(alone, address := url_of_nothing(), tmp_path / "content")
    assert done.stderr.count("Traceback") == 1, "not those of urllib before it"
    error = done.stderr.splitlines()[-1]
    assert error.startswith(f"RuntimeError: the lab could not be fetched from {address}/{BUNDLE}.zip (<urlopen error ")
    assert "Connection refused" in error and "Internet on" in error
    assert not list((tmp_path / "content").iterdir())


@pytest.mark.slow
def test_what_is_no_archive_or_cannot_be_installed_is_said(release: Path, alone: Path, tmp_path: Path) -> None:
    with served(release) as address:
        (release / "index" / "madeup").rename(release / "index" / "another")
        done = _first_cell(alone, address, tmp_path / "first")
        error = done.stderr.splitlines()[-1]
        assert error.startswith("trtcpu.errors.LabError: cannot install madeup beside what is here; pip says: ERROR: ")
        (release / f"{BUNDLE}.zip").write_bytes(b"a page that says not found")
        done = _first_cell(alone, address, tmp_path / "second")
    assert f"could not be fetched from {address}/{BUNDLE}.zip (" in done.stderr.splitlines()[-1]
    assert "is not a zip file" in done.stderr and not list((tmp_path / "second").iterdir())


def test_with_google_drive_the_steps_files_go_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(elsewhere, "_DRIVE", tmp_path)
    monkeypatch.setattr(elsewhere, "_install", list)
    elsewhere.set_up()
    assert f"it goes to {tmp_path}/trt-lab/" in capsys.readouterr().out


@pytest.mark.parametrize("owner, link", [("OWNER", False), ("ada", True)])
def test_each_notebook_has_the_cell_and_once_the_owner_is_known_a_link_that_opens_it_in_colab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: str, link: bool
) -> None:
    address = f"https://github.com/{owner}/trt-lab"
    monkeypatch.setattr(labs, "repository_address", lambda root: address)
    labs.hand_out(Course.at(ROOT), tmp_path)
    for path in tmp_path.rglob("*.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        first = next(cell for cell in notebook.cells if cell.cell_type == "code")
        assert first.source == FIRST_CELL.format(bundle=bundle_address(ROOT), folder=BUNDLE)
        to_colab = f"({in_colab(address, f'labs/{path.relative_to(tmp_path)}')})"
        assert (to_colab in notebook.cells[0].source, "colab.research" in notebook.cells[0].source) == (link, link)


@pytest.mark.parametrize("owner, said", [("OWNER", NOT_PUBLISHED), ("ada", "Colab and Kaggle fetch it from")])
def test_packing_says_in_a_line_where_notebooks_fetch_it_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], owner: str, said: str
) -> None:
    for name, instead in (("make_release", lambda *_: []), ("check", lambda: None)):
        monkeypatch.setattr(labs, name, instead)
    monkeypatch.setattr(labs, "repository_address", lambda root: f"https://github.com/{owner}/trt-lab")
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "dist" / f"{BUNDLE}.zip"
    target.parent.mkdir()
    target.touch()
    labs.pack()
    assert capsys.readouterr().out.splitlines()[-1].startswith(said)
