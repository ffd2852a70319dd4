"""Claims of step 11: its points on fresh encoders, texts and lengths, and what the engines compute."""

from functools import partial

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.s11_bert import calibrator, engine, export, vectors
from helpers.checks.points.s11_bert.encoders import Text, text_of
from helpers.tools.outputs import onnx_session, relative_error, shown_error
from helpers.toys.bert.encoder import BATCHES, INPUTS, LENGTHS, OUTPUTS
from solutions.checks.core.claim import Earned, award, claim, shared
from solutions.checks.trusted.plans import FP32_TOLERANCE, HALF_TOLERANCE, INT8_TOLERANCE
from trtcpu.errors import LabError
from trtlab.engines.served import ran

_TOLERANCES = {"fp32": FP32_TOLERANCE, "fp16": HALF_TOLERANCE, "int8": INT8_TOLERANCE}
_SIZES = ((BATCHES[0], LENGTHS[0]), (5, 23), (BATCHES[-1], LENGTHS[-1]))

award("bert.names", 0.25, export.names, cell="bert_export")
award("bert.axes", 0.25, export.axes, cell="bert_export")
award("bert.opset", 0.25, export.opset, cell="bert_export")
award("bert.exported", 0.25, export.outputs, cell="bert_export")

award("bert.calibration", 0.5, calibrator.batches, cell="bert_calibrator")
award("bert.cache", 0.25, calibrator.cache, cell="bert_calibrator")

award("bert.plan", 0.25, engine.plan, cell="bert_engine")
award("bert.profile", 0.25, engine.profile, cell="bert_engine")
award("bert.half", 0.25, engine.half, cell="bert_engine")
award("bert.int8", 0.25, engine.int8, cell="bert_engine")


@claim("bert.outputs", cell="bert_engine", points=0.25, title="The engines compute what the ONNX file does")
def outputs(case: Case) -> Earned:
    return shared([partial(_outputs, case, precision) for precision in _TOLERANCES])


def _outputs(case: Case, precision: str) -> str:
    plan, session = builders.plan_of(engine.built(case, precision), engine.FUNCTION), onnx_session(engine.network(case))
    errors = []
    for batch, length in _SIZES:
        text = text_of(case.random(f"bert.outputs.{batch}"), batch, length)
        made = _run(plan, text)
        for name, expected in zip(OUTPUTS, session.run(list(OUTPUTS), text), strict=True):
            errors.append(relative_error(made[name], expected))
            if not errors[-1] <= _TOLERANCES[precision]:
                raise Missed(
                    f"{name} within {_TOLERANCES[precision]:.1%} in {precision} at {batch} × {length} tokens",
                    f"a relative error of {shown_error(errors[-1])}",
                    "build from the ONNX file that is passed in, unchanged",
                )
    return f"{precision}: relative error {max(errors):.2%} at most"


def _run(plan: bytes, text: Text) -> dict[str, np.ndarray]:
    try:
        return ran(plan, dict(text))
    except LabError as error:
        size = " × ".join(map(str, text[INPUTS[0]].shape))
        found = str(error).partition("; ")[0]
        raise Missed(f"the engine to run {size} tokens", found, "look at the profile of each input") from error


award("bert.failures", 0.25, engine.failures, cell="bert_engine")

award("bert.pooled", 0.5, vectors.pooled, cell="bert_pooling")

award("bert.once", 0.25, vectors.once, cell="bert_batches")
award("bert.tight", 0.5, vectors.tight, cell="bert_batches")
award("bert.static", 0.25, vectors.static, cell="bert_batches")
award("bert.edges", 0.25, vectors.edges, cell="bert_batches")
