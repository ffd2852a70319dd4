"""Claims of step 1 on exporters made here; the bank holds the students' ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import onnxsim
import pytest
import torch

from helpers.checks.missed import Missed
from helpers.checks.points import s01_export
from helpers.checks.points.case import Case
from helpers.checks.probes.student import Student
from helpers.course.steps import CELLS
from solutions.checks.core.asked import points_of
from trtlab.models.export import export_onnx as pipeline_export
from trtlab.models.export import simplify_onnx


def _case(seed: int, **functions: Callable[..., Any]) -> Case:
    return Case(Student.in_process(functions), seed)


def _good(model: torch.nn.Module, path: Path, opset: int = 18) -> None:
    pipeline_export(model, path, opset=opset)


def test_the_cells_of_step_1_are_worth_5_points() -> None:
    cells = [cell for cell, found in CELLS.items() if found.step == "01_export"]
    assert sum(claim.points for cell in cells for claim in points_of(cell)) == 5


@pytest.mark.parametrize(("cell", "functions"), [("export_model", {"export_onnx": _good}), ("simplify_model", {})])
def test_the_pipelines_own_functions_keep_every_claim(cell: str, functions: dict[str, Any]) -> None:
    case = _case(1, simplify_onnx=simplify_onnx, **functions)
    for claim in points_of(cell):
        outcome = claim.judge(case)
        assert isinstance(outcome, str) or outcome.share == 1, claim.name


def test_a_fixed_batch_of_one_keeps_a_third_of_the_outputs() -> None:
    def fixed(model: torch.nn.Module, path: Path, opset: int = 18) -> None:
        pipeline_export(model, path, opset=opset, dynamic_batch=False)

    outputs = next(claim for claim in points_of("export_model") if claim.name == "export.outputs")
    assert outputs.judge(_case(2, export_onnx=fixed)).share == pytest.approx(1 / 3)


def test_a_simplifier_that_compares_nothing_is_refused() -> None:
    def heedless(src: Path, dst: Path) -> None:
        onnx.save(onnxsim.simplify(onnx.load(src))[0], dst)

    with pytest.raises(Missed, match="never repeat"):
        s01_export.refuses(_case(2, simplify_onnx=heedless))


def test_a_simplifier_that_only_sees_whether_the_original_repeats_is_refused() -> None:
    def halfway(src: Path, dst: Path) -> None:
        model, images = onnx.load(src), np.ones((2, 3, 224, 224), np.float32)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        first, second = (session.run(None, {"input": images})[0] for _ in range(2))
        if not np.array_equal(first, second):
            raise ValueError("its outputs never repeat")
        onnx.save(onnxsim.simplify(model)[0], dst)

    with pytest.raises(Missed, match="computes something else"):
        s01_export.refuses(_case(2, simplify_onnx=halfway))


def test_a_function_that_is_not_written_loses_with_a_friendly_word() -> None:
    def todo(*given: object, **options: object) -> None:
        raise NotImplementedError

    case = _case(3, export_onnx=todo, simplify_onnx=todo)
    for claim in points_of("simplify_model") + [c for c in points_of("export_model") if c.name != "export.outputs"]:
        with pytest.raises(Missed, match="TODO is still there"):
            claim.judge(case)
