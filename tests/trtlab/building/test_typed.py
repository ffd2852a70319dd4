"""Explicit builds of models as other exporters write them: one input, one model that ONNX can read, the same answers."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from tests.trtlab.tiny_models import images_npy, tiny_onnx
from trtlab.building.build import BuildOptions, BuildRecord, build_engine
from trtlab.building.build_options import has_strong_types
from trtlab.engines.inference import InferenceEngine

pytestmark = pytest.mark.skipif(not has_strong_types(), reason="TensorRT 8 has no strongly typed networks")
ALLOWED = {"fp16": 5e-3, "bf16": 2e-2, "int8": 5e-2, "int8+fp16": 5e-2}


def explicit(model: onnx.ModelProto, folder: Path, precision: str) -> tuple[BuildRecord, onnx.ModelProto, float]:
    """Build the model; return the record, the model that was built, and how far its answers are from ONNX Runtime's."""
    path, engine = folder / "m.onnx", folder / "e.engine"
    onnx.save(model, path)
    session = onnxruntime.InferenceSession(str(path))
    dtype = np.float16 if "16" in session.get_inputs()[0].type else np.float32
    images = np.load(images_npy(folder / "c.npy")).astype(dtype)
    np.save(folder / "c.npy", images)
    data = {"calib_npy": folder / "c.npy", "calibrator": "minmax"} if "int8" in precision else {}
    record = build_engine(path, engine, BuildOptions(precision=precision, explicit=True, **data))
    with InferenceEngine(engine) as loaded:
        found = loaded.predict(images).astype(float)
    expected = session.run(None, {session.get_inputs()[0].name: images})[0].astype(float)
    typed = onnx.load(f"{engine}.onnx")
    onnx.checker.check_model(typed, full_check=True)
    return record, typed, float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


@pytest.mark.parametrize("precision", ALLOWED)
@pytest.mark.parametrize("version", [3, 8])
def test_weights_that_are_inputs_too_are_no_inputs_of_the_model_that_is_built(
    tmp_path: Path, precision: str, version: int
) -> None:
    model = onnx.load(tiny_onnx(tmp_path))
    model.ir_version = version  # 3 demands it, later ones allow it: keep_initializers_as_inputs
    stored = [helper.make_tensor_value_info(each.name, each.data_type, each.dims) for each in model.graph.initializer]
    model.graph.input.extend(stored)
    record, typed, apart = explicit(model, tmp_path, precision)
    assert [each["name"] for each in record.inputs] == [each.name for each in typed.graph.input] == ["input"]
    assert not any("unused" in text for text in record.warnings) and 0 < apart < ALLOWED[precision]
