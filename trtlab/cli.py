"""`trtlab`: the lab's pipeline from a shell.

Exit codes: 0 done, 1 a bug of ours (with its traceback), 2 wrong input (one line says what and what to do),
128 + n stopped by signal n (130: Ctrl-C).
"""

import re
import sys
from typing import NoReturn

import typer
from rich.console import Console

from helpers.tools.signals import clean_ends
from trtcpu.errors import LabError
from trtlab.commands import budget, course, images, measure, migrate, models, report, sensitivity
from trtlab.commands.numbers import BoundedCommand

app = typer.Typer(
    help="Take a PyTorch classifier to optimised TensorRT engines: export, build, measure, compare, report.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for _module in (models, images, measure, sensitivity, budget, report, migrate, course):
    _module.register(app)
for _command in app.registered_commands:
    if not issubclass(_command.cls or object, BoundedCommand):
        _command.cls = BoundedCommand

_UsageError = typer.BadParameter.__mro__[1]  # click's, or the copy of it that newer versions of typer bring
_LONGEST = 40
"""Digits of a number that a message shows whole."""


def main() -> None:
    """Run the command line; turn the user's errors into one line and exit code 2, signals into clean ends."""
    with clean_ends():
        try:
            sys.exit(app(standalone_mode=False))
        except LabError as error:
            _fail(str(error))
        except _UsageError as error:
            _misused(error)
        except MemoryError as error:
            _too_large(error)
        except RuntimeError as error:
            if "can't allocate memory" not in str(error):  # what PyTorch says in place of a MemoryError
                raise
            _too_large(error)


def _misused(error: Exception) -> NoReturn:
    """Fail for an option or a command that is unknown, missing or no number."""
    context = error.ctx
    message = error.format_message().rstrip(".")
    if not message:  # trtlab alone, which shows its help
        error.show()
        sys.exit(2)
    _fail(f"{message[:1].lower()}{message[1:]}; see {context.command_path if context else 'trtlab'} --help")


def _too_large(error: Exception) -> NoReturn:
    known = str(error).partition("\n")[0] or "no more is known"
    _fail(f"this needs more memory than there is ({known}); choose a smaller batch or size")


def _fail(reason: str) -> NoReturn:
    from rich.markup import escape

    reason = re.sub(rf"\d{{{_LONGEST},}}", lambda digits: f"{digits[0][:5]}… ({len(digits[0])} digits)", reason)
    text = escape(" ".join(reason.split()))
    Console(stderr=True, soft_wrap=True).print(f"[bold red]error:[/] {text}", highlight=False)
    sys.exit(2)


if __name__ == "__main__":
    main()
