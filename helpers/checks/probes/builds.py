"""Watches what a student's builder asks TensorRT for, gathers what it leaves, and reads back what a plan holds."""

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
_ENGINE_FILE = "engines/model.trt"  # neither the ONNX file's folder nor its suffix: the path that is asked for

OLDER = b"the engine of last week " * 100_000
"""What lies at engine_path before a first build; longer than a small network's engine: none of its end may stay."""


Flags = TypedDict("Flags", dict.fromkeys(_FLAGS, bool))
"""Which of _FLAGS were set; those that a TensorRT does not have were not."""


class Recorded(TypedDict):
    """One call of a builder: the workspace limit in bytes, the flags, and whether there is a calibrator.

    `held` is how many convolutions were given a precision of their own, by its name (TensorRT's, such as FLOAT and
    HALF), `held_layers` the same by kind of layer. `halves` is how many convolutions give FP16 or BF16 by the network's
    own types, `quantizers` how many layers quantise. `verbosity` is the profiling verbosity that was asked for, such as
    DETAILED.
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
    """Give a list that each build inside the block adds to. Plans are built with detailed layer information.

    With `failing` the first of them answers None, as TensorRT does where no kernel fits; a second one, in its place,
    would work.

    Detailed verbosity is what lets the inspector say which precision a layer runs in. Optimization level 0 takes the
    first kernel that works: a check answers in seconds, and on so small a network timing would decide by chance which
    precision wins (TensorRT 8.6 on an H200: 3 s and INT8 layers; at its default level 18 s and none).
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
    """Return how many layers of each kind were given a precision, by its name; TensorRT 11 has no way to give one."""
    found: dict[str, dict[str, int]] = {}
    for layer in layers:
        if getattr(layer, "precision_is_set", False):
            counts, precision = found.setdefault(_word(layer.type), {}), _word(layer.precision)
            counts[precision] = counts.get(precision, 0) + 1
    return found


def _word(value: Any) -> str:
    """Return the name of a member of an enumeration of TensorRT's."""
    return str(value).rpartition(".")[2]


class BuiltEngine(TypedDict):
    """What `build_engine` answers."""

    returned: bytes | None
    returned_type: str
    file: bytes | None
    builds: list[Recorded]


class FailedBuild(TypedDict):
    """What `failing_build` answers."""

    raised: str | None
    as_asked: bool
    kept: bool


def _builder(
    notebook: Notebook, function: str, options: dict[str, Any] | None = None, extra: str = "", seed: int = 0
) -> Callable[[Path, Path], Any]:
    """Return the call `function(onnx_path, engine_path, *more, **options)` of two paths.

    The further arguments are made on this side, by the probe `extra(notebook, folder, seed)`, named as "module:name": a
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

    Both calls get the same two paths, as the notebooks give them: pathlib's; `name` is the ONNX file's. `OLDER` lies at
    engine_path at first.

    Returns `returned` (the serialized engine's bytes, None where it is nothing like that), `returned_type`, `file`
    (the bytes at engine_path, None without a file) and `builds`, what TensorRT was asked for in the last call.
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
    """Call a builder as `build_engine` does, where it must fail, over an older engine file.

    `parsed` tells a model that can be parsed, whose build then gives None. Returns `raised` (the exception's type and
    message, None without one), `as_asked` (whether it is the RuntimeError that the task asks for) and `kept`: whether
    the older file is still there as it was.
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
    """Return the bytes of a serialized engine: of bytes, or of TensorRT's IHostMemory."""
    try:
        return None if isinstance(returned, (str, int, type(None))) else bytes(memoryview(returned))
    except TypeError:
        return None


class PlanFacts(TypedDict):
    """What an engine says of itself.

    The types of inputs and outputs by name; for each profile, by input, its shapes min, opt, max; the number of layers,
    and of layers in each precision, where the plan has that detail; the same of the convolutions, fused ones included;
    on the CPU engine how many bytes of weights are stored in which type.
    """

    inputs: dict[str, str]
    outputs: dict[str, str]
    profiles: list[dict[str, list[list[int]]]]
    layers: int
    precisions: dict[str, int]
    convolutions: dict[str, int]
    stored: dict[str, int]
    memory: list[int]  # of its activations, in bytes, under each name that this TensorRT has for that


_MEMORY = ("device_memory_size", "device_memory_size_v2")


@loads
def plan_facts(plan: bytes) -> PlanFacts | None:
    """Return what a serialized engine says of itself; None where it is no engine of this TensorRT."""
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
