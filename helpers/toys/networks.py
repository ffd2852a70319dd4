"""Small classifiers with fresh random weights; input `input` [N, 3, 224, 224], output `output` [N, classes] by default.

They build in well under a second, so that a check can afford a network the student has never seen.
"""

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

EDGE = 224
_OPSET = 17
_IR_VERSION = 8
_LAYERS = ((16, 7, 4), (32, 3, 2), (32, 3, 1), (64, 3, 2))
"""(output channels, kernel, stride) of each convolution; a ReLU follows each."""
_WIDE = ((64, 7, 4), (512, 3, 2), (512, 3, 1), (512, 3, 2))
"""The same with 5 million weights: 20 MB in FP32, much more than the kernels in a plan."""


def tiny_onnx(
    seed: int,
    classes: int = 10,
    batch: int | str = "batch",
    image: tuple[int, int, int] = (3, EDGE, EDGE),
    names: tuple[str, str] = ("input", "output"),
    layers: tuple[tuple[int, int, int], ...] = _LAYERS,
) -> bytes:
    """Return a serialized ONNX classifier: four convolutions, global average pooling, one linear layer.

    Args:
        seed: decides the weights; they keep activations near one, so that half precision stays within 1 %.
        classes: outputs.
        batch: the batch axis: a name for a symbolic one, a number for a fixed one.
        image: channels, height and width of the input.
        names: of the input and the output.
        layers: output channels, kernel and stride of each convolution.
    """
    random = np.random.default_rng(seed)
    nodes, weights, last, inputs = [], [], names[0], image[0]
    for index, (outputs, kernel, stride) in enumerate(layers):
        scale = np.sqrt(2 / (inputs * kernel**2))
        weights.append(_tensor(f"w{index}", random.normal(0, scale, (outputs, inputs, kernel, kernel))))
        weights.append(_tensor(f"b{index}", random.normal(0, 0.1, outputs)))
        nodes.append(
            helper.make_node(
                "Conv",
                [last, f"w{index}", f"b{index}"],
                [f"conv{index}"],
                name=f"conv{index}",
                kernel_shape=[kernel] * 2,
                strides=[stride] * 2,
                pads=[kernel // 2] * 4,
            )
        )
        nodes.append(helper.make_node("Relu", [f"conv{index}"], [f"relu{index}"], name=f"relu{index}"))
        last, inputs = f"relu{index}", outputs
    nodes.append(helper.make_node("GlobalAveragePool", [last], ["pooled"], name="pool"))
    nodes.append(helper.make_node("Flatten", ["pooled"], ["flat"], name="flatten", axis=1))
    weights.append(_tensor("fc.w", random.normal(0, 4 / np.sqrt(inputs), (inputs, classes))))
    weights.append(_tensor("fc.b", random.normal(0, 0.1, classes)))
    nodes.append(helper.make_node("Gemm", ["flat", "fc.w", "fc.b"], [names[1]], name="fc"))
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(names[0], TensorProto.FLOAT, [batch, *image])],
        [helper.make_tensor_value_info(names[1], TensorProto.FLOAT, [batch, classes])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def wide_onnx(seed: int) -> bytes:
    """Return a `tiny_onnx` with 5 million weights, so that an engine's size tells their type."""
    return tiny_onnx(seed, layers=_WIDE)


def shuffled(model: bytes, seed: int) -> bytes:
    """Return a `tiny_onnx` file that answers otherwise: the weights in its middle in another order; the size stays."""
    return _with_middle(model, np.random.default_rng(seed).permutation)


def _with_middle(model: bytes, change: Callable[[np.ndarray], np.ndarray]) -> bytes:
    changed = onnx.load_from_string(model)
    layer = next(tensor for tensor in changed.graph.initializer if tensor.name == "w2")
    values = change(numpy_helper.to_array(layer).ravel().copy())
    layer.CopyFrom(_tensor("w2", values.reshape(tuple(layer.dims))))
    return changed.SerializeToString()


def _tensor(name: str, values: np.ndarray) -> TensorProto:
    return numpy_helper.from_array(np.ascontiguousarray(values, dtype=np.float32), name)
