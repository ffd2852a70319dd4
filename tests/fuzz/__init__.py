"""Whatever a stranger's bytes are, what reads them gives a value or its own error. `make fuzz` tries more of them."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

__all__ = ["ASKED", "JSON", "cases", "spoilt"]

ASKED: list[int] = []
"""How many cases `--fuzz-cases` asks for, which need their time; empty if it does not."""


def cases(sample: int, tests: int = 1) -> settings:
    """Return the settings of a test: `sample` cases, the same ones each time, or as many new ones as were asked for.

    Those that were asked for are shared by so many `tests`.
    """
    return settings(
        max_examples=max(1, ASKED[0] // tests) if ASKED else sample,
        derandomize=not ASKED,
        suppress_health_check=list(HealthCheck),
    )


NUMBERS = st.integers() | st.floats() | st.sampled_from([0, -1, 2**31, 2**63, 2**64, 10**300, -0.0, 1e308])
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
"""Any value of JSON, and the numbers that it is not made for."""


@st.composite
def spoilt(draw: st.DrawFn, good: bytes) -> bytes:
    """Return good bytes with some overwritten, taken out, doubled or put in; or any bytes."""
    data = bytearray(good)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        length = draw(st.sampled_from([0, 1, 2, 8, 64]))
        data[at : at + length] = draw(st.binary(max_size=8) | st.just(bytes(data[at : at + length]) * 2))
    return bytes(data) if draw(st.integers(0, 9)) else draw(st.binary(max_size=200))
