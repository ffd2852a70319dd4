"""`trtlab` as a shell calls it, and what a call has to end with."""

import sys

import pytest

from trtlab import cli


def call(*arguments: object) -> int:
    """Run `trtlab …` as the console script does; return its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["trtlab", *map(str, arguments)])
        try:
            cli.main()
            return 0
        except SystemExit as ended:
            return int(ended.code or 0)


def says(result: tuple[int, str, str], *words: str) -> str:
    """Exit code 0 and stdout that holds the words; returns it."""
    code, out, err = result
    assert code == 0 and all(word in out for word in words), (out, err)
    return out


def fails(result: tuple[int, str, str], *words: str) -> None:
    """Exit code 2 and one line on stderr that holds the words."""
    code, out, err = result
    assert code == 2 and err.startswith("error: ") and err.count("\n") == 1 and "Traceback" not in err + out, result
    assert all(word in err for word in words), err
