"""What a plan's header must hold, asked before anything reads a header that came from outside.

plan_header.json is the schema; this module checks that fields agree with each other. A checksum shows that nothing
changed since the plan was sealed, not who sealed it: a header may be well-formed JSON and nonsense. runtime/loaded.py
compares it with the compiled model's tensors; only OpenVINO can judge that model's bytes.
"""

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fastjsonschema

from trtcpu.api.enums import DataType, ProfilingVerbosity

_SHOWN = 60


@functools.cache
def _fits_schema() -> Callable[[Any], Any]:
    schema = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    for name, enumeration in (("data_type", DataType), ("verbosity", ProfilingVerbosity)):
        schema["definitions"][name] = {"enum": list(enumeration.__members__)}
    return fastjsonschema.compile(schema)


def check_header(header: Mapping[str, Any]) -> None:
    """Accept a header that a runtime can work with.

    Raises:
        ValueError: a field is missing, unknown or impossible; the text says which and what is expected.
    """
    try:
        _fits_schema()(header)
    except fastjsonschema.JsonSchemaValueException as error:
        raise ValueError(f"{error.message.replace('data.', '', 1)}, found {repr(error.value)[:_SHOWN]}") from error
    bindings = header["bindings"]
    names = [binding["name"] for binding in bindings]
    _check("the bindings' names", names, len(set(names)) == len(names), "names that differ")
    inputs = {binding["name"]: binding["shape"] for binding in bindings if binding["is_input"]}
    for binding in bindings:
        followed = [size for size in binding["shape"] if isinstance(size, list)]
        good = not followed if binding["is_input"] else all(_is_open(inputs, *size) for size in followed)
        _check(f"the shape of {binding['name']!r}", binding["shape"], good, "sizes, -1 or an input's [name, axis]")
    for index, profile in enumerate(header["profiles"]):
        _check(f"profiles[{index}]", profile, set(profile) == set(inputs), f"the shapes of {list(inputs)}")
        for name, shapes in profile.items():
            what, expected = f"profiles[{index}] of {name!r}", f"[min, opt, max] in order, of {inputs[name]}"
            _check(what, shapes, _is_range(shapes, inputs[name]), expected)


def _check(what: str, found: Any, good: bool, expected: str) -> None:
    if not good:
        raise ValueError(f"{what}: found {repr(found)[:_SHOWN]}, expected {expected}")


def _is_open(inputs: Mapping[str, list[int]], name: str, axis: int) -> bool:
    """Say whether an input leaves this axis open."""
    return inputs.get(name, [])[axis : axis + 1] == [-1]


def _is_range(shapes: list[list[int]], sizes: list[int]) -> bool:
    """Say whether [min, opt, max] are in order and keep an input's fixed sizes."""
    if any(len(shape) != len(sizes) for shape in shapes):
        return False
    ordered = all(low <= best <= high for low, best, high in zip(*shapes, strict=True))
    return ordered and all(fixed in (-1, size) for shape in shapes for fixed, size in zip(sizes, shape, strict=True))
