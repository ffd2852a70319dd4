"""quantize_weights, make_pair, weighted_inputs, insert_qdq and skip_branches: what a pair is, and where pairs go."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.pure import agree
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
def quantize_array(notebook: Notebook, *, weights: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Call quantize_weights; return codes, scales, and the array that was given as it is afterwards."""
    given = weights.copy()
    codes, scales = notebook[QUANTIZE](given, axis)
    return np.asarray(codes), np.asarray(scales), given


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
) -> tuple[bytes, bool, str | None]:
    """Call insert_qdq; return its model, whether the given one is as it was, and the text of a ValueError."""
    given = onnx.load_from_string(model)
    try:
        found = notebook[INSERT](given, scales, [(name, index) for name, index in places])
    except ValueError as error:
        return b"", True, said(error)
    return found.SerializeToString(), given == onnx.load_from_string(model), None


def _drawn(case: Case, shape: tuple[int, ...], axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return codes, scales, and weights that have them: each less than half a step beside its code."""
    random = case.random(f"qdq.{shape}")
    codes = random.integers(-126, 127, shape)
    np.moveaxis(codes, axis, -1)[(0,) * (len(shape) - 1)] = np.resize([127, -127], shape[axis])
    beside = random.uniform(-0.4, 0.4, shape) * (np.abs(codes) < 127)
    scales = random.uniform(1e-4, 0.02, shape[axis]).astype(np.float32)
    along = scales.reshape([-1 if one == axis else 1 for one in range(len(shape))])
    return codes, scales, ((codes + beside) * along).astype(np.float32)


def _equal(case: Case, part: int, kind: type, advice: str) -> str:
    """Return evidence that quantize_weights' codes (part 0) or scales (1) are right, of this type."""
    for shape, axis in _LAYOUTS:
        *parts, weights = _drawn(case, shape, axis)
        found, right = case.call(quantize_array, weights=weights, axis=axis).require(QUANTIZE)[part], parts[part]
        what = f"{('codes', 'scales')[part]} of weights {list(shape)}, axis {axis}"
        if found.shape != right.shape or found.dtype != kind:
            expected = f"{np.dtype(kind)} {list(right.shape)} as the {what}"
            raise Missed(expected, f"{found.dtype} {list(found.shape)}", advice)
        agree(found.tolist(), right.tolist(), f"the {what}", advice, rtol=1e-5)
    return f"{len(_LAYOUTS)} arrays"


@NUMBERS.point("qdq.scales", 0.25, "Each output channel has its own scale: its largest magnitude over 127")
def scales(case: Case) -> str:
    return _equal(case, 1, np.float32, "one number a channel: reduce over the other axes; codes go from -127 to 127")


@NUMBERS.point("qdq.codes", 0.25, "A code is the value over its channel's scale, rounded to the nearest")
def codes(case: Case) -> str:
    return _equal(case, 0, np.int8, "divide each channel by its scale; np.rint rounds")


@NUMBERS.point("qdq.silent", 0.15, "A channel of zeros has a scale above 0, and the given array stays as it is")
def silent(case: Case) -> str:
    *_, weights = _drawn(case, (4, 3), 0)
    weights[2] = 0
    found, scales, kept = case.call(quantize_array, weights=weights, axis=0).require(QUANTIZE)
    agree([scales.size, found.size], [4, 12], "sizes of scales and codes", "see the points above")
    scale = float(scales.ravel()[2]) if scales.dtype.kind == "f" else np.nan
    if not 0 < scale < np.inf or found.reshape(4, 3)[2].any():
        said = f"scale {scale:g}, codes {found.reshape(4, 3)[2].tolist()}"
        raise Missed("codes of 0 and a scale above 0 for a channel of zeros", said, "a scale of 1 will do there")
    if not np.array_equal(kept, weights):
        raise Missed("the array as it was", "its values have changed", "compute new arrays")
    return "a scale above 0 and codes of 0"


@NUMBERS.point("qdq.pair", 0.35, "A pair rounds a tensor to INT8 and back, with one scale or one a channel")
def pair(case: Case) -> str:
    random, advice = case.random("qdq.pair"), "both nodes take scale and zero point, and the axis if there is one"
    axes = {f"/block{number}/out": axis for number, axis in enumerate((None, 0, 2, None))}
    shapes = {name: () if axis is None else (5,) for name, axis in axes.items()}
    right = {name: random.uniform(0.01, 0.02, shape).astype(np.float32) for name, shape in shapes.items()}
    found = read_quantised(case.call(pairs_model, scales=right, axes=axes).require(PAIR))
    for name, axis in axes.items():
        pair_is(found, (name, 0), right[name], axis, advice)
    if len({*found.rounding}) < len(found.rounding):
        raise Missed("another name for each node", ", ".join(found.rounding)[:120], "use the whole name of the tensor")
    return "per tensor, and per channel along axes 0 and 2"


def _network(case: Case) -> tuple[bytes, dict[str, float], dict[str, str]]:
    return residual(case.random("qdq.network"))


def _original(case: Case) -> Reading:
    return read_model(_network(case)[0])


def _listed(case: Case, function: str) -> set[Place]:
    found = case.call(listed_places, function=function, model=_network(case)[0]).require(function)
    return {(name, index) for name, index in found}


def _insert(case: Case, places: list[Place], scales: dict[str, float]) -> tuple[bytes, bool, str | None]:
    asked = {"model": _network(case)[0], "scales": scales, "places": [[*place] for place in places]}
    return tuple(case.call(insert_pairs, **asked).require(INSERT))


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
    model, kept, refused = _insert(case, _asked(case), _network(case)[1])
    if refused is not None:
        advice = "weights have no scale in the cache: compute it"
        raise Missed("no error where every tensor has a scale", f"ValueError: {refused[:120]}", advice)
    if not kept:
        raise Missed("the given model as it was", "it has changed", "work on a copy: it is quantised again")
    return read_quantised(model)


def _same_places(found: set[Place], right: set[Place], how: str, advice: str) -> None:
    for expected, places in (("", right - found), ("nothing else", found - right)):
        if places:
            shown = "; ".join(f"input {index} of {name}" for name, index in sorted(places)[:3])
            told = shown if expected else f"{len(places)} of {len(right)} missing"
            raise Missed(f"{expected or shown} {how}", told, advice)


@INSERTION.point("qdq.places", 0.25, "The activation and the weights of each layer with stored weights are listed")
def places(case: Case) -> str:
    right = {(name, index) for name in weighted_layers(_original(case)) for index in (0, 1)}
    advice = "inputs 0 and 1 of Conv, Gemm and MatMul with stored weights, by the node's name"
    _same_places(_listed(case, WEIGHTED_INPUTS), right, "listed", advice)
    return f"{len(right)} places"


@INSERTION.point("qdq.through", 0.35, "Exactly these inputs are read through a pair; the rest of the model stays")
def through(case: Case) -> str:
    found, asked = _inserted(case), {*_asked(case)}
    same_without_pairs(_original(case), found)
    advice = "a pair belongs to a place, not to its tensor: other readers of the tensor stay in float"
    _same_places({*found.pairs}, asked, "read through a pair", advice)
    return f"{len(asked)} inputs through pairs"


def _right_scales(case: Case, of_weights: bool) -> str:
    found, layers = _inserted(case), weighted_layers(_original(case))
    places = [(name, index) for name, index in _asked(case) if (name in layers and index == 1) == of_weights]
    if not (there := found.pairs.keys() & {*places}):
        raise Missed(
            f"{len(places)} pairs, at {'weights' if of_weights else 'activations'}", "none", "look at the point above"
        )
    for place in sorted(there):
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
    tensors = {pair.tensor for pair in found.pairs.values()}
    if (nodes := len(found.rounding)) != 2 * len(tensors):
        advice = "keep the DequantizeLinear's output by the tensor's name"
        raise Missed(f"{2 * len(tensors)} Q/DQ nodes for {len(tensors)} tensors", f"{nodes}", advice)
    return f"{len(tensors)} pairs for {len(found.pairs)} places"


@INSERTION.point("qdq.lacking", 0.2, "A tensor without a scale is an error that names it")
def lacking(case: Case) -> str:
    _, scales, names = _network(case)
    for layer, tensor, given in (("conv1", "relu0", {}), ("conv5", "relu3", {}), ("conv1", "relu0", {"relu0": 0.0})):
        known = {name: scale for name, scale in scales.items() if name != tensor} | given
        refused = _insert(case, [(names[layer], 0), (names[layer], 1)], known)[2]
        if refused is None or tensor not in refused:
            found = "no error" if refused is None else f"ValueError: {refused[:80]}"
            expected = f"ValueError that names {tensor}, which has {'a scale of 0' if given else 'no scale'}"
            raise Missed(expected, found, "look the scale up before its use")
    return "no scale and a scale of 0"


def _one_of_both(case: Case, choices: int, advice: str) -> str:
    """Return evidence that one right input of each addition is listed that has so many right ones."""
    listed, right = _listed(case, SKIP_BRANCHES), skip_branches(_original(case))
    chosen = {name: inputs for name, inputs in right.items() if len(inputs) == choices}
    for name, inputs in chosen.items():
        found = {index for node, index in listed if node == name}
        if len(found) != 1 or not found <= inputs:
            expected = f"input {' or '.join(map(str, inputs))} of {name}"
            raise Missed(expected, f"listed: {', '.join(map(str, found)) or 'none'}", advice)
    return f"one input of {', '.join(chosen)}"


@SKIPS.point("qdq.skips", 0.45, "Where one branch is a convolution, the other one is the skip branch")
def skips(case: Case) -> str:
    return _one_of_both(case, 1, "the convolution and the addition become one kernel; what comes past is rounded")


@SKIPS.point("qdq.both", 0.2, "Where both are convolutions, one of them is")
def both(case: Case) -> str:
    return _one_of_both(case, 2, "one convolution takes the addition into its kernel, which adds the other's output")


@SKIPS.point("qdq.others", 0.35, "Other additions are left alone")
def others(case: Case) -> str:
    found, right = {name for name, _ in _listed(case, SKIP_BRANCHES)}, skip_branches(_original(case)).keys()
    if not found or found - right:
        advice = "it takes a convolution's output that nothing else reads, and another input that is computed"
        listed = ", ".join(sorted(found - right)) or "nothing"
        raise Missed("only additions that a convolution can take in", f"{listed} is listed", advice)
    return f"{len(found)} additions and no other"
