"""ONNX to a serialized engine, with a record of how it was built."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from helpers.engine.backend import describe, trt
from helpers.engine.layers import Layer, count_precisions, engine_layers
from helpers.tools.files import atomic_path, atomic_write, sha256, write_json
from trtcpu.errors import EngineError, InputError
from trtlab.building.build_options import BuildOptions
from trtlab.building.calibration import attached, batches_of, recorded, scales_of
from trtlab.building.layer_precisions import Constraints, check_ran, constrain, resolve
from trtlab.building.typed import has_strong_types, typed_model
from trtlab.building.what_ran import WhatRan, contradiction, unquantised, what_ran
from trtlab.engines.engine_log import LOG, Messages
from trtlab.engines.inference import deserialize
from trtlab.engines.network import ParsedModel, parse_onnx, parse_typed, profile_of
from trtlab.engines.tensors import InputSpec, batch_range
from trtlab.images.preprocessing import Preprocessing
from trtlab.images.preprocessing_record import ONNX_KEY, of_model

Report = Callable[[str], None]

_FLAGS = {
    "fp32": (),
    "tf32": ("TF32",),
    "fp16": ("FP16", "TF32"),
    "bf16": ("BF16", "TF32"),
    "int8": ("INT8", "TF32"),
    "int8+fp16": ("INT8", "FP16", "TF32"),
}
_ALL_FLAGS = ("TF32", "FP16", "BF16", "INT8")


@dataclass(frozen=True)
class BuildRecord:
    """How an engine was built; kept as E.json beside the engine E.

    `input_name`, `sample_shape` and `profile` (batches) are the first input's; `inputs` has every input's type and
    shapes, and the number of rows that an integer input looks up in; `preprocessing` is how images become that input.
    `layer_constraints` has the precisions that single layers were asked to have, and what ran; None without any.
    `ran` is what the layers with weights store and ran in (what_ran.py).
    `typed_onnx` is the model with Q/DQ and casts that an explicit build made and built; None for an implicit one.
    """

    engine_path: str
    engine: dict[str, str]
    precision: str
    flags: list[str]
    input_name: str
    sample_shape: list[int]
    profile: dict[str, int]
    dynamic: bool
    inputs: list[dict[str, Any]]
    workspace_mb: int
    opt_level: int
    calibration: dict[str, Any] | None
    timing_cache: str | None
    onnx: str
    onnx_sha256: str
    size_bytes: int
    layers: int
    layer_precisions: dict[str, int]
    seconds: float
    created: str
    warnings: list[str]
    metadata: dict[str, str]
    preprocessing: dict[str, Any] | None
    layer_constraints: dict[str, Any] | None = None
    ran: dict[str, Any] | None = None
    typed_onnx: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON can hold it."""
        return asdict(self)


def record_path(engine_path: str | Path) -> Path:
    """Return where the record of an engine is: E.json beside E."""
    return Path(f"{engine_path}.json")


def typed_path(engine_path: str | Path) -> Path:
    """Return where an explicit build keeps the model that it built: E.onnx beside E."""
    return Path(f"{engine_path}.onnx")


def build_engine(
    onnx_path: str | Path,
    engine_path: str | Path,
    options: BuildOptions,
    progress: Report = lambda text: None,
    note: Report = lambda text: None,
) -> BuildRecord:
    """Build an engine; `engine_path` and its record appear together, or neither does.

    Args:
        progress: called with a short text at each stage and each calibration batch.
        note: called with what had to be assumed.

    Raises:
        InputError: bad options, model, calibration data or cache.
        EngineError: TensorRT could not build it; the text holds what TensorRT logged. Or a layer did not run in the
            precision that it was to have; with `strict`, also where TensorRT took another for all layers.
    """
    options.check()
    if options.typed and typed_path(engine_path).resolve() == Path(onnx_path).resolve():
        raise InputError(f"{typed_path(engine_path)} would be written over by the model that is built; rename --engine")
    start = time.perf_counter()
    progress("parsing")
    model = parse_onnx(onnx_path)
    model.check_weights()
    if model.quantized and not options.int8:
        raise InputError(
            f"{onnx_path} has Q/DQ nodes, and its engine runs INT8; {options.precision} was asked for: "
            "give --precision int8 or int8+fp16, without calibration"
        )
    constraints = resolve(model, options.keep_fp16, options.layer_precisions, options.precision_constraints)
    inputs = input_specs(model, options)
    preprocessing = _preprocessing(model, options, inputs, note)
    job = _Job(model, engine_path, options, inputs, constraints, preprocessing, progress)
    # opened before the build: a folder that cannot be written to should not cost minutes
    with contextlib.ExitStack() as files:
        record_file = files.enter_context(atomic_path(record_path(engine_path)))
        engine_file = files.enter_context(atomic_path(engine_path))
        if options.typed:
            plan, config = job.explicit(files.enter_context(atomic_path(typed_path(engine_path))))
        else:
            plan, config = job.implicit()
        engine_file.write_bytes(plan)
        record = _record(job, config, plan, time.perf_counter() - start)
        write_json(record_file, record.to_dict())
    return record


