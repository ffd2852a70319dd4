"""TensorRT's calibration cache: a header such as `TRT-101600-EntropyCalibration2`, then `tensor: hex` a line.

The hexadecimal number is the tensor's scale (dynamic range / 127) as a big-endian IEEE float32. Read off the caches
that TensorRT 8.6 wrote. The one reader and writer of the format; it needs no engine.
"""

import math
import re
import struct
from dataclasses import dataclass

from trtcpu.errors import InputError

_HEADER = re.compile(r"TRT-(\d{1,9})-(\w{1,40})")
_HEX = re.compile(r"[0-9a-fA-F]{1,8}")


@dataclass(frozen=True)
class CalibrationCache:
    """A cache's content.

    `algorithm` is the header's name of it: EntropyCalibration2, EntropyCalibration, MinMaxCalibration or
    LegacyCalibration. `scales` gives each tensor's scale, of which 127 are the largest magnitude that INT8 keeps, by
    name in the order of the lines.
    """

    algorithm: str
    scales: dict[str, float]


def format_cache(cache: CalibrationCache, version: str = "10.16.0") -> bytes:
    """Return the bytes of a cache, as of a `version` of TensorRT; a real one refuses every other version's.

    Raises:
        InputError: a tensor's name holds a line break, which the format cannot express.
    """
    broken = next((name for name in cache.scales if "\n" in name or "\r" in name), None)
    if broken is not None:
        raise InputError(f"tensor name {broken!r} holds a line break; rename it before calibrating")
    lines = [f"TRT-{_number(version)}-{cache.algorithm}"]
    lines += [f"{name}: {struct.pack('>f', scale).hex()}" for name, scale in cache.scales.items()]
    return ("\n".join(lines) + "\n").encode()


def _number(version: str) -> int:
    """Return a version as TensorRT counts: 8.6.0 is 8600, 10.16.0 is 101600."""
    major, minor, patch = (int(part) for part in version.split(".")[:3])
    return (1000 if major < 10 else 10000) * major + 100 * minor + patch


def parse_cache(data: bytes, algorithm: str | None = None) -> CalibrationCache:
    """Return the content of a cache that any version of TensorRT, or the CPU engine, wrote.

    Args:
        data: the cache's bytes.
        algorithm: the algorithm that the cache must be of; None takes any.

    Raises:
        InputError: not a calibration cache, cut short, empty, or of another algorithm.
    """
    try:
        header, *lines = bytes(data).decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"the calibration cache is no text ({error.reason}); delete it and calibrate again") from error
    found = _algorithm_of(header.rstrip("\r"), algorithm)
    scales: dict[str, float] = {}
    for number, line in enumerate(lines, start=2):
        if line.strip("\r"):
            name, scale = _parse_line(line.rstrip("\r"), number)
            if name in scales:
                raise InputError(f"line {number} of the calibration cache names {name!r} again; calibrate again")
            scales[name] = scale
    if not scales:
        raise InputError("the calibration cache holds no scales; delete it and calibrate again")
    return CalibrationCache(found, scales)


def _algorithm_of(header: str, wanted: str | None) -> str:
    match = _HEADER.fullmatch(header)
    if match is None:
        raise InputError(
            f"the calibration cache begins with {header[:60]!r} instead of 'TRT-…-{wanted or 'EntropyCalibration2'}'; "
            "delete it and calibrate again"
        )
    if wanted not in (None, match[2]):
        raise InputError(
            f"the calibration cache was made by {match[2]}, the calibrator's algorithm is {wanted}; "
            "use the calibrator it was made with, or delete it and calibrate again"
        )
    return match[2]


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
