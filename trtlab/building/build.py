"""ONNX to a serialized engine, with a record of how it was built."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace

from helpers.engine.backend import describe, trt
from helpers.engine.layers import count_precisions, engine_layers
from helpers.tools.files import atomic_path, atomic_write, read_file, sha256, write_json
from trtcpu.errors import EngineError, InputError
from trtlab.building.build_options import BuildOptions, has_strong_types
from trtlab.building.calibration import Calibration
from trtlab.building.layer_precisions import check_ran, constrain, contradiction, resolve, unquantised, what_ran
from trtlab.engines.engine_log import LOG
from trtlab.engines.inference import deserialize
from trtlab.engines.network import ParsedModel, add_profile, parse_model, parse_onnx
from trtlab.engines.shapes import complete_ranges, merge_shapes
from trtlab.engines.tensors import InputSpec, batch_range
from trtlab.images.preprocessing_record import ONNX_KEY, of_model

Report = Callable[[str], None]

# TensorRT 11 has TF32 alone
_FLAGS = {
    name: getattr(trt.BuilderFlag, name) for name in ("TF32", "FP16", "BF16", "INT8") if hasattr(trt.BuilderFlag, name)
}


class BuildRecord(SimpleNamespace):
    """How an engine was built; kept as E.json beside the engine E. `_Job.record` has its fields.

    `input_name`, `sample_shape` and `profile` (batches) are the first input's; `inputs` has every input's type and
    shapes, and the number of rows that an integer input looks up in; `preprocessing` is how images become that input.
    `layer_constraints` has the precisions that single layers were asked to have, and what ran; None without any.
    `ran` is what the layers with weights store and ran in (layer_precisions.what_ran).
    `typed_onnx` is the model with Q/DQ and casts that an explicit build made and built; None for an implicit one.
    """


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
            precision that it was to have; with `strict`, also if TensorRT took another for all layers.
    """
    options.check()
    typed = Path(f"{engine_path}.onnx") if options.typed else None
    if typed and typed.resolve() == Path(onnx_path).resolve():
        raise InputError(f"{typed} would be written over by the model that is built; rename --engine")
    start = time.perf_counter()
    progress("parsing")
    model = parse_onnx(onnx_path)
    model.check_weights()
    if model.quantized and not options.int8:
        raise InputError(
            f"{onnx_path} has Q/DQ nodes, and its engine runs INT8; {options.precision} was asked for: "
            "give --precision int8 or int8+fp16, without calibration"
        )
    job = _Job(model, options, progress, note)
    # opened before the build: a folder that cannot be written to should not cost minutes
    with contextlib.ExitStack() as files:
        paths = [f"{engine_path}.json", engine_path, *([typed] if typed else [])]
        record_file, engine_file, *typed_file = [files.enter_context(atomic_path(path)) for path in paths]
        plan, config = job.build(*typed_file)
        engine_file.write_bytes(plan)
        record = job.record(engine_path, typed, plan, config, time.perf_counter() - start)
        write_json(record_file, vars(record))
    return record


def input_specs(model: ParsedModel, options: BuildOptions) -> dict[str, InputSpec]:
    """Return the inputs with the shapes that the engine will take.

    An input that was not given has the batches of one that was.

    Raises:
        InputError: shapes and batches that contradict the model or each other, or that are missing.
    """
    shapes = (options.shapes, options.min_shapes, options.opt_shapes, options.max_shapes)
    asked = merge_shapes(*shapes, list(model.inputs))
    batch = next((name for name in asked if model.inputs[name][:1] == (-1,)), None)
    if batch is None:
        batches = options.batches(model.fixed_batch, model.path)
    elif (options.min_batch, options.opt_batch, options.max_batch) != (None, None, None):
        raise InputError(f"--shapes sets the batch of {batch}; drop --min-batch, --opt-batch and --max-batch")
    else:
        batches = tuple(shape[0] for shape in asked[batch])
    ranges = complete_ranges(model.inputs, asked, batches, model.axis_names())
    limits = model.index_limits()
    return {name: InputSpec(name, model.dtypes[name], *ranges[name], limits.get(name)) for name in ranges}


