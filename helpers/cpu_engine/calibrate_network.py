"""Calibration of a network: runs it in FP32 with every observed tensor as an output."""

from collections.abc import Callable

import numpy as np
import onnx

from helpers.cpu_engine import _openvino
from helpers.cpu_engine.calibration import calibrate
from helpers.cpu_engine.calibration_probe import probe
from helpers.cpu_engine.calibration_tensors import calibrated_tensors
from helpers.cpu_engine.calibrators import algorithm_of, check_calibrator
from helpers.cpu_engine.config import IBuilderConfig
from helpers.cpu_engine.enums import DataType
from helpers.cpu_engine.logger import ILogger
from helpers.cpu_engine.network import INetworkDefinition
from helpers.cpu_engine.types import nptype

__all__ = ["calibrated_scales"]

Feeds = dict[str, np.ndarray]


def calibrated_scales(
    model: onnx.ModelProto, network: INetworkDefinition, config: IBuilderConfig, logger: ILogger
) -> dict[str, float] | None:
    """Return the scale of each tensor by name, or None when the calibrator gave neither batches nor a usable cache.

    The shapes of the batches are the OPT shapes of the calibration profile, else of the first profile.
    """
    calibrator = config.int8_calibrator
    check_calibrator(calibrator)
    inputs = [network.get_input(i) for i in range(network.num_inputs)]
    profile = config.get_calibration_profile() or (config.profiles[0] if config.profiles else None)
    shapes = {}
    for tensor in inputs:
        wanted = profile.get_shape(tensor.name) if profile else []
        shapes[tensor.name] = tuple(wanted[1] if wanted else tensor.shape)
    observed = calibrated_tensors(model, algorithm_of(calibrator)).observed
    return calibrate(
        calibrator,
        model,
        shapes,
        {tensor.name: np.dtype(nptype(DataType(tensor.dtype))) for tensor in inputs},
        _runner(model, observed, shapes),
        logger,
    )


def _runner(
    model: onnx.ModelProto, observed: list[str], shapes: dict[str, tuple[int, ...]]
) -> Callable[[Feeds], Feeds]:
    """Return a function that runs the network in FP32 and gives views of the observed tensors, channels last.

    The model is compiled when it is first needed: a valid cache needs no run. Where the network's batch is dynamic it
    may be any size up to OPT's, so that a large batch can be run in parts.
    """
    compiled: list[_openvino.Request] = []
    outputs: dict[str, str] = {}
    graph_inputs = {value.name: value for value in model.graph.input}

    def bounds(name: str, shape: tuple[int, ...]) -> list[tuple[int, int]]:
        first = graph_inputs[name].type.tensor_type.shape.dim[0]
        free = not first.HasField("dim_value")
        return [(1 if free and axis == 0 else size, size) for axis, size in enumerate(shape)]

    def run(feeds: Feeds) -> Feeds:
        if not compiled:
            network, names = probe(model, observed)
            outputs.update(names)
            limits = {name: bounds(name, shape) for name, shape in shapes.items()}
            compiled.append(_openvino.compile_model(network.SerializeToString(), "f32", limits).create_request())
        request = compiled[0]
        for name, array in feeds.items():
            request.bind(name, array)
        request.infer()
        return {name: request.output(outputs[name]) for name in observed}

    return run
