"""`trtlab`: the lab's pipeline from a shell.

Exit codes: 0 done, 1 a bug of ours (with its traceback), 2 wrong input (one line says what and what to do),
128 + n stopped by signal n (130: Ctrl-C).
"""

import sys
from typing import NoReturn

import typer
from rich.console import Console

from helpers.errors import LabError
from helpers.signals import clean_ends
from solutions.pipeline.commands import budget, images, measure, models, report

__all__ = ["app", "main"]

app = typer.Typer(
    help="Take a PyTorch classifier to optimised TensorRT engines: export, build, measure, compare, report.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for _module in (models, images, measure, budget, report):
    _module.register(app)


def main() -> None:
    """Run the command line; turn the user's errors into one line and exit code 2, signals into clean ends."""
    with clean_ends():
        try:
            app()
        except LabError as error:
            _fail(str(error))
        except MemoryError as error:
            _fail(
                f"this needs more memory than there is ({error or 'no more is known'}); choose a smaller batch or size"
            )


def _fail(reason: str) -> NoReturn:
    from rich.markup import escape

    text = escape(" ".join(reason.split()))
    Console(stderr=True, soft_wrap=True).print(f"[bold red]error:[/] {text}", highlight=False)
    sys.exit(2)


if __name__ == "__main__":
    main()
