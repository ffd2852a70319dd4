"""quantize_weights, make_pair, weighted_inputs, insert_qdq and skip_branches: pairs, and their places."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypedDict

import numpy as np
import onnx
from onnx import TensorProto, helper

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.pure import Answered, agree, compare, results_of
from helpers.checks.points.s14_explicit_quantisation.networks import LEFT_IN_FLOAT, residual
from helpers.checks.points.s14_explicit_quantisation.reading import (
    Place,
    Reading,
    by_node,
    pair_of,
    pairs_at,
    read_model,
    read_quantised,
    same_without_pairs,
    skip_branches,
    weighted_layers,
)
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.student import Reply

QUANTIZE, PAIR, WEIGHTED, INSERT, SKIP = (
    "quantize_weights",
    "make_pair",
    "weighted_inputs",
    "insert_qdq",
    "skip_branches",
)
NUMBERS = Task("qdq_pair", check="check_pair", takes=(QUANTIZE, PAIR))
INSERTION = Task("qdq_insertion", check="check_insertion", takes=(WEIGHTED, INSERT))
SKIPS = Task("qdq_skips", check="check_skip_branches", takes=(SKIP,))
Inserted = TypedDict("Inserted", {"model": bytes, "the given model unchanged": bool})

_LAYOUTS = (((6, 4, 3, 3), 0), ((5, 7), 1), ((7, 5), 0))
_AXES = {"/block0/out": None, "/block1/out": 0, "/block2/out": 2, "/block3/out": None}


@probe
def quantised(notebook: Notebook, *, name: str, calls: list[list[Any]], raising: bool) -> list[Answered]:
    """Answer like `results_of`, for quantize_weights."""
    return results_of({name: partial(_quantised, notebook[name])}, name=name, calls=calls, raising=raising)


def _quantised(quantize: Callable[..., Any], weights: np.ndarray, axis: int) -> dict[str, Any]:
    given = weights.copy()
    codes, scales = map(np.asarray, quantize(given, axis))
    types = {"type of codes": codes.dtype.name, "type of scales": scales.dtype.name}
    return {"codes": codes.tolist(), "scales": scales.tolist(), "weights": given} | types


@probe
def pairs_model(notebook: Notebook, *, scales: dict[str, Any], axes: dict[str, int | None]) -> bytes:
    """Return a model in which a node reads each tensor of `scales` through the nodes of make_pair."""
    graph = onnx.GraphProto(name="pairs")
    for name, scale in scales.items():
        nodes, stored = notebook[PAIR](name, scale, axes[name])
        graph.node.extend([*nodes, helper.make_node("Relu", [nodes[-1].output[0]], [f"{name}.end"], name=name)])
        graph.initializer.extend(stored)
        graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, (5, 4, 5)))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


@probe
def listed_places(notebook: Notebook, *, function: str, model: bytes) -> list[Place]:
    """Return the places that a function lists for a model."""
    return [(str(name), int(index)) for name, index in notebook[function](onnx.load_from_string(model))]


@probe
def insert_pairs(notebook: Notebook, *, model: bytes, scales: dict[str, float], places: list[list[Any]]) -> Inserted:
    """Call insert_qdq; return its model, and whether the given one is unchanged."""
    given = onnx.load_from_string(model)
    found = notebook[INSERT](given, scales, [(name, index) for name, index in places])
    return {"model": found.SerializeToString(), "the given model unchanged": given == onnx.load_from_string(model)}


def _drawn(case: Case, shape: tuple[int, ...], axis: int) -> tuple[np.ndarray, dict[str, Any]]:
    """Return weights, each less than half a step from its code, and their right codes and scales."""
    random, last = case.random(f"qdq.{shape}"), shape[axis]
    codes = random.integers(-126, 127, (*np.delete(shape, axis), last))
    codes.reshape(-1, last)[0] = np.resize([127, -127], last)
    beside = random.uniform(-0.4, 0.4, codes.shape) * (np.abs(codes) < 127)
    scales = random.uniform(1e-4, 0.02, last).astype(np.float32)
    codes, weights = (np.moveaxis(values, -1, axis) for values in (codes, (codes + beside) * scales))
    right = {"codes": codes.tolist(), "type of codes": "int8", "scales": scales.tolist(), "type of scales": "float32"}
    return weights.astype(np.float32), right


def _gives(case: Case, what: str, advice: str) -> str:
    """Return evidence that the codes or scales of quantize_weights are right, type included."""
    drawn = [(axis, *_drawn(case, shape, axis)) for shape, axis in _LAYOUTS]
    pairs = [((weights, axis), {key: right[key] for key in right if what in key}) for axis, weights, right in drawn]
    return compare(case, QUANTIZE, pairs, advice, rtol=1e-5, through=quantised)


@NUMBERS.point("qdq.scales", 0.25, "One scale per output channel: its largest magnitude divided by 127")
def scales(case: Case) -> str:
    return _gives(case, "scales", "reduce over all axes except the channel's; codes go from -127 to 127")


@NUMBERS.point("qdq.codes", 0.25, "A code is the value divided by its channel's scale, rounded")
def codes(case: Case) -> str:
    return _gives(case, "codes", "divide each channel by its scale, and round with np.rint")


@NUMBERS.point("qdq.silent", 0.15, "A channel of zeros has a scale above 0; the given array is not changed")
def silent(case: Case) -> str:
    weights, _ = _drawn(case, (4, 3), 0)
    zeros = (np.zeros_like(weights), 0), {"codes": [[0] * 3] * 4, "scales": [1.0] * 4}
    pairs = [zeros, ((weights, 0), {"weights": weights})]
    return compare(case, QUANTIZE, pairs, "use a scale of 1 for zeros, and compute new arrays", through=quantised)


@NUMBERS.point("qdq.pair", 0.35, "A pair rounds to INT8 and back, with one scale or one per channel")
def pair(case: Case) -> str:
    drawn = {name: case.random(name).uniform(0.01, 0.02, 5).astype(np.float32) for name in _AXES}
    scales = {name: float(drawn[name][0]) if axis is None else drawn[name] for name, axis in _AXES.items()}
    found = read_quantised(case.call(pairs_model, scales=scales, axes=_AXES).require(PAIR))
    right = {"pairs": {name: {"0": pair_of(name, scales[name], axis)} for name, axis in _AXES.items()}}
    advice = "give both nodes scale, zero point and any axis, and make their names from the whole tensor name"
    agree(found, right | {"rounding_nodes": 2 * len(_AXES)}, "the pairs by tensor", advice, rtol=1e-4)
    return "per tensor, and per channel along axes 0 and 2"


def _network(case: Case) -> tuple[bytes, dict[str, float], dict[str, str]]:
    return residual(case.random("qdq.network"))


def _original(case: Case) -> Reading:
    return read_model(_network(case)[0])


def _listed(case: Case, function: str) -> dict[str, list[int]]:
    places = case.call(listed_places, function=function, model=_network(case)[0]).require(function)
    return by_node(_original(case), places)


def _insert(case: Case, places: list[Place], scales: dict[str, float]) -> Reply:
    return case.call(insert_pairs, model=_network(case)[0], scales=scales, places=[[*place] for place in places])


def _asked(case: Case) -> list[Place]:
    """Return shuffled places: both inputs of the weighted layers except LEFT_IN_FLOAT, and one of a skip branch."""
    names = _network(case)[2]
    layers = weighted_layers(_original(case)).keys() - {names[layer] for layer in LEFT_IN_FLOAT}
    places = sorted([(names["add0"], 1), *((name, index) for name in layers for index in (0, 1))])
    return [places[number] for number in case.random("qdq.places").permutation(len(places))]


def _inserted(case: Case) -> Reading:
    """Return a reading of the model that insert_qdq makes of the case's network and places."""
    found = _insert(case, _asked(case), _network(case)[1]).require(INSERT)
    agree(found, {"the given model unchanged": True}, INSERT, "work on a copy of the model")
    return read_quantised(found["model"])


