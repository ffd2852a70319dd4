"""Scales without a calibrator, held to those that a calibrator of the same kind writes."""

from pathlib import Path

import numpy as np
import pytest

from helpers.engine.backend import ENGINE
from tests.trtlab.tiny_models import SIZE, images_npy, tiny_onnx
from trtcpu.calibration_cache import parse_cache
from trtlab.building.build import BuildOptions, build_engine
from trtlab.building.calibration_data import tensor_batches
from trtlab.building.scales import calibrated, float_model
from trtlab.engines.tensors import InputSpec


@pytest.mark.skipif(ENGINE != "cpu", reason="TensorRT's own scales differ in a few tensors: docs/cpu-engine.md")
@pytest.mark.parametrize("kind", ["entropy", "minmax", "percentile"])
def test_the_scales_are_those_of_the_calibrator(tmp_path: Path, kind: str) -> None:
    path, images = tiny_onnx(tmp_path), images_npy(tmp_path / "c.npy", 20)
    build_engine(path, tmp_path / "e.engine", BuildOptions(precision="int8", calibrator=kind, calib_npy=images))
    shape = (4, 3, SIZE, SIZE)
    batches = tensor_batches(images, {"input": InputSpec("input", np.dtype(np.float32), shape, shape, shape)}, None)
    told: list[str] = []
    found = calibrated(float_model(path.read_bytes(), str(path)), kind, batches, told.append)
    written = parse_cache((tmp_path / "e.engine.cache").read_bytes())
    assert (found.algorithm, found.scales) == (written.algorithm, written.scales)
    assert told[-1] == "calibrating: batch 4 of 4"
