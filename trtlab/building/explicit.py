"""Explicit INT8: a model with QuantizeLinear and DequantizeLinear nodes, which say where an engine computes in INT8.

TensorRT calls a pair of them Q/DQ. They replace calibrators and precision flags, which TensorRT 11 no longer has, and
work since TensorRT 8. Scales are a calibration's; zero points are 0; weights are quantised per output channel; biases
stay in float, since NVIDIA's parser refuses integers there.
"""

from collections.abc import Container, Mapping

import onnx

from trtcpu.builder.quantization import WEIGHTED, explicit, has_qdq
from trtcpu.errors import InputError


def explicit_int8(
    model: onnx.ModelProto, scales: Mapping[str, float], float_layers: Container[str] = (), *, stored: bool = False
) -> onnx.ModelProto:
    """Return a copy of `model` with Q/DQ where the implicit quantisation has them.

    In front of every convolution, matrix product and pooling, and on the skip branch of residual adds, so that
    convolution + add + ReLU are one INT8 kernel.

    Args:
        model: float ONNX with names for its nodes.
        scales: scale by tensor name, as a calibration cache has them; a layer whose input has none stays in float.
        float_layers: names of layers that stay in float.
        stored: store the weights as INT8 codes; False writes them as floats in front of Q and DQ. TensorRT 8.6 built
            the same layers from both.

    Raises:
        InputError: the model is quantised already, its opset cannot hold scales per channel, or no tensor has a scale.
    """
    return _quantized(model, scales, float_layers, fused=True, stored=stored)


def naive_int8(model: onnx.ModelProto, scales: Mapping[str, float], *, stored: bool = False) -> onnx.ModelProto:
    """Return a copy of `model` with Q/DQ at the input and the weights of every weighted layer, and nowhere else.

    That is what quantising layer by layer gives, as NVIDIA's toolkits for PyTorch and TensorFlow do by default: skip
    branches and pools stay in float, so that each residual add reads and writes floats. It is there to be measured
    against; arguments and errors as in `explicit_int8`.
    """
    return _quantized(model, scales, (), fused=False, stored=stored)


def quantised_layers(model: onnx.ModelProto) -> list[str]:
    """Return the names of the layers whose weights come through a DQ: those that are to run in INT8."""
    made = {name for node in model.graph.node if node.op_type == "DequantizeLinear" for name in node.output}
    return [node.name for node in model.graph.node if node.op_type in WEIGHTED and node.input[1] in made]


def _quantized(
    model: onnx.ModelProto, scales: Mapping[str, float], float_layers: Container[str], fused: bool, stored: bool
) -> onnx.ModelProto:
    if has_qdq(model):
        raise InputError("the model has Q/DQ nodes already; leave the calibration out, and its own scales are used")
    try:
        quantized, _ = explicit(model, scales, float_layers, fused=fused, stored=stored)
    except ValueError as error:
        raise InputError(f"the model cannot be quantised: {error}") from error
    if not has_qdq(quantized):
        raise InputError("no convolution or matrix product of the model has an input with a scale; calibrate again")
    return quantized