def input_specs(model: ParsedModel, options: BuildOptions) -> dict[str, InputSpec]:
    """Return the inputs with the shapes that the engine will take."""
    limits = model.index_limits()
    return {
        name: InputSpec(name, model.dtypes[name], *shapes, limits.get(name))
        for name, shapes in options.ranges(model).items()
    }


def _preprocessing(
    model: ParsedModel, options: BuildOptions, inputs: dict[str, InputSpec], note: Report
) -> Preprocessing | None:
    """Return what images of this engine go through; None where nobody has said it and nothing needs it."""
    about = (str(model.path), model.metadata())
    data = options.calib_npy or (None if options.calib_images else options.calib_cache)
    found, assumed = of_model(inputs, about, options.preprocessing, data, needed=bool(options.calib_images))
    if assumed:
        note(assumed)
    return found


@dataclass
class _Job:
    """One build: what is asked for, and then what came of it."""

    model: ParsedModel
    engine_path: str | Path
    options: BuildOptions
    inputs: dict[str, InputSpec]
    constraints: Constraints
    preprocessing: Preprocessing | None
    progress: Report
    calibration: dict[str, Any] | None = None
    warnings: list[str] = field(default_factory=list)
    quantised: Sequence[str] = ()

    def implicit(self) -> tuple[bytes, "trt.IBuilderConfig"]:
        """Build with precision flags, and a calibrator where scales are needed."""
        model, options = self.model, self.options
        config = _configure(model, options, _FLAGS[options.precision])
        constrain(model, config, self.constraints)
        batches = batches_of(model, options, self.inputs, self.preprocessing)
        with attached(config, model, options, self.inputs, batches, self.progress) as calibrator:
            plan = self._serialized(model, config, calibrator)
            self.calibration = recorded(calibrator, self.engine_path, options, batches, self.preprocessing)
        return plan, config

    def explicit(self, file: Path) -> tuple[bytes, "trt.IBuilderConfig"]:
        """Write the types into the model, keep that in `file`, and build what it says."""
        # here, since they bring the CPU engine along
        from trtlab.building.explicit import quantised_layers
        from trtlab.building.scales import float_model

        options, batches = self.options, batches_of(self.model, self.options, self.inputs, self.preprocessing)
        graph = float_model(self.model.path.read_bytes(), str(self.model.path))
        found = scales_of(self.model, graph, self.engine_path, options, batches, self.preprocessing, self.progress)
        scales, keep_cache = found
        typed = typed_model(graph, options.precision, scales, self.constraints)
        self.quantised = quantised_layers(typed)
        file.write_bytes(typed.SerializeToString())
        model = parse_typed(typed, self.model.path)
        config = _configure(model, options, ("TF32",) if has_strong_types() else _FLAGS[options.precision])
        plan = self._serialized(model, config, None)
        self.calibration = keep_cache()
        return plan, config

    def _serialized(self, model: ParsedModel, config: "trt.IBuilderConfig", calibrator: Any) -> bytes:
        profile = profile_of(model, {name: (spec.least, spec.best, spec.most) for name, spec in self.inputs.items()})
        if profile is not None:
            config.add_optimization_profile(profile)
        with _timing(config, self.options):
            with LOG.collect() as messages:
                self.progress(f"building {self.options.precision}")
                plan = model.builder.build_serialized_network(model.network, config)
            if calibrator is not None and calibrator.error is not None:
                raise calibrator.error
            if plan is None:
                raise EngineError(_failure(model, self.options, messages))
        self.warnings = messages.warnings
        return bytes(plan)


def _configure(model: ParsedModel, options: BuildOptions, flags: tuple[str, ...]) -> "trt.IBuilderConfig":
    config = model.builder.create_builder_config()
    for name in _ALL_FLAGS:
        if name in flags:
            config.set_flag(getattr(trt.BuilderFlag, name))
        elif hasattr(trt.BuilderFlag, name):
            config.clear_flag(getattr(trt.BuilderFlag, name))
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, options.workspace_mb << 20)
    if options.opt_level is not None:
        config.builder_optimization_level = options.opt_level
    if options.detailed:
        config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    return config


