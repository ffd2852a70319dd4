"""Cases of the engine department: an INT8 engine's model, calibration cache and build record, with one mistake."""

from collections.abc import Mapping

import numpy as np

from helpers.toys.casefiles import pictures, prepared, tensor_ranges
from solutions.checks.s16_cases.networks import Fault, Material, camera, case_network, convolutions
from trtcpu.calibration_cache import CalibrationCache, format_cache, parse_cache

_CLIPPED = 0.85, 1.0
"""A right calibration's range over the largest magnitude: entropy calibration cuts off the tail."""

_HALF_HELD = 6


def healthy(random: np.random.Generator, number: int) -> Material:
    """Return a case with nothing wrong. Layers held in FP32, and lines of constants in the cache, are harmless.

    Case 6 of a seed has just half of its convolutions in FP32.
    """
    model, taken = case_network(random, 4 if number == _HALF_HELD else None), camera(random, 48)
    measured = tensor_ranges(model, prepared(pictures(**taken)))
    ranges = {name: most * random.uniform(*_CLIPPED) for name, most in measured.items()}
    most, names = int(random.choice((4, 8, 16, 32))), convolutions(model)
    kept = [("fc",), names[:1], (), names[-1:]][number % 4] if number != _HALF_HELD else names[:2]
    profile = [1, int(random.integers(1, most + 1)), most]
    return {
        "department": "engine",
        "onnx": model,
        "cache": _cache(ranges, number % 3),
        "pictures": taken,
        "build": {
            "flags": ["INT8", "FP16"] if number % 2 else ["INT8"],
            "layers": dict.fromkeys(kept, "fp32"),
            "profile": profile,
        },
        "report": {"precision": "int8", "batch": int(random.integers(1, most + 1)) if number % 2 else most},
    }


def _cache(ranges: Mapping[str, float], constants: int = 0) -> bytes:
    """Return a cache; TensorRT's also name the constants between the layers, which no ONNX tensor is called like."""
    lines = {name: most / 127 for name, most in ranges.items()}
    lines |= {f"(Unnamed Layer* {3 + 2 * k}) [Constant]_output": 0.004 + 0.001 * k for k in range(constants)}
    return format_cache(CalibrationCache("EntropyCalibration2", lines))


def _measured(case: Material) -> dict[str, float]:
    return tensor_ranges(case["onnx"], prepared(pictures(**case["pictures"])))


def _scaled(case: Material, factors: Mapping[str, float]) -> dict[str, float]:
    """Multiply ranges of a case's cache, by tensor; return the cache's ranges over the measured ones."""
    scales = parse_cache(case["cache"]).scales
    changed = {name: scale * factors.get(name, 1.0) for name, scale in scales.items()}
    case["cache"] = format_cache(CalibrationCache("EntropyCalibration2", changed))
    return {name: 127 * changed[name] / most for name, most in _measured(case).items()}


def _not_int8(random: np.random.Generator, case: Material, other: bool) -> float:
    names = convolutions(case["onnx"])
    if other:
        case["build"]["layers"] = dict.fromkeys([*names, "fc"], "fp32")
    else:
        case["build"] |= {"flags": ["FP16"] if random.random() < 0.5 else [], "layers": {}}
    return len(names)


def _other_model(random: np.random.Generator, case: Material, other: bool) -> float:
    names = list(_measured(case))[2:]  # without a range for the first convolution no INT8 engine could be built
    chosen = random.choice(names, int(random.integers(2, len(names))), replace=False).tolist()
    if other:
        scales = parse_cache(case["cache"]).scales
        renamed = {f"deeper.{name}" if name in chosen else name: scale for name, scale in scales.items()}
        case["cache"] = format_cache(CalibrationCache("EntropyCalibration2", renamed))
    else:  # as much too large, or too small
        _scaled(case, {name: float(random.uniform(3.5, 9)) ** (1 if random.random() < 0.5 else -1) for name in chosen})
    return len(chosen)


def _not_normalised(random: np.random.Generator, case: Material, other: bool) -> float:
    most = 255.0 if other else 1.0
    pixels = np.moveaxis(pictures(**case["pictures"]), -1, 1).astype(np.float32) * (most / 255)
    ranges = tensor_ranges(case["onnx"], np.ascontiguousarray(pixels))
    case["cache"] = _cache(
        {name: found * random.uniform(*_CLIPPED) for name, found in ranges.items()} | {"input": most}
    )
    return most


def _factor_127(random: np.random.Generator, case: Material, other: bool) -> float:
    ratios = _scaled(case, dict.fromkeys(parse_cache(case["cache"]).scales, 1 / 127 if other else 127))
    return float(np.median(list(ratios.values())))


def _one_scale(random: np.random.Generator, case: Material, other: bool) -> float:
    name = str(random.choice([name for name in _measured(case) if name.endswith("_relu_out")]))  # a layer's input
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
