"""Precision written into the model, as TensorRT 11 takes it alone: steps 2 and 4 give their points for it too."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s02_fp16 import ENGINE, FP16
from helpers.checks.points.s04_int8 import engine
from helpers.checks.points.s04_int8.calibrator import FUNCTION as CALIBRATOR
from helpers.checks.probes.student import Student
from helpers.engine.backend import API, network_flags, trt
from tests.conformance.models import cast
from trtcpu.builder.quantization import quantize

ROOT = Path(__file__).resolve().parents[4]


def builder(rewritten: Any, batches: tuple[int, int, int] = (1, 8, 8), image: tuple[int, ...] = (3, 224, 224)) -> Any:
    """Return a student's function that builds what `rewritten` makes of the ONNX file, strongly typed."""

    def build_engine_fp16(onnx_path: Path, engine_path: Path) -> bytes:
        logger = trt.Logger(trt.Logger.ERROR)
        factory = trt.Builder(logger)
        typed = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
        network = factory.create_network(network_flags() | typed)
        parser = trt.OnnxParser(network, logger)
        model = onnx_path.read_bytes()
        try:
            model = rewritten(model)
        except Exception as error:  # the parser says what is wrong with it
            print(f"not rewritten: {type(error).__name__}")
        if not parser.parse(model):
            raise RuntimeError("; ".join(parser.get_error(i).desc() for i in range(parser.num_errors)))
        config = factory.create_builder_config()
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 2 << 30)
        profile = factory.create_optimization_profile()
        profile.set_shape(network.get_input(0).name, *((batch, *image) for batch in batches))
        config.add_optimization_profile(profile)
        plan = factory.build_serialized_network(network, config)
        if plan is None:
            raise RuntimeError("the build failed, see the log")
        engine_path.write_bytes(plan)
        return bytes(plan)

    return build_engine_fp16


def to_half(model: bytes) -> bytes:
    return cast(model, TensorProto.FLOAT16)


def judged(rewritten: Any) -> dict[str, str]:
    """Return what each point of step 2 that was lost says was found, by its title."""
    case, lost = Case(Student.in_process({FP16.function: builder(rewritten)}), seed=5), {}
    for one in ENGINE.visible:
        try:
            one(case)
        except Missed as missed:
            lost[one.title] = f"{missed.expected}: {missed.try_this}"
    return lost


def test_an_engine_of_a_model_that_was_cast_keeps_all_points_of_step_2() -> None:
    assert judged(to_half) == {}


def test_an_engine_of_the_model_as_it_was_loses_half_precision_alone() -> None:
    assert list(judged(lambda model: model)) == ["Built for half precision"]


class PlainCalibrator:
    """What is left of a calibrator where TensorRT has none: it hands out batches to whoever asks."""

    def __init__(self, loader: Any, cache_path: Path) -> None:
        self.loader = loader


def judged_int8(rewritten: Any) -> dict[str, str]:
    """Return which of the points that need no calibrator of TensorRT's a Q/DQ engine of step 4 loses, and why."""
    build = builder(rewritten, engine.BATCHES)
    notebook = {engine.INT8.function: lambda onnx, plan, calibrator: build(onnx, plan), CALIBRATOR: PlainCalibrator}
    case, lost = Case(Student.in_process(notebook), seed=5), {}
    for one in engine.ENGINE.visible[: engine.ENGINE.points.index(engine.calibrated)]:
        try:
            one(case)
        except Missed as missed:
            lost[one.title] = str(missed)
    return lost


def to_int8(model: bytes) -> bytes:
    graph = onnx.load_from_string(model)
    scales = {name: 0.05 for node in graph.graph.node for name in (*node.input, *node.output)}
    return quantize(graph, scales)[0].SerializeToString()


@pytest.mark.slow
@pytest.mark.skipif(API == 11, reason="this process speaks 11")
def test_the_same_holds_where_11_is_spoken_and_the_advice_is_of_11() -> None:
    code = (
        "import json, tests.helpers.checks.points.test_explicit_precision as t\n"
        "from helpers.engine.backend import API\n"
        "lost = [t.judged(t.to_half), t.judged(lambda model: model), t.judged_int8(t.to_int8)]\n"
        "print(json.dumps([API, *lost, t.judged_int8(lambda model: model)]))"
    )
    environment = {**os.environ, "TRT_LAB_API": "11", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    api, cast_lost, float_lost, quantized_lost, unquantized_lost = json.loads(done.stdout.splitlines()[-1])
    assert (api, cast_lost, quantized_lost) == (11, {}, {})
    assert list(float_lost) == ["Built for half precision"] and "cast the model to FP16" in str(float_lost)
    assert list(unquantized_lost) == ["The convolutions run in INT8"]
