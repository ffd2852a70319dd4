"""INT8 calibration: TensorRT's protocol with a calibrator, the batches' run through the network, and the cache.

Order of calls as seen on TensorRT 8.6: get_batch_size, read_calibration_cache, get_batch until None or [],
read_calibration_cache, write_calibration_cache. Valid cache bytes skip all batches. As in TensorRT's bindings, an
exception in one of these methods is printed to stderr and not raised: in get_batch it ends calibration with the
batches so far.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trtcpu.api.enums import CalibrationAlgoType
from trtcpu.api.logger import ILogger
from trtcpu.calibration.batches import Run, Tensors, observe_batches
from trtcpu.calibration.calibrators import IInt8Calibrator
from trtcpu.calibration.histogram import TensorStatistics
from trtcpu.calibration.scales import INT8_MAX, scales_from
from trtcpu.calibration.tensors import CalibrationPlan
from trtcpu.calibration_cache import CalibrationCache, format_cache, parse_cache
from trtcpu.device.memory import LogicError, view
from trtcpu.errors import EngineError, InputError, LabError

_CACHE_NAMES = {
    CalibrationAlgoType.LEGACY_CALIBRATION: "LegacyCalibration",
    CalibrationAlgoType.ENTROPY_CALIBRATION: "EntropyCalibration",
    CalibrationAlgoType.ENTROPY_CALIBRATION_2: "EntropyCalibration2",
    CalibrationAlgoType.MINMAX_CALIBRATION: "MinMaxCalibration",
}
_NAMED = 3
Inputs = Mapping[str, tuple[tuple[int, ...], type]]


def calibrate(
    calibrator: IInt8Calibrator, plan: CalibrationPlan, inputs: Inputs, run: Run, logger: ILogger
) -> dict[str, float] | None:
    """Return the scale of each tensor by name, from the calibrator's cache or its batches; None after logging why not.

    Args:
        calibrator: the user's.
        plan: `calibration_plan` of the network and the calibrator's algorithm.
        inputs: for each input the calibration profile's OPT shape, which is what is read from each address, and the
            NumPy type.
        run: computes float32 views `{name: array}` of the plan's observed tensors for one batch, or for a part of it
            if the network's inputs have a dynamic first dimension (see `observe_batches`).
        logger: told of progress and of what is wrong.
    """
    try:
        return _Session(calibrator, plan, inputs, run, logger).scales()
    except LabError as error:
        logger.log(ILogger.ERROR, f"Calibration failure occurred: {error}")
        return None


@dataclass
class _Session:
    """One run of the protocol."""

    calibrator: IInt8Calibrator
    plan: CalibrationPlan
    inputs: Inputs
    run: Run
    logger: ILogger

    def scales(self) -> dict[str, float]:
        self._check_batch_size(self._guarded("get_batch_size"))
        cache = self._read_cache()
        if cache:
            return self._from_cache(cache)
        scales = self._from_batches()
        self._guarded("read_calibration_cache")
        written = format_cache(CalibrationCache(_CACHE_NAMES[self.plan.algorithm], scales))
        self._guarded("write_calibration_cache", memoryview(written))
        return scales

    def _guarded(self, method: str, *arguments: object, convert: Callable = lambda result: result) -> Any:
        """Call the calibrator; print an exception as TensorRT's bindings do and return None."""
        try:
            return convert(getattr(self.calibrator, method)(*arguments))
        except Exception as error:
            print(f"[ERROR] Exception caught in {method}(): {type(error).__name__}: {error}", file=sys.stderr)
            return None

    def _check_batch_size(self, batch_size: object) -> None:
        opt = {shape[0] for shape, _ in self.inputs.values() if shape}
        if opt and opt != {batch_size}:
            self.logger.log(
                ILogger.WARNING,
                f"The calibrator's get_batch_size() gives {batch_size}, the calibration profile's OPT shape has batch "
                f"{', '.join(map(str, sorted(opt)))}: each batch is read in the OPT shape. Make the two equal.",
            )

    def _read_cache(self) -> bytes | None:
        return self._guarded(
            "read_calibration_cache", convert=lambda data: None if data is None else bytes(memoryview(data))
        )

    def _from_cache(self, cache: bytes) -> dict[str, float]:
        scales = parse_cache(cache, _CACHE_NAMES[self.plan.algorithm]).scales
        warning = check_coverage(scales, self.plan.names)
        if warning:
            self.logger.log(ILogger.WARNING, warning)
        self.logger.log(ILogger.INFO, f"Calibration cache read: scales of {len(scales)} tensors, no batch is run.")
        return scales

    def _from_batches(self) -> dict[str, float]:
        self.logger.log(ILogger.INFO, "Starting Calibration.")
        started = time.perf_counter()
        threading.Thread(target=_load_kernels, daemon=True).start()
        statistics, batches = observe_batches(self._batches(), self.plan, self.run)
        if batches == 0:
            raise EngineError(
                "no scaling factors detected: get_batch() gave no batch and read_calibration_cache() no cache; "
                "give the calibrator data"
            )
        collected = time.perf_counter()
        scales = scales_from(statistics, self.plan, self.calibrator)
        self._warn(statistics, scales)
        done = time.perf_counter()
        self.logger.log(ILogger.INFO, f"  Post Processing Calibration data in {done - collected:.3g} seconds.")
        self.logger.log(ILogger.INFO, f"Calibration completed in {done - started:.3g} seconds ({batches} batches).")
        return scales

    def _warn(self, statistics: TensorStatistics, scales: Mapping[str, float]) -> None:
        """Tell of tensors whose scale is of no use."""
        for name in statistics.counts:
            beyond = statistics.beyond(name, scales[name] * INT8_MAX)
            if statistics.largest(name) == 0:
                self.logger.log(
                    ILogger.WARNING, f"Tensor {name} is uniformly zero: its scale says nothing of other data"
                )
            elif beyond > 1 / 2:
                text = f"{beyond:.0%} of the values of tensor {name} lie beyond its range, and are clipped"
                self.logger.log(ILogger.WARNING, text)

    def _batches(self) -> Iterator[Tensors]:
        names = list(self.inputs)
        while True:
            addresses = self._guarded("get_batch", names, convert=lambda result: _addresses(result, names))
            if not addresses:
                return
            yield {name: self._tensor(name, address) for name, address in zip(names, addresses, strict=True)}

    def _tensor(self, name: str, address: int) -> np.ndarray:
        shape, dtype = self.inputs[name][0], np.dtype(self.inputs[name][1])
        try:
            return view(address, int(np.prod(shape)) * dtype.itemsize).view(dtype).reshape(shape)
        except LogicError as error:
            raise EngineError(f"get_batch() gave input {name!r} of OPT shape {shape} a bad address: {error}") from error


def _load_kernels() -> None:
    """Load the compiled loops while the network is compiled; an error comes up again where they are used."""
    with contextlib.suppress(Exception):
        import trtcpu.calibration._kernels  # noqa: F401


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


def check_coverage(scales: Mapping[str, float], wanted: Iterable[str]) -> str | None:
    """Return a warning that names the tensors of `wanted` without a scale, or None when there are none.

    Raises:
        InputError: not one tensor of the network has a scale: the cache is of another network.
    """
    wanted = list(wanted)
    missing = [name for name in wanted if name not in scales]
    if wanted and len(missing) == len(wanted):
        raise InputError(
            f"the calibration cache is of another network: it names {', '.join(map(repr, list(scales)[:_NAMED]))}…, "
            f"this network has {', '.join(map(repr, wanted[:_NAMED]))}…; delete it and calibrate again"
        )
    if not missing:
        return None
    return (
        f"the calibration cache has no scale for {len(missing)} of {len(wanted)} tensors, which stay in higher "
        f"precision: {', '.join(missing)}"
    )
