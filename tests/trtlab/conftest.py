"""What the tests of the commands share."""

import sys

import pytest

from trtlab import cli


@pytest.fixture
def trtlab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    """Run `trtlab …` as the console script does; returns exit code, stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "160")

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["trtlab", *map(str, arguments)])
        try:
            cli.main()
            code = 0
        except SystemExit as caught:
            code = int(caught.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
