"""The engines that helpers build: in FP32, for checks whose tasks begin with one; by a record; with a calibrator."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from helpers.engine.backend import network_flags, trt

Batches = tuple[int, int, int]


@lru_cache(maxsize=8)
def probe_engine(onnx: bytes, *ranges: Batches) -> bytes:
    """Return a serialized FP32 engine of an ONNX model with one input.

    Args:
        onnx: the model. It must be one that the parser takes.
        ranges: min, opt and max of each profile's batch; none if the model's batch is fixed.

    Optimization level 0 takes the first kernel that works: a small network is built in seconds on a GPU too.
    """
    builder, network, config = _begun(onnx, ranges)
    return bytes(builder.build_serialized_network(network, config))


def recorded_engine(
    onnx: bytes, batches: Batches, flags: Sequence[str], ranges: Mapping[str, float], held: Mapping[str, str]
) -> bytes | None:
    """Return a serialized engine as the record of a build says; None where TensorRT cannot build it.

    Args:
        onnx: the model, with one input.
        batches: min, opt and max of the profile's batch.
        flags: names of builder flags, such as INT8.
        ranges: largest magnitude that INT8 keeps, by tensor; what calibration would find. It needs no calibrator.
        held: layers that were given a precision of their own, by name: "fp32", "fp16" or "int8".

    Where INT8 is allowed, convolutions that are not held prefer it: on so small a network, timing alone would decide
    by chance. The engine keeps detailed layer information, so that the inspector can tell the precisions.
    """
    builder, network, config = _begun(onnx, [batches])
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    for name in (*flags, "PREFER_PRECISION_CONSTRAINTS"):
        config.set_flag(getattr(trt.BuilderFlag, name))
    if "INT8" in flags:
        _give_ranges(network, ranges)
    _hold(network, held, "int8" if "INT8" in flags else None)
    plan = builder.build_serialized_network(network, config)
    return None if plan is None else bytes(plan)


def calibrate_with(calibrator: Any, onnx: bytes, batches: Batches) -> None:
    """Have TensorRT 10 calibrate an ONNX model with one input; the engine is of no use."""
    builder, network, config = _begun(onnx, [batches])
    config.set_flag(trt.BuilderFlag.INT8)
    config.int8_calibrator = calibrator
    builder.build_serialized_network(network, config)


def _begun(onnx: bytes, ranges: Sequence[Batches]) -> tuple[Any, Any, Any]:
    """Return builder, parsed network and configuration, with a profile for each of `ranges` and without TF32."""
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(network_flags())
    parser = trt.OnnxParser(network, logger)
    if not parser.parse(onnx):
        raise ValueError(f"no model for a probe: {parser.get_error(0)}")
    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)
    config.builder_optimization_level = 0
    for batches in ranges:
        tensor = network.get_input(0)
        profile = builder.create_optimization_profile()
        profile.set_shape(tensor.name, *((batch, *tuple(tensor.shape)[1:]) for batch in batches))
        config.add_optimization_profile(profile)
    return builder, network, config


def _give_ranges(network: Any, ranges: Mapping[str, float]) -> None:
    layers = [network.get_layer(index) for index in range(network.num_layers)]
    outputs = [layer.get_output(index) for layer in layers for index in range(layer.num_outputs)]
    for tensor in [network.get_input(0), *outputs]:
        if tensor.name in ranges:
            tensor.dynamic_range = (-ranges[tensor.name], ranges[tensor.name])


def _hold(network: Any, held: Mapping[str, str], others: str | None) -> None:
    """Give layers the precisions of `held`, by name; convolutions beside them `others`, if any."""
    types = {"fp32": trt.float32, "fp16": trt.float16, "int8": trt.int8}
    for index in range(network.num_layers):
        layer = network.get_layer(index)
        wanted = held.get(layer.name, others if layer.type == trt.LayerType.CONVOLUTION else None)
        if wanted:
            layer.precision = types[wanted]
