"""What `bench --streams`, `--cuda-graphs` and `--with-copies` ask for, measure and print."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trtcpu.errors import InputError
from trtlab.commands.console import print_line, print_table
from trtlab.commands.multivalue import integers

if TYPE_CHECKING:
    from trtlab.timing.runners import Runner
    from trtlab.timing.streams import StreamOptions, StreamResult

SECONDS = 1.0


def stream_options(
    streams: list[str] | None, cuda_graphs: bool, with_copies: bool, seconds: float, engines: Sequence[Path]
) -> "StreamOptions | None":
    """Return what to measure in streams, each point for `seconds` (0: one second); None where nothing asks for it.

    Raises:
        InputError: a number of streams that is none, or no engine to run in them.
    """
    from trtlab.timing.streams import StreamOptions

    if streams is None and not cuda_graphs and not with_copies:
        return None
    if not engines:
        raise InputError("--streams measures engines, and none was given; add --engine or --engines")
    numbers = (1,) if streams is None else tuple(integers(streams, "--streams"))
    return StreamOptions(numbers, cuda_graphs, with_copies, seconds or SECONDS)


def run_in_streams(
    engines: "Sequence[tuple[Path, Runner]]",
    batch_sizes: Sequence[int],
    options: "StreamOptions | None",
    progress: Callable[[str], None],
    note: Callable[[str], None],
) -> "list[StreamResult]":
    """Measure the engines, each with the runner that runs it alone, in streams; nothing where `options` is None."""
    if options is None:
        return []
    from trtlab.timing.streams import measure_streams

    return measure_streams(engines, batch_sizes, options, progress=progress, note=note)


def print_streams(results: "Sequence[StreamResult]") -> None:
    """Print the results as a table; nothing where there are none."""
    from trtlab.ran_in import ran_text

    if not results:
        return
    rows = [
        (
            result.name, ran_text(result.precision, result.ran_in) or "–", result.batch, result.streams,
            "yes" if result.cuda_graphs else "no", f"{result.executions:,}", f"{result.images_per_s:,.1f}",
        )
        for result in results
    ]  # fmt: skip
    columns = ("name", "ran in", ">batch", ">streams", "graphs", ">n", ">images/s")
    kept = "copied in and out each time" if results[0].copies else "resident on the device"
    print_table("Streams", columns, rows, f"n batches; images/s of all streams together, data {kept}")
    print_line(_best(results))


def _best(results: "Sequence[StreamResult]") -> str:
    """Return the fastest point in a line, against its engine at the same batch in one stream without graphs."""
    best = max(results, key=lambda result: result.images_per_s)
    text = f"best: {best.name} at batch {best.batch}: {best.images_per_s:,.1f} images/s"
    for other in results:
        if (other.engine, other.batch, other.streams, other.cuda_graphs) == (best.engine, best.batch, 1, False):
            gain = best.images_per_s / other.images_per_s
            return text + (f", {gain:.2f}× one stream without graphs" if other is not best else "")
    return text
