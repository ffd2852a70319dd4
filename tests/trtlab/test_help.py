"""What `trtlab COMMAND --help` shows is what the options say: Rich takes text in square brackets for markup."""

import re

import click
import pytest
import typer

from trtlab.cli import app

COMMANDS = typer.main.get_command(app).commands


def _squeezed(text: str) -> str:
    """Return the text without white space and the lines of Rich's boxes, which break it anywhere."""
    return re.sub(r"[\s│]", "", text)


# `grade` has no options of its own: it becomes `python -m solutions.grading`, whose process is another.
@pytest.mark.parametrize("name", [name for name, command in COMMANDS.items() if command.params])
def test_every_options_help_is_shown_whole(name: str, trtlab) -> None:
    _, shown, _ = trtlab(name, "--help")
    told = [option.help for option in COMMANDS[name].params if isinstance(option, click.Option) and option.help]
    # Rich puts the default into the same cell, so that it may stand between words of a long help: compare word by word.
    missing = [help for help in told for word in help.split() if _squeezed(word) not in _squeezed(shown)]
    assert missing == []
