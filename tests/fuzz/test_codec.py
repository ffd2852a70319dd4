"""Replies: data, or NotPlainDataError."""

import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from helpers.checks.probes.codec import NotPlainDataError, pack, unpack
from tests.fuzz import JSON, NUMBERS, cases, spoilt
from tests.fuzz.changes import changed

GOOD = {"value": [1, "x", b"bytes", np.arange(6, dtype="f4").reshape(2, 3)], "error": None, "seconds": 0.5}
_PACKED = pack(GOOD)
_HEAD = json.loads(_PACKED[8 : 8 + int.from_bytes(_PACKED[:8], "little")])
_CONTENTS = _PACKED[8 + int.from_bytes(_PACKED[:8], "little") :]
DTYPES = st.sampled_from(
    ["<f4", "|O", "f4,(2,)i8", "<U9999999", "V8", "<M8[s]", "|S0", ">c16", "{'names': []}", "f" * 999]
)
MARKS = st.fixed_dictionaries(
    {},
    optional={"$array": NUMBERS, "$bytes": NUMBERS, "dtype": DTYPES | JSON, "shape": st.lists(NUMBERS)},
)


def _reads(data: bytes) -> Any:
    try:
        return unpack(data)
    except NotPlainDataError as error:
        assert str(error)
    return None


def _framed(head: Any, contents: bytes) -> bytes:
    text = json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + contents


@given(data=spoilt(_PACKED))
@cases(100)
def test_spoilt_bytes(data: bytes) -> None:
    found = _reads(data)
    assert found is None or _reads(pack(found)) is not None or pack(found)


@given(head=changed(_HEAD, JSON | MARKS), contents=st.just(_CONTENTS) | st.binary(max_size=64))
@cases(100)
def test_a_head_that_says_something_else(head: Any, contents: bytes) -> None:
    _reads(_framed(head, contents))
