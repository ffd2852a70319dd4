"""Plain data as bytes: all that may pass between the points and the student's code.

None, booleans, numbers, text, bytes, NumPy arrays of numbers, lists and dictionaries with text keys. Objects never
pass, so the student's side can run in another process, and a reply cannot carry behaviour. The bytes are the length of
a JSON text (eight bytes, little-endian), that text with {"$bytes": length} and {"$array": length, …} instead of bytes
and arrays, and their contents in order. Each is read once, so a short reply cannot expand into a long one. A student's
dictionary that looks like such a mark is read as one.

`unpack` returns plain data or raises NotPlainDataError for any bytes: they may be hostile.
"""

import io
import json
import re
from functools import partial
from typing import Any

import numpy as np

from trtcpu.bounded_json import loads

MOST_BYTES = 512 << 20
"""Most bytes of one message; the lab's longest is an engine with its images."""

_MOST_TEXT, _MOST_VALUES, _MOST_DEPTH = 16 << 20, 500_000, 50
_KINDS = "biufc"
_DTYPE = re.compile(rf"[<>|][{_KINDS}]\d{{1,2}}")
_LENGTH = 8
_HALF_A_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")


class NotPlainDataError(Exception):
    """A value that is not plain data, or too much data."""


def pack(value: Any) -> bytes:
    """Return `value` as bytes: JSON, followed by the contents of arrays and bytes.

    Raises:
        NotPlainDataError: it holds an object, a text that is not Unicode, or too much data.
    """
    contents: list[bytes] = []
    try:
        text = json.dumps(value, ensure_ascii=False, default=partial(_mark, contents)).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise NotPlainDataError(f"{str(error)[:200]}: it is not plain data") from error
    if len(text) > _MOST_TEXT or (size := len(text) + sum(map(len, contents))) > MOST_BYTES - _LENGTH:
        raise NotPlainDataError(f"{max(len(text), size) / 1e6:.0f} MB are more than may pass")
    return b"".join([len(text).to_bytes(_LENGTH, "little"), text, *contents])


def unpack(data: bytes) -> Any:
    """Return the value that `pack` wrote; tuples come back as lists.

    Raises:
        NotPlainDataError: the bytes are not what `pack` writes.
    """
    end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    text, contents = data[_LENGTH:end], io.BytesIO(data)
    try:
        if len(data) > MOST_BYTES or end > len(data) or _HALF_A_CHARACTER.search(text.replace(rb"\\", b"")):
            raise ValueError("it is cut off, longer than anything that may pass, or no text")
        contents.seek(end)
        limits = {"largest": _MOST_TEXT, "values": _MOST_VALUES, "depth": _MOST_DEPTH}
        value = loads(text, **limits, object_hook=partial(_marked, contents))
        if contents.read(1):
            raise ValueError("there are more bytes than it names")
        return value
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise NotPlainDataError(f"the reply cannot be read: {str(error)[:200]}") from error


def _mark(contents: list[bytes], value: Any) -> Any:
    """Return the mark for a value that JSON does not have; its bytes join the contents."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        contents.append(bytes(value))
        return {"$bytes": len(contents[-1])}
    if isinstance(value, np.ndarray):
        array = np.asarray(value)  # a subclass may answer as it likes
        if array.dtype.kind in "SU":
            return array.tolist()
        if array.dtype.kind in _KINDS:
            contents.append(array.tobytes())
            return {"$array": len(contents[-1]), "dtype": array.dtype.str, "shape": array.shape}
    if isinstance(value, (np.bool_, np.number)):
        return value.item()
    raise NotPlainDataError(f"{type(value).__name__} is not plain data")


def _marked(contents: io.BytesIO, found: dict[str, Any]) -> Any:
    if "$bytes" in found:
        return contents.read(found["$bytes"])
    if "$array" not in found:
        return found
    if not _DTYPE.fullmatch(found["dtype"]):
        raise ValueError(f"arrays of {found['dtype']!r:.40} do not pass")
    return np.frombuffer(contents.read(found["$array"]), found["dtype"]).reshape(found["shape"]).copy()
