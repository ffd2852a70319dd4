"""What a notebook says about itself is so: tasks, points and times, pictures, questions and their answers."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
from nbformat import NotebookNode

from helpers.course.steps import GRADED, NOTEBOOKS

ROOT = Path(__file__).resolve().parents[1]
_BOX = re.compile(
    r"^## Task (?P<heading>\d+\.\d) · .+\n\n"
    r'<div class="alert" style="border-left: 6px solid #0097a7; background-color: rgba\(0,151,167,\.12\)">\n\n'
    r"\*\*Task (?P<number>\d+\.\d)\*\* · (?P<points>[\d.]+) points? · about (?P<minutes>\d+) minutes · "
    r"you (?P<verb>write|run) (?P<names>.+)"
    r"\n\n</div>\n"
)
_FIRST = r"\*\*{}\*\*\s+(?:about\s+)?([\d.]+)"
_ITEM = re.compile(r"^\d+\. ", re.MULTILINE)
_PICTURE = re.compile(r"!\[(?P<alt>[^\]]+)\]\((?P<file>[\w.]+\.svg)\)")
_OWN_COLOUR = re.compile(r"""["'](#[0-9a-fA-F]{3,8}|tab:\w+|C\d|0?\.\d+|red|green|blue|orange|gr[ae]y|black)["']""")
_SVG = "{http://www.w3.org/2000/svg}"
_LEAST_TEXT = 12.0


@dataclass(frozen=True)
class Box:
    """What the box of a task says; `names` are what it asks to write, or to run, of an earlier task's."""

    number: str
    points: float
    minutes: int
    verb: str
    names: tuple[str, ...]


def _cells(step: str) -> list[NotebookNode]:
    return nbformat.read(ROOT / "solutions" / step / f"{step}.ipynb", as_version=4).cells


def _boxes(step: str) -> list[Box]:
    found = []
    for cell in _cells(step):
        if cell.cell_type == "markdown" and re.search(r"^## Task|\*\*Task \d", cell.source, re.MULTILINE):
            box = _BOX.match(cell.source)
            assert box, f"a task's cell begins otherwise than with its heading and box: {cell.source[:120]!r}"
            assert box["heading"] == box["number"]
            names = tuple(re.findall(r"`(\w+)`", box["names"]))
            found.append(Box(box["number"], float(box["points"]), int(box["minutes"]), box["verb"], names))
    return found


def _first(step: str, word: str) -> float:
    """Return the figure after a word of the notebook's first cell, such as Points or Time."""
    return float(re.search(_FIRST.format(word), _cells(step)[0].source)[1])


def _label(cell: NotebookNode) -> dict:
    return cell.metadata.get("nbgrader", {})


def _is_todo(cell: NotebookNode) -> bool:
    return cell.cell_type == "code" and bool(_label(cell).get("solution"))


def _binds(cell: NotebookNode) -> set[str]:
    """Return the functions, classes and variables that a cell defines."""
    names = set()
    for node in ast.parse(cell.source).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    return names


@pytest.mark.parametrize("step", GRADED)
def test_tasks_are_numbered_in_order(step: str) -> None:
    boxes = _boxes(step)
    assert [box.number for box in boxes] == [f"{int(step[:2])}.{n}" for n in range(1, len(boxes) + 1)] != []


@pytest.mark.parametrize("step", GRADED)
def test_points_and_times_add_up(step: str) -> None:
    boxes = _boxes(step)
    graded = sum(float(_label(cell)["points"]) for cell in _cells(step) if _label(cell).get("grade"))
    assert sum(box.points for box in boxes) == pytest.approx(graded) == _first(step, "Points")
    assert sum(box.minutes for box in boxes) == _first(step, "Time")


@pytest.mark.parametrize("step", GRADED)
def test_each_todo_has_a_box_that_names_it_and_each_box_a_todo(step: str) -> None:
    boxes, todos = _boxes(step), [_binds(cell) for cell in _cells(step) if _is_todo(cell)]
    for box in boxes:
        places = todos if box.verb == "write" else [set().union(*todos)]
        assert box.names and any(set(box.names) <= place for place in places), box
    for todo in todos:
        assert any(set(box.names) <= todo for box in boxes if box.verb == "write"), todo


@pytest.mark.parametrize("step", NOTEBOOKS)
def test_a_step_opens_with_a_picture_that_can_be_read_in_light_and_dark(step: str) -> None:
    shown = _PICTURE.search(_cells(step)[0].source)
    assert shown and len(shown["alt"]) > 30, "the first cell shows an SVG, and says what is on it"
    text = (ROOT / "solutions" / step / shown["file"]).read_text()
    assert "prefers-color-scheme: dark" in text
    root = ElementTree.fromstring(text)
    assert root.findtext(f"{_SVG}title") and root.findtext(f"{_SVG}desc")
    enlarged = 720 / float(root.attrib["viewBox"].split()[2])
    sizes = [float(node.attrib["font-size"]) for node in root.iter() if "font-size" in node.attrib]
    assert min(sizes) * enlarged >= _LEAST_TEXT and "font-size" in root.attrib


@pytest.mark.parametrize("step", NOTEBOOKS)
def test_questions_have_as_many_answers_folded_behind_them(step: str) -> None:
    cells = _cells(step)
    asked = [number for number, cell in enumerate(cells) if "Questions to think about" in cell.source]
    answered = [number for number, cell in enumerate(cells) if "answers" in cell.metadata.get("tags", [])]
    assert asked and answered == [number + 1 for number in asked]
    for number in answered:
        answers, questions = cells[number].source, cells[number - 1].source.partition("Questions to think about")[2]
        assert answers.startswith("<details><summary>Answers</summary>\n\n") and answers.endswith("\n\n</details>")
        assert len(_ITEM.findall(answers)) == len(_ITEM.findall(questions)) > 0


@pytest.mark.parametrize("step", NOTEBOOKS)
def test_a_step_ends_with_where_the_field_goes(step: str) -> None:
    cells = _cells(step)
    said = [number for number, cell in enumerate(cells) if cell.source.startswith("**Where the field goes.** ")]
    assert len(said) == 1 and cells[said[0]].cell_type == "markdown"
    assert all(_label(cell) == {} and "explore" in cell.metadata.get("tags", []) for cell in cells[said[0] + 1 :])


@pytest.mark.parametrize("step", NOTEBOOKS)
def test_drawing_is_folded_and_takes_its_colours_from_the_palette(step: str) -> None:
    for cell in _cells(step):
        if cell.cell_type == "code" and not _label(cell):
            folded = bool(cell.metadata.get("jupyter", {}).get("source_hidden"))
            assert folded == ("plt.show()" in cell.source), cell.source
            assert not _OWN_COLOUR.search(cell.source), cell.source
