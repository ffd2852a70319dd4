"""Compares a function of the notebook with right answers on drawn inputs.

compare(case, "break_even", [((2.0, 4.0, 8.0), 500), ((2.0, 8.0, 8.0), None)], "divide by what a call saves")
compare(case, "choose_groups", [((table, 0.01), Raises("ValueError"))], "check the target at the end")
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.probes.answer import Notebook, Probe, probe
from helpers.checks.probes.frames import said
from helpers.checks.probes.student import one_each
from helpers.tools.outputs import relative_error

_FIRST_BYTES = 4
_SHOWN, _MOST_DIFFERENCES, _MOST_SHOWN = 160, 3, 12


class Answered(TypedDict):
    """The result of one call: its value as plain data, or the type and text of its exception."""

    value: Any
    raised: str | None
    message: str


@dataclass(frozen=True)
class Raises:
    """The right answer is an exception of this type, or of one of its subclasses."""

    kind: str


@dataclass(frozen=True)
class OneOf:
    """Each of these is right."""

    values: tuple[Any, ...]


@probe
def results_of(notebook: Notebook, *, name: str, calls: list[list[Any]], raising: bool = False) -> list[Answered]:
    """Call a function of the notebook once for each list of arguments; with `raising`, exceptions are answers too."""
    function, answers = notebook[name], list[Answered]()
    for arguments in calls:
        try:
            answers.append({"value": plain(function(*arguments)), "raised": None, "message": ""})
        except Exception as error:
            if not raising or isinstance(error, NotImplementedError):
                raise
            kinds = " ".join(base.__name__ for base in type(error).__mro__)
            answers.append({"value": None, "raised": kinds, "message": said(error)})
    return answers


def plain(value: Any) -> Any:
    """Return a value as plain data: tuples as lists, NumPy's and torch's numbers as Python's, tensors as arrays."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    return value.item() if isinstance(value, np.generic) else value


def compare(
    case: Case,
    function: str,
    pairs: Sequence[tuple[Sequence[Any], Any]],
    advice: str,
    *,
    rtol: float = 1e-6,
    atol: float = 1e-12,
    through: Probe = results_of,
    given: Mapping[str, Any] | None = None,
) -> str:
    """Call `function` with the arguments of each pair, and compare its results with the pair's right answer.

    Numbers may differ by `rtol` of the right one or by `atol`. Extra keys of a dictionary are ignored. If arguments
    must be made on the student's side, the probe `through` makes them; `given` are its further arguments.

    Raises:
        Missed: an answer differs; the message says where, what was expected and what was found.
    """
    calls = [list(arguments) for arguments, _ in pairs]
    raising = any(isinstance(right, Raises) for _, right in pairs)
    reply = case.call(through, name=function, calls=calls, raising=raising, **(given or {}))
    answers = one_each(reply.require(function), calls)
    for arguments, answer, (_, right) in zip(calls, answers, pairs, strict=True):
        call = f"{function}({', '.join(map(short, arguments))})"
        if isinstance(right, Raises) or answer["raised"]:
            _same_error(call, answer, right, advice)
        else:
            agree(answer["value"], right, call, advice, rtol=rtol, atol=atol)
    return f"{len(pairs)} call{'s' * (len(pairs) > 1)} of {function} correct"


def _same_error(call: str, answer: Answered, right: Any, advice: str) -> None:
    kinds = (answer["raised"] or "").split()
    found = f"{kinds[0]}: {answer['message'][:_SHOWN]}" if kinds else f"{short(answer['value'])}"
    if not isinstance(right, Raises):
        raise Missed(f"{short(right)} from {call}", found, advice)
    if right.kind not in kinds:
        raise Missed(f"{call} to raise {right.kind}", found, advice)


