"""INT8 calibration: TensorRT's protocol with a calibrator, the batches' run through the network, and the cache.

Order of calls as seen on TensorRT 8.6: get_batch_size, read_calibration_cache, get_batch until None or [],
read_calibration_cache, write_calibration_cache. Valid cache bytes skip all batches. As in TensorRT's bindings, an
exception in one of these methods is printed to stderr and not raised: in get_batch it ends calibration with the
batches so far.
"""

import contextlib
import importlib
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx

from helpers.cpu_engine.calibration_cache import check_coverage, format_cache, parse_cache
from helpers.cpu_engine.calibration_run import Run, observe_batches
from helpers.cpu_engine.calibration_scales import scales_from
from helpers.cpu_engine.calibration_tensors import CalibrationPlan, calibrated_tensors
from helpers.cpu_engine.calibrators import (
    CalibrationAlgoType,
    IInt8Calibrator,
    IInt8EntropyCalibrator,
    IInt8EntropyCalibrator2,
    IInt8LegacyCalibrator,
    IInt8MinMaxCalibrator,
    algorithm_of,
    check_calibrator,
)
from helpers.cpu_engine.logger import ILogger
from helpers.errors import EngineError, InputError, LabError

__all__ = [
    "CalibrationAlgoType",
    "IInt8Calibrator",
    "IInt8EntropyCalibrator",
    "IInt8EntropyCalibrator2",
    "IInt8LegacyCalibrator",
    "IInt8MinMaxCalibrator",
    "calibrate",
    "calibrated_tensors",
    "check_calibrator",
]


def calibrate(
    calibrator: IInt8Calibrator,
    model: onnx.ModelProto,
    input_shapes: Mapping[str, tuple[int, ...]],
    input_dtypes: Mapping[str, Any],
    run: Run,
    logger: ILogger,
) -> dict[str, float] | None:
    """Return the scale of each tensor by name, from the calibrator's cache or its batches; None after logging why not.

    `input_shapes` are the calibration profile's OPT shapes, which is what is read from each address; `input_dtypes`
    their NumPy types. `run(feeds)` computes float32 views `{name: array}` of all of `calibrated_tensors(model,
    algorithm).observed` for one batch, or for a part of it where the model's inputs have a dynamic first dimension
    (see `observe_batches`).
    """
    try:
        check_calibrator(calibrator)
        return _Session(calibrator, model, input_shapes, input_dtypes, run, logger).scales()
    except LabError as error:
        logger.log(ILogger.ERROR, f"Calibration failure occurred: {error}")
        return None


