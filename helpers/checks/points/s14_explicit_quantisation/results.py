"""What the run on the lab's model left: resnet50_qdq.onnx, resnet50_qdq.engine and explicit.json."""

import math
from typing import Any

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.files import json_of, needed
from helpers.checks.points.point import point
from helpers.checks.points.s04_int8.calibration import CACHE, read_scales
from helpers.checks.points.s09_mixed_precision.engine import precisions_of
from helpers.checks.points.s14_explicit_quantisation.engine import BATCHES
from helpers.checks.points.s14_explicit_quantisation.placement import weight_scale_fault
from helpers.checks.points.s14_explicit_quantisation.reading import Reading, compare, read_model, read_quantised
from helpers.course.settings import ONNX_FILE
from helpers.engine.backend import ENGINE

FILE, PLAN, RECORD = "resnet50_qdq.onnx", "resnet50_qdq.engine", "explicit.json"
_AGAIN = "run the cells of the last task in order"
_WAYS = ("naive", "fused")
_DRIFTS = (*_WAYS, "implicit")
_APART = 0.5
"""Between the medians' ratio and the median of the ratios, which differ where something else used the machine."""


def _given(case: Case, name: str) -> bytes:
    return needed(case, name, _AGAIN)


def model_of(case: Case) -> bytes:
    """Return the quantised ONNX file; raise Missed where it is missing."""
    return _given(case, FILE)


def plan_of(case: Case) -> bytes:
    """Return the engine's plan; raise Missed where it is missing or cannot be loaded."""
    plan = _given(case, PLAN)
    builders.facts_of(plan, PLAN)
    return plan


def weighted_layers(reading: Reading) -> dict[str, int]:
    """Return the layers with stored weights, and the axis of each one's output channels."""
    axes = {}
    for name, (kind, attributes, inputs, _) in reading.nodes.items():
        if kind in ("Conv", "Gemm", "MatMul") and len(inputs) > 1 and inputs[1] in reading.stored:
            rows = kind == "Conv" or "transB" in attributes and "i: 1" in attributes.partition("transB")[2]
            axes[name] = 0 if rows else reading.stored[inputs[1]].ndim - 1
    return axes


def _branches(reading: Reading) -> dict[str, list[int]]:
    """Return for each addition of two computed tensors which of its inputs may be rounded: those past a convolution."""
    made_by = {name: kind for kind, _, _, outputs in reading.nodes.values() for name in outputs}
    found = {}
    for name, (kind, _, inputs, _) in reading.nodes.items():
        if kind == "Add" and not {*inputs} & {*reading.stored}:
            past = [index for index, tensor in enumerate(inputs) if made_by.get(tensor) != "Conv"]
            found[name] = past or [0, 1]
    return found


@point("The file is the lab's model with pairs at its weighted layers and its skip branches, and nowhere else")
def file(case: Case) -> str:
    original = read_model(_given(case, ONNX_FILE))
    found = read_quantised(model_of(case))
    compare(original, found)
    axes, sums = weighted_layers(original), _branches(original)
    _check_places(found, [*axes], sums)
    _scales(case, found, axes)
    return f"{len(axes)} layers and {len(sums)} skip branches, {found.count} Q/DQ nodes"


def _check_places(found: Reading, layers: list[str], sums: dict[str, list[int]]) -> None:
    """Raise Missed where a layer or a skip branch is not read through pairs, or where anything else is."""
    for name in layers:
        for index, what in enumerate(("activation", "weights")):
            if (name, index) not in found.pairs:
                raise Missed(f"the {what} of {name} through a pair", "read in float", _AGAIN)
    for name, past in sums.items():
        rounded = [index for index in (0, 1) if (name, index) in found.pairs]
        if len(rounded) != 1 or rounded[0] not in past:
            wanted = " or ".join(map(str, past))
            told = f"inputs {rounded}" if rounded else "neither"
            raise Missed(f"input {wanted} of {name}, its skip branch, through a pair", told, _AGAIN)
    more = sorted(found.pairs.keys() - {(name, index) for name in (*layers, *sums) for index in (0, 1)})
    if more:
        raise Missed("nothing else through pairs", f"input {more[0][1]} of {more[0][0]}", _AGAIN)


