"""The visible checks of step 4, and the part of TensorRT that they play."""

import numpy as np
import pytest

from helpers import feedback
from helpers.backend import cuda
from helpers.feedback.checklist import NotYet
from helpers.probes.calibration import play_tensorrt, read_scales

IMAGE = (3, 4, 4)


class Calibrator:
    """Hands out `batches`, a list of what get_batch returns one after the other."""

    def __init__(self, batches, cache=None):
        self.batches, self.cache, self.written = list(batches), cache, None

    def get_batch_size(self):
        return 2

    def get_batch(self, names):
        assert names == ["input"]
        return self.batches.pop(0) if self.batches else None

    def read_calibration_cache(self):
        return self.cache

    def write_calibration_cache(self, cache):
        assert isinstance(cache, memoryview)
        self.written = bytes(cache)


def test_the_driver_reads_each_batch_and_hands_over_the_cache():
    host = np.arange(96, dtype=np.float32).reshape(2, *IMAGE)
    memory = cuda.to_device(host)
    calibrator = Calibrator([[int(memory)], [memory]])
    run = play_tensorrt(calibrator, IMAGE, 2, b"cache")
    assert run.fault is None and run.ended and calibrator.written == b"cache"
    assert len(run.batches) == 2 and all(np.array_equal(batch, host) for batch in run.batches)


def test_a_cache_to_read_ends_the_run():
    calibrator = Calibrator([[0]], cache=b"known")
    run = play_tensorrt(calibrator, IMAGE, 1, b"cache")
    assert run.cache == b"known" and not run.batches and calibrator.written is None


@pytest.mark.parametrize("given", [7, np.zeros(3), ["address"], [np.zeros((2, 3))], [1.5], [1]])
def test_what_tensorrt_cannot_use_is_a_fault(given):
    run = play_tensorrt(Calibrator([given]), IMAGE, 1, b"cache")
    assert run.fault and not run.batches


def test_a_calibrator_without_end_is_stopped():
    memory = cuda.to_device(np.zeros((2, *IMAGE), np.float32))
    run = play_tensorrt(Calibrator([[int(memory)]] * 100), IMAGE, 2, b"cache")
    assert not run.ended and len(run.batches) < 10


def test_scales_are_read_from_a_cache_and_from_nothing_else():
    assert read_scales(b"TRT-8600-EntropyCalibration2\na: b: 3f800000\nc: 40000000\n") == {"a: b": 1.0, "c": 2.0}
    for broken in (b"", b"text", b"TRT-8600-EntropyCalibration2\na: xyz\n", b"\xff\xfe"):
        assert read_scales(broken) == {}


def test_an_unwritten_task_is_named(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TRT_LAB_ARTIFACTS", str(tmp_path))

    def unwritten(*args):
        raise NotImplementedError

    for check, name in (
        (lambda: feedback.check_calibration_dataset(unwritten), "CalibrationDataset"),
        (lambda: feedback.check_int8_engine(unwritten, type("Own", (), {"__init__": unwritten})), "build_engine_int8"),
    ):
        with pytest.raises(NotYet):
            check()
        assert f"{name} to be written" in capsys.readouterr().out


def test_missing_files_are_named(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TRT_LAB_ARTIFACTS", str(tmp_path))
    with pytest.raises(NotYet):
        feedback.check_int8_calibration()
    assert "no resnet50_int8.engine" in capsys.readouterr().out
