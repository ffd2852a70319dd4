"""All of `trtlab migrate` on one file: read it, find what is gone, rewrite what is mechanical."""

from dataclasses import dataclass
from pathlib import Path

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider

from solutions.pipeline.migrate.findings import Finder, Finding, changes_until
from solutions.pipeline.migrate.meanings import Meanings
from solutions.pipeline.migrate.pieces import Place, Source, read_source

__all__ = ["VERSIONS", "Migration", "Row", "migrate"]

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

    @property
    def faults(self) -> list[tuple[int | None, str]]:
        """The cells that were left out since they are not Python, with the reason."""
        return self.source.faults


def migrate(path: Path, to: int) -> Migration:
    """Find what TensorRT `to` no longer has in a script or a notebook.

    Raises:
        InputError: the file cannot be read as Python.
    """
    source = read_source(path)
    wrapper = MetadataWrapper(cst.parse_module(source.text), unsafe_skip_copy=True)
    positions = wrapper.resolve(PositionProvider)
    meanings = Meanings.of_module(wrapper.module)
    finder = Finder(meanings, positions, wrapper.resolve(ParentNodeProvider), changes_until(to))
    wrapper.module.visit(finder)
    found = sorted(finder.findings, key=lambda finding: (finding.position.start.line, finding.position.start.column))
    rows = [_row(source, finding) for finding in found]
    return Migration(source, to, rows, source.written(source.text))


def _row(source: Source, finding: Finding) -> Row:
    start = finding.position.start
    return Row(source.place(start.line, start.column), source.line(start.line), finding, rewritten=False)
