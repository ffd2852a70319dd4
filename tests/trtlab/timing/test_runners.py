"""Are baselines loaded with the engines' threads and inputs, and refused in one line where they cannot run?"""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from helpers.engine import backend
from helpers.engine.arithmetic import has_half
from helpers.engine.backend import DEVICE, ENGINE, trt
from tests.trtlab.tiny_models import SIZE, TinyNet, operator_onnx, tiny_onnx
from trtcpu.errors import EngineError, InputError
from trtlab.building.build import BuildOptions, build_engine
from trtlab.timing import memory_probe
from trtlab.timing.bench_plan import engine_files, load_runners
from trtlab.timing.memory_probe import peak_memory
from trtlab.timing.options import Baselines
from trtlab.timing.runners import RunnerSpec, _rounds_to_tf32, load_runner, physical_cores

SHAPE = (3, SIZE, SIZE)


@pytest.fixture(autouse=True)
def models(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny model in place of the lab's own."""
    module = ModuleType("helpers.data.models")
    module.load_model = lambda name, data="digits": TinyNet().eval()
    monkeypatch.setitem(sys.modules, "helpers.data.models", module)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runners")
    build_engine(tiny_onnx(folder), folder / "tiny.engine", BuildOptions(max_batch=64, opt_batch=8))
    return folder / "tiny.engine"


def test_an_engine_tells_its_profile_size_precision_and_device(engine: Path) -> None:
    runner = load_runner(RunnerSpec("engine", str(engine)))
    assert (runner.name, runner.precision, runner.device) == ("tiny", "fp32", DEVICE)
    assert (runner.min_batch, runner.max_batch, runner.sample_shape) == (1, 64, SHAPE)
    assert runner.size_bytes == engine.stat().st_size
    runner.bind(3)
    runner.run()
    runner.close()


@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16"])
@pytest.mark.skipif(ENGINE != "cpu", reason="TensorRT picks by timing, layer by layer")
def test_an_engine_tells_in_what_most_of_its_layers_ran(tmp_path: Path, precision: str) -> None:
    build_engine(tiny_onnx(tmp_path), tmp_path / "e.engine", BuildOptions(precision, max_batch=4, opt_batch=4))
    expected = {"fp16": trt.half_precision().lower()}.get(precision, "fp32")
    assert load_runner(RunnerSpec("engine", str(tmp_path / "e.engine"))).ran_in == expected


def test_a_baseline_on_the_cpu_runs_in_fp32_and_beside_a_gpu_uses_none_of_its_memory(tmp_path, monkeypatch) -> None:
    runner = load_runner(RunnerSpec("onnxruntime", str(tiny_onnx(tmp_path))))
    assert runner.ran_in == "fp32" and not memory_probe._uses_gpu(runner)
    monkeypatch.setattr(backend, "describe", lambda: {"name": "tensorrt"})
    assert not memory_probe._uses_gpu(runner)
    runner.device = "ONNX Runtime 1.0, CUDAExecutionProvider"
    assert memory_probe._uses_gpu(runner)


@pytest.mark.parametrize(
    ("capability", "allowed", "rounds"), [((9, 0), True, True), ((9, 0), False, False), ((7, 5), True, False)]
)
def test_pytorch_rounds_to_tf32_where_the_gpu_can_and_it_may(capability, allowed: bool, rounds: bool) -> None:
    cuda = SimpleNamespace(get_device_capability=lambda: capability)
    backends = SimpleNamespace(cudnn=SimpleNamespace(allow_tf32=allowed))
    assert _rounds_to_tf32(SimpleNamespace(cuda=cuda, backends=backends)) is rounds


def test_an_engine_without_its_record_does_not_guess_its_precision(engine: Path, tmp_path: Path) -> None:
    (tmp_path / "lonely.engine").write_bytes(engine.read_bytes())
    for record in (None, "[]", "{}", '{"precision": 3}', "garbage"):
        if record is not None:
            (tmp_path / "lonely.engine.json").write_text(record)
        assert load_runner(RunnerSpec("engine", str(tmp_path / "lonely.engine"))).precision == "?"


@pytest.mark.skipif(ENGINE != "cpu", reason="on a GPU the baselines do not run on CPU threads")
def test_pytorch_runs_with_as_many_threads_as_physical_cores() -> None:
    runner = load_runner(RunnerSpec("pytorch", "resnet50", sample_shape=SHAPE))
    assert torch.get_num_threads() == physical_cores()
    assert f"{physical_cores()} threads" in runner.device and torch.__version__ in runner.device
    assert runner.size_bytes == sum(tensor.nbytes for tensor in TinyNet().state_dict().values())
    runner.bind(2)
    runner.run()


def test_onnx_runtime_takes_only_the_batch_that_the_graph_fixes(tmp_path: Path) -> None:
    fixed = load_runner(RunnerSpec("onnxruntime", str(tiny_onnx(tmp_path, dynamic=False, batch=2))))
    assert (fixed.min_batch, fixed.max_batch, fixed.sample_shape) == (2, 2, SHAPE)
    fixed.bind(2)
    fixed.run()


def test_onnx_runtime_runs_two_inputs_and_refuses_garbage(tmp_path: Path) -> None:
    two = load_runner(RunnerSpec("onnxruntime", str(operator_onnx(tmp_path / "two.onnx", "Add", 2))))
    two.bind(3)
    two.run()
    assert (two.input_name, two.sample_shape) == ("in0", SHAPE)
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(InputError, match="ONNX Runtime cannot load"):
        load_runner(RunnerSpec("onnxruntime", str(tmp_path / "bad.onnx")))


@pytest.mark.skipif(ENGINE != "cpu", reason="on a GPU torch.compile needs no C++ compiler")
def test_torch_compile_without_a_compiler_says_so_and_the_rest_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: Path
) -> None:
    monkeypatch.setenv("CXX", str(tmp_path / "no-compiler"))
    with pytest.raises(EngineError, match="needs a C\\+\\+ compiler.*apt install g\\+\\+"):
        load_runner(RunnerSpec("torch-compile", "resnet50", sample_shape=SHAPE))
    notes: list[str] = []
    runners = load_runners([engine], Baselines(pytorch="resnet50", torch_compile=True), note=notes.append)
    assert [runner.name for runner in runners] == ["tiny", "pytorch-fp32"]
    assert len(notes) == 1 and notes[0].startswith("torch-compile is left out")


