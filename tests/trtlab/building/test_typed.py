"""Explicit builds: the typed model node by node, run in ONNX Runtime, and from the options to the engine."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest

from helpers.engine import backend
from helpers.engine.backend import API, ENGINE, trt
from helpers.engine.layers import engine_layers, ran_in
from tests.trtlab.tiny_models import SIZE, images_npy, tiny_onnx
from trtcpu import _openvino
from trtcpu.errors import InputError
from trtlab.building.build import BuildOptions, build_engine
from trtlab.building.build_options import has_strong_types
from trtlab.building.calibration_data import tensor_batches
from trtlab.building.typed import calibrated, explicit_int8, float_model, quantised_layers
from trtlab.engines.inference import InferenceEngine
from trtlab.engines.tensors import InputSpec

strongly_typed = pytest.mark.skipif(not has_strong_types(), reason="TensorRT 8 has no strongly typed networks")
IMAGES = np.random.default_rng(9).standard_normal((5, 3, SIZE, SIZE), dtype=np.float32)
WEIGHTED = ("/stem/stem.0/Conv", "/block/block.0/Conv", "/head/Gemm")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    images_npy(folder / "c.npy", 20)
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> onnx.ModelProto:
    path = tiny_onnx(folder)
    return float_model(path.read_bytes(), str(path))


@pytest.fixture(scope="module")
def scales(folder: Path, model: onnx.ModelProto) -> dict[str, float]:
    shape = (4, 3, SIZE, SIZE)
    inputs = {"input": InputSpec("input", np.dtype(np.float32), shape, shape, shape)}
    return calibrated(model, "minmax", tensor_batches(folder / "c.npy", inputs, None), print).scales


def run(model: onnx.ModelProto) -> np.ndarray:
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"input": IMAGES})[0]


def answers(path: Path) -> np.ndarray:
    with InferenceEngine(path) as engine:
        return engine.infer(IMAGES)


def apart(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def options(folder: Path, precision: str, **more: object) -> BuildOptions:
    # min-max: the entropy of the pooled layer's few values says little
    data = {"calib_npy": folder / "c.npy", "calibrator": "minmax"} if precision.startswith("int8") else {}
    return BuildOptions(**{"precision": precision, "explicit": True, **data, **more})


@pytest.mark.parametrize("naive, added", [(False, {"Conv", "DequantizeLinear"}), (True, {"Conv", "Relu"})])
def test_an_explicit_model_computes_nearly_the_same_and_a_naive_one_adds_floats(
    model: onnx.ModelProto, scales: dict[str, float], naive: bool, added: set[str]
) -> None:
    quantised = explicit_int8(model, scales, naive=naive)
    onnx.checker.check_model(quantised, full_check=True)
    assert 1e-4 < apart(run(quantised), run(model)) < 0.05
    assert quantised_layers(quantised) == [*WEIGHTED] and quantised_layers(model) == []
    made = {name: node.op_type for node in quantised.graph.node for name in node.output}
    add = next(node for node in quantised.graph.node if node.op_type == "Add")
    assert {made[name] for name in add.input} == added
    kinds = {tensor.name: tensor.data_type for tensor in quantised.graph.initializer}
    biases = {kinds[node.input[2]] for node in quantised.graph.node if node.name in WEIGHTED}
    assert biases == {onnx.TensorProto.FLOAT}  # NVIDIA's parser refuses integers


def test_what_cannot_be_quantised_or_read_is_refused(model: onnx.ModelProto, scales: dict[str, float]) -> None:
    with pytest.raises(InputError, match="has Q/DQ nodes already"):
        explicit_int8(explicit_int8(model, scales), scales)
    with pytest.raises(InputError, match="has an input with a scale; calibrate again"):
        explicit_int8(model, {"of another model": 0.1})
    with pytest.raises(InputError, match=r"m\.onnx cannot be rewritten"):
        float_model(b"garbage" * 9, "m.onnx")


@strongly_typed
@pytest.mark.parametrize(
    ("precision", "kinds", "allowed"),
    [
        ("fp16", {"fp16", "bf16"}, 2e-2),
        ("bf16", {"bf16"}, 2e-2),
        ("int8", {"int8"}, 5e-2),
        ("int8+fp16", {"int8"}, 5e-2),
    ],
)
def test_each_precision_computes_the_model_and_is_what_runs(
    folder: Path, tmp_path: Path, precision: str, kinds: set[str], allowed: float
) -> None:
    source, path = tiny_onnx(folder), tmp_path / "e.engine"
    record = build_engine(source, path, options(folder, precision))
    found, kept = answers(path), onnx.load(f"{path}.onnx")
    assert apart(found, run(onnx.load(source))) < allowed
    assert record.flags == ["TF32"] and record.typed_onnx == f"{path}.onnx"
    assert sum(record.ran["stored"].values()) == len(WEIGHTED)
    if not record.ran["said"]:
        with InferenceEngine(path) as engine:
            assert set(ran_in(engine_layers(engine.engine), WEIGHTED).values()) <= kinds
    onnx.checker.check_model(kept, full_check=True)
    if precision != "bf16":  # ONNX Runtime has no BF16 convolution on a CPU
        assert apart(found, run(kept)) < 2e-2


@strongly_typed
@pytest.mark.skipif(ENGINE != "cpu", reason="TensorRT's scales and kernels differ a little")
@pytest.mark.parametrize("calibrator", ["entropy", "minmax", "percentile"])
def test_explicit_int8_answers_what_implicit_int8_does_and_writes_the_same_cache(
    folder: Path, tmp_path: Path, calibrator: str
) -> None:
    for name in ("implicit", "explicit"):
        given, told = options(folder, "int8", calibrator=calibrator, explicit=name == "explicit"), []
        record = build_engine(tiny_onnx(folder), tmp_path / name, given, progress=told.append)
        assert record.calibration["images"] == 20 and "calibrating: batch 4 of 4" in told
    assert (tmp_path / "implicit.cache").read_bytes() == (tmp_path / "explicit.cache").read_bytes()
    # Where products are added in 16 bits, weights are rounded to eight bits and halved, or rounded to seven.
    allowed = 2e-2 if _openvino.saturates_int8() else 1e-5
    assert apart(answers(tmp_path / "explicit"), answers(tmp_path / "implicit")) < allowed


@strongly_typed
def test_a_cache_gives_the_same_model_which_needs_no_calibration_of_its_own(folder: Path, tmp_path: Path) -> None:
    build_engine(tiny_onnx(folder), tmp_path / "a", options(folder, "int8"))
    cached = BuildOptions(precision="int8", explicit=True, calib_cache=tmp_path / "a.cache")
    record = build_engine(tiny_onnx(folder), tmp_path / "b", cached)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert record.calibration["images"] == 0 and record.calibration["calibrator"] == "minmax"
    record = build_engine(tmp_path / "a.onnx", tmp_path / "c", BuildOptions(precision="int8+fp16", explicit=True))
    assert record.calibration is None and record.ran["ran"] == {"int8": 3}
    for precision in ("fp32", "fp16"):
        with pytest.raises(InputError, match=f"has Q/DQ nodes, .*{precision} was asked for: give --precision int8"):
            build_engine(tmp_path / "a.onnx", tmp_path / "d", BuildOptions(precision=precision))
    assert not list(tmp_path.glob("d*"))


@strongly_typed
def test_the_model_that_is_read_is_not_written_over(tmp_path: Path) -> None:
    model = tiny_onnx(tmp_path)
    before = model.read_bytes()
    with pytest.raises(InputError, match=rf"{model.name} would be written over .*; rename --engine"):
        build_engine(model, model.with_suffix(""), BuildOptions(precision="fp16", explicit=True))
    assert model.read_bytes() == before and [path.name for path in tmp_path.iterdir()] == [model.name]


@strongly_typed
def test_on_tensorrt_11_the_explicit_way_is_taken_by_itself(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "API", 11)
    record = build_engine(tiny_onnx(folder), tmp_path / "e", options(folder, "int8", explicit=False))
    assert record.typed_onnx and record.ran["ran"] == {"int8": 3}
    assert build_engine(tiny_onnx(folder), tmp_path / "f", BuildOptions()).typed_onnx is None


@pytest.mark.skipif(API != 10, reason="TensorRT 11 has no flags to build with")
def test_on_tensorrt_8_int8_is_built_with_flags_and_halves_are_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = SimpleNamespace(EXPLICIT_BATCH=trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)
    monkeypatch.setattr(trt, "NetworkDefinitionCreationFlag", flags)
    record = build_engine(tiny_onnx(folder), tmp_path / "e", options(folder, "int8+fp16"))
    assert record.flags == ["TF32", "FP16", "INT8"] and record.ran["ran"] == {"int8": 3}
    with pytest.raises(InputError, match="no strongly typed networks; drop --explicit, or use TensorRT 10"):
        build_engine(tiny_onnx(folder), tmp_path / "f", options(folder, "fp16"))
