"""What students get: everything the notebooks need, nothing that gives answers away."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest

from helpers.course.handout import HANDOUT
from helpers.course.steps import NOTEBOOKS
from solutions.grading.addresses import BUNDLE
from solutions.grading.labs import make_release, pack
from solutions.grading.layout import ROOT
from trtcpu.errors import InputError


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    make_release(ROOT, folder / "student.zip")
    shutil.unpack_archive(folder / "student.zip", folder)
    return folder / BUNDLE


def test_it_holds_no_answers_and_no_checks(unpacked: Path) -> None:
    names = {path.relative_to(unpacked).parts[0] for path in unpacked.rglob("*")}
    assert names.isdisjoint(("solutions", "trtlab", "tests"))
    for path in [*unpacked.rglob("*.py"), *unpacked.rglob("*.ipynb"), *unpacked.rglob("*.toml")]:
        text = path.read_text()
        assert "BEGIN SOLUTION" not in text and "BEGIN HIDDEN" not in text, path
        assert not re.search(r"^\s*(import|from) (solutions|trtlab)\b", text, re.M), path


def test_it_holds_what_the_readme_names(unpacked: Path) -> None:
    for name in ("README.md", "Makefile", "environment.yml", "constraints.txt", "LICENSE", "nbgrader_config.py"):
        assert (unpacked / name).is_file(), name
    assert (unpacked / "AGENTS.md").read_text() == (ROOT / "labs" / "AGENTS.md").read_text()
    assert [path.stem for path in sorted((unpacked / HANDOUT).iterdir())] == ["00_start", *NOTEBOOKS]
    assert not list((unpacked / "labs").rglob("*.ipynb")), "unpacked over an older release, it would overwrite work"
    assert (unpacked / "datasets" / "weights" / "resnet50.npz").is_file()


@pytest.mark.slow
def test_its_notebooks_are_laid_out_as_labs_has_them(unpacked: Path, tmp_path: Path) -> None:
    here = shutil.copytree(unpacked, tmp_path / BUNDLE)
    subprocess.run([sys.executable, "-m", "helpers.course.handout"], cwd=here, check=True)
    assert _files(here / "labs") == _files(ROOT / "labs")


def _files(labs: Path) -> dict[str, bytes]:
    return {str(path.relative_to(labs)): path.read_bytes() for path in labs.glob("[0-9][0-9]_*/*.*") if path.is_file()}


@pytest.mark.slow
def test_the_helpers_run_on_their_own(unpacked: Path) -> None:
    code = "import helpers, sys; helpers.feedback; assert 'solutions' not in sys.modules; print(helpers.__file__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=unpacked, capture_output=True, text=True, check=True)
    assert str(unpacked) in done.stdout


def test_the_same_files_give_the_same_archive(unpacked: Path, tmp_path: Path) -> None:
    make_release(ROOT, tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == (unpacked.parent / "student.zip").read_bytes()


def test_the_students_project_has_the_same_dependencies_and_no_solutions(unpacked: Path) -> None:
    ours, theirs = ((folder / "pyproject.toml").read_text() for folder in (ROOT, unpacked))
    assert re.search(r"^dependencies = \[.*?^\]", ours, re.S | re.M)[0] in theirs
    assert "solutions" not in theirs and "trtlab" not in theirs


def test_without_notebooks_there_is_nothing_to_pack(tmp_path: Path) -> None:
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    with pytest.raises(InputError, match="no notebooks"):
        make_release(tmp_path, tmp_path / "student.zip")


def test_an_output_of_other_code_is_named_and_only_a_strict_release_refuses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    step = Path("solutions", NOTEBOOKS[0], f"{NOTEBOOKS[0]}.ipynb")
    notebook = nbformat.read(ROOT / step, as_version=4)
    [cell for cell in notebook.cells if cell.cell_type == "code"][-1].source += "\nedited = True"
    monkeypatch.chdir(tmp_path)
    step.parent.mkdir(parents=True)
    nbformat.write(notebook, step)
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    for name in "helpers trtcpu datasets labs environment.yml constraints.txt LICENSE pyproject.toml".split():
        Path(name).symlink_to(ROOT / name)
    with pytest.raises(SystemExit, match="2"):
        pack(strict=True)
    assert not Path("dist").exists()
    pack()
    out, err = capsys.readouterr()
    other = rf"{NOTEBOOKS[0]}: other code ran in cells [\d, ]+"
    assert re.match(rf"error: .*{other}\); .*STRICT=1", err) and re.search(rf"^warning: .*\n  {other}\n", out)
    with zipfile.ZipFile(f"dist/{BUNDLE}.zip") as archive:
        assert f"{BUNDLE}/{HANDOUT}/{NOTEBOOKS[0]}/{NOTEBOOKS[0]}.ipynb" in archive.namelist()
