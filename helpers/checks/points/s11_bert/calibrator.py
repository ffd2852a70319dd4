"""What step 11 asks of `TextCalibrator`: three inputs in TensorRT's order, int32, and scales that are kept."""

import tempfile
from numbers import Real
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.pure import agree, plain
from helpers.checks.points.s11_bert.encoders import Text, text_of
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.builds import as_bytes
from helpers.engine.backend import cuda, trt
from helpers.toys.bert.encoder import INPUTS

_PLAYED = "what the calibrator does when TensorRT's part is played: that happens in the student's process"

FUNCTION = "TextCalibrator"
_ROWS, _LENGTH = 5, 12
_ORDERS = [[INPUTS[place] for place in order] for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0])]
"""The names of each call of get_batch."""

CALIBRATE = Task("bert_calibrator", check="check_bert_calibrator", takes=(FUNCTION,))


class Run(TypedDict):
    """What `calibrator_run` answers."""

    size: float | str
    given: list[Text]
    end: bool
    minmax: bool
    before: bytes | None
    file: bytes
    after: bytes | None


@probe
def calibrator_run(notebook: Notebook, *, batches: list[Text], cache: bytes) -> Run:
    """Drive a TextCalibrator as a build does: its size, its cache, `batches` with names in _ORDERS, the end.

    Returns `size`, `given` (for each call the arrays by name that lie at its addresses), `end` (whether None came after
    them), `minmax`, and of the cache `before`, `file` and `after`: what it reads without a file, what it left of
    `cache`, what the next calibrator reads.
    """
    make = notebook[FUNCTION]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.cache"
        calibrator = make(batches, path)
        size, before = calibrator.get_batch_size(), as_bytes(calibrator.read_calibration_cache())
        given = [_given(calibrator.get_batch(names), names) for names in _ORDERS]
        end = calibrator.get_batch(_ORDERS[0]) in (None, [])
        path.write_bytes(2 * cache)
        calibrator.write_calibration_cache(memoryview(cache))
        file, after = path.read_bytes(), as_bytes(make(batches[:1], path).read_calibration_cache())
        minmax = isinstance(calibrator, trt.IInt8MinMaxCalibrator)
        cached = {"before": before, "file": file, "after": after}
        return {
            "size": plain(size) if isinstance(size, Real) else str(size),
            "given": given,
            "end": end,
            "minmax": minmax,
            **cached,
        }


def _given(addresses: list[Any] | None, names: list[str]) -> dict[str, np.ndarray]:
    found = {name: np.zeros((_ROWS, _LENGTH), np.int32) for name in names}
    for name, address in zip(names, addresses or [], strict=False):  # what has no address stays zero
        cuda.memcpy_dtoh(found[name], int(address))
    return found


def _texts(case: Case) -> list[Text]:
    return [text_of(case.random(f"bert.calibration.{number}"), _ROWS, _LENGTH) for number in range(len(_ORDERS))]


def _cache(case: Case) -> bytes:
    return b"TRT-8600-MinMaxCalibration\n" + case.random("bert.cache").bytes(40)


def _run(case: Case) -> Run:
    texts = [{name: values.astype(np.int64) for name, values in text.items()} for text in _texts(case)]
    return case.call(calibrator_run, batches=texts, cache=_cache(case)).require(FUNCTION)


@CALIBRATE.point("bert.calibration", 0.5, "Three inputs reach the device as int32, in the order of the names", _PLAYED)
def batches(case: Case) -> str:
    run = _run(case)
    agree(run["size"], _ROWS, "get_batch_size", "it is the number of rows: look at the arrays' shape")
    for text, names, given in zip(_texts(case), _ORDERS, run["given"], strict=True):
        wrong = [name for name in names if not np.array_equal(given[name], text[name])]
        if wrong:
            found = f"something else at the address of {', '.join(wrong)}"
            advice = "the order is that of the names in the call; TensorRT reads contiguous int32, whatever lies there"
            raise Missed(f"int32 arrays at the addresses of {', '.join(names)}", found, advice)
    if not run["end"]:
        raise Missed("None after the last batch", "another batch", "next() takes what to return when nothing is left")
    return f"{len(_ORDERS)} batches of {_ROWS} × {_LENGTH} tokens, names in three orders, then None"


@CALIBRATE.point("bert.cache", 0.25, "A min-max calibrator that keeps its scales in the file, and reads them", _PLAYED)
def cache(case: Case) -> str:
    run, content = _run(case), _cache(case)
    if not run["minmax"]:
        raise Missed("a trt.IInt8MinMaxCalibrator", "another class", "derive the class from it")
    if run["before"] is not None:
        raise Missed("None from read_calibration_cache where there is no file", "bytes", "ask whether there is one")
    if run["file"] != content or run["after"] != content:
        found = "other bytes in the file" if run["file"] != content else "it read other bytes, or None"
        advice = "write what you are given in binary mode, in the place of what is there; read the whole file"
        raise Missed("the very bytes in cache_file, and from read_calibration_cache", found, advice)
    return f"{len(content)} bytes written and read"
