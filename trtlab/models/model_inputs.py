"""The inputs of a model to export: `--input name:shape:dtype`, each axis a size or the name of a dynamic axis."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from trtcpu.errors import InputError

DTYPES = {
    "float32": torch.float32, "float16": torch.float16, "int64": torch.int64, "int32": torch.int32,
    "int8": torch.int8, "uint8": torch.uint8, "bool": torch.bool,
}  # fmt: skip
_AXIS = re.compile(r"(?P<size>\d{1,10})|(?P<name>[A-Za-z_]\w*)(?:=(?P<traced>\d{1,10}))?")
_EXAMPLE = "--input tokens:batch,sequence:int64"
_TRACED_LENGTH = 16
_BATCHES = (1, 2, 5)
_LARGEST = 2**31 - 1


@dataclass(frozen=True)
class ModelInput:
    """An input: each axis a size or a name; `traced` gives the size of each named axis to trace with."""

    name: str
    axes: tuple[int | str, ...]
    dtype: torch.dtype
    traced: dict[str, int]

    def __post_init__(self) -> None:
        """Raise InputError where an axis is empty, or where what is traced has more elements than an engine's input."""
        sizes = [axis if isinstance(axis, int) else self.traced.get(axis, 1) for axis in self.axes]
        if not all(size >= 1 for size in sizes) or math.prod(sizes) > _LARGEST:
            shown = "x".join(map(str, sizes))
            raise InputError(f"input {self.name} cannot be {shown}; sizes are 1 or more, {_LARGEST:,} elements at most")

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape with the sizes of the named axes."""
        return tuple(axis if isinstance(axis, int) else sizes[axis] for axis in self.axes)

    def dynamic(self) -> dict[int, str]:
        """Return the names of the dynamic axes by their place."""
        return {place: axis for place, axis in enumerate(self.axes) if isinstance(axis, str)}

    def values(self, sizes: Mapping[str, int], limit: int | None, seed: int) -> torch.Tensor:
        """Return seeded noise, or integers below `limit` (where it is unknown: 0 and 1)."""
        generator = torch.Generator().manual_seed(seed)
        if self.dtype.is_floating_point:
            return torch.randn(self.shape(sizes), generator=generator).to(self.dtype)
        return torch.randint(0, limit or 2, self.shape(sizes), generator=generator).to(self.dtype)


def image_input(
    name: str, batch: int, dynamic: bool, channels: int, height: int, width: int | None = None
) -> ModelInput:
    """Return the input of an image classifier: float32 [batch, channels, height, width]; a square without `width`."""
    axes = ("batch" if dynamic else batch, channels, height, width or height)
    return ModelInput(name, axes, torch.float32, {"batch": batch})


def parse_inputs(texts: Sequence[str], batch: int, size: int) -> list[ModelInput]:
    """Return the inputs that `--input` gave: "image:batch,3,height=224,width=224", "tokens:batch,sequence:int64".

    A named axis is traced with the size behind "=", else with `batch` on axis 0, the images' `size` on axes 2 and 3 of
    four, and 16.

    Raises:
        InputError: a text that is no input, or two inputs of one name.
    """
    inputs = [_parsed(text, batch, size) for text in texts]
    names = [each.name for each in inputs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"--input names {twice} twice; give every input its own name")
    return inputs


def _parsed(text: str, batch: int, size: int) -> ModelInput:
    name, _, rest = text.partition(":")
    shape, _, dtype = rest.partition(":")
    dtype = dtype or "float32"
    if not name or not shape:
        raise InputError(f"--input {text!r} is not name:shape:dtype; write it as in {_EXAMPLE}")
    if dtype not in DTYPES:
        raise InputError(f"--input {text!r} has the type {dtype!r}; choose one of {', '.join(DTYPES)}")
    words = shape.replace("x", ",").split(",") if re.fullmatch(r"[\dx]+", shape) else shape.split(",")
    matches = [_AXIS.fullmatch(word.strip()) for word in words]
    if not all(matches):
        raise InputError(f"--input {text!r} has the shape {shape!r}; an axis is a size from 1 on or a name: {_EXAMPLE}")
    axes = tuple(int(match["size"]) if match["size"] else match["name"] for match in matches if match)
    traced = {
        match["name"]: int(match["traced"] or _traced(place, len(axes), batch, size))
        for place, match in enumerate(matches)
        if match and match["name"]
    }
    return ModelInput(name, axes, DTYPES[dtype], traced)


def _traced(place: int, rank: int, batch: int, size: int) -> int:
    if place == 0:
        return batch
    return size if rank == 4 and place > 1 else _TRACED_LENGTH


def test_sizes(inputs: Sequence[ModelInput]) -> tuple[list[dict[str, int]], tuple[int, ...]]:
    """Return the sizes of the named axes to compare with PyTorch at, and the batches among them.

    The batch is the name of the first input's axis 0: it is tried at 1, 2 and 5; every other name also at twice the
    size that was traced, at which networks that halve their input several times still run.
    """
    traced = {name: size for each in inputs for name, size in each.traced.items() if name in each.axes}
    first = inputs[0].axes[0] if inputs[0].axes else None
    if not isinstance(first, str):
        batches = (first if isinstance(first, int) else 1,)
        tried = [traced]
    else:
        batches = _BATCHES
        tried = [{**traced, first: batch} for batch in batches]
    others = [name for name in traced if name != first]
    return [*tried, *({**tried[0], name: 2 * traced[name]} for name in others)], batches
