"""Hidden points of step 9, with the grader's own engines and other images."""

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.files import needed
from helpers.checks.points.pure import agree
from helpers.checks.points.s04_int8.calibration import CACHE
from helpers.checks.points.s09_mixed_precision.engine import MIXED
from helpers.checks.points.s09_mixed_precision.results import AGAIN, PLAN, RESULTS, TABLE, groups_of_lab, read_table
from helpers.checks.points.s09_mixed_precision.study import parts
from helpers.checks.probes.onnx_files import nodes_of
from helpers.course.settings import ENGINES, ONNX_FILE, QUICK
from helpers.data.datasets import load_dataset
from solutions.checks.trusted.plans import drift_of
from solutions.checks.trusted.reference_results import held_out_images
from trtlab.building import served
from trtlab.images.preprocessing import load_batch

_STUDY_IMAGES, _IMAGES = 16 if QUICK else 32, 48
_APART = 0.25  # builds of one network on one GPU may use other kernels, with other rounding
_ON_OTHERS = 0.5  # half to twice: drifts on different images of one data set differed by up to 1.3


def _trusted_plan(model: bytes, cache: bytes, keep: tuple[str, ...]) -> bytes:
    """Return the pipeline's engine from the same cache, with these layers in FP16 and other convolutions in INT8."""
    sizes = dict(zip(("min_batch", "opt_batch", "max_batch"), MIXED.batches, strict=True))
    asked = dict.fromkeys(nodes_of(model, "Conv"), "int8") | dict.fromkeys(keep, "fp16")
    pairs = [f"{layer}:{precision}" for layer, precision in asked.items()]
    return served.built(model, {"precision": "int8+fp16", "layer_precisions": pairs, **sizes}, cache)


@RESULTS.hidden("mixed.figures", 0.25, "The largest group's drifts match its engines")
def figures(case: Case) -> str:
    found, groups = read_table(case), {group.name: group.layers for group in groups_of_lab(case)}
    model, cache = case.artifact(ONNX_FILE), case.artifact(CACHE)
    largest = next(iter(parts(found["groups"], found["fp16"], found["int8"])))
    rest = tuple(name for group, layers in groups.items() if group != largest for name in layers)
    batch = load_batch([path for path, _ in load_dataset("digits", progress=False).images("validation", _STUDY_IMAGES)])
    ways = {"kept": groups.get(largest, ()), "alone": rest}
    right = {way: drift_of(_trusted_plan(model, cache, keep), model, batch) for way, keep in ways.items()}
    advice = "measure each group's two engines with `study_drift`"
    agree(found["groups"].get(largest), right, f"{largest} in {TABLE}", advice, rtol=_APART)
    return f"{largest}: kept and alone within {_APART:.0%} of the trusted engines'"


@RESULTS.hidden("mixed.drift", 0.5, "On other images it drifts less than INT8, as the table says")
def drift(case: Case) -> str:
    plans = {"mixed": needed(case, PLAN, AGAIN), "int8": needed(case, ENGINES["int8"], "run step 4")}
    batch, model = held_out_images()[-_IMAGES:], case.artifact(ONNX_FILE)
    drifts = {name: drift_of(plan, model, batch) for name, plan in plans.items()}
    said = ", ".join(f"{name} {measured:.2%}" for name, measured in drifts.items())
    if not drifts["mixed"] < drifts["int8"]:
        raise Missed("a mixed engine that drifts less than INT8", said, "check the choice and the layers that are kept")
    agree(read_table(case), drifts, f"the drifts in {TABLE}", "measure the engines that you hand in", rtol=_ON_OTHERS)
    return f"{said} on {_IMAGES} other images"
