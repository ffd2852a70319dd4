"""`trtlab`: the lab's pipeline from a shell.

Exit codes: 0 done, 1 a bug of ours (with its traceback), 2 wrong input (one line says what and what to do),
130 interrupted.
"""

import sys

import typer
from rich.console import Console

from helpers.errors import LabError
from solutions.pipeline.commands import budget, core, measure, report

__all__ = ["app", "main"]

INTERRUPTED = 130

app = typer.Typer(
    help="Take a PyTorch classifier to optimised TensorRT engines: export, build, measure, compare, report.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for _module in (core, measure, budget, report):
    _module.register(app)


def main() -> None:
    """Run the command line; turn the user's errors into one line and exit code 2."""
    try:
        app()
    except LabError as error:
        Console(stderr=True, soft_wrap=True).print(f"[bold red]error:[/] {_escaped(error)}", highlight=False)
        sys.exit(2)
    except SystemExit as done:
        if done.code == INTERRUPTED:
            Console(stderr=True).print("interrupted; run the same command again to go on")
        raise


def _escaped(error: LabError) -> str:
    from rich.markup import escape

    return escape(" ".join(str(error).split()))


if __name__ == "__main__":
    main()
