"""The stages of `trtlab run`, in order: model, data, engines, checks, latency, throughput, accuracy, profile, report.

Each stage takes its inputs from files in the run's folder, so that any of them can be done again alone. A model that
the lab has is exported; somebody else's is taken as it is, and without labels it has no accuracy.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
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
from trtlab.models.model_inputs import image_input
from trtlab.profiling.profile import profile_engine
from trtlab.quality.accuracy import evaluate_all
from trtlab.quality.evaluation import accuracy_rows
from trtlab.report.pages import make_report
from trtlab.running.checks import against_onnx_runtime, check_engine, drifts
from trtlab.running.lab_model import OPSET, LabModel, Report
from trtlab.running.onnx_model import SAMPLES, OnnxModel
from trtlab.running.remeasure import measure_again
from trtlab.running.run_options import EngineSpec, RunOptions
from trtlab.running.stages import Stage
from trtlab.timing import memory_probe
from trtlab.timing.bench import bench, measure_throughput
from trtlab.timing.options import BenchOptions
from trtlab.timing.runners import Runner, RunnerSpec, load_if_it_runs, load_runner
from trtlab.versions import versions

CHECK_IMAGES = 5
EVALUATION_BATCH = 4
PROFILE_EXECUTIONS = 20
OPTIONAL = ("pytorch-fp16", "torch-compile")
"""Baselines that not every machine can run."""


class Recipe:
    """The stages for one set of options; `subject` is the model with its data."""

    def __init__(self, options: RunOptions) -> None:
        """Look at the model, so that a wrong one ends before anything is written.

        Raises:
            InputError: a model, data or options that cannot be.
        """
        self.subject: LabModel | OnnxModel = OnnxModel(options) if options.onnx else LabModel(options)
        model, own = self.options.model, options.onnx is not None
        self.onnx = f"models/{model}.onnx"
        self.simplified = self.onnx if own else f"models/{model}_simplified.onnx"
        self.calibration = f"calibration/{'calibration.npy' if self.subject.labelled else 'samples.npz'}"
        self.cache = f"calibration/{model}_calib.cache"
        self.engines = [spec for spec in self.options.engines() if self.subject.is_built(spec)]

    @property
    def options(self) -> RunOptions:
        """The options as the model and its data allow them."""
        return self.subject.options

    def stages(self) -> list[Stage]:
        """Return every stage in order."""
        options, own = self.options, isinstance(self.subject, OnnxModel)
        timed = (self.onnx, *(self.engine_path(spec) for spec in self.engines))
        checks = self._drift if own else self._checks
        checked = "Compare outputs (drift)" if own else "Check outputs and profiles"
        seconds, most = options.accuracy_seconds, options.accuracy_images
        stages = [
            *([self._take()] if own else [self._export(), self._simplify()]),
            self._calibration_images() if self.subject.labelled else self._samples(),
            *(self._build(spec) for spec in self.engines),
            self._measured("checks", checked, checks, (*timed, self.calibration)),
            self._measured(
                "latency", "Measure latency and memory", self._latency, timed, batches=list(options.batches),
                seconds=options.bench_seconds, calls=options.bench_calls, limit=options.bench_limit,
            ),
            self._measured(
                "throughput", "Measure throughput", self._throughput, (*timed, "latency.json"),
                batches=list(options.batches), seconds=options.throughput_seconds,
            ),
            self._measured(
                "accuracy", f"Evaluate accuracy on {'up to ' if seconds else ''}{most:,} images", self._accuracy, timed,
                images=most, seconds=seconds,
            ),
            self._measured(
                "profile", f"Profile the layers of {self._profiled.name.upper()}", self._profile,
                (self.simplified, self.engine_path(self._profiled)), batch=max(options.batches),
            ),
        ]  # fmt: skip
        stages = [stage for stage in stages if stage.name != "accuracy" or self.subject.labelled]
        records = [output for stage in stages for output in stage.outputs if "/" not in output]
        written = ("report.html", "report.md", "summary.json", "measurements.csv")
        return [*stages, self._stage("report", "Write the report", self._report, written, tuple(records))]

    def _stage(
        self,
        name: str,
        title: str,
        action: Callable[[Report], None],
        outputs: tuple[str, ...],
        inputs: tuple[str, ...] = (),
        **options: Any,
    ) -> Stage:
        """Return a stage whose fingerprint holds model and data besides its own options."""
        return Stage(name, title, action, outputs, inputs, {**self.subject.origin, **options})

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
            rows = action(report)
            about = {"engine": describe(), "model": self.options.model, "data": self.options.data}
            settings = {**self.options.described(), "preprocessing": self.subject.preprocessed}
            settings |= {"baselines": "; ".join(self._left_out)} if self._left_out else {}
            made = {"settings": settings, "versions": versions(), "measured": date.today().isoformat()}
            write_json(self._path(f"{name}.json"), {**about, **made, "rows": rows})

        return self._stage(name, title, measure, (f"{name}.json",), inputs, **options)

    def engine_path(self, spec: EngineSpec) -> str:
        """Return an engine's file inside the run's folder, named as the lab's steps name it."""
        return f"engines/{self.options.model}_{spec.name.replace('-', '_')}.engine"

    @property
    def _profiled(self) -> EngineSpec:
        """INT8, the engine with the least arithmetic left to save, where it was built."""
        return next((spec for spec in self.engines if spec.name == "int8"), self.engines[-1])

    def _path(self, relative: str) -> Path:
        return self.options.out / relative

    def _export(self) -> Stage:
        record = f"{self.onnx}.json"
        options = {"opset": OPSET, "preprocessing": self.subject.preprocessing.to_dict()}

        def action(report: Report) -> None:
            self.subject.export(self._path(self.onnx), self._path(record), report)

        return self._stage("export", "Export to ONNX", action, (self.onnx, record), **options)

    def _simplify(self) -> Stage:
        def action(report: Report) -> None:
            with atomic_path(self._path(self.simplified)) as temporary, torch.no_grad():
                report("folding constants")
                simplify_onnx(self._path(self.onnx), temporary)
                report("comparing ONNX Runtime with PyTorch")
                image = image_input("input", 1, True, 3, self.options.input_size)
                validate_onnx(temporary, self.subject.model, [image])

        return self._stage("simplify", "Simplify the ONNX graph", action, (self.simplified,), (self.onnx,))

    def _take(self) -> Stage:
        def action(report: Report) -> None:
            self.subject.take(self._path(self.onnx))

        return self._stage("take", "Take the ONNX model", action, (self.onnx,))

    def _calibration_images(self) -> Stage:
        number = self.options.calibration_images

        def action(report: Report) -> None:
            images = [path for path, _ in self.subject.data.images("calibration", limit=number)]
            # closed at once when interrupted, so that no half-written tensor outlives the stage
            how = {"preprocessing": self.subject.preprocessing}
            with closing(write_calibration_tensor(images, self._path(self.calibration), **how)) as written:
                for done in written:
                    report(f"{done} of {len(images)} images")

        options = {"images": number, "preprocessing": self.subject.preprocessing.to_dict()}
        title, outputs = f"Prepare {number} calibration images", (self.calibration, f"{self.calibration}.json")
        return self._stage("calibration-data", title, action, outputs, **options)

    def _samples(self) -> Stage:
        given, described = self.options.samples, self.subject.preprocessing is not None

        def action(report: Report) -> None:
            self.subject.write_samples(self._path(self.calibration))

        title = f"Take the samples of {Path(given).name}" if given else f"Draw {SAMPLES} samples of noise"
        outputs = (self.calibration, *([f"{self.calibration}.json"] if described else []))
        return self._stage("samples", title, action, outputs)

    def _build(self, spec: EngineSpec) -> Stage:
        path, int8 = self.engine_path(spec), spec.precision == "int8"
        caches = [self.cache, *([f"{self.cache}.json"] if self.subject.labelled else [])]

        def action(report: Report) -> None:
            build_engine(self._path(self.simplified), self._path(path), self._build_options(spec), report)

        title = f"Build {spec.name.upper()}" + (", calibrated" if int8 else "")
        outputs, inputs = (path, f"{path}.json", *(caches if int8 else [])), [self.calibration] if int8 else []
        options = {"precision": spec.precision, "profile": list(spec.profile)}
        return self._stage(f"build-{spec.name}", title, action, outputs, (self.simplified, *inputs), **options)

    def _build_options(self, spec: EngineSpec) -> BuildOptions:
        least, best, most = spec.profile
        calibration = {"calib_npy": self._path(self.calibration), "calib_cache": self._path(self.cache)}
        given = calibration if spec.precision == "int8" else {}
        if isinstance(self.subject, OnnxModel) and (self.subject.fixed or self.options.shapes):
            return BuildOptions(spec.precision, shapes=self.options.shapes, **given)
        return BuildOptions(spec.precision, min_batch=least, opt_batch=best, max_batch=most, **given)

    def _checks(self, report: Report) -> list[dict[str, Any]]:
        paths = [path for path, _ in self.subject.data.images("validation", limit=CHECK_IMAGES)]
        images = self.subject.preprocessing.load_batch(paths)
        reference = self.subject.predictor("cpu")(images)
        rows = []
        for spec in self.engines:
            report(spec.name)
            path = self._path(self.engine_path(spec))
            rows += check_engine(spec.name, path, spec.precision, images, reference)
        return rows

    def _drift(self, report: Report) -> list[dict[str, Any]]:
        samples, outputs = self.subject.samples(self._path(self.calibration)), {}
        for spec in self.engines:
            report(spec.name)
            with InferenceEngine(self._path(self.engine_path(spec))) as engine:
                outputs[spec.name] = engine.predict_all(samples)
        expected = self.subject.outputs(samples, onnx_session(self._path(self.onnx)))
        first, *others = outputs
        rows = [against_onnx_runtime(first, expected, outputs[first])]
        rows += [row for name in others for row in drifts(name, outputs[first], outputs[name])]
        return rows

    def _latency(self, report: Report) -> list[dict[str, Any]]:
        def memory(runner: Runner, batches: Any) -> dict[int, int]:
            report(f"peak memory of {runner.name}")
            return memory_probe.peak_memory(runner, batches)

        def progress(what: str, done: int, planned: int) -> None:
            report(f"{what}, {done / max(planned, 1):.0%} of this batch size")

        with self._runners(report) as runners:
            return [each.row() for each in bench(runners, self._bench_options(), memory=memory, progress=progress)]

    def _bench_options(self) -> BenchOptions:
        options = self.options
        times = {"duration_s": options.bench_seconds, "limit_s": options.bench_limit}
        return BenchOptions(options.batches, options.bench_calls, **times)

    def _throughput(self, report: Report) -> list[dict[str, Any]]:
        latencies = read_json(self._path("latency.json"), "latency record")["rows"]
        how: Any = {"seconds": self.options.throughput_seconds, "progress": report}
        with self._runners(report) as runners:
            rates = measure_throughput(runners, self.options.batches, **how)
            return measure_again(runners, latencies, rates, self._bench_options(), **how)

    def _accuracy(self, report: Report) -> list[dict[str, Any]]:
        """Evaluate the engines; the dynamic one computes as FP16 does, and a quick run leaves out TF32."""
        left_out = {"dynamic-fp16", "tf32"} if self.options.quick else {"dynamic-fp16"}
        number = self.options.accuracy_images
        with ExitStack() as stack:
            predictors = dict([self.subject.baseline(self._path(self.onnx))])
            for spec in self.engines:
                if spec.name not in left_out:
                    engine = stack.enter_context(InferenceEngine(self._path(self.engine_path(spec))))
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
        spec, batch = self._profiled, max(self.options.batches)
        found = profile_engine(self._path(self.engine_path(spec)), batch, PROFILE_EXECUTIONS)
        about = {"name": spec.name, "batch": batch, "executions": found.iterations}
        return [{**asdict(layer), "layer": layer.name, **about} for layer in found.layers]

    def _report(self, report: Report) -> None:
        report("drawing charts")
        make_report(self.options.out)

    @contextmanager
    def _runners(self, report: Report) -> Iterator[list[Runner]]:
        """Load everything that is timed: the baselines first, then the engines."""
        engines = [RunnerSpec("engine", str(self._path(self.engine_path(spec))), spec.name) for spec in self.engines]
        with ExitStack() as stack:
            runners = []
            for spec in [*self.subject.runners(self._path(self.onnx)), *engines]:
                report(f"loading {spec.name or spec.kind}")
                runner = load_if_it_runs(spec, self._left_out.append) if spec.kind in OPTIONAL else load_runner(spec)
                if runner is not None:
                    runners.append(runner)
                    stack.callback(runner.close)
            yield runners
