"""A model on the CPU engine as a caller of TensorRT would run it: parse, build, deserialize, execute."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from trtcpu import cuda
from trtcpu import tensorrt as trt

Arrays = Mapping[str, np.ndarray]


class RefusedError(Exception):
    """Why a model was not built: what the logger was told."""


def messages(reason: str) -> list[str]:
    """Return what the parser said in a reason, without its name, node and code."""
    parts = re.split(r"; (?=ModelImporter: )", reason)
    return [re.sub(r"ModelImporter: (In node \d+ .*?and operator: \w+ )?\(\w+\): ", "", part) for part in parts]


class Log(trt.ILogger):
    """Keeps the errors."""

    def __init__(self) -> None:
        trt.ILogger.__init__(self)
        self.errors: list[str] = []

    def log(self, severity: trt.ILogger.Severity, msg: str) -> None:
        if severity <= trt.ILogger.ERROR:
            self.errors.append(msg)


class Allocator(trt.IOutputAllocator):
    """Gives an output the memory that it asks for."""

    def __init__(self) -> None:
        trt.IOutputAllocator.__init__(self)
        self.memory: cuda.DeviceAllocation | None = None
        self.shape: tuple[int, ...] = ()

    def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
        self.memory = cuda.mem_alloc(size)
        return int(self.memory)

    def notify_shape(self, tensor_name: str, shape: trt.Dims) -> None:
        self.shape = tuple(shape)


class Calibrator(trt.IInt8EntropyCalibrator2):
    """Gives batches of all inputs."""

    def __init__(self, batches: Sequence[Arrays]) -> None:
        trt.IInt8EntropyCalibrator2.__init__(self)
        self.batches = iter(batches)
        self.held: list[cuda.DeviceAllocation] = []

    def get_batch_size(self) -> int:
        return 1

    def get_batch(self, names: list[str]) -> list[int] | None:
        batch = next(self.batches, None)
        self.held = [_memory_of(batch[name]) for name in names] if batch else []
        return [int(memory) for memory in self.held] or None

    def read_calibration_cache(self) -> None:
        return None

    def write_calibration_cache(self, cache: memoryview) -> None:
        pass


def built(
    model: bytes, shapes: Mapping[str, Sequence[int]], precision: str = "FP32", batches: Sequence[Arrays] = ()
) -> trt.ICudaEngine | None:
    """Return the engine of a model for inputs of these shapes; None if the plan cannot be loaded.

    INT8 is calibrated with `batches`; a model with Q/DQ nodes is built in INT8 whatever is asked for.

    Raises:
        RefusedError: the model cannot be parsed or built.
    """
    log = Log()
    builder = trt.Builder(log)
    network = builder.create_network(0)
    if not trt.OnnxParser(network, log).parse(model):
        raise RefusedError("; ".join(log.errors))
    config = builder.create_builder_config()
    if any(layer.type in (trt.LayerType.QUANTIZE, trt.LayerType.DEQUANTIZE) for layer in network):
        config.set_flag(trt.BuilderFlag.INT8)
    elif precision != "FP32":
        config.set_flag(getattr(trt.BuilderFlag, precision))
    if precision == "INT8" and batches:
        config.int8_calibrator = Calibrator(batches)
    profile = builder.create_optimization_profile()
    inputs = [network.get_input(index) for index in range(network.num_inputs)]
    for tensor in inputs:
        profile.set_shape(tensor.name, *[tuple(shapes[tensor.name])] * 3)
    if inputs:
        config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise RefusedError("; ".join(log.errors))
    return trt.Runtime(log).deserialize_cuda_engine(plan)


def run(engine: trt.ICudaEngine, feeds: Arrays) -> dict[str, np.ndarray]:
    """Return the outputs by name; BF16 comes and goes as float32."""
    context, stream = engine.create_execution_context(), cuda.Stream()
    allocators, held = {}, []
    for name in map(engine.get_tensor_name, range(engine.num_io_tensors)):
        if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
            held.append(_given(engine.get_tensor_dtype(name), feeds[name]))
            assert context.set_input_shape(name, feeds[name].shape)
            assert context.set_tensor_address(name, int(held[-1]))
        else:
            allocators[name] = Allocator()
            assert context.set_output_allocator(name, allocators[name])
    if not context.execute_async_v3(stream.handle):
        raise RuntimeError("; ".join(engine.logger.errors))
    stream.synchronize()
    return {name: _taken(engine.get_tensor_dtype(name), one) for name, one in allocators.items()}


def _given(kind: trt.DataType, array: np.ndarray) -> cuda.DeviceAllocation:
    if kind == trt.DataType.BF16:
        array = (array.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    else:
        array = array.astype(trt.nptype(kind))
    return _memory_of(array)


def _memory_of(array: np.ndarray) -> cuda.DeviceAllocation:
    memory = cuda.mem_alloc(max(1, array.nbytes))
    if array.nbytes:
        cuda.memcpy_htod(memory, np.ascontiguousarray(array))
    return memory


def _taken(kind: trt.DataType, given: Allocator) -> np.ndarray:
    brain = kind == trt.DataType.BF16
    array = np.empty(given.shape, np.uint16 if brain else trt.nptype(kind))
    if array.nbytes:
        cuda.memcpy_dtoh(array, given.memory)
    return (array.astype(np.uint32) << 16).view(np.float32) if brain else array


def shapes_of(model: onnx.ModelProto, feeds: Sequence[np.ndarray]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of what is fed, by the names of the model's inputs that have no weights."""
    weights = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in weights]
    return {name: np.shape(array) for name, array in zip(names, feeds, strict=False)}  # optional ones come last
