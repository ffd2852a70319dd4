"""The shapes of a build's profile in trtexec's spelling: `name:1x3x224x224`, `name:min:opt:max`, several by commas."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trtcpu.errors import InputError
from trtlab.engines.tensors import InputSpec, Shape, batch_range, shape_text, volume

Range = tuple[Shape, Shape, Shape]

_SPEC = re.compile(r"""['"]?(?P<name>.+?)['"]?(?P<dims>(?::\d{1,10}(?:x\d{1,10})*)+)""")
_EXAMPLE = "--shapes input:1x3x224x224:8x3x224x224:32x3x224x224"
_LARGEST = 2**31 - 1


def parse_shapes(texts: Sequence[str], option: str, names: Sequence[str]) -> dict[str, list[Shape]]:
    """Return the shapes of each input in `texts`; `names` are the network's inputs, which may hold colons.

    Raises:
        InputError: a text that is no shape, or an input that the network does not have.
    """
    found: dict[str, list[Shape]] = {}
    for part in (part.strip() for text in texts for part in text.split(",") if part.strip()):
        match = _SPEC.fullmatch(part)
        if match is None:
            raise InputError(f"{option} {part!r} is no shape; write it as trtexec does: {_EXAMPLE}")
        name, sizes = match["name"], match["dims"][1:].split(":")
        while name not in names and len(sizes) > 1 and any(known.startswith(f"{name}:{sizes[0]}") for known in names):
            name, sizes = f"{name}:{sizes[0]}", sizes[1:]
        if name not in names:
            raise InputError(f"{option} names {name!r}, which is no input; the model has {', '.join(names)}")
        found[name] = [tuple(int(size) for size in text.split("x")) for text in sizes]
    return found


def merge_shapes(
    shapes: Sequence[str], least: Sequence[str], best: Sequence[str], most: Sequence[str], names: Sequence[str]
) -> dict[str, Range]:
    """Return the profile of each input that the four options name.

    One shape after --shapes is all three; of three options those that are missing follow their neighbour.

    Raises:
        InputError: two shapes where one or three are needed, or as `parse_shapes`.
    """
    merged: dict[str, Range] = {}
    for name, given in parse_shapes(shapes, "--shapes", names).items():
        if len(given) not in (1, 3):
            raise InputError(f"--shapes {name} has {len(given)} shapes; give one, or min:opt:max: {_EXAMPLE}")
        merged[name] = (given[0], given[len(given) // 2], given[-1])
    ends = {"--min-shapes": least, "--opt-shapes": best, "--max-shapes": most}
    parsed = {option: parse_shapes(texts, option, names) for option, texts in ends.items()}
    for name in dict.fromkeys(name for part in parsed.values() for name in part):
        low, middle, high = (part.get(name, [None])[0] for part in parsed.values())
        middle = middle or high or low
        merged[name] = (low or middle, middle, high or middle)
    return merged


def chosen_inputs(inputs: Mapping[str, InputSpec], texts: Sequence[str]) -> dict[str, InputSpec]:
    """Return an engine's inputs with the shapes in `texts`, NAME:SHAPE each, in place of the profile's best.

    An input that was not named has the batch of those that were.

    Raises:
        InputError: no shape, several for one input, one outside the profile, or two batches.
    """
    chosen = dict(inputs)
    parsed = parse_shapes(texts, "--shapes", list(inputs))
    for name, given in parsed.items():
        if len(given) > 1:
            raise InputError(f"--shapes {name} has {len(given)} shapes; an engine runs one: --shapes input:8x3x224x224")
        if not inputs[name].takes(given[0]):
            shown = shape_text(given[0])
            raise InputError(f"--shapes {name}:{shown} is outside the engine's profile: {inputs[name].described()}")
        chosen[name] = replace(inputs[name], best=given[0])
    with_batch = [name for name, spec in inputs.items() if spec.best and spec.batches == batch_range(inputs)]
    batches = {chosen[name].best[0] for name in with_batch if name in parsed}
    if len(batches) > 1:
        raise InputError(f"--shapes gives the batches {' and '.join(map(str, sorted(batches)))}; make them equal")
    for batch in batches:
        chosen |= {name: replace(chosen[name], best=(batch, *chosen[name].best[1:])) for name in with_batch}
    return chosen


def complete_ranges(
    inputs: Mapping[str, Shape], asked: Mapping[str, Range], batches: tuple[int, int, int], axes: Mapping[str, list]
) -> dict[str, Range]:
    """Return the profile of every input of a network.

    Args:
        inputs: the network's shapes, -1 where an axis is dynamic.
        asked: what the user gave.
        batches: least, best and largest batch for an input of which only axis 0 is dynamic and that was not given.
        axes: the names of the axes by input, for messages.

    Raises:
        InputError: a dynamic axis whose sizes were not given, or sizes that contradict the network or each other.
    """
    ranges = {}
    for name, shape in inputs.items():
        if name not in asked and -1 in shape[1:]:
            raise InputError(_open_axes(name, shape, axes.get(name, [])))
        own = [(batch, *shape[1:]) if shape[:1] == (-1,) else shape for batch in batches]
        ranges[name] = _checked(name, shape, asked.get(name, (own[0], own[1], own[2])))
    return ranges


def _open_axes(name: str, shape: Shape, names: Sequence[str]) -> str:
    open_axes = [names[axis] if axis < len(names) else f"axis {axis}" for axis, size in enumerate(shape) if size == -1]
    low, high = (_filled(shape, batch, size) for batch, size in ((1, 16), (8, 64)))
    return (
        f"input {name} is dynamic in {', '.join(map(str, open_axes))}, and no sizes were given; "
        f"add --shapes {name}:MIN:OPT:MAX, for example {name}:{low}:{high}:{high}"
    )


def _filled(shape: Shape, batch: int, size: int) -> str:
    """Return the shape as text, with a batch and a size where it is open."""
    sizes = (batch if axis == 0 else size for axis in range(len(shape)))
    return shape_text(tuple(known if known > 0 else wanted for known, wanted in zip(shape, sizes, strict=True)))


def _checked(name: str, shape: Shape, wanted: Range) -> Range:
    for given in wanted:
        if len(given) != len(shape):
            raise InputError(f"--shapes {name}:{shape_text(given)} has {len(given)} axes, the model's has {len(shape)}")
        for axis, (size, fixed) in enumerate(zip(given, shape, strict=True)):
            if fixed not in (-1, size):
                raise InputError(f"axis {axis} of {name} is {fixed} in the model, {size} in {shape_text(given)}")
    if any(not 1 <= low <= middle <= high for low, middle, high in zip(*wanted, strict=True)):
        shown = ":".join(map(shape_text, wanted))
        raise InputError(f"sizes must satisfy 1 <= min <= opt <= max on every axis; found {name}:{shown}")
    if volume(wanted[2]) > _LARGEST:
        raise InputError(f"{name}:{shape_text(wanted[2])} has more than {_LARGEST:,} elements; give a smaller maximum")
    return wanted
