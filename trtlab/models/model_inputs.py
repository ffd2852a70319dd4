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
_TRACED_LENGTH = 16
_BATCHES = (1, 2, 5)
_LARGEST = 2**31 - 1


@dataclass(frozen=True)
class ModelInput:
    """An input: each axis a size or a name; `traced` gives the size of every named axis to trace with."""

    name: str
    axes: tuple[int | str, ...]
    dtype: torch.dtype
    traced: dict[str, int]

    def __post_init__(self) -> None:
        """Raise InputError where an axis is empty, or where what is traced has more elements than an engine's input."""
        sizes = self.shape(self.traced)
        if not all(size >= 1 for size in sizes) or math.prod(sizes) > _LARGEST:
            raise InputError(
                f"input {self.name} cannot be {'x'.join(map(str, sizes))}; sizes are 1 or more, {_LARGEST:,} elements "
                "at most"
            )

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
    return ModelInput(name, axes, torch.float32, {"batch": batch} if dynamic else {})


def parse_inputs(texts: Sequence[str], batch: int, size: int) -> list[ModelInput]:
    """Return the inputs that `--input` gave: "image:batch,3,height=224,width=224", "tokens:batch,sequence:int64".

    A named axis is traced with the size behind "=", else with `batch` on axis 0, the images' `size` on axes 2 and 3 of
    four, and 16.

    Raises:
        InputError: a text that is no input, or two inputs of one name.
    """
    inputs = [_parsed(text, batch, size) for text in texts]
    if len({each.name for each in inputs}) < len(inputs):
        raise InputError(f"--input names {', '.join(each.name for each in inputs)}; give every input its own name")
    return inputs


def _parsed(text: str, batch: int, size: int) -> ModelInput:
    name, _, rest = text.partition(":")
    shape, _, dtype = rest.partition(":")
    words = shape.replace("x", ",").split(",") if re.fullmatch(r"[\dx]+", shape) else shape.split(",")
    found = [match for match in map(_AXIS.fullmatch, map(str.strip, words)) if match]
    if not name or len(found) < len(words) or (dtype or "float32") not in DTYPES:
        raise InputError(
            f"--input {text!r} is not name:shape:dtype, as tokens:batch,sequence:int64 is; an axis is a size from 1 on "
            f"or a name, the type one of {', '.join(DTYPES)}"
        )
    usual = {0: batch, 2: size, 3: size} if len(found) == 4 else {0: batch}
    named = [(place, axis) for place, axis in enumerate(found) if axis["name"]]
    traced = {axis["name"]: int(axis["traced"] or usual.get(place, _TRACED_LENGTH)) for place, axis in named}
    axes = tuple(axis["name"] or int(axis["size"]) for axis in found)
    return ModelInput(name, axes, DTYPES[dtype or "float32"], traced)


def sizes_to_try(inputs: Sequence[ModelInput]) -> list[dict[str, int]]:
    """Return the sizes of the named axes to compare with PyTorch at.

    The batch is the name of the first input's axis 0: it is tried at 1, 2 and 5; every other name also at twice the
    size that was traced, at which networks that halve their input several times still run.
    """
    traced = {name: size for each in inputs for name, size in each.traced.items()}
    batch = inputs[0].dynamic().get(0)
    tried = [{**traced, batch: size} for size in _BATCHES] if batch else [traced]
    return [*tried, *({**tried[0], name: 2 * traced[name]} for name in traced if name != batch)]
