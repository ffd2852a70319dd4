"""Cases of the engine department: an INT8 engine's model, calibration cache and build record, with one mistake."""

from collections.abc import Mapping

import numpy as np

from helpers.toys.casefiles import pictures, prepared, tensor_ranges
from solutions.checks.s16_cases.networks import Material, camera, case_network, convolutions
from trtcpu.calibration_cache import CalibrationCache, format_cache, parse_cache

# a right calibration's range over the largest magnitude: entropy calibration cuts off the tail
_CLIPPED = 0.85, 1.0


def healthy(random: np.random.Generator, number: int) -> Material:
    """Return a case with nothing wrong. Layers held in FP32, and lines of constants in the cache, are harmless."""
    model, taken = case_network(random), camera(random, 48)
    measured = tensor_ranges(model, prepared(pictures(**taken)))
    lines = {name: most * random.uniform(*_CLIPPED) / 127 for name, most in measured.items()}
    # TensorRT's caches also have constants between the layers, under names that no ONNX tensor has
    lines |= {f"(Unnamed Layer* {3 + 2 * k}) [Constant]_output": 0.004 + 0.001 * k for k in range(number % 3)}
    most, names = int(random.choice((4, 8, 16, 32))), convolutions(model)
    kept = [("fc",), names[:1], (), names[-1:]][number % 4]
    return {
        "department": "engine",
        "onnx": model,
        "cache": _cache(lines),
        "pictures": taken,
        "build": {
            "flags": ["INT8", "FP16"] if number % 2 else ["INT8"],
            "layers": dict.fromkeys(kept, "fp32"),
            "profile": [1, int(random.integers(1, most + 1)), most],
        },
        "report": {"precision": "int8", "batch": int(random.integers(1, most + 1)) if number % 2 else most},
    }


def _cache(scales: Mapping[str, float]) -> bytes:
    return format_cache(CalibrationCache("EntropyCalibration2", dict(scales)))


def faulty(random: np.random.Generator, case: Material, cause: str, other: bool) -> tuple[Material, float]:
    """Return a case with this mistake, and the number that proves it."""
    changed, proof = _FAULTS[cause](random, case, other)
    return case | changed, proof


def _scaled(case: Material, factors: Mapping[str, float]) -> tuple[Material, dict[str, float]]:
    """Return the cache with ranges multiplied, by tensor, and its ranges over the measured ones."""
    scales = {name: scale * factors.get(name, 1.0) for name, scale in parse_cache(case["cache"]).scales.items()}
    measured = tensor_ranges(case["onnx"], prepared(pictures(**case["pictures"])))
    return {"cache": _cache(scales)}, {name: 127 * scales[name] / most for name, most in measured.items()}


def _not_int8(random: np.random.Generator, case: Material, other: bool) -> tuple[Material, float]:
    names = convolutions(case["onnx"])
    forgotten = {"flags": ["FP16"] if random.random() < 0.5 else [], "layers": {}}
    held = {"layers": dict.fromkeys([*names, "fc"], "fp32")}
    return {"build": case["build"] | (held if other else forgotten)}, len(names)


def _other_model(random: np.random.Generator, case: Material, other: bool) -> tuple[Material, float]:
    names = list(_scaled(case, {})[1])[2:]  # without a range for the first convolution no INT8 engine could be built
    chosen = random.choice(names, int(random.integers(2, len(names))), replace=False).tolist()
    lines = parse_cache(case["cache"]).scales.items()
    renamed = {"cache": _cache({f"deeper.{name}" if name in chosen else name: scale for name, scale in lines})}
    # too large or too small by the same factor
    factors = {name: float(random.uniform(3.5, 9)) ** (1 if random.random() < 0.5 else -1) for name in chosen}
    return renamed if other else _scaled(case, factors)[0], len(chosen)


def _not_normalised(random: np.random.Generator, case: Material, other: bool) -> tuple[Material, float]:
    most = 255.0 if other else 1.0
    pixels = np.moveaxis(pictures(**case["pictures"]), -1, 1).astype(np.float32) * (most / 255)
    ranges = tensor_ranges(case["onnx"], np.ascontiguousarray(pixels))
    lines = {name: found * random.uniform(*_CLIPPED) / 127 for name, found in ranges.items()}
    return {"cache": _cache(lines | {"input": most / 127})}, most


def _factor_127(random: np.random.Generator, case: Material, other: bool) -> tuple[Material, float]:
    changed, ratios = _scaled(case, dict.fromkeys(parse_cache(case["cache"]).scales, 1 / 127 if other else 127))
    return changed, float(np.median(list(ratios.values())))


def _one_scale(random: np.random.Generator, case: Material, other: bool) -> tuple[Material, float]:
    names = [name for name in _scaled(case, {})[1] if name.endswith("_relu_out")]  # a layer's input
    name, factor = str(random.choice(names)), float(random.uniform(8, 60))
    changed, ratios = _scaled(case, {name: factor if other else 1 / factor})
    return changed, ratios[name]


def _small_profile(random: np.random.Generator, case: Material, other: bool) -> tuple[Material, float]:
    most = int(random.integers(2, 13))
    profile, batch = [1, int(random.integers(1, most + 1)), most], int(random.choice((16, 24, 32, 64)))
    return {"build": case["build"] | {"profile": profile}, "report": case["report"] | {"batch": batch}}, most


_FAULTS = {
    "not_int8": _not_int8,
    "other_model": _other_model,
    "not_normalised": _not_normalised,
    "factor_127": _factor_127,
    "one_scale": _one_scale,
    "small_profile": _small_profile,
}