@contextlib.contextmanager
def _timing(config: "trt.IBuilderConfig", options: BuildOptions) -> Iterator[None]:
    """Use a timing cache, and write it again after a build that succeeded."""
    if options.timing_cache is None:
        yield
        return
    path = Path(options.timing_cache)
    try:
        data = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise InputError(f"cannot read the timing cache {path}: {error.strerror or error}") from error
    with LOG.collect() as messages:
        cache = config.create_timing_cache(data)
        accepted = cache is not None and config.set_timing_cache(cache, ignore_mismatch=False)
    # TensorRT may only warn and start afresh; then a mistyped path would be overwritten. Of Myelin's part of a cache it
    # complains, on 8.6 with Hopper, even where it has just written it, and then uses all the rest.
    complaints = [*messages.errors, *messages.warnings]
    if not accepted or (complaints and not any("myelin" in text.lower() for text in complaints)):
        reason = messages.text() or "; ".join(messages.warnings)
        raise InputError(f"{path} is no timing cache of this engine and device ({reason}); delete it")
    yield
    atomic_write(path, bytes(config.get_timing_cache().serialize()))


def _failure(model: ParsedModel, options: BuildOptions, messages: Messages) -> str:
    reason = messages.text() or "; ".join(messages.warnings[-2:]) or "no reason was logged"
    return f"cannot build {model.path} as {options.precision}: {reason}"


def _record(job: _Job, config: "trt.IBuilderConfig", plan: bytes, seconds: float) -> BuildRecord:
    model, options, inputs = job.model, job.options, job.inputs
    layers = engine_layers(deserialize(plan)[0])
    check_ran(job.constraints, layers)
    ran = what_ran(options.precision, layers)
    surprises = _surprises(job, ran, layers)
    return BuildRecord(
        engine_path=str(job.engine_path),
        engine=describe(),
        precision=options.precision,
        flags=[name for name in _ALL_FLAGS if _is_set(config, name)],
        input_name=model.input_name,
        sample_shape=list(inputs[model.input_name].best[1:]),
        profile=dict(zip(("min", "opt", "max"), batch_range(inputs), strict=True)),
        dynamic=any(-1 in shape for shape in model.inputs.values()),
        inputs=[_described(spec) for spec in inputs.values()],
        workspace_mb=options.workspace_mb,
        opt_level=config.builder_optimization_level,
        calibration=job.calibration,
        timing_cache=str(options.timing_cache) if options.timing_cache else None,
        onnx=str(model.path),
        onnx_sha256=sha256(model.path),
        size_bytes=len(plan),
        layers=len(layers),
        layer_precisions=count_precisions(layers),
        seconds=seconds,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        warnings=[*surprises, *job.warnings],
        metadata={key: text for key, text in model.metadata().items() if key != ONNX_KEY},
        preprocessing=job.preprocessing.to_dict() if job.preprocessing else None,
        layer_constraints=job.constraints.to_dict(layers) if job.constraints.asked else None,
        ran=ran.to_dict(),
        typed_onnx=str(typed_path(job.engine_path)) if options.typed else None,
    )


def _surprises(job: _Job, ran: WhatRan, layers: Sequence[Layer]) -> list[str]:
    """Return what was asked for and does not run, as warnings; raise EngineError for them where the build is strict."""
    held = None if job.constraints.asked else contradiction(ran)
    quantised = unquantised(job.quantised, layers)
    if job.options.strict and held:
        raise EngineError(f"{held}; the engine is not kept. Build with --explicit, or ask for what runs")
    if job.options.strict and quantised:
        advice = "Name them in --layer-precisions, so that they get no Q/DQ"
        raise EngineError(f"{quantised}; the engine is not kept. {advice}")
    return [f"{text}; --strict refuses such an engine" for text in (held, quantised) if text]


def _is_set(config: "trt.IBuilderConfig", name: str) -> bool:
    return hasattr(trt.BuilderFlag, name) and config.get_flag(getattr(trt.BuilderFlag, name))


def _described(spec: InputSpec) -> dict[str, Any]:
    shapes = {"min": list(spec.least), "opt": list(spec.best), "max": list(spec.most)}
    return {"name": spec.name, "dtype": str(spec.dtype), **shapes, "limit": spec.limit}
