"""The plan format: what was written is read, anything else is refused with its reason."""

import dataclasses

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper
from onnxruntime.transformers.float16 import convert_float_to_float16

from helpers.toys.networks import EDGE, tiny_onnx
from trtcpu import _openvino, plan
from trtcpu import tensorrt as trt
from trtcpu.plan import Binding, Plan, PlanError

PLAN = Plan(
    network="net",
    hint="f32",
    bindings=[Binding("input", "FLOAT", [-1, 3], True), Binding("output", "FLOAT", [["input", 0], 5], False)],
    profiles=[{"input": [[1, 3], [2, 3], [4, 3]]}],
    blob=bytes(range(256)) * 4,
    operators={"conv": "Conv"},
)


def test_a_plan_comes_back_as_it_was() -> None:
    assert dataclasses.asdict(Plan.deserialize(PLAN.serialize())) == dataclasses.asdict(PLAN)


@given(cut=st.integers(0, 10_000))
@settings(max_examples=60)
def test_a_truncated_plan_is_refused(cut: int) -> None:
    data = PLAN.serialize()
    with pytest.raises(PlanError):
        Plan.deserialize(data[: cut % len(data)])


@given(position=st.integers(0, 10_000), value=st.integers(1, 255))
@settings(max_examples=60)
def test_a_changed_byte_is_noticed(position: int, value: int) -> None:
    data = bytearray(PLAN.serialize())
    data[position % len(data)] ^= value
    with pytest.raises(PlanError):
        Plan.deserialize(bytes(data))


@given(st.binary(max_size=300))
def test_any_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(PlanError):
        Plan.deserialize(data)


def test_a_plan_of_nvidias_tensorrt_is_named_as_such() -> None:
    with pytest.raises(PlanError, match="built by TensorRT for an NVIDIA GPU"):
        Plan.deserialize(b"ftrt" + bytes(100))


@pytest.mark.parametrize(
    ("key", "text"), [("engine", "engine version"), ("openvino", "OpenVINO version"), ("cpu", "processor features")]
)
def test_a_plan_of_another_platform_says_what_differs(monkeypatch: pytest.MonkeyPatch, key: str, text: str) -> None:
    here = plan.platform()
    monkeypatch.setattr(plan, "platform", lambda: {**here, key: "another"})
    data = PLAN.serialize()
    monkeypatch.setattr(plan, "platform", lambda: here)
    with pytest.raises(PlanError, match=f"another {text} .*another.*build it again"):
        Plan.deserialize(data)


def test_a_plan_of_the_other_api_is_refused_with_the_variable_that_loads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    here = plan.platform()
    monkeypatch.setattr(plan, "platform", lambda: {**here, "engine": "11.4.0.106+cpu"})
    data = PLAN.serialize()
    monkeypatch.setattr(plan, "platform", lambda: {**here, "engine": "10.16.1.11+cpu"})
    with pytest.raises(PlanError, match=r"11\.4\.0\.106\+cpu, here 10\.16.*, or load it with TRT_LAB_API=11$"):
        Plan.deserialize(data)


@pytest.mark.parametrize("half", [False, True])
def test_a_plan_tells_in_which_type_its_weights_are_stored(half: bool) -> None:
    model = tiny_onnx(3)
    weights = [numpy_helper.to_array(tensor) for tensor in onnx.load_from_string(model).graph.initializer]
    matrices = sum(array.size for array in weights if array.ndim > 1)
    biases = sum(array.size for array in weights) - matrices
    found = Plan.deserialize(_built(model, half)).stored
    expected = {"f16": 2 * matrices, "f32": 4 * biases} if half else {"f32": 4 * (matrices + biases)}
    assert {name: size for name, size in found.items() if name != "i32"} == expected  # i32: shapes
    assert PLAN.stored == {}


def test_a_model_in_fp16_is_stored_in_it_where_no_half_arithmetic_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_openvino, "half_precision", lambda asked="FP16": "FP32")
    model = convert_float_to_float16(onnx.load_from_string(tiny_onnx(3)))
    found = [Plan.deserialize(_built(each, True)).stored for each in (tiny_onnx(3), model.SerializeToString())]
    assert found[0]["f16"] == found[1]["f16"] > 0


def _built(model: bytes, half: bool) -> bytes:
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network, config = builder.create_network(0), builder.create_builder_config()
    assert trt.OnnxParser(network, logger).parse(model)
    if half:
        config.set_flag(trt.BuilderFlag.FP16)
    profile = builder.create_optimization_profile()
    profile.set_shape("input", *[(8, 3, EDGE, EDGE)] * 3)
    config.add_optimization_profile(profile)
    return bytes(builder.build_serialized_network(network, config))
