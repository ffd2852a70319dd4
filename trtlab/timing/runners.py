"""What `trtlab bench` measures: engines, and the baselines PyTorch in FP32 and FP16, torch.compile and ONNX Runtime.

A runner is bound to a batch once; then `run()` executes that batch with its data already where it is needed. Baselines
use the GPU where the engine is TensorRT, else the CPU with as many threads as the CPU engine has.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import psutil

from helpers.course.settings import LAB_MODEL
from helpers.data.storage import one_line
from helpers.engine.backend import DEVICE, ENGINE, trt
from helpers.engine.memory import keep_freed_memory
from trtcpu.errors import EngineError, InputError
from trtcpu.processor import cores
from trtlab.engines.shapes import chosen_inputs
from trtlab.engines.tensors import InputSpec, batch_range, examples
from trtlab.ran_in import most_layers
from trtlab.timing.options import Baselines

SUFFIXES = (".engine", ".plan", ".trt")
UNBOUNDED = 1 << 20
_PYTORCH = {"pytorch": "pytorch-fp32", "pytorch-fp16": "pytorch-fp16", "torch-compile": "torch-compile-fp32"}
_ONNX_TYPES = {
    "tensor(float)": "float32", "tensor(float16)": "float16", "tensor(int64)": "int64", "tensor(int32)": "int32",
    "tensor(int8)": "int8", "tensor(uint8)": "uint8", "tensor(bool)": "bool",
}  # fmt: skip


@dataclass(frozen=True)
class RunnerSpec:
    """What to load: an engine's or an ONNX file's path, or a model's name; enough to load it again in another process.

    `inputs` are the engine's that it is measured beside: PyTorch models run on them, else on images of `sample_shape`
    (C, H, W); an ONNX file's dynamic axes, except the batch, take their sizes. `data` is the data set that the model's
    weights are for, `arch` what a state dict belongs to. `engine_shapes` (NAME:SHAPE) is what an engine runs at.
    """

    kind: Literal["engine", "pytorch", "pytorch-fp16", "torch-compile", "onnxruntime"]
    source: str
    name: str | None = None
    data: str = "digits"
    sample_shape: tuple[int, ...] = (3, 224, 224)
    arch: str | None = None
    inputs: dict[str, InputSpec] | None = None
    engine_shapes: tuple[str, ...] = ()


@dataclass(eq=False)
class About:
    """What a benchmark says of a runner.

    `device` names what runs it, in words. `precision` is what was asked for, `ran_in` what most layers run in; None
    if that cannot be known. `size_bytes` is its file or its weights.
    """

    name: str
    device: str
    inputs: dict[str, InputSpec]
    precision: str = "fp32"
    ran_in: str | None = None
    size_bytes: int | None = None
    tensorrt_version: str | None = None


class Runner(About):
    """One thing to time.

    `in_flight` executions are enqueued before the next wait: enough that a GPU never idles, few enough to be timed
    well.
    """

    min_batch: int = 1
    max_batch: int = UNBOUNDED
    spec: RunnerSpec
    in_flight: int = 4

    def bind(self, batch_size: int) -> None:
        """Prepare everything for `batch_size`, so that `run` does nothing but execute."""

    def enqueue(self) -> None:
        """Start one execution (and finish it, if the framework is synchronous)."""

    def synchronize(self) -> None:
        """Wait for what was started; a synchronous framework has nothing to wait for."""

    def run(self) -> None:
        """Execute the bound batch once and wait for its result."""
        self.enqueue()
        self.synchronize()

    def close(self) -> None:
        """Free what the runner holds; most are freed with their object."""


def physical_cores() -> int:
    """Return the number of physical cores that this process may use."""
    return min(cores(), psutil.cpu_count(logical=False) or cores())


def load_runner(spec: RunnerSpec) -> Runner:
    """Load what `spec` names.

    Raises:
        LabError: it cannot be loaded here; the text says why.
    """
    makers: dict[str, Callable[[RunnerSpec], Runner]] = {
        "engine": EngineRunner,
        "pytorch": PyTorchRunner,
        "pytorch-fp16": PyTorchRunner,
        "torch-compile": PyTorchRunner,
        "onnxruntime": OnnxRuntimeRunner,
    }
    runner = makers[spec.kind](spec)
    runner.spec = spec
    return runner


def load_if_it_runs(spec: RunnerSpec, note: Callable[[str], None]) -> Runner | None:
    """Load a baseline that not every machine can run, and let it run once; None, with a note, if it cannot."""
    try:
        runner = load_runner(spec)
        runner.bind(1)
        return runner
    except EngineError as error:
        note(f"{spec.kind} is left out: {error}")
        return None


class EngineRunner(Runner):
    """A serialized TensorRT engine."""

    def __init__(self, spec: RunnerSpec) -> None:
        from helpers.engine.layers import count_precisions, engine_layers, weights_precision
        from trtlab.engines.inference import InferenceEngine

        engine = InferenceEngine(spec.source)
        engine.choose(chosen_inputs(engine.inputs, spec.engine_shapes))
        self.name, self.inputs = spec.name or engine.name, engine.inputs
        self.device, self.tensorrt_version, self.precision = DEVICE, trt.__version__, engine.precision
        layers = engine_layers(engine.engine)
        weighted = [
            layer for layer in layers if weights_precision(layer)
        ]  # reshapes and sums of a transformer say little
        self.ran_in = most_layers(count_precisions(weighted or layers))
        self.min_batch, self.max_batch = engine.min_batch, engine.max_batch
        self.size_bytes = engine.size_bytes
        self.bind, self.close = engine.bind, engine.close
        self.enqueue, self.synchronize = engine.enqueue, engine.synchronize  # no call in between: 1 ms is timed with it


class PyTorchRunner(Runner):
    """A PyTorch model, eager in float32 with PyTorch's default settings; or in half precision, or by torch.compile.

    Half precision is FP16 on a GPU; on a CPU what its engines run in, which is BF16 on most.
    """

    def __init__(self, spec: RunnerSpec) -> None:
        import torch

        from helpers.data.models import load_model
        from trtlab.models.own_models import is_own, load_own

        self._torch, self._device = torch, "cuda" if ENGINE == "tensorrt" else "cpu"
        self.name = spec.name or _PYTORCH[spec.kind]
        shapes = ((batch, *spec.sample_shape) for batch in (1, 1, UNBOUNDED))
        self.inputs = spec.inputs or {"input": InputSpec("input", np.dtype(np.float32), *shapes)}
        model = load_own(spec.source, spec.arch) if is_own(spec.source) else load_model(spec.source, data=spec.data)
        self._model: Any = model.to(self._device)
        torch.set_num_threads(physical_cores())
        if self._device == "cpu":
            keep_freed_memory()
        where = DEVICE.partition(", ")[2] if self._device == "cuda" else f"CPU, {physical_cores()} threads"
        self.device = f"PyTorch {torch.__version__}, {where}"
        self.ran_in = "tf32" if self._device == "cuda" and _rounds_to_tf32(torch) else "fp32"
        self._half: Any = self._halved() if spec.kind == "pytorch-fp16" else None
        self.size_bytes = sum(tensor.nbytes for tensor in self._model.state_dict().values())
        if spec.kind == "torch-compile":
            self._model = torch.compile(self._model, dynamic=False)

    def _halved(self) -> Any:
        """Take the model to half precision, and return its type."""
        from helpers.engine.arithmetic import has_half

        if not has_half("fp16"):
            raise EngineError("no half precision is faster than FP32 on this processor")
        self.precision = "fp16"
        self.ran_in = "fp16" if self._device == "cuda" else trt.half_precision("FP16").lower()
        dtype = {"fp16": self._torch.float16, "bf16": self._torch.bfloat16}[self.ran_in]
        self._model.to(dtype)
        return dtype

    def bind(self, batch_size: int) -> None:
        tensors = map(self._torch.from_numpy, examples(self.inputs, batch_size).values())
        self._feeds = [
            tensor.to(self._device, dtype=self._half if tensor.is_floating_point() else None) for tensor in tensors
        ]
        try:
            self.run()
        except Exception as error:  # the user's own code may raise anything; inductor and its C++ compiler have classes
            said = one_line(error)[:200]
            if self.spec.kind == "torch-compile":
                needs = "; it needs a C++ compiler: apt install g++" if self._device == "cpu" else ""
                raise EngineError(f"torch.compile failed here: {said}{needs}") from error
            shapes = " and ".join(str(list(tensor.shape)) for tensor in self._feeds)
            raise InputError(f"{self.spec.source} does not run on {shapes}: {said}") from error

    def enqueue(self) -> None:
        with self._torch.inference_mode():
            self._model(*self._feeds)

    def synchronize(self) -> None:
        if self._device == "cuda":
            self._torch.cuda.synchronize()


def _rounds_to_tf32(torch: Any) -> bool:
    """Say whether PyTorch's float32 convolutions use TF32: by default on GPUs from Ampere on."""
    return torch.cuda.get_device_capability() >= (8, 0) and torch.backends.cudnn.allow_tf32


