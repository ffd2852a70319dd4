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

from helpers.missed import Missed
from helpers.points.case import Case
from helpers.probes.student import Student
from solutions.checks import export_claims
from solutions.checks.core.claim import CELLS, claims_of
from solutions.checks.trusted.onnx_files import agreement, check_batch_axis, check_names, run_model
from solutions.pipeline.export import export_onnx as pipeline_export
from solutions.pipeline.export import simplify_onnx


def _student(**functions: Callable[..., Any]) -> Student:
    return Student.in_process(functions)


def _good(model: torch.nn.Module, path: str, opset: int = 18) -> None:
    pipeline_export(model, path, opset=opset)


def test_the_cells_of_step_1_are_worth_5_points() -> None:
    cells = [cell for cell, found in CELLS.items() if found.step == "01_export"]
    assert sum(claim.points for cell in cells for claim in claims_of(cell)) == 5


def test_the_pipelines_exporter_keeps_every_claim() -> None:
    student = _student(export_onnx=_good)
    case = Case(student, 1)
    for claim in claims_of("export_model"):
        outcome = claim.judge(case)
        assert isinstance(outcome, str) or outcome.share == 1, claim.name


def test_the_pipelines_simplifier_keeps_every_claim() -> None:
    student = _student(simplify_onnx=simplify_onnx)
    case = Case(student, 2)
    for claim in claims_of("simplify_model"):
        assert claim.judge(case), claim.name


def test_a_simplifier_that_compares_nothing_is_refused() -> None:
    def heedless(src: str, dst: str) -> None:
        onnx.save(onnxsim.simplify(onnx.load(src))[0], dst)

    with pytest.raises(Missed, match="never repeat"):
        export_claims.refuses(_student(simplify_onnx=heedless), Case(None, 2))


def test_a_simplifier_that_only_sees_whether_the_original_repeats_is_refused() -> None:
    def halfway(src: str, dst: str) -> None:
        model, images = onnx.load(src), np.ones((2, 3, 224, 224), np.float32)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        first, second = (session.run(None, {"input": images})[0] for _ in range(2))
        if not np.array_equal(first, second):
            raise ValueError("its outputs never repeat")
        onnx.save(onnxsim.simplify(model)[0], dst)

    with pytest.raises(Missed, match="computes something else"):
        export_claims.refuses(_student(simplify_onnx=halfway), Case(None, 2))


def test_a_function_that_is_not_written_loses_with_a_friendly_word() -> None:
    def export_onnx(model: object, path: object, opset: int = 18) -> None:
        raise NotImplementedError

    student = _student(export_onnx=export_onnx, simplify_onnx=export_onnx)
    for cell in ("export_model", "simplify_model"):
        for claim in claims_of(cell):
            with pytest.raises(Missed, match="TODO is still there"):
                claim.judge(Case(student, 3))


def test_missing_deliverables_are_named(tmp_path: Path) -> None:
    with pytest.raises(Missed, match="no such file"):
        export_claims.deliverables(Student(lambda request: request, tmp_path), Case(None, 4))


def test_a_file_that_cannot_be_run_is_the_students_mistake() -> None:
    broken = onnx.helper.make_model(
        onnx.helper.make_graph([onnx.helper.make_node("Nope", ["a"], ["b"])], "g", [], [])
    ).SerializeToString()
    with pytest.raises(Missed, match="ONNX Runtime"):
        run_model({"model.onnx": broken}, "model.onnx", np.zeros((1, 3, 224, 224), np.float32))


@pytest.mark.parametrize(
    ("images", "logits"),
    [([1, 3, 224, 224], ["b", 10]), (["b", 3, 224, 224], [1, 10]), (["b", 3, "h", 224], ["b", 10]), ([], [])],
)
def test_only_the_batch_may_be_symbolic(images: list[Any], logits: list[Any]) -> None:
    facts = {"inputs": {"input": {"shape": images}}, "outputs": {"output": {"shape": logits}}}
    with pytest.raises(Missed, match="axis 0"):
        check_batch_axis(facts)


def test_any_name_of_the_batch_axis_will_do() -> None:
    facts = {"inputs": {"input": {"shape": ["s77", 3, 224, 224]}}, "outputs": {"output": {"shape": ["s77", 10]}}}
    assert "s77" in check_batch_axis(facts)


def test_other_names_and_nan_are_missed() -> None:
    with pytest.raises(Missed, match="logits"):
        check_names({"inputs": {"input": {"dtype": "FLOAT"}}, "outputs": {"logits": {"dtype": "FLOAT"}}})
    with pytest.raises(Missed, match="relative error of nan"):
        agreement(np.full((1, 10), np.nan), np.ones((1, 10)), "PyTorch's")
