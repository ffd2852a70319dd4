"""`python -m solutions.grading.new_step 17_padding`: lays out a step, and says what comes next.

It writes the step's entry in the table, and the files of templates/new_step/ with the step's names in them. The
templates hold an example: one task with one point, a wrong and a right solution. Function, grade_ids, visible check and
point are named after the step, since the course has each of these names once.
"""

import re
import sys
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from helpers.tools.files import atomic_write
from solutions.grading.layout import ROOT
from trtcpu.errors import InputError, LabError

TABLE = "helpers/course/steps.py"

# The templates, and where each is written.
FILES = {
    "notebook.ipynb": "solutions/$name/$name.ipynb",
    "picture.svg": "solutions/$name/$word.svg",
    "points.py": "helpers/checks/points/s$name.py",
    "bank.yaml": "tests/submissions/$name.yaml",
}

_TEMPLATES = Path(__file__).parent / "templates" / "new_step"
_LONGEST = 24  # so that every line of the templates has room for the word
_NAME = re.compile(rf"(?!00)(\d\d)_(?=.{{1,{_LONGEST}}}$)([a-z][a-z0-9]*(?:_[a-z0-9]+)*)", re.ASCII)
_ENTRY = re.compile(r'^    Step\(\s*"((\d\d)_(\w+))"', re.MULTILINE)
_NEXT = """\
It works as it is. What comes next:
  make labs  # the students' notebook, the tables of steps
  make submissions STEP={name}  # its messages, the size of the bank
Then replace the example: CONTRIBUTING.md, "Add a step", says in which order."""


def lay_out(name: str, root: Path) -> list[str]:
    """Write a step into the repository `root`; return the paths of what was written, from `root`.

    Raises:
        InputError: the name cannot be a step's, it is taken, or a file is there already. Then nothing is written.
    """
    table = (root / TABLE).read_text()
    number, word = _free(name, table)
    title = word.replace("_", " ")
    names = {
        "name": name,
        "number": str(int(number)),
        "word": word,
        "function": f"{word}_example",
        "title": title,
        "heading": title[0].upper() + title[1:],
    }
    texts = {Template(path).substitute(names): _filled(template, names) for template, path in FILES.items()}
    places = [place for path in texts for place in (path, path.removesuffix(".py"))]  # of a package too
    if there := [place for place in dict.fromkeys(places) if (root / place).exists()]:
        raise InputError(f"{', '.join(there)}: there already; choose another name, or move it away")
    later = (found.start() for found in _ENTRY.finditer(table) if found[2] > number)
    place = next(later, table.index("\n)\n", table.index("\n_LAB = (")) + 1)
    texts[TABLE] = table[:place] + _filled("entry.py", names) + table[place:]  # the last: with it the step is there
    for path, text in texts.items():
        atomic_write(root / path, text)
    return list(texts)


def _free(name: str, table: str) -> tuple[str, str]:
    """Return the number and word of a new step's name. Raises InputError if it is malformed, or one is taken."""
    found = _NAME.fullmatch(name)
    if not found:
        raise InputError(
            f"{name[:60]!r} cannot be the name of a step; give 01 to 99, an underscore and a word: a small letter, "
            f"then letters, digits, _, up to {_LONGEST} in all, such as NAME=17_padding"
        )
    taken = {part: step for step, *parts in _ENTRY.findall(table) for part in parts}
    for what, part in zip(("number", "word"), found.groups(), strict=True):
        if part in taken:
            raise InputError(f"the {what} {part} is that of {taken[part]}; choose another")
    return found[1], found[2]


def _filled(template: str, names: dict[str, str]) -> str:
    return Template((_TEMPLATES / f"{template}.txt").read_text()).substitute(names)


def main(name: Annotated[str, typer.Argument(help="Two digits and a word, such as 17_padding.")]) -> None:
    """Lay out a new optional step in this repository."""
    try:
        written = lay_out(name, ROOT)
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    print("\n".join([f"{name}:", *(f"  {path}" for path in written), _NEXT.format(name=name)]))


if __name__ == "__main__":
    typer.run(main)