def _scales(case: Case, found: Reading, axes: dict[str, int]) -> None:
    scales = read_scales(_given(case, CACHE))
    if not scales:
        raise Missed(f"{CACHE} to be a calibration cache", "no scale in it", "run step 4 again")
    for (name, index), pair in found.pairs.items():
        if pair.tensor in found.stored:
            fault = weight_scale_fault(found.stored[pair.tensor], pair, axes.get(name, 0))
            if fault:
                raise Missed(fault[0], f"{name}: {fault[1]}", _AGAIN)
        else:
            wanted, got = scales.get(pair.tensor, np.nan), [float(scale.ravel()[0]) for scale in pair.scales]
            if not np.allclose(got, wanted, rtol=1e-5):
                raise Missed(f"the cache's scale {wanted:.6g} for {pair.tensor}", f"{got[0]:.6g}", _AGAIN)
        if any(zero is None or zero.dtype != np.int8 or zero.any() for zero in pair.zeros):
            raise Missed("zero points of 0, int8", f"others at input {index} of {name}", _AGAIN)


@point("The engine runs the weighted layers in INT8, for batches 1 to 32")
def engine(case: Case) -> str:
    plan = plan_of(case)
    builders.profile_is(plan, BATCHES)
    ran = precisions_of(plan, [*weighted_layers(read_model(_given(case, ONNX_FILE)))])
    number = sum(precision == "int8" for precision in ran.values())
    if number < (len(ran) if ENGINE == "cpu" else len(ran) / 2):
        other = next(name for name, precision in ran.items() if precision != "int8")
        raise Missed("the weighted layers in INT8", f"{other} runs in {ran[other]}", _AGAIN)
    return f"{number} of {len(ran)} weighted layers in INT8"


def read_record(case: Case) -> dict[str, Any]:
    """Return explicit.json; raise Missed where it is not as the notebook writes it."""
    read = json_of(case, RECORD, _AGAIN)
    try:
        found: dict[str, Any] = {
            "layers": {way: int(read["layers"][way]) for way in _WAYS},
            "ms": {way: float(read["ms"][way]) for way in _WAYS},
            "drift": {way: float(read["drift"][way]) for way in _DRIFTS},
            "ratio": {key: float(read["ratio"][key]) for key in ("low", "median", "high")},
            "images": int(read["images"]),
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        told = f"{type(error).__name__}: {str(error)[:100]}"
        raise Missed(f"{RECORD} as the notebook writes it", told, _AGAIN) from error
    numbers = [number for part in ("layers", "ms", "drift", "ratio") for number in found[part].values()]
    if not all(math.isfinite(number) and number > 0 for number in numbers):
        raise Missed("numbers above 0", f"{min(numbers)}", "let the notebook's cells measure")
    return found


@point("explicit.json is of these engines, and its numbers agree with each other")
def record(case: Case) -> str:
    found = read_record(case)
    layers = builders.facts_of(plan_of(case), PLAN)["layers"]
    if found["layers"]["fused"] != layers:
        raise Missed(f"{layers} layers, as the engine has", f"{found['layers']['fused']}", _AGAIN)
    if ENGINE == "cpu" and not found["layers"]["naive"] > layers:
        told = f"{found['layers']['naive']} naive, {layers} fused"
        raise Missed("more layers where the skip branches stay in float", told, "build both models, each for itself")
    ratio, times = found["ratio"], found["ms"]
    if not ratio["low"] <= ratio["median"] <= ratio["high"]:
        raise Missed("an interval around the ratio", f"{ratio['low']:.2f} to {ratio['high']:.2f}", _AGAIN)
    if not abs(ratio["median"] / (times["naive"] / times["fused"]) - 1) <= _APART:
        told = f"{ratio['median']:.2f} beside {times['naive']:.2f} ms and {times['fused']:.2f} ms"
        raise Missed("naive's time over fused's as the ratio", told, _AGAIN)
    return f"{found['layers']['naive']} layers naive, {layers} fused; ratio of times {ratio['median']:.2f}"
