"""quantize_weights, make_pair, weighted_inputs, insert_qdq and skip_branches: what a pair is, and where pairs go."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from helpers.checks.points.case import Case
from helpers.checks.points.pure import Answered, OneOf, agree, compare, results_of
from helpers.checks.points.s14_explicit_quantisation.networks import SINGLE, residual
from helpers.checks.points.s14_explicit_quantisation.reading import (
    Place,
    Reading,
    pair_is,
    read_model,
    read_quantised,
    same_without_pairs,
    scale_is_right,
    skip_branches,
    weighted_layers,
)
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.frames import said

QUANTIZE, PAIR, WEIGHTED_INPUTS, INSERT = "quantize_weights", "make_pair", "weighted_inputs", "insert_qdq"
SKIP_BRANCHES = "skip_branches"
NUMBERS = Task("qdq_pair", check="check_pair", takes=(QUANTIZE, PAIR))
INSERTION = Task("qdq_insertion", check="check_insertion", takes=(WEIGHTED_INPUTS, INSERT))
SKIPS = Task("qdq_skips", check="check_skip_branches", takes=(SKIP_BRANCHES,))

_LAYOUTS = (((6, 4, 3, 3), 0), ((5, 7), 1), ((7, 5), 0))


@probe
def quantised(notebook: Notebook, *, name: str, calls: list[list[Any]], raising: bool) -> list[Answered]:
    """Answer as `results_of`, for quantize_weights."""
    return results_of({name: partial(_quantised, notebook[name])}, name=name, calls=calls, raising=raising)


def _quantised(quantize: Callable[..., Any], weights: np.ndarray, axis: int) -> dict[str, Any]:
    given = weights.copy()
    codes, scales = map(np.asarray, quantize(given, axis))
    found = {"codes": codes.tolist(), "type of codes": codes.dtype.name}
    found |= {
        "scales": scales.tolist(),
        "type of scales": scales.dtype.name,
        "scales above 0": bool((scales > 0).all()),
    }
    return found | {"weights unchanged": np.array_equal(given, weights)}


@probe
def pairs_model(notebook: Notebook, *, scales: dict[str, np.ndarray], axes: dict[str, int | None]) -> bytes:
    """Return a model in which each tensor of `scales` is read through make_pair's nodes, by a node of its name."""
    graph = onnx.GraphProto(name="pairs")
    for name, scale in scales.items():
        more = [float(scale)] if axes[name] is None else [scale, axes[name]]
        nodes, stored = notebook[PAIR](name, *more)
        graph.node.extend([*nodes, helper.make_node("Relu", [nodes[-1].output[0]], [f"{name}.end"], name=name)])
        graph.initializer.extend(stored)
        graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, (5, 4, 5)))
        graph.output.append(helper.make_tensor_value_info(f"{name}.end", TensorProto.FLOAT, (5, 4, 5)))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


@probe
def listed_places(notebook: Notebook, *, function: str, model: bytes) -> list[Place]:
    """Return what a function lists of a model."""
    return [(str(name), int(index)) for name, index in notebook[function](onnx.load_from_string(model))]


@probe
def insert_pairs(
    notebook: Notebook, *, model: bytes, scales: dict[str, float], places: list[list[Any]]
) -> dict[str, Any]:
    """Call insert_qdq; return its model, whether the given one is as it was, and the text of a ValueError."""
    given = onnx.load_from_string(model)
    try:
        found = notebook[INSERT](given, scales, [(name, index) for name, index in places])
    except ValueError as error:
        return {"model": b"", "ValueError": said(error)}
    kept = given == onnx.load_from_string(model)
    return {"model": found.SerializeToString(), "the given model unchanged": kept, "ValueError": None}


