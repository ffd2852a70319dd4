"""Watches what a student's builder asks TensorRT for, gathers what it leaves, and reads back what a plan holds."""

import contextlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypedDict, get_type_hints

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


@dataclass
class Build:
    """One call of a builder: the workspace limit in bytes, the flags and the calibrator's class.

    `convolutions` is how many the network has, `held` how many of them were given a precision of their own, by its name
    (TensorRT's, such as FLOAT and HALF), `held_layers` the same of every kind of layer. `calibration_batch` is the
    middle batch of the profile to calibrate in, None where that is the engine's own. `halves` is how many convolutions
    give FP16 or BF16 by the network's own types, `quantizers` how many layers quantise. `verbosity` is the profiling
    verbosity that was asked for, such as DETAILED.
    """

    workspace_bytes: int
    flags: Flags
    calibrator: str | None = None
    convolutions: int = 0
    held: dict[str, int] = field(default_factory=dict)
    calibration_batch: int | None = None
    held_layers: dict[str, dict[str, int]] = field(default_factory=dict)
    halves: int = 0
    quantizers: int = 0
    verbosity: str = ""
    strongly_typed: bool = False


Recorded = TypedDict("Recorded", get_type_hints(Build))
"""A Build as it comes back."""


@contextlib.contextmanager
def recorded_builds(*, failing: bool = False, calibrated: bool = False) -> Iterator[list[Build]]:
    """Give a list that each build inside the block adds to. Plans are built with detailed layer information.

    With `failing` the first of them answers None, as TensorRT does where no kernel fits; a second one, in its place,
    would work. With `calibrated` too it has calibrated by then.

    Detailed verbosity is what lets the inspector say which precision a layer runs in. Optimization level 0 takes the
    first kernel that works: a check answers in seconds, and on so small a network timing would decide by chance which
    precision wins (TensorRT 8.6 on an H200: 3 s and INT8 layers; at its default level 18 s and none).
    """
    builds: list[Build] = []
    originals = {name: getattr(trt.Builder, name) for name in _BUILDS if hasattr(trt.Builder, name)}

    def recording(original: Any) -> Any:
        def build(builder: Any, network: Any, config: Any, *args: Any, **kwargs: Any) -> Any:
            builds.append(_asked(network, config))
            config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
            config.builder_optimization_level = 0
            fails = failing and len(builds) == 1
            plan = None if fails and not calibrated else original(builder, network, config, *args, **kwargs)
            return None if fails else plan

        return build

    try:
        for name, original in originals.items():
            setattr(trt.Builder, name, recording(original))
        yield builds
    finally:
        for name, original in originals.items():
            setattr(trt.Builder, name, original)


def _asked(network: Any, config: Any) -> Build:
    known = trt.BuilderFlag
    flags = {name: hasattr(known, name) and config.get_flag(getattr(known, name)) for name in _FLAGS}
    calibrator = getattr(config, "int8_calibrator", None)
    layers = [network.get_layer(index) for index in range(network.num_layers)]
    convolutions = [layer for layer in layers if layer.type == trt.LayerType.CONVOLUTION]
    return Build(
        workspace_bytes=int(config.get_memory_pool_limit(trt.MemoryPoolType.WORKSPACE)),
        flags=flags,
        calibrator=type(calibrator).__name__ if calibrator is not None else None,
        convolutions=len(convolutions),
        held=dict(Counter(str(layer.precision).rpartition(".")[2] for layer in convolutions if _is_held(layer))),
        calibration_batch=_calibration_batch(network, config),
        held_layers=_held(layers),
        halves=sum(str(layer.get_output(0).dtype).endswith(("HALF", "BF16")) for layer in convolutions),
        quantizers=sum(layer.type == trt.LayerType.QUANTIZE for layer in layers),
        verbosity=str(config.profiling_verbosity).rpartition(".")[2],
        strongly_typed=_strongly_typed(network),
    )


