"""Calls a student's engine builder in an empty folder and gathers what it left."""

import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from helpers.probes.builds import recorded_builds
from solutions.checks.operations import Submission, operation

__all__ = ["as_bytes", "build_engine", "failed_build", "failing_build"]

_SLIPS = (AttributeError, NameError, TypeError, UnboundLocalError)


@operation
def build_engine(
    submission: Submission,
    *,
    function: str,
    onnx: bytes,
    options: dict[str, Any] | None = None,
    before: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Call `function(onnx_path, engine_path, **options)`; first with the `onnx` and `options` of `before`, if given.

    Both calls get the same two paths.

    Returns `returned` (the serialized engine's bytes, None where it is nothing like that), `returned_type`, `file`
    (the bytes at engine_path, None without a file), `onnx_kept` (whether the ONNX file is still what it was) and
    `builds`, what TensorRT was asked for.
    """
    build = submission[function]
    with tempfile.TemporaryDirectory() as folder, recorded_builds() as builds:
        source, target = Path(folder) / "model.onnx", Path(folder) / "model.engine"
        for call in (before, {"onnx": onnx, "options": options or {}}):
            if call is not None:
                source.write_bytes(call["onnx"])
                returned = build(str(source), str(target), **call["options"])
        return {
            "returned": as_bytes(returned),
            "returned_type": type(returned).__name__,
            "file": target.read_bytes() if target.is_file() else None,
            "onnx_kept": source.is_file() and source.read_bytes() == onnx,
            "builds": [asdict(found) for found in builds],
        }


@operation
def failing_build(submission: Submission, *, function: str, onnx: bytes, parsed: bool) -> dict[str, Any]:
    """Call `function(onnx_path, engine_path)` where it must fail; the result is `failed_build`'s."""
    return failed_build(submission[function], onnx, parsed=parsed)


def failed_build(build: Callable[[str, str], Any], onnx: bytes, *, parsed: bool) -> dict[str, Any]:
    """Call `build(onnx_path, engine_path)` where it must fail, over an older engine file.

    `parsed` tells a model that can be parsed, whose build then gives None. Returns `raised` (the exception's type and
    message, None without one), `slip` (whether that is an exception of a slip, not one that was raised on purpose),
    `returned_type` and `kept`, whether the older file is still there as it was.
    """
    older, raised, returned, slip = b"the engine of last week", None, None, False
    with tempfile.TemporaryDirectory() as folder, recorded_builds(failing=parsed):
        source, target = Path(folder) / "model.onnx", Path(folder) / "model.engine"
        source.write_bytes(onnx)
        target.write_bytes(older)
        try:
            returned = build(str(source), str(target))
        except NotImplementedError:
            raise
        except (Exception, SystemExit) as error:
            raised, slip = f"{type(error).__name__}: {error}", isinstance(error, _SLIPS)
        kept = target.is_file() and target.read_bytes() == older
    return {"raised": raised, "slip": slip, "returned_type": type(returned).__name__, "kept": kept}


def as_bytes(returned: Any) -> bytes | None:
    """Return the bytes of a serialized engine: of bytes, or of TensorRT's IHostMemory."""
    try:
        return None if isinstance(returned, (str, int, type(None))) else bytes(memoryview(returned))
    except TypeError:
        return None
