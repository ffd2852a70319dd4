"""What `trtlab COMMAND --help` shows is what the options say."""

import re

import pytest

from trtlab.cli import app

COMMANDS = [name for name in app if not name.startswith("-")]


def _squeezed(text: str) -> str:
    """Return the text without white space and the lines of Rich's boxes, which break it anywhere."""
    return re.sub(r"[\s│]", "", text)


# `grade` has no options of its own: it becomes `python -m solutions.grading`, whose process is another.
@pytest.mark.parametrize("name", [name for name in COMMANDS if "grade" not in name])
def test_every_option_has_a_help_that_is_shown_whole(name: str, trtlab) -> None:
    _, shown, _ = trtlab(name, "--help")
    for argument in app[name].assemble_argument_collection(parse_docstring=True):
        if argument.parse and argument.show:
            assert argument.name in shown and argument.parameter.help, argument.name
            assert _squeezed(argument.parameter.help) in _squeezed(shown)
    assert app[name].help or "Example: trtlab" in shown or name == "doctor"


def test_the_list_of_commands_says_what_each_does(trtlab) -> None:
    _, shown, _ = trtlab("--help")
    assert all(re.search(rf"│ {name} +[A-Z]", shown) for name in COMMANDS), shown
