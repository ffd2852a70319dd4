"""Calls a student's engine builder in an empty folder and gathers what it left."""

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from helpers.probes.builds import recorded_builds
from solutions.checks.operations import Submission, operation

__all__ = ["build_engine"]


@operation
def build_engine(
    submission: Submission, *, function: str, onnx: bytes, repeat: int = 1, options: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Call `function(onnx_path, engine_path, **options)` `repeat` times on one pair of paths.

    Returns `returned` (the serialized engine's bytes, None where it is nothing like that), `returned_type`, `file`
    (the bytes at engine_path, None without a file) and `builds`, what TensorRT was asked for.
    """
    build = submission[function]
    with tempfile.TemporaryDirectory() as folder, recorded_builds() as builds:
        source, target = Path(folder) / "model.onnx", Path(folder) / "model.engine"
        source.write_bytes(onnx)
        for _ in range(repeat):
            returned = build(str(source), str(target), **(options or {}))
        return {
            "returned": as_bytes(returned),
            "returned_type": type(returned).__name__,
            "file": target.read_bytes() if target.is_file() else None,
            "builds": [asdict(found) for found in builds],
        }


def as_bytes(returned: Any) -> bytes | None:
    """Return the bytes of a serialized engine: of bytes, or of TensorRT's IHostMemory."""
    try:
        return None if isinstance(returned, (str, int, type(None))) else bytes(memoryview(returned))
    except TypeError:
        return None
