"""The stages of `trtlab run`, in order: model, data, engines, checks, latency, throughput, accuracy, profile, report.

Each stage takes its inputs from files in the run's folder, so that any of them can be done again alone. A model that
the lab has is exported; somebody else's is taken as it is, and without labels it has no accuracy.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from typing import Any

import torch

from helpers.engine.backend import describe
from helpers.tools.files import atomic_path, read_json, write_json
from helpers.tools.outputs import onnx_session
from trtlab.building.build import build_engine
from trtlab.building.build_options import BuildOptions
from trtlab.building.calibration_data import write_calibration_tensor
from trtlab.engines.inference import InferenceEngine
from trtlab.models.export import simplify_onnx, validate_onnx
from trtlab.models.own_models import image_input
from trtlab.profiling.profile import profile_engine
from trtlab.quality.classification import accuracy_rows, evaluate_all
from trtlab.report.pages import make_report
from trtlab.running.checks import against_onnx_runtime, check_engine, drifts
from trtlab.running.run_options import EngineSpec, RunOptions
from trtlab.running.stages import Report, Stage
from trtlab.running.subjects import OPSET, SAMPLES, LabModel, OnnxModel
from trtlab.stats import times_apart
from trtlab.timing import memory_probe
from trtlab.timing.bench import Throughput, bench, measure_throughput
from trtlab.timing.options import BenchOptions
from trtlab.timing.runners import Runner, RunnerSpec, load_if_it_runs, load_runner
from trtlab.versions import versions

CHECK_IMAGES = 5
EVALUATION_BATCH = 4
PROFILE_EXECUTIONS = 20


class Recipe:
    """The stages for one set of options; `subject` is the model with its data."""

    def __init__(self, options: RunOptions) -> None:
        """Look at the model, so that a wrong one ends before anything is written.

        Raises:
            InputError: a model, data or options that cannot be.
        """
        self.own = options.onnx is not None
        self.subject: LabModel | OnnxModel = OnnxModel(options) if self.own else LabModel(options)
        chosen, model = self.options, self.options.model
        self.onnx = f"models/{model}.onnx"
        self.simplified = self.onnx if self.own else f"models/{model}_simplified.onnx"
        self.calibration = f"calibration/{'calibration.npy' if self.subject.labelled else 'samples.npz'}"
        self.cache = f"calibration/{model}_calib.cache"
        times = {"duration_s": chosen.bench_seconds, "limit_s": chosen.bench_limit}
        self.timing = BenchOptions(chosen.batches, chosen.bench_calls, **times)
        built = {"dynamic-fp16": not self.subject.one_profile, "int8": self.subject.calibrated}
        self.engines = [spec for spec in chosen.engines() if built.get(spec.name, True)]
        # INT8 has the least arithmetic left to save
        self.profiled = next((spec for spec in self.engines if spec.name == "int8"), self.engines[-1])

    @property
    def options(self) -> RunOptions:
        """The options as the model and its data allow them."""
        return self.subject.options

    def stages(self) -> list[Stage]:
        """Return every stage in order; the fingerprint of each holds model and data besides its own options."""
        stages = [*self._model(), self._data(), *map(self._build, self.engines), *self._measurements()]
        records = tuple(output for stage in stages for output in stage.outputs if "/" not in output)
        written = ("report.html", "report.md", "summary.json", "measurements.csv")
        stages.append(
            Stage("report", "Write the report", lambda report: make_report(self.options.out), written, records)
        )
        return [replace(stage, options={**self.subject.origin, **stage.options}) for stage in stages]

    def _model(self) -> list[Stage]:
        onnx, subject = self._path(self.onnx), self.subject
        if self.own:
            return [Stage("take", "Take the ONNX model", lambda report: subject.take(onnx), (self.onnx,))]
        options = {"opset": OPSET, "preprocessing": subject.preprocessing.to_dict()}
        exported = (self.onnx, f"{self.onnx}.json")
        return [
            Stage("export", "Export to ONNX", lambda report: subject.export(onnx, report), exported, options=options),
            Stage("simplify", "Simplify the ONNX graph", self._simplify, (self.simplified,), (self.onnx,)),
        ]

    def _data(self) -> Stage:
        """Return the stage that makes what INT8 is calibrated with."""
        given, preprocessing = self.options.samples, self.subject.preprocessing
        outputs = (self.calibration, *([f"{self.calibration}.json"] if preprocessing else []))
        if self.subject.labelled:
            options = {"images": self.options.calibration_images, "preprocessing": preprocessing.to_dict()}
            title = f"Prepare {options['images']} calibration images"
            return Stage("calibration-data", title, self._images, outputs, options=options)
        title = f"Take the samples of {given.name}" if given else f"Draw {SAMPLES} samples of noise"
        return Stage("samples", title, lambda report: self.subject.write_samples(self._path(outputs[0])), outputs)

    def _build(self, spec: EngineSpec) -> Stage:
        engine, int8 = self._engine(spec), spec.precision == "int8"
        caches = [self.cache, *([f"{self.cache}.json"] if self.subject.labelled else [])]
        outputs, inputs = (engine, f"{engine}.json", *(caches if int8 else [])), [self.calibration] if int8 else []
        files = (self._path(self.simplified), self._path(engine))
        return Stage(
            name=f"build-{spec.name}",
            title=f"Build {spec.name.upper()}" + (", calibrated" if int8 else ""),
            action=lambda report: build_engine(*files, self._build_options(spec), report),
            outputs=outputs,
            inputs=(self.simplified, *inputs),
            options={"precision": spec.precision, "profile": list(spec.profile)},
        )

    def _build_options(self, spec: EngineSpec) -> BuildOptions:
        batches = zip(("min_batch", "opt_batch", "max_batch"), spec.profile, strict=True)
        profile = {"shapes": self.options.shapes} if self.subject.one_profile else dict(batches)
        calibration = {"calib_npy": self._path(self.calibration), "calib_cache": self._path(self.cache)}
        return BuildOptions(spec.precision, **profile, **(calibration if spec.precision == "int8" else {}))

    def _measurements(self) -> Iterator[Stage]:
        options, timed = self.options, (self.onnx, *map(self._engine, self.engines))
        seconds, most = options.accuracy_seconds, options.accuracy_images
        checks = ("Compare outputs (drift)", self._drift) if self.own else ("Check outputs and profiles", self._checks)
        yield self._measured("checks", *checks, (*timed, self.calibration))
        yield self._measured(
            "latency", "Measure latency and memory", self._latency, timed, batches=list(options.batches),
            seconds=options.bench_seconds, calls=options.bench_calls, limit=options.bench_limit,
        )  # fmt: skip
        yield self._measured(
            "throughput", "Measure throughput", self._throughput, (*timed, "latency.json"),
            batches=list(options.batches), seconds=options.throughput_seconds,
        )  # fmt: skip
        if self.subject.labelled:
            title = f"Evaluate accuracy on {'up to ' if seconds else ''}{most:,} images"
            yield self._measured("accuracy", title, self._accuracy, timed, images=most, seconds=seconds)
        yield self._measured(
            "profile", f"Profile the layers of {self.profiled.name.upper()}", self._profile,
            (self.simplified, self._engine(self.profiled)), batch=max(options.batches),
        )  # fmt: skip

    def _measured(
        self,
        name: str,
        title: str,
        action: Callable[[Report], list[dict[str, Any]]],
        inputs: tuple[str, ...],
        **options: Any,
    ) -> Stage:
        """Return a stage that writes the rows of its action, with what they were measured on and with."""

        def measure(report: Report) -> None:
            self._left_out: list[str] = []
            rows, preprocessing = action(report), self.subject.preprocessing
            settings = {
                **self.options.described(),
                "preprocessing": preprocessing.described() if preprocessing else "none: samples as they are",
                **({"baselines": "; ".join(self._left_out)} if self._left_out else {}),
            }
            about = {"engine": describe(), "model": self.options.model, "data": self.options.data}
            made = {"settings": settings, "versions": versions(), "measured": date.today().isoformat()}
            write_json(self._path(f"{name}.json"), {**about, **made, "rows": rows})

        return Stage(name, title, measure, (f"{name}.json",), inputs, options)

    def _engine(self, spec: EngineSpec) -> str:
        """Return an engine's file inside the run's folder, named as the lab's steps name it."""
        return f"engines/{self.options.model}_{spec.name.replace('-', '_')}.engine"

    def _path(self, relative: str) -> Path:
        return self.options.out / relative

    def _simplify(self, report: Report) -> None:
        with atomic_path(self._path(self.simplified)) as temporary, torch.no_grad():
            report("folding constants")
            simplify_onnx(self._path(self.onnx), temporary)
            report("comparing ONNX Runtime with PyTorch")
            image = image_input("input", 1, True, 3, self.options.input_size)
            validate_onnx(temporary, self.subject.model, [image])

    def _images(self, report: Report) -> None:
        images = [path for path, _ in self.subject.data.images("calibration", limit=self.options.calibration_images)]
        # closed at once when interrupted, so that no half-written tensor outlives the stage
        how = {"preprocessing": self.subject.preprocessing}
        with closing(write_calibration_tensor(images, self._path(self.calibration), **how)) as written:
            for done in written:
                report(f"{done} of {len(images)} images")

    def _checks(self, report: Report) -> list[dict[str, Any]]:
        paths = [path for path, _ in self.subject.data.images("validation", limit=CHECK_IMAGES)]
        images = self.subject.preprocessing.load_batch(paths)
        reference = self.subject.predictor("cpu")(images)
        rows = []
        for spec in self.engines:
            report(spec.name)
            rows += check_engine(spec.name, self._path(self._engine(spec)), spec.precision, images, reference)
        return rows

    def _drift(self, report: Report) -> list[dict[str, Any]]:
        samples, outputs = self.subject.samples(self._path(self.calibration)), {}
        for spec in self.engines:
            report(spec.name)
            with InferenceEngine(self._path(self._engine(spec))) as engine:
                outputs[spec.name] = engine.predict_all(samples)
        expected = self.subject.outputs(samples, onnx_session(self._path(self.onnx)))
        first, *others = outputs
        rows = [row for name in others for row in drifts(name, outputs[first], outputs[name])]
        return [against_onnx_runtime(first, expected, outputs[first]), *rows]

    def _latency(self, report: Report) -> list[dict[str, Any]]:
        def memory(runner: Runner, batches: Any) -> dict[int, int]:
            report(f"peak memory of {runner.name}")
            return memory_probe.peak_memory(runner, batches)

        with self._runners(report) as runners:
            results = bench(
                runners,
                self.timing,
                memory=memory,
                progress=lambda what, done, planned: report(f"{what}, {done / max(planned, 1):.0%} of this batch size"),
            )
        return [result.row() for result in results]

    def _throughput(self, report: Report) -> list[dict[str, Any]]:
        latencies = read_json(self._path("latency.json"), "latency record")["rows"]
        how: Any = {"seconds": self.options.throughput_seconds, "progress": report}
        with self._runners(report) as runners:
            rates = measure_throughput(runners, self.options.batches, **how)
            return measure_again(runners, latencies, rates, self.timing, **how)

    def _accuracy(self, report: Report) -> list[dict[str, Any]]:
        """Evaluate the engines; the dynamic one computes as FP16 does, and a quick run leaves out TF32."""
        left_out = {"dynamic-fp16", "tf32"} if self.options.quick else {"dynamic-fp16"}
        number = self.options.accuracy_images
        with ExitStack() as stack:
            predictors = dict([self.subject.baseline(self._path(self.onnx))])
            for spec in self.engines:
                if spec.name not in left_out:
                    engine = stack.enter_context(InferenceEngine(self._path(self._engine(spec))))
                    predictors[spec.name] = engine.predict
            scores = evaluate_all(
                predictors, self.subject.data, number, EVALUATION_BATCH, self.subject.preprocessing,
                progress=lambda done: report(f"{done} of {number} images on every engine"),
                limit_s=self.options.accuracy_seconds,
            )  # fmt: skip
        return accuracy_rows(scores)

    def _profile(self, report: Report) -> list[dict[str, Any]]:
        """Profile one engine at the largest batch."""
        report("timing each layer and this machine's roofline")
        spec, batch = self.profiled, max(self.options.batches)
        found = profile_engine(self._path(self._engine(spec)), batch, PROFILE_EXECUTIONS)
        about = {"name": spec.name, "batch": batch, "executions": found.iterations}
        return [{**asdict(layer), "layer": layer.name, **about} for layer in found.layers]

    @contextmanager
    def _runners(self, report: Report) -> Iterator[list[Runner]]:
        """Load everything that is timed: the baselines first, without those that not every machine can run."""
        optional = ("pytorch-fp16", "torch-compile")
        engines = [RunnerSpec("engine", str(self._path(self._engine(spec))), spec.name) for spec in self.engines]
        with ExitStack() as stack:
            runners = []
            for spec in [*self.subject.runners(self._path(self.onnx)), *engines]:
                report(f"loading {spec.name or spec.kind}")
                runner = load_if_it_runs(spec, self._left_out.append) if spec.kind in optional else load_runner(spec)
                if runner is not None:
                    runners.append(runner)
                    stack.callback(runner.close)
            yield runners


