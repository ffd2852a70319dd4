"""`python -m solutions.grading.new_step 17_padding`: lays out a step, and says what comes next."""

import sys
from typing import Annotated

import typer

from solutions.grading.layout import ROOT
from solutions.grading.new_step.lay_out import lay_out
from trtcpu.errors import LabError

_NEXT = """\
It works as it is. What comes next:
  make labs  # the students' notebook, the tables of steps
  make submissions STEP={name}  # its messages, the size of the bank
Then replace the example: CONTRIBUTING.md, "Add a step", says in which order."""


def main(name: Annotated[str, typer.Argument(help="Two digits and a word, such as 17_padding.")]) -> None:
    """Lay out a new optional step in this repository."""
    try:
        written = lay_out(name, ROOT)
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    print("\n".join([f"{name}:", *(f"  {path}" for path in written), _NEXT.format(name=name)]))


if __name__ == "__main__":
    typer.run(main)
