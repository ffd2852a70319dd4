"""What may pass between the claims and the student's code."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from helpers.checks.probes.codec import NotPlainDataError, pack, unpack

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(PLAIN)
def test_plain_data_comes_back_as_it_went(value: object) -> None:
    assert unpack(pack(value)) == value


@given(npst.arrays(st.sampled_from(["f4", "f8", "i8", "u1", "?"]), npst.array_shapes(min_dims=0, max_dims=4)))
def test_arrays_come_back_with_dtype_and_shape(array: np.ndarray) -> None:
    found = unpack(pack({"array": array}))["array"]
    assert found.dtype == array.dtype and found.shape == array.shape
    np.testing.assert_array_equal(found, array)


class Lying(np.ndarray):
    """An array that says it holds something else."""

    def tobytes(self, order: str = "C") -> bytes:
        """Return nothing of what it holds."""
        return b"\0" * self.nbytes


def test_an_array_s_contents_pass_whatever_its_class_says() -> None:
    found = unpack(pack(np.ones((2, 3), np.float32).view(Lying)))
    assert type(found) is np.ndarray and np.array_equal(found, np.ones((2, 3)))


@pytest.mark.parametrize("value", [object(), lambda: 1, np.array([object()]), {"f": print}, "\ud800", {(1, 2): 3}])
def test_objects_do_not_pass(value: object) -> None:
    with pytest.raises(NotPlainDataError):
        pack(value)


def _packed(text: bytes, contents: bytes = b"") -> bytes:
    return len(text).to_bytes(8, "little") + text + contents


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        _packed(b"[1"),
        _packed(b'{"$bytes": 2}', b"abc"),
        _packed(b'{"$bytes": 1000000000000000000000}', b"abc"),
        _packed(b'{"$bytes": [0, 3]}', b"abc"),
        _packed(b'{"$array": 3, "dtype": "O", "shape": [1]}', b"abc"),
        _packed(b'{"$array": 3, "dtype": "<f4", "shape": [1]}', b"abc"),
        _packed(b"[1]")[:-1],
        _packed(b'{"$array": 4, "dtype": "f4,(", "shape": [1]}', b"abcd"),
        _packed(b'{"$array": 4, "dtype": ["f4"], "shape": [1]}', b"abcd"),
        _packed(b'{"$array": 0, "dtype": "<U0", "shape": [9]}'),
        _packed(b'{"$array": 0, "dtype": "<f4", "shape": [0, 1000000000000000000000]}'),
        _packed(b'{"$array": 4, "dtype": "<U1", "shape": [1]}', b"\xff\xff\xff\xff"),
        _packed(b'"\\ud800"'),
        _packed(b"1" + b"0" * 300),
        _packed(b"[" * 60 + b"]" * 60),
        _packed(b"[" * 100_000 + b"]" * 100_000),
        _packed(b"[" + b"[]," * 500_000 + b"[]]"),
        _packed(b"[1]" + b" " * (17 << 20)),
    ],
)
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(NotPlainDataError):
        unpack(data)
