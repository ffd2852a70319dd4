"""The stages of `trtlab run`, in order: data, export, simplify, engines, checks, latency, throughput, accuracy, report.

Each stage takes its inputs from files in the run's folder, so that any of them can be done again alone.
"""

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.engine.backend import ENGINE, describe
from helpers.tools.files import read_json, sha256, write_json
from trtlab.images.preprocessing_record import encoded, published
from trtlab.report.results import BASELINE
from trtlab.running.run_options import EngineSpec, RunOptions
from trtlab.running.stages import Stage
from trtlab.versions import versions

if TYPE_CHECKING:
    import torch

    from helpers.data.datasets import DataSet
    from trtlab.building.build_options import BuildOptions
    from trtlab.timing.bench import BenchOptions
    from trtlab.timing.runners import Runner, RunnerSpec

Report = Callable[[str], None]
Predict = Callable[[np.ndarray], np.ndarray]

CHECK_IMAGES = 5
EVALUATION_BATCH = 4
PROFILE_EXECUTIONS = 20
OPSET = 17


class Recipe:
    """The stages for one set of options; model and data are loaded once, when a stage first needs them."""

    preparation, note = "Prepare images and weights", ""
    measured = ("checks.json", "latency.json", "throughput.json", "accuracy.json", "profile.json")

    def __init__(self, options: RunOptions) -> None:
        self.options = options
        self.onnx = f"models/{options.model}.onnx"
        self.simplified = f"models/{options.model}_simplified.onnx"
        self.calibration = "calibration/calibration.npy"
        self.cache = f"calibration/{options.model}_calib.cache"
        self.cache_files: tuple[str, ...] = (self.cache, f"{self.cache}.json")
        self.engines = options.engines()
        self.preprocessing = published(options.model, options.data, options.input_size, options.input_size)
        self.preprocessed = self.preprocessing.described()

    def prepare(self) -> None:
        """Render or download images and weights, with their own progress bars; what is there already costs nothing.

        Raises:
            InputError: the model has no weights for this data.
            DataError: images or weights cannot be made or downloaded.
        """
        from helpers.data.models import check_model

        check_model(self.options.model, self.options.data)
        self.data.images("calibration", limit=self.options.calibration_images)
        self.data.images("validation", limit=self.options.accuracy_images)
        if self.options.data != "digits":
            _ = self.model

    def stages(self) -> list[Stage]:
        """Return every stage in order."""
        before = [self._export(), self._simplify(), self._calibration_data()]
        builds = [self._build(spec) for spec in self.engines]
        measured = [self._latency(), self._throughput(), self._accuracy(), self._profile()]
        return [*before, *builds, self._checks(), *measured, self._report()]

    def engine_path(self, spec: EngineSpec) -> str:
        """Return an engine's file inside the run's folder, named as the lab's steps name it."""
        return f"engines/{self.options.model}_{spec.name.replace('-', '_')}.engine"

    @functools.cached_property
    def data(self) -> "DataSet":
        """The data set; rendered or downloaded when it is first used."""
        from helpers.data.datasets import load_dataset

        return load_dataset(self.options.data)

    @functools.cached_property
    def model(self) -> "torch.nn.Module":
        """The PyTorch model on the CPU."""
        from helpers.data.models import load_model

        return load_model(self.options.model, data=self.options.data)

    @functools.cached_property
    def _origin(self) -> dict[str, str]:
        """What every stage depends on: the model with its weights, and the data with its renderer's version."""
        from helpers.data import digits, models

        weights = models.WEIGHTS / f"{self.options.model}.npz"
        ours = self.options.data == "digits"
        return {
            "model": self.options.model,
            "weights": sha256(weights) if ours and weights.is_file() else "torchvision",
            "data": self.options.data,
            "renderer": str(digits.VERSION) if ours else "none",
        }

    def _path(self, relative: str) -> Path:
        return self.options.out / relative

    def _stage(
        self, name: str, title: str, action: Callable[[Report], None], outputs: tuple[str, ...], **parts: Any
    ) -> Stage:
        """Return a stage whose fingerprint holds model and data besides its own options."""
        return Stage(name, title, action, outputs, options={**self._origin, **parts.pop("options", {})}, **parts)

    def _export(self) -> Stage:
        record = f"{self.onnx}.json"

        def action(report: Report) -> None:
            from trtlab.models.export import export_onnx

            report("loading the model")
            model = self.model
            report("tracing, then comparing ONNX Runtime with PyTorch")
            about = {"model": self.options.model, "data": self.options.data, "classes": json.dumps(self.data.classes)}
            about |= encoded(self.preprocessing)
            exported = export_onnx(
                model, self._path(self.onnx), opset=OPSET, input_size=self.options.input_size, metadata=about
            )
            write_json(self._path(record), {**exported.to_dict(), "path": self.onnx})

        options = {"opset": OPSET, "preprocessing": self.preprocessing.to_dict()}
        return self._stage("export", "Export to ONNX", action, (self.onnx, record), options=options)

    def _simplify(self) -> Stage:
        def action(report: Report) -> None:
            import torch

            from helpers.tools.files import atomic_path
            from trtlab.models.export import simplify_onnx, validate_onnx
            from trtlab.models.model_inputs import image_input

            with atomic_path(self._path(self.simplified)) as temporary, torch.no_grad():
                report("folding constants")
                simplify_onnx(self._path(self.onnx), temporary)
                report("comparing ONNX Runtime with PyTorch")
                validate_onnx(temporary, self.model, [image_input("input", 1, True, 3, self.options.input_size)])

        return self._stage("simplify", "Simplify the ONNX graph", action, (self.simplified,), inputs=(self.onnx,))

    def _calibration_data(self) -> Stage:
        number = self.options.calibration_images

        def action(report: Report) -> None:
            from trtlab.building.calibration_data import write_calibration_tensor

            images = [path for path, _ in self.data.images("calibration", limit=number)]
            # closed at once when interrupted, so that no half-written tensor outlives the stage
            how = {"preprocessing": self.preprocessing}
            with closing(write_calibration_tensor(images, self._path(self.calibration), **how)) as written:
                for done in written:
                    report(f"{done} of {len(images)} images")

        options = {"images": number, "preprocessing": self.preprocessing.to_dict()}
        title, outputs = f"Prepare {number} calibration images", (self.calibration, f"{self.calibration}.json")
        return self._stage("calibration-data", title, action, outputs, options=options)

    def _build(self, spec: EngineSpec) -> Stage:
        path = self.engine_path(spec)
        int8 = spec.precision == "int8"

        def action(report: Report) -> None:
            from trtlab.building.build import build_engine

            build_engine(self._path(self.simplified), self._path(path), self._build_options(spec), report)

        inputs = (self.simplified, self.calibration) if int8 else (self.simplified,)
        outputs = (path, f"{path}.json", *(self.cache_files if int8 else ()))
        title = f"Build {spec.name.upper()}" + (", calibrated" if int8 else "")
        options = {"precision": spec.precision, "profile": list(spec.profile)}
        return self._stage(f"build-{spec.name}", title, action, outputs, inputs=inputs, options=options)

    def _build_options(self, spec: EngineSpec) -> "BuildOptions":
        from trtlab.building.build_options import BuildOptions

        least, best, most = spec.profile
        calibration = {"calib_npy": self._path(self.calibration), "calib_cache": self._path(self.cache)}
        given = calibration if spec.precision == "int8" else {}
        return BuildOptions(spec.precision, min_batch=least, opt_batch=best, max_batch=most, **given)

    def _engine_files(self) -> tuple[str, ...]:
        return tuple(self.engine_path(spec) for spec in self.engines)

    def _checks(self) -> Stage:
        def action(report: Report) -> None:
            from trtlab.running.checks import check_engine

            paths = [path for path, _ in self.data.images("validation", limit=CHECK_IMAGES)]
            images = self.preprocessing.load_batch(paths)
            reference = _pytorch_predictor(self.model, "cpu")(images)
            rows = []
            for spec in self.engines:
                report(spec.name)
                path = self._path(self.engine_path(spec))
                rows += check_engine(spec.name, path, spec.precision, images, reference)
            self._write("checks.json", [asdict(row) for row in rows])

        inputs = (self.onnx, *self._engine_files())
        return self._stage("checks", "Check outputs and profiles", action, ("checks.json",), inputs=inputs)

    def _latency(self) -> Stage:
        options = self.options

        def action(report: Report) -> None:
            from trtlab.timing.bench import bench
            from trtlab.timing.memory_probe import peak_memory

            def memory(runner: "Runner", batches: Any) -> dict[int, int]:
                report(f"peak memory of {runner.name}")
                return peak_memory(runner, batches)

            def progress(what: str, done: int, planned: int) -> None:
                report(f"{what}, {done / max(planned, 1):.0%} of this batch size")

            with self._runners(report) as runners:
                results = bench(runners, self._bench_options(), memory=memory, progress=progress)
            self._write("latency.json", [result.row() for result in results])

        settings = {
            "batches": list(options.batches),
            "seconds": options.bench_seconds,
            "calls": options.bench_calls,
            "limit": options.bench_limit,
        }
        inputs = (self.onnx, *self._engine_files())
        return self._stage(
            "latency", "Measure latency and memory", action, ("latency.json",), inputs=inputs, options=settings
        )

    def _bench_options(self) -> "BenchOptions":
        from trtlab.timing.bench import BenchOptions

        options = self.options
        return BenchOptions(
            options.batches, options.bench_calls, duration_s=options.bench_seconds, limit_s=options.bench_limit
        )

    def _throughput(self) -> Stage:
        options = self.options

        def action(report: Report) -> None:
            from trtlab.running.remeasure import measure_again
            from trtlab.timing.throughput import measure_throughput

            latencies = read_json(self._path("latency.json"), "latency record")["rows"]
            how: Any = {"seconds": options.throughput_seconds, "progress": report}
            with self._runners(report) as runners:
                rates = measure_throughput(runners, options.batches, **how)
                rows = measure_again(runners, latencies, rates, self._bench_options(), **how)
            self._write("throughput.json", rows)

        settings = {"batches": list(options.batches), "seconds": options.throughput_seconds}
        inputs = (self.onnx, *self._engine_files(), "latency.json")
        title = "Measure throughput"
        return self._stage("throughput", title, action, ("throughput.json",), inputs=inputs, options=settings)

    def _accuracy(self) -> Stage:
        number, evaluated, limit = self.options.accuracy_images, self._evaluated(), self.options.accuracy_seconds

        def action(report: Report) -> None:
            from trtlab.engines.inference import InferenceEngine
            from trtlab.quality.accuracy import evaluate_all
            from trtlab.quality.evaluation import accuracy_rows

            with ExitStack() as stack:
                predictors = dict([self._baseline()])
                for spec in evaluated:
                    engine = stack.enter_context(InferenceEngine(self._path(self.engine_path(spec))))
                    predictors[spec.name] = engine.predict
                scores = evaluate_all(
                    predictors, self.data, number, EVALUATION_BATCH, self.preprocessing,
                    progress=lambda done: report(f"{done} of {number} images on every engine"), limit_s=limit,
                )  # fmt: skip
            self._write("accuracy.json", [asdict(row) for row in accuracy_rows(scores)])

        inputs = (self.onnx, *(self.engine_path(spec) for spec in evaluated))
        title = f"Evaluate accuracy on {'up to ' if limit else ''}{number:,} images"
        options = {"images": number, "seconds": limit}
        return self._stage("accuracy", title, action, ("accuracy.json",), inputs=inputs, options=options)

    def _baseline(self) -> tuple[str, Predict]:
        """Return what the engines' accuracy is compared with, by its row's name."""
        return BASELINE, _pytorch_predictor(self.model, "cuda" if ENGINE == "tensorrt" else "cpu")

    def _evaluated(self) -> list[EngineSpec]:
        """Return the engines to evaluate: the dynamic one computes as FP16 does, and a quick run leaves out TF32."""
        left_out = {"dynamic-fp16", "tf32"} if self.options.quick else {"dynamic-fp16"}
        return [spec for spec in self.engines if spec.name not in left_out]

    def _profile(self) -> Stage:
        """Profile INT8, the engine with the least arithmetic left to save, at the largest batch."""
        spec, batch = self._profiled(), max(self.options.batches)

        def action(report: Report) -> None:
            from trtlab.profiling.profile import profile_engine

            report("timing each layer and this machine's roofline")
            found = profile_engine(self._path(self.engine_path(spec)), batch, PROFILE_EXECUTIONS)
            about = {"name": spec.name, "batch": batch, "executions": found.iterations}
            rows = [{**asdict(layer), "layer": layer.name, **about} for layer in found.layers]
            self._write("profile.json", rows)

        inputs = (self.simplified, self.engine_path(spec))
        title = f"Profile the layers of {spec.name.upper()}"
        return self._stage("profile", title, action, ("profile.json",), inputs=inputs, options={"batch": batch})

    def _profiled(self) -> EngineSpec:
        return self.engines[3]

    def _report(self) -> Stage:
        def action(report: Report) -> None:
            from trtlab.report.pages import make_report

            report("drawing charts")
            make_report(self.options.out)

        outputs = ("report.html", "report.md", "summary.json")
        return self._stage("report", "Write the report", action, outputs, inputs=self.measured)

    @contextmanager
    def _runners(self, report: Report) -> Iterator[list["Runner"]]:
        """Load everything that is timed: the baselines first, then the engines."""
        from trtlab.timing.runners import load_runner

        with ExitStack() as stack:
            runners = []
            for spec in self._runner_specs():
                report(f"loading {spec.name}")
                runners.append(load_runner(spec))
                stack.callback(runners[-1].close)
            yield runners

    def _runner_specs(self) -> list["RunnerSpec"]:
        from trtlab.timing.runners import RunnerSpec

        shape = (3, self.options.input_size, self.options.input_size)
        return [
            RunnerSpec("pytorch", self.options.model, BASELINE, data=self.options.data, sample_shape=shape),
            RunnerSpec("onnxruntime", str(self._path(self.onnx)), "onnxruntime-fp32"),
            *self._engine_specs(),
        ]

    def _engine_specs(self) -> list["RunnerSpec"]:
        from trtlab.timing.runners import RunnerSpec

        return [RunnerSpec("engine", str(self._path(self.engine_path(spec))), spec.name) for spec in self.engines]

    def _write(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Write a stage's record with the engine, device, model and data it was measured with."""
        about = {"engine": describe(), "model": self.options.model, "data": self.options.data}
        settings = {**self.options.described(), "preprocessing": self.preprocessed}
        made = {"settings": settings, "versions": versions(), "measured": date.today().isoformat()}
        write_json(self._path(name), {**about, **made, "rows": rows})


def _pytorch_predictor(model: "torch.nn.Module", device: str) -> Predict:
    """Return a function from images [N, 3, S, S] to scores [N, C], both float32 NumPy arrays."""
    import torch

    model = model.to(device)

    def predict(images: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return model(torch.from_numpy(images).to(device)).float().cpu().numpy()

    return predict
