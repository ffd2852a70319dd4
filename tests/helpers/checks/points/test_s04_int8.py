"""Step 4's points on small calibrators and data sets, the part of TensorRT that a probe plays, and new sessions."""

import numpy as np
import pytest

from helpers.checks import feedback
from helpers.checks.feedback.check import NotYet, judged
from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s04_int8 import CHECKS, calibration, calibrator, dataset
from helpers.checks.points.s04_int8.calibration import read_scales
from helpers.checks.points.s04_int8.runs import play_tensorrt
from helpers.checks.points.s04_int8.session import in_new_session
from helpers.checks.probes.student import Student
from helpers.engine.backend import cuda

SHAPE = (2, 3, 4, 4)


class Calibrator:
    """Hands out `batches`, a list of what get_batch returns one after the other."""

    def __init__(self, batches, cache=None, size=2):
        self.batches, self.cache, self.size, self.written = list(batches), cache, size, None

    def get_batch_size(self):
        return self.size

    def get_batch(self, names):
        assert names == ["input"]
        given = self.batches.pop(0) if self.batches else None
        if isinstance(given, Exception):
            raise given
        return given

    def read_calibration_cache(self):
        return self.cache

    def write_calibration_cache(self, cache):
        assert isinstance(cache, memoryview)
        self.written = bytes(cache)


def test_the_driver_reads_each_batch_and_hands_over_the_cache():
    host = np.arange(96, dtype=np.float32).reshape(SHAPE)
    memory = cuda.to_device(host)
    own = Calibrator([[int(memory)], [memory]], cache=b"known")
    run = play_tensorrt(own, SHAPE, 2, b"cache")
    assert not run.faults and run.ended and own.written == b"cache" and run.cache == b"known"
    assert len(run.batches) == 2 and all(np.array_equal(batch, host) for batch in run.batches)


@pytest.mark.parametrize("given", [7, np.zeros(3), ["address"], [np.zeros((2, 3))], [1.5], [1]])
def test_what_tensorrt_cannot_use_is_a_fault_and_does_not_end_the_run(given):
    run = play_tensorrt(Calibrator([given]), SHAPE, 1, b"cache")
    assert set(run.faults) == {"address"} and run.batches == [None] and run.ended


def test_an_exception_ends_the_images_and_nothing_else():
    own = Calibrator([ValueError("short batch")])
    run = play_tensorrt(own, SHAPE, 1, b"cache")
    assert not run.ended and not run.batches and own.written == b"cache"
    assert run.faults["get_batch"].startswith("get_batch raised ValueError: short batch (line ")


def test_a_wrong_batch_size_does_not_spoil_what_is_read():
    host = np.ones(SHAPE, np.float32)
    run = play_tensorrt(Calibrator([[cuda.to_device(host)]], size=900), SHAPE, 1, b"cache")
    assert run.batch_size == 900 and np.array_equal(run.batches[0], host)


def test_a_calibrator_without_end_is_stopped():
    memory = cuda.to_device(np.zeros(SHAPE, np.float32))
    run = play_tensorrt(Calibrator([[int(memory)]] * 100), SHAPE, 2, b"cache")
    assert not run.ended and len(run.batches) < 10


def test_scales_are_read_from_a_cache_and_from_nothing_else():
    assert read_scales(b"TRT-8600-EntropyCalibration2\na: b: 3f800000\nc: 40000000\n") == {"a: b": 1.0, "c": 2.0}
    for broken in (b"", b"text", b"TRT-8600-EntropyCalibration2\na: xyz\n", b"\xff\xfe"):
        assert read_scales(broken) == {}


def notebook(*cells: str) -> dict:
    """Return the names that a notebook has after these cells."""
    names: dict = {"__name__": "__main__", "In": []}
    for cell in cells:
        exec(compile(cell, "<cell>", "exec"), names)
        names["In"].append(cell)
    return names


REMEMBERS = "def build(key):\n    kept = key in {store}\n    {store}.append(key)\n    return kept"


