"""Small ONNX networks for the calibration tests, run by ONNX Runtime."""

from collections.abc import Callable, Sequence

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

Feeds = dict[str, np.ndarray]


def graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Sequence[int | str]],
    outputs: Sequence[str],
    constants: dict[str, np.ndarray] | None = None,
) -> onnx.ModelProto:
    """Return a model of float inputs with these shapes (a name is a dynamic dimension)."""
    return helper.make_model(
        helper.make_graph(
            nodes,
            "network",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )


def classifier(batch: int | str = "batch") -> onnx.ModelProto:
    """Return convolution, ReLU, max pool, flatten and Gemm over [batch, 3, 8, 8]; five classes."""
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "b": rng.standard_normal(4).astype(np.float32),
        "fw": rng.standard_normal((5, 64)).astype(np.float32),
        "fb": rng.standard_normal(5).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["conv"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv"], ["relu"]),
        helper.make_node("MaxPool", ["relu"], ["pool"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["pool"], ["flat"]),
        helper.make_node("Gemm", ["flat", "fw", "fb"], ["y"], transB=1),
    ]
    return graph(nodes, {"x": [batch, 3, 8, 8]}, ["y"], constants)


def reshaping() -> onnx.ModelProto:
    """Return a network whose inner tensor [batch · 8, 8] does not have the batch as its first dimension."""
    nodes = [
        helper.make_node("Reshape", ["x", "rows"], ["r"]),
        helper.make_node("Softmax", ["r"], ["s"], axis=0),
        helper.make_node("Reshape", ["s", "back"], ["y"]),
    ]
    constants = {"rows": np.array([-1, 8]), "back": np.array([-1, 3, 8, 8])}
    return graph(nodes, {"x": ["batch", 3, 8, 8]}, ["y"], constants)


def runner(model: onnx.ModelProto, observed: Sequence[str], batches: list[int]) -> Callable[[Feeds], Feeds]:
    """Return a function that computes the `observed` tensors; it appends each batch's size to `batches`."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    probe.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in observed)
    session = onnxruntime.InferenceSession(probe.SerializeToString(), providers=["CPUExecutionProvider"])

    def run(feeds: Feeds) -> Feeds:
        batches.append(len(next(iter(feeds.values()))))
        return dict(zip(observed, session.run(list(observed), feeds), strict=True))

    return run
