"""What a label says of a precision is what the inspector finds in an engine that asked for it."""

import re

import pytest

from helpers.engine import arithmetic as room
from helpers.engine.arithmetic import arithmetic
from helpers.engine.backend import trt
from helpers.engine.layers import count_precisions, engine_layers
from helpers.toys.networks import tiny_onnx
from trtcpu import tensorrt as cpu_engine


def precisions_of(flag: str | None) -> dict[str, int]:
    """Build a small network with one builder flag and return how many layers run in which precision."""
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    assert trt.OnnxParser(network, logger).parse(tiny_onnx(seed=1))
    config = builder.create_builder_config()
    if flag:
        config.set_flag(getattr(trt.BuilderFlag, flag))
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    profile = builder.create_optimization_profile()
    shape = network.get_input(0).shape
    profile.set_shape(network.get_input(0).name, *[(batch, *shape[1:]) for batch in (1, 2, 4)])
    config.add_optimization_profile(profile)
    engine = trt.Runtime(logger).deserialize_cuda_engine(builder.build_serialized_network(network, config))
    return count_precisions(engine_layers(engine))


@pytest.mark.parametrize(("precision", "flag"), [("fp32", None), ("fp16", "FP16"), ("bf16", "BF16"), ("tf32", "TF32")])
@pytest.mark.skipif(room.ENGINE != "cpu", reason="TensorRT picks by timing; tests/fixtures holds what it picked")
def test_a_label_says_what_the_inspector_finds(precision: str, flag: str | None) -> None:
    asked, *_, ran = 2 * re.findall(r"[A-Z]+\d+", arithmetic(precision))  # one where that is what ran
    assert asked == precision.upper()
    assert ran.lower() in precisions_of(flag)


@pytest.mark.parametrize(
    ("has", "flags", "said"),
    [
        ("FP16", "", {"fp16": "FP16", "bf16": "BF16 asked, FP32 ran"}),
        ("BF16", "avx2", {"fp16": "FP16 asked, BF16 ran", "bf16": "BF16"}),
        ("BF16 FP16", "avx2", {"fp16": "FP16 asked, BF16 ran", "bf16": "BF16"}),
        ("BF16 FP16", "avx2 amx_fp16", {"fp16": "FP16", "bf16": "BF16"}),
        ("BF16 FP16", "avx2 AuthenticAMD avx512_bf16", {"fp16": "FP16 asked, BF16 ran", "bf16": "BF16"}),
        ("BF16 FP16", "avx2 GenuineIntel amx_bf16", {"fp16": "FP16 asked, BF16 ran", "bf16": "BF16"}),
        ("BF16 FP16", "avx2 GenuineIntel", {"fp16": "stored FP16, ran FP32", "bf16": "BF16 asked, FP32 ran"}),
        ("FP32", "avx2", {"fp16": "stored FP16, ran FP32", "int8": "INT8"}),
    ],
)
def test_on_a_processor_half_precision_is_the_fastest_that_it_has(
    monkeypatch, has: str, flags: str, said: dict[str, str]
) -> None:
    monkeypatch.setattr(room, "ENGINE", "cpu")
    monkeypatch.setattr(room, "trt", cpu_engine)
    monkeypatch.setattr(cpu_engine._openvino, "cpu_capabilities", has.split)
    monkeypatch.setattr(cpu_engine._openvino, "_cpu_flags", lambda: frozenset(flags.split()))
    assert {precision: arithmetic(precision) for precision in said} == said


@pytest.mark.parametrize(("capability", "said"), [((9, 0), "FP32 asked, TF32 ran"), ((7, 5), "FP32")])
def test_on_a_gpu_fp32_is_tf32_from_ampere_on(monkeypatch, capability: tuple[int, int], said: str) -> None:
    class Device:
        def compute_capability(self) -> tuple[int, int]:
            return capability

    context = type("Context", (), {"get_device": staticmethod(Device)})
    monkeypatch.setattr(room, "ENGINE", "tensorrt")
    monkeypatch.setattr(room, "cuda", type("Driver", (), {"Context": context}))
    assert arithmetic("fp32") == said
    assert arithmetic("fp16") == "FP16"
