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
        _runner(model, observed),
        logger,
    )


def _runner(model: onnx.ModelProto, observed: list[str]) -> Callable[[Feeds], Feeds]:
    """Return a function that runs the network in FP32 and gives views of the observed tensors, channels last.

    The network is compiled when it is first needed, since a valid cache needs no run, and once for each shape of feeds
    (the parts of the batches, and the small run that chooses their size): channels last are only quick to get with
    fixed shapes.
    """
    network, outputs = probe(model, observed)
    requests: dict[tuple[tuple[int, ...], ...], _openvino.Request] = {}

    def run(feeds: Feeds) -> Feeds:
        shapes = tuple(array.shape for array in feeds.values())
        if shapes not in requests:
            fixed = {name: [(size, size) for size in array.shape] for name, array in feeds.items()}
            requests[shapes] = _openvino.compile_model(network.SerializeToString(), "f32", fixed).create_request()
        request = requests[shapes]
        for name, array in feeds.items():
            request.bind(name, array)
        request.infer()
        return {name: request.output(outputs[name]) for name in observed}

    return run
