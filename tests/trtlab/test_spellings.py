"""Spellings of other courses and of trtexec become ours."""

import pytest

from trtcpu.errors import InputError
from trtlab.commands.spellings import our_spelling

BUILD = {"--onnx", "--engine", "--precision", "--workspace-mb", "--opt-batch", "--min-shapes", "--calib-npy"}
OTHERS = {"--out", "--input-size", "--batch-size", "--batch-sizes"}


@pytest.mark.parametrize(
    "given, ours",
    [
        (["--workspace_mb", "64"], ["--workspace-mb", "64"]),
        (["--workspace=64"], ["--workspace-mb=64"]),
        (["--fp16"], ["--precision", "fp16"]),
        (["--fp16", "--int8"], ["--precision", "int8+fp16"]),
        (["--minShapes=a:1x3"], ["--min-shapes=a:1x3"]),
        (["--saveEngine=e.engine"], ["--engine=e.engine"]),
        (["--precision", "int8"], ["--precision", "int8"]),
        (["--unknown_option"], ["--unknown_option"]),
        (["--onnx", "a_b.onnx"], ["--onnx", "a_b.onnx"]),
    ],
)
def test_other_spellings_are_ours(given: list[str], ours: list[str]) -> None:
    assert our_spelling(given, BUILD) == ours


@pytest.mark.parametrize("known, ours", [(OTHERS, "--batch-size"), ({"--batch-sizes"}, "--batch-sizes")])
def test_one_batch_size_is_the_only_one_of_several(known: set[str], ours: str) -> None:
    assert our_spelling(["--batch_size", "8"], known) == [ours, "8"]


@pytest.mark.parametrize(
    "given, said",
    [
        (["--fp16", "--precision", "fp32"], "contradict each other; give one --precision"),
        (["--fp16", "--bf16"], "contradict each other; give one --precision"),
        (["--int8", "--tf32"], "contradict each other; give one --precision"),
        (["--batch_size", "8"], "--batch_size is not an option here.*--opt-batch and --max-batch"),
    ],
)
def test_what_a_build_cannot_mean_is_an_error(given: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        our_spelling(given, BUILD)
