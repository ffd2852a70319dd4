"""A script or a notebook as one Python source, and back: its cells with a marker before each, magics out of the way."""

import bisect
import io
import json
import re
import tokenize
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import libcst as cst

from trtcpu.errors import InputError

_MARKER = "__migrated_cell_{}__"
_MASK = "__migrated_magic_{}_{}__"
_MAGIC_LINE = re.compile(r"^(\s*)([%!].*|[^#\n'\"]*\?{1,2}\s*)$")
_TIMED = re.compile(r"^(\s*)(%(?:time|timeit|prun)\s+(?:-\w+\s+(?:\d+\s+)?)*)(?=[^\s-])")
_MAGIC_VALUE = re.compile(r"^(\s*[\w.,\s\[\]]+=\s*)([%!].*)$")
_LINE_END = re.compile(r"\r\n|\r|\n")
_PYTHON_CELLS = re.compile(r"^%%(time|timeit|capture|prun)\b|^%%writefile\b.*\.py\s*$")


class Place(NamedTuple):
    """Where something stands: cell (counted from 1 over all of the notebook's; None in a script), line and column."""

    cell: int | None
    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}" if self.cell is None else f"cell {self.cell}, line {self.line}"


@dataclass
class _Cell:
    number: int
    source: str
    head: str = ""
    """The line of a cell magic, which stays as it is."""
    masked: dict[str, str] = field(default_factory=dict)
    fault: str = ""

    def python(self) -> str:
        return self.source[len(self.head) :]


@dataclass
class Source:
    """The Python source of a file; `text` is what is analysed, `written(text)` the file's content for a new text."""

    path: Path
    text: str
    faults: list[tuple[int | None, str]]
    """Cells that cannot be read as Python, with the reason."""
    _starts: list[tuple[int, int | None]] = field(repr=False, default_factory=list)
    _cells: list[_Cell] = field(repr=False, default_factory=list)
    _raw: str = field(repr=False, default="")
    _encoding: str = "utf-8"

    def place(self, line: int, column: int) -> Place:
        """Return where line and column (from 1 and from 0) of `text` stand in the file."""
        index = bisect.bisect_right(self._starts, line, key=lambda start: start[0]) - 1
        start, cell = self._starts[index]
        before = self._unmasked(_LINE_END.split(self.text)[line - 1][:column])
        return Place(cell, line - start + 1, len(before))

    def line(self, number: int) -> str:
        """Return a line of `text`, with its magics, without the space around it."""
        return self._unmasked(_LINE_END.split(self.text)[number - 1]).strip()

    def _unmasked(self, text: str) -> str:
        for cell in self._cells:
            text = _unmasked(text, cell)
        return text

    def written(self, text: str) -> bytes:
        """Return the content of the file whose source is `text`; nothing else in the file changes."""
        if self._starts[0][1] is None:
            return text.encode(self._encoding)
        notebook, sources = json.loads(self._raw), _split(text)
        for cell in self._cells:
            if cell.number in sources:
                source = cell.head + _unmasked(sources[cell.number], cell)
                _set_source(notebook["cells"][cell.number - 1], source)
        return _like(self._raw, notebook).encode()


