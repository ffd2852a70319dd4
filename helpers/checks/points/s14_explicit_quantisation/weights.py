"""quantize_weights(weights, axis) and make_pair(name, scale, axis): eight bits for numbers, and two nodes for them."""

from typing import Any, TypedDict

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import point
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.loads import loads
from helpers.tools.outputs import onnx_session

QUANTIZE, PAIR = "quantize_weights", "make_pair"
_LAYOUTS = (((6, 4, 3, 3), 0), ((5, 7), 1), ((7, 5), 0))
_DEAD = 2
_OPSET, _IR_VERSION = 17, 8
_TENSOR = "of the case"


class Quantized(TypedDict):
    """What `quantize_array` answers."""

    codes: np.ndarray
    scales: np.ndarray
    kept: bool


class Nodes(TypedDict):
    """What `pair_nodes` answers."""

    nodes: list[bytes]
    stored: list[bytes]


@probe
def quantize_array(notebook: Notebook, *, weights: np.ndarray, axis: int) -> Quantized:
    """Call quantize_weights; the result is `codes`, `scales`, and `kept`: whether the array is as it was."""
    given = weights.copy()
    codes_found, scales_found = notebook[QUANTIZE](given, axis)
    kept = np.array_equal(given, weights)
    return {"codes": np.asarray(codes_found), "scales": np.asarray(scales_found), "kept": kept}


@probe
def pair_nodes(notebook: Notebook, *, name: str, scale: np.ndarray, axis: int | None) -> Nodes:
    """Call make_pair, without an axis where it is None; the result is `nodes` and `stored`, each a list of bytes."""
    given = float(scale) if scale.ndim == 0 else scale
    nodes, stored = notebook[PAIR](name, given) if axis is None else notebook[PAIR](name, given, axis)
    return {"nodes": [node.SerializeToString() for node in nodes], "stored": [t.SerializeToString() for t in stored]}


def _weights(case: Case) -> list[tuple[np.ndarray, int]]:
    """Return arrays whose channels differ in size, one channel of each of zeros, and the axes of their channels."""
    random, found = case.random("qdq.weights"), []
    for shape, axis in _LAYOUTS:
        sizes = random.uniform(0.01, 3, shape[axis])
        sizes[_DEAD] = 0
        along = sizes.reshape([-1 if one == axis else 1 for one in range(len(shape))])
        found.append(((random.standard_normal(shape) * along).astype(np.float32), axis))
    return found


def _largest(weights: np.ndarray, axis: int) -> np.ndarray:
    return np.abs(np.moveaxis(weights, axis, 0)).reshape(weights.shape[axis], -1).max(axis=1)


def _asked(case: Case) -> list[tuple[np.ndarray, int, Quantized]]:
    found = []
    for weights, axis in _weights(case):
        answer = case.call(quantize_array, weights=weights, axis=axis).require(QUANTIZE)
        for what in ("codes", "scales"):
            if answer[what].dtype.kind not in "iuf":
                raise Missed(f"{what} that are numbers", f"{answer[what].dtype}", "compute with NumPy's arrays")
        found.append((weights, axis, answer))
    return found


@point("Each output channel has a scale of its own: its largest magnitude over 127")
def scales(case: Case) -> str:
    for weights, axis, found in _asked(case):
        largest, what = _largest(weights, axis), f"weights {list(weights.shape)}, axis {axis}"
        got = found["scales"]
        if got.shape != largest.shape or got.dtype != np.float32:
            expected = f"{len(largest)} scales of float32 for {what}"
            raise Missed(expected, f"{got.dtype} {list(got.shape)}", "one number a channel; reduce over the other axes")
        live = largest > 0
        if not np.allclose(got[live], largest[live] / 127, rtol=1e-5, atol=0):
            number = int(np.abs(got[live] / (largest[live] / 127) - 1).argmax())
            expected = f"a scale of {largest[live][number] / 127:.6f} where the largest magnitude is the 127-fold"
            raise Missed(expected, f"{got[live][number]:.6f} ({what})", "INT8's codes from -127 to 127 are used")
    return f"{len(_LAYOUTS)} arrays, each scale within 0.001 %"


@point("A code is the value over its channel's scale, rounded to the nearest")
def codes(case: Case) -> str:
    for weights, axis, found in _asked(case):
        got, what = found["codes"], f"weights {list(weights.shape)}, axis {axis}"
        if got.shape != weights.shape or got.dtype != np.int8:
            advice = "the codes have the weights' shape, and NumPy's type int8"
            raise Missed(f"int8 {list(weights.shape)}", f"{got.dtype} {list(got.shape)}", advice)
        largest = _largest(weights, axis)
        scale = np.where(largest > 0, largest / 127, 1)
        exact = weights / scale.reshape([-1 if one == axis else 1 for one in range(weights.ndim)])
        off = np.abs(got - exact).max()
        if not off <= 0.5 + 1e-3:
            raise Missed(f"codes within half a step of the value ({what})", f"one is {off:.2f} off", "np.rint rounds")
    return f"{len(_LAYOUTS)} arrays, all codes within half a step"


