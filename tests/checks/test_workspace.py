"""Whose artifacts a step gets: a submission's where they do their work."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from helpers.course.settings import ENGINES
from helpers.toys.networks import tiny_onnx
from solutions.checks.trusted import workspace
from solutions.checks.trusted.solution_cells import solution_cell
from solutions.sandbox import chosen
from trtlab.building import served

_MISTAKES = {
    "yours": ("", ""),
    "wrong": ("return result.astype", "return 1.1 * result.astype"),
    "not working": ("def infer(", "def inference("),
}


@pytest.mark.parametrize("sandboxed", [False, True])
@pytest.mark.parametrize("said", _MISTAKES)
def test_a_class_that_works_is_taken_and_another_is_not(said: str, sandboxed: bool, tmp_path: Path) -> None:
    model, engine = tiny_onnx(1), tmp_path / "reference.engine"
    engine.write_bytes(served.built(model, {"precision": "fp32", "min_batch": 1, "opt_batch": 8, "max_batch": 32}))
    ours = SimpleNamespace(path=lambda name: {ENGINES["fp32"]: engine}[name], bytes=lambda name: model)
    own = solution_cell("05_inference", "tensorrt_inference")
    assert _MISTAKES[said][0] in own
    (tmp_path / "inference.py").write_text(own.replace(*_MISTAKES[said]))
    fault = workspace._fault(tmp_path, "inference.py", ours, chosen(False) if sandboxed else "")
    assert fault is None if said == "yours" else fault.startswith(said)
