"""From statistics to scales: each algorithm's rule for observed tensors, constants and tensors that share a scale."""

from collections.abc import Callable

import numpy as np

from helpers.cpu_engine.calibration_tensors import CalibratedTensor, CalibrationPlan
from helpers.cpu_engine.calibrators import CalibrationAlgoType, IInt8Calibrator
from helpers.cpu_engine.histogram import TensorStatistics, entropy_scale, largest_scale, quantile_scale
from helpers.errors import InputError

__all__ = ["scales_from"]


def scales_from(
    statistics: TensorStatistics, plan: CalibrationPlan, algorithm: CalibrationAlgoType, calibrator: IInt8Calibrator
) -> dict[str, float]:
    """Return the scale of every tensor of the plan, in its order, rounded to float32 as a cache keeps it.

    Raises:
        InputError: a legacy calibrator's quantile or cutoff is missing or out of range.
    """
    rule = _rule(algorithm, calibrator)
    observed = statistics.scales(lambda name: rule(statistics, name))
    statistics.close()
    scales: dict[str, float] = {}
    for tensor in plan.tensors:
        if tensor.same_scale:
            scales[tensor.name] = scales[tensor.source]
        else:
            scales[tensor.name] = observed[tensor.name] if tensor.source else _constant_scale(tensor, rule)
    return {name: float(np.float32(scale)) for name, scale in scales.items()}


_Rule = Callable[[TensorStatistics, str], float]


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
