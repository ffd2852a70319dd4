"""ONNX to a serialized engine, with a record of how it was built."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from helpers.backend import describe, trt
from helpers.errors import EngineError, InputError
from helpers.files import atomic_path, atomic_write, sha256, write_json
from helpers.layers import count_precisions, engine_layers
from solutions.pipeline.building.build_options import PRECISIONS, BuildOptions
from solutions.pipeline.building.calibrate import CALIBRATORS
from solutions.pipeline.building.calibration_data import CalibrationBatches, image_batches, read_cache, tensor_batches
from solutions.pipeline.building.layer_precisions import Constraints, check_ran, constrain, resolve
from solutions.pipeline.engines.engine_log import LOG, Messages
from solutions.pipeline.engines.inference import deserialize
from solutions.pipeline.engines.network import ParsedModel, parse_onnx
from solutions.pipeline.engines.tensors import InputSpec, batch_range
from solutions.pipeline.images.preprocessing import Preprocessing
from solutions.pipeline.images.preprocessing_record import ONNX_KEY, of_build, write_beside

__all__ = ["PRECISIONS", "BuildOptions", "BuildRecord", "build_engine", "input_specs", "record_path"]

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

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON can hold it."""
        return asdict(self)


def record_path(engine_path: str | Path) -> Path:
    """Return where the record of an engine is: E.json beside E."""
    return Path(f"{engine_path}.json")


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
            precision that it was to have.
    """
    options.check()
    start = time.perf_counter()
    progress("parsing")
    model = parse_onnx(onnx_path)
    model.check_weights()
    constraints = resolve(model, options.keep_fp16, options.layer_precisions, options.precision_constraints)
    inputs = input_specs(model, options)
    preprocessing = _preprocessing(model, options, inputs, note)
    # opened before the build: a folder that cannot be written to should not cost minutes
    with atomic_path(record_path(engine_path)) as record_file, atomic_path(engine_path) as engine_file:
        plan, config, calibration, warnings = _build(
            model, engine_path, options, inputs, constraints, preprocessing, progress
        )
        engine_file.write_bytes(plan)
        made = (constraints, preprocessing, config, bytes(plan), calibration, warnings, start)
        record = _record(model, engine_path, options, inputs, *made)
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
    found, assumed = of_build(inputs, about, options.preprocessing, data, needed=bool(options.calib_images))
    if assumed:
        note(assumed)
    return found


def _build(
    model: ParsedModel,
    engine_path: str | Path,
    options: BuildOptions,
    inputs: dict[str, InputSpec],
    constraints: Constraints,
    preprocessing: Preprocessing | None,
    progress: Report,
) -> tuple["trt.IHostMemory", "trt.IBuilderConfig", dict[str, Any] | None, list[str]]:
    config = _configure(model, options)
    constrain(model, config, constraints)
    _add_profile(config, model, inputs)
    batches = _batches(model, options, inputs, preprocessing)
    with _calibrating(config, model, options, inputs, batches, progress) as calibrator, _timing(config, options):
        with LOG.collect() as messages:
            progress(f"building {options.precision}")
            plan = model.builder.build_serialized_network(model.network, config)
        if calibrator is not None and calibrator.error is not None:
            raise calibrator.error
        if plan is None:
            raise EngineError(_failure(model, options, messages))
        calibration = _keep_cache(calibrator, engine_path, options, batches, preprocessing)
    return plan, config, calibration, messages.warnings


def _configure(model: ParsedModel, options: BuildOptions) -> "trt.IBuilderConfig":
    config = model.builder.create_builder_config()
    for name in _ALL_FLAGS:
        if name in _FLAGS[options.precision]:
            config.set_flag(getattr(trt.BuilderFlag, name))
        elif hasattr(trt.BuilderFlag, name):
            config.clear_flag(getattr(trt.BuilderFlag, name))
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, options.workspace_mb << 20)
    if options.opt_level is not None:
        config.builder_optimization_level = options.opt_level
    if options.detailed:
        config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    return config


def _add_profile(config: "trt.IBuilderConfig", model: ParsedModel, inputs: dict[str, InputSpec]) -> None:
    profile = _profile(model, {name: (spec.least, spec.best, spec.most) for name, spec in inputs.items()})
    if profile is not None:
        config.add_optimization_profile(profile)


def _profile(model: ParsedModel, shapes: dict[str, tuple]) -> "trt.IOptimizationProfile | None":
    """Return a profile with the shapes of the inputs that are dynamic; None where no input is."""
    dynamic = [name for name, shape in model.inputs.items() if -1 in shape]
    if not dynamic:
        return None
    profile = model.builder.create_optimization_profile()
    for name in dynamic:
        profile.set_shape(name, *shapes[name])
    return profile


@contextlib.contextmanager
def _calibrating(
    config: "trt.IBuilderConfig",
    model: ParsedModel,
    options: BuildOptions,
    inputs: dict[str, InputSpec],
    batches: CalibrationBatches | None,
    progress: Report,
) -> Iterator[Any]:
    """Attach a calibrator where the build needs one; the name keeps it alive until the build is over."""
    if not _calibrates(model, options):
        yield None
        return
    cache, kind = _cache(model, options)
    batch_size = batches.batch_size if batches else batch_range(inputs)[1]
    calibrator = CALIBRATORS[kind]()
    calibrator.start(batches, cache, batch_size, progress)
    config.int8_calibrator = calibrator
    given = batches.sample_shapes if batches else {}
    shapes = {name: (batch_size, *given[name]) if name in given else spec.best for name, spec in inputs.items()}
    profile = _profile(model, {name: (shape, shape, shape) for name, shape in shapes.items()})
    if profile is not None:
        config.set_calibration_profile(profile)
    try:
        yield calibrator
    finally:
        calibrator.free()


def _calibrates(model: ParsedModel, options: BuildOptions) -> bool:
    given = options.calibration_source or options.calib_cache
    return options.int8 and bool(given or not model.quantized)


def _batches(
    model: ParsedModel, options: BuildOptions, inputs: dict[str, InputSpec], preprocessing: Preprocessing | None
) -> CalibrationBatches | None:
    if not _calibrates(model, options):
        return None
    if options.calib_npy:
        return tensor_batches(options.calib_npy, inputs, model.fixed_batch)
    if options.calib_images and preprocessing:
        how = (preprocessing, model.input_name, model.fixed_batch)
        return image_batches(options.calib_images, *how, count=options.calib_count)
    if not options.calib_cache:
        raise InputError(
            f"{options.precision} needs calibration: give --calib-npy (from trtlab calib-data, or an .npz of named "
            "inputs), --calib-images or --calib-cache"
        )
    return None


def _cache(model: ParsedModel, options: BuildOptions) -> tuple[bytes | None, str]:
    """Return the cache to take the scales from, if no data is given, and the calibrator's kind."""
    if options.calibration_source:
        return None, options.calibrator or "entropy"
    cache = read_cache(options.calib_cache)
    if options.calibrator not in (None, cache.kind):
        raise InputError(
            f"{options.calib_cache} was written by the {cache.kind} calibrator, not by {options.calibrator}; "
            "drop --calibrator or calibrate again"
        )
    cache.check_fits(model.calibrated_inputs, model.tensor_names)
    return cache.data, cache.kind