@point("A channel of zeros divides by nothing, and the array that is given stays as it is")
def silent(case: Case) -> str:
    for weights, axis, found in _asked(case):
        dead = np.moveaxis(found["codes"], axis, 0)[_DEAD] if found["codes"].shape == weights.shape else np.ones(1)
        scale = found["scales"].ravel()[_DEAD] if found["scales"].size > _DEAD else np.nan
        if not (np.isfinite(scale) and scale > 0) or dead.any():
            said = f"scale {scale:g}, codes {np.unique(dead)[:3].tolist()}"
            raise Missed("codes of 0 and a scale above 0 for a channel of zeros", said, "a scale of 1 will do there")
        if not found["kept"]:
            raise Missed("the array as it was", "its values have changed", "compute new arrays")
    return "a scale above 0 and codes of 0"


@point("A pair rounds a tensor to INT8 and back, with one scale or with one a channel")
def pair(case: Case) -> str:
    random = case.random("qdq.pair")
    name = f"{_TENSOR}/{random.integers(1000)}"
    single = np.float32(random.uniform(0.01, 0.02))
    _judge_pair(case, name, np.asarray(single), None, random)
    for axis in (0, 2):
        _judge_pair(case, name, random.uniform(0.01, 0.02, 5).astype(np.float32), axis, random)
    return "per tensor, and per channel along axes 0 and 2"


def _judge_pair(case: Case, name: str, scale: np.ndarray, axis: int | None, random: np.random.Generator) -> None:
    what = "with one scale" if axis is None else f"with a scale a channel, axis {axis}"
    answer = case.call(pair_nodes, name=name, scale=scale, axis=axis).require(PAIR)
    nodes, stored = _parts(answer, what)
    kinds, names = [kind for kind, _, _ in nodes], [name for _, name, _ in nodes]
    if kinds != ["QuantizeLinear", "DequantizeLinear"]:
        raise Missed(f"QuantizeLinear, then DequantizeLinear, {what}", ", ".join(kinds) or "no node", "two nodes")
    if len({*filter(None, names)}) != len(names):
        raise Missed("two nodes with names of their own", f"{names}", "builders and inspectors call layers by them")
    _types(nodes, stored, what)
    values = (random.standard_normal((5, 4, 5)) * 1.2).astype(np.float32)
    along = scale if axis is None else scale.reshape([-1 if one == axis else 1 for one in range(3)])
    expected = np.clip(np.rint(values / along), -128, 127) * along
    off = np.abs(_run(answer, name, values, what) - expected) / along
    if not off.max() <= 1 + 1e-3 or (off > 1e-3).mean() > 0.02:  # a value on the edge of two steps may take either
        found = f"{(off > 1e-3).mean():.0%} of the values are others, by up to {off.max():.3g} steps"
        raise Missed(
            f"values rounded to the nearest of 256 steps {what}", found, "both nodes have scale, zero and axis"
        )


def _parts(answer: Nodes, what: str) -> list[Any]:
    """Return what `_read` does; raise Missed where these are no nodes and tensors."""
    try:
        return _read(answer["nodes"], answer["stored"])
    except Exception as error:  # protobuf's errors have classes of their own
        raise Missed(f"NodeProtos and TensorProtos, {what}", str(error)[:140], "see the task") from error


@loads
def _read(nodes: list[bytes], stored: list[bytes]) -> list[Any]:
    """Return each node's operator, name and inputs, and the stored tensors by name."""
    read = [onnx.NodeProto.FromString(content) for content in nodes]
    tensors = [onnx.TensorProto.FromString(content) for content in stored]
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in tensors}
    return [[[node.op_type, node.name, list(node.input)] for node in read], values]


def _types(nodes: list[Any], found: dict[str, np.ndarray], what: str) -> None:
    """Raise Missed where a scale is not float32, or a zero point is not an int8 of 0: TensorRT takes no other."""
    for kind, _, inputs in nodes:
        if len(inputs) < 3 or inputs[2] not in found:
            advice = "without a zero point QuantizeLinear makes uint8; store one with the scale"
            raise Missed(f"{kind} with a stored zero point, {what}", "none", advice)
        scale, zero = found.get(inputs[1], np.zeros(0)), found[inputs[2]]
        if scale.dtype != np.float32 or zero.dtype != np.int8 or zero.any() or zero.shape != scale.shape:
            said = f"scale {scale.dtype} {list(scale.shape)}, zero point {zero.dtype} {list(zero.shape)}"
            expected = "a scale of float32, and zero points of 0, int8, of the scale's shape"
            found_so = said if not zero.any() else f"a zero point of {zero.max()}"
            raise Missed(expected, f"{found_so} ({what})", "TensorRT takes symmetric INT8 alone")


def _run(answer: Nodes, name: str, values: np.ndarray, what: str) -> np.ndarray:
    """Return what ONNX Runtime makes of values by the two nodes; raise Missed where it can't."""
    try:
        return _outputs(answer["nodes"], answer["stored"], name, values)
    except Exception as error:  # the checker's and the runtime's errors have classes of their own
        said = (str(error).strip().splitlines() or [type(error).__name__])[0][:140]
        raise Missed(f"two nodes that read {name}, {what}, and run", said, "compare with ONNX's operators") from error


@loads
def _outputs(nodes: list[bytes], stored: list[bytes], name: str, values: np.ndarray) -> np.ndarray:
    read = [onnx.NodeProto.FromString(content) for content in nodes]
    tensors = [onnx.TensorProto.FromString(content) for content in stored]
    end, shape = read[-1].output[0], list(values.shape)
    ends = [helper.make_tensor_value_info(each, TensorProto.FLOAT, shape) for each in (name, end)]
    graph = helper.make_graph(read, "pair", ends[:1], ends[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
    onnx.checker.check_model(model)
    return onnx_session(model.SerializeToString()).run([end], {name: values})[0]
