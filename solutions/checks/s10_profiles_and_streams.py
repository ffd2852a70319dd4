"""Claims of step 10: its points on fresh networks and images, and what the engine answers in each of its profiles."""

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.s10_profiles_and_streams import profiles, streams
from helpers.tools.outputs import onnx_outputs, relative_error, shown_error
from helpers.toys.networks import EDGE
from solutions.checks.core.claim import award, claim
from solutions.checks.trusted.plans import HALF_TOLERANCE
from trtcpu.errors import EngineError

CELL, STREAMS_CELL = "profiles_engine", "streamed_batches"

award("profiles.plan", 0.25, profiles.plan, cell=CELL)
award("profiles.ranges", 0.5, profiles.profiles, cell=CELL)
award("profiles.half_precision", 0.25, profiles.half_precision, cell=CELL)


@claim("profiles.outputs", cell=CELL, points=0.25, title="It computes what the ONNX model computes, in each profile")
def outputs(case: Case) -> str:
    plan, model = builders.plan_of(profiles.built(case), profiles.BUILD), profiles.network(case)
    facts, worst = builders.facts_of(plan, "the engine"), 0.0
    names = [*facts["inputs"], *facts["outputs"]][:2]
    for index, ranges in enumerate(facts["profiles"]):
        batch = ranges[names[0]][1][0]
        images = case.random(f"profiles.images.{index}").standard_normal((batch, 3, EDGE, EDGE)).astype(np.float32)
        try:
            found = profiles.outputs_in(plan, index, names, images)
        except EngineError as refused:
            asked = f"profile {index} to take and run a batch of shape {images.shape}"
            raise Missed(asked, str(refused), "look at the profiles' shapes, and at its log") from refused
        error = relative_error(found, onnx_outputs(model, images))
        if not error <= HALF_TOLERANCE:
            asked = f"the model's outputs within {HALF_TOLERANCE:.1%} at batch {batch} in profile {index}"
            advice = "build from the ONNX file that is passed in, with its weights unchanged"
            raise Missed(asked, f"a relative error of {shown_error(error)}", advice)
        worst = max(worst, error)
    return f"{len(facts['profiles'])} profiles, relative error up to {worst:.2%}"


award("profiles.failures", 0.25, profiles.failures, cell=CELL)
award("profiles.picked", 0.25, profiles.nearest, cell=CELL)
award("profiles.refused", 0.25, profiles.outside, cell=CELL)

award("streams.outputs", 0.25, streams.outputs, cell=STREAMS_CELL)
award("streams.copies", 0.25, streams.copies, cell=STREAMS_CELL)
award("streams.pinned", 0.25, streams.pinned, cell=STREAMS_CELL)
award("streams.overlap", 0.5, streams.overlap, cell=STREAMS_CELL)
award("streams.awaited", 0.25, streams.awaited, cell=STREAMS_CELL)
award("streams.ends", 0.25, streams.ends, cell=STREAMS_CELL)
award("streams.errors", 0.25, streams.errors, cell=STREAMS_CELL)
