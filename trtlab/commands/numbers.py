"""The bounds of every numeric option, in one place: a number that cannot be meant is one line before anything starts.

Whole numbers are 1 to 10^9 and others 0 to 10^9, except for the options named in `_BOUNDS`. What depends on the model,
the engine or the data is checked where those are known.
"""

from typing import Any

from typer.core import TyperCommand

from trtcpu.errors import InputError

MOST = 10**9
_BOUNDS: dict[str, tuple[int, int]] = {
    "warmup": (0, MOST),
    "opt_level": (0, 5),
    "opset": (11, 23),
    "input_size": (1, 2**14),
    "channels": (1, 2**14),
    "batch_size": (1, 2**20),
    "transfer_bytes": (1, 10**15),
}


class BoundedCommand(TyperCommand):
    """A command whose numbers are in their bounds before it runs."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command.

        Raises:
            InputError: a numeric option is outside its bounds, or NaN.
        """
        flags = {parameter.name: parameter.opts[0] for parameter in self.params}
        for name, value in ctx.params.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                check_number(value, flags[name], *_BOUNDS.get(name, (int(isinstance(value, int)), MOST)))
        return super().invoke(ctx)


def check_number(value: float, option: str, least: int = 1, most: int = MOST) -> None:
    """Raise InputError where the value of `option` is not `least` to `most`."""
    if not least <= value <= most:  # never true of NaN
        raise InputError(f"{option} {value} cannot be; give {least} or more, at most {most:,}")
