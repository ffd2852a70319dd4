"""Cases of the engine department: an INT8 engine's model, calibration cache and build record, with one mistake."""

from collections.abc import Mapping

import numpy as np

from helpers.toys.casefiles import pictures, prepared, tensor_ranges
from solutions.checks.s16_cases.networks import case_network, convolutions
from solutions.checks.s16_cases.sealed import Fault, Material, camera
from trtcpu.calibration_cache import CalibrationCache, format_cache, parse_cache

_ALGORITHM = "EntropyCalibration2"
_LEVELS = 127
_CLIPPED = 0.85, 1.0
"""A right calibration's range over the largest magnitude: entropy calibration cuts off the tail."""

_LOOSE = 0.6, 1.7
"""The same of a calibration on other pictures, still within a factor of two."""

_FAR_OFF = 3.5, 9.0
"""Factors by which ranges of other weights are too large or too small."""

_ON_OTHERS, _HALF_HELD = 5, 6
_PICTURES = 48


def healthy(random: np.random.Generator, number: int) -> Material:
    """Return a case with nothing wrong. Layers held in FP32, and lines of constants in the cache, are harmless.

    Case 5 of a seed was calibrated on other pictures, so that its ranges are farther from the measured ones; case 6
    has just half of its convolutions in FP32.
    """
    model, taken = case_network(random, 4 if number == _HALF_HELD else None), camera(random, _PICTURES)
    around = _LOOSE if number == _ON_OTHERS else _CLIPPED
    measured = tensor_ranges(model, prepared(pictures(**taken)))
    ranges = {name: most * random.uniform(*around) for name, most in measured.items()}
    most = int(random.choice((4, 8, 16, 32)))
    names = convolutions(model)
    kept = [("fc",), names[:1], (), names[-1:]][number % 4] if number != _HALF_HELD else names[:2]
    return {
        "department": "engine",
        "onnx": model,
        "cache": _cache(ranges, number % 3),
        "pictures": taken,
        "build": {
            "flags": ["INT8", "FP16"] if number % 2 else ["INT8"],
            "layers": dict.fromkeys(kept, "fp32"),
            "profile": [1, int(random.integers(1, most + 1)), most],
        },
        "report": {"precision": "int8", "batch": int(random.integers(1, most + 1)) if number % 2 else most},
    }


def _cache(ranges: Mapping[str, float], constants: int = 0) -> bytes:
    """Return a cache; TensorRT's also name the constants between the layers, which no ONNX tensor is called like."""
    lines = {name: most / _LEVELS for name, most in ranges.items()}
    lines |= {
        f"(Unnamed Layer* {3 + 2 * index}) [Constant]_output": 0.004 + 0.001 * index for index in range(constants)
    }
    return format_cache(CalibrationCache(_ALGORITHM, lines))


def _measured(case: Material) -> dict[str, float]:
    return tensor_ranges(case["onnx"], prepared(pictures(**case["pictures"])))


def _scaled(case: Material, factors: Mapping[str, float]) -> dict[str, float]:
    """Multiply scales of a case's cache, by tensor; return the cache's ranges over the measured ones."""
    scales = parse_cache(case["cache"]).scales
    changed = {name: scale * factors.get(name, 1.0) for name, scale in scales.items()}
    case["cache"] = format_cache(CalibrationCache(_ALGORITHM, changed))
    return {name: _LEVELS * changed[name] / most for name, most in _measured(case).items() if name in changed}


def _not_int8(random: np.random.Generator, case: Material, other: bool) -> float:
    names = convolutions(case["onnx"])
    if other:
        case["build"]["layers"] = dict.fromkeys([*names, "fc"], "fp32")
    else:
        case["build"] |= {"flags": ["FP16"] if random.random() < 0.5 else [], "layers": {}}
    return len(names)


def _other_model(random: np.random.Generator, case: Material, other: bool) -> float:
    names = list(_measured(case))[2:]  # without a range for the first convolution no INT8 engine could be built
    chosen = random.choice(names, int(random.integers(2, len(names))), replace=False)
    if other:
        scales = parse_cache(case["cache"]).scales
        renamed = {f"deeper.{name}" if name in chosen else name: scale for name, scale in scales.items()}
        case["cache"] = format_cache(CalibrationCache(_ALGORITHM, renamed))
    else:
        _scaled(case, {str(name): _not_fitting(random) for name in chosen})
    return len(chosen)


def _not_fitting(random: np.random.Generator) -> float:
    """Return a factor between ranges that do not fit: as much too large, or too small."""
    factor = float(random.uniform(*_FAR_OFF))
    return factor if random.random() < 0.5 else 1 / factor


def _not_normalised(random: np.random.Generator, case: Material, other: bool) -> float:
    most = 255.0 if other else 1.0
    pixels = np.moveaxis(pictures(**case["pictures"]), -1, 1).astype(np.float32) * (most / 255)
    ranges = tensor_ranges(case["onnx"], np.ascontiguousarray(pixels))
    ranges = {name: found * random.uniform(*_CLIPPED) for name, found in ranges.items()} | {"input": most}
    case["cache"] = _cache(ranges)
    return most


def _factor_127(random: np.random.Generator, case: Material, other: bool) -> float:
    factor = 1 / _LEVELS if other else _LEVELS
    return float(np.median(list(_scaled(case, dict.fromkeys(parse_cache(case["cache"]).scales, factor)).values())))


def _one_scale(random: np.random.Generator, case: Material, other: bool) -> float:
    read_in_int8 = [name for name in _measured(case) if name.endswith("_relu_out")]
    name = str(random.choice(read_in_int8))
    factor = float(random.uniform(8, 60))
    return _scaled(case, {name: factor if other else 1 / factor})[name]


def _small_profile(random: np.random.Generator, case: Material, other: bool) -> float:
    most = int(random.integers(2, 13))
    case["build"]["profile"] = [1, int(random.integers(1, most + 1)), most]
    case["report"]["batch"] = int(random.choice((16, 24, 32, 64)))
    return most


FAULTS: dict[str, Fault] = {
    "not_int8": _not_int8,
    "other_model": _other_model,
    "not_normalised": _not_normalised,
    "factor_127": _factor_127,
    "one_scale": _one_scale,
    "small_profile": _small_profile,
}
