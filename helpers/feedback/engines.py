"""Visible checks of the engine builders: steps 2 and 3. They read what the engine says of itself."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.backend import ENGINE
from helpers.feedback.checklist import Checklist, visible_check
from helpers.missed import Missed
from helpers.probes.builds import Build, plan_facts, recorded_builds
from helpers.probes.capture import captured
from helpers.probes.networks import tiny_onnx
from helpers.probes.onnx_files import UNHEARD, unsupported_onnx

__all__ = ["build_small", "check_fp16_engine", "check_plan", "half_precision"]

Builder = Callable[..., Any]
_WORKSPACE_BYTES = 2 << 30
_SEED = 2026


@dataclass(frozen=True)
class Built:
    """What a builder returned, the file that it left, and what TensorRT was asked for."""

    returned: Any
    file: bytes | None
    builds: list[Build]

    @property
    def plan(self) -> bytes | None:
        """The returned bytes, None where it is nothing like that."""
        try:
            return bytes(memoryview(self.returned))
        except TypeError:
            return None


def build_small(check: Checklist, builder: Builder, name: str, onnx: bytes, **options: Any) -> Built:
    """Call a student's builder on `onnx`; the check ends here if it raises."""
    with tempfile.TemporaryDirectory() as folder, recorded_builds() as builds:
        source, target = Path(folder) / "small.onnx", Path(folder) / "small.engine"
        source.write_bytes(onnx)
        returned = check.call(f"{name} builds a small network", builder, str(source), str(target), **options)
        return Built(returned, target.read_bytes() if target.is_file() else None, builds)


@visible_check("02_fp16", "FP16 engine")
def check_fp16_engine(check: Checklist, build_engine_fp16: Builder) -> None:
    """Check that the builder gives a half-precision engine, writes it, limits the workspace, reports errors."""
    built = build_small(check, build_engine_fp16, "build_engine_fp16", tiny_onnx(_SEED))
    check_plan(check, built)
    check.verify("the layers run in half precision", lambda: half_precision(built))
    check.verify("the workspace is limited to 2 GB", lambda: _workspace(built))
    check.verify("a model that cannot be parsed gives an error with the reason", lambda: _broken(build_engine_fp16))


def check_plan(check: Checklist, built: Built) -> None:
    """Check that the builder returned a plan (the check ends here if not) and wrote the same bytes."""
    check.require("it returns a serialized engine", lambda: _returned(built))
    check.verify("the file at engine_path holds the same bytes", lambda: _file(built))


def _returned(built: Built) -> str:
    plan = built.plan
    if plan is None:
        found = f"a {type(built.returned).__name__}"
        raise Missed(
            "the serialized network", found, "return what build_serialized_network gives; None is a failed build"
        )
    facts = plan_facts(plan)
    if facts is None:
        found = f"{len(plan):,} bytes that cannot be deserialized"
        raise Missed("a plan that this TensorRT can load", found, "return the serialized network itself, unchanged")
    return f"{len(plan):,} bytes, {facts['layers']} layers"


def _file(built: Built) -> str:
    if built.file is None:
        raise Missed("a file at engine_path", "none", "write the serialized network to engine_path in binary mode")
    if built.file != built.plan:
        found = f"{len(built.file):,} bytes in the file, {len(built.plan or b''):,} returned"
        raise Missed("the same bytes in both", found, "write exactly what you return")
    return f"{len(built.file):,} bytes"


def half_precision(built: Built) -> str:
    """Return the layers' precisions as evidence; raise Missed where none is half."""
    precisions = (plan_facts(built.plan or b"") or {}).get("precisions", {})
    asked = bool(built.builds) and built.builds[-1].flags.get("FP16", False)
    if not (precisions.get("fp16") or precisions.get("bf16") or (asked and ENGINE == "tensorrt")):
        found = f"layers by precision: {precisions}"
        raise Missed("layers in half precision", found, "allow FP16 with a builder flag before you build")
    return f"layers by precision: {precisions}"


def _workspace(built: Built) -> str:
    limit = built.builds[-1].workspace_bytes if built.builds else 0
    if not 0.99 * 2e9 <= limit <= _WORKSPACE_BYTES:
        found = f"{limit:,} bytes"
        raise Missed("2 GB", found, "set_memory_pool_limit takes bytes: 2 << 30 of them, for the WORKSPACE pool")
    return f"{limit:,} bytes"


def _broken(builder: Builder) -> str:
    with tempfile.TemporaryDirectory() as folder, captured() as output:
        source = Path(folder) / "unsupported.onnx"
        source.write_bytes(unsupported_onnx())
        try:
            returned = builder(str(source), str(Path(folder) / "unsupported.engine"))
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        else:
            found = f"it returned a {type(returned).__name__}"
            raise Missed("an exception", found, "test what parser.parse returns, and raise with the parser's errors")
    printed = [line for line in output.text.splitlines() if "[TRT]" not in line]
    if not any(reason in "\n".join([said, *printed]) for reason in (UNHEARD, "UNSUPPORTED_NODE", "Assertion failed")):
        raise Missed("the parser's own message in the error", said[:200], "join parser.get_error(i) into the message")
    return said if len(said) <= 120 else f"{said[:60]} … {said[-57:]}"
