"""A real calibration with the student's calibrator: TensorRT itself reads what lies at the addresses."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from helpers.checks.points.case import Case
from helpers.checks.points.s04_int8.builds import random_images
from helpers.checks.points.s04_int8.calibrator import FUNCTION
from helpers.checks.points.s04_int8.runs import is_end, loader_of
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.builds import as_bytes
from helpers.engine.given import calibrate_with
from helpers.toys.networks import tiny_onnx

BATCHES = (1, 8, 32)
"""The profile's, and in its middle the loader's."""

_COUNT = 2
_STRENGTHS = np.array((2.0, 1.0, 0.5), np.float32)[:, None, None]
"""Of the channels: who mixes them up calibrates otherwise."""


@probe
def calibrate(notebook: Notebook, *, onnx: bytes, images: np.ndarray, batch: int) -> bytes | None:
    """Return the cache that TensorRT writes when it calibrates a model with the student's calibrator.

    Another calibrator is asked for a batch each time before TensorRT reads one.
    """
    make, caches, most = notebook[FUNCTION], [], len(images) // batch
    with tempfile.TemporaryDirectory() as folder:
        calibrator = _asked_between(make, caches, most)(loader_of(images, batch), str(Path(folder) / "own.cache"))
        other = make(loader_of(images[::-1] * 3, batch), str(Path(folder) / "other.cache"))
        calibrator.__dict__["between"] = lambda: other.get_batch(["input"])
        calibrate_with(calibrator, onnx, BATCHES)
    return caches[-1] if caches else None


def _asked_between(make: Any, caches: list[bytes | None], most: int) -> Any:
    """Return the student's class, whose caches are noted, and which ends after twice the batches that there are."""

    def get_batch(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = None if self.__dict__.setdefault("left", 2 * most) <= 0 else make.get_batch(self, *args, **kwargs)
        self.__dict__["left"] -= 1
        if not is_end(given):
            self.__dict__["between"]()
        return given

    def write_calibration_cache(self: Any, cache: Any) -> Any:
        caches.append(as_bytes(cache))
        return make.write_calibration_cache(self, cache)

    methods = {"get_batch": get_batch, "write_calibration_cache": write_calibration_cache}
    return type(make.__name__, (make,), methods)


def network(case: Case) -> bytes:
    """Return a small network of the case's own."""
    return tiny_onnx(case.number("calibrator.network"))


def images(case: Case) -> np.ndarray:
    """Return float32 images [N, 3, 224, 224] in whole batches, each stronger than the one before."""
    return random_images(case.number("calibrator.real"), _COUNT * BATCHES[1]) * _STRENGTHS


def calibrated(case: Case) -> bytes | None:
    """Return the cache of a calibration with the student's calibrator; raise Missed where that raises."""
    asked = {"onnx": network(case), "images": images(case), "batch": BATCHES[1]}
    return case.call(calibrate, **asked).require(FUNCTION)
