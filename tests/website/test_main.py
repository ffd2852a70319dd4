"""`python -m website` says what is missing: packages, and an address that readers could follow."""

from pathlib import Path

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


@pytest.mark.parametrize(("owner", "said"), [("OWNER", True), ("someone", False)])
def test_a_site_without_an_address_says_which_links_it_lacks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, owner: str, said: bool
) -> None:
    repository = site.Repository(tmp_path, f"https://github.com/{owner}/lab")
    monkeypatch.setattr(site.Repository, "at", lambda root: repository)
    monkeypatch.setattr(site, "build", lambda repository, out: 0)
    monkeypatch.setattr("sys.argv", ["website", "--out", str(tmp_path)])
    site.main()
    assert (site.NOT_PUBLISHED in capsys.readouterr().out) == said
