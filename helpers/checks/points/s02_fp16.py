"""Step 2, build_engine_fp16(onnx_path, engine_path): an FP16 engine of the given model."""

from helpers.checks.points.builder import Builder
from helpers.checks.points.builders import WORKSPACE_GB
from helpers.checks.points.task import Task

BATCH = 8
"""The largest batch of the task's profile."""

PROMISES = (f"a workspace of {WORKSPACE_GB} GB", f"the given profile for batches up to {BATCH}")
"""Figures in the notebook's text."""

FP16 = Builder("build_engine_fp16", "fp16", (1, BATCH, BATCH))
ENGINE = Task("fp16_engine", check="check_fp16_engine", takes=(FP16.function,))
FP16.ask(
    ENGINE, plan=0.5, written=0.25, profile=0.25, half_precision=1.5, workspace=0.5, parser_errors=0.5, failures=0.25
)

SPEED = Task("fp16_speed")
TASKS = (ENGINE, SPEED)
