"""All of `trtlab migrate` on one file: read it, find what is gone, rewrite what is mechanical."""

import stat
from dataclasses import dataclass
from pathlib import Path

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider

from helpers.tools.files import atomic_write
from trtcpu.errors import InputError
from trtlab.migrate.findings import Finder, Finding, changes_until
from trtlab.migrate.meanings import Meanings
from trtlab.migrate.pieces import Place, Source, read_source
from trtlab.migrate.rewrites import Site, rewrite

VERSIONS = (10, 11)
"""The versions of TensorRT that code can be brought to."""


@dataclass(frozen=True)
class Row:
    """A finding for people and for JSON: where it is, its line of code, and whether it is rewritten."""

    place: Place
    code: str
    finding: Finding
    rewritten: bool


@dataclass(frozen=True)
class Migration:
    """What is gone in a file, and the file's content with what could be rewritten."""

    source: Source
    to: int
    rows: list[Row]
    content: bytes

    @property
    def rewritten(self) -> int:
        """How many findings are rewritten in `content`."""
        return sum(row.rewritten for row in self.rows)

    def write(self, target: Path) -> None:
        """Write `content` to `target` in one step; the mode is that of the file that was read.

        Raises:
            InputError: it cannot be written there.
        """
        target, mode = target.resolve(), self.source.path.stat().st_mode  # a link stays one
        atomic_write(target, self.content)
        target.chmod(stat.S_IMODE(mode))

    @property
    def faults(self) -> list[tuple[int | None, str]]:
        """The cells that were left out since they are not Python, with the reason."""
        return self.source.faults


def migrate(path: Path, to: int) -> Migration:
    """Find what TensorRT `to` no longer has in a script or a notebook.

    Raises:
        InputError: the file cannot be read as Python.
    """
    try:
        return _migrated(read_source(path), to)
    except RecursionError as error:
        raise InputError(f"{path} nests expressions too deeply to be followed; split the longest one") from error


def _migrated(source: Source, to: int) -> Migration:
    wrapper = MetadataWrapper(cst.parse_module(source.text), unsafe_skip_copy=True)
    module, meanings = wrapper.module, Meanings.of_module(wrapper.module)
    resolved = wrapper.resolve_many((PositionProvider, ParentNodeProvider))
    around = resolved[PositionProvider], resolved[ParentNodeProvider]
    finder = Finder(meanings, *around, changes_until(to))
    module.visit(finder)
    site = Site(module, to, meanings, *around)
    rows = [_row(source, finding, rewrite(finding, site)) for finding in sorted(finder.findings, key=_start)]
    text = module.visit(site.edits).code if site.edits else source.text
    return Migration(source, to, rows, source.written(text))


def _start(finding: Finding) -> tuple[int, int]:
    return finding.position.start.line, finding.position.start.column


def _row(source: Source, finding: Finding, rewritten: bool) -> Row:
    line, column = _start(finding)
    return Row(source.place(line, column), source.line(line), finding, rewritten)