class _Session:
    """One run of the protocol."""

    def __init__(
        self,
        calibrator: IInt8Calibrator,
        model: onnx.ModelProto,
        shapes: Mapping[str, tuple[int, ...]],
        dtypes: Mapping[str, Any],
        run: Run,
        logger: ILogger,
    ) -> None:
        self._calibrator = calibrator
        self._shapes = {name: tuple(shape) for name, shape in shapes.items()}
        self._dtypes = {name: np.dtype(dtype) for name, dtype in dtypes.items()}
        self._run = run
        self._logger = logger
        self._algorithm = algorithm_of(calibrator)
        self._plan: CalibrationPlan = calibrated_tensors(model, self._algorithm)

    def scales(self) -> dict[str, float]:
        self._check_batch_size(self._guarded("get_batch_size"))
        cache = self._read_cache()
        if cache:
            return self._from_cache(cache)
        scales = self._from_batches()
        self._guarded("read_calibration_cache")
        self._guarded("write_calibration_cache", memoryview(format_cache(scales, self._algorithm)))
        return scales

    def _guarded(self, method: str, *arguments: object, convert: Callable = lambda result: result) -> Any:
        """Call the calibrator; print an exception as TensorRT's bindings do and return None."""
        try:
            return convert(getattr(self._calibrator, method)(*arguments))
        except Exception as error:
            print(f"[ERROR] Exception caught in {method}(): {type(error).__name__}: {error}", file=sys.stderr)
            return None

    def _check_batch_size(self, batch_size: object) -> None:
        opt = {shape[0] for shape in self._shapes.values() if shape}
        if opt and opt != {batch_size}:
            self._logger.log(
                ILogger.WARNING,
                f"The calibrator's get_batch_size() gives {batch_size}, the calibration profile's OPT shape has batch "
                f"{', '.join(map(str, sorted(opt)))}: each batch is read in the OPT shape. Make the two equal.",
            )

    def _read_cache(self) -> bytes | None:
        return self._guarded(
            "read_calibration_cache", convert=lambda data: None if data is None else bytes(memoryview(data))
        )

    def _from_cache(self, cache: bytes) -> dict[str, float]:
        scales = parse_cache(cache, self._algorithm)
        warning = check_coverage(scales, self._plan.names)
        if warning:
            self._logger.log(ILogger.WARNING, warning)
        self._logger.log(ILogger.INFO, f"Calibration cache read: scales of {len(scales)} tensors, no batch is run.")
        return scales

    def _from_batches(self) -> dict[str, float]:
        self._logger.log(ILogger.INFO, "Starting Calibration.")
        started = time.perf_counter()
        threading.Thread(target=_load_kernels, daemon=True).start()
        statistics, batches = observe_batches(self._batches(), self._plan, self._algorithm, self._run)
        if batches == 0:
            raise EngineError(
                "no scaling factors detected: get_batch() gave no batch and read_calibration_cache() no cache; "
                "give the calibrator data"
            )
        collected = time.perf_counter()
        scales = scales_from(statistics, self._plan, self._algorithm, self._calibrator)
        done = time.perf_counter()
        self._logger.log(ILogger.INFO, f"  Post Processing Calibration data in {done - collected:.3g} seconds.")
        self._logger.log(ILogger.INFO, f"Calibration completed in {done - started:.3g} seconds ({batches} batches).")
        return scales

    def _batches(self):
        names = list(self._shapes)
        while True:
            addresses = self._guarded("get_batch", names, convert=lambda result: _addresses(result, names))
            if not addresses:
                return
            yield {name: self._tensor(name, address) for name, address in zip(names, addresses, strict=True)}

    def _tensor(self, name: str, address: int) -> np.ndarray:
        from helpers.cpu_engine._memory import LogicError, view

        shape, dtype = self._shapes[name], self._dtypes[name]
        try:
            return view(address, int(np.prod(shape)) * dtype.itemsize).view(dtype).reshape(shape)
        except LogicError as error:
            raise EngineError(f"get_batch() gave input {name!r} of OPT shape {shape} a bad address: {error}") from error


def _load_kernels() -> None:
    """Load the compiled loops while the network is compiled; an error comes up again where they are used."""
    with contextlib.suppress(Exception):
        importlib.import_module("helpers.cpu_engine._histogram_kernels")


def _addresses(result: Any, names: list[str]) -> list[int] | None:
    """Return the addresses as integers, as TensorRT's cast to a vector of size_t does; None at the end of the data."""
    if result is None:
        return None
    if isinstance(result, (str, bytes)) or not hasattr(result, "__len__") or not hasattr(result, "__getitem__"):
        raise InputError(
            f"get_batch() returned {type(result).__name__}; return a list of device addresses, one an input"
        )
    if 0 < len(result) < len(names):
        raise InputError(f"get_batch() returned {len(result)} addresses for the {len(names)} inputs {', '.join(names)}")
    return [_address(item) for item in result[: len(names)]]


def _address(item: Any) -> int:
    if hasattr(item, "__int__") and not isinstance(item, (float, np.floating, np.ndarray, str)):
        return int(item)
    raise InputError(
        f"get_batch() returned a list with a {type(item).__name__}; return device addresses: [int(allocation)], "
        "not host arrays"
    )
