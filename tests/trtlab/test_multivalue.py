"""Do all ways of giving several values mean the same?"""

import pytest

from trtlab.cli import app
from trtlab.timing.options import BenchOptions


def read(command: str, *words: str) -> dict:
    _, bound, _ = app.parse_args([command, *words], exit_on_error=False, print_error=False)
    return bound.arguments


@pytest.mark.parametrize(
    "words",
    [
        ("--batch-sizes", "1", "4", "8"),
        ("--batch-sizes", "1,4", "8"),
        ("--batch-sizes", " 1 , 4,8,"),
        ("--batch-sizes=1", "--batch-sizes=4", "--batch-sizes", "8"),
        ("--batch_sizes", "1", "4", "8", "--limit", "60"),
    ],
)
def test_several_values_are_read_in_order(words: tuple[str, ...]) -> None:
    assert read("bench", *words)["options"] == BenchOptions((1, 4, 8), limit_s=60.0)


def test_values_may_begin_with_a_minus_and_paths_are_not_split() -> None:
    asked = read("infer", "--engine", "e", "--input", "a,b", "--mean", "-0.5", "0.5,1", "--crop", "224x160")
    assert (asked["asked"].mean, asked["asked"].crop, str(asked["input"])) == ((-0.5, 0.5, 1.0), (224, 160), "a,b")


@pytest.mark.parametrize("wrong", ["x", "1.5", "1;2", "0x4"])
def test_what_is_no_whole_number_names_the_option(trtlab, wrong: str) -> None:
    assert f"--batch-sizes takes whole numbers, found '{wrong}'" in trtlab("bench", "--batch-sizes", wrong)[2]
