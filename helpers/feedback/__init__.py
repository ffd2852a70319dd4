"""Visible checks: one call a task, an answer within seconds. `feedback.progress()` shows the eight steps."""

from helpers.feedback.engines import check_fp16_engine
from helpers.feedback.export import check_export, check_simplify
from helpers.feedback.progress import progress

__all__ = ["check_export", "check_fp16_engine", "check_simplify", "progress"]
