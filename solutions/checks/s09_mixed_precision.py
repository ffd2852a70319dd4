"""Claims of step 9: its points on fresh networks and tables, and what the trusted side's own engines say."""

from functools import lru_cache

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.s04_int8.calibration import CACHE
from helpers.checks.points.s09_mixed_precision import engine, layers, results, study
from helpers.checks.points.s09_mixed_precision.networks import cache_of, chosen_layers, network
from helpers.checks.probes.onnx_files import nodes_of
from helpers.course.settings import ENGINES, ONNX_FILE
from helpers.data.datasets import load_dataset
from helpers.engine.backend import ENGINE
from helpers.tools.outputs import relative_error
from helpers.toys.networks import EDGE
from solutions.checks.core.claim import award, claim
from solutions.checks.trusted.plans import run_plan
from solutions.checks.trusted.reference_images import held_out_images
from trtlab.building import served
from trtlab.engines.served import model_outputs, predicted
from trtlab.images.preprocessing import load_batch

LAYERS_CELL, ENGINE_CELL, STUDY_CELL = "mixed_layers", "mixed_engine", "mixed_sensitivity"
CHOICE_CELL, RESULTS_CELL = "mixed_choice", "mixed_results"

SAME = 0.02 if ENGINE == "tensorrt" else 1e-4
"""Two builds from one cache with the same layers kept differ by less: on the CPU engine they are alike, on a GPU their
kernels may add in another order."""

_IMAGES = 48
_MOST_IMAGES = 200
_APART = 0.25
"""Builds of one network on one GPU may take other kernels, which round otherwise; on the CPU engine they are alike."""

_FACTOR = 2.0  # between drifts on different images of one data set; measured within 1.3

award("mixed.precisions", 0.25, layers.precisions, cell=LAYERS_CELL)
award("mixed.types", 0.2, layers.types, cell=LAYERS_CELL)
award("mixed.flags", 0.15, layers.flags, cell=LAYERS_CELL)
award("mixed.unknown", 0.15, layers.unknown, cell=LAYERS_CELL)

award("mixed.plan", 0.25, engine.plan, cell=ENGINE_CELL)
award("mixed.profile", 0.2, engine.profile, cell=ENGINE_CELL)
award("mixed.read_back", 0.35, engine.precision, cell=ENGINE_CELL)


@lru_cache(maxsize=4)
def _trusted_plan(model: bytes, cache: bytes, keep: tuple[str, ...]) -> bytes:
    """Return the pipeline's engine from the same cache, with these layers in FP16 and other convolutions in INT8."""
    sizes = dict(zip(("min_batch", "opt_batch", "max_batch"), engine.BATCHES, strict=True))
    asked = dict.fromkeys(nodes_of(model, "Conv"), "int8") | dict.fromkeys(keep, "fp16")
    pairs = [f"{layer}:{precision}" for layer, precision in asked.items()]
    return served.built(model, {"precision": "int8+fp16", "layer_precisions": pairs, **sizes}, cache)


@claim("mixed.scales", cell=ENGINE_CELL, points=0.25, title="Its scales are the cache's, which stays as it is")
def scales(case: Case) -> str:
    built, model = engine.built(case), network(case)
    if not built["cache_kept"]:
        raise Missed("the cache as it was", "another content, or no file", "a calibrator that reads writes nothing")
    trusted = _trusted_plan(model, cache_of(case, model), tuple(chosen_layers(case)))
    images = case.random("mixed.images").standard_normal((2, 3, EDGE, EDGE)).astype(np.float32)
    off = relative_error(run_plan(builders.plan_of(built, engine.FUNCTION), images), run_plan(trusted, images))
    if not off <= SAME:
        expected = f"outputs within {SAME:.2%} of an engine from the same cache"
        raise Missed(expected, f"{off:.1%} off", "give TensorRT the cache's bytes, unchanged")
    return f"outputs within {off:.2%} of the trusted engine's"


award("mixed.failures", 0.2, engine.failures, cell=ENGINE_CELL)

award("mixed.kept", 0.3, study.kept, cell=STUDY_CELL)
award("mixed.alone", 0.3, study.alone, cell=STUDY_CELL)
award("mixed.once", 0.15, study.once, cell=STUDY_CELL)

award("mixed.fewest", 0.45, study.fewest, cell=CHOICE_CELL)
award("mixed.none_needed", 0.15, study.none_needed, cell=CHOICE_CELL)
award("mixed.unreachable", 0.15, study.unreachable, cell=CHOICE_CELL)

award("mixed.table", 0.25, results.table, cell=RESULTS_CELL)
award("mixed.engine", 0.5, results.engine, cell=RESULTS_CELL)


@claim("mixed.figures", cell=RESULTS_CELL, points=0.25, title="Two groups' drifts are those of their engines")
def figures(case: Case) -> str:
    found, groups = results.read_table(case), results.groups_of_lab(case)
    model, cache = case.artifact(ONNX_FILE), case.artifact(CACHE)
    sizes = study.parts(found["groups"], found["fp16"], found["int8"])
    drawn = groups[int(case.random("mixed.group").integers(1, len(groups) - 1))].name
    every, images = [name for group in groups for name in group.layers], _study_images(found["images"])
    looked_at = list(dict.fromkeys([max(sizes, key=sizes.get), drawn]))  # the largest is dear to make up
    for group in (group for group in groups if group.name in looked_at):
        rest = tuple(name for name in every if name not in group.layers)
        for way, keep in (("kept", group.layers), ("alone", rest)):
            measured = _drift(_trusted_plan(model, cache, keep), model, images)
            written = found["groups"][group.name][way]
            if not abs(written / measured - 1) <= _APART:
                expected = f"about {measured:.2%} for {group.name}, {way}, on the same images"
                raise Missed(expected, f"{written:.2%}", "measure each group's two engines with `study_drift`")
    return f"{', '.join(looked_at)}: kept and alone within {_APART:.0%} of the trusted engines'"


def _study_images(number: int) -> np.ndarray:
    """Return the validation images that the step measures on."""
    if not 8 <= number <= _MOST_IMAGES:
        raise Missed("the study's images", f"{number} images", "leave STUDY_IMAGES as it is given")
    items = load_dataset("digits", progress=False).images("validation", limit=number)
    return load_batch([path for path, _ in items])


def _drift(plan: bytes, model: bytes, images: np.ndarray) -> float:
    """Return how far an engine's outputs on images [N, 3, 224, 224] are from the FP32 model's."""
    return relative_error(predicted(plan, images), model_outputs(model, images))


@claim("mixed.drift", cell=RESULTS_CELL, points=0.5, title="On other images it drifts less than INT8, as it says")
def drift(case: Case) -> str:
    found, model, int8 = results.read_table(case), case.artifact(ONNX_FILE), case.artifact(ENGINES["int8"])
    builders.facts_of(int8, ENGINES["int8"])
    images = held_out_images()[-_IMAGES:]
    own, whole = _drift(results.plan_of(case), model, images), _drift(int8, model, images)
    said = f"mixed {own:.2%}, INT8 {whole:.2%} on {_IMAGES} other images"
    if not own < whole:
        raise Missed("a mixed engine that drifts less than INT8", said, "look at the choice and at what is kept")
    for name, measured in (("mixed", own), ("int8", whole)):
        if not 1 / _FACTOR < found[name] / measured < _FACTOR:
            expected = f"about {measured:.2%} for {name}"
            raise Missed(expected, f"{found[name]:.2%} in {results.TABLE}", "measure the engines themselves")
    return said
