"""What the commands print with: tables on stdout, progress on stderr."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

_PIPE_WIDTH = 160


def print_line(text: str) -> None:
    """Print one line, never wrapped; square brackets and words between colons are text."""
    Console(soft_wrap=True, highlight=False, emoji=False).print(text, markup=False)


def print_notes(*texts: str) -> None:
    """Print what had to be assumed, a line each; nothing for an empty text."""
    for text in filter(None, texts):
        print_line(f"note: {text}")


def print_table(title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]], caption: str = "") -> None:
    """Print a table between its title and caption, lines that its width does not wrap; ">" aligns a column right."""
    table = Table(
        *(
            Column(name.lstrip(">"), justify="right" if name.startswith(">") else "left", overflow="fold")
            for name in columns
        )
    )
    for row in rows:
        table.add_row(*map(str, row))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    print_line(title)
    console.print(table, markup=False)
    if caption:
        print_line(caption)


@contextlib.contextmanager
def working(text: str) -> Iterator[Callable[[str], None]]:
    """Show `text` and the elapsed time on a terminal while the block runs; gives a function that changes the text."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(text, total=None)
        yield lambda description: progress.update(task, description=description)
