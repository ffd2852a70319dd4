"""The shapes of a build's profile in trtexec's spelling: `name:1x3x224x224`, `name:min:opt:max`, several by commas."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trtcpu.errors import InputError
from trtlab.engines.tensors import InputSpec, Shape, batched, shape_text, volume

Range = tuple[Shape, Shape, Shape]

_SHAPE = r"\d{1,10}(?:x\d{1,10})*"
_EXAMPLE = "--shapes input:1x3x224x224:8x3x224x224:32x3x224x224"
_LARGEST = 2**31 - 1


def parse_shapes(
    texts: Sequence[str], option: str, names: Sequence[str], numbers: Sequence[int] = (1,)
) -> dict[str, list[Shape]]:
    """Return the shapes of each input in `texts`.

    Args:
        names: the network's inputs, which may hold colons.
        numbers: how many shapes an input may be given.

    Raises:
        InputError: a text that is no shape, an input that the network does not have, or another number of shapes.
    """
    known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    spec = re.compile(rf"""['"]?({known}|.+?)['"]?:({_SHAPE}(?::{_SHAPE})*)""")
    found: dict[str, list[Shape]] = {}
    for part in (part.strip() for text in texts for part in text.split(",") if part.strip()):
        match = spec.fullmatch(part)
        if match is None:
            raise InputError(f"{option} {part!r} is no shape; write it as trtexec does: {_EXAMPLE}")
        if match[1] not in names:
            raise InputError(f"{option} names {match[1]!r}, which is no input; the model has {', '.join(names)}")
        shapes = [tuple(map(int, shape.split("x"))) for shape in match[2].split(":")]
        if len(shapes) not in numbers:
            wanted = "one" if max(numbers) == 1 else "one, or min:opt:max"
            raise InputError(f"{option} {match[1]} has {len(shapes)} shapes; give {wanted}")
        found[match[1]] = shapes
    return found


def merge_shapes(
    shapes: Sequence[str], least: Sequence[str], best: Sequence[str], most: Sequence[str], names: Sequence[str]
) -> dict[str, Range]:
    """Return the profile of each input that the four options name.

    One shape after --shapes is all three; of three options those that are missing follow their neighbour.

    Raises:
        InputError: two shapes where one or three are needed, or as `parse_shapes`.
    """
    parsed = parse_shapes(shapes, "--shapes", names, (1, 3))
    merged: dict[str, Range] = {name: (given[0], given[len(given) // 2], given[-1]) for name, given in parsed.items()}
    options = {"--min-shapes": least, "--opt-shapes": best, "--max-shapes": most}
    ends = [parse_shapes(texts, option, names) for option, texts in options.items()]
    for name in ends[0] | ends[1] | ends[2]:
        low, middle, high = (end.get(name, [None])[0] for end in ends)
        middle = middle or high or low
        merged[name] = (low or middle, middle, high or middle)
    return merged


def chosen_inputs(inputs: Mapping[str, InputSpec], texts: Sequence[str]) -> dict[str, InputSpec]:
    """Return an engine's inputs with the shapes in `texts`, NAME:SHAPE each, in place of the profile's best.

    An input that was not named has the batch of those that were.

    Raises:
        InputError: no shape, several for one input, one outside the profile, or two batches.
    """
    named = {name: shape for name, (shape,) in parse_shapes(texts, "--shapes", list(inputs)).items()}
    for name, shape in named.items():
        if not inputs[name].takes(shape):
            raise InputError(
                f"--shapes {name}:{shape_text(shape)} is outside the engine's profile: {inputs[name].described()}"
            )
    with_batch = batched(inputs)
    batches = {named[name][0] for name in with_batch if name in named}
    if len(batches) > 1:
        raise InputError(f"--shapes gives the batches {' and '.join(map(str, sorted(batches)))}; make them equal")
    best = {name: (batch, *inputs[name].best[1:]) for batch in batches for name in with_batch} | named
    return {name: replace(spec, best=best.get(name, spec.best)) for name, spec in inputs.items()}


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
            open_axes = ", ".join(str(axis) for axis, size in zip(axes[name], shape, strict=True) if size == -1)
            example = shape_text(tuple(32 if size == -1 else size for size in shape))
            raise InputError(
                f"input {name} is dynamic in {open_axes}, and no sizes were given; "
                f"add --shapes {name}:MIN:OPT:MAX, or one shape for all three, for example {name}:{example}"
            )
        own = [(batch, *shape[1:]) if shape[:1] == (-1,) else shape for batch in batches]
        ranges[name] = _checked(name, shape, asked.get(name, (own[0], own[1], own[2])))
    return ranges


def _checked(name: str, shape: Shape, wanted: Range) -> Range:
    for given in wanted:
        if len(given) != len(shape) or any(fixed not in (-1, size) for fixed, size in zip(shape, given, strict=True)):
            raise InputError(
                f"--shapes {name}:{shape_text(given)} does not fit the model, whose {name} is {list(shape)}; "
                "-1 is any size, the others are fixed"
            )
    if any(not 1 <= low <= middle <= high for low, middle, high in zip(*wanted, strict=True)):
        raise InputError(
            f"sizes must satisfy 1 <= min <= opt <= max on every axis; found {name}:{':'.join(map(shape_text, wanted))}"
        )
    if volume(wanted[2]) > _LARGEST:
        raise InputError(f"{name}:{shape_text(wanted[2])} has more than {_LARGEST:,} elements; give a smaller maximum")
    return wanted
