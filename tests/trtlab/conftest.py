"""What the tests of the commands share."""

import pytest

from tests.trtlab.shell import call


@pytest.fixture
def trtlab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    """Run `trtlab …` as the console script does; returns exit code, stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "160")
    return lambda *arguments: (call(*arguments), *capsys.readouterr())
