"""The visible check of step 5: the solution passes, and each mistake is told by the line that is about it."""

import contextlib

import pytest

from helpers.feedback import check_inference
from helpers.feedback.checklist import NotYet
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
    return [line.strip().removeprefix("✗ ") for line in capsys.readouterr().out.splitlines() if "✗ " in line]


def test_the_solution_passes(capsys):
    assert crosses(CLASS, capsys) == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("self.host[self.output_name][:number]", "self.host[self.output_name]", "infer gives the network's outputs"),
        ("least, most = self.batches", "least, most = 8, 32", "batches 7, 32 and 1 in a row are right too"),
        ("result.astype(np.float32)", "result", "a result stays as it was returned"),
        (
            "expected images of shape [N, {expected}], got {list(images.shape)}",
            "no",
            "a wrong shape gives an exception that names it",
        ),
        ("a batch of {number} is outside the profile, which takes {least} to {most}", "no", "so does a batch of 33"),
        ("return self.infer(images)", "pass", "it works as model(images) and in a with block"),
        ("buffer.free()", "pass", "close() frees the device memory, and infer raises then"),
        ("self.close()", "globals().setdefault('kept', []).append(self)", "20 instances leave no memory behind"),
        ("self.stream.synchronize()\n        return", "return", "infer gives the network's outputs"),
    ],
)
def test_a_mistake_is_told(old, new, told, capsys):
    assert CLASS.count(old) == 1
    assert told in crosses(CLASS.replace(old, new), capsys)


def test_an_unfilled_class_is_said_to_be_one(capsys):
    with pytest.raises(NotYet):
        check_inference(type("TensorRTInference", (), {"__init__": _unfilled}))
    assert "the TODO is still there" in capsys.readouterr().out


def _unfilled(self, path):
    raise NotImplementedError
