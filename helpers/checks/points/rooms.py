"""The steps' rooms in order, and every visible check by the name that notebooks call it by."""

from helpers.checks.points import (
    s01_export,
    s02_fp16,
    s03_dynamic,
    s04_int8,
    s05_inference,
    s06_benchmark,
    s07_accuracy,
    s08_report,
    s09_mixed_precision,
    s10_profiles_and_streams,
    s11_bert,
    s12_layer_profiling,
    s13_compilers,
    s14_explicit_quantisation,
    s16_cases,
)
from helpers.checks.points.point import Check

ROOMS = (
    s01_export,
    s02_fp16,
    s03_dynamic,
    s04_int8,
    s05_inference,
    s06_benchmark,
    s07_accuracy,
    s08_report,
    s09_mixed_precision,
    s10_profiles_and_streams,
    s11_bert,
    s12_layer_profiling,
    s13_compilers,
    s14_explicit_quantisation,
    s16_cases,
)
CHECKS: dict[str, Check] = {name: check for room in ROOMS for name, check in room.CHECKS.items()}
