"""Scales without a calibrator: the batches run through the network in FP32 on this machine's processor.

TensorRT 11 has no calibrators, and on 8 and 10 one calibrates only while an engine is built. This is the calibration of
the CPU engine, whose scales are TensorRT's except for a few (docs/cpu-engine.md), with any engine and without a GPU.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import onnx

from trtcpu import tensorrt as cpu_engine
from trtcpu.api.enums import CalibrationAlgoType
from trtcpu.builder.lowering import lowered
from trtcpu.calibration.batches import observe_batches
from trtcpu.calibration.probe import runner
from trtcpu.calibration.scales import scales_from
from trtcpu.calibration.tensors import calibration_plan
from trtcpu.calibration_cache import CalibrationCache
from trtcpu.errors import InputError

if TYPE_CHECKING:
    from trtlab.building.calibration_data import CalibrationBatches

_ALGORITHMS = {
    "entropy": (CalibrationAlgoType.ENTROPY_CALIBRATION_2, "EntropyCalibration2"),
    "minmax": (CalibrationAlgoType.MINMAX_CALIBRATION, "MinMaxCalibration"),
    "percentile": (CalibrationAlgoType.LEGACY_CALIBRATION, "LegacyCalibration"),
}


class _Percentile:
    """What the percentile is: the same as of the pipeline's calibrator of that name."""

    quantile, regression_cutoff = 0.9999, 1.0


def float_model(data: bytes, path: str) -> onnx.ModelProto:
    """Return an ONNX model as an engine sees it: nodes named, weights behind constants and transposes folded.

    Raises:
        InputError: it cannot be read.
    """
    logger = cpu_engine.Logger(cpu_engine.Logger.INTERNAL_ERROR)
    network = cpu_engine.Builder(logger).create_network(0)
    parser = cpu_engine.OnnxParser(network, logger)
    if not parser.parse(data, path):
        raise InputError(f"{path} cannot be rewritten: {parser.get_error(0).desc()}")
    return lowered(network)


def calibrated(
    model: onnx.ModelProto, kind: str, batches: "CalibrationBatches", report: Callable[[str], None]
) -> CalibrationCache:
    """Return the scales of `model`'s tensors as a calibration cache has them.

    Args:
        model: as `float_model` gives it.
        kind: entropy, minmax or percentile.
        batches: what is run through it.
        report: told of each batch.
    """
    algorithm, name = _ALGORITHMS[kind]
    plan = calibration_plan(model, algorithm)
    statistics, _ = observe_batches(_told(batches, batches.number, report), plan, runner(model, plan))
    return CalibrationCache(name, scales_from(statistics, plan, _Percentile()))


def _told(
    batches: Iterable[dict[str, np.ndarray]], number: int, report: Callable[[str], None]
) -> Iterator[dict[str, np.ndarray]]:
    for index, batch in enumerate(batches, start=1):
        report(f"calibrating: batch {index} of {number}")
        yield batch