class OnnxRuntimeRunner(Runner):
    """An ONNX file in ONNX Runtime, on the GPU if its CUDA provider is installed and TensorRT is the engine."""

    def __init__(self, spec: RunnerSpec) -> None:
        import onnxruntime

        self._session = _session(onnxruntime, spec.source)
        self.inputs = _onnx_inputs(self._session, spec)
        self.min_batch, _, self.max_batch = batch_range(self.inputs)
        self.name = spec.name or "onnxruntime-fp32"
        where = self._session.get_providers()[0]
        if where == "CPUExecutionProvider":
            self.ran_in, where = "fp32", f"CPU, {physical_cores()} threads"
        self.device = f"ONNX Runtime {onnxruntime.__version__}, {where}"
        self.size_bytes = Path(spec.source).stat().st_size

    def bind(self, batch_size: int) -> None:
        self._feeds = examples(self.inputs, batch_size)

    def enqueue(self) -> None:
        self._session.run(None, self._feeds)


def _session(onnxruntime: Any, source: str) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = physical_cores(), 3
    options.add_session_config_entry("session.force_spinning_stop", "1")  # idle threads would slow the next runner
    wanted = ("CUDAExecutionProvider", "CPUExecutionProvider") if ENGINE == "tensorrt" else ("CPUExecutionProvider",)
    providers = [provider for provider in wanted if provider in onnxruntime.get_available_providers()]
    try:
        return onnxruntime.InferenceSession(source, options, providers=providers)
    except Exception as error:  # onnxruntime raises a class a status, without a common base
        raise InputError(
            f"ONNX Runtime cannot load {source}: {one_line(error)[:200]}; export the model again"
        ) from error


