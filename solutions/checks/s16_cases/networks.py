"""The parts of cases: pictures, and networks of three or four convolutions whose ten scores differ by picture."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from helpers.tools.outputs import onnx_outputs
from helpers.toys.casefiles import EDGE, pictures, prepared

Material = dict[str, Any]
"""The fields of a CaseFile, by name; `pictures` as {"seed", "number"}."""

CLASSES = 10
_KEPT = 4  # directions in which the pooled features differ most; the others are little more than rounding
_STYLES = ("conv{}", "stage{}.conv", "backbone_{}", "features.{}.block")


def camera(random: np.random.Generator, number: int) -> dict[str, int]:
    """Return which pictures a case has, in the material's form."""
    return {"seed": int(random.integers(2**31)), "number": number}


def case_network(random: np.random.Generator) -> bytes:
    """Return a serialized ONNX classifier of pictures: three or four convolutions, with drawn weights and names.

    Its last layer is fitted to the features of many pictures, so each class is the best for some pictures.
    """
    depth = int(random.integers(3, 5))
    widths = [int(random.choice((8, 12))) for _ in range(depth - 1)] + [16]
    style = str(random.choice(_STYLES))
    nodes, weights = _features(random, [style.format(index) for index in range(depth)], widths)
    seen = prepared(pictures(**camera(random, 256)))
    weights += _classifier(random, onnx_outputs(_model(nodes, weights, "flat", widths[-1]), seen))
    nodes.append(helper.make_node("Gemm", ["flat", "fc.w", "fc.b"], ["output"], name="fc"))
    return _model(nodes, weights, "output", CLASSES)


def convolutions(model: bytes) -> list[str]:
    """Return the names of a model's convolutions, in order."""
    return [node.name for node in onnx.load_from_string(model).graph.node if node.op_type == "Conv"]


def _features(
    random: np.random.Generator, names: list[str], widths: list[int]
) -> tuple[list[onnx.NodeProto], list[TensorProto]]:
    nodes, weights, last, inputs = [], [], "input", 3
    for index, (name, outputs) in enumerate(zip(names, widths, strict=True)):
        shape, stride = (outputs, inputs, 3, 3), 2 if index < 2 else 1
        weights.append(_tensor(f"{name}.w", random.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)))
        weights.append(_tensor(f"{name}.b", random.normal(0, 0.2, outputs)))
        how = {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [stride] * 2}
        nodes.append(helper.make_node("Conv", [last, f"{name}.w", f"{name}.b"], [f"{name}_out"], name=name, **how))
        last, inputs = f"{name}_relu_out", outputs
        nodes.append(helper.make_node("Relu", [f"{name}_out"], [last], name=f"{name}_relu"))
    nodes.append(helper.make_node("GlobalAveragePool", [last], ["pooled"], name="pool"))
    return [*nodes, helper.make_node("Flatten", ["pooled"], ["flat"], name="flatten", axis=1)], weights


def _classifier(random: np.random.Generator, features: np.ndarray) -> list[TensorProto]:
    """Return weight and bias that give each class scores with mean 0 and spread 2 over `features` [N, width]."""
    middle = features.mean(axis=0)
    _, strength, directions = np.linalg.svd(features - middle, full_matrices=False)
    spread = directions[:_KEPT].T / (strength[:_KEPT] / np.sqrt(len(features)))
    turned = spread @ random.normal(0, 1, (_KEPT, CLASSES))
    turned *= 2 / ((features - middle) @ turned).std(axis=0)
    return [_tensor("fc.w", turned), _tensor("fc.b", -middle @ turned)]


def _model(nodes: list[onnx.NodeProto], weights: list[TensorProto], output: str, size: int) -> bytes:
    shapes = {"input": ["batch", 3, EDGE, EDGE], output: ["batch", size]}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    graph = helper.make_graph(nodes, "case", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def _tensor(name: str, values: np.ndarray) -> TensorProto:
    return numpy_helper.from_array(np.ascontiguousarray(values, dtype=np.float32), name)
