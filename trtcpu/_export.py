"""The bytes of a model that OpenVINO has exported, read without it.

An export is a magic, a version, a length and text; six lengths, the last two the place and size of the XML; weights;
and the XML, which is hidden behind a fixed key.
"""

import re
import struct
from collections import Counter

import numpy as np

_SIZES = 48
_KEY = bytes.fromhex("3060700204083f6f7274787f")
_NAMES = re.compile(rb'(?:<layer id="\d+" name=|name="fused_names" version="\d+" value=)"[^"]*"')
_CONSTANT = re.compile(rb'<data element_type="(\w+)" shape="[^"]*" offset="\d+" size="(\d{1,15})"')
"""A plan may be a stranger's: int() refuses numbers of thousands of digits."""


def without_made_up_names(blob: bytes) -> bytes:
    """Return an export without the numbers in its nodes' names, for comparisons; unchanged if it is unreadable.

    OpenVINO numbers what it makes up in the order of the process: the same network is `Reshape_13` in one export and
    `Reshape_84` in the next, all else being equal.
    """
    body, xml = _parts(blob)  # without the XML's own size, which depends on its numbers
    return body + _NAMES.sub(lambda found: re.sub(rb"_\d+", b"_", found[0]), xml) if xml else blob


def stored_weights(blob: bytes) -> dict[str, int]:
    """Return how many bytes of constants an export holds in each type, such as {"f16": 70496, "f32": 616}.

    That tells half precision also if the processor has none, and computes in FP32 what is stored in FP16.
    """
    found: Counter[str] = Counter()
    for name, size in _CONSTANT.findall(_parts(blob)[1]):
        found[name.decode()] += int(size)
    return dict(found)


def _parts(blob: bytes) -> tuple[bytes, bytes]:
    """Return what stands before the XML, without the six lengths, and the XML; b"" for it if it is unreadable."""
    try:
        (length,) = struct.unpack_from("<Q", blob, 12)
        head = 20 + length
        place, size = struct.unpack_from("<32x2Q", blob, head)
    except struct.error:
        return blob, b""
    hidden = np.frombuffer(blob[head + place : head + place + size], np.uint8)
    xml = np.bitwise_xor(hidden, np.resize(np.frombuffer(_KEY, np.uint8), len(hidden))).tobytes()
    return (blob[:head] + blob[head + _SIZES : head + place], xml) if xml.startswith(b"<?xml") else (blob, b"")