def _drawn(case: Case, shape: tuple[int, ...], axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return codes, scales, and weights that have them: each less than half a step beside its code."""
    random = case.random(f"qdq.{shape}")
    codes = random.integers(-126, 127, shape)
    np.moveaxis(codes, axis, -1)[(0,) * (len(shape) - 1)] = np.resize([127, -127], shape[axis])
    beside = random.uniform(-0.4, 0.4, shape) * (np.abs(codes) < 127)
    scales = random.uniform(1e-4, 0.02, shape[axis]).astype(np.float32)
    along = scales.reshape([-1 if one == axis else 1 for one in range(len(shape))])
    return codes, scales, ((codes + beside) * along).astype(np.float32)


def _gives(case: Case, part: int, kind: str, advice: str) -> str:
    """Return evidence that quantize_weights' codes (part 0) or scales (1) are right, of this type."""
    name, pairs = ("codes", "scales")[part], []
    for shape, axis in _LAYOUTS:
        *parts, weights = _drawn(case, shape, axis)
        pairs.append(((weights, axis), {f"type of {name}": kind, name: parts[part].tolist()}))
    return compare(case, QUANTIZE, pairs, advice, rtol=1e-5, through=quantised)


@NUMBERS.point("qdq.scales", 0.25, "Each output channel has its own scale: its largest magnitude over 127")
def scales(case: Case) -> str:
    return _gives(case, 1, "float32", "one number a channel: reduce over the other axes; codes go from -127 to 127")


@NUMBERS.point("qdq.codes", 0.25, "A code is the value over its channel's scale, rounded to the nearest")
def codes(case: Case) -> str:
    return _gives(case, 0, "int8", "divide each channel by its scale; np.rint rounds")


@NUMBERS.point("qdq.silent", 0.15, "A channel of zeros has a scale above 0, and the given array stays as it is")
def silent(case: Case) -> str:
    *_, weights = _drawn(case, (4, 3), 0)
    zeros = np.zeros((4, 3), np.float32)
    pairs = [((zeros, 0), {"codes": zeros.astype(int).tolist(), "scales above 0": True})]
    pairs += [((weights, 0), {"weights unchanged": True})]
    return compare(case, QUANTIZE, pairs, "a scale of 1 will do for zeros; compute new arrays", through=quantised)


@NUMBERS.point("qdq.pair", 0.35, "A pair rounds a tensor to INT8 and back, with one scale or one a channel")
def pair(case: Case) -> str:
    random, advice = case.random("qdq.pair"), "both nodes take scale and zero point, and the axis if there is one"
    axes = {f"/block{number}/out": axis for number, axis in enumerate((None, 0, 2, None))}
    shapes = {name: () if axis is None else (5,) for name, axis in axes.items()}
    right = {name: random.uniform(0.01, 0.02, shape).astype(np.float32) for name, shape in shapes.items()}
    found = read_quantised(case.call(pairs_model, scales=right, axes=axes).require(PAIR))
    for name, axis in axes.items():
        pair_is(found, (name, 0), right[name], axis, advice)
    twice = sorted({name for name in found.rounding if found.rounding.count(name) > 1})
    agree(twice, [], "the names that two nodes have", "use the whole name of the tensor")
    return "per tensor, and per channel along axes 0 and 2"


def _network(case: Case) -> tuple[bytes, dict[str, float], dict[str, str]]:
    return residual(case.random("qdq.network"))


def _original(case: Case) -> Reading:
    return read_model(_network(case)[0])


def _listed(case: Case, function: str) -> dict[str, list[int]]:
    places = case.call(listed_places, function=function, model=_network(case)[0]).require(function)
    return _original(case).by_node({(name, index) for name, index in places})


def _insert(case: Case, places: list[Place], scales: dict[str, float]) -> dict[str, Any]:
    asked = {"model": _network(case)[0], "scales": scales, "places": [[*place] for place in places]}
    return case.call(insert_pairs, **asked).require(INSERT)


def _asked(case: Case) -> list[Place]:
    """Return places in no order: both inputs of the weighted layers but two, and one of the skip branches.

    So a tensor that is read through a pair here is read in float there.
    """
    random, names = case.random("qdq.places"), _network(case)[2]
    left_out = {names[layer] for layer in random.permutation(SINGLE)[:2]}
    layers = weighted_layers(_original(case)).keys() - left_out
    skip = [(names["add0"], 1), (names["add2"], 0)][random.integers(2)]
    places = sorted([skip, *((name, index) for name in layers for index in (0, 1))])
    return [places[number] for number in random.permutation(len(places))]


def _inserted(case: Case) -> Reading:
    """Return a reading of what insert_qdq makes of the case's network and places."""
    found = _insert(case, _asked(case), _network(case)[1])
    advice = "work on a copy; weights have no scale in the cache: compute it"
    agree(found, {"ValueError": None, "the given model unchanged": True}, f"{INSERT} with every scale", advice)
    return read_quantised(found["model"])


@INSERTION.point("qdq.places", 0.25, "The activation and the weights of each layer with stored weights are listed")
def places(case: Case) -> str:
    original = _original(case)
    right = dict.fromkeys(original.nodes, []) | dict.fromkeys(weighted_layers(original), [0, 1])
    advice = "inputs 0 and 1 of Conv, Gemm and MatMul with stored weights, by the node's name"
    agree(_listed(case, WEIGHTED_INPUTS), right, f"the inputs that {WEIGHTED_INPUTS} lists", advice)
    return f"inputs 0 and 1 of {len(weighted_layers(original))} layers"


@INSERTION.point("qdq.through", 0.35, "Exactly these inputs are read through a pair; the rest of the model stays")
def through(case: Case) -> str:
    original, found = _original(case), _inserted(case)
    same_without_pairs(original, found)
    advice = "a pair belongs to a place, not to its tensor: other readers of the tensor stay in float"
    right = original.by_node(_asked(case))
    agree(found.by_node(found.pairs), right, "the inputs that are read through a pair", advice)
    return f"{len(found.pairs)} inputs through pairs"


def _right_scales(case: Case, of_weights: bool) -> str:
    found, layers = _inserted(case), weighted_layers(_original(case))
    asked = [place for place in _asked(case) if (place[0] in layers and place[1] == 1) == of_weights]
    there = [place for place in asked if place in found.pairs]
    agree(bool(there), True, f"whether a pair is at one of {len(asked)} places", "look at the point above")
    for place in there:
        scale_is_right(found, place, layers, _network(case)[1])
    return f"{len(there)} pairs"


@INSERTION.point("qdq.activations", 0.25, "An activation's scale is the given one, and its zero point an INT8 of 0")
def activations(case: Case) -> str:
    return _right_scales(case, of_weights=False)


@INSERTION.point("qdq.weights", 0.3, "Weights have a scale for each output channel")
def weights(case: Case) -> str:
    return _right_scales(case, of_weights=True)


@INSERTION.point("qdq.once", 0.15, "A tensor that several places read has one pair")
def once(case: Case) -> str:
    found = _inserted(case)
    tensors = {pair["tensor"] for pair in found.pairs.values()}
    advice = "keep the DequantizeLinear's output by the tensor's name"
    agree(len(found.rounding), 2 * len(tensors), f"the number of Q/DQ nodes for {len(tensors)} tensors", advice)
    return f"{len(tensors)} pairs for {len(found.pairs)} places"


@INSERTION.point("qdq.lacking", 0.2, "A tensor without a scale is an error that names it")
def lacking(case: Case) -> str:
    _, scales, names = _network(case)
    for layer, tensor, given in (("conv1", "relu0", {}), ("conv5", "relu3", {}), ("conv1", "relu0", {"relu0": 0.0})):
        known = {name: scale for name, scale in scales.items() if name != tensor} | given
        refused = _insert(case, [(names[layer], 0), (names[layer], 1)], known)["ValueError"]
        what = f"a ValueError that names {tensor}, which has {'a scale of 0' if given else 'no scale'}"
        agree(tensor in (refused or ""), True, f"{what}: {refused or 'no error'}", "look the scale up before its use")
    return "no scale and a scale of 0"


def _skips(case: Case, choices: int, advice: str) -> str:
    """Return evidence that one right input of each addition is listed that has so many right ones."""
    right = {name: inputs for name, inputs in skip_branches(_original(case)).items() if len(inputs) == choices}
    one_of = {name: OneOf(tuple([index] for index in inputs)) for name, inputs in right.items()}
    agree(_listed(case, SKIP_BRANCHES), one_of, f"the inputs that {SKIP_BRANCHES} lists", advice)
    return f"one input of {', '.join(right)}"


@SKIPS.point("qdq.skips", 0.45, "Where one branch is a convolution, the other one is the skip branch")
def skips(case: Case) -> str:
    return _skips(case, 1, "the convolution and the addition become one kernel; what comes past is rounded")


@SKIPS.point("qdq.both", 0.2, "Where both are convolutions, one of them is")
def both(case: Case) -> str:
    return _skips(case, 2, "one convolution takes the addition into its kernel, which adds the other's output")


@SKIPS.point("qdq.others", 0.35, "Other additions are left alone")
def others(case: Case) -> str:
    found, original = _listed(case, SKIP_BRANCHES), _original(case)
    right = dict.fromkeys(original.nodes.keys() - skip_branches(original).keys(), [])
    advice = "it takes a convolution's output that nothing else reads, and another input that is computed"
    agree(any(found.values()), True, f"whether {SKIP_BRANCHES} lists anything", advice)
    agree(found, right, f"the inputs that {SKIP_BRANCHES} lists", advice)
    return f"none of {len(right)} other nodes"
