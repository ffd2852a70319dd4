"""Arithmetic and memory traffic of an engine's fused layers, counted on the ONNX graph that they were fused from."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers.errors import InputError

__all__ = ["GraphCosts", "LayerCost", "inspector_cost", "onnx_names"]

_FREE = {"Flatten", "Reshape", "Identity", "Constant", "Shape", "Squeeze", "Unsqueeze", "Dropout", "Cast"} | {
    "QuantizeLinear", "DequantizeLinear", "Transpose", "Concat", "Slice", "Gather", "Pad",
}  # fmt: skip


@dataclass(frozen=True)
class LayerCost:
    """FLOPs (a multiply-add is two) and elements moved once: activations read and written, and weights read."""

    flops: float
    activations: float
    weights: float

    def moved_bytes(self, item_bytes: int) -> float:
        """Return the bytes moved when every element has `item_bytes`; caches are not counted."""
        return (self.activations + self.weights) * item_bytes


@dataclass
class GraphCosts:
    """The ONNX graph by node name, with every shape known at one batch size."""

    nodes: dict[str, Any] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    weights: set[str] = field(default_factory=set)
    readers: dict[str, set[str]] = field(default_factory=dict)
    outputs: set[str] = field(default_factory=set)

    @classmethod
    def load(cls, onnx_path: str | Path, shapes: Mapping[str, Sequence[int]]) -> "GraphCosts":
        """Read the graph and infer its shapes from those of its inputs.

        Raises:
            InputError: the file is missing or is no ONNX model.
        """
        import onnx

        try:
            model = onnx.load(str(onnx_path))
            for value in model.graph.input:
                for dim, size in zip(value.type.tensor_type.shape.dim, shapes.get(value.name, ()), strict=False):
                    dim.dim_value = size
            for value in (*model.graph.output, *model.graph.value_info):
                value.type.tensor_type.ClearField("shape")
            graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        except Exception as error:  # protobuf, OSError and onnx's own; all mean that there is no usable graph
            raise InputError(f"cannot read the ONNX file {onnx_path}: {error}") from error
        return cls._indexed(graph)

    @classmethod
    def _indexed(cls, graph: Any) -> "GraphCosts":
        costs = cls(outputs={value.name for value in graph.output})
        for value in (*graph.input, *graph.value_info, *graph.output):
            costs.shapes[value.name] = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for weight in graph.initializer:
            costs.shapes[weight.name] = tuple(weight.dims)
            costs.weights.add(weight.name)
        for index, node in enumerate(graph.node):
            name = node.name or f"{node.op_type}_{index}"
            costs.nodes[name] = node
            for tensor in node.input:
                costs.readers.setdefault(tensor, set()).add(name)
        return costs

    def cost(self, names: Sequence[str]) -> LayerCost | None:
        """Return the cost of the layer that fuses the nodes called `names`; None if none of them is in the graph."""
        known = {name: self.nodes[name] for name in names if name in self.nodes}
        if not known:
            return None
        made = {tensor for node in known.values() for tensor in node.output}
        read = {tensor for node in known.values() for tensor in node.input if tensor} - made
        written = {tensor for tensor in made if tensor in self.outputs or self.readers.get(tensor, set()) - set(known)}
        return LayerCost(
            flops=sum(self._flops(node) for node in known.values()),
            activations=sum(self._size(tensor) for tensor in (read - self.weights) | written),
            weights=sum(self._size(tensor) for tensor in read & self.weights),
        )

    def _size(self, tensor: str) -> int:
        return math.prod(self.shapes.get(tensor, (0,)))

    def _flops(self, node: Any) -> float:
        out, kind = self._size(node.output[0]), node.op_type
        if kind in _FREE:
            return 0
        if kind in ("Conv", "QLinearConv"):
            weight = self.shapes.get(node.input[1 if kind == "Conv" else 3], (1,))
            return 2 * out * math.prod(weight[1:])
        if kind in ("Gemm", "MatMul"):
            return 2 * out * self._inner(node)
        if kind in ("MaxPool", "AveragePool"):
            return out * math.prod(next((tuple(a.ints) for a in node.attribute if a.name == "kernel_shape"), (1,)))
        return max(out, self._size(node.input[0]) if kind.startswith("Global") and node.input else out)

    def _inner(self, node: Any) -> int:
        """Return the length of the dimension that a matrix product sums over."""
        shape = self.shapes.get(node.input[0], ())
        transposed = any(a.name == "transA" and a.i for a in node.attribute)
        return shape[0 if transposed else -1] if shape else 1


def onnx_names(layer: dict[str, Any]) -> list[str]:
    """Return the ONNX nodes that an inspector's layer fuses: from its Metadata, else from its name."""
    metadata = str(layer.get("Metadata") or "")
    listed = [part.partition("[ONNX Layer: ")[2].rstrip("]") for part in metadata.split("\x1e")]
    return [name for name in listed if name] or [name.strip() for name in str(layer.get("Name", "")).split(" + ")]


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
    return LayerCost(2 * count * math.prod((sizes[-1][0], *sizes[-1][2:])), sum(map(math.prod, sizes)), count)
