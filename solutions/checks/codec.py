"""Plain data as bytes: what may pass between the claims and the student's code, and nothing else.

None, booleans, numbers, text, bytes, NumPy arrays, lists and dictionaries with text keys. Objects never pass, so that
the student's side can run in another process, and a reply cannot carry behaviour.
"""

import base64
import json
from typing import Any

import numpy as np

__all__ = ["NotPlainDataError", "pack", "unpack"]

_KINDS = "biufcSU"


class NotPlainDataError(Exception):
    """A value that is more than data."""


def pack(value: Any) -> bytes:
    """Return `value` as UTF-8 JSON; arrays and bytes in base64.

    Raises:
        NotPlainDataError: it holds an object.
    """
    return json.dumps(_plain(value)).encode()


def unpack(data: bytes) -> Any:
    """Return the value that `pack` wrote; tuples come back as lists.

    Raises:
        NotPlainDataError: the bytes are not what `pack` writes.
    """
    try:
        return _value(json.loads(data))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotPlainDataError(f"the reply cannot be read: {error}") from error


def _plain(value: Any) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$bytes": _base64(bytes(value))}
    if isinstance(value, np.ndarray) and value.dtype.kind in _KINDS:
        whole = np.ascontiguousarray(value)
        return {"$array": _base64(whole.tobytes()), "dtype": whole.dtype.str, "shape": list(value.shape)}
    if isinstance(value, (np.bool_, np.number)):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return {"$dict": {key: _plain(item) for key, item in value.items()}}
    raise NotPlainDataError(f"{type(value).__name__} is not plain data")


def _value(found: Any) -> Any:
    if isinstance(found, list):
        return [_value(item) for item in found]
    if not isinstance(found, dict):
        return found
    if "$dict" in found:
        return {key: _value(item) for key, item in found["$dict"].items()}
    if "$bytes" in found:
        return base64.b64decode(found["$bytes"], validate=True)
    dtype = np.dtype(found["dtype"])
    if dtype.kind not in _KINDS:
        raise ValueError(f"arrays of {dtype} do not pass")
    return np.frombuffer(base64.b64decode(found["$array"], validate=True), dtype).reshape(found["shape"]).copy()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
