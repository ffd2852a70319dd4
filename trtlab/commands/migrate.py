"""migrate.

Heavy modules are imported inside the functions, so that `trtlab --help` is quick.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from trtcpu.errors import InputError
from trtlab.commands.console import print_line
from trtlab.options import Count

if TYPE_CHECKING:
    from trtlab.migrate.migration import Migration, Row


def migrate(
    file: Path,
    /,
    *,
    to: Count = 11,
    write: bool = False,
    out: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
    """List which names of TensorRT's Python API a file uses that are gone, and rewrite what is mechanical.

    Example: trtlab migrate old_build.py --to 11 --out new_build.py

    Args:
        file: A Python script or a notebook, written for TensorRT 7, 8 or 10.
        to: TensorRT's version that the code is to run on: 10 or 11.
        write: Rewrite what is mechanical in the file itself.
        out: Write the file with what is mechanical rewritten here.
        as_json: Print the findings as JSON.
    """
    from trtlab.migrate.migration import VERSIONS
    from trtlab.migrate.migration import migrate as migrate_file

    if to not in VERSIONS:
        raise InputError(f"--to {to} is none of {' and '.join(map(str, VERSIONS))}; code can be brought to these")
    if write and out is not None:
        raise InputError("--write and --out both say where to write; give one of them")
    if out is not None and out.suffix != file.suffix:
        raise InputError(f"--out {out} is of another kind than {file}; give a name that ends in {file.suffix}")
    found = migrate_file(file, to)
    target = file if write else out
    if target is not None and (target != file or found.rewritten):
        found.write(target)
    if as_json:
        print_line(json.dumps(_as_json(found), indent=2))
    else:
        _print(found, target)


def _print(found: "Migration", target: Path | None) -> None:
    for cell, reason in found.faults:
        print_line(f"{found.source.path}, cell {cell}: left out, it is not Python: {reason}")
    for row in found.rows:
        for line in _lines(row, target is not None):
            print_line(line)
    print_line(_summary(found, target))


def _lines(row: "Row", written: bool) -> list[str]:
    """Return what is said about one finding: where and what, the code, what to use, and whether that is done."""
    finding = row.finding
    since = f"is gone since TensorRT {finding.gone_in}" if finding.gone_in else "should go"
    owner = ", if this is TensorRT's (the code does not say for sure)" if finding.likely else ""
    behind = "; it stands behind a test of what is there" if finding.guarded else ""
    done = f" [{'rewritten' if written else 'can be rewritten'}]" if row.rewritten else ""
    return [
        f"{row.place}: {finding.name} {since}{owner}: {finding.reason}{behind}",
        f"    {row.code}",
        f"    instead: {finding.replacement}{done}",
    ]


def _summary(found: "Migration", target: Path | None) -> str:
    number, rewritten = len(found.rows), found.rewritten
    if not number:
        return f"{found.source.path} uses nothing that is gone in TensorRT {found.to}"
    if target is None:
        done = f"{rewritten} can be rewritten: --write or --out FILE does it" if rewritten else "none is mechanical"
    else:
        done = f"{rewritten} rewritten in {target}, {number - rewritten} left to you"
    return f"{number} use{'s' * (number > 1)} of what is gone in TensorRT {found.to}; {done}"


def _as_json(found: "Migration") -> dict[str, Any]:
    return {
        "file": str(found.source.path),
        "to": found.to,
        "findings": [
            {
                **row.place._asdict(),
                "code": row.code,
                "name": row.finding.name,
                "gone_in": row.finding.gone_in or None,
                "replacement": row.finding.replacement,
                "reason": row.finding.reason,
                "likely": row.finding.likely,
                "guarded": row.finding.guarded,
                "rewritable": row.rewritten,
            }
            for row in found.rows
        ],
        "unread_cells": [{"cell": cell, "reason": reason} for cell, reason in found.faults],
    }
