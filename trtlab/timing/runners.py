"""What can be benchmarked: engines, and the baselines PyTorch in FP32 and FP16, torch.compile and ONNX Runtime.

A runner is bound to a batch once; then `run()` executes that batch with its data already where it is needed. Baselines
use the GPU where the engine is TensorRT, else the CPU with as many threads as the CPU engine has.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import psutil

from helpers.data.storage import one_line
from helpers.engine.memory import keep_freed_memory
from trtcpu.errors import EngineError, InputError
from trtlab.engines.shapes import chosen_inputs
from trtlab.engines.tensors import InputSpec, batch_range, examples
from trtlab.ran_in import most_layers

Kind = Literal["engine", "pytorch", "pytorch-fp16", "torch-compile", "onnxruntime"]
UNBOUNDED = 1 << 20
_ONNX_TYPES = {
    "tensor(float)": "float32", "tensor(float16)": "float16", "tensor(int64)": "int64", "tensor(int32)": "int32",
    "tensor(int8)": "int8", "tensor(uint8)": "uint8", "tensor(bool)": "bool",
}  # fmt: skip


@dataclass(frozen=True)
class RunnerSpec:
    """What to load: an engine's or an ONNX file's path, or a model's name; enough to load it again in another process.

    `sample_shape` (C, H, W) is the input of PyTorch models, except where `inputs` has an engine's as `described_inputs`
    gives them. `data` is the data set that their weights are for, `arch` what a state dict belongs to. `shapes` gives
    the dynamic axes of an ONNX file's inputs, except the batch, their sizes; `engine_shapes` (NAME:SHAPE) an engine's.
    """

    kind: Kind
    source: str
    name: str | None = None
    data: str = "digits"
    sample_shape: tuple[int, ...] = (3, 224, 224)
    threads: int | None = None
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    arch: str | None = None
    inputs: tuple[dict[str, Any], ...] = ()
    engine_shapes: tuple[str, ...] = ()


class Runner(ABC):
    """One thing to time. `size_bytes` is its file or its weights; `device` names what runs it, in words.

    `precision` is what was asked for, `ran_in` what most layers run in; None where that cannot be known. `input_name`
    and `sample_shape` are the first input's, `inputs` an engine's, `shapes` theirs at their best. `in_flight`
    executions are enqueued before the next wait: enough that a GPU never idles, few enough to be timed well.
    """

    name: str
    precision: str = "fp32"
    ran_in: str | None = None
    device: str
    min_batch: int = 1
    max_batch: int = UNBOUNDED
    sample_shape: tuple[int, ...]
    input_name: str = "input"
    inputs: dict[str, InputSpec] | None = None
    shapes: dict[str, tuple[int, ...]] | None = None
    size_bytes: int | None = None
    tensorrt_version: str | None = None
    spec: RunnerSpec | None = None
    in_flight: int = 4

    @abstractmethod
    def bind(self, batch_size: int) -> None:
        """Prepare everything for `batch_size`, so that `run` does nothing but execute."""

    @abstractmethod
    def enqueue(self) -> None:
        """Start one execution (and finish it, where the framework is synchronous)."""

    def synchronize(self) -> None:  # noqa: B027 - a synchronous framework has nothing to wait for
        """Wait for what was started."""

    def run(self) -> None:
        """Execute the bound batch once and wait for its result."""
        self.enqueue()
        self.synchronize()

    @property
    def best_batch(self) -> int:
        """The batch of the first input at its best shape; 1 where no engine says."""
        first = next(iter((self.shapes or {}).values()), ())
        return first[0] if first else 1

    def close(self) -> None:  # noqa: B027 - most runners are freed with their object
        """Free what the runner holds."""


def physical_cores() -> int:
    """Return the number of physical cores that this process may use."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(allowed, psutil.cpu_count(logical=False) or allowed))


def load_runner(spec: RunnerSpec) -> Runner:
    """Load what `spec` names.

    Raises:
        LabError: it cannot be loaded here; the text says why.
    """
    makers: dict[str, Callable[[RunnerSpec], Runner]] = {
        "engine": EngineRunner,
        "pytorch": PyTorchRunner,
        "pytorch-fp16": HalfRunner,
        "torch-compile": CompiledRunner,
        "onnxruntime": OnnxRuntimeRunner,
    }
    runner = makers[spec.kind](spec)
    runner.spec = spec
    return runner


def load_if_it_runs(spec: RunnerSpec, note: Callable[[str], None]) -> Runner | None:
    """Load a baseline that not every machine can run, and let it run once; None, with a note, where it cannot."""
    try:
        runner = load_runner(spec)
        runner.bind(1)
        return runner
    except EngineError as error:
        note(f"{spec.kind} is left out: {error}")
        return None


def described_inputs(inputs: Mapping[str, InputSpec]) -> tuple[dict[str, Any], ...]:
    """Return an engine's inputs as JSON can hold them."""
    return tuple({**asdict(spec), "dtype": str(spec.dtype)} for spec in inputs.values())


