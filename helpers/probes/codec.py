"""Plain data as bytes: what may pass between the claims and the student's code, and nothing else.

None, booleans, numbers, text, bytes, NumPy arrays, lists and dictionaries with text keys. Objects never pass, so that
the student's side can run in another process, and a reply cannot carry behaviour. The bytes are the length of a JSON
text (eight bytes, little-endian), that text with their lengths in place of arrays and bytes, and the contents of these
in order: each is read once, so that a short reply cannot unfold into a long one.
"""

import io
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
    text = json.dumps(_plain(value, contents)).encode()
    return b"".join([len(text).to_bytes(_LENGTH, "little"), text, *contents])


def unpack(data: bytes) -> Any:
    """Return the value that `pack` wrote; tuples come back as lists.

    Raises:
        NotPlainDataError: the bytes are not what `pack` writes.
    """
    end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    contents = io.BytesIO(data[end:])
    try:
        value = _value(json.loads(data[_LENGTH:end]), contents)
        if contents.read(1):
            raise ValueError("there are more bytes than it names")
        return value
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise NotPlainDataError(f"the reply cannot be read: {error}") from error


def _plain(value: Any, contents: list[bytes]) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$bytes": _appended(bytes(value), contents)}
    if isinstance(value, np.ndarray):
        array = np.asarray(value)  # a subclass may answer as it likes
        if array.dtype.kind in _KINDS:
            length = _appended(array.tobytes(), contents)
            return {"$array": length, "dtype": array.dtype.str, "shape": list(array.shape)}
    if isinstance(value, (np.bool_, np.number)):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [_plain(item, contents) for item in value]
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return {"$dict": {key: _plain(item, contents) for key, item in value.items()}}
    raise NotPlainDataError(f"{type(value).__name__} is not plain data")


def _value(found: Any, contents: io.BytesIO) -> Any:
    if isinstance(found, list):
        return [_value(item, contents) for item in found]
    if not isinstance(found, dict):
        return found
    if "$dict" in found:
        return {key: _value(item, contents) for key, item in found["$dict"].items()}
    if "$bytes" in found:
        return _content(found["$bytes"], contents)
    dtype = np.dtype(found["dtype"])
    if dtype.kind not in _KINDS:
        raise ValueError(f"arrays of {dtype} do not pass")
    return np.frombuffer(_content(found["$array"], contents), dtype).reshape(found["shape"]).copy()


def _appended(content: bytes, contents: list[bytes]) -> int:
    contents.append(content)
    return len(content)


def _content(length: int, contents: io.BytesIO) -> bytes:
    content = contents.read(length)
    if len(content) != length:
        raise ValueError(f"{len(content)} bytes where {length} should be")
    return content
