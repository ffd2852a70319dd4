"""Execution contexts: shapes, addresses and one inference at a time."""

import threading
import weakref
from collections.abc import Sequence

import numpy as np

from helpers.cpu_engine import _memory, _openvino
from helpers.cpu_engine._bindings import Scoped
from helpers.cpu_engine._streams import DEFAULT_STREAM, Stream, stream_from_handle
from helpers.cpu_engine.engine import ICudaEngine
from helpers.cpu_engine.enums import DataType
from helpers.cpu_engine.logger import ILogger, unsupported
from helpers.cpu_engine.plan import Binding
from helpers.cpu_engine.profiling import IProfiler, run_profiled
from helpers.cpu_engine.types import Dims, nptype, volume
from helpers.errors import EngineError

__all__ = ["IExecutionContext"]


class _Snapshot:
    """Shapes and addresses of one enqueued execution."""

    __slots__ = ("tensors",)

    def __init__(self, tensors: list[tuple[str, int, int, tuple[int, ...], type]]) -> None:
        self.tensors = tensors


class IExecutionContext(Scoped):
    """One execution at a time: shapes, addresses, activations. Two threads that use it at once get an `EngineError`."""

    def __init__(self, engine: ICudaEngine) -> None:
        self.engine = engine
        self.name = ""
        self.debug_sync = False
        self.error_recorder = None
        self.enqueue_emits_profile = True
        self.nvtx_verbosity = engine.profiling_verbosity
        self._request = engine.compiled.create_request()
        self._profiled: _openvino.Request | None = None
        self._profiler: IProfiler | None = None
        self._profile = 0
        self._addresses: dict[str, int] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._output_shapes: dict[tuple[tuple[int, ...], ...], dict[str, tuple[int, ...]]] = {}
        self._snapshot: _Snapshot | None = None
        self._bound: _Snapshot | None = None
        self._busy = threading.Lock()
        self._thread = 0
        self._stream: weakref.ref[Stream] | None = None
        self._log = engine.logger.log
        self._take_static_shapes()

    def _take_static_shapes(self) -> None:
        self._shapes = {b.name: tuple(b.shape) for b in self._inputs() if -1 not in b.shape}

    def _inputs(self) -> list[Binding]:
        return [binding for binding in self.engine.plan.bindings if binding.is_input]

    @property
    def profiler(self) -> IProfiler | None:
        return self._profiler

    @profiler.setter
    def profiler(self, profiler: IProfiler | None) -> None:
        self._profiler = profiler

    @property
    def active_optimization_profile(self) -> int:
        return self._profile

    @property
    def all_binding_shapes_specified(self) -> bool:
        return len(self._shapes) == len(self._inputs())

    @property
    def all_shape_inputs_specified(self) -> bool:
        return True

    def set_optimization_profile_async(self, profile_index: int, stream_handle: int) -> bool:
        if not 0 <= profile_index < self.engine.num_optimization_profiles:
            self._log(
                ILogger.ERROR,
                f"Profile index {profile_index} is not in 0..{self.engine.num_optimization_profiles - 1}",
            )
            return False
        self._profile = profile_index
        self._changed()
        self._take_static_shapes()
        return True

    def set_input_shape(self, name: str, shape: Sequence[int]) -> bool:
        """Set an input's shape; False for one that no profile allows. The active profile counts at execution."""
        binding = self.engine._binding(name)
        if binding is None or not binding.is_input:
            self._log(ILogger.ERROR, f"set_input_shape: {name} is not an input")
            return False
        wanted = tuple(int(d) for d in shape)
        if not any(_fits(wanted, profile[name]) for profile in self.engine.plan.profiles):
            low, _, high = self.engine.plan.profiles[self._profile][name]
            self._log(
                ILogger.ERROR,
                f"Runtime dimension does not satisfy any optimization profile: {name} {wanted}, profile "
                f"{self._profile} allows {tuple(low)} to {tuple(high)}",
            )
            return False
        if self._shapes.get(name) != wanted:
            self._shapes[name] = wanted
            self._changed()
        return True

    def set_input_shape_async(self, name: str, shape: Sequence[int], stream_handle: int) -> bool:
        return self.set_input_shape(name, shape)

    def _changed(self) -> None:
        self._snapshot = None

    def get_tensor_shape(self, name: str) -> Dims:
        """Return a tensor's shape as set; an output's is of rank -1 until every input shape is set."""
        binding = self.engine._binding(name)
        if binding is None:
            return Dims(None)
        if binding.is_input:
            return Dims(self._shapes.get(name, binding.shape))
        if not self.all_binding_shapes_specified:
            return Dims(None)
        return Dims(self._outputs()[name])

    def get_tensor_strides(self, name: str) -> Dims:
        shape = list(self.get_tensor_shape(name))
        return Dims(volume(shape[axis + 1 :]) for axis in range(len(shape)))

    def get_max_output_size(self, name: str) -> int:
        """Return the bytes of an output at the largest input shapes of the active profile."""
        sizes = {n: shapes[2] for n, shapes in self.engine.plan.profiles[self._profile].items()}
        shape = [sizes[d[0]][d[1]] if isinstance(d, list) else d for d in self.engine._bindings[name].shape]
        return volume(shape) * self.engine.get_tensor_bytes_per_component(name)

    def infer_shapes(self) -> list[str]:
        """Return the inputs whose shapes are still missing."""
        return [binding.name for binding in self._inputs() if binding.name not in self._shapes]

    def _outputs(self) -> dict[str, tuple[int, ...]]:
        key = tuple(self._shapes[binding.name] for binding in self._inputs())
        if key not in self._output_shapes:
            outputs = [binding for binding in self.engine.plan.bindings if not binding.is_input]
            known = all(b.shape and -1 not in b.shape for b in outputs) if outputs else True
            self._output_shapes[key] = (
                {
                    b.name: tuple(self._shapes[d[0]][d[1]] if isinstance(d, list) else d for d in b.shape)
                    for b in outputs
                }
                if known
                else self._probed(outputs)
            )
        return self._output_shapes[key]

    def _probed(self, outputs: list[Binding]) -> dict[str, tuple[int, ...]]:
        """Find the output shapes that the graph does not tell by running once on zeros."""
        request = self.engine.compiled.create_request()
        for binding in self._inputs():
            request.bind(
                binding.name, np.zeros(self._shapes[binding.name], nptype(DataType.__members__[binding.dtype]))
            )
        request.infer()
        return {binding.name: request.output(binding.name).shape for binding in outputs}

    def set_tensor_address(self, name: str, memory: int) -> bool:
        if self.engine._binding(name) is None:
            return False
        address = int(memory)
        if self._addresses.get(name) != address:
            self._addresses[name] = address
            self._changed()
        return True

    def get_tensor_address(self, name: str) -> int:
        return self._addresses.get(name, 0)

    def set_output_allocator(self, name: str, output_allocator: object) -> bool:
        raise unsupported("output allocators (IExecutionContext.set_output_allocator)")

    def _ready(self) -> _Snapshot | None:
        """Return what to run, or None with an error logged."""
        if self._snapshot is not None:
            return self._snapshot
        missing = self.infer_shapes()
        if missing:
            self._log(
                ILogger.ERROR, f"Not all input shapes are specified; call set_input_shape for: {', '.join(missing)}"
            )
            return None
        active = self.engine.plan.profiles[self._profile]
        outside = [name for name, profile in active.items() if not _fits(self._shapes[name], profile)]
        if outside:
            self._log(ILogger.ERROR, f"Shapes of {', '.join(outside)} are not in the active profile {self._profile}")
            return None
        unset = [b.name for b in self.engine.plan.bindings if not self._addresses.get(b.name)]
        if unset:
            self._log(ILogger.ERROR, f"Address is not set for tensor {', '.join(unset)}; call set_tensor_address")
            return None
        shapes = {**self._shapes, **self._outputs()}
        tensors = []
        for binding in self.engine.plan.bindings:
            kind = nptype(DataType.__members__[binding.dtype])
            nbytes = volume(shapes[binding.name]) * np.dtype(kind).itemsize
            tensors.append((binding.name, self._addresses[binding.name], nbytes, shapes[binding.name], kind))
        self._snapshot = _Snapshot(tensors)
        return self._snapshot

    def _bind(self, snapshot: _Snapshot) -> None:
        """Check every address, then let the request read and write there."""
        views = [_memory.view(address, nbytes) for _, address, nbytes, _, _ in snapshot.tensors]
        if snapshot is not self._bound:
            for (name, _, _, shape, kind), view in zip(snapshot.tensors, views, strict=True):
                self._request.bind(name, view.view(kind).reshape(shape))
            self._bound = snapshot

    def _start(self, snapshot: _Snapshot) -> None:
        self._bind(snapshot)
        self._request.start()

    def _enter(self, stream: Stream) -> None:
        """Take the context for this call; raise when another thread or stream is using it."""
        if not self._busy.acquire(blocking=False):
            raise EngineError(_MISUSE)
        last = self._stream() if self._stream is not None else None
        me = threading.get_ident()
        if last is not None and (last is not stream or self._thread != me) and not last.idle():
            self._busy.release()
            raise EngineError(_MISUSE)
        self._stream, self._thread = weakref.ref(stream), me

    def execute_async_v3(self, stream_handle: int) -> bool:
        """Enqueue one inference; True means enqueued. The result is there after the stream was synchronised."""
        stream = stream_from_handle(int(stream_handle))
        self._enter(stream)
        try:
            snapshot = self._ready()
            if snapshot is None:
                return False
            if self._profiler is not None and self.enqueue_emits_profile:
                stream.synchronize()
                run_profiled(self, snapshot.tensors, self._profiler)
            else:
                stream.submit_external(lambda: self._start(snapshot), self._request.wait)
            return True
        finally:
            self._busy.release()

    def execute_v2(self, bindings: Sequence[int]) -> bool:
        """Run one inference and wait; `bindings` are the addresses in the order of the I/O tensors."""
        self._enter(DEFAULT_STREAM)
        try:
            if len(bindings) != self.engine.num_io_tensors:
                count = self.engine.num_io_tensors
                self._log(ILogger.ERROR, f"execute_v2 needs {count} addresses, found {len(bindings)}")
                return False
            for binding, address in zip(self.engine.plan.bindings, bindings, strict=True):
                self.set_tensor_address(binding.name, int(address))
            snapshot = self._ready()
            if snapshot is None:
                return False
            if not DEFAULT_STREAM.idle():
                DEFAULT_STREAM.synchronize()
            if self._profiler is not None:
                run_profiled(self, snapshot.tensors, self._profiler)
            else:
                self._bind(snapshot)
                self._request.infer()
            return True
        finally:
            self._busy.release()

    def report_to_profiler(self) -> bool:
        """Report the last inference's layer times; needs a profiler, and runs the inference again to measure them."""
        snapshot = self._ready() if self._profiler is not None else None
        if snapshot is None:
            return False
        run_profiled(self, snapshot.tensors, self._profiler)
        return True

    def profiled_request(self) -> _openvino.Request:
        """The request that measures layer times (not part of TensorRT's API)."""
        if self._profiled is None:
            self._profiled = self.engine.profiling_compiled.create_request()
        return self._profiled


def _fits(shape: tuple[int, ...], profile: list[list[int]]) -> bool:
    """Say whether a shape lies within a profile's [min, opt, max]."""
    low, _, high = profile
    return len(shape) == len(low) and all(a <= d <= b for a, d, b in zip(low, shape, high, strict=True))


_MISUSE = (
    "one IExecutionContext was used from two threads or streams at once; create a context for each "
    "(engine.create_execution_context()) or synchronise in between"
)
