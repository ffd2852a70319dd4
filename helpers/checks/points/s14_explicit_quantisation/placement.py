"""Where pairs go, weighted_inputs(model) and skip_branches(model), and insert_qdq(model, scales, places)."""

from typing import Any, TypedDict

import numpy as np
import onnx

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import point
from helpers.checks.points.s09_mixed_precision.layers import Refusal
from helpers.checks.points.s14_explicit_quantisation.networks import (
    BOTH,
    ENDS_IN_A_SKIP,
    OTHERS,
    SKIPS,
    WEIGHTED,
    WITHOUT_A_SKIP,
    Residual,
    from_text,
    residual,
)
from helpers.checks.points.s14_explicit_quantisation.reading import Pair, Reading, compare, read_model, read_quantised
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.frames import said

INSERT, WEIGHTED_INPUTS, SKIP_BRANCHES = "insert_qdq", "weighted_inputs", "skip_branches"
Place = tuple[str, int]
_MAYBE = ("conv4", "conv7", "conv8")
_LEFT_OUT = 2  # of those that share no tensor with another


class Listed(TypedDict):
    """A node and the index of one of its inputs."""

    node: str
    index: int


class Inserted(TypedDict):
    """What `insert_pairs` answers."""

    error: Refusal | None
    model: bytes
    kept: bool


@probe
def listed_places(notebook: Notebook, *, function: str, onnx: bytes) -> list[Listed]:
    """Return what a function lists of a model."""
    return [{"node": str(name), "index": int(index)} for name, index in notebook[function](_loaded(onnx))]


@probe
def insert_pairs(
    notebook: Notebook, *, onnx: bytes, names: list[str], scales: np.ndarray, places: list[list[Any]]
) -> Inserted:
    """Call insert_qdq; the result is `model` (its bytes), `kept` (whether the one given is as it was) and `error`."""
    model, function = _loaded(onnx), notebook[INSERT]
    before = model.SerializeToString(deterministic=True)
    given = dict(zip(names, map(float, scales), strict=True))
    try:
        found = function(model, given, [(name, index) for name, index in places])
    except ValueError as error:
        return {"error": {"type": type(error).__name__, "message": said(error)}, "model": b"", "kept": True}
    kept = model.SerializeToString(deterministic=True) == before
    return {"error": None, "model": found.SerializeToString(), "kept": kept}


def _loaded(content: bytes) -> onnx.ModelProto:
    return onnx.load_from_string(content)


def _listed(case: Case, function: str, model: bytes) -> list[Place]:
    found = case.call(listed_places, function=function, onnx=model).require(function)
    return [(place["node"], place["index"]) for place in found]


def _call(case: Case, network: Residual, places_asked: list[Place], scales_given: dict[str, float]) -> Inserted:
    asked = [[name, index] for name, index in places_asked]
    values = np.array([*scales_given.values()], np.float64)
    given = {"onnx": network.model, "names": [*scales_given], "scales": values, "places": asked}
    return case.call(insert_pairs, **given).require(INSERT)


def _asked_places(case: Case, network: Residual) -> list[Place]:
    """Return places in no order: both inputs of most weighted layers, and the inputs past the additions."""
    random = case.random("qdq.places")
    left_out = random.permutation(_MAYBE)[:_LEFT_OUT]
    layers = [name for name in WEIGHTED if name not in left_out]
    found = [(name, index) for name in layers for index in (0, 1)] + [*network.skips.items()]
    return [found[number] for number in random.permutation(len(found))]


def _inserted(case: Case) -> tuple[Residual, Reading, list[Place]]:
    """Return the case's network, the reading of what insert_qdq makes of it, and the places that were asked for."""
    network = residual(case)
    asked = _asked_places(case, network)
    answer = _call(case, network, asked, network.scales)
    if answer["error"]:
        told = f"{answer['error']['type']}: {answer['error']['message'][:120]}"
        raise Missed("no error where every tensor has a scale", told, "weights have no scale in the cache: compute it")
    if not answer["kept"]:
        raise Missed("the model that is given as it was", "it has changed", "work on a copy: it is quantised again")
    return network, read_quantised(answer["model"]), asked


