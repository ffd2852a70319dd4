"""migrate."""

import json
import stat
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from helpers.tools.files import atomic_write
from trtcpu.errors import InputError
from trtlab.commands.console import print_line
from trtlab.migrate import migrate as migrate_file


def migrate(
    file: Path,
    /,
    *,
    to: Literal[10, 11] = 11,
    write: bool = False,
    out: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
    """List names that TensorRT has removed from its Python API, and rename those that only have a new name.

    Example: trtlab migrate old_build.py --to 11 --out new_build.py

    Args:
        file: A Python script or a notebook, written for TensorRT 7, 8 or 10.
        to: TensorRT version to migrate to: 10 or 11.
        write: Rename in the file itself.
        out: Write the renamed copy to this file.
        as_json: Print the findings as JSON.
    """
    if write and out is not None:
        raise InputError("--write and --out both say where to write; give one of them")
    if out is not None and out.suffix != file.suffix:
        raise InputError(f"--out {out} is of another kind than {file}; give a name that ends in {file.suffix}")
    found = migrate_file(file, to)
    renamed = sum(bool(one.new) for one in found.findings)
    target = file if write else out
    if target is not None and (target != file or renamed):
        mode = file.stat().st_mode
        atomic_write(target.resolve(), found.content)  # a link stays one
        target.chmod(stat.S_IMODE(mode))
    if as_json:
        unread = [{"cell": cell, "reason": reason} for cell, reason in found.faults]
        findings = [
            {"cell": one.cell, "line": one.line, "column": one.column, "code": one.code}
            | {**one.change._asdict(), "likely": one.likely, "rewritable": bool(one.new)}
            for one in found.findings
        ]
        told = {"file": str(file), "to": to, "findings": findings, "unread_cells": unread}
        print_line(json.dumps(told, indent=2))
        return
    for cell, reason in found.faults:
        print_line(f"{file}, cell {cell}: left out, it is not Python: {reason}")
    for one in found.findings:
        done = f" [{'can be renamed' if target is None else 'renamed'}]" if one.new else ""
        owner = ", if this is TensorRT's" if one.likely else ""
        change, cell = one.change, "" if one.cell is None else f"cell {one.cell}, "
        print_line(
            f"{cell}line {one.line}: {change.name} is gone since TensorRT {change.gone_in}{owner}: {change.reason}"
        )
        print_line(f"    {one.code}\n    instead: {change.replacement}{done}")
    print_line(_summary(file, to, len(found.findings), renamed, target))


def _summary(file: Path, to: int, number: int, renamed: int, target: Path | None) -> str:
    if not number:
        return f"{file} uses nothing that is gone in TensorRT {to}"
    done = f"{renamed} can be renamed: --write or --out FILE does it" if renamed else "none has only a new name"
    if target is not None:
        done = f"{renamed} renamed in {target}, {number - renamed} left to you"
    return f"{number} use{'s' * (number > 1)} of what is gone in TensorRT {to}; {done}"
