"""Visible checks: one call a task, an answer within seconds. `feedback.progress()` shows the eight steps."""

from helpers.feedback.accuracy import check_accuracy, check_accuracy_results
from helpers.feedback.benchmark import check_latency, check_measurements, check_throughput
from helpers.feedback.check import visible
from helpers.feedback.dynamic import check_dynamic_engine, check_saturation
from helpers.feedback.export import check_export, check_simplify
from helpers.feedback.inference import check_inference
from helpers.feedback.int8 import (
    check_calibration_dataset,
    check_calibrator,
    check_int8_calibration,
    check_int8_engine,
)
from helpers.feedback.progress import progress
from helpers.points import s02_fp16, s08_report

__all__ = [
    "check_accuracy",
    "check_accuracy_results",
    "check_analysis",
    "check_calibration_dataset",
    "check_calibrator",
    "check_charts",
    "check_dynamic_engine",
    "check_export",
    "check_fp16_engine",
    "check_inference",
    "check_int8_calibration",
    "check_int8_engine",
    "check_latency",
    "check_measurements",
    "check_report",
    "check_saturation",
    "check_simplify",
    "check_throughput",
    "progress",
]

_ROOMS = (s02_fp16, s08_report)
globals().update({name: visible(name, check) for room in _ROOMS for name, check in room.CHECKS.items()})
