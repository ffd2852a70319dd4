"""What was asked against what runs: on layers that TensorRT 8.6's inspector told, and on builds of a tiny network."""

import json
from pathlib import Path

import pytest

from helpers.backend import API, ENGINE, trt
from helpers.errors import EngineError
from solutions.pipeline.building import what_ran as room
from solutions.pipeline.building.build import BuildOptions, build_engine
from solutions.pipeline.building.what_ran import check_held, check_quantised, what_ran
from tests.pipeline.tiny_models import tiny_onnx

RECORDED = json.loads((Path(__file__).parents[2] / "fixtures/inspector_tensorrt_8_6.json").read_text())


@pytest.fixture
def half_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "has_half", lambda precision: True)


@pytest.mark.parametrize("precision", ["fp16", "int8", "fp32", "tf32"])
def test_an_engine_of_tensorrt_is_what_it_was_asked_for_as(half_here: None, precision: str) -> None:
    found = what_ran(precision, RECORDED[precision])
    check_held(found)
    assert set(found.ran) == {precision} and found.said is None


@pytest.mark.parametrize(
    ("asked", "layers", "said"),
    [
        ("fp16", "fp32", r"FP16 was asked for, and of 2 layers with weights none has it: .* stored in FP32 \(2\)"),
        ("bf16", "fp32", "BF16 was asked for"),
        ("int8", "fp16", r"INT8 was asked for, .* they run in FP16 \(2\)"),
        ("int8+fp16", "fp16", r"INT8\+FP16 was asked for"),
    ],
)
def test_an_engine_that_is_silently_something_else_is_an_error(
    half_here: None, asked: str, layers: str, said: str
) -> None:
    with pytest.raises(EngineError, match=said):
        check_held(what_ran(asked, RECORDED[layers]))


def test_half_weights_that_run_in_fp32_on_a_device_with_half_arithmetic_are_an_error(half_here: None) -> None:
    layers = [{"Name": "conv", "Precision": "FP32", "Weights": {"Type": "Half", "Count": 9}}]
    with pytest.raises(EngineError, match=r"none has it: they run in FP32 \(1\)"):
        check_held(what_ran("fp16", layers))


def test_a_layer_with_q_and_dq_that_runs_in_something_else_is_named() -> None:
    check_quantised(["/layer1/layer1.0/conv1/Conv", "told nowhere"], RECORDED["int8"])
    with pytest.raises(EngineError, match=r"1 of 2 layers with Q/DQ did not run in INT8: /conv1/Conv \(fp16\)"):
        check_quantised(["/conv1/Conv", "told nowhere"], RECORDED["fp16"])


@pytest.mark.skipif(ENGINE != "cpu", reason="a GPU has half arithmetic")
@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_a_processor_without_half_arithmetic_stores_it_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, explicit: bool, precision: str
) -> None:
    from helpers.cpu_engine import _openvino

    model = tiny_onnx(tmp_path)
    plain = build_engine(model, tmp_path / "fp32", BuildOptions())
    monkeypatch.setattr(_openvino, "cpu_capabilities", lambda: ["FP32", "INT8"])
    found = build_engine(model, tmp_path / "half", BuildOptions(precision=precision, explicit=explicit))
    assert found.ran == {
        "asked": precision,
        "stored": {"fp16": 3},
        "ran": {"fp32": 3},
        "said": "stored FP16, ran FP32",  # BF16 too: its weights are within FP16's range
    }
    assert plain.size_bytes - found.size_bytes > 0.3 * model.stat().st_size


@pytest.mark.skipif((ENGINE, API) != ("cpu", 10), reason="what is broken is the CPU engine's flag")
def test_a_build_whose_flag_is_lost_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_onnx(tmp_path)
    set_flag = trt.IBuilderConfig.set_flag

    def forgetful(config: trt.IBuilderConfig, flag: trt.BuilderFlag) -> None:
        if flag != trt.BuilderFlag.FP16:
            set_flag(config, flag)

    monkeypatch.setattr(trt.IBuilderConfig, "set_flag", forgetful)
    with pytest.raises(EngineError, match="FP16 was asked for"):
        build_engine(model, tmp_path / "e.engine", BuildOptions(precision="fp16"))
    assert [path.name for path in tmp_path.iterdir()] == [model.name]
