"""Where rendered and downloaded files are kept, and how their making is shown."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from threading import RLock
from typing import Any

DATA_VARIABLE = "TRT_LAB_DATA"
_DEFAULT = Path(__file__).resolve().parents[2] / "datasets" / "cache"
# For tqdm, whose own lock is a semaphore that outlives a process that is killed.
_LOCK = RLock()


def data_root(root: str | Path | None = None) -> Path:
    """Return the folder asked for, else the one that TRT_LAB_DATA names, else datasets/cache."""
    chosen = root or os.environ.get(DATA_VARIABLE) or _DEFAULT
    return Path(chosen).expanduser().absolute()


def progress_bar(items: Iterable[Any] | None, description: str, unit: str, shown: bool, **options: Any) -> Any:
    """Return tqdm over `items` (or a bar to update by hand), on stderr.

    It appears on terminals only: a notebook's graded cell must not write to stderr, and a log needs no bar.
    """
    from tqdm import tqdm

    tqdm.set_lock(_LOCK)
    disable = None if shown else True
    return tqdm(items, desc=description, unit=unit, file=sys.stderr, disable=disable, dynamic_ncols=True, **options)


def one_line(error: Exception) -> str:
    """Return the first line of what an error says, else its class: other libraries' messages can run over many.

    A line that only announces the next one, as PyTorch's compilers have, is left out.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line.rstrip(" :") for line in lines if not line.endswith("raised:")), type(error).__name__)
