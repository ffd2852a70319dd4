"""`make rtx` without TensorRT-RTX: how answers are judged, and what the refused model holds."""

import sys
from pathlib import Path

import onnx
import pytest

from tests.tools.rtx import REFUSED, judged, table, with_integer_bias

BUILT = {"version": "1", "parse_s": 0.1, "build_s": 2.0, "plan_bytes": 24_000_000}


def answers(folder: Path, *lines: dict) -> Path:
    """Write what stands for a Python with TensorRT-RTX: it prints these answers, whatever it is asked."""
    path = folder / "python"
    path.write_text(f"#!{sys.executable}\nimport json\nfor line in {lines!r}: print(json.dumps(line))\n")
    path.chmod(0o755)
    return path


def test_a_model_is_right_where_its_layers_have_the_type_that_was_asked_for(tmp_path: Path) -> None:
    files = {("net", precision): Path("a.onnx") for precision in ("fp16", "bf16", REFUSED)}
    python = answers(
        tmp_path,
        {**BUILT, "weighted": {"half": 3}},
        {**BUILT, "weighted": {"bf16": 2, "float": 1}},
        {"version": "1", "error": "input has type Int32"},
    )
    rows = judged(python, files)
    assert [row["right"] for row in rows] == [True, False, True]
    assert "| net | fp16 | 0.10 | 2.0 | 24.0 | half (3) |" in table(rows)
    assert "| net | int32 bias | – | – | – | refused: input has type Int32 |" in table(rows)


def test_a_builder_that_dies_is_said(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="ended after 0 of 1 models"):
        judged(answers(tmp_path), {("net", "fp16"): Path("a.onnx")})


def test_the_refused_model_has_a_bias_of_integers_behind_a_dq(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = onnx.load(str(with_integer_bias(tmp_path)))
    integers = {t.name for t in model.graph.initializer if t.data_type == onnx.TensorProto.INT32}
    assert any(node.op_type == "DequantizeLinear" and node.input[0] in integers for node in model.graph.node)
