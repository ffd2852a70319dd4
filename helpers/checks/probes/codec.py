"""Plain data as bytes: what may pass between the claims and the student's code, and nothing else.

None, booleans, numbers, text, bytes, NumPy arrays, lists and dictionaries with text keys. Objects never pass, so that
the student's side can run in another process, and a reply cannot carry behaviour. The bytes are the length of a JSON
text (eight bytes, little-endian), that text with their lengths in place of arrays and bytes, and the contents of these
in order: each is read once, so that a short reply cannot unfold into a long one.

Whatever the bytes are, `unpack` gives plain data or raises NotPlainDataError: they may be written by a stranger.
"""

import json
import math
import re
from typing import Any

import numpy as np

MOST_BYTES = 512 << 20
"""Of one message; the longest of the lab is an engine with the images that it runs."""

_MOST_TEXT, _MOST_VALUES, _MOST_DEPTH, _MOST_BITS = 16 << 20, 500_000, 50, 256
_KINDS = "biufcSU"
_DTYPE = re.compile(rf"[<>|][{_KINDS}]\d{{1,8}}")
_LENGTH = 8
_LAST_CHARACTER = 0x10FFFF


class NotPlainDataError(Exception):
    """A value that is more than data, or more data than may pass."""


def pack(value: Any) -> bytes:
    """Return `value` as bytes: what JSON has in JSON, arrays and bytes behind it.

    Raises:
        NotPlainDataError: it holds an object, a text that is no Unicode, or more than the limits of `unpack`.
    """
    contents: list[bytes] = []
    text = json.dumps(_plain(value, contents, 0)).encode()
    if (size := len(text) + sum(map(len, contents))) > MOST_BYTES - _LENGTH or not _fits(text):
        raise NotPlainDataError(f"{size / 1e6:.0f} MB in {_values(text):,} values are more than may pass")
    return b"".join([len(text).to_bytes(_LENGTH, "little"), text, *contents])


def unpack(data: bytes) -> Any:
    """Return the value that `pack` wrote; tuples come back as lists.

    Raises:
        NotPlainDataError: the bytes are not what `pack` writes.
    """
    end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    try:
        text = data[_LENGTH:end]
        if len(data) > MOST_BYTES or end > len(data) or not _fits(text):
            raise ValueError("it is cut off, or longer than anything that may pass")
        contents = _Contents(data, end)
        value = _value(json.loads(text), contents, 0)
        if contents.left:
            raise ValueError("there are more bytes than it names")
        return value
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise NotPlainDataError(f"the reply cannot be read: {str(error)[:200]}") from error


def _fits(text: bytes) -> bool:
    """Return whether a JSON text is short enough to be parsed: each value in it costs many times its length."""
    return len(text) <= _MOST_TEXT and _values(text) <= _MOST_VALUES


def _values(text: bytes) -> int:
    """Return how many values a JSON text may hold; what stands in its strings counts too."""
    return 1 + sum(text.count(mark) for mark in (b",", b"[", b"{"))


class _Contents:
    """The arrays' and bytes' contents, read one after the other."""

    def __init__(self, data: bytes, start: int) -> None:
        self._data, self._at = memoryview(data), start

    @property
    def left(self) -> int:
        """Bytes that nothing has read."""
        return len(self._data) - self._at

    def read(self, length: Any) -> memoryview:
        """Return the next `length` bytes.

        Raises:
            ValueError: that is no number of bytes, or so many are not there.
        """
        if type(length) is not int or not 0 <= length <= self.left:
            raise ValueError(f"{self.left} bytes where {length!r:.40} should be")
        self._at += length
        return self._data[self._at - length : self._at]


def _plain(value: Any, contents: list[bytes], depth: int) -> Any:
    if depth > _MOST_DEPTH:
        raise NotPlainDataError(f"it is nested deeper than {_MOST_DEPTH} times")
    if value is None or type(value) in (bool, float):
        return value
    if type(value) is int:
        return _whole(value)
    if type(value) is str:
        return _text(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$bytes": _appended(bytes(value), contents)}
    if isinstance(value, np.ndarray):
        array = np.asarray(value)  # a subclass may answer as it likes
        if array.dtype.kind in _KINDS and array.dtype.itemsize:
            length = _appended(array.tobytes(), contents)
            return {"$array": length, "dtype": array.dtype.str, "shape": list(array.shape)}
    if isinstance(value, (np.bool_, np.number)):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [_plain(item, contents, depth + 1) for item in value]
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return {"$dict": {_text(key): _plain(item, contents, depth + 1) for key, item in value.items()}}
    raise NotPlainDataError(f"{type(value).__name__} is not plain data")


def _value(found: Any, contents: _Contents, depth: int) -> Any:
    if depth > _MOST_DEPTH:
        raise ValueError(f"it is nested deeper than {_MOST_DEPTH} times")
    if isinstance(found, list):
        return [_value(item, contents, depth + 1) for item in found]
    if isinstance(found, dict):
        return _marked(found, contents, depth)
    if isinstance(found, str):
        return _text(found)
    return _whole(found) if type(found) is int else found


def _marked(found: dict[str, Any], contents: _Contents, depth: int) -> Any:
    if found.keys() == {"$dict"} and isinstance(found["$dict"], dict):
        return {_text(key): _value(item, contents, depth + 1) for key, item in found["$dict"].items()}
    if found.keys() == {"$bytes"}:
        return bytes(contents.read(found["$bytes"]))
    if found.keys() != {"$array", "dtype", "shape"}:
        raise ValueError("an unknown mark")
    return _array(contents.read(found["$array"]), found["dtype"], found["shape"])


def _array(content: memoryview, dtype: Any, shape: Any) -> np.ndarray:
    if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype):
        raise ValueError(f"arrays of {dtype!r:.40} do not pass")
    kind = np.dtype(dtype)
    if not isinstance(shape, list) or len(shape) > 32 or not all(type(edge) is int and edge >= 0 for edge in shape):
        raise ValueError(f"{shape!r:.40} is no shape")
    if math.prod(shape) * kind.itemsize != len(content) or not kind.itemsize:
        raise ValueError(f"{len(content)} bytes for {shape!r:.40} of {kind}")
    if kind.kind == "U" and (np.frombuffer(content, kind.byteorder + "u4") > _LAST_CHARACTER).any():
        raise ValueError("an array of what is no text")
    return np.frombuffer(content, kind).reshape(shape).copy()


def _text(value: str) -> str:
    """Return a text that can be written to a file.

    Raises:
        NotPlainDataError: it holds half a character.
    """
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise NotPlainDataError("a text with half a character in it is not plain data") from error
    return value


def _whole(value: int) -> int:
    """Return a whole number that can become a float.

    Raises:
        NotPlainDataError: it is too large.
    """
    if value.bit_length() > _MOST_BITS:
        raise NotPlainDataError(f"a whole number of {value.bit_length()} bits is more than may pass")
    return value


def _appended(content: bytes, contents: list[bytes]) -> int:
    contents.append(content)
    return len(content)
