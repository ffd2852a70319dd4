"""What an engine runs: its fused layers, their precision and kernels, and the memory of their activations."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from trtcpu._openvino import ExecutedNode
from trtcpu.api.types import volume
from trtcpu.api.version import API
from trtcpu.plan import Plan

_PRECISIONS = {"f32": "FP32", "f16": "FP16", "bf16": "BF16", "i8": "INT8", "u8": "INT8", "i32": "INT32", "i64": "INT64"}
_DATA_TYPES = {"FP32": "FP32", "FP16": "FP16", "BF16": "BF16", "INT8": "Int8", "INT32": "INT32", "INT64": "INT64"}
_WEIGHT_TYPES = {"FP16": "Half", "BF16": "BFloat16", "INT8": "Int8", "FP32": "Float"}
_ITEM_BYTES = {"f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i8": 1, "u8": 1, "i64": 8, "boolean": 1}
_NOT_LAYERS = ("Input", "Output", "Const")
_KINDS = {"Reorder": "Reformat", "FakeQuantize": "Quantize", "Eltwise": "ElementWise"}
_HELPERS = {
    "Reorder": "Reformatting CopyNode",
    "FakeQuantize": "Quantize",
    "Convert": "Convert",
    "Eltwise": "Dequantize",
}
_PRODUCTS = ("FullyConnected", "MatMul")
_SEPARATOR = "\x1e"


@dataclass
class Layer:
    """One fused layer: `node` is the executed node's name, `json` what the inspector shows in full."""

    name: str
    node: str
    json: dict[str, Any]


def layers_of(nodes: list[ExecutedNode], plan: Plan) -> list[Layer]:
    """Return the layers that run on data, in order; what only prepares constants is left out."""
    running = [i for i, node in enumerate(nodes) if node.from_input and node.kind not in _NOT_LAYERS]
    originals = {i: _onnx_layers(nodes[i], plan) for i in running}
    names = {i: " + ".join(found) for i, found in originals.items() if found}
    taken: Counter[str] = Counter()
    layers: list[Layer] = []
    for i in running:
        name = names.get(i) or _helper_name(i, nodes, names)
        taken[name] += 1
        name = name if taken[name] == 1 else f"{name} ({taken[name]})"
        layers.append(Layer(name, nodes[i].name, _described(name, nodes[i], nodes, originals[i], plan)))
    return layers


def _onnx_layers(node: ExecutedNode, plan: Plan) -> list[str]:
    """ONNX nodes that were fused into an executed node, in the model's order."""
    found: list[str] = []
    for original in node.originals:
        name = original.removesuffix("/WithoutBiases")
        layer = name if name in plan.operators else plan.layer_of.get(name)
        # OpenVINO keeps only the name of the addition when it makes one node of a product and its bias.
        product = plan.products.get(layer or "") if node.kind in _PRODUCTS else None
        found += [each for each in (product, layer) if each and each not in found]
    return found


def _helper_name(index: int, nodes: list[ExecutedNode], names: dict[int, str]) -> str:
    """Name a node that no ONNX node stands for by the layer that reads it, as TensorRT names its reformats."""
    what = _HELPERS.get(nodes[index].kind, nodes[index].kind)
    reader, seen = index, set()
    while reader not in names and reader not in seen:
        seen.add(reader)
        reader = next((i for i, node in enumerate(nodes) if reader in node.inputs), reader)
    if reader in names:
        return f"{what} for Input Tensor 0 to {names[reader]}"
    source = next((names[i] for i in nodes[index].inputs if i in names), "the network")
    return f"{what} for Output Tensor 0 of {source}"


def _described(
    name: str, node: ExecutedNode, nodes: list[ExecutedNode], originals: list[str], plan: Plan
) -> dict[str, Any]:
    # Of a selection OpenVINO names the type of the condition, eight bits, not of what is selected.
    selects = [plan.operators.get(layer) for layer in originals] == ["Where"]
    kind_of_value = node.output_types[0] if selects else node.precision
    stored = _PRECISIONS.get(kind_of_value, kind_of_value.upper())
    precision = "FP32" if node.primitive.endswith("_f32") else stored  # OpenVINO names what the weights are stored in
    kind = _KINDS.get(node.kind, node.kind)
    facts = {key: value for layer in originals for key, value in plan.attributes.get(layer, {}).items()}
    halves = precision == "FP32" and facts.get("Weights", {}).get("Type") in ("Half", "BFloat16")
    if "Weights" in facts and not halves:  # these are stored in half, and computed with in FP32
        facts["Weights"] = {**facts["Weights"], "Type": _WEIGHT_TYPES.get(stored, "Float")}
    asked = {layer: plan.asked[layer] for layer in originals if layer in plan.asked}
    described = {
        "Name": name,
        "LayerType": kind,
        "Inputs": [_tensor(nodes[i]) for i in node.inputs if nodes[i].from_input],
        "Outputs": [_tensor(node)],
        "ParameterType": kind,
        **facts,
        "Precision": precision,
        "TacticName": node.primitive,
        "TacticValue": "0x0000000000000000",
        "StreamId": 0,
        "Metadata": _SEPARATOR.join(f"[ONNX Layer: {layer}]" for layer in originals),
    }
    return {**described, "PrecisionConstraint": asked} if asked else described


def _tensor(node: ExecutedNode) -> dict[str, Any]:
    precision = _PRECISIONS.get(node.output_types[0], node.output_types[0].upper())
    shape = node.output_shapes[0] if node.output_shapes else []
    layout, kind = node.layouts.split(",")[0], _DATA_TYPES.get(precision, precision)
    return {
        "Name": node.name,
        "Location": "Host",
        "Dimensions": [low if low == high else -1 for low, high in shape],
        **({"Format": layout, "Datatype": kind} if API.io_tensors else {"Format/Datatype": f"{layout} {kind}"}),
    }


def activation_bytes(nodes: list[ExecutedNode]) -> int:
    """Return the peak bytes of activations at the largest shapes: the tensors alive at once, in order of execution."""
    last_use = {i: index for index, node in enumerate(nodes) for i in node.inputs}
    alive: dict[int, int] = {}
    peak = 0
    for index, node in enumerate(nodes):
        if node.from_input and node.kind != "Output":
            alive[index] = _bytes(node)
        peak = max(peak, sum(alive.values()))
        for done in [i for i in alive if last_use.get(i, index) <= index and i != index]:
            del alive[done]
    return peak


def _bytes(node: ExecutedNode) -> int:
    outputs = zip(node.output_shapes, node.output_types, strict=False)
    return sum(volume(max(high, 1) for _, high in shape) * _ITEM_BYTES.get(kind, 4) for shape, kind in outputs)
