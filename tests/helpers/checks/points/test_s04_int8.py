"""Step 4: the part of TensorRT that a probe plays, the advice on colours, and the fingerprints of images."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helpers.checks import feedback
from helpers.checks.feedback.check import NotYet
from helpers.checks.missed import Missed
from helpers.checks.points.s04_int8 import calibration, dataset
from helpers.checks.points.s04_int8.calibrator import Run, play_tensorrt
from helpers.engine.backend import cuda
from helpers.toys.networks import EDGE


class Calibrator:
    """Hands out `batches`, a list of what get_batch returns one after the other."""

    def __init__(self, batches: list[Any], path: Path) -> None:
        self.batches, self.cache_file = batches, path
        self.get_batch_size, self.read_calibration_cache = (lambda: 2), (lambda: b"known")
        self.write_calibration_cache = path.write_bytes

    def get_batch(self, names: list[str]) -> Any:
        given = self.batches.pop(0) if self.batches else None
        if isinstance(given, Exception):
            raise given
        return given


def _played(batches: list[Any], folder: Path) -> Run:
    path = folder / "cache"
    return play_tensorrt(Calibrator(batches, path), path, 2, 2, b"cache")


def test_the_driver_reads_each_batch_and_hands_over_the_cache(tmp_path: Path) -> None:
    host = np.random.default_rng(0).random((2, 3, EDGE, EDGE), dtype=np.float32)
    memory = cuda.to_device(host)
    run = _played([[int(memory)], [memory]], tmp_path)
    assert not run["faults"] and run["ended"] and run["named"] and (run["file"], run["cache"]) == (b"cache", b"known")
    assert len(run["batches"]) == 2 and all(np.array_equal(batch, host) for batch in run["batches"])


@pytest.mark.parametrize("given", [7, ["address"], [1]])
def test_what_tensorrt_cannot_use_is_a_fault_and_does_not_end_the_run(given: Any, tmp_path: Path) -> None:
    run = _played([given], tmp_path)
    assert set(run["faults"]) == {"address"} and run["batches"] == [None] and run["ended"]


def test_an_exception_ends_the_images_and_nothing_else(tmp_path: Path) -> None:
    run = _played([ValueError("short batch")], tmp_path)
    assert not run["ended"] and not run["batches"] and run["file"] == b"cache"
    assert run["faults"]["get_batch"].startswith("get_batch: ValueError: short batch (line ")


def test_a_calibrator_without_end_is_stopped(tmp_path: Path) -> None:
    memory = cuda.to_device(np.zeros((2, 3, EDGE, EDGE), np.float32))
    run = _played([[memory]] * 100, tmp_path)
    assert not run["ended"] and len(run["batches"]) < 10


@pytest.mark.parametrize(
    ("corner", "advice"),
    [((1.0, 0.5, 0.0), "subtract MEAN"), ((255.0, 0.0, 0.0), "divide by 255 before"), ((-1.8, -2.0, 2.2), "red and")],
)
def test_the_advice_on_colours_names_the_cause(corner: tuple[float, ...], advice: str) -> None:
    assert advice in dataset._cause(np.array(corner))


def test_fingerprints_tell_images_apart() -> None:
    images = np.random.default_rng(0).standard_normal((calibration.CALIBRATION_IMAGES + 1, 3, EDGE, EDGE), np.float32)
    prints = np.stack([calibration.print_of(image * 40) for image in images])

    def judged(own: np.ndarray, split: np.ndarray) -> str:
        reply = SimpleNamespace(require=lambda what: {"batch_size": "8", "prints": own})
        return calibration.of_the_split(SimpleNamespace(call=lambda probe: reply), split)

    assert "all of the calibration split" in judged(prints[:-1] + 0.1, prints)
    for own, split, said in ((prints, prints[:-1], "1 of .* from elsewhere"), (prints[:8], prints, "8 different ones")):
        with pytest.raises(Missed, match=said):
            judged(own, split)


def test_missing_files_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRT_LAB_ARTIFACTS", str(tmp_path))
    with pytest.raises(NotYet):
        feedback.check_int8_calibration()
    said = capsys.readouterr().out
    assert "resnet50_int8.engine among the artifacts" in said and "CalibrationDataset as the task names it" in said
