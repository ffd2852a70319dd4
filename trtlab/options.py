"""The values that options take, as types: how each is read from the command line, and what it may be.

A dataclass with fields of these types is a group of options; its docstring has their help. By default whole numbers are
1 to 10^9 and others 0 to 10^9. What depends on the model, the engine or the data is checked where those are known.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, Token

from trtcpu.errors import InputError

MOST = 10**9


def _one(type_: Any, tokens: Sequence[Token], kind: type, least: float = 0, most: float = MOST) -> Any:
    return _read(tokens[0], tokens[0].value, kind, least, most)


def _several(type_: Any, tokens: Sequence[Token], kind: type, least: float | None = None) -> tuple[Any, ...]:
    """Read several values: after one flag, with commas, or each after a flag of its own."""
    parts = [(token, part.strip()) for token in tokens for part in token.value.split(",")]
    found = tuple(_read(token, part, kind, least) for token, part in parts if part)
    if not found:
        raise InputError(f"{tokens[0].keyword} takes one value or more, found none")
    return found


def _size(type_: Any, tokens: Sequence[Token]) -> tuple[int, int]:
    height, _, width = tokens[0].value.partition("x")
    if not (height.isdecimal() and (width or height).isdecimal()):
        raise InputError(f"{tokens[0].keyword} {tokens[0].value!r} is no size; give 224, or 224x160 (height x width)")
    return int(height[:18]), int((width or height)[:18])


def _read(token: Token, text: str, kind: type, least: float | None, most: float = MOST) -> Any:
    try:
        value = kind(text)
    except ValueError as error:
        raise InputError(
            f"{token.keyword} takes {'whole ' if kind is int else ''}numbers, found {text[:60]!r}"
        ) from error
    if least is not None and not least <= value <= most:  # never true of NaN
        raise InputError(f"{token.keyword} {value} cannot be; give {least} or more, at most {most:,}")
    return value


Count = Annotated[int, Parameter(converter=partial(_one, kind=int, least=1))]
Counts = Annotated[tuple[int, ...], Parameter(converter=partial(_several, kind=int, least=1))]
Milliseconds = Annotated[int, Parameter(converter=partial(_one, kind=int, least=0))]
Level = Annotated[int, Parameter(converter=partial(_one, kind=int, least=0, most=5))]
Opset = Annotated[int, Parameter(converter=partial(_one, kind=int, least=11, most=23))]
Pixels = Annotated[int, Parameter(converter=partial(_one, kind=int, least=1, most=2**14))]
BatchSize = Annotated[int, Parameter(converter=partial(_one, kind=int, least=1, most=2**20))]
Bytes = Annotated[int, Parameter(converter=partial(_one, kind=int, least=1, most=10**15))]
Amount = Annotated[float, Parameter(converter=partial(_one, kind=float))]
Numbers = Annotated[tuple[float, ...], Parameter(converter=partial(_several, kind=float))]
Files = Annotated[tuple[Path, ...], Parameter(converter=partial(_several, kind=Path))]
Texts = Annotated[tuple[str, ...], Parameter(converter=partial(_several, kind=str))]
# Height and width: 224, or 224x160.
Size = Annotated[tuple[int, int], Parameter(converter=_size, n_tokens=1)]
