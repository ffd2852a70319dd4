"""A record says nothing that no record can say, and is read as a stranger's file."""

import json
import os
from pathlib import Path

import pytest

from solutions.checks.core.record import read_record
from solutions.checks.core.record_schema import LARGEST_BYTES
from trtcpu.errors import InputError

CELL = "export_model"
CLAIM = {"claim": "a", "title": "It adds", "points": 1.5, "earned": 1.5, "status": "kept"}
RECORD = {"cell": CELL, "step": "01_export", "criterion": "correctness", "engine": "none", "points": 3.0}


def _written(folder: Path, text: str | bytes) -> Path:
    path = folder / f"{CELL}.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def _with(**changes: object) -> str:
    return json.dumps({**RECORD, "results": [CLAIM], **changes})


@pytest.mark.parametrize(
    "text, said",
    [
        (_with(results=[{**CLAIM, "earned": "lots"}]), "results.0.earned: 'lots' is not of type 'number'"),
        (_with(results=[CLAIM, {**CLAIM, "claim": "b", "earned": 2}]), "earned 3.5 of 3 points"),
        (_with(results=[{**CLAIM, "earned": -1}]), "less than the minimum"),
        (_with(results=[{**CLAIM, "earned": True}]), "True is not of type 'number'"),
        (_with(results=[{**CLAIM, "status": "won"}]), "'won' is not one of"),
        (_with(results=[{**CLAIM, "missed": {"expected": 1}}]), "results.0.missed"),
        (_with(results=[{**CLAIM, "__class__": "x"}]), "Additional properties are not allowed"),
        (_with(cell="simplify_model"), "of the cell 'simplify_model'"),
        (_with(points=float("nan")), "not JSON: NaN is no number"),
        (_with(points="1").replace('"1"', "1e999"), "greater than the maximum"),
        (_with(points="1").replace('"1"', "9" * 5000), "not JSON|greater than the maximum"),
        (_with(results={}), "results: {} is not of type 'array'"),
        ("[" * 100_000, "not JSON"),
        (b"\xff\xfe", "not JSON"),
        ("[]", "it: \\[\\] is not of type 'object'"),
        (json.dumps(RECORD), "'results' is a required property"),
    ],
)
def test_what_no_record_can_say_is_refused_with_its_reason(tmp_path: Path, text: str | bytes, said: str) -> None:
    with pytest.raises(InputError, match=said) as raised:
        read_record(_written(tmp_path, text))
    assert len(str(raised.value).splitlines()) == 1 and len(str(raised.value)) < 600


def test_pipes_links_folders_and_sparse_giants_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / f"{CELL}.json"
    os.mkfifo(path)
    with pytest.raises(InputError, match="is no plain file"):
        read_record(path)
    path.unlink()
    (tmp_path / "other").mkdir()
    path.symlink_to(_written(tmp_path / "other", _with()))
    with pytest.raises(InputError, match="is a link"):
        read_record(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match="is no plain file|Is a directory"):
        read_record(path)
    path.rmdir()
    with path.open("wb") as file:
        file.truncate(400 << 20)
    with pytest.raises(InputError, match=f"has 419,430,400 bytes; at most {LARGEST_BYTES:,} are read"):
        read_record(path)