def agree(found: Any, right: Any, what: str, advice: str, *, rtol: float = 1e-6, atol: float = 1e-12) -> None:
    """Raise Missed if a value, possibly nested in lists and dictionaries, differs from the right one."""
    differing = list(_differences(plain(found), plain(right), "", rtol, atol))
    if not differing:
        return
    shown = differing[:_MOST_DIFFERENCES]
    more = f" (and {len(differing) - len(shown)} more differ)" if len(differing) > len(shown) else ""
    if not shown[0][0]:  # the value itself differs, not a part of it
        raise Missed(f"{shown[0][1]} from {what}", shown[0][2], advice)
    should, was = (", ".join(f"{part[0]} = {part[side]}" for part in shown) for side in (1, 2))
    raise Missed(f"{what}: {should}", was + more, advice)


def outputs_near(outputs: np.ndarray, expected: np.ndarray, tolerance: float, what: str, advice: str) -> str:
    """Return evidence that outputs [N, …] are the expected ones within a relative error, or raise Missed."""
    error = relative_error(outputs, expected) if outputs.shape == expected.shape else math.inf
    if not error <= tolerance:
        found = f"outputs of shape {outputs.shape}, a relative error of {error:.2g}"
        raise Missed(f"{what} to a relative error of {tolerance:.2g}, shape {expected.shape}", found, advice)
    return f"relative error {error:.1g} at batch {len(expected)}"


def _differences(found: Any, right: Any, place: str, rtol: float, atol: float) -> Iterator[tuple[str, str, str]]:
    """Yield (place, expected, found) for each part that differs."""
    if isinstance(right, Mapping) and isinstance(found, Mapping):
        for key, value in right.items():
            part = f"{place}[{key!r}]" if place else str(key)
            yield from _differences(found.get(key, _NOTHING), value, part, rtol, atol)
    elif isinstance(right, (list, tuple)) and isinstance(found, (list, tuple)) and len(found) == len(right):
        for index, (part, value) in enumerate(zip(found, right, strict=True)):
            yield from _differences(part, value, f"{place}[{index}]", rtol, atol)
    elif isinstance(right, np.ndarray) and isinstance(found, np.ndarray) and found.shape == right.shape:
        apart = np.argwhere(~np.isclose(found, right, rtol=rtol, atol=atol, equal_nan=True))
        for index in map(tuple, apart[:_MOST_DIFFERENCES].tolist()):
            yield f"{place}{[*index]}", short(right[index].item()), short(found[index].item())
    elif not _equal(found, right, rtol, atol):
        should, was = short(right), short(found)
        yield place, *((should, was) if should != was else (repr(right), repr(found)))


def _equal(found: Any, right: Any, rtol: float, atol: float) -> bool:
    if isinstance(right, OneOf):
        return any(_equal(found, value, rtol, atol) for value in right.values)
    if isinstance(right, np.ndarray):
        same = isinstance(found, np.ndarray) and found.shape == right.shape
        return same and bool(np.allclose(found, right, rtol=rtol, atol=atol, equal_nan=True))
    numbers = [isinstance(value, (int, float)) and not isinstance(value, bool) for value in (found, right)]
    if all(numbers):
        return math.isclose(found, right, rel_tol=rtol, abs_tol=atol)
    return type(found) is type(right) and found == right


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


_NOTHING = _Nothing()


def short(value: Any) -> str:
    """Return a value as a message shows it: numbers to six digits, long lists and dictionaries cut."""
    if isinstance(value, OneOf):
        return " or ".join(map(short, value.values))
    if isinstance(value, np.ndarray):
        return f"an array {list(value.shape)} of {value.dtype}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bytes):
        return f"{len(value)} bytes ({value[:_FIRST_BYTES].hex(' ')} …)"
    if isinstance(value, (list, tuple)) and len(value) <= _MOST_SHOWN:
        return f"[{', '.join(map(short, value))}]"[:_SHOWN]
    if isinstance(value, Mapping) and len(value) <= _MOST_SHOWN:
        return f"{{{', '.join(f'{key!r}: {short(part)}' for key, part in value.items())}}}"[:_SHOWN]
    return repr(value)[:_SHOWN]