@point("The inputs of layers with stored weights are listed: activation and weights")
def places(case: Case) -> str:
    found = _listed(case, WEIGHTED_INPUTS, residual(case).model)
    listed = {*found}
    expected = {(name, index) for name in WEIGHTED for index in (0, 1)}
    for name, index in sorted(expected - listed):
        raise Missed(f"input {index} of {name} among the places", "not listed", "Conv, Gemm and MatMul; inputs 0 and 1")
    for name, index in sorted(listed - expected):
        advice = "a bias is input 2 and stays in float; a product of two computed tensors has no weights"
        raise Missed(f"{len(expected)} places", f"input {index} of {name} is listed too", advice)
    if len(found) != len(listed):
        raise Missed("each place once", f"{len(found)} entries for {len(listed)} places", "list each place once")
    return f"{len(listed)} places of {len(WEIGHTED)} layers"


@point("Exactly these inputs are read through a pair, and the rest of the model is as it was")
def through(case: Case) -> str:
    network, found, asked = _inserted(case)
    compare(read_model(network.model), found)
    for name, index in sorted({*asked} - {*found.pairs}):
        expected = f"input {index} of {name} through QuantizeLinear and DequantizeLinear"
        raise Missed(expected, "it is read in float", "every place in `places` gets its pair, whatever their order")
    for name, index in sorted({*found.pairs} - {*asked}):
        raise Missed(f"input {index} of {name} in float: it was not asked for", "it comes through a pair", "see places")
    return f"{len(asked)} inputs through pairs"


@point("An activation's scale is the cache's, and its zero point an INT8 of 0")
def activations(case: Case) -> str:
    network, found, _ = _inserted(case)
    pairs = {place: pair for place, pair in found.pairs.items() if pair.tensor not in found.stored}
    if not pairs:
        raise Missed("activations that come through pairs", "none does", "look at the point above")
    for (name, index), pair in pairs.items():
        _check_zeros(name, index, pair)
        scale = network.scales.get(pair.tensor, np.nan)
        for got in pair.scales:
            if got.size != 1 or got.dtype != np.float32 or not np.isclose(float(got.ravel()[0]), scale, rtol=1e-5):
                said_so = f"{got.dtype} {got.ravel()[:2].tolist()}"
                advice = "one number a tensor: the cache's scale, neither times 127 nor over it"
                raise Missed(f"{scale:.6g}, float32, for {pair.tensor}", said_so, advice)
    return f"{len(pairs)} inputs with the cache's scales"


@point("Weights stay stored in float, and have a scale for each output channel")
def weights(case: Case) -> str:
    _, found, asked = _inserted(case)
    layers = [(name, 1) for name in WEIGHTED]
    pairs = {at: pair for at, pair in found.pairs.items() if at in layers and pair.tensor in found.stored}
    if len(pairs) < sum(index for name, index in asked if name in WEIGHTED):
        advice = "a QuantizeLinear reads the stored float weights, a DequantizeLinear its codes"
        raise Missed("stored weights that come through pairs", f"{len(pairs)} of them do", advice)
    for (name, index), pair in pairs.items():
        _check_zeros(name, index, pair)
        fault = weight_scale_fault(found.stored[pair.tensor], pair, WEIGHTED[name])
        if fault:
            raise Missed(fault[0], f"{name}: {fault[1]}", "quantize_weights along channel_axis(node), in both nodes")
    return f"the weights of {len(pairs)} layers, each channel with its scale"


def weight_scale_fault(values: np.ndarray, pair: Pair, axis: int) -> tuple[str, str] | None:
    """Return what is expected of a weight's pair and what was found, None where it is per channel along `axis`."""
    largest = np.abs(np.moveaxis(values, axis, 0)).reshape(values.shape[axis], -1).max(axis=1)
    for scale, stated in zip(pair.scales, pair.axes, strict=True):
        if scale.shape != largest.shape:
            return f"{len(largest)} scales, one an output channel", f"{list(scale.shape)}"
        if stated % values.ndim != axis:
            return f"the axis {axis}, that of the output channels", f"axis {stated}"
        live = largest > 0
        if not np.allclose(scale[live], largest[live] / 127, rtol=1e-4) or not (scale > 0).all():
            return "scales of the channels' largest magnitudes over 127", "others"
    return None