def _inputs_of(spec: RunnerSpec) -> dict[str, InputSpec]:
    """Return the inputs of a PyTorch model: the described ones, else float32 images."""
    if not spec.inputs:
        shapes = ((batch, *spec.sample_shape) for batch in (1, 1, UNBOUNDED))
        return {"input": InputSpec("input", np.dtype(np.float32), *shapes)}
    shapes = ("least", "best", "most")
    given = (
        {**entry, "dtype": np.dtype(entry["dtype"]), **{key: tuple(entry[key]) for key in shapes}}
        for entry in spec.inputs
    )
    return {entry["name"]: InputSpec(**entry) for entry in given}


class EngineRunner(Runner):
    """A serialized TensorRT engine."""

    def __init__(self, spec: RunnerSpec) -> None:
        from helpers.engine.backend import DEVICE, trt
        from helpers.engine.layers import count_precisions, engine_layers
        from trtlab.engines.inference import InferenceEngine

        self._engine = InferenceEngine(spec.source)
        self._engine.choose(chosen_inputs(self._engine.inputs, spec.engine_shapes))
        self.name = spec.name or self._engine.name
        self.device, self.tensorrt_version = DEVICE, trt.__version__
        self.precision = _recorded_precision(Path(f"{spec.source}.json"))
        self.ran_in = most_layers(count_precisions(engine_layers(self._engine.engine)))
        self.min_batch, self.max_batch = self._engine.min_batch, self._engine.max_batch
        self.sample_shape, self.input_name = self._engine.sample_shape, self._engine.input_name
        self.inputs = self._engine.inputs
        self.shapes = {name: spec.best for name, spec in self.inputs.items()}
        self.size_bytes = self._engine.size_bytes
        self.synchronize = self._engine.synchronize  # no call in between: 1 ms engines are timed with this
        self.enqueue = self._engine.enqueue

    def bind(self, batch_size: int) -> None:
        self._engine.bind(batch_size)

    def enqueue(self) -> None:
        self._engine.enqueue()

    def close(self) -> None:
        self._engine.close()


def _recorded_precision(record: Path) -> str:
    """Return the precision that the engine was built for, as its E.json says; "?" without that file."""
    from helpers.tools.files import read_json

    try:
        found = read_json(record, "build record")
    except InputError:
        return "?"
    options = found.get("options") if isinstance(found, dict) else None
    for part in (found, options):
        if isinstance(part, dict) and isinstance(part.get("precision"), str):
            return part["precision"]
    return "?"


class PyTorchRunner(Runner):
    """A PyTorch model in eager mode, float32 with PyTorch's default settings."""

    suffix = "pytorch-fp32"

    def __init__(self, spec: RunnerSpec) -> None:
        import torch

        from helpers.data.models import load_model
        from helpers.engine.backend import DEVICE, ENGINE
        from trtlab.models.own_models import is_own, load_own

        self._torch, self._on_gpu = torch, ENGINE == "tensorrt"
        if not self._on_gpu:
            keep_freed_memory()
        threads = spec.threads or physical_cores()
        torch.set_num_threads(threads)
        own = is_own(spec.source)
        model = load_own(spec.source, spec.arch) if own else load_model(spec.source, data=spec.data)
        self._model: Any = model.to("cuda" if self._on_gpu else "cpu")
        self._inputs = _inputs_of(spec)
        self.name = spec.name or self.suffix
        where = DEVICE.partition(", ")[2] if self._on_gpu else f"CPU, {threads} threads"
        self.device = f"PyTorch {torch.__version__}, {where}"
        self.ran_in = "tf32" if self._on_gpu and _rounds_to_tf32(torch) else "fp32"
        self.sample_shape = next(iter(self._inputs.values())).best[1:]
        self.size_bytes = sum(tensor.nbytes for tensor in self._model.state_dict().values())

    def bind(self, batch_size: int) -> None:
        self._upload(batch_size)
        try:
            self.run()
        except Exception as error:  # the user's own code, which may raise anything
            shapes = " and ".join(str(list(tensor.shape)) for tensor in self._feeds)
            raise InputError(f"{self.spec.source} does not run on {shapes}: {one_line(error)[:200]}") from error

    def _upload(self, batch_size: int) -> None:
        arrays = examples(self._inputs, batch_size).values()
        self._feeds = [self._torch.from_numpy(array).to("cuda" if self._on_gpu else "cpu") for array in arrays]

    def enqueue(self) -> None:
        with self._torch.inference_mode():
            self._model(*self._feeds)

    def synchronize(self) -> None:
        if self._on_gpu:
            self._torch.cuda.synchronize()


def _rounds_to_tf32(torch: Any) -> bool:
    """Say whether PyTorch's float32 convolutions use TF32: by default on GPUs from Ampere on."""
    return torch.cuda.get_device_capability() >= (8, 0) and torch.backends.cudnn.allow_tf32


