"""What was asked against what runs: on layers that TensorRT 8.6's inspector told, and on builds of a tiny network."""

import json
from pathlib import Path

import pytest

from helpers.engine.backend import API, ENGINE, trt
from helpers.tools.files import read_json
from tests.trtlab.tiny_models import tiny_onnx
from trtlab.building import what_ran as room
from trtlab.building.build import BuildOptions, build_engine, record_path
from trtlab.building.what_ran import contradiction, unquantised, what_ran

on_the_cpu_engine_with_flags = pytest.mark.skipif(
    (ENGINE, API) != ("cpu", 10), reason="what is broken is the CPU engine's flag"
)
RECORDED = json.loads((Path(__file__).parents[2] / "fixtures/inspector_tensorrt_8_6.json").read_text())


@pytest.fixture
def half_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "has_half", lambda precision: True)


@pytest.mark.parametrize("precision", ["fp16", "int8", "fp32", "tf32"])
def test_an_engine_of_tensorrt_is_what_it_was_asked_for_as(half_here: None, precision: str) -> None:
    found = what_ran(precision, RECORDED[precision])
    assert set(found.ran) == {precision} and found.said is None and contradiction(found) is None


@pytest.mark.parametrize(
    ("asked", "layers", "said"),
    [
        (
            "fp16",
            "fp32",
            "FP16 was asked for, and of 2 layers with weights none has it: their weights are stored in FP32",
        ),
        ("bf16", "fp32", "BF16 was asked for"),
        ("int8", "fp16", "INT8 was asked for, and of 2 layers with weights none has it: they run in FP16 (2)"),
        ("int8+fp16", "fp16", "INT8+FP16 was asked for"),
    ],
)
def test_an_engine_that_is_silently_something_else_is_named(
    half_here: None, asked: str, layers: str, said: str
) -> None:
    found = what_ran(asked, RECORDED[layers])
    assert contradiction(found).startswith(said)
    assert found.said == f"{asked.upper()} asked, {layers.upper()} ran"


def test_half_weights_that_run_in_fp32_on_a_device_with_half_arithmetic_are_named(half_here: None) -> None:
    layers = [{"Name": "conv", "Precision": "FP32", "Weights": {"Type": "Half", "Count": 9}}]
    found = what_ran("fp16", layers)
    assert contradiction(found).endswith("none has it: they run in FP32 (1)") and found.said == "stored FP16, ran FP32"


def test_a_layer_with_q_and_dq_that_runs_in_something_else_is_named() -> None:
    assert unquantised(["/layer1/layer1.0/conv1/Conv", "told nowhere"], RECORDED["int8"]) is None
    found = unquantised(["/conv1/Conv", "told nowhere"], RECORDED["fp16"])
    assert found == "1 of 2 layers with Q/DQ did not run in INT8: /conv1/Conv (fp16)"


@pytest.mark.skipif(ENGINE != "cpu", reason="a GPU has half arithmetic")
@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_a_processor_without_half_arithmetic_stores_it_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, explicit: bool, precision: str
) -> None:
    from trtcpu import _openvino

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


@pytest.fixture
def builder_takes_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the CPU engine build what TensorRT builds where it finds FP32 the fastest."""
    set_flag = trt.IBuilderConfig.set_flag

    def forgetful(config: trt.IBuilderConfig, flag: trt.BuilderFlag) -> None:
        if flag != trt.BuilderFlag.FP16:
            set_flag(config, flag)

    monkeypatch.setattr(trt.IBuilderConfig, "set_flag", forgetful)


@on_the_cpu_engine_with_flags
def test_a_build_in_which_nothing_runs_as_asked_warns_in_output_and_record(
    builder_takes_fp32: None, trtlab, tmp_path: Path
) -> None:
    engine = tmp_path / "e.engine"
    code, out, _ = trtlab("build", "--onnx", tiny_onnx(tmp_path), "--engine", engine, "--precision", "fp16")
    assert code == 0 and engine.is_file()
    assert "\nFP16 asked, FP32 ran\n" in out and "\nwarning: FP16 was asked for, and of 3 layers with weights" in out
    record = read_json(record_path(engine))
    assert record["ran"]["said"] == "FP16 asked, FP32 ran" and record["ran"]["ran"] == {"fp32": 3}
    assert record["warnings"][0].startswith("FP16 was asked for")


@on_the_cpu_engine_with_flags
def test_a_strict_build_in_which_nothing_runs_as_asked_is_refused_and_leaves_nothing(
    builder_takes_fp32: None, trtlab, tmp_path: Path
) -> None:
    model, engine = tiny_onnx(tmp_path), tmp_path / "e.engine"
    code, _, err = trtlab("build", "--onnx", model, "--engine", engine, "--precision", "fp16", "--strict")
    assert code == 2 and err.startswith("error: FP16 was asked for") and "the engine is not kept" in err
    assert [path.name for path in tmp_path.iterdir()] == [model.name]
