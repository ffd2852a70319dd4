"""Nets and engines that the benchmarks measure."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from trtcpu import tensorrt as trt

_LOGGER = trt.Logger(trt.Logger.ERROR)


def small_net() -> bytes:
    """Five convolutions at 224×224 input: about a millisecond on two cores."""
    rng = np.random.RandomState(0)
    nodes, weights, source, channels = [], [], "input", 3
    for index, (width, stride) in enumerate([(16, 2), (32, 2), (32, 1), (64, 2), (64, 1)]):
        values = (rng.standard_normal((width, channels, 3, 3)) * 0.1).astype(np.float32)
        weights.append(numpy_helper.from_array(values, f"w{index}"))
        conv = helper.make_node(
            "Conv", [source, f"w{index}"], [f"c{index}"], f"conv{index}", strides=[stride] * 2, pads=[1] * 4
        )
        nodes += [conv, helper.make_node("Relu", [f"c{index}"], [f"r{index}"], f"relu{index}")]
        source, channels = f"r{index}", width
    nodes.append(helper.make_node("GlobalAveragePool", [source], ["output"], "pool"))
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["N", 3, 224, 224])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["N", 64, 1, 1])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def build_engine(model: bytes, shape: tuple[int, ...], *flags: trt.BuilderFlag) -> trt.ICudaEngine:
    """Build and load an engine with the builder's `flags`, best at `shape` and for batches up to 8."""
    builder = trt.Builder(_LOGGER)
    network = builder.create_network()
    if not trt.OnnxParser(network, _LOGGER).parse(model):
        raise RuntimeError("the benchmark's model did not parse")
    config, profile = builder.create_builder_config(), builder.create_optimization_profile()
    for flag in flags:
        config.set_flag(flag)
    profile.set_shape("input", shape, shape, (8, *shape[1:]))
    config.add_optimization_profile(profile)
    return load_engine(builder.build_serialized_network(network, config))


def load_engine(plan: bytes) -> trt.ICudaEngine:
    """Return the engine of a serialized plan."""
    return trt.Runtime(_LOGGER).deserialize_cuda_engine(plan)
