"""The points of `TextCalibrator`: three int32 inputs in TensorRT's order, and a cache."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from helpers.checks.points.case import Case
from helpers.checks.points.pure import agree, plain
from helpers.checks.points.s11_bert.encoders import Text, text_of
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.builds import as_bytes
from helpers.engine.backend import cuda, trt
from helpers.toys.bert.encoder import INPUTS

_PLAYED = "the calibrator's calls: the student's process plays TensorRT's part"

FUNCTION = "TextCalibrator"
_ROWS, _LENGTH = 5, 12
_ORDERS = [[INPUTS[place] for place in order] for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0])]
"""The names of each call of get_batch."""

CALIBRATE = Task("bert_calibrator", check="check_bert_calibrator", takes=(FUNCTION,))


@probe
def calibrator_run(notebook: Notebook, *, batches: list[Text], cache: bytes) -> dict[str, Any]:
    """Call a TextCalibrator's methods as a build does; `given` has the arrays at each call's addresses.

    The cache is read without a file, written over an older one, and read by another calibrator.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.cache"
        calibrator = notebook[FUNCTION](batches, path)
        unread = as_bytes(calibrator.read_calibration_cache())
        path.write_bytes(2 * cache)
        calibrator.write_calibration_cache(memoryview(cache))
        return {
            "get_batch_size": plain(calibrator.get_batch_size()),
            "given": [_given(calibrator.get_batch(names), names) for names in _ORDERS],
            "get_batch after the last batch": calibrator.get_batch(_ORDERS[0]) or None,
            "read without a file": unread,
            "written": path.read_bytes(),
            "read": as_bytes(notebook[FUNCTION](batches[:1], path).read_calibration_cache()),
            "a trt.IInt8MinMaxCalibrator": isinstance(calibrator, trt.IInt8MinMaxCalibrator),
        }


def _given(addresses: list[Any] | None, names: list[str]) -> dict[str, list[list[int]]]:
    found = {name: np.zeros((_ROWS, _LENGTH), np.int32) for name in names}
    for name, address in zip(names, addresses or [], strict=False):  # without an address it stays zero
        cuda.memcpy_dtoh(found[name], int(address))
    return {name: values.tolist() for name, values in found.items()}


def _texts(case: Case) -> list[Text]:
    texts = [text_of(case.random(f"bert.calibration.{number}"), _ROWS, _LENGTH) for number in range(len(_ORDERS))]
    return [{name: values.astype(np.int64) for name, values in text.items()} for text in texts]


def _cache(case: Case) -> bytes:
    return b"TRT-8600-MinMaxCalibration\n" + case.random("bert.cache").bytes(40)


def _run(case: Case) -> dict[str, Any]:
    return case.call(calibrator_run, batches=_texts(case), cache=_cache(case)).require(FUNCTION)


@CALIBRATE.point("bert.calibration", 0.5, "Three inputs reach the device as int32, in the order of the names", _PLAYED)
def batches(case: Case) -> str:
    given = [{name: values.tolist() for name, values in text.items()} for text in _texts(case)]
    right = {"get_batch_size": _ROWS, "given": given, "get_batch after the last batch": None}
    advice = "copy contiguous int32, return addresses in the order of the call's names, and give next() a default"
    agree(_run(case), right, FUNCTION, advice)
    return f"{len(given)} batches of {_ROWS} × {_LENGTH} tokens, names in three orders, then None"


@CALIBRATE.point("bert.cache", 0.25, "A min-max calibrator that writes and reads its cache", _PLAYED)
def cache(case: Case) -> str:
    content = _cache(case)
    right = {"a trt.IInt8MinMaxCalibrator": True, "read without a file": None, "written": content, "read": content}
    advice = "write the bytes over an earlier file, and read the whole file if there is one"
    agree(_run(case), right, f"{FUNCTION} and its cache", advice)
    return f"{len(content)} bytes written and read"
