"""Execution contexts: shapes, addresses and one inference at a time."""

import threading
import weakref
from collections.abc import Mapping, Sequence

import numpy as np

from trtcpu import _openvino
from trtcpu.api.logger import ILogger
from trtcpu.api.pybind import Scoped, keep
from trtcpu.api.types import Dims, storage_type, volume
from trtcpu.device import memory
from trtcpu.device.streams import DEFAULT_STREAM, Stream, stream_from_handle
from trtcpu.errors import EngineError
from trtcpu.plan import Binding
from trtcpu.runtime.loaded import LoadedPlan
from trtcpu.runtime.outputs import IOutputAllocator
from trtcpu.runtime.profiler import IProfiler
from trtcpu.runtime.requests import Tensors

_INT32 = np.iinfo(np.int32)


class IExecutionContext(Scoped):
    """One execution at a time: shapes, addresses, activations. Two threads that use it at once get an `EngineError`."""

    __slots__ = (
        "_addresses",
        "_allocators",
        "_busy",
        "_execution",
        "_late",
        "_loaded",
        "_log",
        "_output_shapes",
        "_profile",
        "_profiled",
        "_shapes",
        "_stream",
        "_tensors",
        "_thread",
        "debug_sync",
        "engine",
        "enqueue_emits_profile",
        "error_recorder",
        "name",
        "nvtx_verbosity",
        "profiler",
    )

    def __init__(self, engine: object, loaded: LoadedPlan) -> None:
        """Run `loaded`, which the ICudaEngine `engine` holds."""
        self.engine = engine
        self.name = ""
        self.enqueue_emits_profile = True
        keep(self, debug_sync=False, error_recorder=None, nvtx_verbosity=loaded.verbosity)
        self.profiler: IProfiler | None = None
        self._loaded = loaded
        self._log = loaded.logger.log
        self._execution = loaded.requests.execution()
        self._profiled: _openvino.Request | None = None
        self._profile = 0
        self._addresses: dict[str, int] = {}
        self._allocators: dict[str, IOutputAllocator] = {}
        self._late = loaded.by_values  # the outputs that are handed out after an inference
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._output_shapes: dict[tuple[tuple[int, ...], ...], dict[str, tuple[int, ...]]] = {}
        self._tensors: Tensors | None = None
        self._busy = threading.Lock()
        self._thread = 0
        self._stream: weakref.ref[Stream] | None = None
        self._take_static_shapes()

    def _take_static_shapes(self) -> None:
        self._shapes = {b.name: tuple(b.shape) for b in self._loaded.inputs if -1 not in b.shape}

    @property
    def active_optimization_profile(self) -> int:
        return self._profile

    @property
    def all_shape_inputs_specified(self) -> bool:
        return not self._unread()

    @property
    def all_binding_shapes_specified(self) -> bool:
        return len(self._shapes) == len(self._loaded.inputs)

    def set_optimization_profile_async(self, profile_index: int, stream_handle: int) -> bool:
        last = len(self._loaded.plan.profiles) - 1
        stream_from_handle(int(stream_handle))
        if not 0 <= profile_index <= last:
            self._log(ILogger.ERROR, f"Profile index {profile_index} is not in 0..{last}")
            return False
        self._profile = profile_index
        self._tensors = None
        self._take_static_shapes()
        return True

    def set_input_shape(self, name: str, shape: Sequence[int]) -> bool:
        """Set an input's shape; False for one that no profile allows. The active profile counts at execution."""
        binding = self._loaded.binding(name)
        if binding is None or not binding.is_input:
            self._log(ILogger.ERROR, f"set_input_shape: {name} is not an input")
            return False
        wanted = tuple(int(d) for d in shape)
        if not any(_fits(wanted, profile[name]) for profile in self._loaded.plan.profiles):
            low, _, high = self._loaded.plan.profiles[self._profile][name]
            self._log(
                ILogger.ERROR,
                f"Runtime dimension does not satisfy any optimization profile: {name} {wanted}, profile "
                f"{self._profile} allows {tuple(low)} to {tuple(high)}",
            )
            return False
        if self._shapes.get(name) != wanted:
            self._shapes[name] = wanted
            self._tensors = None
        return True

    def set_input_shape_async(self, name: str, shape: Sequence[int], stream_handle: int) -> bool:
        return self.set_input_shape(name, shape)

    def get_tensor_shape(self, name: str) -> Dims:
        """Return a tensor's shape as set; an output's is of rank -1 until every input shape is set."""
        binding = self._loaded.binding(name)
        if binding is None:
            return Dims(None)
        if binding.is_input:
            return Dims(self._shapes.get(name, binding.shape))
        if not self.all_binding_shapes_specified or self._unread():
            return Dims(None)
        return Dims(self._outputs()[name])

    def get_tensor_strides(self, name: str) -> Dims:
        shape = list(self.get_tensor_shape(name))
        return Dims(volume(shape[axis + 1 :]) for axis in range(len(shape)))

    def get_max_output_size(self, name: str) -> int:
        """Return the bytes of an output at the largest input shapes of the active profile; -1 if that is unknown."""
        largest = {n: shapes[2] for n, shapes in self._loaded.plan.profiles[self._profile].items()}
        binding = self._loaded.binding(name)
        if binding is None:
            return -1
        shape = _resolved(binding, largest)
        return -1 if min(shape, default=0) < 0 else volume(shape) * int(binding.data_type.itemsize)

    def infer_shapes(self) -> list[str]:
        """Return the inputs whose shapes, or whose values if they decide shapes, are still missing."""
        return [binding.name for binding in self._loaded.inputs if binding.name not in self._shapes] + self._unread()

    def _unread(self) -> list[str]:
        """Return the inputs whose values decide shapes and that have no address yet."""
        return [name for name in self._loaded.plan.shape_inputs if not self._addresses.get(name)]

    def _outputs(self) -> dict[str, tuple[int, ...]]:
        values = {name: self._value(name) for name in self._loaded.plan.shape_inputs}
        shapes = (self._shapes[binding.name] for binding in self._loaded.inputs)
        key = (*shapes, *(value.tobytes() for value in values.values()))
        if key not in self._output_shapes:
            unknown = [] if values else self._loaded.by_values
            by_values = {binding.name: _resolved(binding, self._shapes) for binding in unknown}
            outputs = [binding for binding in self._loaded.outputs if binding.name not in by_values]
            known = all(binding.shape and -1 not in binding.shape for binding in outputs)
            found = (
                {binding.name: _resolved(binding, self._shapes) for binding in outputs}
                if known
                else self._probed(values)
            )
            self._output_shapes[key] = found | by_values
        return self._output_shapes[key]

    def _value(self, name: str) -> np.ndarray:
        """Return what an input's memory holds now."""
        kind, shape = storage_type(self._loaded.bindings[name].data_type), self._shapes[name]
        return memory.view(self._addresses[name], volume(shape) * np.dtype(kind).itemsize).view(kind).reshape(shape)

    def _probed(self, values: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
        """Find the output shapes that the graph does not tell by running once on these values, all else being ones."""
        request = self._loaded.compiled.create_request()
        for binding in self._loaded.read:
            ones = np.ones(self._shapes[binding.name], storage_type(binding.data_type))
            request.bind(binding.name, values.get(binding.name, ones))
        try:
            request.infer()
        except RuntimeError as error:
            shapes = ", ".join(f"{binding.name} {list(self._shapes[binding.name])}" for binding in self._loaded.inputs)
            raise EngineError(f"the network cannot run on {shapes}: {_openvino.reason(error)}") from error
        return {binding.name: request.output(binding.name).shape for binding in self._loaded.outputs}

    def set_tensor_address(self, name: str, memory: int) -> bool:
        if self._loaded.binding(name) is None:
            return False
        address = int(memory)
        if self._addresses.get(name) != address:
            self._addresses[name] = address
            self._tensors = None
        return True

    def get_tensor_address(self, name: str) -> int:
        return self._addresses.get(name, 0)

    def set_output_allocator(self, name: str, output_allocator: IOutputAllocator | None) -> bool:
        """Have an output's memory given by `output_allocator` at each execution; None takes an earlier one away."""
        binding = self._loaded.binding(name)
        if binding is None or binding.is_input:
            return False
        self._allocators.pop(name, None)
        if output_allocator is not None:
            self._allocators[name] = output_allocator
        late = {*self._allocators, *(one.name for one in self._loaded.by_values)}
        self._late = [one for one in self._loaded.outputs if one.name in late]
        self._execution, self._tensors = self._loaded.requests.execution(), None  # the old one writes to an address
        return True

    def get_output_allocator(self, name: str) -> IOutputAllocator | None:
        return self._allocators.get(name)

    def _given(self, name: str, shape: tuple[int, ...], stream: int) -> bool:
        """Take an allocator's memory for an output of this shape, and tell it the shape."""
        binding, allocator = self._loaded.bindings[name], self._allocators[name]
        nbytes = max(1, volume(shape) * int(binding.data_type.itemsize))
        found = allocator.reallocate_output_async(name, self._addresses.get(name, 0), nbytes, memory.ALIGNMENT, stream)
        if not found:
            self._log(ILogger.ERROR, f"The output allocator of {name} gave no memory for {nbytes} bytes")
            return False
        self._addresses[name] = int(found)
        allocator.notify_shape(name, Dims(shape))
        return True

    def _hand_out(self, request: _openvino.Request, stream: int) -> bool:
        """Copy the outputs of late to where the caller wants them; False if an allocator gives no memory."""
        for binding in self._late:
            found = request.output(binding.name)
            if binding.name in self._allocators and not self._given(binding.name, found.shape, stream):
                return False
            target = memory.view(self._addresses[binding.name], found.nbytes)
            target[:] = np.ascontiguousarray(found).reshape(-1).view(np.uint8)
        return True

    def _ready(self, stream: int = 0) -> Tensors | None:
        """Return what to run, or None with an error logged."""
        if self._loaded.plan.shape_inputs:
            stream_from_handle(stream).finish()  # what copies their values
            self._tensors = None
        if self._tensors is None:
            if problem := self._problem():
                self._log(ILogger.ERROR, problem)
                return None
            shapes = {**self._shapes, **self._outputs()}
            used = [*self._loaded.read, *(one for one in self._loaded.outputs if one not in self._late)]
            self._tensors = [self._tensor(binding, shapes[binding.name]) for binding in used]
        return self._tensors

    def _problem(self) -> str | None:
        missing = self.infer_shapes()
        if missing:
            return f"Not all input shapes are specified; call set_input_shape for: {', '.join(missing)}"
        active = self._loaded.plan.profiles[self._profile]
        outside = [name for name, profile in active.items() if not _fits(self._shapes[name], profile)]
        if outside:
            return f"Shapes of {', '.join(outside)} are not in the active profile {self._profile}"
        unset = [name for name in self._loaded.bindings if not (self._addresses.get(name) or name in self._allocators)]
        return f"Address is not set for tensor {', '.join(unset)}; call set_tensor_address" if unset else None

    def _tensor(self, binding: Binding, shape: tuple[int, ...]) -> tuple[str, int, int, tuple[int, ...], type]:
        kind = storage_type(binding.data_type)
        return binding.name, self._addresses[binding.name], volume(shape) * np.dtype(kind).itemsize, shape, kind

    def _start(self, tensors: Tensors) -> None:
        """Start the inference, unless OpenVINO would cut off what an input holds."""
        for name, address, nbytes, _, kind in tensors[: len(self._loaded.read)]:
            if kind is np.int64 and nbytes:
                values = memory.view(address, nbytes).view(kind)
                if values.min() < _INT32.min or values.max() > _INT32.max:
                    found = values[np.abs(values).argmax()]
                    raise EngineError(f"input {name} holds {found}: the CPU engine computes INT64 in 32 bits")
        self._execution.start(tensors)

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
            handle = int(stream_handle)
            tensors = self._ready(handle)
            if tensors is None:
                return False
            if self.profiler is not None and self.enqueue_emits_profile:
                stream.synchronize()
                self._run_profiled(tensors)
            elif self._late:  # TensorRT too knows their shapes when it returns
                stream.submit(lambda: self._start(tensors))
                stream.finish()
                return self._hand_out(self._execution.wait(), handle)
            else:
                stream.submit_external(lambda: self._start(tensors), self._execution.wait)
            return True
        finally:
            self._busy.release()

    def execute_v2(self, bindings: Sequence[int]) -> bool:
        """Run one inference and wait; `bindings` are the addresses in the order of the I/O tensors."""
        names = [binding.name for binding in self._loaded.plan.bindings]
        if len(bindings) != len(names):
            self._log(ILogger.ERROR, f"execute_v2 needs {len(names)} addresses, found {len(bindings)}")
            return False
        for name, address in zip(names, bindings, strict=True):
            self.set_tensor_address(name, int(address))
        done = self.execute_async_v3(DEFAULT_STREAM.handle)
        DEFAULT_STREAM.synchronize()
        return done

    def report_to_profiler(self) -> bool:
        """Report the last inference's layer times; needs a profiler, and runs the inference again to measure them."""
        tensors = self._ready() if self.profiler is not None else None
        if tensors is None:
            return False
        self._run_profiled(tensors)
        return True

    def _run_profiled(self, tensors: Tensors) -> None:
        """Run one inference on a measuring copy of the model and report each fused layer's milliseconds.

        OpenVINO measures per node when the model was loaded so; a second copy keeps ordinary runs free of that cost.
        """
        if self._profiled is None:
            self._profiled = self._loaded.profiling.create_request()
        for name, address, nbytes, shape, kind in tensors:
            self._profiled.bind(name, memory.view(address, nbytes).view(kind).reshape(shape))
        self._profiled.infer()
        self._hand_out(self._profiled, 0)
        times = self._profiled.node_times_ms()
        for layer in self._loaded.layers:
            if layer.node in times:
                self.profiler.report_layer_time(layer.name, times[layer.node])


def _resolved(binding: Binding, shapes: Mapping[str, Sequence[int]]) -> tuple[int, ...]:
    """Return an output's shape for these input shapes by name."""
    return tuple(shapes[size[0]][size[1]] if isinstance(size, list) else size for size in binding.shape)


def _fits(shape: tuple[int, ...], profile: list[list[int]]) -> bool:
    """Say whether a shape lies within a profile's [min, opt, max]."""
    low, _, high = profile
    return len(shape) == len(low) and all(a <= d <= b for a, d, b in zip(low, shape, high, strict=True))


_MISUSE = (
    "one IExecutionContext was used from two threads or streams at once; create a context for each "
    "(engine.create_execution_context()) or synchronise in between"
)
