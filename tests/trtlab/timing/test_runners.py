"""Are baselines loaded with the engines' threads and inputs, and refused in one line if they cannot run?"""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from helpers.engine import backend, memory
from helpers.engine.arithmetic import has_half
from helpers.engine.backend import DEVICE, ENGINE, trt
from tests.trtlab.tiny_models import SIZE, TinyNet, operator_onnx, tiny_onnx
from trtcpu.errors import InputError
from trtlab.building.build import BuildOptions, build_engine
from trtlab.timing import memory_probe
from trtlab.timing.memory_probe import peak_memory
from trtlab.timing.options import Baselines
from trtlab.timing.runners import (
    Runner,
    RunnerSpec,
    _rounds_to_tf32,
    engine_files,
    load_runner,
    load_runners,
    physical_cores,
)

SHAPE = (3, SIZE, SIZE)


@pytest.fixture(autouse=True)
def models(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny model in place of the lab's own."""
    monkeypatch.setattr("helpers.data.models.load_model", lambda name, data="digits": TinyNet().eval())


def loaded(kind: str, source: object, **told: Any) -> Runner:
    """Load a runner, and let it run a batch of 2."""
    runner = load_runner(RunnerSpec(kind, str(source), **told))
    runner.bind(2)
    runner.run()
    return runner


def test_an_engine_ran_in_what_its_layers_with_weights_ran_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_engine(tiny_onnx(tmp_path), tmp_path / "e.engine", BuildOptions())
    reshape = {"Name": "reshape", "LayerType": "Shuffle", "Precision": "FP32"}
    product = {"Name": "product", "LayerType": "MatMul", "Precision": "INT8", "Weights": {"Type": "Int8", "Count": 64}}
    monkeypatch.setattr("helpers.engine.layers.engine_layers", lambda engine: [reshape, reshape, product])
    assert loaded("engine", tmp_path / "e.engine").ran_in == "int8"


@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16"])
def test_an_engine_tells_its_profile_size_device_and_precisions(onnx: Path, tmp_path: Path, precision: str) -> None:
    path = tmp_path / "e.engine"
    build_engine(onnx, path, BuildOptions(precision, max_batch=4, opt_batch=4))
    runner = loaded("engine", path)
    assert (runner.name, runner.precision, runner.device) == ("e", precision, DEVICE)
    assert (runner.min_batch, runner.max_batch, runner.inputs["input"].best[1:]) == (1, 4, SHAPE)
    assert runner.size_bytes == path.stat().st_size
    if ENGINE == "cpu":  # TensorRT picks by timing, layer by layer
        assert runner.ran_in == (trt.half_precision().lower() if precision == "fp16" else "fp32")
    for record in ("[]", "{}", "garbage"):
        path.with_suffix(".engine.json").write_text(record)
        assert loaded("engine", path).precision == "?", "a damaged record tells nothing"


def test_a_baseline_on_the_cpu_runs_in_fp32_and_beside_a_gpu_uses_none_of_its_memory(onnx, monkeypatch) -> None:
    runner = loaded("onnxruntime", onnx)
    monkeypatch.setattr(memory, "gpu_memory_bytes", lambda whole_device: 7)
    monkeypatch.setattr(backend, "describe", lambda: {"name": "tensorrt"})
    monkeypatch.setattr(memory_probe, "load_runner", lambda spec: runner)
    assert runner.ran_in == "fp32" and memory_probe.measure(runner.spec, [2])[2] > 1e6
    runner.device = "ONNX Runtime 1.0, CUDAExecutionProvider"
    assert memory_probe.measure(runner.spec, [2]) == {2: 0}


@pytest.mark.parametrize(
    ("capability", "allowed", "rounds"), [((9, 0), True, True), ((9, 0), False, False), ((7, 5), True, False)]
)
def test_pytorch_rounds_to_tf32_where_the_gpu_can_and_it_may(capability, allowed: bool, rounds: bool) -> None:
    cuda = SimpleNamespace(get_device_capability=lambda: capability)
    backends = SimpleNamespace(cudnn=SimpleNamespace(allow_tf32=allowed))
    assert _rounds_to_tf32(SimpleNamespace(cuda=cuda, backends=backends)) is rounds


@pytest.mark.skipif(ENGINE != "cpu", reason="on a GPU the baselines do not run on CPU threads")
def test_pytorch_runs_with_as_many_threads_as_physical_cores_that_it_may_use() -> None:
    runner = loaded("pytorch", "resnet50", sample_shape=SHAPE)
    assert 1 <= torch.get_num_threads() == physical_cores() <= len(os.sched_getaffinity(0))
    assert f"{physical_cores()} threads" in runner.device and torch.__version__ in runner.device


def test_onnx_runtime_takes_the_batch_and_the_inputs_of_the_graph_and_refuses_garbage(tmp_path: Path) -> None:
    fixed = loaded("onnxruntime", tiny_onnx(tmp_path, dynamic=False, batch=2))
    assert (fixed.min_batch, fixed.max_batch, fixed.inputs["input"].best) == (2, 2, (2, *SHAPE))
    two = loaded("onnxruntime", operator_onnx(tmp_path / "two.onnx", "Add", 2))
    assert {name: spec.best[1:] for name, spec in two.inputs.items()} == {"in0": SHAPE, "in1": SHAPE}
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    for name in ("bad.onnx", "missing.onnx"):
        with pytest.raises(InputError, match=f"ONNX Runtime cannot load .*{name}"):
            loaded("onnxruntime", tmp_path / name)


@pytest.mark.skipif(not has_half("fp16"), reason="no half precision is faster than FP32 on this processor")
def test_pytorch_in_half_precision_says_what_ran_and_is_half_as_large() -> None:
    full, half = (loaded(kind, "resnet18", sample_shape=SHAPE) for kind in ("pytorch", "pytorch-fp16"))
    assert (half.name, half.precision) == ("pytorch-fp16", "fp16") and half.ran_in in ("fp16", "bf16")
    assert full.size_bytes == sum(tensor.nbytes for tensor in TinyNet().state_dict().values())
    assert half.size_bytes == pytest.approx(full.size_bytes / 2, rel=0.01)


def test_a_baseline_that_cannot_run_here_is_left_out_with_a_note(engine: Path, monkeypatch) -> None:
    error = RuntimeError("backend='inductor' raised:\nInvalidCxxCompiler: No working C++ compiler found")
    monkeypatch.setattr(torch, "compile", lambda model, dynamic: Mock(side_effect=error))
    monkeypatch.setattr("helpers.engine.arithmetic.has_half", lambda precision: False)
    notes: list[str] = []
    asked = Baselines(pytorch="resnet50", pytorch_fp16=True, torch_compile=True, ort=next(engine.parent.glob("*.onnx")))
    runners = load_runners([engine], asked, note=notes.append)
    assert [runner.name for runner in runners] == ["fp32", "onnxruntime-fp32", "pytorch-fp32"]
    assert [runner.inputs["input"].best[1:] for runner in runners] == [SHAPE] * 3, "the engine's"
    assert notes == [
        "pytorch-fp16 is left out: no half precision is faster than FP32 on this processor",
        "torch-compile is left out: torch.compile failed here: InvalidCxxCompiler: No working C++ compiler found; "
        "it needs a C++ compiler: apt install g++",
    ]


def test_engines_of_one_name_in_two_folders_are_told_apart(engine: Path, tmp_path: Path) -> None:
    (tmp_path / "fp32.engine").write_bytes(engine.read_bytes())
    runners = load_runners([engine, tmp_path / "fp32.engine"], Baselines())
    told = [(runner.name, runner.precision) for runner in runners]
    assert told == [(str(engine.with_suffix("")), "fp32"), (str(tmp_path / "fp32"), "?")], "one has no record"


def test_a_folder_gives_its_engines_by_name_and_none_twice(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no engine"):
        engine_files([], tmp_path / "empty")
    for name in ("b.engine", "a.plan", "a.onnx", "b.engine.json"):
        (tmp_path / name).touch()
    assert [path.name for path in engine_files([tmp_path / "b.engine"], tmp_path)] == ["b.engine", "a.plan"]


@pytest.mark.skipif(ENGINE != "cpu", reason="on a GPU the figure is the device's memory")
def test_memory_is_measured_in_a_process_of_its_own_and_grows_with_the_batch(engine: Path) -> None:
    runner = load_runner(RunnerSpec("engine", str(engine)))
    peaks = peak_memory(runner, [1, 8])
    assert 20e6 < peaks[1] <= peaks[8] < 1e9
    runner.spec = RunnerSpec("engine", "/no/such.engine")
    assert peak_memory(runner, [1]) == {}, "it cannot be loaded again"