@INSERTION.point("qdq.places", 0.25, "Lists the activation and the weights of each layer with stored weights")
def places(case: Case) -> str:
    original = _original(case)
    right = dict.fromkeys(original["nodes"], []) | dict.fromkeys(weighted_layers(original), [0, 1])
    advice = "list inputs 0 and 1 of each Conv, Gemm and MatMul with stored weights"
    agree(_listed(case, WEIGHTED), right, f"the inputs that {WEIGHTED} lists", advice)
    return f"inputs 0 and 1 of {len(weighted_layers(original))} layers"


@INSERTION.point("qdq.through", 0.5, "Exactly these inputs are read through a pair; nothing else changes")
def through(case: Case) -> str:
    original, found, asked = _original(case), _inserted(case), _asked(case)
    same_without_pairs(original, found)
    tensors = {original["nodes"][name][1][index] for name, index in asked}
    right = {"rounded": by_node(original, asked), "rounding_nodes": 2 * len(tensors)}
    advice = "put a pair at the given places only: other readers of the tensor stay in float"
    agree(found, right, "the inputs that are read through a pair", advice)
    return f"{len(tensors)} pairs for {len(asked)} inputs"


def _right_pairs(case: Case, of_weights: bool, advice: str) -> str:
    original, found = _original(case), _inserted(case)
    rounded = [(name, index) for name, index in _asked(case) if index in found["rounded"].get(name, ())]
    kinds = {place: original["nodes"][place[0]][1][place[1]] in original["stored"] for place in rounded}
    right = pairs_at(original, [place for place in rounded if kinds[place] == of_weights], _network(case)[1])
    agree({"pairs of this kind": bool(right)}, {"pairs of this kind": True}, INSERT, "fix the point above first")
    agree(found["pairs"], right, "the pairs by node and input", advice, rtol=1e-4)
    return f"right at {len(right)} nodes"