@pytest.mark.skipif(not has_half("fp16"), reason="this processor computes in no half precision")
def test_pytorch_in_half_precision_says_what_ran_and_is_half_as_large() -> None:
    full, half = (load_runner(RunnerSpec(kind, "resnet18", sample_shape=SHAPE)) for kind in ("pytorch", "pytorch-fp16"))
    half.bind(2)
    half.run()
    assert (half.name, half.precision) == ("pytorch-fp16", "fp16") and half.ran_in in ("fp16", "bf16")
    assert half.size_bytes == pytest.approx(full.size_bytes / 2, rel=0.01)


def test_half_precision_without_the_arithmetic_is_left_out_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helpers.engine.arithmetic.has_half", lambda precision: False)
    notes: list[str] = []
    runners = load_runners([], Baselines(pytorch="resnet18", pytorch_fp16=True), note=notes.append)
    assert [runner.name for runner in runners] == ["pytorch-fp32"]
    assert notes == ["pytorch-fp16 is left out: this processor computes in no half precision"]


def test_baselines_take_the_engines_input_shape(engine: Path) -> None:
    runners = load_runners([engine], Baselines(pytorch="resnet50", ort=next(engine.parent.glob("*.onnx"))))
    assert [runner.sample_shape for runner in runners] == [SHAPE] * 3


def test_engines_of_one_name_in_two_folders_are_told_apart(engine: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.engine").write_bytes(engine.read_bytes())
    names = [runner.name for runner in load_runners([engine, tmp_path / "tiny.engine"])]
    assert names == [str(engine.with_suffix("")), str(tmp_path / "tiny")]


def test_a_folder_gives_its_engines_by_name_and_none_twice(tmp_path: Path) -> None:
    for name in ("b.engine", "a.plan", "a.onnx", "b.engine.json"):
        (tmp_path / name).touch()
    assert [path.name for path in engine_files([tmp_path / "b.engine"], tmp_path)] == ["b.engine", "a.plan"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no engine"):
        engine_files([], tmp_path / "empty")


@pytest.mark.skipif(ENGINE != "cpu", reason="on a GPU the figure is the device's memory")
def test_memory_is_measured_in_a_process_of_its_own_and_grows_with_the_batch(engine: Path) -> None:
    peaks = peak_memory(load_runner(RunnerSpec("engine", str(engine))), [1, 64])
    assert 20e6 < peaks[1] <= peaks[64] < 1e9
