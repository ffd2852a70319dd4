"""Plans of the CPU engine: an engine that can be looked at, or None with a logged reason."""

import hashlib
import json
import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import JSON, NUMBERS, cases, spoilt
from tests.fuzz.changes import changed
from tests.others.engine import Log
from tests.trtcpu.runtime.test_foreign_headers import MAGIC, _look_at, _sealed, trt
from trtcpu.plan import seal

VALUES = JSON | NUMBERS | st.sampled_from(["input", "HALF", "INT64", [-1, 2**62], [["input", 0], 10]])


def _resealed(text: bytes) -> bytes:
    body = struct.pack("<I", len(text)) + text + _sealed()[1]
    return MAGIC + hashlib.sha256(body).digest() + body


def _loads(data: bytes) -> None:
    logger = Log()
    engine = trt.Runtime(logger).deserialize_cuda_engine(data)
    assert (engine is None) == bool(logger.errors)
    if engine is not None:
        _look_at(engine)


@given(header=changed(_sealed()[0], VALUES))
@cases(60)
def test_a_header_that_says_something_else_under_a_right_checksum(header: Any) -> None:
    _loads(seal(MAGIC, header, _sealed()[1]))


@given(text=spoilt(json.dumps(_sealed()[0]).encode()))
@cases(60)
def test_a_header_that_is_no_json_under_a_right_checksum(text: bytes) -> None:
    _loads(_resealed(text))


@given(data=spoilt(seal(MAGIC, *_sealed())[:400]))
@cases(60)
def test_spoilt_bytes(data: bytes) -> None:
    _loads(data)
