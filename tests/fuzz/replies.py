"""Replies that a stranger forged: values of the form that a probe's annotation asks for, like an honest one or not."""

import types
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np
from hypothesis import strategies as st
from typeguard import TypeCheckError, check_type

from tests.fuzz import JSON

TEXTS = st.text(max_size=12) | st.sampled_from(["float", "int8", "RuntimeError", "NaN", "0"])
FLOATS = st.floats() | st.sampled_from([0.0, -1.5, 1e308, 5e-324, 2.0**255, 3])
SHAPES = st.lists(st.integers(0, 4), max_size=4) | st.sampled_from([(5, 12), (1, 17), (0, 192)])
DTYPES = st.sampled_from(["f4", "f8", "f2", "i1", "i8", "u1", "?", "c8", "S3", "U2"])
ARRAYS = st.builds(np.full, SHAPES, st.sampled_from([0, 1, -1.5, np.nan, np.inf])) | st.builds(np.zeros, SHAPES, DTYPES)
HOW = st.sampled_from(["replace", "replace", "remove", "cut", "double"])
LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    Any: JSON,
    type(None): st.none(),
    bool: st.booleans(),
    int: st.integers(-5, 50) | st.sampled_from([2**31, 2**63, 2**255, -(2**255), True]),
    float: FLOATS,
    str: TEXTS,
    bytes: st.binary(max_size=16),
    np.ndarray: ARRAYS,
}
# Not any byte of a file: what loads a spoilt one may break, and does so in a sandbox, not in a test's process.
_ALTERATIONS = {
    bytes: [lambda data: data[: len(data) // 2], lambda data: data * 2],
    np.ndarray: [
        np.ravel,
        np.transpose,
        lambda array: np.atleast_1d(array)[:-1],
        lambda array: array[None],
        lambda array: np.full(array.shape, np.nan, np.float32),
        *(lambda array, dtype=dtype: np.zeros(array.shape, dtype) for dtype in ("f8", "i8", "c8", "U4", "?")),
    ],
}


@cache
def valued(schema: Any) -> st.SearchStrategy[Any]:
    """Return the strategy of a schema's values."""
    arguments = get_args(schema)
    if schema in LEAVES:
        return LEAVES[schema]
    if is_typeddict(schema):
        return st.fixed_dictionaries({name: valued(part) for name, part in get_type_hints(schema).items()})
    if get_origin(schema) is Literal:
        return st.sampled_from(arguments)
    if _is_union(schema):
        return st.one_of(*map(valued, arguments))
    if get_origin(schema) is dict:
        return st.dictionaries(TEXTS, valued(arguments[1]), max_size=4)
    return st.lists(valued(arguments[0]), max_size=6)


@st.composite
def altered(draw: st.DrawFn, good: Any, schema: Any) -> Any:
    """Return `good`, a value of the schema, with one of its parts replaced, taken out or doubled; or another value."""
    own = next((one for one in get_args(schema) if _is_union(schema) and _fits(good, one)), schema)
    parts = _parts(good, own)
    if not parts or draw(st.integers(0, 7)) == 0:
        alterations = [st.just(good).map(alter) for alter in _ALTERATIONS.get(type(good), [])]
        return draw(st.one_of(valued(schema), *alterations))
    key = draw(st.sampled_from(list(parts)))
    other = good.copy()
    match "replace" if is_typeddict(own) else draw(HOW):
        case "remove":
            del other[key]
        case "cut" if isinstance(good, list):
            del other[key:]
        case "double" if isinstance(good, list):
            other.insert(key, good[key])
        case _:
            other[key] = draw(altered(good[key], parts[key]))
    return other


def _parts(value: Any, schema: Any) -> dict[Any, Any]:
    """Return the schemas of what a value holds, by key or index."""
    if is_typeddict(schema):
        return get_type_hints(schema)
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return dict.fromkeys(keys, (get_args(schema) or (Any,))[-1])


def _is_union(schema: Any) -> bool:
    return get_origin(schema) in (Union, types.UnionType)


def _fits(value: Any, schema: Any) -> bool:
    try:
        check_type(value, schema)
    except TypeCheckError:
        return False
    return True
