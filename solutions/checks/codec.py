"""Plain data as bytes: what may pass between the claims and the student's code, and nothing else.

None, booleans, numbers, text, bytes, NumPy arrays, lists and dictionaries with text keys. Objects never pass, so that
the student's side can run in another process, and a reply cannot carry behaviour. The bytes are the length of a JSON
text (eight bytes, little-endian), that text, and the contents of the arrays and bytes that it points into.
"""

import json
from typing import Any

import numpy as np

__all__ = ["NotPlainDataError", "pack", "unpack"]

_KINDS = "biufcSU"
_LENGTH = 8


class NotPlainDataError(Exception):
    """A value that is more than data."""


def pack(value: Any) -> bytes:
    """Return `value` as bytes: what JSON has in JSON, arrays and bytes behind it.

    Raises:
        NotPlainDataError: it holds an object.
    """
    contents: list[bytes] = []
    text = json.dumps(_plain(value, _Places(contents))).encode()
    return b"".join([len(text).to_bytes(_LENGTH, "little"), text, *contents])


def unpack(data: bytes) -> Any:
    """Return the value that `pack` wrote; tuples come back as lists.

    Raises:
        NotPlainDataError: the bytes are not what `pack` writes.
    """
    end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    try:
        return _value(json.loads(bytes(data[_LENGTH:end])), memoryview(data)[end:])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotPlainDataError(f"the reply cannot be read: {error}") from error


class _Places:
    """Where contents lie behind the text: their first byte and their number of bytes."""

    def __init__(self, contents: list[bytes]) -> None:
        self._contents, self._end = contents, 0

    def of(self, content: bytes) -> list[int]:
        self._contents.append(content)
        self._end += len(content)
        return [self._end - len(content), len(content)]


def _plain(value: Any, places: _Places) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$bytes": places.of(bytes(value))}
    if isinstance(value, np.ndarray):
        array = np.asarray(value)  # a subclass may answer as it likes
        if array.dtype.kind in _KINDS:
            return {"$array": places.of(array.tobytes()), "dtype": array.dtype.str, "shape": list(array.shape)}
    if isinstance(value, (np.bool_, np.number)):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [_plain(item, places) for item in value]
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return {"$dict": {key: _plain(item, places) for key, item in value.items()}}
    raise NotPlainDataError(f"{type(value).__name__} is not plain data")


def _value(found: Any, contents: memoryview) -> Any:
    if isinstance(found, list):
        return [_value(item, contents) for item in found]
    if not isinstance(found, dict):
        return found
    if "$dict" in found:
        return {key: _value(item, contents) for key, item in found["$dict"].items()}
    if "$bytes" in found:
        return bytes(_content(found["$bytes"], contents))
    dtype = np.dtype(found["dtype"])
    if dtype.kind not in _KINDS:
        raise ValueError(f"arrays of {dtype} do not pass")
    return np.frombuffer(_content(found["$array"], contents), dtype).reshape(found["shape"]).copy()


def _content(place: list[int], contents: memoryview) -> memoryview:
    first, length = place
    if not 0 <= first <= first + length <= len(contents):
        raise ValueError(f"bytes {first} to {first + length} of {len(contents)}")
    return contents[first : first + length]
