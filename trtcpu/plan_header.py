"""What a plan's header must hold: the one schema, asked before anything reads a header that came from outside.

A checksum says that bytes are as they were sealed, not who sealed them: a header may be well-formed JSON and nonsense.
What the compiled model itself says of its tensors is compared in runtime/loaded.py; its bytes only OpenVINO can judge.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from trtcpu.api.enums import DataType, ProfilingVerbosity
from trtcpu.api.types import Dims

_INT64 = 2**63
_SHOWN = 60

Test = Callable[[Any], bool]


def check_header(header: Mapping[str, Any]) -> None:
    """Accept a header that a runtime can work with.

    Raises:
        ValueError: a field is missing, unknown or impossible; the text says which, what was found and what is expected.
    """
    _check_fields("the header", header, _HEADER)
    for index, binding in enumerate(header["bindings"]):
        _check_fields(f"bindings[{index}]", binding, _BINDING)
    names = [binding["name"] for binding in header["bindings"]]
    _check("the bindings' names", names, len(set(names)) == len(names), "names that differ")
    inputs = {binding["name"]: binding["shape"] for binding in header["bindings"] if binding["is_input"]}
    for binding in header["bindings"]:
        allowed = _is_size if binding["is_input"] else partial(_is_size_or_follows, inputs=inputs)
        what = f"the shape of {binding['name']!r}"
        _check(what, binding["shape"], _is_shape(binding["shape"], allowed), "sizes, -1 or an input's [name, axis]")
    for index, profile in enumerate(header["profiles"]):
        _check(f"profiles[{index}]", profile, set(profile) == set(inputs), f"the shapes of {list(inputs)}")
        for name, shapes in profile.items():
            what, expected = f"profiles[{index}] of {name!r}", f"[min, opt, max] in order, of {inputs[name]}"
            _check(what, shapes, _is_range(shapes, inputs[name]), expected)


def _check(what: str, found: Any, good: bool, expected: str) -> None:
    if not good:
        raise ValueError(f"{what}: found {repr(found)[:_SHOWN]}, expected {expected}")


def _check_fields(what: str, value: Any, schema: Mapping[str, tuple[Test, str]]) -> None:
    fields = set(value) if isinstance(value, dict) else value
    _check(what, fields, fields == set(schema), f"exactly the fields {', '.join(schema)}")
    for name, (test, expected) in schema.items():
        _check(f"{name} of {what}", value[name], test(value[name]), expected)


def is_text(value: Any) -> bool:
    """Say whether a value of JSON is text."""
    return isinstance(value, str)


def is_int(value: Any) -> bool:
    """Say whether a value of JSON is an integer of 64 bits (true and false are none)."""
    return type(value) is int and -_INT64 <= value < _INT64


def is_count(value: Any) -> bool:
    """Say whether a value of JSON is an integer from 0 on."""
    return is_int(value) and value >= 0


def is_map(value: Any, test: Test) -> bool:
    """Say whether a value of JSON is an object whose values all pass `test`."""
    return isinstance(value, dict) and all(map(test, value.values()))


def _is_list(value: Any, test: Test) -> bool:
    return isinstance(value, list) and all(map(test, value))


def _is_member(value: Any, enum: Any) -> bool:
    return is_text(value) and value in enum.__members__


def _is_shape(value: Any, test: Test) -> bool:
    return _is_list(value, test) and len(value) <= Dims.MAX_DIMS


def _is_size(value: Any) -> bool:
    return is_int(value) and value >= -1


def _is_size_or_follows(value: Any, inputs: Mapping[str, list[int]]) -> bool:
    """Say whether an output's size is a size, or [input, axis] of an axis that this input leaves open."""
    if not isinstance(value, list):
        return _is_size(value)
    if len(value) != 2 or not is_text(value[0]) or not is_count(value[1]):
        return False
    return inputs.get(value[0], [])[value[1] : value[1] + 1] == [-1]


def _is_range(shapes: Any, shape: Iterable[int]) -> bool:
    """Say whether `shapes` are [min, opt, max] of an input's `shape`, whose fixed sizes they keep."""
    sizes = list(shape)
    if not _is_list(shapes, lambda one: _is_shape(one, is_count) and len(one) == len(sizes)) or len(shapes) != 3:
        return False
    ordered = all(low <= best <= high for low, best, high in zip(*shapes, strict=True))
    return ordered and all(fixed in (-1, size) for one in shapes for fixed, size in zip(sizes, one, strict=True))


def _is_facts(value: Any) -> bool:
    """Say whether this is what layer_facts.py says of one layer."""
    return isinstance(value, dict) and all(_FACTS.get(name, _is_nothing)(fact) for name, fact in value.items())


def _is_weights(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"Type", "Count"} and is_text(value["Type"])


def _is_nothing(value: Any) -> bool:
    return False


def _is_number_or_shape(value: Any) -> bool:
    return is_int(value) or _is_shape(value, is_int)


_FACTS: dict[str, Test] = {
    **dict.fromkeys(("Kernel", "Stride", "Dilation", "Groups", "OutMaps"), _is_number_or_shape),
    "Weights": _is_weights,
}
_TEXTS = (partial(is_map, test=is_text), "a text by name")
_NUMBER = (is_count, "a number from 0 on")
_HEADER: dict[str, tuple[Test, str]] = {
    "network": (is_text, "a name"),
    "hint": (lambda value: value in ("f32", "f16", "bf16"), "f32, f16 or bf16"),
    "bindings": (lambda value: isinstance(value, list) and bool(value), "one or more"),
    "profiles": (lambda value: _is_list(value, lambda one: isinstance(one, dict)) and bool(value), "one or more"),
    "flags": _NUMBER,
    "verbosity": (partial(_is_member, enum=ProfilingVerbosity), "a profiling verbosity"),
    "workspace_bytes": _NUMBER,
    "operators": _TEXTS,
    "layer_of": _TEXTS,
    "products": _TEXTS,
    "asked": (partial(is_map, test=partial(_is_member, enum=DataType)), "a data type by layer"),
    "attributes": (partial(is_map, test=_is_facts), "facts by layer"),
    "platform": _TEXTS,
}
_BINDING: dict[str, tuple[Test, str]] = {
    "name": (is_text, "a name"),
    "dtype": (partial(_is_member, enum=DataType), "a data type"),
    "shape": (lambda value: isinstance(value, list), "a list"),
    "is_input": (lambda value: isinstance(value, bool), "true or false"),
}
