"""The visible check of step 5: the solution passes, and each mistake is told by the line that is about it."""

import contextlib

import pytest

from helpers.checks.feedback import check_inference
from helpers.checks.feedback.check import NotYet
from solutions.checks.trusted.solution_cells import solution_cell

CLASS = solution_cell("05_inference", "tensorrt_inference")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRT_LAB_ARTIFACTS", str(tmp_path))
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)


def crosses(source, capsys):
    """Return the titles of the lines that a class made of `source` fails."""
    namespace = {"__name__": "notebook"}
    exec(source, namespace)
    with contextlib.suppress(NotYet):
        check_inference(namespace["TensorRTInference"])
    return [line.strip().removeprefix("✗ ") for line in capsys.readouterr().out.splitlines() if line.startswith("  ✗")]


@pytest.mark.slow
def test_the_solution_passes(capsys):
    assert crosses(CLASS, capsys) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("got {list(images.shape)}", "others", "Images of another shape give an exception that names it"),
        ("buffer.free()", "pass", "close() frees buffers, context and engine; infer raises from then on"),
        ("self.engine is None", "False", "It loads a file, and raises for one that is missing or no engine"),
    ],
)
def test_a_mistake_is_told_by_its_line_alone(old, new, told, capsys):
    assert CLASS.count(old) == 1
    (found,) = crosses(CLASS.replace(old, new), capsys)
    assert found.startswith(told)


def test_wrong_outputs_are_told_once(capsys):
    told = crosses(CLASS.replace("return result.astype(np.float32)", "return -result.astype(np.float32)"), capsys)
    assert told == ["Three engines give their outputs at batches 1, 7 and 32"]


def test_an_unfilled_class_is_said_to_be_one_once(capsys):
    with pytest.raises(NotYet, match="1 point to mend"):
        check_inference(type("TensorRTInference", (), {"__init__": _unfilled}))
    assert "the TODO is still there" in capsys.readouterr().out


def _unfilled(self, path):
    raise NotImplementedError
