"""What step 11 asks of `TextCalibrator`: three inputs in TensorRT's order, int32, and scales that are kept."""

import tempfile
from numbers import Real
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import Reported, point
from helpers.checks.points.s11_bert.encoders import Text, text_of
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.builds import as_bytes
from helpers.checks.probes.frames import said
from helpers.checks.probes.student import one_each
from helpers.engine.backend import cuda, trt
from helpers.toys.bert.encoder import INPUTS

_PLAYED = Reported("what the calibrator does when TensorRT's part is played: that happens in the student's process")

FUNCTION = "TextCalibrator"
_ROWS, _LENGTH = 5, 12
_ORDERS = ([0, 1, 2], [2, 0, 1], [1, 2, 0])
"""The names of each call of get_batch, as places in INPUTS."""


class Run(TypedDict):
    """What `calibrator_run` answers."""

    minmax: bool
    size: float | str
    before: bytes | None
    given: list[dict[str, np.ndarray] | str]
    end: bool
    file: bytes | None
    after: bytes | None


@probe
def calibrator_run(notebook: Notebook, *, batches: list[Text], orders: list[list[str]], cache: bytes) -> Run:
    """Drive a TextCalibrator as a build does: its size, its cache, `batches` with names in these orders, the end.

    Arrays get other types and layouts on the way: int64, columns first. Returns `size` (as text where it is no number),
    `given` (for each call the arrays by name that lie at its addresses, as TensorRT reads them, or the text of what is
    wrong), `end` (whether None came after them), `before`, `file` and `after` (what it reads without a file, what it
    left of `cache`, what one of a single batch reads then) and `minmax`.
    """
    make = notebook[FUNCTION]
    laid = [
        {name: np.asfortranarray(values.astype((np.int32, np.int64)[number % 2])) for name, values in batch.items()}
        for number, batch in enumerate(batches)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.cache"
        calibrator = make(laid, path)
        size, before = calibrator.get_batch_size(), as_bytes(calibrator.read_calibration_cache())
        given = [_given(calibrator, names) for names in orders]
        end = calibrator.get_batch(orders[0]) in (None, [])
        path.write_bytes(2 * cache)
        calibrator.write_calibration_cache(memoryview(cache))
        return {
            "minmax": isinstance(calibrator, trt.IInt8MinMaxCalibrator),
            "size": size if isinstance(size, Real) else str(size)[:80],
            "before": before,
            "given": given,
            "end": end,
            "file": path.read_bytes() if path.is_file() else None,
            "after": as_bytes(make(laid[:1], path).read_calibration_cache()),
        }


def _given(calibrator: Any, names: list[str]) -> dict[str, np.ndarray] | str:
    addresses = calibrator.get_batch(names)
    if not isinstance(addresses, (list, tuple)) or len(addresses) != len(names):
        return f"{addresses!r:.80}"
    found = {name: np.zeros((_ROWS, _LENGTH), np.int32) for name in names}
    for name, address in zip(names, addresses, strict=True):
        try:
            cuda.memcpy_dtoh(found[name], int(address))
        except Exception as error:  # CUDA's and the CPU engine's have no common base
            return f"an address that cannot be read: {said(error):.120}"
    return found


def _run(case: Case) -> tuple[list[Text], list[list[str]], bytes, Run]:
    texts = [text_of(case.random(f"bert.calibration.{number}"), _ROWS, _LENGTH) for number in range(len(_ORDERS))]
    orders = [[INPUTS[place] for place in order] for order in _ORDERS]
    content = b"TRT-8600-MinMaxCalibration\n" + case.random("bert.cache").bytes(40)
    run = case.call(calibrator_run, batches=texts, orders=orders, cache=content).require(FUNCTION)
    one_each(run["given"], orders)
    return texts, orders, content, run


@point("Each batch's three inputs reach the device as int32, in the order of the names", _PLAYED)
def batches(case: Case) -> str:
    texts, orders, _, run = _run(case)
    if run["size"] != _ROWS:
        raise Missed(f"get_batch_size() to return the rows, {_ROWS}", f"{run['size']}", "look at the arrays' shape")
    for text, names, given in zip(texts, orders, run["given"], strict=True):
        if isinstance(given, str):
            raise Missed(f"{len(names)} addresses that can be read", given, "one address for each of names, in a list")
        wrong = [name for name in names if not np.array_equal(given.get(name), text[name])]
        if wrong:
            found = f"something else at the address of {', '.join(wrong)}"
            advice = "the order is that of the names in the call; TensorRT reads contiguous int32, whatever lies there"
            raise Missed(f"int32 arrays at the addresses of {', '.join(names)}", found, advice)
    if not run["end"]:
        raise Missed("None after the last batch", "another batch", "next() takes what to return when nothing is left")
    return f"{len(texts)} batches of {_ROWS} × {_LENGTH} tokens, names in three orders, then None"


@point("A min-max calibrator that keeps its scales in the file, and reads them back", _PLAYED)
def cache(case: Case) -> str:
    _, _, content, run = _run(case)
    if not run["minmax"]:
        raise Missed("a trt.IInt8MinMaxCalibrator", "another class", "derive the class from it")
    if run["before"] is not None:
        raise Missed("None from read_calibration_cache where there is no file", "bytes", "ask whether there is one")
    if run["file"] != content or run["after"] != content:
        found = "other bytes, or no file" if run["file"] != content else "it read other bytes, or None"
        advice = "write what you are given in binary mode, in the place of what is there; read the whole file"
        raise Missed("the very bytes in cache_file, and from read_calibration_cache", found, advice)
    return f"{len(content)} bytes written and read"
