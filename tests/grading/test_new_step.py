"""`make step`: a new step works at once, and a name that cannot be taken leaves the repository as it was."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from string import Template

import pytest

from helpers.tools.files import atomic_write
from solutions.grading import new_step
from solutions.grading.layout import ROOT
from solutions.grading.new_step import FILES, TABLE, lay_out
from trtcpu.errors import InputError

# Numbers and words that no step of the course will have.
NAME, LATER = "96_laid_out", "97_later"

LONGEST, SHORTEST = "98_as_long_as_a_word_may_be", "99_a"
PLACES = [Template(path).substitute(name=NAME, word="laid_out") for path in FILES.values()]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository that has a table of steps and nothing else."""
    (tmp_path / TABLE).parent.mkdir(parents=True)
    shutil.copy(ROOT / TABLE, tmp_path / TABLE)
    return tmp_path


def _refused(root: Path, name: str) -> str:
    """Return why a step is refused, once it is seen that nothing was written."""
    before = {path: path.is_file() and path.read_bytes() for path in root.rglob("*")}
    with pytest.raises(InputError) as refusal:
        lay_out(name, root)
    assert {path: path.is_file() and path.read_bytes() for path in root.rglob("*")} == before
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


NO_NAMES = (
    *("", "laid_out", "7_laid_out", "00_laid_out", "196_laid_out", "96-laid_out", "96_", "96_Laid", "96_2d"),
    *("96_laid out", f"{NAME}\n", "96__laid", "96_laid_", "96_gefüllt", "٩٦_laid_out", f"../{NAME}", f"{LONGEST}3"),
)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        *((name, "give 01 to 99, an underscore and a word") for name in NO_NAMES),
        ("13_laid_out", "the number 13 is that of 13_compilers; choose another"),
        ("15_laid_out", "the number 15 is that of 15_llm"),
        ("96_compilers", "the word compilers is that of 13_compilers; choose another"),
    ],
)
def test_a_name_that_is_no_step_s_or_is_taken_is_refused(root: Path, name: str, said: str) -> None:
    assert said in _refused(root, name)


@pytest.mark.parametrize("place", [*PLACES, f"helpers/checks/points/s{NAME}/__init__.py"])
def test_a_file_that_is_there_already_stays_and_is_named(root: Path, place: str) -> None:
    atomic_write(root / place, "mine")
    assert place.removesuffix("/__init__.py") in _refused(root, NAME)


def test_the_command_says_what_it_wrote_and_a_second_time_why_it_refuses(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(new_step, "ROOT", root)
    new_step.main(NAME)
    said = capsys.readouterr().out
    assert re.findall(r"^  (\S+)$", said, re.M) == [*PLACES, TABLE]
    assert f"make submissions STEP={NAME}" in said and "make labs" in said
    with pytest.raises(SystemExit, match="2"):
        new_step.main(NAME)
    out, err = capsys.readouterr()
    assert not out and re.fullmatch(f"error: the number 96 is that of {NAME}; .*\n", err)


def test_a_step_comes_where_its_number_says(root: Path) -> None:
    before = (root / TABLE).read_text()
    for name in (LATER, NAME):
        lay_out(name, root)
    after = (root / TABLE).read_text()
    assert after.index('"16_cases"') < after.index(f'"{NAME}"') < after.index(f'"{LATER}"') < after.index("BY_NAME =")
    entries = re.findall(rf'^    Step\(\n        "(?:{LATER}|{NAME})",\n.*?^    \),\n', after, re.S | re.M)
    assert len(entries) == 2 and after.replace("".join(entries), "") == before


def test_what_is_laid_out_is_linted_and_formatted_however_long_the_name(root: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", root)
    for name in (LONGEST, SHORTEST):
        lay_out(name, root)
    _run(root, "ruff", "check", "--ignore", "I", "--no-cache", ".")  # which imports are ours is seen where they all are
    _run(root, "ruff", "format", "--check", "--no-cache", ".")


def _run(root: Path, *module: str) -> None:
    command = [sys.executable, "-m", *module]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(module)}\n{done.stdout[-4000:]}{done.stderr[-2000:]}"


@pytest.mark.slow
def test_a_new_step_s_solutions_are_decided_and_its_notebook_is_of_the_house_s_form(tmp_path: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout: an unpacked archive has no list of tracked files")
    copy = tmp_path / "copy"
    for name in listed.stdout.split("\0"):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    _run(copy, "solutions.grading.new_step", NAME)
    _run(copy, "solutions.grading.labs", "write")
    _run(copy, "tests.submissions", "--step", NAME, "--out", "bank.json", "--messages", "labs/messages")
    figures = json.loads((copy / "bank.json").read_text())
    assert [row["kind"] for row in figures["entries"]] == ["solution", "skeleton", "wrong", "right"]
    mistakes = ("accepted_wrong", "rejected_right", "lost_by_mistake", "failed_checks")
    assert [figures[key] for key in mistakes] == [0, 0, 0, 0]
    _run(copy, "ruff", "check", "--no-cache", ".")
    tests = ("test_notebook_texts", "test_notebook_names", "test_documents", "submissions/test_messages")
    _run(copy, "pytest", "-m", "not slow", *(f"tests/{name}.py" for name in tests))
