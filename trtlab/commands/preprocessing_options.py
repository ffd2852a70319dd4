"""--mean, --std, --resize, --crop, --channels: the same five options wherever images are read."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from trtcpu.errors import InputError
from trtlab.commands.multivalue import split_values

if TYPE_CHECKING:
    from trtlab.images.preprocessing_record import Asked

Mean = Annotated[
    list[str] | None,
    typer.Option(
        help="Subtracted from pixels of 0 to 1, one value a channel: 0.5 0.5 0.5.", show_default="as recorded"
    ),
]
Std = Annotated[
    list[str] | None, typer.Option(help="Then divided by, one value a channel.", show_default="as recorded")
]
Resize = Annotated[
    int | None, typer.Option(help="Pixels of an image's shorter side before the crop.", show_default="as recorded")
]
Crop = Annotated[
    str | None,
    typer.Option(help="What is cut from the centre: 224, or 224x160 (height x width).", show_default="as recorded"),
]
Channels = Annotated[int | None, typer.Option(help="3 for RGB, 1 for grey.", show_default="as recorded")]


def asked_of(
    mean: list[str] | None, std: list[str] | None, resize: int | None, crop: str | None, channels: int | None
) -> "Asked":
    """Return what the five options ask for.

    Raises:
        InputError: a value that is no number or no size.
    """
    from trtlab.images.preprocessing_record import Asked

    return Asked(_floats(mean, "--mean"), _floats(std, "--std"), resize, _sizes(crop), channels)


def _floats(values: list[str] | None, option: str) -> tuple[float, ...] | None:
    if values is None:
        return None
    parts = split_values(values)
    try:
        return tuple(float(part) for part in parts)
    except ValueError as error:
        raise InputError(f"{option} takes numbers, found {' '.join(parts)!r}; try {option} 0.5 0.5 0.5") from error


def _sizes(crop: str | None) -> tuple[int, int] | None:
    if crop is None:
        return None
    if not re.fullmatch(r"[0-9]{1,18}(x[0-9]{1,18})?", crop):
        raise InputError(f"--crop {crop!r} is no size; give 224, or 224x160 (height x width)")
    height, _, width = crop.partition("x")
    return int(height), int(width or height)
