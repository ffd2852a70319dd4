"""TensorRT's calibration cache: a header such as `TRT-101600-EntropyCalibration2`, then `tensor: hex` a line.

The hexadecimal number is the tensor's scale (dynamic range / 127) as a big-endian IEEE float32. Read off the caches
that TensorRT 8.6 wrote. A cache of any TensorRT version is accepted when its algorithm is the calibrator's.
"""

import math
import re
import struct
from collections.abc import Iterable, Mapping

from helpers.cpu_engine.calibrators import CalibrationAlgoType
from helpers.errors import InputError

__all__ = ["check_coverage", "format_cache", "parse_cache"]

_VERSION = 101600
_ALGORITHM_NAMES = {
    CalibrationAlgoType.LEGACY_CALIBRATION: "LegacyCalibration",
    CalibrationAlgoType.ENTROPY_CALIBRATION: "EntropyCalibration",
    CalibrationAlgoType.ENTROPY_CALIBRATION_2: "EntropyCalibration2",
    CalibrationAlgoType.MINMAX_CALIBRATION: "MinMaxCalibration",
}
_HEADER = re.compile(r"TRT-(\d{1,9})-(\w{1,40})")
_HEX = re.compile(r"[0-9a-fA-F]{1,8}")
_NAMED = 3


def format_cache(scales: Mapping[str, float], algorithm: CalibrationAlgoType) -> bytes:
    """Return `scales` (by tensor name, in this order) as the bytes of a cache.

    Raises:
        InputError: a tensor's name holds a line break, which the format cannot express.
    """
    broken = next((name for name in scales if "\n" in name or "\r" in name), None)
    if broken is not None:
        raise InputError(f"tensor name {broken!r} holds a line break; rename it before calibrating")
    lines = [f"TRT-{_VERSION}-{_ALGORITHM_NAMES[algorithm]}"]
    lines += [f"{name}: {struct.pack('>f', scale).hex()}" for name, scale in scales.items()]
    return ("\n".join(lines) + "\n").encode()


def parse_cache(data: bytes, algorithm: CalibrationAlgoType) -> dict[str, float]:
    """Return the scales, by tensor name, of the cache `data`, which must be of `algorithm`.

    Raises:
        InputError: not a calibration cache, cut short, empty, or of another algorithm.
    """
    try:
        header, *lines = bytes(data).decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"the calibration cache is no text ({error.reason}); delete it and calibrate again") from error
    _check_header(header.rstrip("\r"), _ALGORITHM_NAMES[algorithm])
    scales: dict[str, float] = {}
    for number, line in enumerate(lines, start=2):
        if line.strip("\r"):
            name, scale = _parse_line(line.rstrip("\r"), number)
            if name in scales:
                raise InputError(f"line {number} of the calibration cache names {name!r} again; calibrate again")
            scales[name] = scale
    if not scales:
        raise InputError("the calibration cache holds no scales; delete it and calibrate again")
    return scales


def _check_header(header: str, wanted: str) -> None:
    match = _HEADER.fullmatch(header)
    if match is None:
        raise InputError(
            f"the calibration cache begins with {header[:60]!r} instead of 'TRT-…-{wanted}'; "
            "delete it and calibrate again"
        )
    if match[2] != wanted:
        raise InputError(
            f"the calibration cache was made by {match[2]}, the calibrator's algorithm is {wanted}; "
            "use the calibrator it was made with, or delete it and calibrate again"
        )


def _parse_line(line: str, number: int) -> tuple[str, float]:
    name, separator, text = line.rpartition(": ")
    if not separator or _HEX.fullmatch(text) is None:
        raise InputError(
            f"line {number} of the calibration cache is {line[:60]!r} instead of "
            "'tensor: hexadecimal scale'; calibrate again"
        )
    scale = struct.unpack(">f", int(text, 16).to_bytes(4, "big"))[0]
    if not math.isfinite(scale) or scale < 0:
        raise InputError(f"line {number} of the calibration cache gives {name!r} the scale {scale}; calibrate again")
    return name, scale


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
