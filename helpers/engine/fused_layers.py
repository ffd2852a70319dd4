"""What an engine's fused layers are made of: the nodes of the ONNX graph, and the shapes of what they read and write.

graph = LayerGraph.load("model.onnx", {"input": (8, 3, 224, 224)})
layer = graph.layer(onnx_names({"Name": "/conv1/Conv + /relu/Relu"}))
layer.nodes[0].op, layer.nodes[0].inputs, layer.written         # "Conv", shapes, shapes
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trtcpu.errors import InputError

Shape = tuple[int, ...]

_COPY = "Reformatting CopyNode"


@dataclass(frozen=True)
class Node:
    """One node: its operator, the shapes of its inputs (activation, weight, bias of a convolution) and of its output.

    `kernel` is the shape of a pooling's window, (height, width); `transposed` says that a Gemm takes its first input
    transposed.
    """

    op: str
    inputs: tuple[Shape, ...]
    output: Shape
    kernel: Shape = ()
    transposed: bool = False


@dataclass(frozen=True)
class FusedLayer:
    """Nodes that run as one layer. `read` and `written` are the shapes of the activations that it takes from memory and
    leaves there, each once; what one of its nodes hands to the next stays inside. `weights` are read too."""

    nodes: tuple[Node, ...]
    read: tuple[Shape, ...]
    weights: tuple[Shape, ...]
    written: tuple[Shape, ...]


@dataclass
class LayerGraph:
    """The ONNX graph by node name; `shapes` lacks those that only a run can know."""

    nodes: dict[str, Node] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)
    weights: set[str] = field(default_factory=set)
    reads: dict[str, list[str]] = field(default_factory=dict)
    writes: dict[str, list[str]] = field(default_factory=dict)
    outputs: set[str] = field(default_factory=set)

    @classmethod
    def load(cls, onnx_path: str | Path, shapes: Mapping[str, Sequence[int]]) -> "LayerGraph":
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
    def _indexed(cls, graph: Any) -> "LayerGraph":
        found = cls(outputs={value.name for value in graph.output})
        for value in (*graph.input, *graph.value_info, *graph.output):
            kind = value.type.tensor_type
            if kind.HasField("shape") and all(dim.HasField("dim_value") for dim in kind.shape.dim):
                found.shapes[value.name] = tuple(dim.dim_value for dim in kind.shape.dim)
        for weight in graph.initializer:
            found.shapes[weight.name] = tuple(weight.dims)
            found.weights.add(weight.name)
        for index, node in enumerate(graph.node):
            name = node.name or f"{node.op_type}_{index}"
            found.reads[name], found.writes[name] = list(filter(None, node.input)), list(filter(None, node.output))
            found.nodes[name] = found._node(node)
        return found

    def _node(self, node: Any) -> Node:
        return Node(
            op=node.op_type,
            inputs=tuple(self.shapes.get(tensor, (0,)) for tensor in node.input),
            output=self.shapes.get(node.output[0], (0,)),
            kernel=next((tuple(a.ints) for a in node.attribute if a.name == "kernel_shape"), ()),
            transposed=any(a.name == "transA" and a.i for a in node.attribute),
        )

    def layer(self, names: Sequence[str]) -> FusedLayer | None:
        """Return the layer that fuses the nodes called `names`; None if none is in the graph, or a shape is unknown."""
        known = [name for name in dict.fromkeys(names) if name in self.nodes]
        made = [tensor for name in known for tensor in self.writes[name]]
        taken = dict.fromkeys(tensor for name in known for tensor in self.reads[name] if tensor not in made)
        if not known or not self.shapes.keys() >= {*made, *taken}:
            return None
        elsewhere = {tensor for name, read in self.reads.items() if name not in known for tensor in read}
        return FusedLayer(
            nodes=tuple(self.nodes[name] for name in known),
            read=self._shapes(tensor for tensor in taken if tensor not in self.weights),
            weights=self._shapes(tensor for tensor in taken if tensor in self.weights),
            written=self._shapes(tensor for tensor in made if tensor in self.outputs or tensor in elsewhere),
        )

    def _shapes(self, tensors: Any) -> tuple[Shape, ...]:
        return tuple(self.shapes[tensor] for tensor in tensors)


def onnx_names(layer: dict[str, Any]) -> list[str]:
    """Return the ONNX nodes that an inspector's layer fuses: from its Metadata, else from its name.

    TensorRT names a copy between two layouts after the layer that it feeds; the copy itself is none of those nodes.
    """
    metadata, name = str(layer.get("Metadata") or ""), str(layer.get("Name", ""))
    listed = [part.partition("[ONNX Layer: ")[2].rstrip("]") for part in metadata.split("\x1e")]
    if name.startswith(_COPY):
        return []
    return [node for node in listed if node] or [part.strip() for part in name.split(" + ")]