def _check_zeros(name: str, index: int, pair: Pair) -> None:
    for zero in pair.zeros:
        if zero is None or zero.dtype != np.int8 or zero.any():
            kind = "none, which means uint8" if zero is None else f"{zero.dtype}, {zero.ravel()[:1].tolist()}"
            raise Missed(f"zero points of 0, int8, at input {index} of {name}", kind, "TensorRT takes no other")


@point("A tensor that several places read has one pair")
def once(case: Case) -> str:
    _, found, _ = _inserted(case)
    tensors = {pair.tensor for pair in found.pairs.values()}
    if found.count != 2 * len(tensors):
        expected = f"{2 * len(tensors)} Q/DQ nodes for {len(tensors)} tensors"
        raise Missed(expected, f"{found.count}", "keep the DequantizeLinear's output by the tensor's name")
    return f"{len(tensors)} pairs for {len(found.pairs)} places"


@point("A tensor without a scale is an error that names it")
def lacking(case: Case) -> str:
    network = residual(case)
    name = next(tensor for tensor in network.scales if tensor.endswith("_relu2"))  # read by two convolutions
    for what, given in (("no scale", {}), ("a scale of 0", {name: 0.0})):
        known = {tensor: scale for tensor, scale in network.scales.items() if tensor != name} | given
        answer = _call(case, network, [("conv3", 0), ("conv3", 1)], known)
        if not answer["error"] or name not in answer["error"]["message"]:
            told = f"{answer['error']['type']}: {answer['error']['message'][:80]}" if answer["error"] else "no error"
            raise Missed(f"ValueError that names {name}, which has {what}", told, "look the scale up before it is used")
    return f"{answer['error']['message'][:80]}"


def _skips_in(case: Case, model: bytes) -> dict[str, list[int]]:
    """Return which inputs of which nodes skip_branches lists."""
    found: dict[str, list[int]] = {}
    for name, index in _listed(case, SKIP_BRANCHES, model):
        found.setdefault(name, []).append(index)
    return found


@point("Where one branch is a convolution, the other one is the skip branch")
def skips(case: Case) -> str:
    network = residual(case)
    for model, skips_there in ((network.model, network.skips), (from_text(ENDS_IN_A_SKIP), {"sum": 0})):
        found = _skips_in(case, model)
        for name, wanted in skips_there.items():
            if found.get(name) != [wanted]:
                listed = ", ".join(map(str, found.get(name, []))) or "none"
                advice = "the convolution and the addition become one kernel; what comes past them is read as INT8"
                raise Missed(f"input {wanted} of {name}", f"listed: {listed}", advice)
    return ", ".join(f"input {network.skips[name]} of {name}" for name in SKIPS)


@point("Where both are convolutions, one of them is")
def both(case: Case) -> str:
    listed = _skips_in(case, residual(case).model).get(BOTH, [])
    if len(listed) != 1 or listed[0] not in (0, 1):
        advice = "one convolution takes the addition into its kernel, the other's output is what it adds"
        raise Missed(f"one input of {BOTH}", ", ".join(map(str, listed)) or "none", advice)
    return f"input {listed[0]} of {BOTH}"


@point("Other additions are left alone")
def others(case: Case) -> str:
    found = _skips_in(case, residual(case).model)
    for name in _skips_in(case, from_text(WITHOUT_A_SKIP)):
        advice = "what is stored is no branch, and a convolution that two nodes read has to be written"
        raise Missed("no skip branch where there is none", f"one at {name}", advice)
    for name in found:
        if name not in (*SKIPS, BOTH):
            why = "no addition" if name not in OTHERS else "an addition that no convolution can take in"
            advice = "a convolution's output that nothing else reads, and another input that is computed"
            raise Missed(f"nothing of {name}: it is {why}", f"input {found[name][0]} is listed", advice)
    if not found:
        raise Missed("skip branches", "none is listed", "look at the points above")
    return f"{len(OTHERS)} others"