class _Job:
    """One build: what is asked for, and then what came of it."""

    def __init__(self, model: ParsedModel, options: BuildOptions, progress: Report, note: Report) -> None:
        self.model, self.options, self.progress = model, options, progress
        self.constraints = resolve(model, options)
        self.inputs = input_specs(model, options)
        self.preprocessing, assumed = of_model(
            self.inputs,
            (str(model.path), model.metadata()),
            options.preprocessing,
            options.calib_npy or (None if options.calib_images else options.calib_cache),
            needed=bool(options.calib_images),
        )
        if assumed:
            note(assumed)
        self.calibration = Calibration(model, options, self.inputs, self.preprocessing, progress)
        self.quantised: Sequence[str] = ()
        self.warnings: list[str] = []

    def build(self, typed_file: Path | None = None) -> tuple[bytes, "trt.IBuilderConfig"]:
        """Build with precision flags and a calibrator; or with a `typed_file`, what is written into that."""
        model = self._typed(typed_file) if typed_file else self.model
        config = _configure(model, self.options)
        calibrating = contextlib.nullcontext()
        if not typed_file:
            constrain(model, config, self.constraints)
            calibrating = self.calibration.attached(config) if self.calibration.batches else calibrating
        shapes = {name: (spec.least, spec.best, spec.most) for name, spec in self.inputs.items()}
        add_profile(model, shapes, config.add_optimization_profile)
        cache = self.options.timing_cache
        timing = _timing(config, cache) if cache else contextlib.nullcontext()
        with timing, calibrating, LOG.collect() as messages:
            self.progress(f"building {self.options.precision}")
            plan = model.builder.build_serialized_network(model.network, config)
            if plan is None:
                reason = messages.text() or "; ".join(messages.warnings[-2:]) or "no reason was logged"
                raise EngineError(f"cannot build {model.path} as {self.options.precision}: {reason}")
        self.warnings = messages.warnings
        return bytes(plan), config

    def _typed(self, file: Path) -> ParsedModel:
        """Return the network whose model says the types itself; that model is kept in `file`."""
        # here, since it brings the CPU engine along
        from trtlab.building.typed import float_model, quantised_layers, typed_model

        path = self.model.path
        graph = float_model(path.read_bytes(), str(path))
        typed = typed_model(graph, self.options.precision, self.calibration.scales(graph), self.constraints)
        data = typed.SerializeToString()
        file.write_bytes(data)
        self.quantised = quantised_layers(typed)
        return parse_model(data, typed, path, "EXPLICIT_BATCH", "STRONGLY_TYPED")

    def record(
        self, engine_path: str | Path, typed: Path | None, plan: bytes, config: "trt.IBuilderConfig", seconds: float
    ) -> BuildRecord:
        """Read back what was built, write the calibration cache, and return the record.

        Raises:
            EngineError: as `build_engine`, for what runs in another precision.
        """
        model, options, inputs = self.model, self.options, self.inputs
        layers = engine_layers(deserialize(plan)[0])
        check_ran(self.constraints, layers)
        ran = what_ran(options.precision, layers)
        # layers that were asked for in a precision of their own are check_ran's
        held = None if self.constraints.asked else contradiction(ran)
        surprises = [text for text in (held, unquantised(self.quantised, layers)) if text]
        if options.strict and surprises:
            advice = "Ask" if options.typed else "Build with --explicit, ask"
            raise EngineError(
                f"{surprises[0]}; the engine is not kept. {advice} for what runs, or name layers in "
                "--layer-precisions, so that they get no Q/DQ"
            )
        return BuildRecord(
            engine_path=str(engine_path),
            engine=describe(),
            precision=options.precision,
            flags=[name for name, flag in _FLAGS.items() if config.get_flag(flag)],
            input_name=model.input_name,
            sample_shape=list(inputs[model.input_name].best[1:]),
            profile=dict(zip(("min", "opt", "max"), batch_range(inputs), strict=True)),
            dynamic=any(-1 in shape for shape in model.inputs.values()),
            inputs=[
                {
                    "name": spec.name,
                    "dtype": str(spec.dtype),
                    "min": list(spec.least),
                    "opt": list(spec.best),
                    "max": list(spec.most),
                    "limit": spec.limit,
                }
                for spec in inputs.values()
            ],
            workspace_mb=options.workspace_mb,
            opt_level=config.builder_optimization_level,
            calibration=self.calibration.kept(engine_path),
            timing_cache=str(options.timing_cache) if options.timing_cache else None,
            onnx=str(model.path),
            onnx_sha256=sha256(model.path),
            size_bytes=len(plan),
            layers=len(layers),
            layer_precisions=count_precisions(layers),
            seconds=seconds,
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            warnings=[*(f"{text}; --strict refuses such an engine" for text in surprises), *self.warnings],
            metadata={key: text for key, text in model.metadata().items() if key != ONNX_KEY},
            preprocessing=self.preprocessing.to_dict() if self.preprocessing else None,
            layer_constraints=self.constraints.described(layers) if self.constraints.asked else None,
            ran=ran,
            typed_onnx=str(typed) if typed else None,
        )


def _configure(model: ParsedModel, options: BuildOptions) -> "trt.IBuilderConfig":
    config = model.builder.create_builder_config()
    # a strongly typed network says the types itself
    kinds = [] if options.typed and has_strong_types() else options.precision.upper().split("+")
    asked = [] if options.precision == "fp32" else ["TF32", *kinds]
    for name, flag in _FLAGS.items():
        switch = config.set_flag if name in asked else config.clear_flag
        switch(flag)
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, options.workspace_mb << 20)
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    if options.opt_level is not None:
        config.builder_optimization_level = options.opt_level
    return config


@contextlib.contextmanager
def _timing(config: "trt.IBuilderConfig", path: Path) -> Iterator[None]:
    """Use a timing cache, and write it again after a build that succeeded."""
    data = read_file(path, "timing cache") if path.exists() else b""
    with LOG.collect() as messages:
        cache = config.create_timing_cache(data)
        accepted = cache is not None and config.set_timing_cache(cache, ignore_mismatch=False)
    # TensorRT may only warn and start afresh; then a mistyped path would be overwritten. Of Myelin's part of a cache it
    # complains, on 8.6 with Hopper, even if it has just written it, and then uses all the rest.
    complaints = [*messages.errors, *messages.warnings]
    if not accepted or (complaints and not any("myelin" in text.lower() for text in complaints)):
        reason = messages.text() or "; ".join(messages.warnings)
        raise InputError(f"{path} is no timing cache of this engine and device ({reason}); delete it")
    yield
    atomic_write(path, bytes(config.get_timing_cache().serialize()))
