"""The visible check of step 5: wrong outputs are told once, not by every line that they cost."""

import pytest

from helpers.checks.feedback import check_inference
from helpers.checks.feedback.check import NotYet
from solutions.checks.trusted.solution_cells import solution_cell


@pytest.mark.slow
def test_wrong_outputs_are_told_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TRT_LAB_ARTIFACTS", str(tmp_path))
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    namespace, right = {"__name__": "notebook"}, "return result.astype(np.float32)"
    exec(
        solution_cell("05_inference", "tensorrt_inference").replace(right, "return -result.astype(np.float32)"),
        namespace,
    )
    with pytest.raises(NotYet):
        check_inference(namespace["TensorRTInference"])
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  ✗")]
    assert told == ["  ✗ Two engines give their outputs at batches 1, 7 and 32"]
