"""Spellings of other courses and of trtexec become ours."""

import pytest

from trtcpu.errors import InputError
from trtlab.commands.spellings import our_spelling

BUILD = {"--onnx", "--engine", "--precision", "--workspace-mb", "--opt-batch", "--min-shapes", "--calib-npy"}
EXPORT = {"--out", "--input-size", "--batch-size"}


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


def test_underscores_of_an_export_are_understood() -> None:
    given = ["--input_size", "64", "--batch_size=2"]
    assert our_spelling(given, EXPORT) == ["--input-size", "64", "--batch-size=2"]


def test_one_batch_size_is_the_only_one_of_several() -> None:
    assert our_spelling(["--batch_size", "8"], {"--batch-sizes"}) == ["--batch-sizes", "8"]


@pytest.mark.parametrize("given", [["--fp16", "--precision", "fp32"], ["--fp16", "--bf16"], ["--int8", "--tf32"]])
def test_precisions_that_contradict_are_an_error(given: list[str]) -> None:
    with pytest.raises(InputError, match="contradict each other; give one --precision"):
        our_spelling(given, BUILD)


def test_a_batch_size_for_a_build_names_the_range() -> None:
    with pytest.raises(InputError, match="--batch_size is not an option here.*--opt-batch and --max-batch"):
        our_spelling(["--batch_size", "8"], BUILD)
