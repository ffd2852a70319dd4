"""Do all ways of giving several values mean the same?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trtcpu.errors import InputError
from trtlab.commands.multivalue import expanded, integers, split_values


@pytest.mark.parametrize(
    ("args", "out"),
    [
        (["--b", "1", "2", "--x", "y"], ["--b", "1", "--b", "2", "--x", "y"]),
        (["--b", "1", "--b", "2"], ["--b", "1", "--b", "2"]),
        (["--b=1", "2"], ["--b=1", "--b", "2"]),
        (["--b", "1", "-2"], ["--b", "1", "--b", "-2"]),
        (["--x", "y", "z"], ["--x", "y", "z"]),
        (["--b"], ["--b"]),
        ([], []),
    ],
)
def test_a_flag_is_repeated_before_each_further_value(args: list[str], out: list[str]) -> None:
    assert expanded(args, {"--b"}) == out


@given(st.lists(st.sampled_from(["--b", "--c", "--x", "1", "-5", "file", "--b=3"])))
def test_no_value_is_lost_or_reordered(args: list[str]) -> None:
    def values(arguments: list[str]) -> list[str]:
        return [argument for argument in arguments if argument not in ("--b", "--c")]

    assert values(expanded(args, {"--b", "--c"})) == values(args)


def test_commas_split_values() -> None:
    assert split_values(["1,4", "8", " 16 , 32,"]) == ["1", "4", "8", "16", "32"]
    assert integers(["1,4", "8"], "--b") == [1, 4, 8]


@pytest.mark.parametrize("wrong", ["x", "1.5", "1;2", "0x4"])
def test_what_is_no_whole_number_names_the_option(wrong: str) -> None:
    with pytest.raises(InputError, match="--batch-sizes takes whole numbers"):
        integers([wrong], "--batch-sizes")
