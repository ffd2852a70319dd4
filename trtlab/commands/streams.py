"""What `bench --streams`, `--cuda-graphs` and `--with-copies` print."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trtlab.commands.console import print_line, print_table

if TYPE_CHECKING:
    from trtlab.timing.streams import StreamResult


def print_streams(results: "Sequence[StreamResult]") -> None:
    """Print the results as a table; nothing where there are none."""
    from trtlab.ran_in import ran_text

    if not results:
        return
    rows = [
        (
            f"{result.name}, {result.how}",
            ran_text(result.precision, result.ran_in) or "–",
            result.batch,
            result.streams,
            "yes" if result.cuda_graphs else "no",
            f"{result.executions:,}",
            f"{result.images_per_s:,.1f}",
        )
        for result in results
    ]
    columns = ("name", "ran in", ">batch", ">streams", "graphs", ">n", ">images/s")
    kept = "copied in and out each time" if results[0].copies else "resident on the device"
    print_table("Streams", columns, rows, f"n batches; images/s of all streams together, data {kept}")
    print_line(_best(results))


def _best(results: "Sequence[StreamResult]") -> str:
    """Return the fastest point in a line, against its engine at the same batch in one stream without graphs."""
    best = max(results, key=lambda result: result.images_per_s)
    text = f"best: {best.name}, {best.how} at batch {best.batch}: {best.images_per_s:,.1f} images/s"
    for other in results:
        if (other.name, other.batch, other.streams, other.cuda_graphs) == (best.name, best.batch, 1, False):
            gain = best.images_per_s / other.images_per_s
            return text + (f", {gain:.2f}× one stream without graphs" if other is not best else "")
    return text
