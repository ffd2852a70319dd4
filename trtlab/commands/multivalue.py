"""Options that take several values: `--batch-sizes 1 8 32`, `--batch-sizes 1,8,32` and repeated flags mean the same."""

from typing import Any

from trtcpu.errors import InputError
from trtlab.commands.numbers import BoundedCommand, check_number


class MultiValueCommand(BoundedCommand):
    """A command without positional arguments, where `--option a b c` is read as `--option a --option b --option c`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the flag before every further value of an option that may be given several times."""
        return super().parse_args(ctx, expanded(args, self._repeatable()))

    def _repeatable(self) -> set[str]:
        return {flag for option in self.params if getattr(option, "multiple", False) for flag in option.opts}


def expanded(args: list[str], repeatable: set[str]) -> list[str]:
    """Return `args` with the flag repeated before each value: ["-b", "1", "2"] → ["-b", "1", "-b", "2"]."""
    out: list[str] = []
    flag, values = "", 0
    for argument in args:
        if argument.startswith("-") and not _is_number(argument):
            flag, values = (argument.partition("=")[0], int("=" in argument))
            flag = flag if flag in repeatable else ""
        elif flag:
            out += [flag] if values else []
            values += 1
        out.append(argument)
    return out


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def split_values(values: list[str] | None) -> list[str]:
    """Split comma lists: ["1,8", "32"] → ["1", "8", "32"]."""
    return [part.strip() for value in values or [] for part in str(value).split(",") if part.strip()]


def integers(values: list[str] | None, option: str) -> list[int]:
    """Return the values of `option` as integers.

    Raises:
        InputError: one of them is no whole number, or none that can be meant.
    """
    parts = split_values(values)
    try:
        numbers = [int(part) for part in parts]
    except ValueError as error:
        raise InputError(f"{option} takes whole numbers, found {' '.join(parts)!r}; try {option} 1 8 32") from error
    for number in numbers:
        check_number(number, option)
    return numbers
