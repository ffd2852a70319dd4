"""Tiny ONNX networks for the conformance suite, made with onnx.helper at opset 17, which TensorRT 8.6 still parses."""

import functools
from collections.abc import Container, Iterable

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def _random(*shape: int, seed: int, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def _conv(name: str, src: str, dest: str, channels: tuple[int, int], seed: int, size: int = 3) -> tuple[list, list]:
    """Return node and initializers of a convolution that keeps height and width; `channels` is (in, out)."""
    fan_in = channels[0] * size * size
    weight = _random(channels[1], channels[0], size, size, seed=seed, scale=(2 / fan_in) ** 0.5)
    bias = _random(channels[1], seed=seed + 1000, scale=0.1)
    inputs, kernel = [src, f"{name}.w", f"{name}.b"], {"kernel_shape": [size, size], "pads": [size // 2] * 4}
    node = helper.make_node("Conv", inputs, [dest], name=name, **kernel)
    return [node], [numpy_helper.from_array(weight, f"{name}.w"), numpy_helper.from_array(bias, f"{name}.b")]


def _node(operator: str, sources: list[str], dest: str, name: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(operator, sources, [dest], name=name, **attributes)


def _model(nodes: list, inputs: dict, outputs: dict, weights: list, dtype: int = FLOAT, opset: int = 17) -> bytes:
    """Serialize a checked model; `inputs` and `outputs` map names to shapes, a string being a dynamic dimension."""
    graph = helper.make_graph(
        nodes,
        "conformance",
        [helper.make_tensor_value_info(name, dtype, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, dtype, shape) for name, shape in outputs.items()],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


@functools.cache
def conv_relu(batch: int | str = "N") -> bytes:
    """x [N,3,8,8] → conv1, relu1 → y [N,8,8,8]."""
    nodes, weights = _conv("conv1", "x", "c", (3, 8), seed=1)
    nodes.append(_node("Relu", ["c"], "y", "relu1"))
    return _model(nodes, {"x": [batch, 3, 8, 8]}, {"y": [batch, 8, 8, 8]}, weights)


@functools.cache
def residual(batch: int | str = "N") -> bytes:
    """x [N,3,16,16] → stem, a residual block, pooling and a classifier → y [N,10], batch normalisation folded."""
    parts = [
        _conv("stem", "x", "s0", (3, 16), seed=2),
        ([_node("Relu", ["s0"], "s", "stem_relu")], []),
        _conv("a", "s", "a0", (16, 16), seed=3),
        ([_node("Relu", ["a0"], "a1", "a_relu")], []),
        _conv("b", "a1", "b0", (16, 16), seed=4),
        ([_node("Add", ["b0", "s"], "r0", "add"), _node("Relu", ["r0"], "r", "add_relu")], []),
        ([_node("GlobalAveragePool", ["r"], "p", "pool"), _node("Flatten", ["p"], "f", "flatten")], []),
        ([_node("Gemm", ["f", "fc.w", "fc.b"], "y", "fc", transB=1)], _fc_weights()),
    ]
    nodes = [node for part in parts for node in part[0]]
    weights = [weight for part in parts for weight in part[1]]
    return _model(nodes, {"x": [batch, 3, 16, 16]}, {"y": [batch, 10]}, weights)


def _fc_weights() -> list[TensorProto]:
    return [
        numpy_helper.from_array(_random(10, 16, seed=5, scale=0.5), "fc.w"),
        numpy_helper.from_array(_random(10, seed=6, scale=0.1), "fc.b"),
    ]


@functools.cache
def gemm(batch: int | str = "N") -> bytes:
    """x [N,32] → y [N,16]."""
    weights = [
        numpy_helper.from_array(_random(16, 32, seed=7, scale=0.2), "fc.w"),
        numpy_helper.from_array(_random(16, seed=8), "fc.b"),
    ]
    nodes = [_node("Gemm", ["x", "fc.w", "fc.b"], "y", "fc", transB=1)]
    return _model(nodes, {"x": [batch, 32]}, {"y": [batch, 16]}, weights)


@functools.cache
def fp16_gemm() -> bytes:
    """x [4,32] → y [4,16], all in FP16: what a strongly typed network takes its types from."""
    weights = [
        numpy_helper.from_array(_random(16, 32, seed=7, scale=0.2).astype(np.float16), "fc.w"),
        numpy_helper.from_array(_random(16, seed=8).astype(np.float16), "fc.b"),
    ]
    nodes = [_node("Gemm", ["x", "fc.w", "fc.b"], "y", "fc", transB=1)]
    return _model(nodes, {"x": [4, 32]}, {"y": [4, 16]}, weights, TensorProto.FLOAT16)


@functools.cache
def mixed() -> bytes:
    """x [N,3,8,8] → conv1 → sigmoid1 → flatten → fc → softmax → y [N,10]: with layers that INT8 leaves alone."""
    nodes, weights = _conv("conv1", "x", "c", (3, 8), seed=9)
    nodes += [_node("Sigmoid", ["c"], "g", "sigmoid1"), _node("Flatten", ["g"], "f", "flatten")]
    nodes += [_node("MatMul", ["f", "fc.w"], "l", "fc"), _node("Softmax", ["l"], "y", "softmax", axis=-1)]
    weights.append(numpy_helper.from_array(_random(512, 10, seed=10, scale=0.1), "fc.w"))
    return _model(nodes, {"x": ["N", 3, 8, 8]}, {"y": ["N", 10]}, weights)


@functools.cache
def two_inputs() -> bytes:
    """a [N,4] and b [N,4] → y = a + 2·b [N,4]."""
    nodes = [_node("Mul", ["b", "two"], "d", "double"), _node("Add", ["a", "d"], "y", "sum")]
    weights = [numpy_helper.from_array(np.full((1, 1), 2, np.float32), "two")]
    return _model(nodes, {"a": ["N", 4], "b": ["N", 4]}, {"y": ["N", 4]}, weights)


@functools.cache
def overflowing() -> bytes:
    """x [2,16] → big (values near 1e6, beyond FP16's range) → small → y [2,16]: right only if `big` is not in FP16."""
    weights = [
        numpy_helper.from_array(np.eye(16, dtype=np.float32) * 2e3, "big.w"),
        numpy_helper.from_array(np.eye(16, dtype=np.float32) * 1e-3, "small.w"),
    ]
    nodes = [_node("MatMul", ["x", "big.w"], "h", "big"), _node("MatMul", ["h", "small.w"], "y", "small")]
    return _model(nodes, {"x": [2, 16]}, {"y": [2, 16]}, weights)


@functools.cache
def wide_channels() -> bytes:
    """x [N,3,8,8] → conv1, relu1 → y [N,8,8,8], the channels' weights ranging over four orders of magnitude."""
    model = onnx.load_from_string(conv_relu())
    scale = np.logspace(-2, 2, 8, dtype=np.float32)
    for index, weight in enumerate(model.graph.initializer):
        array = numpy_helper.to_array(weight)
        scaled = array * scale.reshape((8,) + (1,) * (array.ndim - 1))
        model.graph.initializer[index].CopyFrom(numpy_helper.from_array(scaled, weight.name))
    return model.SerializeToString()


@functools.cache
def heavy() -> bytes:
    """x [4,64,48,48] → four convolutions → y: long enough that work is still running when enqueue returns."""
    names = ["x", "h1", "h2", "h3", "y"]
    parts = [_conv(f"conv{i}", names[i], names[i + 1], (64, 64), seed=i) for i in range(4)]
    nodes = [node for part in parts for node in part[0]]
    return _model(nodes, {"x": [4, 64, 48, 48]}, {"y": [4, 64, 48, 48]}, [w for part in parts for w in part[1]])


def _pair(name: str, tensor: str, scale: float) -> tuple[list, list]:
    """Return QuantizeLinear and DequantizeLinear around `tensor`, giving `tensor`_dq."""
    ends = [f"{name}.scale", f"{name}.zero"]
    nodes = [
        _node("QuantizeLinear", [tensor, *ends], f"{tensor}_q", f"{name}_q"),
        _node("DequantizeLinear", [f"{tensor}_q", *ends], f"{tensor}_dq", f"{name}_dq"),
    ]
    values = [np.array(scale, np.float32), np.array(0, np.int8)]
    return nodes, [numpy_helper.from_array(value, end) for value, end in zip(values, ends, strict=True)]


@functools.cache
def quantized() -> bytes:
    """x [N,3,8,8] → Q/DQ → conv1 with per-channel Q/DQ weights → relu1 → Q/DQ → conv2 likewise → y [N,8,8,8]."""
    nodes, weights = [], []
    for name, src, dest, channels, scale in (("conv1", "x", "c", (3, 8), 0.03), ("conv2", "r", "y", (8, 8), 0.03)):
        pair, ends = _pair(f"{name}_in", src, scale)
        conv, (weight, bias) = _conv(name, f"{src}_dq", dest, channels, seed=len(name) + channels[0])
        array = numpy_helper.to_array(weight)
        per_channel = (np.abs(array).reshape(8, -1).max(axis=1) / 127).astype(np.float32)
        wq, (scales, zeros) = _pair(f"{name}_w", weight.name, 1.0)
        wends = [numpy_helper.from_array(per_channel, scales.name)]
        wends.append(numpy_helper.from_array(np.zeros(8, np.int8), zeros.name))
        for node in wq:
            node.attribute.append(helper.make_attribute("axis", 0))
        conv[0].input[1] = f"{weight.name}_dq"
        nodes += [*pair, *wq, *conv]
        weights += [*ends, *wends, weight, bias]
        if dest == "c":
            nodes.append(_node("Relu", ["c"], "r", "relu1"))
    return _model(nodes, {"x": ["N", 3, 8, 8]}, {"y": ["N", 8, 8, 8]}, weights)


@functools.cache
def quantized_bias() -> bytes:
    """`quantized`, the first layer's bias in 32 bits behind a DequantizeLinear: NVIDIA's parser takes none of them."""
    model = onnx.load_from_string(quantized())
    graph = model.graph
    bias = next(weight for weight in graph.initializer if weight.name == "conv1.b")
    codes, scale = np.rint(numpy_helper.to_array(bias) / 1e-4).astype(np.int32), np.array(1e-4, np.float32)
    stored = {"conv1.b_q": codes, "conv1.b_scale": scale, "conv1.b_zero": np.array(0, np.int32)}
    graph.initializer.remove(bias)
    graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in stored.items())
    graph.node.insert(0, _node("DequantizeLinear", list(stored), "conv1.b", "conv1_b_dq"))
    onnx.checker.check_model(model)
    return model.SerializeToString()


def cast(model: bytes, kind: int, float_layers: Container[str] = (), opset: int = 17) -> bytes:
    """Return a float model whose layers run in `kind` (TensorProto.FLOAT16, BFLOAT16), its ends kept in FP32.

    The `float_layers` keep FP32, between casts of their own. Scales may be of FP16 from opset 19 on.
    """
    graph = onnx.load_from_string(model).graph
    weights = {weight.name: weight for weight in graph.initializer}
    nodes = [_node("Cast", [value.name], f"{value.name}_low", f"{value.name}_cast", to=kind) for value in graph.input]
    for node in graph.node:
        low, keeps = f"{node.output[0]}_low", node.name in float_layers
        for index, name in enumerate(node.input):
            if name in weights and not keeps and weights[name].data_type == FLOAT:
                weights[name] = _as(weights[name], kind)
            elif name not in weights:
                node.input[index] = f"{name}_low"
                if keeps:
                    nodes.append(_node("Cast", [f"{name}_low"], f"{name}_for_{node.name}", f"{node.name}_up", to=FLOAT))
                    node.input[index] = nodes[-1].output[0]
        node.output[0] = f"{low}_f" if keeps else low
        nodes += [node, *([_node("Cast", [f"{low}_f"], low, f"{node.name}_down", to=kind)] if keeps else [])]
    for value in graph.output:
        nodes.append(_node("Cast", [f"{value.name}_low"], value.name, f"{value.name}_cast", to=FLOAT))
    return _model(nodes, _shapes(graph.input), _shapes(graph.output), list(weights.values()), opset=opset)


def _as(weight: TensorProto, kind: int) -> TensorProto:
    return helper.make_tensor(weight.name, kind, weight.dims, numpy_helper.to_array(weight).ravel())


def _shapes(values: Iterable[onnx.ValueInfoProto]) -> dict[str, list]:
    return {value.name: [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim] for value in values}


@functools.cache
def unsupported_operator() -> bytes:
    """A network with an operator of a domain that no engine knows."""
    node = helper.make_node("Frobnicate", ["x"], ["y"], name="odd", domain="com.example")
    value = [helper.make_tensor_value_info(name, FLOAT, [1, 4]) for name in ("x", "y")]
    graph = helper.make_graph([node], "odd", value[:1], value[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def external_data(folder: str) -> str:
    """Save `gemm` with its weights in a file of their own in `folder`; return the model's path."""
    path = f"{folder}/model.onnx"
    onnx.save_model(
        onnx.load_from_string(gemm(4)), path, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    return path


def intermediate(model: bytes, tensor: str, **feeds: np.ndarray) -> np.ndarray:
    """Return a tensor between layers by ONNX Runtime."""
    graph = onnx.load_from_string(model)
    graph.graph.output.insert(0, helper.make_tensor_value_info(tensor, FLOAT, None))
    return reference(graph.SerializeToString(), **feeds)


def reference(model: bytes, **feeds: np.ndarray) -> np.ndarray:
    """Return the first output by ONNX Runtime: the oracle of both engines."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0]
