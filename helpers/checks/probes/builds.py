"""Records what a student's builder asks of TensorRT, collects its results, and reads plans."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, TypedDict
from unittest import mock

from helpers.checks.probes.answer import Notebook, known_probe, probe
from helpers.checks.probes.frames import said
from helpers.checks.probes.loads import loads
from helpers.engine.backend import ENGINE, trt
from helpers.engine.layers import count_precisions, engine_layers

_FLAGS = ("FP16", "INT8", "BF16", "TF32", "OBEY_PRECISION_CONSTRAINTS", "PREFER_PRECISION_CONSTRAINTS")
_BUILDS = ("build_serialized_network", "build_engine_with_config", "build_engine")
_ENGINE_FILE = "engines/model.trt"  # another folder and suffix than the ONNX file's

OLDER = b"the engine of last week " * 100_000
"""The content of engine_path before a first build; longer than a small engine, so that a leftover shows."""


Flags = TypedDict("Flags", dict.fromkeys(_FLAGS, bool))
"""Which of _FLAGS were set; flags that this TensorRT does not have count as not set."""


class Recorded(TypedDict):
    """One call of a builder: the workspace limit in bytes, the flags, and whether there is a calibrator.

    `held` counts convolutions with a precision set on them, by its TensorRT name (FLOAT, HALF), `held_layers` the same
    by kind of layer. `halves` counts convolutions whose network type is FP16 or BF16, `quantizers` quantising layers.
    `verbosity` is the requested profiling verbosity, such as DETAILED.
    """

    workspace_bytes: int
    flags: Flags
    calibrator: bool
    held: dict[str, int]
    held_layers: dict[str, dict[str, int]]
    halves: int
    quantizers: int
    verbosity: str
    strongly_typed: bool


@contextlib.contextmanager
def recorded_builds(*, failing: bool = False) -> Iterator[list[Recorded]]:
    """Yield a list to which each build inside the block adds. Plans are built with detailed layer information.

    With `failing` the first build returns None, as TensorRT does if no kernel fits; a second one would work.

    With detailed verbosity the inspector reports each layer's precision. Optimization level 0 takes the first kernel
    that works: a check takes seconds, and on so small a network timing would pick a precision by chance (TensorRT 8.6
    on an H200: 3 s and INT8 layers; at its default level 18 s and none).
    """
    builds: list[Recorded] = []

    def recording(original: Any) -> Any:
        def build(builder: Any, network: Any, config: Any, *args: Any, **kwargs: Any) -> Any:
            builds.append(_asked(network, config))
            config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
            config.builder_optimization_level = 0
            fails = failing and len(builds) == 1
            return None if fails else original(builder, network, config, *args, **kwargs)

        return build

    ways = {name: recording(getattr(trt.Builder, name)) for name in _BUILDS if hasattr(trt.Builder, name)}
    with mock.patch.multiple(trt.Builder, **ways):
        yield builds


def _asked(network: Any, config: Any) -> Recorded:
    known = trt.BuilderFlag
    strong = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)  # TensorRT 8.6 has no such networks
    layers = [network.get_layer(index) for index in range(network.num_layers)]
    convolutions = [layer for layer in layers if layer.type == trt.LayerType.CONVOLUTION]
    return {
        "workspace_bytes": int(config.get_memory_pool_limit(trt.MemoryPoolType.WORKSPACE)),
        "flags": {name: hasattr(known, name) and config.get_flag(getattr(known, name)) for name in _FLAGS},
        "calibrator": getattr(config, "int8_calibrator", None) is not None,
        "held": _held(convolutions).get("CONVOLUTION", {}),
        "held_layers": _held(layers),
        "halves": sum(_word(layer.get_output(0).dtype) in ("HALF", "BF16") for layer in convolutions),
        "quantizers": sum(layer.type == trt.LayerType.QUANTIZE for layer in layers),
        "verbosity": _word(config.profiling_verbosity),
        "strongly_typed": strong is not None and network.get_flag(strong),
    }


def _held(layers: list[Any]) -> dict[str, dict[str, int]]:
    """Return how many layers of each kind have a precision set, by its name; TensorRT 11 cannot set one."""
    found: dict[str, dict[str, int]] = {}
    for layer in layers:
        if getattr(layer, "precision_is_set", False):
            counts, precision = found.setdefault(_word(layer.type), {}), _word(layer.precision)
            counts[precision] = counts.get(precision, 0) + 1
    return found


def _word(value: Any) -> str:
    """Return the name of a member of a TensorRT enumeration."""
    return str(value).rpartition(".")[2]


class BuiltEngine(TypedDict):
    """The answer of `build_engine`."""

    returned: bytes | None
    returned_type: str
    file: bytes | None
    builds: list[Recorded]


class FailedBuild(TypedDict):
    """The answer of `failing_build`."""

    raised: str | None
    as_asked: bool
    kept: bool


def _builder(
    notebook: Notebook, function: str, options: dict[str, Any] | None = None, extra: str = "", seed: int = 0
) -> Callable[[Path, Path], Any]:
    """Return `function(onnx_path, engine_path, *more, **options)` as a function of the two paths.

    The probe `extra(notebook, folder, seed)`, named as "module:name", makes the further arguments on this side: a
    calibrator, the path of a cache.
    """
    build, (module, _, name) = notebook[function], extra.partition(":")

    def call(source: Path, target: Path) -> Any:
        more = known_probe(name, module)(notebook, source.parent, seed) if extra else ()
        return build(source, target, *more, **(options or {}))

    return call


@probe
def build_engine(
    notebook: Notebook, *, onnx: bytes, before: bytes | None = None, name: str = "model.onnx", **called: Any
) -> BuiltEngine:
    """Call a builder (`called` is `_builder`'s); first for the network `before`, if given.

    Both calls get the same two pathlib paths, as in the notebooks; `name` is the ONNX file's. `OLDER` is at engine_path
    at first.

    Returns `returned` (the serialized engine's bytes, None if it is something else), `returned_type`, `file` (the bytes
    at engine_path, None without a file) and `builds`, the settings of the last call's builds.
    """
    build = _builder(notebook, **called)
    with tempfile.TemporaryDirectory() as folder, recorded_builds() as builds:
        source, target = Path(folder) / name, Path(folder) / _ENGINE_FILE
        target.parent.mkdir()
        target.write_bytes(OLDER)
        for content in filter(None, (before, onnx)):
            source.write_bytes(content)
            builds.clear()
            returned = build(source, target)
        return {
            "returned": as_bytes(returned),
            "returned_type": type(returned).__name__,
            "file": target.read_bytes() if target.is_file() else None,
            "builds": builds,
        }


@probe
def failing_build(notebook: Notebook, *, onnx: bytes, parsed: bool, **called: Any) -> FailedBuild:
    """Call a builder where it must fail, over an older engine file.

    With `parsed` the model can be parsed, and its build returns None. Returns `raised` (the exception's type and
    message, None without one), `as_asked` (if it is the RuntimeError that the task asks for) and `kept`: if the older
    file is unchanged.
    """
    build, raised, as_asked = _builder(notebook, **called), None, False
    with tempfile.TemporaryDirectory() as folder, recorded_builds(failing=parsed):
        source, target = Path(folder) / "model.onnx", Path(folder) / _ENGINE_FILE
        source.write_bytes(onnx)
        target.parent.mkdir()
        target.write_bytes(OLDER)
        try:
            build(source, target)
        except NotImplementedError:
            raise
        except (Exception, SystemExit) as error:
            raised, as_asked = f"{type(error).__name__}: {said(error)}", isinstance(error, RuntimeError)
        kept = target.is_file() and target.read_bytes() == OLDER
    return {"raised": raised, "as_asked": as_asked, "kept": kept}


def as_bytes(returned: Any) -> bytes | None:
    """Return a serialized engine as bytes, from bytes or TensorRT's IHostMemory."""
    try:
        return None if isinstance(returned, (str, int, type(None))) else bytes(memoryview(returned))
    except TypeError:
        return None


class PlanFacts(TypedDict):
    """An engine's description of itself.

    The types of inputs and outputs by name; for each profile and input the shapes min, opt, max; the number of layers,
    and of layers in each precision, if the plan has that detail; the same for convolutions, fused ones included; on the
    CPU engine the bytes of weights by stored type.
    """

    inputs: dict[str, str]
    outputs: dict[str, str]
    profiles: list[dict[str, list[list[int]]]]
    layers: int
    precisions: dict[str, int]
    convolutions: dict[str, int]
    stored: dict[str, int]
    memory: list[int]  # bytes for activations, under each of this TensorRT's names for it


_MEMORY = ("device_memory_size", "device_memory_size_v2")


@loads
def plan_facts(plan: bytes) -> PlanFacts | None:
    """Return a serialized engine's description of itself; None if this TensorRT cannot load it."""
    engine = trt.Runtime(trt.Logger(trt.Logger.INTERNAL_ERROR)).deserialize_cuda_engine(plan)
    if engine is None:
        return None
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    inputs = [name for name in names if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT]
    types, layers = {name: _word(engine.get_tensor_dtype(name)) for name in names}, engine_layers(engine)
    return {
        "inputs": {name: types[name] for name in inputs},
        "outputs": {name: types[name] for name in names if name not in inputs},
        "profiles": [
            {name: [list(shape) for shape in engine.get_tensor_profile_shape(name, index)] for name in inputs}
            for index in range(engine.num_optimization_profiles)
        ],
        "layers": len(layers),
        "precisions": count_precisions(layers),
        "convolutions": count_precisions([layer for layer in layers if "Conv" in str(layer.get("LayerType"))]),
        "stored": _cpu_plan(plan).stored if ENGINE == "cpu" else {},
        "memory": sorted({int(getattr(engine, name)) for name in _MEMORY if hasattr(engine, name)}),
    }


@loads
def computes_as(plan: bytes, other: bytes) -> bool:
    """Return whether two plans of the CPU engine hold the same compiled network."""
    return _cpu_plan(plan).computes_as(_cpu_plan(other))


@lru_cache(maxsize=4)
def _cpu_plan(plan: bytes) -> Any:
    from trtcpu.plan import Plan

    return Plan.deserialize(plan)
