"""Claims of step 10: its points on fresh networks and images, and what the engine answers in each of its profiles."""

import numpy as np

from helpers.backend import cuda, trt
from helpers.missed import Missed
from helpers.outputs import onnx_outputs, relative_error, shown_error
from helpers.points import builders
from helpers.points.case import Case
from helpers.points.s10_profiles_and_streams import profiles, streams
from helpers.probes.networks import EDGE
from solutions.checks.core.claim import award, claim
from solutions.checks.trusted.plans import HALF_TOLERANCE

CELL, STREAMS_CELL = "profiles_engine", "streamed_batches"

award("profiles.plan", 0.25, profiles.plan, cell=CELL)
award("profiles.ranges", 0.5, profiles.profiles, cell=CELL)
award("profiles.half_precision", 0.25, profiles.half_precision, cell=CELL)


@claim("profiles.outputs", cell=CELL, points=0.25, title="It computes what the ONNX model computes, in each profile")
def outputs(case: Case) -> str:
    plan, model = builders.plan_of(profiles.built(case), profiles.BUILD), profiles.network(case)
    facts, worst = builders.facts_of(plan, "the engine"), 0.0
    engine = trt.Runtime(trt.Logger(trt.Logger.INTERNAL_ERROR)).deserialize_cuda_engine(plan)
    names = [*facts["inputs"], *facts["outputs"]][:2]
    for index, ranges in enumerate(facts["profiles"]):
        batch = ranges[names[0]][1][0]
        images = case.random(f"profiles.images.{index}").standard_normal((batch, 3, EDGE, EDGE)).astype(np.float32)
        error = relative_error(_run_in(engine, index, names, images), onnx_outputs(model, images))
        if not error <= HALF_TOLERANCE:
            asked = f"the model's outputs within {HALF_TOLERANCE:.1%} at batch {batch} in profile {index}"
            advice = "build from the ONNX file that is passed in, with its weights unchanged"
            raise Missed(asked, f"a relative error of {shown_error(error)}", advice)
        worst = max(worst, error)
    return f"{len(facts['profiles'])} profiles, relative error up to {worst:.2%}"


def _run_in(engine: trt.ICudaEngine, index: int, names: list[str], images: np.ndarray) -> np.ndarray:
    """Return the outputs [N, classes] of a batch in one profile; raise Missed where it does not take it."""
    context, stream = engine.create_execution_context(), cuda.Stream()
    ready = context.set_optimization_profile_async(index, stream.handle)
    if not (ready and context.set_input_shape(names[0], images.shape)):
        asked = f"profile {index} to take a batch of shape {images.shape}"
        raise Missed(asked, "TensorRT refused", "look at the profiles' shapes")
    found = np.empty(tuple(context.get_tensor_shape(names[1])), np.float32)
    buffers = [cuda.mem_alloc(array.nbytes) for array in (images, found)]
    for name, buffer in zip(names, buffers, strict=True):
        context.set_tensor_address(name, int(buffer))
    cuda.memcpy_htod(buffers[0], images)
    if not context.execute_async_v3(stream.handle):
        raise Missed(f"profile {index} to run a batch of shape {images.shape}", "TensorRT refused", "look at its log")
    stream.synchronize()
    cuda.memcpy_dtoh(found, buffers[1])
    return found


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