def _onnx_inputs(session: Any, spec: RunnerSpec) -> dict[str, InputSpec]:
    """Return the inputs of an ONNX file; a dynamic axis 0 is the batch, every other one takes the size in the spec."""
    inputs = {}
    for tensor in session.get_inputs():
        known = spec.inputs[tensor.name].best if tensor.name in (spec.inputs or {}) else ()
        sizes = [known[axis] if not isinstance(size, int) and axis < len(known) else size
                 for axis, size in enumerate(tensor.shape)]  # fmt: skip
        if tensor.type not in _ONNX_TYPES or not all(isinstance(size, int) for size in sizes[1:]):
            raise InputError(
                f"{spec.source} has the input {tensor.name} {tensor.type} {tensor.shape}; every size but the batch "
                "must be fixed, or known from an engine of the same model (--engine)"
            )
        fixed = [size for size in tensor.shape[:1] if isinstance(size, int)]
        shapes = (tuple([*(fixed or [batch]), *sizes[1:]][: len(sizes)]) for batch in (1, 1, UNBOUNDED))
        inputs[tensor.name] = InputSpec(tensor.name, np.dtype(_ONNX_TYPES[tensor.type]), *shapes)
    return inputs


def engine_files(engines: Sequence[Path], folder: Path | None) -> list[Path]:
    """Return the engine files given, and those in `folder` by name; none twice.

    Raises:
        InputError: `folder` is missing or holds no engine.
    """
    if folder is None:
        return list(dict.fromkeys(engines))
    if not folder.is_dir():
        raise InputError(f"--engines {folder} is not a folder; give one that holds {' or '.join(SUFFIXES)} files")
    inside = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())
    if not inside:
        raise InputError(f"no engine ({', '.join(SUFFIXES)}) lies in {folder}; build one with trtlab build")
    return list(dict.fromkeys([*engines, *inside]))


def load_runners(
    engines: Sequence[Path],
    beside: Baselines,
    shapes: Sequence[str] = (),
    note: Callable[[str], None] = lambda text: None,
) -> list[Runner]:
    """Load all that is to be measured, engines first so that the baselines take their inputs.

    `shapes` (NAME:SHAPE) take the place of engines' best shapes.
    Half precision and torch.compile are left out with a note if they cannot run; everything else that cannot be
    loaded is an error.
    """
    if shapes and not engines:
        raise InputError("--shapes is for engines, and none was given; add --engine or --engines")
    stems = [path.stem for path in engines]
    names = [path.stem if stems.count(path.stem) == 1 else str(path.with_suffix("")) for path in engines]
    loaded = [
        load_runner(RunnerSpec("engine", str(path), name, engine_shapes=tuple(shapes)))
        for path, name in zip(engines, names, strict=True)
    ]
    inputs = loaded[0].inputs if loaded else None
    if beside.ort is not None:
        loaded.append(load_runner(RunnerSpec("onnxruntime", str(beside.ort), inputs=inputs)))
        inputs = loaded[0].inputs
    baseline = RunnerSpec("pytorch", beside.pytorch or LAB_MODEL, data=beside.data, arch=beside.arch, inputs=inputs)
    if beside.pytorch is not None:
        loaded.append(load_runner(baseline))
    for kind, wanted in (("pytorch-fp16", beside.pytorch_fp16), ("torch-compile", beside.torch_compile)):
        if wanted and (runner := load_if_it_runs(replace(baseline, kind=kind), note)):
            loaded.append(runner)
    return loaded