def read_source(path: Path) -> Source:
    """Read a script (.py) or a notebook (.ipynb).

    Raises:
        InputError: the file cannot be read, is neither, or is a script that Python cannot parse.
    """
    if path.suffix not in (".py", ".ipynb"):
        raise InputError(f"{path} is no Python script and no notebook; give a file that ends in .py or .ipynb")
    try:
        content = path.read_bytes()
        encoding = tokenize.detect_encoding(io.BytesIO(content).readline)[0] if path.suffix == ".py" else "utf-8"
        raw = content.decode(encoding)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except (SyntaxError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is no text in its encoding: {error}; save it as UTF-8") from error
    return _notebook(path, raw) if path.suffix == ".ipynb" else _script(path, raw, encoding)


def _script(path: Path, raw: str, encoding: str) -> Source:
    if fault := _fault(raw):
        raise InputError(f"{path} is not Python 3: {fault}; mend it first")
    return Source(path, raw, [], [(1, None)], [], raw, encoding)


def _notebook(path: Path, raw: str) -> Source:
    try:
        cells = [_cell(number, cell) for number, cell in enumerate(json.loads(raw)["cells"], 1)]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        found = "it holds no list of cells" if isinstance(error, (KeyError, TypeError, AttributeError)) else error
        raise InputError(f"{path} is not a notebook of format 4: {found}; open and save it in Jupyter") from error
    text, starts = "", [(1, None)]
    sound = [cell for cell in cells if cell is not None and not cell.fault]
    for cell in sound:
        text += _MARKER.format(cell.number) + "\n"
        starts.append((text.count("\n") + 1 - cell.head.count("\n"), cell.number))
        text += cell.python() + "\n"
    faults = [(cell.number, cell.fault) for cell in cells if cell is not None and cell.fault]
    return Source(path, text, faults, starts[1:] or [(1, 0)], sound, raw)


def _cell(number: int, cell: dict[str, Any]) -> _Cell | None:
    """Return a code cell with its magics masked where it needs that; None for one that holds no Python."""
    if cell["cell_type"] != "code":
        return None
    source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
    if source.startswith("%%") and not _PYTHON_CELLS.match(source.partition("\n")[0]):
        return None
    head = source[: source.find("\n") + 1] if source.startswith("%%") else ""
    made = _Cell(number, source.replace("\r\n", "\n"), head)
    if (fault := _fault(made.python())) and _mask(made):
        fault = _fault(made.python())
    made.fault = fault
    return made


def _mask(cell: _Cell) -> bool:
    """Replace the lines of IPython in `cell` by names that Python can parse; tell whether there were any."""
    lines, indent = [], None
    for line in cell.python().split("\n"):
        if indent is None and (timed := _TIMED.match(line)):  # what it times is Python
            name = _MASK.format(cell.number, len(cell.masked)) + "; "
            cell.masked[name] = timed[2]
            lines.append(timed[1] + name + line[timed.end() :])
            continue
        found = _MAGIC_VALUE.match(line) or _MAGIC_LINE.match(line)
        before, magic = (indent, line) if indent is not None else (found[1], found[2]) if found else (line, "")
        if found or indent is not None:
            name = _MASK.format(cell.number, len(cell.masked))
            cell.masked[name] = magic
            indent = re.match(r"\s*", before)[0] if line.endswith("\\") else None
            line = before + name
        lines.append(line)
    cell.source = cell.head + "\n".join(lines)
    return bool(cell.masked)


def _unmasked(text: str, cell: _Cell) -> str:
    for name, magic in cell.masked.items():
        text = text.replace(name, magic)
    return text


def _fault(text: str) -> str:
    """Return why Python cannot parse `text`, "" where it can."""
    try:
        cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        return f"line {error.raw_line}: {' '.join(error.message.split())}"
    return ""


def _split(text: str) -> dict[int, str]:
    """Return the source of each cell by its number."""
    parts = re.split(rf"^{_MARKER.format('([0-9]+)')}\n", text, flags=re.MULTILINE)
    return {int(number): source[:-1] for number, source in zip(parts[1::2], parts[2::2], strict=True)}


def _set_source(cell: dict[str, Any], source: str) -> None:
    """Set a cell's source as a string or as a list of lines, as it was."""
    as_list = isinstance(cell["source"], list)
    old = "".join(cell["source"]) if as_list else cell["source"]
    if source != old.replace("\r\n", "\n"):
        cell["source"] = source.splitlines(keepends=True) if as_list else source


def _like(raw: str, notebook: dict[str, Any]) -> str:
    """Return the notebook as JSON in the layout of `raw`: its indentation, its escapes, its last line end."""
    if json.loads(raw) == notebook:
        return raw
    indent = re.match(r"\{\r?\n( *)", raw)
    text = json.dumps(notebook, indent=len(indent[1]) if indent else None, ensure_ascii=raw.isascii())
    return text + raw[len(raw.rstrip()) :]
