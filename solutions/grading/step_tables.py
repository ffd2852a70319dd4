"""The tables of steps in README.md and in the hand-out, made from the course's own table."""

from collections.abc import Callable
from pathlib import Path

from helpers.course.steps import STEPS, TABLE, Step
from helpers.tools.files import atomic_write
from trtcpu.errors import InputError


def update_tables(root: Path) -> None:
    """Write the rows of the tables in `root` anew, where its pages are there.

    Raises:
        InputError: a page does not have its two tables; then none is written.
    """
    there = [name for name in PAGES if (root / name).is_file()]
    texts = {name: with_tables(name, (root / name).read_text()) for name in there}
    for name, text in texts.items():
        atomic_write(root / name, text)


def with_tables(name: str, text: str) -> str:
    """Return the page `name` with its two tables as the course's has them: the steps of the 100 points, and the others.

    Raises:
        InputError: it does not have the two tables.
    """
    head, row = PAGES[name]
    if text.count(head) != 2:
        wanted = f"the head {head.splitlines()[0]!r}"
        raise InputError(f"{name} has {text.count(head)} tables of steps, not two: {wanted} must stand in it twice")
    before, first, second = text.split(head)
    steps = [step for step in TABLE if step.name in STEPS]
    others = [step for step in TABLE if step.name not in STEPS]
    parts = [before]
    for group, old in ((steps, first), (others, second)):
        behind = old[old.index("\n\n") :]
        parts += [head, "\n".join(map(row, group)), behind]
    return "".join(parts)


def _about(step: Step) -> str:
    return f"| {int(step.name[:2])} | {step.about} | [{step.name}](solutions/{step.name}/{step.name}.ipynb) |"


def _asked(step: Step) -> str:
    link = f"{int(step.name[:2])} [{step.title}]({step.name}/{step.name}.ipynb)"
    chapter = "" if step.points else ", a chapter to read and run"
    return f"| {link}{chapter} | {_code(step.writes)} | {_code(step.makes)} | {step.minutes} min | {step.points} |"


def _code(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


_RULE = "|---|---|---|"
PAGES: dict[str, tuple[str, Callable[[Step], str]]] = {
    "README.md": (f"| step | about | executed solution |\n{_RULE}\n", _about),
    "labs/README.md": (f"| step | you write | makes | time | points |\n{_RULE}---|---|\n", _asked),
}
"""The pages with such tables: what stands above the rows, and how a row is written."""
