"""What step 11 asks of `build_engine_bert`: one profile for three inputs, three precisions, and honest failures."""

import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypedDict

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.point import Reported, point
from helpers.checks.points.s11_bert import calibrator
from helpers.checks.points.s11_bert.encoders import Text, text_of
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.builds import OLDER, BuiltEngine, FailedBuild, as_bytes, failed_build, recorded_builds
from helpers.checks.probes.encoders import DEPTH, LINEAR_LAYERS, encoder_onnx
from helpers.checks.probes.frames import said
from helpers.engine.backend import ENGINE
from helpers.toys.bert.encoder import BATCHES, INPUTS, LENGTHS, OUTPUTS

_ASKED = Reported("what the build was asked for: noted in the student's process")

FUNCTION = "build_engine_bert"
_CALIBRATION = 3  # batches
_SPARE = 4  # a calibrator that never ends is stopped
_REFUSED = (("int8", "int8 without a calibrator"), ("int4", "an unknown precision"))


class BuiltBert(BuiltEngine):
    """What `build_bert` answers."""

    given: int


class RefusedPrecision(TypedDict):
    """What `refused_precision` answers."""

    raised: str | None
    as_asked: bool
    kept: bool


def _watched(make: Any, calls: list[bool]) -> Any:
    """Return the student's calibrator class, which notes whether each call of get_batch gave something."""

    def get_batch(self: Any, names: Any) -> Any:
        given = make.get_batch(self, names) if len(calls) < _CALIBRATION + _SPARE else None
        calls.append(bool(given))
        return given

    return type(make.__name__, (make,), {"get_batch": get_batch})


@probe
def build_bert(notebook: Notebook, *, onnx: bytes, precision: str, batches: list[Text]) -> BuiltBert:
    """Call `build_engine_bert`; for int8 with a TextCalibrator over `batches`. `OLDER` lies at engine_path.

    Returns what `build_engine` answers, and `given`, how many batches the calibrator gave.
    """
    build, calls = notebook[FUNCTION], []
    with tempfile.TemporaryDirectory() as folder, recorded_builds() as builds:
        source, target = Path(folder) / "encoder.onnx", Path(folder) / "engine.trt"
        source.write_bytes(onnx)
        target.write_bytes(OLDER)
        more = [_watched(notebook[calibrator.FUNCTION], calls)(batches, Path(folder) / "cache")] if batches else []
        returned = build(source, target, precision, *more)
        return {
            "returned": as_bytes(returned),
            "returned_type": type(returned).__name__,
            "file": target.read_bytes() if target.is_file() else None,
            "onnx_kept": source.is_file() and source.read_bytes() == onnx,
            "builds": [asdict(found) for found in builds],
            "given": sum(calls),
        }


@probe
def failing_bert(notebook: Notebook, *, onnx: bytes, parsed: bool) -> FailedBuild:
    """Call it for fp16 where it must fail; the result is `failed_build`'s."""
    build: Callable[..., Any] = notebook[FUNCTION]
    return failed_build(lambda source, target: build(source, target, "fp16"), onnx, parsed=parsed)


@probe
def refused_precision(notebook: Notebook, *, onnx: bytes, precision: str) -> RefusedPrecision:
    """Call it for a precision that it must refuse; returns the exception's `raised`, `as_asked`, and file `kept`."""
    build, raised, as_asked = notebook[FUNCTION], None, False
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "encoder.onnx", Path(folder) / "engine.trt"
        source.write_bytes(onnx)
        target.write_bytes(OLDER)
        try:
            build(source, target, precision)
        except NotImplementedError:
            raise
        except Exception as error:
            raised, as_asked = f"{type(error).__name__}: {said(error)}", isinstance(error, ValueError)
        return {"raised": raised, "as_asked": as_asked, "kept": target.is_file() and target.read_bytes() == OLDER}


def network(case: Case) -> bytes:
    """Return a small encoder with weights of the case's own."""
    return encoder_onnx(case.number("bert.network"))


def built(case: Case, precision: str) -> BuiltBert:
    """Return what `build_bert` answers for the case's network."""
    shape = BATCHES[1], LENGTHS[1]
    texts = [text_of(case.random(f"bert.images.{number}"), *shape) for number in range(_CALIBRATION)]
    asked = {"onnx": network(case), "precision": precision, "batches": texts if precision == "int8" else []}
    return case.call(build_bert, **asked).require(FUNCTION)


