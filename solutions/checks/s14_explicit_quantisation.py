"""What only the grader knows of step 14: what the engines compute, and an engine of its own of the student's file."""

from functools import lru_cache

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.files import needed
from helpers.checks.points.s14_explicit_quantisation import engine
from helpers.course.settings import ENGINES, ONNX_FILE
from helpers.engine.backend import ENGINE
from helpers.tools.outputs import relative_error
from solutions.checks.trusted import builder
from solutions.checks.trusted.plans import drift_of, run_plan, same_network
from solutions.checks.trusted.reference_results import held_out_images
from trtcpu.errors import LabError
from trtlab.building import served

_LAYERS_APART = 0.25  # builds of one network on one GPU may fuse otherwise
_OUTPUTS_APART = 0.1
_IMAGES = 48
_DRIFT_FACTOR = 1.25  # of implicit INT8's; measured within 1.05
_BUILD_IT = f"build {engine.PLAN} from {engine.FILE}, by build_explicit"

builder.ask(engine.BUILD, engine.BUILDING, outputs=0.2)


@lru_cache(maxsize=2)
def _trusted_plan(model: bytes) -> bytes:
    """Return the pipeline's engine of a model that has its Q/DQ nodes."""
    sizes = dict(zip(("min_batch", "opt_batch", "max_batch"), engine.BUILD.batches, strict=True))
    try:
        return served.built(model, {"precision": "int8", "strict": True, **sizes})
    except LabError as error:
        raise Missed("a file that makes an INT8 engine", str(error)[:160], "look at the points above") from error


@engine.RESULTS.hidden("qdq.of_the_file", 0.2, "The engine is that of the file")
def of_the_file(case: Case) -> str:
    plan, trusted = needed(case, engine.PLAN, engine.AGAIN), _trusted_plan(needed(case, engine.FILE, engine.AGAIN))
    own, other = (builders.facts_of(each, engine.PLAN)["layers"] for each in (plan, trusted))
    if ENGINE == "cpu":
        if not same_network(plan, trusted):
            raise Missed("the engine that a builder makes of the file", "another one", _BUILD_IT)
        return "the same compiled network as the trusted engine"
    images = held_out_images()[:8]
    off = relative_error(run_plan(plan, images), run_plan(trusted, images))
    if not (abs(own / other - 1) <= _LAYERS_APART and off <= _OUTPUTS_APART):
        said = f"{own} layers, outputs {off:.1%} off"
        raise Missed(f"about {other} layers, as a builder makes of the file", said, _BUILD_IT)
    return f"{own} layers, outputs {off:.2%} from the trusted engine's"


@engine.RESULTS.hidden("qdq.drift", 0.25, "On other images it drifts as implicit INT8 does")
def drift(case: Case) -> str:
    images, model = held_out_images()[-_IMAGES:], case.artifact(ONNX_FILE)
    own, implicit = (
        drift_of(needed(case, name, engine.AGAIN), model, images) for name in (engine.PLAN, ENGINES["int8"])
    )
    said = f"explicit {own:.2%}, implicit {implicit:.2%} on {_IMAGES} other images"
    if not own <= _DRIFT_FACTOR * implicit:
        raise Missed("about implicit INT8's drift", said, "are scales and weights those of the cache and the model?")
    return said