@pytest.mark.parametrize(
    "cells",
    [
        ["SEEN = []\n" + REMEMBERS.format(store="SEEN")],
        ["SEEN = []", REMEMBERS.format(store="SEEN")],
        ["class Store:\n    seen = []", REMEMBERS.format(store="Store.seen")],
        ["class State: ...\nstate = State()", "state.seen = []", REMEMBERS.format(store="state.seen")],
        [REMEMBERS.format(store="known()"), "SEEN = []\ndef known():\n    return SEEN"],
        [REMEMBERS.format(store="build.seen"), "build.seen = []"],
        ["def make():\n    return []\nSEEN = make()", REMEMBERS.format(store="SEEN")],
        [
            REMEMBERS.format(store="known()"),
            "def known():\n    global seen\n    if 'seen' not in globals():\n        seen = []\n    return seen",
        ],
    ],
)
def test_a_new_session_has_forgotten_what_variables_knew(cells):
    build = notebook(*cells)["build"]
    assert [build("a"), build("a")] == [False, True]
    anew = in_new_session({"build": build})["build"]
    assert [anew("a"), anew("a"), build("a")] == [False, True, True]


def test_a_new_session_runs_no_more_than_the_definitions_that_are_used():
    names = notebook("runs = []", "plan = runs.append(1)", "def build(plan):\n    steps = plan\n    return steps")
    in_new_session({"build": names["build"]})
    assert names["runs"] == [1]


def test_functions_of_no_cell_are_as_they_were():
    assert in_new_session({"build": np.sort, "len": len}) == {"build": np.sort, "len": len}


def case(**names: object) -> Case:
    return Case(Student.in_process(names), 3)


@pytest.mark.parametrize(
    ("result", "advice"),
    [
        (lambda rgb: rgb / 255, "subtract MEAN"),
        (lambda rgb: rgb, "divide by 255 before"),
        (lambda rgb: ((rgb / 255 - dataset_mean()) / dataset_std())[::-1], "red and blue"),
    ],
)
def test_the_advice_on_colours_names_the_cause(result, advice):
    from PIL import Image

    class CalibrationDataset:
        def __init__(self, data_dir, num_samples):
            self.files = sorted(data_dir_files(data_dir))

        def __getitem__(self, index):
            rgb = np.asarray(Image.open(self.files[index]), np.float32)[:224, :224].transpose(2, 0, 1)
            return result(rgb).astype(np.float32)

    with pytest.raises(Missed) as missed:
        dataset.colours(case(CalibrationDataset=CalibrationDataset))
    assert advice in missed.value.try_this


def data_dir_files(folder):
    from pathlib import Path

    return Path(folder).glob("*/*")


def dataset_mean():
    return np.array([0.485, 0.456, 0.406])[:, None, None]


def dataset_std():
    return np.array([0.229, 0.224, 0.225])[:, None, None]


def test_fingerprints_tell_images_and_splits_apart():
    images = np.random.default_rng(0).standard_normal((calibration.CALIBRATION_IMAGES + 1, 3, 224, 224), np.float32)
    prints = np.stack([calibration.print_of(image * 40) for image in images])
    assert prints.shape[1] == 192
    assert "all of the calibration split" in calibration.of_the_split(prints[:-1] + 0.1, prints)
    with pytest.raises(Missed, match="of the validation split"):
        calibration.of_the_split(prints, prints[:-1], prints[-1:])
    with pytest.raises(Missed, match="different ones"):
        calibration.of_the_split(prints[:8], prints)


def test_an_unwritten_task_is_named():
    def unwritten(*args):
        raise NotImplementedError

    names = {"CalibrationDataset": unwritten, "Int8EntropyCalibrator": unwritten, "build_engine_int8": unwritten}
    for check, name in (("check_calibration_dataset", "CalibrationDataset"), ("check_calibrator", calibrator.FUNCTION)):
        card = judged(CHECKS[check], Student.in_process(names))
        assert len(card.lines) == 1 and f"{name} to be written" in str(card)


def test_missing_files_are_named(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TRT_LAB_ARTIFACTS", str(tmp_path))
    with pytest.raises(NotYet):
        feedback.check_int8_calibration()
    said = capsys.readouterr().out
    assert "resnet50_int8.engine among the artifacts" in said and "images in the notebook's `loader`" in said
