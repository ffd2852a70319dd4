"""What coding assistants are told is so: it names no answer, and every name, command and message in it is the lab's."""

import ast
import re
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from helpers.checks import feedback
from helpers.checks.feedback.check import NotYet
from helpers.course.artifacts import artifact, artifacts_folder, use_artifacts
from helpers.course.handout import HANDOUT
from helpers.course.steps import NOTEBOOKS
from tests.test_no_answers import ANSWERS
from trtcpu.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "labs" / "AGENTS.md").read_text()
CODE = re.findall(r"`([^`\n]+)`", TEXT)
COMMAND = re.search(r'^    \.venv/bin/python -c "(.+)"$', TEXT, re.M)[1]
PARAGRAPH = TEXT.replace("\n  ", " ")


def _cells(folder: str) -> list[nbformat.NotebookNode]:
    return [cell for step in NOTEBOOKS for cell in nbformat.read(ROOT / folder / step / f"{step}.ipynb", 4).cells]


def _is_todo(cell: nbformat.NotebookNode) -> bool:
    return cell.cell_type == "code" and bool(cell.metadata.get("nbgrader", {}).get("solution"))


def test_it_names_nothing_that_a_todo_defines_or_calls() -> None:
    nodes = [node for cell in _cells("solutions") if _is_todo(cell) for node in ast.walk(ast.parse(cell.source))]
    called = {node.func.attr for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)}
    defined = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assert {"set_flag", "parse", "execute_async_v3"} <= called and {"build_report", "infer"} <= defined
    words = {word for code in [*CODE, COMMAND] for word in re.findall(r"\w+", code)}
    assert sorted(words & (called | defined)) == []
    assert [what for what, pattern in ANSWERS.items() if pattern.search(TEXT)] == []


def test_it_is_about_a_page() -> None:
    assert len(TEXT.splitlines()) < 60 and len(TEXT.split()) < 650


def test_the_hints_and_marks_that_it_names_are_those_of_the_notebooks() -> None:
    given = "\n".join(cell.source for cell in _cells("labs"))
    named = re.findall(r'"(Hint \d: [^"]+)"', TEXT)
    assert len(named) == 3 and all(f"<summary>{hint}</summary>" in given for hint in named)
    for mark in ("YOUR CODE HERE", "NotImplementedError"):
        assert f"`{mark}`" in TEXT and mark in given
    assert "## Questions to think about" in given and '"Questions to think about"' in TEXT
    section = re.search(r'`labs/README\.md` \("([^"]+)"\)', PARAGRAPH)[1]
    assert f"\n## {section}\n" in (ROOT / "labs" / "README.md").read_text()


def test_what_it_says_not_to_edit_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "labs" / NOTEBOOKS[0])
    artifacts = artifacts_folder().relative_to(ROOT)
    assert f"`{HANDOUT}/`" in TEXT and f"`{artifacts}/`" in TEXT
    for folder in ("helpers", "helpers/checks/points", "trtcpu", "datasets"):
        assert f"`{folder}/`" in TEXT and (ROOT / folder).is_dir()
    assert all(hasattr(feedback, name) for name in re.findall(r"feedback\.(\w+)", TEXT))


def _todo(onnx_path: Path, engine_path: Path) -> bytes:
    raise NotImplementedError("fill in this TODO, then remove this line")


def test_its_messages_are_those_of_a_check_that_misses_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use_artifacts(tmp_path)
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    with pytest.raises(NotYet, match="to fix, listed above$"):
        feedback.check_fp16_engine(_todo)
    assert "`NotYet: … to fix, listed above`" in TEXT
    shown = capsys.readouterr().out
    row = re.search(r"^\| `✗`, with (.+?) \|", TEXT, re.M)[1]
    assert "`the TODO is still there`" in TEXT and "the TODO is still there" in shown
    assert "✗" in shown and re.findall(r"^ {6}(\w+) ", shown, re.M)[:3] == re.findall(r"`(\w+)`", row)


def test_a_missing_file_is_named_with_its_step(tmp_path: Path) -> None:
    use_artifacts(tmp_path)
    with pytest.raises(InputError, match="is missing.*run step 04_int8"):
        artifact("resnet50_int8.engine")
    assert "`InputError: … is missing`" in TEXT


def test_its_command_validates_a_notebook_from_the_top_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    label = {"nbgrader": {"grade_id": "is_two", "grade": True, "points": 1}}
    notebook = new_notebook(cells=[new_code_cell("number = 2"), new_code_cell("assert number == 2", metadata=label)])
    place = tmp_path / re.search(r"'(labs/\S+\.ipynb)'", COMMAND)[1]
    place.parent.mkdir(parents=True)
    nbformat.write(notebook, place)
    before = place.read_bytes()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    exec(COMMAND, {})
    assert "✓ is_two" in capsys.readouterr().out and place.read_bytes() == before
