"""Claims of step 14: its points on fresh networks, and what the trusted side's own engine and other images say."""

from functools import lru_cache

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.s14_explicit_quantisation import engine, placement, results, weights
from helpers.checks.points.s14_explicit_quantisation.networks import explicit_network
from helpers.course.settings import ENGINES, ONNX_FILE
from helpers.engine.backend import ENGINE
from helpers.tools.outputs import relative_error
from helpers.toys.networks import EDGE
from solutions.checks.core.claim import award, claim
from solutions.checks.trusted.plans import check_outputs, run_plan, same_network
from solutions.checks.trusted.reference_images import held_out_images
from trtcpu.errors import LabError
from trtlab.building import served
from trtlab.engines.served import model_outputs, predicted

PAIR_CELL, INSERTION_CELL, SKIPS_CELL = "qdq_pair", "qdq_insertion", "qdq_skips"
ENGINE_CELL, RESULTS_CELL = "qdq_engine", "qdq_results"

SAME = 0.02
"""An engine's outputs on a small network are this close to ONNX Runtime's of the same file: both round alike, except
where a value lies between two steps."""

_LAYERS_APART = 0.25  # builds of one network on one GPU may fuse otherwise
_OUTPUTS_APART = 0.1
_IMAGES = 48
_DRIFT_FACTOR = 1.25  # of implicit INT8's; measured within 1.05
_RECORD_FACTOR = 2.0  # between drifts on different images of one data set

award("qdq.scales", 0.25, weights.scales, cell=PAIR_CELL)
award("qdq.codes", 0.25, weights.codes, cell=PAIR_CELL)
award("qdq.silent", 0.15, weights.silent, cell=PAIR_CELL)
award("qdq.pair", 0.35, weights.pair, cell=PAIR_CELL)

award("qdq.places", 0.25, placement.places, cell=INSERTION_CELL)
award("qdq.through", 0.35, placement.through, cell=INSERTION_CELL)
award("qdq.activations", 0.25, placement.activations, cell=INSERTION_CELL)
award("qdq.weights", 0.3, placement.weights, cell=INSERTION_CELL)
award("qdq.once", 0.15, placement.once, cell=INSERTION_CELL)
award("qdq.lacking", 0.2, placement.lacking, cell=INSERTION_CELL)

award("qdq.skips", 0.45, placement.skips, cell=SKIPS_CELL)
award("qdq.both", 0.2, placement.both, cell=SKIPS_CELL)
award("qdq.others", 0.35, placement.others, cell=SKIPS_CELL)

award("qdq.plan", 0.25, engine.plan, cell=ENGINE_CELL)
award("qdq.profile", 0.2, engine.profile, cell=ENGINE_CELL)
award("qdq.typed", 0.4, engine.typed, cell=ENGINE_CELL)


@claim("qdq.same", cell=ENGINE_CELL, points=0.2, title="It computes what the model says")
def same(case: Case) -> str:
    images = case.random("qdq.images").standard_normal((3, 3, EDGE, EDGE)).astype(np.float32)
    plan = builders.plan_of(engine.built(case), engine.FUNCTION)
    return check_outputs(plan, explicit_network(case), images, SAME)


award("qdq.failures", 0.2, engine.failures, cell=ENGINE_CELL)

award("qdq.file", 0.4, results.file, cell=RESULTS_CELL)
award("qdq.engine", 0.2, results.engine, cell=RESULTS_CELL)
award("qdq.record", 0.2, results.record, cell=RESULTS_CELL)


@lru_cache(maxsize=2)
def _trusted_plan(model: bytes) -> bytes:
    """Return the pipeline's engine of a model that has its Q/DQ nodes."""
    sizes = dict(zip(("min_batch", "opt_batch", "max_batch"), engine.BATCHES, strict=True))
    return served.built(model, {"precision": "int8", "strict": True, **sizes})


@claim("qdq.of_the_file", cell=RESULTS_CELL, points=0.2, title="The engine is that of the file")
def of_the_file(case: Case) -> str:
    model, plan = results.model_of(case), results.plan_of(case)
    try:
        trusted = _trusted_plan(model)
    except LabError as error:
        raise Missed("a file that makes an INT8 engine", str(error)[:160], "look at the points above") from error
    if ENGINE == "cpu":
        if not same_network(plan, trusted):
            advice = f"build {results.PLAN} from {results.FILE}, by build_explicit"
            raise Missed("the engine that a builder makes of the file", "another one", advice)
        return "the same compiled network as the trusted engine"
    own, other = (builders.facts_of(each, "the engine")["layers"] for each in (plan, trusted))
    images = held_out_images()[:8]
    off = relative_error(run_plan(plan, images), run_plan(trusted, images))
    if not (abs(own / other - 1) <= _LAYERS_APART and off <= _OUTPUTS_APART):
        said = f"{own} layers, outputs {off:.1%} off"
        raise Missed(f"about {other} layers, as a builder makes of the file", said, "build it from the file")
    return f"{own} layers, outputs {off:.2%} from the trusted engine's"


@claim("qdq.drift", cell=RESULTS_CELL, points=0.25, title="On other images it drifts as implicit INT8 does, as it says")
def drift(case: Case) -> str:
    found, model, int8 = results.read_record(case), case.artifact(ONNX_FILE), case.artifact(ENGINES["int8"])
    builders.facts_of(int8, ENGINES["int8"])
    images = held_out_images()[-_IMAGES:]
    own, implicit = (_drift(plan, model, images) for plan in (results.plan_of(case), int8))
    said = f"explicit {own:.2%}, implicit {implicit:.2%} on {_IMAGES} other images"
    if not own <= _DRIFT_FACTOR * implicit:
        raise Missed("about implicit INT8's drift", said, "are scales and weights those of the cache and the model?")
    for name, measured in (("fused", own), ("implicit", implicit)):
        if not 1 / _RECORD_FACTOR < found["drift"][name] / measured < _RECORD_FACTOR:
            expected = f"about {measured:.2%} for {name}"
            raise Missed(expected, f"{found['drift'][name]:.2%} in {results.RECORD}", "measure the engines themselves")
    return said


def _drift(plan: bytes, model: bytes, images: np.ndarray) -> float:
    """Return how far an engine's outputs on images [N, 3, 224, 224] are from the FP32 model's."""
    return relative_error(predicted(plan, images), model_outputs(model, images))
