"""The course: its steps, their artifacts, settings, labels and charts. These names are for notebooks."""

from helpers.course.artifacts import keep_definition, load_definition
from helpers.course.labels import progress
from helpers.course.settings import (
    BASELINE,
    CALIBRATION_IMAGES,
    ENGINES,
    LATENCY_SECONDS,
    MODEL,
    QUICK,
    THROUGHPUT_SECONDS,
    VALIDATION_IMAGES,
    iterations,
)

__all__ = [
    "BASELINE",
    "CALIBRATION_IMAGES",
    "ENGINES",
    "LATENCY_SECONDS",
    "MODEL",
    "QUICK",
    "THROUGHPUT_SECONDS",
    "VALIDATION_IMAGES",
    "iterations",
    "keep_definition",
    "load_definition",
    "progress",
]
