"""JSON from a stranger: its size, depth and number of values are known before anything of it is made.

A parser makes what it reads: eight megabytes of `[]` become 267 MB of lists, and depth is the interpreter's own stack.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np

_DIGITS = 300  # of one integer: it fits into a float, and Python turns long ones into numbers in quadratic time


def loads(
    data: bytes,
    *,
    largest: int,
    values: int = 1_000_000,
    depth: int = 100,
    object_hook: Callable[[dict[str, Any]], Any] | None = None,
) -> Any:
    """Return what a JSON text in UTF-8 holds, which a byte-order mark may begin.

    Args:
        data: the text.
        largest: bytes that it may have.
        values: numbers, texts, lists and objects that it may hold, names counted.
        depth: lists and objects that may lie in each other.
        object_hook: as json.loads has it.

    Raises:
        ValueError: it is none, or passes a limit; the message says what was found and the limit.
    """
    if len(data) > largest:
        raise ValueError(f"{len(data):,} bytes, at most {largest:,} are read")
    _check_structure(data, values, depth)
    return json.loads(data.decode("utf-8-sig"), parse_int=_integer, object_hook=object_hook)


def _check_structure(data: bytes, values: int, depth: int) -> None:
    """Count without parsing: what stands outside of texts, which quotes without a backslash begin and end."""
    data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    found = data.count(b'"') // 2
    if found <= values:  # cutting a text into that many pieces costs no more than the values would
        outside = b"".join(data.split(b'"')[::2])
        found = max(found, 1 + sum(map(outside.count, (b",", b":", b"[", b"{"))))
    if found > values:
        raise ValueError(f"about {found:,} values, at most {values:,} are read")
    brackets = np.frombuffer(outside.translate(None, delete=_OTHERS), np.uint8)
    nested = int(np.cumsum(np.where(np.isin(brackets, _OPENING), 1, -1)).max(initial=0))
    if nested > depth:
        raise ValueError(f"lists in each other {nested:,} deep, at most {depth:,} are read")


_OPENING = np.frombuffer(b"[{", np.uint8)
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))


def _integer(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError(f"an integer of {len(text):,} digits, at most {_DIGITS} are read")
    return int(text)