class HalfRunner(PyTorchRunner):
    """The same model in half precision: FP16 on a GPU; on a CPU what its engines run in, which is BF16 on most."""

    suffix, precision = "pytorch-fp16", "fp16"

    def __init__(self, spec: RunnerSpec) -> None:
        from helpers.engine.arithmetic import has_half
        from helpers.engine.backend import trt

        super().__init__(spec)
        if not has_half("fp16"):
            raise EngineError("this processor computes in no half precision")
        self.ran_in = "fp16" if self._on_gpu else trt.half_precision("FP16").lower()
        self._dtype = {"fp16": self._torch.float16, "bf16": self._torch.bfloat16}[self.ran_in]
        self._model.to(self._dtype)
        self.size_bytes = sum(tensor.nbytes for tensor in self._model.state_dict().values())

    def _upload(self, batch_size: int) -> None:
        super()._upload(batch_size)
        self._feeds = [feed.to(self._dtype) if feed.is_floating_point() else feed for feed in self._feeds]


class CompiledRunner(PyTorchRunner):
    """The same model through torch.compile; the first run of each batch compiles."""

    suffix = "torch-compile-fp32"

    def __init__(self, spec: RunnerSpec) -> None:
        super().__init__(spec)
        _require_compiler(self._on_gpu)
        self._model = self._torch.compile(self._model, dynamic=False)

    def bind(self, batch_size: int) -> None:
        self._upload(batch_size)
        try:
            self.run()
        except Exception as error:  # inductor's own classes, its C++ compiler's errors, missing headers
            raise EngineError(f"torch.compile failed here: {one_line(error)[:200]}") from error


def _require_compiler(on_gpu: bool) -> None:
    import shutil

    wanted = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "clang++", "c++"]
    if not on_gpu and not any(shutil.which(compiler) for compiler in wanted):
        raise EngineError(
            f"torch.compile needs a C++ compiler and none was found ({', '.join(wanted)}); install one: apt install g++"
        )


class OnnxRuntimeRunner(Runner):
    """An ONNX file in ONNX Runtime, on the GPU where its CUDA provider is installed and TensorRT is the engine."""

    def __init__(self, spec: RunnerSpec) -> None:
        import onnxruntime

        threads = spec.threads or physical_cores()
        self._session = _session(onnxruntime, spec.source, threads)
        self._inputs, provider = _onnx_inputs(self._session, spec), self._session.get_providers()[0]
        self.input_name = next(iter(self._inputs))
        self.min_batch, _, self.max_batch = batch_range(self._inputs)
        self.sample_shape = self._inputs[self.input_name].best[1:]
        self.name = spec.name or "onnxruntime-fp32"
        on_cpu = provider.startswith("CPU")
        where = f"CPU, {threads} threads" if on_cpu else provider
        self.ran_in = "fp32" if on_cpu else None
        self.device = f"ONNX Runtime {onnxruntime.__version__}, {where}"
        self.size_bytes = Path(spec.source).stat().st_size

    def bind(self, batch_size: int) -> None:
        self._feeds = examples(self._inputs, batch_size)

    def enqueue(self) -> None:
        self._session.run(None, self._feeds)


def _session(onnxruntime: Any, source: str, threads: int) -> Any:
    from helpers.engine.backend import ENGINE

    if not Path(source).is_file():
        raise InputError(f"cannot read the ONNX file {source}: no such file; write one with trtlab export")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    options.add_session_config_entry("session.force_spinning_stop", "1")  # idle threads would slow the next runner
    wanted = ["CUDAExecutionProvider"] if ENGINE == "tensorrt" else []
    available = onnxruntime.get_available_providers()
    providers = [*(provider for provider in wanted if provider in available), "CPUExecutionProvider"]
    try:
        return onnxruntime.InferenceSession(source, options, providers=providers)
    except Exception as error:  # onnxruntime raises a class a status, without a common base
        first = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise InputError(f"ONNX Runtime cannot load {source}: {first[:200]}; export the model again") from error


def _onnx_inputs(session: Any, spec: RunnerSpec) -> dict[str, InputSpec]:
    """Return the inputs of an ONNX file; a dynamic axis 0 is the batch, every other one takes the size in the spec."""
    inputs = {}
    for tensor in session.get_inputs():
        dtype = _ONNX_TYPES.get(tensor.type)
        known = spec.shapes.get(tensor.name, ())
        sizes = [known[axis] if not isinstance(size, int) and axis < len(known) else size
                 for axis, size in enumerate(tensor.shape)]  # fmt: skip
        if dtype is None or not all(isinstance(size, int) for size in sizes[1:]):
            raise InputError(
                f"{spec.source} has the input {tensor.name} {tensor.type} {tensor.shape}; every size but the batch "
                "must be fixed, or known from an engine of the same model (--engine)"
            )
        fixed = [size for size in tensor.shape[:1] if isinstance(size, int)]
        least, best, most = (tuple([*(fixed or [batch]), *sizes[1:]][: len(sizes)]) for batch in (1, 1, UNBOUNDED))
        inputs[tensor.name] = InputSpec(tensor.name, np.dtype(dtype), least, best, most)
    return inputs
