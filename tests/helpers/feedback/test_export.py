"""The visible checks of step 1: a tick for a right exporter, and a cross that names what is wrong."""

import shutil

import pytest

from helpers import feedback
from helpers.feedback.checklist import NotYet
from solutions.pipeline.export import export_onnx


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TRT_LAB_ARTIFACTS", str(tmp_path))
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)


def test_a_right_exporter_gets_a_tick(capsys) -> None:
    feedback.check_export(lambda model, path, opset=18: export_onnx(model, path, opset=opset))
    assert capsys.readouterr().out.startswith("✓")


def test_a_fixed_batch_gets_a_cross_with_the_shape(capsys) -> None:
    with pytest.raises(NotYet):
        feedback.check_export(lambda model, path, opset=18: export_onnx(model, path, opset=opset, dynamic_batch=False))
    said = capsys.readouterr().out
    assert "✗ the batch axis is symbolic" in said and "[1, 3, 224, 224]" in said


def test_a_copy_is_no_simplification(capsys) -> None:
    with pytest.raises(NotYet):
        feedback.check_simplify(shutil.copy)
    said = capsys.readouterr().out
    assert "✗ needless nodes are gone" in said and "✗ a result that fails validation is refused" in said


def test_a_todo_is_called_a_todo(capsys) -> None:
    def export_onnx(model, path, opset=18):
        raise NotImplementedError

    with pytest.raises(NotYet):
        feedback.check_export(export_onnx)
    assert "the TODO is still there" in capsys.readouterr().out