@point("A serialized engine is built at each call, returned and written to engine_path")
def plan(case: Case) -> str:
    for precision in ("fp16", "fp32"):
        builders.asked_for(built(case, precision))
        said = builders.returned_and_written(built(case, precision), FUNCTION, (INPUTS, OUTPUTS))
    return said


@point("One profile: batch 1 to 32 by length 8 to 128, tuned for 8 × 32, for all three inputs")
def profile(case: Case) -> str:
    expected = [list(shape) for shape in zip(BATCHES, LENGTHS, strict=True)]
    for precision in ("fp16", "fp32"):
        facts = builders.facts_of(builders.plan_of(built(case, precision), FUNCTION), "the engine")
        if facts["profiles"] != [dict.fromkeys(INPUTS, expected)]:
            found = " and ".join(str(shapes) for shapes in facts["profiles"]) or "none"
            advice = "the order is min, opt, max, each of them (batch, length); every input needs its own"
            raise Missed(f"one profile with {expected} for each input", found, advice)
    return f"{', '.join(INPUTS)}: {expected}"


@point("fp16 allows half precision, fp32 nothing below it", _ASKED)
def half(case: Case) -> str:
    low, full = built(case, "fp16"), built(case, "fp32")
    for made, name, wanted in ((low, "fp16", {"FP16"}), (full, "fp32", set())):
        flags = builders.asked_for(made)["flags"]
        found = {flag for flag in ("FP16", "BF16", "INT8") if flags.get(flag)}
        if found != wanted:
            expected = f"{' and '.join(wanted) or 'no lower precision'} allowed for {name}"
            raise Missed(expected, ", ".join(sorted(found)) or "none", "set the flags by `precision`")
    plans = [builders.plan_of(made, FUNCTION) for made in (low, full)]
    facts = builders.facts_of(plans[0], "the engine")
    layers = facts["precisions"]
    lower = layers.get("fp16", 0) + layers.get("bf16", 0)
    if ENGINE == "cpu" and lower < LINEAR_LAYERS and not builders.stored_in_half(facts):
        raise Missed("layers in half precision", f"layers by precision: {layers}", "hold no layer in FP32")
    return f"layers by precision: {layers}"


@point("int8 calibrates on all the text, with softmax kept in FP16", _ASKED)
def int8(case: Case) -> str:
    made = built(case, "int8")
    asked = builders.asked_for(made)
    missing = [flag for flag in ("INT8", "FP16", "PREFER_PRECISION_CONSTRAINTS") if not asked["flags"][flag]]
    if missing:
        raise Missed("INT8, FP16 and PREFER_PRECISION_CONSTRAINTS for int8", f"without {', '.join(missing)}", "set it")
    if made["given"] != _CALIBRATION:
        found = f"{made['given']} batches" if asked["calibrator"] else "no calibrator in the configuration"
        raise Missed(f"all {_CALIBRATION} batches of the calibrator to be read", found, "hand the calibrator on")
    if asked["held_layers"].get("SOFTMAX", {}).get("HALF", 0) < DEPTH:
        advice = "call keep_in_half(network) after the parser has filled the network, before the build"
        raise Missed("every softmax asked for in FP16", f"{asked['held_layers'] or 'no layer'}", advice)
    builders.returned_and_written(made, f"{FUNCTION} with int8", (INPUTS, OUTPUTS))
    layers = builders.facts_of(builders.plan_of(made, FUNCTION), "the engine")["precisions"]
    if ENGINE == "cpu" and layers.get("int8", 0) < LINEAR_LAYERS:
        raise Missed(f"{LINEAR_LAYERS} linear layers in INT8", f"layers by precision: {layers}", "hold none of them")
    return f"{made['given']} batches; layers by precision: {layers}"


@point("What cannot be built raises, and an earlier engine file stays", builders.FAILURES)
def failures(case: Case) -> str:
    model = network(case)
    for onnx in (None, model):
        builders.refuses(case, failing_bert, FUNCTION, onnx)
    builders.keeps_files(case, failing_bert, FUNCTION, model)
    builders.names_parser_errors(case, build_bert, FUNCTION, precision="fp16", batches=[])
    for precision, what in _REFUSED:
        refused = case.call(refused_precision, onnx=model, precision=precision).require(FUNCTION)
        if not refused["as_asked"]:
            raise Missed(f"a ValueError for {what}", refused["raised"] or "no exception", "look at the arguments first")
        if not refused["kept"]:
            raise Missed("the engine file of an earlier build as it was", f"another, after {what}", "refuse first")
    return "RuntimeError and ValueError as asked, files kept"