def _keep_cache(
    calibrator: Any,
    engine_path: str | Path,
    options: BuildOptions,
    batches: CalibrationBatches | None,
    preprocessing: Preprocessing | None,
) -> dict[str, Any] | None:
    """Write the cache that TensorRT handed over, and return how the engine was calibrated."""
    if calibrator is None:
        return None
    kind = next(name for name, cls in CALIBRATORS.items() if cls is type(calibrator))
    path = Path(options.calib_cache or f"{engine_path}.cache")
    if options.calibration_source and calibrator.written is not None:
        atomic_write(path, calibrator.written)
        if preprocessing is not None:
            write_beside(path, preprocessing)
    return {
        "calibrator": kind,
        "source": options.calibration_source or str(path),
        "cache": str(path),
        "images": calibrator.fed * calibrator.get_batch_size(),
        "given": batches.available if batches else 0,
    }


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


def _record(
    model: ParsedModel,
    engine_path: str | Path,
    options: BuildOptions,
    inputs: dict[str, InputSpec],
    constraints: Constraints,
    preprocessing: Preprocessing | None,
    config: "trt.IBuilderConfig",
    plan: bytes,
    calibration: dict[str, Any] | None,
    warnings: list[str],
    start: float,
) -> BuildRecord:
    seconds = time.perf_counter() - start
    layers = engine_layers(deserialize(plan)[0])
    check_ran(constraints, layers)
    return BuildRecord(
        engine_path=str(engine_path),
        engine=describe(),
        precision=options.precision,
        flags=[name for name in _ALL_FLAGS if name in _FLAGS[options.precision]],
        input_name=model.input_name,
        sample_shape=list(inputs[model.input_name].best[1:]),
        profile=dict(zip(("min", "opt", "max"), batch_range(inputs), strict=True)),
        dynamic=any(-1 in shape for shape in model.inputs.values()),
        inputs=[_described(spec) for spec in inputs.values()],
        workspace_mb=options.workspace_mb,
        opt_level=config.builder_optimization_level,
        calibration=calibration,
        timing_cache=str(options.timing_cache) if options.timing_cache else None,
        onnx=str(model.path),
        onnx_sha256=sha256(model.path),
        size_bytes=len(plan),
        layers=len(layers),
        layer_precisions=count_precisions(layers),
        seconds=seconds,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        warnings=warnings,
        metadata={key: text for key, text in model.metadata().items() if key != ONNX_KEY},
        preprocessing=preprocessing.to_dict() if preprocessing else None,
        layer_constraints=constraints.to_dict(layers) if constraints.asked else None,
    )


def _described(spec: InputSpec) -> dict[str, Any]:
    shapes = {"min": list(spec.least), "opt": list(spec.best), "max": list(spec.most)}
    return {"name": spec.name, "dtype": str(spec.dtype), **shapes, "limit": spec.limit}
