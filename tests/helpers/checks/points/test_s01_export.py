"""Step 1: the probe classifier shows its training mode, and a cross names what is wrong with a file."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from helpers.checks import feedback
from helpers.checks.feedback.check import NotYet
from helpers.checks.missed import Missed
from helpers.checks.points.s01_export.models import batch_axis_symbolic, run_model
from trtlab.models.export import export_onnx as pipeline_export


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRT_LAB_ARTIFACTS", str(tmp_path))
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)


def test_a_fixed_batch_gets_a_cross_with_the_shape(capsys: Any) -> None:
    with pytest.raises(NotYet):
        feedback.check_export(
            lambda model, path, opset=18: pipeline_export(model, path, opset=opset, dynamic_batch=False)
        )
    said = capsys.readouterr().out
    assert "✗ The batch axis is symbolic" in said and "[1, 3, 224, 224]" in said


def test_files_that_are_not_there_are_named(capsys: Any) -> None:
    with pytest.raises(NotYet):
        feedback.check_export_files()
    assert "resnet50.onnx among the artifacts" in capsys.readouterr().out


def test_a_file_that_cannot_be_run_is_the_students_mistake() -> None:
    broken = onnx.helper.make_graph([onnx.helper.make_node("Nope", ["a"], ["b"])], "g", [], [])
    with pytest.raises(Missed, match="ONNX Runtime"):
        run_model(
            {"m.onnx": onnx.helper.make_model(broken).SerializeToString()}, "m.onnx", np.zeros((1, 3, 224, 224), "f4")
        )


@pytest.mark.parametrize(
    ("images", "logits"),
    [([1, 3, 224, 224], ["b", 10]), (["b", 3, 224, 224], [1, 10]), (["b", 3, "h", 224], ["b", 10]), ([], [])],
)
def test_only_the_batch_may_be_symbolic(images: list[Any], logits: list[Any]) -> None:
    with pytest.raises(Missed, match="axis 0"):
        batch_axis_symbolic({"inputs": {"input": {"shape": images}}, "outputs": {"output": {"shape": logits}}})