def measure_again(
    runners: Sequence[Runner],
    latencies: Sequence[Mapping[str, Any]],
    rates: Sequence[Throughput],
    options: BenchOptions,
    *,
    seconds: float,
    progress: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
    """Return the rows of throughput.json; what contradicts its latency is measured again, and has new times as well.

    Which of the two was disturbed cannot be told from the numbers, so both are taken again, once. What contradicts
    itself after that is marked in the report.

    Args:
        latencies: the rows of latency.json.
        options: how latency was measured; its batch sizes are not used.
        seconds: how long throughput was measured, of each runner at each batch size.
    """
    medians = {(row["name"], row["batch"]): row["median_ms"] for row in latencies}
    rows = {(rate.name, rate.batch): asdict(rate) for rate in rates}
    wrong = [
        place
        for place, rate in rows.items()
        if place in medians and times_apart(place[1], medians[place], rate["images_per_s"])
    ]
    for batch in sorted({batch for _, batch in wrong}):
        again = [runner for runner in runners if (runner.name, batch) in wrong]
        progress(f"batch {batch}: {', '.join(runner.name for runner in again)} again, times contradict throughput")
        timed = bench(again, replace(options, batch_sizes=(batch,)))
        counted = measure_throughput(again, [batch], seconds=seconds, progress=progress)
        for result, rate in zip(timed, counted, strict=True):
            # size and memory stay as they were measured
            times = {key: value for key, value in result.row().items() if key.endswith("_ms") or key == "iterations"}
            rows[rate.name, batch] = {**times, **asdict(rate)}
    return list(rows.values())
