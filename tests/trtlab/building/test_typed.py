"""Explicit builds of tiny networks from the options to the engine, beside implicit ones."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest

from helpers.engine.backend import API, ENGINE, trt
from helpers.engine.layers import engine_layers, ran_in
from tests.trtlab.tiny_models import SIZE, images_npy, outlier_onnx, tiny_onnx
from trtcpu import _openvino
from trtcpu.errors import EngineError, InputError
from trtlab.building import typed
from trtlab.building.build import BuildOptions, build_engine, typed_path
from trtlab.engines.inference import InferenceEngine

pytestmark = pytest.mark.skipif(not typed.has_strong_types(), reason="TensorRT 8 has no strongly typed networks")
IMAGES = np.random.default_rng(9).standard_normal((5, 3, SIZE, SIZE), dtype=np.float32)
WEIGHTED = ("/stem/stem.0/Conv", "/block/block.0/Conv", "/head/Gemm")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    images_npy(folder / "c.npy")
    return folder


def options(folder: Path, precision: str, **more: object) -> BuildOptions:
    # min-max: the entropy of the pooled layer's few values says little
    data = {"calib_npy": folder / "c.npy", "calibrator": "minmax"} if precision.startswith("int8") else {}
    return BuildOptions(**{"precision": precision, "explicit": True, **data, **more})


def answers(path: Path) -> np.ndarray:
    with InferenceEngine(path) as engine:
        return engine.infer(IMAGES)


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
    model = tiny_onnx(folder)
    record = build_engine(model, tmp_path / "e.engine", options(folder, precision))
    session = onnxruntime.InferenceSession(str(model))
    expected, found = session.run(None, {"input": IMAGES})[0], answers(tmp_path / "e.engine")
    assert np.linalg.norm(found - expected) / np.linalg.norm(expected) < allowed
    assert record.flags == ["TF32"] and record.typed_onnx == str(tmp_path / "e.engine.onnx")
    if not record.ran["said"]:
        with InferenceEngine(tmp_path / "e.engine") as engine:
            assert set(ran_in(engine_layers(engine.engine), WEIGHTED).values()) <= kinds
    assert sum(record.ran["stored"].values()) == len(WEIGHTED)


@pytest.mark.parametrize("precision", ["fp16", "bf16", "int8", "int8+fp16"])
def test_the_model_that_was_built_is_kept_and_computes_the_same(folder: Path, tmp_path: Path, precision: str) -> None:
    build_engine(tiny_onnx(folder), tmp_path / "e.engine", options(folder, precision))
    kept = onnx.load(str(typed_path(tmp_path / "e.engine")))
    onnx.checker.check_model(kept, full_check=True)
    if precision == "bf16":  # ONNX Runtime has no BF16 convolution on a CPU
        return
    expected = onnxruntime.InferenceSession(kept.SerializeToString()).run(None, {"input": IMAGES})[0]
    found = answers(tmp_path / "e.engine")
    assert np.linalg.norm(found - expected) / np.linalg.norm(expected) < 2e-2


@pytest.mark.skipif(ENGINE != "cpu", reason="on a GPU kernels are picked by timing")
def test_explicit_int8_answers_what_implicit_int8_does_and_writes_the_same_cache(folder: Path, tmp_path: Path) -> None:
    records = [
        build_engine(tiny_onnx(folder), tmp_path / name, options(folder, "int8", explicit=name == "explicit"))
        for name in ("implicit", "explicit")
    ]
    assert (tmp_path / "implicit.cache").read_bytes() == (tmp_path / "explicit.cache").read_bytes()
    explicit, implicit = answers(tmp_path / "explicit"), answers(tmp_path / "implicit")
    # Where products are added in 16 bits, weights are rounded to eight bits and halved, or rounded to seven.
    allowed = 2e-2 if _openvino.saturates_int8() else 1e-5
    assert np.linalg.norm(explicit - implicit) / np.linalg.norm(implicit) < allowed
    assert [record.calibration["images"] for record in records] == [16, 16]


def test_a_cache_gives_the_model_that_the_calibration_gave(folder: Path, tmp_path: Path) -> None:
    model = tiny_onnx(folder)
    build_engine(model, tmp_path / "a", options(folder, "int8"))
    record = build_engine(
        model, tmp_path / "b", BuildOptions(precision="int8", explicit=True, calib_cache=tmp_path / "a.cache")
    )
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert record.calibration["images"] == 0 and record.calibration["calibrator"] == "minmax"


def test_a_model_with_q_and_dq_of_its_own_needs_no_calibration(folder: Path, tmp_path: Path) -> None:
    build_engine(tiny_onnx(folder), tmp_path / "a", options(folder, "int8"))
    own = BuildOptions(precision="int8+fp16", explicit=True)
    record = build_engine(tmp_path / "a.onnx", tmp_path / "b", own)
    assert record.calibration is None and record.ran["ran"] == {"int8": 3}


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_model_with_q_and_dq_of_its_own_is_not_built_as_a_float_engine(
    folder: Path, tmp_path: Path, precision: str
) -> None:
    build_engine(tiny_onnx(folder), tmp_path / "a", options(folder, "int8"))
    with pytest.raises(InputError, match=f"has Q/DQ nodes, .*{precision} was asked for: give --precision int8"):
        build_engine(tmp_path / "a.onnx", tmp_path / "b", BuildOptions(precision=precision))
    assert not list(tmp_path.glob("b*"))


def test_a_group_that_is_kept_in_fp16_has_no_q_and_dq(tmp_path: Path) -> None:
    images_npy(tmp_path / "c.npy")
    outlier_onnx(tmp_path / "m.onnx")
    record = build_engine(
        tmp_path / "m.onnx", tmp_path / "e", options(tmp_path, "int8+fp16", keep_fp16=("third",), calibrator="entropy")
    )
    ran = record.layer_constraints["weighted_ran"]
    assert record.layer_constraints["weighted_asked"] == {"fp16": 3} and "int8" not in ran
    assert record.ran["ran"]["int8"] == 2


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_a_precision_without_anything_to_write_is_an_error(folder: Path, tmp_path: Path, precision: str) -> None:
    with pytest.raises(InputError, match=f"--explicit does nothing to {precision}"):
        build_engine(tiny_onnx(folder), tmp_path / "e", BuildOptions(precision=precision, explicit=True))
    assert not any(tmp_path.iterdir())


def test_the_model_that_is_read_is_not_written_over(tmp_path: Path) -> None:
    model = tiny_onnx(tmp_path)
    before = model.read_bytes()
    with pytest.raises(InputError, match=rf"{model.name} would be written over .*; rename --engine"):
        build_engine(model, model.with_suffix(""), BuildOptions(precision="fp16", explicit=True))
    assert model.read_bytes() == before and [path.name for path in tmp_path.iterdir()] == [model.name]


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_a_build_that_fails_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    monkeypatch.setattr(trt.Builder, "build_serialized_network", lambda self, network, config: None)
    with pytest.raises(EngineError, match=f"cannot build .* as {precision}"):
        build_engine(tiny_onnx(folder), tmp_path / "e.engine", options(folder, precision))
    assert not any(tmp_path.iterdir())


def test_on_tensorrt_11_the_explicit_way_is_taken_by_itself(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(typed.backend, "API", 11)
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
