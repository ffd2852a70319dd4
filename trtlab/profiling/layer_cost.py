"""Arithmetic and memory traffic of an engine's fused layers, counted on the ONNX graph that they were fused from."""

import math
from dataclasses import dataclass
from typing import Any

from helpers.engine.fused_layers import FusedLayer, Node

_FREE = {"Flatten", "Reshape", "Identity", "Constant", "Shape", "Squeeze", "Unsqueeze", "Dropout", "Cast"} | {
    "QuantizeLinear", "DequantizeLinear", "Transpose", "Concat", "Slice", "Gather", "Pad",
}  # fmt: skip


@dataclass(frozen=True)
class LayerCost:
    """FLOPs (a multiply-add is two), and elements moved: activations read and written and weights read, each once."""

    flops: float
    elements: float


def layer_cost(layer: FusedLayer) -> LayerCost:
    """Return what a fused layer computes and moves; caches are not counted."""
    moved = (*layer.read, *layer.weights, *layer.written)
    return LayerCost(sum(map(_flops, layer.nodes)), sum(map(math.prod, moved)))


def _flops(node: Node) -> float:
    out, kind = math.prod(node.output), node.op
    if kind in _FREE:
        return 0
    if kind in ("Conv", "QLinearConv"):
        return 2 * out * math.prod(node.inputs[1 if kind == "Conv" else 3][1:])
    if kind in ("Gemm", "MatMul"):
        return 2 * out * (node.inputs[0][0 if node.transposed else -1] if node.inputs[0] else 1)
    if kind in ("MaxPool", "AveragePool"):
        return out * math.prod(node.kernel)
    return max(out, math.prod(node.inputs[0]) if kind.startswith("Global") else out)


def inspector_cost(layer: dict[str, Any], batch: int) -> LayerCost | None:
    """Return the cost as the inspector's dimensions tell it, for engines whose ONNX is gone; convolutions only."""
    weights = layer.get("Weights") or layer.get("ConvWeights")
    outputs, inputs = layer.get("Outputs") or [], layer.get("Inputs") or []
    if not isinstance(weights, dict) or not outputs or "Pool" in str(layer.get("LayerType")):
        return None
    sizes = [[batch if size == -1 else size for size in tensor.get("Dimensions", [])] for tensor in (*inputs, *outputs)]
    if not all(sizes):
        return None
    count = int(weights.get("Count", 0))
    return LayerCost(2 * count * math.prod((sizes[-1][0], *sizes[-1][2:])), sum(map(math.prod, sizes)) + count)
