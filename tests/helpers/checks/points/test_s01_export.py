"""The points of step 1 and its visible checks: a tick for a right exporter, and a cross that names what is wrong."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from helpers.checks import feedback
from helpers.checks.feedback.check import NotYet
from helpers.checks.missed import Missed
from helpers.checks.points import s01_export
from helpers.checks.points.case import Case
from helpers.checks.points.s01_export.classifier import probe_classifier
from helpers.checks.points.s01_export.models import agreement, batch_axis_symbolic, ends_named, run_model
from helpers.checks.probes.onnx_files import onnx_facts
from helpers.checks.probes.student import Student
from trtlab.models.export import export_onnx as pipeline_export


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRT_LAB_ARTIFACTS", str(tmp_path))
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)


def _good(model: torch.nn.Module, path: Path, opset: int = 18) -> None:
    pipeline_export(model, path, opset=opset)


def test_a_right_exporter_gets_a_tick(capsys: Any) -> None:
    feedback.check_export(_good)
    assert capsys.readouterr().out.startswith("✓")


def test_a_fixed_batch_gets_a_cross_with_the_shape(capsys: Any) -> None:
    with pytest.raises(NotYet):
        feedback.check_export(
            lambda model, path, opset=18: pipeline_export(model, path, opset=opset, dynamic_batch=False)
        )
    said = capsys.readouterr().out
    assert "✗ The batch axis is symbolic" in said and "[1, 3, 224, 224]" in said


def test_a_copy_is_no_simplification(capsys: Any) -> None:
    with pytest.raises(NotYet):
        feedback.check_simplify(shutil.copy)
    said = capsys.readouterr().out
    assert "✗ Redundant nodes are gone" in said and "✗ A result that fails validation is refused" in said


def test_a_todo_is_called_a_todo_once(capsys: Any) -> None:
    def export_onnx(model: Any, path: Path, opset: int = 18) -> None:
        raise NotImplementedError

    with pytest.raises(NotYet):
        feedback.check_export(export_onnx)
    assert capsys.readouterr().out.count("the TODO is still there") == 1


def test_files_that_are_not_there_are_named(capsys: Any) -> None:
    with pytest.raises(NotYet):
        feedback.check_export_files()
    assert "resnet50.onnx among the artifacts" in capsys.readouterr().out


def test_the_classifier_shows_its_training_mode() -> None:
    images = torch.randn(2, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        first, second = probe_classifier(3)(images), probe_classifier(3)(images)
        training = probe_classifier(3, training=True)(images)
    assert torch.equal(first, second)
    assert (training - first).abs().max() > 0.1


def test_who_uses_no_onnxsim_refuses_what_cannot_be_compared_and_no_more() -> None:
    """Who uses another simplifier than onnxsim is asked to refuse what cannot be compared, and no more."""

    def other(src: Path, dst: Path) -> None:
        first, second = (run_model({"m": src.read_bytes()}, "m", np.ones((2, 3, 224, 224), "f4")) for _ in range(2))
        if not np.array_equal(first, second):
            raise ValueError("its outputs never repeat")
        shutil.copy(src, dst)

    assert "never repeat" in s01_export.refuses(Case(Student.in_process({"simplify_onnx": other}), 1))


def test_weights_that_a_caller_may_replace_are_inputs() -> None:
    weight = onnx.numpy_helper.from_array(np.ones(3, np.float32), "w")
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3]) for name in ("input", "w", "output")]
    node = onnx.helper.make_node("Add", ["input", "w"], ["output"])
    graph = onnx.helper.make_graph([node], "g", ends[:2], ends[2:], [weight])
    with pytest.raises(Missed, match="one input named"):
        ends_named(onnx_facts(onnx.helper.make_model(graph).SerializeToString()))


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
        batch_axis_symbolic(facts)


def test_any_name_of_the_batch_axis_will_do() -> None:
    facts = {"inputs": {"input": {"shape": ["s77", 3, 224, 224]}}, "outputs": {"output": {"shape": ["s77", 10]}}}
    assert "s77" in batch_axis_symbolic(facts)


def test_other_names_and_nan_are_missed() -> None:
    with pytest.raises(Missed, match="logits"):
        ends_named({"inputs": {"input": {"dtype": "FLOAT"}}, "outputs": {"logits": {"dtype": "FLOAT"}}})
    with pytest.raises(Missed, match="relative error of nan"):
        agreement(np.full((1, 10), np.nan), np.ones((1, 10)), "PyTorch's")
