"""The points of `build_engine_bert`: one profile for three inputs, and three precisions."""

from pathlib import Path
from typing import Any

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.builder import Builder
from helpers.checks.points.case import Case
from helpers.checks.points.pure import Raises, agree, compare
from helpers.checks.points.s11_bert import calibrator
from helpers.checks.points.s11_bert.encoders import DEPTH, LINEAR_LAYERS, encoder_onnx, text_of
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.engine.backend import ENGINE as BACKEND
from helpers.toys.bert.encoder import BATCHES, INPUTS, LENGTHS, OUTPUTS

FUNCTION = "build_engine_bert"
_ASKED = "the settings of the build: noted in the student's process"
_FAILED = "the exception for wrong arguments: the student's process says so"
_TEXTS = 3


@probe
def int8_and_calibrator(notebook: Notebook, folder: Path, seed: int) -> tuple[str, Any]:
    """Return the further arguments of build_engine_bert for INT8: the precision and a TextCalibrator."""
    draw = np.random.default_rng(seed)
    texts = [text_of(draw, BATCHES[1], LENGTHS[1]) for _ in range(_TEXTS)]
    return "int8", notebook[calibrator.FUNCTION](texts, folder / "text.cache")


_ENDS = (INPUTS, OUTPUTS)
HALF = Builder(FUNCTION, "bert", network=encoder_onnx, ends=_ENDS, options={"precision": "fp16"})
INT8 = Builder(FUNCTION, "bert", network=encoder_onnx, ends=_ENDS, extra=int8_and_calibrator)
ENGINE = Task("bert_engine", check="check_bert_engine", takes=(FUNCTION, calibrator.FUNCTION))
HALF.ask(ENGINE, plan=0.15, written=0.1)


def built(case: Case, precision: str) -> builders.Built:
    """Return the build of the case's encoder."""
    return INT8.built(case) if precision == "int8" else HALF.built(case, options={"precision": precision})


@ENGINE.point("bert.profile", 0.25, "One profile: batch 1 to 32 by length 8 to 128, tuned for 8 × 32, for each input")
def profile(case: Case) -> str:
    expected = [list(shape) for shape in zip(BATCHES, LENGTHS, strict=True)]
    facts = builders.facts_of(HALF.plan(case), "the engine")
    advice = "set min, opt and max, each (batch, length), for every input"
    agree(facts["profiles"], [dict.fromkeys(INPUTS, expected)], "the engine's profiles", advice)
    return f"{', '.join(INPUTS)}: {expected}"


@ENGINE.point("bert.half", 0.25, "fp16 allows FP16, fp32 allows nothing lower", _ASKED)
def half(case: Case) -> str:
    for precision in ("fp16", "fp32"):
        right = {"FP16": precision == "fp16", "BF16": False, "INT8": False}
        flags = builders.asked_for(built(case, precision))["flags"]
        agree(flags, right, f"the flags for {precision}", "set the flags according to `precision`")
    return "FP16 for fp16, no flag for fp32"


@ENGINE.point("bert.int8", 0.25, "int8 uses the calibrator, and keeps softmax in FP16", _ASKED)
def int8(case: Case) -> str:
    asked = builders.asked_for(built(case, "int8"))
    right = {
        "calibrator": True,
        "flags": dict.fromkeys(("INT8", "FP16", "PREFER_PRECISION_CONSTRAINTS"), True),
        "held_layers": {"SOFTMAX": {"HALF": DEPTH}},
    }
    advice = "set all three flags and config.int8_calibrator, and call keep_in_half(network) after parsing"
    agree(asked | {"calibrator": asked["calibrator"] is not None}, right, "the build for int8", advice)
    layers = builders.facts_of(INT8.plan(case), "the engine")["precisions"]
    if BACKEND == "cpu" and layers.get("int8", 0) < LINEAR_LAYERS:
        raise Missed(f"{LINEAR_LAYERS} linear layers in INT8", f"by precision: {layers}", "leave their precision unset")
    return f"layers by precision: {layers}"


HALF.ask(ENGINE, parser_errors=0.1, failures=0.05)


@ENGINE.point("bert.refused", 0.1, "ValueError for int8 without a calibrator and for an unknown precision", _FAILED)
def refused(case: Case) -> str:
    calls = [(("bert.onnx", "bert.engine", precision), Raises("ValueError")) for precision in ("int8", "int4")]
    return compare(case, FUNCTION, calls, "check the arguments before you read the file")
