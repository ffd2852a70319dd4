"""From statistics to scales: each algorithm's rule, for observed tensors, constants and tensors that share a scale.

The rules reproduce the scales that TensorRT 8.6 wrote.

Held against what TensorRT wrote for the lab's model (tests/fixtures/fidelity_lab, docs/cpu-engine.md). What was
learned on two earlier recordings, of other weights: with activations computed in float64, all but one of 354 entropy
scales are TensorRT's; in the one, TensorRT's entropy and entropy-2 calibrators contradict each other (two ranges
0.018 % of their divergence apart). With float32 activations, five differ with OpenVINO, one or three with PyTorch:
rounding alone moves the gap between the two best ranges by 0.03 % of the divergence (root mean square), so closer
ties are chance. Summing convolutions in shorter parts does not change that, since it is the rounding of what layers
pass on that counts. Computing the divergence in float32, or bins by division, changes no result with float64
activations; normalising Q by the whole mass, spreading it over empty bins too or passing over bins where Q is empty
all lose scales.
"""

from collections.abc import Callable

import numpy as np

from trtcpu.api.enums import CalibrationAlgoType
from trtcpu.calibration.calibrators import IInt8Calibrator
from trtcpu.calibration.histogram import BINS, TensorStatistics
from trtcpu.calibration.tensors import CalibratedTensor, CalibrationPlan
from trtcpu.errors import InputError

INT8_MAX = 127
# A tensor that was zero throughout has no range to keep; any positive scale quantises it without error.
_ZERO_TENSOR_SCALE = 1 / INT8_MAX
# The inverse of a smaller scale is infinite if the processor flushes such numbers to zero.
_LEAST_SCALE = float(np.finfo(np.float32).tiny)
_Rule = Callable[[TensorStatistics, str], float]


def scales_from(statistics: TensorStatistics, plan: CalibrationPlan, calibrator: IInt8Calibrator) -> dict[str, float]:
    """Return the scale of every tensor of the plan, in its order, rounded to float32 as a cache keeps it.

    Raises:
        InputError: a legacy calibrator's quantile or cutoff is missing or out of range.
    """
    rule = _rule(plan.algorithm, calibrator)
    observed = statistics.scales(lambda name: rule(statistics, name))
    statistics.close()
    scales: dict[str, float] = {}
    for tensor in plan.tensors:
        if tensor.same_scale:
            scales[tensor.name] = scales[tensor.source]
        else:
            scales[tensor.name] = observed[tensor.name] if tensor.source else _constant_scale(tensor, rule)
    return {
        name: float(np.float32(scale if scale >= _LEAST_SCALE else _ZERO_TENSOR_SCALE))
        for name, scale in scales.items()
    }


def _constant_scale(tensor: CalibratedTensor, rule: _Rule) -> float:
    statistics = TensorStatistics([tensor.name])
    statistics.measure({tensor.name: tensor.value})
    statistics.fix_ranges()
    statistics.count({tensor.name: tensor.value})
    statistics.close()
    return rule(statistics, tensor.name)


def _rule(algorithm: CalibrationAlgoType, calibrator: IInt8Calibrator) -> _Rule:
    if algorithm == CalibrationAlgoType.MINMAX_CALIBRATION:
        return lambda statistics, name: largest_scale(statistics.largest(name))
    if algorithm == CalibrationAlgoType.LEGACY_CALIBRATION:
        quantile = _fraction(calibrator, "quantile")
        cutoff = _fraction(calibrator, "regression_cutoff")
        if quantile == 0:
            raise InputError("get_quantile() of the calibrator gives 0; 0.9999 is usual")
        return lambda statistics, name: quantile_scale(
            statistics.counts[name], statistics.range(name), statistics.largest(name), quantile, cutoff
        )
    return lambda statistics, name: entropy_scale(statistics.counts[name], statistics.range(name))


def _fraction(calibrator: IInt8Calibrator, name: str) -> float:
    """Return `get_<name>()`, or `<name>`, a method or a number."""
    given = getattr(calibrator, name, None)
    if given is None:
        given = getattr(calibrator, f"get_{name}")
    try:
        value = float(given() if callable(given) else given)
    except Exception as error:
        raise InputError(f"get_{name}() of the calibrator fails ({error}); return a number from 0 to 1") from error
    if not 0 <= value <= 1:
        raise InputError(f"get_{name}() of the calibrator gives {value}; return a number from 0 to 1")
    return value


def entropy_scale(counts: np.ndarray, limit: float) -> float:
    """Return the scale of least KL divergence for a histogram `counts` `[2048]` of magnitudes over `[0, limit]`."""
    from trtcpu.calibration._kernels import least_divergence

    if limit == 0:
        return _ZERO_TENSOR_SCALE
    bins = least_divergence(np.ascontiguousarray(counts, np.int64))
    return float((bins + 0.5) * (limit / BINS) / INT8_MAX)


def quantile_scale(counts: np.ndarray, limit: float, largest: float, quantile: float, cutoff: float = 1.0) -> float:
    """Return the scale whose range holds the share `quantile` of the magnitudes that are at most `cutoff` · `largest`.

    `counts` `[2048]` is their histogram over `[0, limit]`; between the edges of a bin the quantile is interpolated.
    A cutoff of 0 counts as 1.
    """
    if largest == 0:
        return _ZERO_TENSOR_SCALE
    width = limit / BINS
    kept = counts[: max(1, int(np.ceil((cutoff or 1.0) * largest / width)))]
    below = np.concatenate([[0], np.cumsum(kept)])
    wanted = quantile * below[-1]
    upper = max(1, int(np.searchsorted(below, wanted)))
    share = (wanted - below[upper - 1]) / max(1, below[upper] - below[upper - 1])
    return float(min(max(upper - 1 + share, 1) * width, largest) / INT8_MAX)


def largest_scale(largest: float) -> float:
    """Return the scale whose range is the largest magnitude."""
    return largest / INT8_MAX if largest > 0 else _ZERO_TENSOR_SCALE
