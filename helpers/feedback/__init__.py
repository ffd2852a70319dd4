"""Visible checks: one call a task, an answer within seconds. `feedback.progress()` shows the eight steps."""

from helpers.feedback.check import visible
from helpers.feedback.progress import progress
from helpers.feedback.report import check_analysis, check_report
from helpers.points import s01_export, s02_fp16, s03_dynamic, s04_int8, s05_inference, s06_benchmark, s07_accuracy

__all__ = [
    "check_accuracy",
    "check_accuracy_results",
    "check_analysis",
    "check_calibration_dataset",
    "check_calibrator",
    "check_dynamic_engine",
    "check_export",
    "check_export_files",
    "check_fp16_engine",
    "check_images_per_second",
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

_ROOMS = (s01_export, s02_fp16, s03_dynamic, s04_int8, s05_inference, s06_benchmark, s07_accuracy)
globals().update({name: visible(name, check) for room in _ROOMS for name, check in room.CHECKS.items()})
