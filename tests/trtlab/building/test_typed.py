"""Explicit builds of models as other exporters write them: a model that ONNX can read, and the same answers."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.trtlab.tiny_models import images_npy, tiny_onnx
from trtcpu.errors import InputError
from trtlab.building.build import BuildOptions, BuildRecord, build_engine
from trtlab.building.build_options import has_strong_types
from trtlab.building.half import to_half
from trtlab.building.typed import float_model
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


def fp16(folder: Path, *, ends: bool) -> onnx.ModelProto:
    """Return a network with FP16 weights; `ends`: its input and output are FP16 too."""
    model = onnx.load(tiny_onnx(folder))
    if not ends:
        return to_half(model, "fp16")
    for tensor in [each for each in model.graph.initializer if each.data_type == TensorProto.FLOAT]:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    del model.graph.value_info[:]
    return model


@pytest.mark.parametrize("precision", ALLOWED)
@pytest.mark.parametrize("ends", [False, True])
def test_a_model_with_fp16_weights_is_written_in_the_precision_that_was_asked_for(
    tmp_path: Path, precision: str, ends: bool
) -> None:
    _, typed, apart = explicit(fp16(tmp_path, ends=ends), tmp_path, precision)
    assert apart < ALLOWED[precision]
    expected = {"fp16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16, "int8": TensorProto.FLOAT}
    weights = {tensor.data_type for tensor in typed.graph.initializer if len(tensor.dims) == 4}
    assert weights == {expected[precision.removeprefix("int8+")]}
    assert ("QuantizeLinear" in {node.op_type for node in typed.graph.node}) == precision.startswith("int8")


def test_bf16_weights_that_fp16_could_not_hold_are_computed_with_as_they_are(tmp_path: Path) -> None:
    model = onnx.load(tiny_onnx(tmp_path))
    head = next(tensor for tensor in model.graph.initializer if tensor.name == "head.weight")
    values = numpy_helper.to_array(head) * np.where(np.arange(10) % 3, 1, 1e6).astype(np.float32)[:, None]
    head.CopyFrom(numpy_helper.from_array(values, head.name))
    _, _, apart = explicit(model, tmp_path, "bf16")
    assert np.abs(values).max() > np.finfo(np.float16).max and apart < ALLOWED["bf16"]


def test_fp16_weights_beside_a_subgraph_are_refused_in_one_line() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> net (bool c, float16[2] x) => (float16[2] y) {
        m = Mul (x, w)
        y = If (c) <
            then_branch = a () => (float16[2] p) { p = Identity (m) },
            else_branch = b () => (float16[2] q) { q = Neg (m) }
        >
    }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(np.float16([1, 2]), "w"))
    with pytest.raises(InputError, match="^m.onnx has subgraphs .* and FP16 or BF16 weights: export it with FP32 weig"):
        float_model(model.SerializeToString(), "m.onnx")


def test_layers_without_weights_that_have_a_precision_of_their_own_are_counted(trtlab, tmp_path: Path) -> None:
    build = ("build", "--onnx", tiny_onnx(tmp_path), "--engine", tmp_path / "e.engine", "--precision", "fp16")
    code, out, _ = trtlab(*build, "--explicit", "--layer-precisions", "*Relu*:fp32")
    assert code == 0
    assert "precision of their own: 2 fp32 asked, none of them a convolution or matrix product\n" in out