@INSERTION.point("qdq.activations", 0.25, "Activations have the given scale, and an INT8 zero point of 0")
def activations(case: Case) -> str:
    return _right_pairs(case, False, "use the given scale, neither multiplied nor divided by 127")


@INSERTION.point("qdq.weights", 0.3, "Weights have one scale per output channel")
def weights(case: Case) -> str:
    return _right_pairs(case, True, "use quantize_weights along channel_axis(node), and that axis in both nodes")


@INSERTION.point("qdq.lacking", 0.2, "A tensor without a scale raises a ValueError that names it")
def lacking(case: Case) -> str:
    _, scales, names = _network(case)
    for layer, tensor, given in (("conv1", "relu0", {}), ("conv5", "relu3", {"relu3": 0.0})):
        known = {name: scale for name, scale in scales.items() if name != tensor} | given
        error = _insert(case, [(names[layer], 0), (names[layer], 1)], known).error or {
            "type": "no error",
            "message": "",
        }
        if error["type"] != "ValueError" or tensor not in error["message"]:
            expected = f"a ValueError that names {tensor}, whose scale is {known.get(tensor)}"
            found = f"{error['type']}: {error['message']}".removesuffix(": ")
            raise Missed(expected, found, "check the scale before you use it")
    return "no scale and a scale of 0"


def _skips(case: Case, additions: tuple[str, ...], advice: str) -> str:
    """Return evidence that for each of these nodes the right input is listed, or none."""
    names, right = _network(case)[2], skip_branches(_original(case))
    asked = {names[output]: right[names[output]] for output in additions}
    agree(_listed(case, SKIP), asked, f"the inputs that {SKIP} lists", advice)
    return f"right for {', '.join(additions)}"


@SKIPS.point("qdq.skips", 0.45, "If one branch is a convolution, the other one is the skip branch")
def skips(case: Case) -> str:
    advice = "list the other input: the convolution is fused with the addition"
    return _skips(case, ("add0", "add2"), advice)


@SKIPS.point("qdq.both", 0.2, "If both branches are convolutions, one of them is")
def both(case: Case) -> str:
    advice = "list one of the two: the other convolution is fused with the addition"
    return _skips(case, ("add1",), advice)


@SKIPS.point("qdq.others", 0.35, "Other additions are left alone")
def others(case: Case) -> str:
    advice = "list an addition only if one input is a convolution's output that no other node reads, and none is stored"
    agree({"any input": any(_listed(case, SKIP).values())}, {"any input": True}, f"{SKIP} lists", advice)
    return _skips(case, ("add3", "add4", "add5", "add6", "relu0"), advice)
