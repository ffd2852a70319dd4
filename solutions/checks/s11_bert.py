"""Hidden points of step 11: the outputs of the engines."""

from functools import partial

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.pure import agree
from helpers.checks.points.s11_bert.encoders import Text, text_of
from helpers.checks.points.s11_bert.engine import ENGINE, FUNCTION, HALF, built
from helpers.checks.points.task import Earned, shared
from helpers.tools.outputs import onnx_session, relative_error
from helpers.toys.bert.encoder import BATCHES, INPUTS, LENGTHS, OUTPUTS
from solutions.checks.trusted.plans import FP32_TOLERANCE, HALF_TOLERANCE, INT8_TOLERANCE
from trtcpu.errors import LabError
from trtlab.engines.served import ran

_TOLERANCES = {"fp32": FP32_TOLERANCE, "fp16": HALF_TOLERANCE, "int8": INT8_TOLERANCE}
_SIZES = ((BATCHES[0], LENGTHS[0]), (5, 23), (BATCHES[-1], LENGTHS[-1]))


@ENGINE.hidden("bert.outputs", 0.25, "The engines compute the same as the ONNX file")
def outputs(case: Case) -> Earned:
    return shared([partial(_outputs, case, precision) for precision in _TOLERANCES])


def _outputs(case: Case, precision: str) -> str:
    plan, session = builders.plan_of(built(case, precision), FUNCTION), onnx_session(HALF.model(case))
    for batch, length in _SIZES:
        text = text_of(case.random(f"bert.outputs.{batch}"), batch, length)
        made, right = _run(plan, text), session.run(list(OUTPUTS), text)
        errors = {name: relative_error(made[name], value) for name, value in zip(OUTPUTS, right, strict=True)}
        what = f"relative errors in {precision} at {batch} × {length} tokens, to {_TOLERANCES[precision]:.1%}"
        advice = "build from the ONNX file that is passed in, unchanged"
        agree(errors, dict.fromkeys(OUTPUTS, 0.0), what, advice, atol=_TOLERANCES[precision])
    return f"{precision}: relative errors of up to {max(errors.values()):.2%} at {batch} × {length} tokens"


def _run(plan: bytes, text: Text) -> dict[str, np.ndarray]:
    try:
        return ran(plan, dict(text))
    except LabError as error:
        size = " × ".join(map(str, text[INPUTS[0]].shape))
        found = str(error).partition("; ")[0]
        raise Missed(f"the engine to run {size} tokens", found, "check the profile of each input") from error
