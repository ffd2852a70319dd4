"""What the conformance cases share: a recording logger, one way to build and one way to run."""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from helpers.engine.backend import ENGINE, cuda, network_flags, trt

ON_GPU = ENGINE == "tensorrt"
VERSION = tuple(int(part) for part in trt.__version__.split("+")[0].split(".")[:2])
Shapes = dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]


class Log(trt.ILogger):
    """Keep every message as (severity name, text)."""

    def __init__(self) -> None:
        trt.ILogger.__init__(self)
        self.messages: list[tuple[str, str]] = []

    def log(self, severity: Any, msg: str) -> None:
        self.messages.append((severity.name, msg))


# TensorRT keeps the first logger that a process gives it for some of its messages: all cases share this one.
LOG = Log()
_timing_cache = b""


@contextlib.contextmanager
def captured() -> Iterator[list[tuple[str, str]]]:
    """Give a list that holds the messages logged in the block once it ends."""
    start, messages = len(LOG.messages), []
    try:
        yield messages
    finally:
        messages += LOG.messages[start:]


def errors_in(messages: list[tuple[str, str]]) -> str:
    """Return the texts of the errors, joined."""
    return " | ".join(text for severity, text in messages if "ERROR" in severity)


def warnings_in(messages: list[tuple[str, str]]) -> str:
    """Return the texts of the warnings, joined."""
    return " | ".join(text for severity, text in messages if severity == "WARNING")


def needs(path: str) -> pytest.MarkDecorator:
    """Skip a case where this TensorRT lacks `path`, such as "BuilderFlag.BF16"."""
    value: Any = trt
    for part in path.split("."):
        value = getattr(value, part, None)
    return pytest.mark.skipif(value is None, reason=f"TensorRT {trt.__version__} has no trt.{path}")


def refused_on_cpu(attempt: Callable[[], Any], feature: str) -> None:
    """Run what only a GPU has; the CPU engine must refuse it with an error that names the feature and the engine."""
    if ON_GPU:
        attempt()
        return
    with pytest.raises(NotImplementedError) as error:
        attempt()
    assert feature in str(error.value) and "CPU engine" in str(error.value)


def parsed(model: bytes, flags: int | None = None) -> tuple[Any, Any, Any]:
    """Return (builder, network, parser) of a model that must parse."""
    builder = trt.Builder(LOG)
    network = builder.create_network(network_flags() if flags is None else flags)
    parser = trt.OnnxParser(network, LOG)
    assert parser.parse(model), [parser.get_error(i).desc() for i in range(parser.num_errors)]
    return builder, network, parser


def add_profile(builder: Any, config: Any, shapes: Shapes) -> int:
    """Add an optimization profile of (min, opt, max) by input name; return its index."""
    profile = builder.create_optimization_profile()
    for name, (low, best, high) in shapes.items():
        profile.set_shape(name, low, best, high)
    return config.add_optimization_profile(profile)


def _share_timing_cache(config: Any) -> None:
    config.set_timing_cache(config.create_timing_cache(_timing_cache), False)


def _keep_timing_cache(config: Any) -> None:
    global _timing_cache
    _timing_cache = bytes(config.get_timing_cache().serialize())


def build(
    model: bytes,
    *,
    flags: Sequence[str] = (),
    profiles: Sequence[Shapes] = (),
    calibrator: Any = None,
    customize: Callable[[Any, Any], None] | None = None,
    network_flags: int | None = None,
    verbosity: str = "DETAILED",
) -> bytes | None:
    """Build a plan, FP32 without TF32 plus the `flags`; None if the engine refuses.

    Args:
        customize: called with (network, config) before the build.
    """
    builder, network, parser = parsed(model, network_flags)
    config = builder.create_builder_config()
    config.builder_optimization_level = 0
    config.profiling_verbosity = getattr(trt.ProfilingVerbosity, verbosity)
    config.clear_flag(trt.BuilderFlag.TF32)
    for flag in flags:
        config.set_flag(getattr(trt.BuilderFlag, flag))
    for shapes in profiles:
        add_profile(builder, config, shapes)
    if calibrator is not None:
        config.int8_calibrator = calibrator
    _share_timing_cache(config)
    if customize is not None:
        customize(network, config)
    plan = builder.build_serialized_network(network, config)
    del parser
    if plan is None:
        return None
    _keep_timing_cache(config)
    return bytes(plan)


_runtime = trt.Runtime(LOG)


def load(plan: bytes | None) -> Any:
    """Return the engine of a plan that must be good."""
    assert plan is not None, LOG.messages[-5:]
    engine = _runtime.deserialize_cuda_engine(plan)
    assert engine is not None, LOG.messages[-5:]
    return engine


class Buffers:
    """A context of an engine with device memory for every tensor; one context an engine, as TensorRT 8.6 needs."""

    def __init__(self, engine: Any, profile: int = 0) -> None:
        self.engine, self.stream, self.memory = engine, cuda.Stream(), {}
        self.context = engine.create_execution_context()
        assert self.context is not None, LOG.messages[-5:]
        if profile:
            assert self.context.set_optimization_profile_async(profile, self.stream.handle)
            self.stream.synchronize()
        names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
        self.inputs = [name for name in names if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT]
        self.outputs = [name for name in names if name not in self.inputs]

    def upload(self, feeds: dict[str, np.ndarray]) -> None:
        """Set the inputs' shapes, give every tensor memory and copy the inputs."""
        for name, array in feeds.items():
            assert self.context.set_input_shape(name, array.shape)
            self._place(name, np.ascontiguousarray(array))
        for name in self.outputs:
            self._place(name, self.empty(name))

    def empty(self, name: str) -> np.ndarray:
        """Return an empty host array for an output whose shape is known."""
        dtype = trt.nptype(self.engine.get_tensor_dtype(name))
        return np.zeros(tuple(self.context.get_tensor_shape(name)), dtype)

    def _place(self, name: str, array: np.ndarray) -> None:
        self.memory[name] = cuda.mem_alloc(max(array.nbytes, 1))
        cuda.memcpy_htod(self.memory[name], array)
        assert self.context.set_tensor_address(name, int(self.memory[name]))

    def execute(self) -> bool:
        """Enqueue on the stream and wait."""
        done = self.context.execute_async_v3(self.stream.handle)
        self.stream.synchronize()
        return done

    def fetch(self, name: str | None = None) -> np.ndarray:
        """Return an output (the first one without a name)."""
        name = name or self.outputs[0]
        host = self.empty(name)
        cuda.memcpy_dtoh(host, self.memory[name])
        return host


def run(plan: bytes | None, output: str | None = None, profile: int = 0, **feeds: np.ndarray) -> np.ndarray:
    """Run a plan once and return an output as float32."""
    buffers = Buffers(load(plan), profile)
    buffers.upload(feeds)
    assert buffers.execute()
    return buffers.fetch(output).astype(np.float32)


def inspect(plan: bytes | None) -> dict[str, Any]:
    """Return the engine inspector's JSON; TensorRT leaves control characters in it, hence strict=False."""
    engine = load(plan)
    inspector = engine.create_engine_inspector()
    return json.loads(inspector.get_engine_information(trt.LayerInformationFormat.JSON), strict=False)


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    """Return the Euclidean norm of the difference over that of `expected`."""
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))
