"""Lays out a step: its entry in the table, and the files of templates/ with its names in them.

What the templates hold is an example: one task with one point, a wrong and a right solution. Function, grade_ids,
visible check and point are named after the step, since the course has each of these names once.
"""

import re
from pathlib import Path
from string import Template

from helpers.course.steps import START
from helpers.tools.files import atomic_write
from trtcpu.errors import InputError

TABLE = "helpers/course/steps.py"
FILES = {
    "notebook.ipynb": "solutions/$name/$name.ipynb",
    "picture.svg": "solutions/$name/$word.svg",
    "points.py": "helpers/checks/points/s$name.py",
    "bank.yaml": "tests/submissions/$name.yaml",
}
"""The templates, and where each is written."""

_NAME = re.compile(r"(\d\d)_([a-z][a-z0-9]*(?:_[a-z0-9]+)*)", re.ASCII)
_LONGEST = 24
"""Of the word: so that every line of the templates has room for it."""

_ENTRY = re.compile(r'^    Step\(\s*"((\d\d)_(\w+))"', re.MULTILINE)


def lay_out(name: str, root: Path) -> list[str]:
    """Write a step into the repository `root`; return the paths of what was written, from `root`.

    Raises:
        InputError: the name cannot be a step's, it is taken, or a file is there already. Then nothing is written.
    """
    number, word = _parts(name)
    table = (root / TABLE).read_text()
    _check_free(number, word, table)
    title = word.replace("_", " ")
    names = {"name": name, "number": str(int(number)), "word": word, "function": f"{word}_example"}
    names |= {"title": title, "heading": title[0].upper() + title[1:]}
    texts = {Template(path).substitute(names): _filled(template, names) for template, path in FILES.items()}
    _check_absent(root, list(texts))
    texts[TABLE] = _with_entry(table, number, _filled("entry.py", names))  # the last: a step is there once it is in it
    for path, text in texts.items():
        atomic_write(root / path, text)
    return list(texts)


def _parts(name: str) -> tuple[str, str]:
    """Return the number and the word of a step's name."""
    found = _NAME.fullmatch(name)
    if not found or len(found[2]) > _LONGEST:
        rule = f"two digits, an underscore and a word: a small letter, then letters, digits, _, up to {_LONGEST} in all"
        raise InputError(f"{name[:60]!r} cannot be the name of a step; give {rule}, such as NAME=17_padding")
    return found[1], found[2]


def _check_free(number: str, word: str, table: str) -> None:
    for taken, its_number, its_word in [*_ENTRY.findall(table), (START, *START.split(".")[0].split("_"))]:
        for what, ours, its in (("number", number, its_number), ("word", word, its_word)):
            if ours == its:
                raise InputError(f"the {what} {ours} is that of {taken}; choose another")


def _check_absent(root: Path, paths: list[str]) -> None:
    """Raise InputError where a file is there, or a package in the place of a module."""
    places = [place for path in paths for place in (path, path.removesuffix(".py"))]
    if there := [place for place in dict.fromkeys(places) if (root / place).exists()]:
        raise InputError(f"{', '.join(there)}: there already; choose another name, or move it away")


def _filled(template: str, names: dict[str, str]) -> str:
    text = (Path(__file__).parent / "templates" / f"{template}.txt").read_text()
    return Template(text).substitute(names)


def _with_entry(table: str, number: str, entry: str) -> str:
    """Return the table of steps with an entry before the first of a greater number, or behind the last."""
    later = (found.start() for found in _ENTRY.finditer(table) if found[2] > number)
    place = next(later, table.index("\n)\n", table.index("\nTABLE = (")) + 1)
    return table[:place] + entry + table[place:]
