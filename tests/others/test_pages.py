"""The pages that long runs write: what is on them of outcomes that were made up."""

from tests.others import onnx_nodes, polygraphy, real_models
from tests.others.onnx_nodes import Outcome

REFUSED = (
    "ModelImporter: In node 0 with name: n and operator: Foo (UNSUPPORTED_NODE): No importer registered for op: Foo"
)


def test_an_operator_is_right_or_stands_with_each_of_its_reasons_and_counts() -> None:
    padded = (
        "ModelImporter: In node 1 with name: p and operator: Pad (UNSUPPORTED_NODE_ATTR): Pad's mode is odd, found b"
    )
    outcomes = [
        Outcome("abs", "`Abs`", "right"),
        Outcome("pad", "`Pad`", "right"),
        Outcome("pad_b", "`Pad`", "refused", padded),
        Outcome("foo", "`Foo`", "refused", f"ModelImporter: (X): Unsupported data type INT16 of tensor x; {REFUSED}"),
        Outcome("sin", "`Sin`", "wrong", "y: found 1|2"),
    ]
    lines = list(onnx_nodes.page(outcomes))
    assert lines[3] == "2 right, 2 refused, 1 wrong, 0 not loaded, 0 failed, 0 crashed, 0 exempt."
    assert lines[lines.index("Right in every test:") + 1] == "`Abs`."
    assert set(lines[lines.index("|---|---|") + 1 :]) == {
        "| NVIDIA's parser has no importer for it | `Foo` |",
        "| mode is odd | `Pad` (1 of 2) |",
        "| **wrong**: y: found 1\\|2 | `Sin` |",
    }


def test_models_stand_by_kind_with_their_worst_error_and_what_failed_below() -> None:
    rows = [
        {"file": f"a/{name}.onnx", "package": "p", "version": "1", "kind": "OCR"} for name in ("one", "two", "three")
    ]
    outcomes = [
        {"error": {"FP32": 1e-6, "FP16": 2e-2, "INT8": 0.3}, "refused": {}, "bench": "right", "profile": "right"},
        {"error": {"FP32": 3e-6, "FP16": 1e-2, "INT8": float("inf")}, "refused": {}, "bench": "no", "profile": "no"},
        {"error": {}, "refused": {"FP32": REFUSED, "FP16": REFUSED, "INT8": REFUSED}},
    ]
    text = "\n".join(real_models.page(rows, outcomes))
    assert "| OCR | `one.onnx` (p 1), `two.onnx` (p 1) | 3.0e-06 | 2.0e-02 |" in text
    assert text.count("\n- ") == 3 and "- `two.onnx` (p 1): an output has another shape" in text
    assert "- `three.onnx` (p 1): refused: No importer registered for op: Foo" in text


def test_a_command_that_fails_with_one_release_is_marked() -> None:
    found = {"1.0": [""] * len(polygraphy.CASES), "2.0": [""] * (len(polygraphy.CASES) - 1) + ["exit status 1"]}
    text = " ".join("\n".join(polygraphy.page(found)).split())
    assert all(case.what in text for case in polygraphy.CASES) and "1.0 and 2.0" in text
    assert text.count("**wrong**") == 1 and f"{polygraphy.CASES[-1].what} (**wrong** with 2.0)" in text