def _strongly_typed(network: Any) -> bool:
    """Return whether every type is the model's; TensorRT 8.6 has no such networks."""
    flag = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    return flag is not None and network.get_flag(flag)


def _is_held(layer: Any) -> bool:
    """Say whether a layer was asked to keep a precision, which TensorRT 11 has no way to ask for."""
    return getattr(layer, "precision_is_set", False)


def _held(layers: list[Any]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for layer in filter(_is_held, layers):
        kind, precision = (str(value).rpartition(".")[2] for value in (layer.type, layer.precision))
        counts = found.setdefault(kind, {})
        counts[precision] = counts.get(precision, 0) + 1
    return found


def _calibration_batch(network: Any, config: Any) -> int | None:
    profile = config.get_calibration_profile() if hasattr(config, "get_calibration_profile") else None
    shapes = profile.get_shape(network.get_input(0).name) if profile and network.num_inputs else None
    return int(shapes[1][0]) if shapes else None


class BuiltEngine(TypedDict):
    """What `build_engine` answers."""

    returned: bytes | None
    returned_type: str
    file: bytes | None
    onnx_kept: bool
    builds: list[Recorded]


class FailedBuild(TypedDict):
    """What `failed_build` answers."""

    raised: str | None
    as_asked: bool
    returned_type: str
    kept: bool
    onnx_kept: bool


@probe
def build_engine(
    notebook: Notebook,
    *,
    function: str,
    onnx: bytes,
    options: dict[str, Any] | None = None,
    before: bytes | None = None,
    name: str = "model.onnx",
    extra: str = "",
    seed: int = 0,
) -> BuiltEngine:
    """Call `function(onnx_path, engine_path, *more, **options)`; first for the network `before`, if given.

    Both calls get the same two paths, as the notebooks give them: pathlib's; `name` is the ONNX file's. `OLDER` lies at
    engine_path at first. The further arguments are made on this side, by the probe `extra(notebook, folder, seed)`,
    named as "module:name": a calibrator, the path of a cache.

    Returns `returned` (the serialized engine's bytes, None where it is nothing like that), `returned_type`, `file`
    (the bytes at engine_path, None without a file), `onnx_kept` (whether the ONNX file is still what it was) and
    `builds`, what TensorRT was asked for in the last call.
    """
    build = notebook[function]
    with tempfile.TemporaryDirectory() as folder, recorded_builds() as builds:
        source, target = Path(folder) / name, Path(folder) / _ENGINE_FILE
        target.parent.mkdir()
        target.write_bytes(OLDER)
        for content in filter(None, (before, onnx)):
            source.write_bytes(content)
            more = _extra(extra)(notebook, Path(folder), seed) if extra else ()
            builds.clear()
            returned = build(source, target, *more, **(options or {}))
        return {
            "returned": as_bytes(returned),
            "returned_type": type(returned).__name__,
            "file": target.read_bytes() if target.is_file() else None,
            "onnx_kept": _holds(source, onnx),
            "builds": [asdict(found) for found in builds],
        }


def _extra(named: str) -> Callable[..., Any]:
    module, _, name = named.partition(":")
    return known_probe(name, module)


@probe
def failing_build(
    notebook: Notebook,
    *,
    function: str,
    onnx: bytes,
    parsed: bool,
    options: dict[str, Any] | None = None,
    extra: str = "",
    seed: int = 0,
) -> FailedBuild:
    """Call it as `build_engine` does, where it must fail; the result is `failed_build`'s."""
    build = notebook[function]

    def call(source: Path, target: Path) -> Any:
        more = _extra(extra)(notebook, source.parent, seed) if extra else ()
        return build(source, target, *more, **(options or {}))

    return failed_build(call, onnx, parsed=parsed)


def failed_build(build: Callable[[Path, Path], Any], onnx: bytes, *, parsed: bool) -> FailedBuild:
    """Call `build(onnx_path, engine_path)` where it must fail, over an older engine file.

    `parsed` tells a model that can be parsed, whose build then gives None. Returns `raised` (the exception's type and
    message, None without one), `as_asked` (whether it is the RuntimeError that the task asks for), `returned_type`,
    `kept` and `onnx_kept`: whether the older file and the ONNX file are still there as they were.
    """
    raised, returned, as_asked = None, None, False
    with tempfile.TemporaryDirectory() as folder, recorded_builds(failing=parsed):
        source, target = Path(folder) / "model.onnx", Path(folder) / _ENGINE_FILE
        source.write_bytes(onnx)
        target.parent.mkdir()
        target.write_bytes(OLDER)
        try:
            returned = build(source, target)
        except NotImplementedError:
            raise
        except (Exception, SystemExit) as error:
            raised, as_asked = f"{type(error).__name__}: {said(error)}", isinstance(error, RuntimeError)
        kept = {
            name: _holds(path, content)
            for name, path, content in (("kept", target, OLDER), ("onnx_kept", source, onnx))
        }
    return {"raised": raised, "as_asked": as_asked, "returned_type": type(returned).__name__, **kept}


def _holds(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content


def as_bytes(returned: Any) -> bytes | None:
    """Return the bytes of a serialized engine: of bytes, or of TensorRT's IHostMemory."""
    try:
        return None if isinstance(returned, (str, int, type(None))) else bytes(memoryview(returned))
    except TypeError:
        return None


class EngineTensor(TypedDict):
    """Of an input or output: its shape, -1 where it may change, and its type's name."""

    shape: list[int]
    dtype: str


class PlanFacts(TypedDict):
    """What an engine says of itself.

    Inputs and outputs by name; for each profile, by input, its shapes min, opt, max; the number of layers, and of
    layers in each precision, where the plan has that detail; the same of the convolutions, fused ones included; on the
    CPU engine how many bytes of weights are stored in which type.
    """

    inputs: dict[str, EngineTensor]
    outputs: dict[str, EngineTensor]
    profiles: list[dict[str, list[list[int]]]]
    layers: int
    precisions: dict[str, int]
    convolutions: dict[str, int]
    stored: dict[str, int]


@loads
def plan_facts(plan: bytes) -> PlanFacts | None:
    """Return what a serialized engine says of itself; None where it is no engine of this TensorRT."""
    engine = trt.Runtime(trt.Logger(trt.Logger.INTERNAL_ERROR)).deserialize_cuda_engine(plan)
    if engine is None:
        return None
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    inputs = [name for name in names if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT]
    layers = engine_layers(engine)
    return {
        "inputs": {name: _tensor(engine, name) for name in inputs},
        "outputs": {name: _tensor(engine, name) for name in names if name not in inputs},
        "profiles": [
            {name: [list(shape) for shape in engine.get_tensor_profile_shape(name, index)] for name in inputs}
            for index in range(engine.num_optimization_profiles)
        ],
        "layers": len(layers),
        "precisions": count_precisions(layers),
        "convolutions": count_precisions([layer for layer in layers if "Conv" in str(layer.get("LayerType"))]),
        "stored": _cpu_plan(plan).stored if ENGINE == "cpu" else {},
    }


@loads
def computes_as(plan: bytes, other: bytes) -> bool:
    """Return whether two plans of the CPU engine hold the same compiled network."""
    return _cpu_plan(plan).computes_as(_cpu_plan(other))


@lru_cache(maxsize=4)
def _cpu_plan(plan: bytes) -> Any:
    from trtcpu.plan import Plan

    return Plan.deserialize(plan)


def _tensor(engine: Any, name: str) -> EngineTensor:
    return {
        "shape": [int(dim) for dim in engine.get_tensor_shape(name)],
        "dtype": str(engine.get_tensor_dtype(name)).rpartition(".")[2],
    }
