"""`python -m website` where something that it needs is missing."""

import pytest

from website import __main__ as site


def test_what_is_not_installed_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(site, "NEEDED", ("pathlib", "no_such_package"))
    monkeypatch.setattr("sys.argv", ["website"])
    with pytest.raises(SystemExit) as ended:
        site.main()
    assert "needs no_such_package," in str(ended.value) and "make site" in str(ended.value)
