"""The stages of `trtlab run --onnx`: somebody else's model, of any inputs, whose outputs have no labels.

Accuracy cannot be measured then. In its place stands the drift of every engine against FP32 on the same samples, as
rows of the checks: FP32 itself is held to ONNX Runtime's outputs.
"""

import dataclasses
import functools
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.tools.files import atomic_path, sha256
from trtcpu.errors import InputError
from trtlab.building.build_options import BuildOptions
from trtlab.engines.tensors import InputSpec, batch_range, batched, count, examples, taken
from trtlab.images.preprocessing_record import NOTHING, of_build, read_beside, write_beside
from trtlab.models.class_names import ClassNames, number_of_classes, read_classes
from trtlab.report.results import ONNX_RUNTIME, CheckRow
from trtlab.running.recipe import Recipe
from trtlab.running.run_options import EngineSpec, RunOptions
from trtlab.running.stages import Stage

if TYPE_CHECKING:
    import onnxruntime

    from trtlab.engines.network import ParsedModel
    from trtlab.quality.compare import Drift
    from trtlab.timing.runners import RunnerSpec

Report = Callable[[str], None]

SAMPLES = 64
NO_LABELS = "no labels: drift against FP32 in place of accuracy"


class ForeignRecipe(Recipe):
    """The stages for one ONNX file. INT8 is built only where there are samples to calibrate it with."""

    preparation = ""
    measured = ("checks.json", "latency.json", "throughput.json", "profile.json")

    def __init__(self, options: RunOptions) -> None:
        """Parse the model, so that a wrong one ends before anything is written.

        Raises:
            InputError: no ONNX model, shapes or samples that do not fit it, or an option that contradicts it.
        """
        if options.onnx is None:
            raise InputError("no model was given; name one with --onnx")
        model, self.inputs = _parsed(options)
        self.metadata, self._fixed = model.metadata(), model.fixed_batch is not None
        self._given = read_beside(options.samples) if options.samples else None
        self.original = options.onnx
        super().__init__(dataclasses.replace(options, **self._as_run(options)))
        self.simplified = self.onnx
        self.preprocessed = self._given.described() if self._given else "none: samples as they are"
        self.calibration, self.cache_files = "calibration/samples.npz", (self.cache,)
        self.engines = [spec for spec in self.engines if self._is_built(spec)]
        _ = self.given_names

    def _is_built(self, spec: EngineSpec) -> bool:
        one_profile = self._fixed or bool(self.options.shapes)
        calibrated = bool(self.options.samples or self.options.labels)
        return not (one_profile and spec.name == "dynamic-fp16") and (spec.name != "int8" or calibrated)

    def _as_run(self, options: RunOptions) -> dict[str, Any]:
        """Return the run's model, data and batches: those that the model takes."""
        low, best, high = batch_range(self.inputs)
        free = low == high or options.shapes
        batches = tuple(batch for batch in options.batches if low <= batch <= high) if free else options.batches
        samples = Path(options.samples).name if options.samples else "seeded noise, INT8 left out without --data"
        data = options.labels or f"{samples} ({NO_LABELS})"
        return {"model": Path(options.onnx).stem, "data": data, "batches": batches or (best,)}

    def prepare(self) -> None:
        """Do nothing: there is nothing to render or to download."""

    def stages(self) -> list[Stage]:
        """Return every stage in order."""
        builds = [self._build(spec) for spec in self.engines]
        measured = [self._latency(), self._throughput(), self._profile()]
        return [self._take(), self._samples(), *builds, self._checks(), *measured, self._report()]

    @functools.cached_property
    def _origin(self) -> dict[str, str]:  # type: ignore[override]
        samples = self.options.samples
        return {
            "model": self.options.model,
            "onnx": sha256(self.original),
            "samples": sha256(samples) if samples else "noise",
            "shapes": ", ".join(self.options.shapes),
            "classes": json.dumps(self._class_names()),
        }

    def _take(self) -> Stage:
        def action(report: Report) -> None:
            import onnx

            model = onnx.load(str(self.original))
            onnx.helper.set_model_props(model, self._metadata())
            with atomic_path(self._path(self.onnx)) as temporary:
                onnx.save(model, str(temporary))  # with the weights inside

        return self._stage("take", "Take the ONNX model", action, (self.onnx,))

    def _metadata(self) -> dict[str, str]:
        """Return what the engines' records say of the model: what its exporter noted, and the classes' names."""
        names = self._class_names()
        return self.metadata | ({"classes": json.dumps(names)} if names else {})

    def _class_names(self) -> list[str]:
        return self.given_names.names if self.given_names else []

    @functools.cached_property
    def given_names(self) -> ClassNames | None:
        """The names of --classes; raises InputError where they are not as many as the outputs."""
        if self.options.classes is None:
            return None
        names = read_classes(self.options.classes)
        names.check(self.outputs_per_sample, Path(self.original).name)
        return names

    @functools.cached_property
    def outputs_per_sample(self) -> int:
        """How many classes the first output scores, as ONNX Runtime says; raises InputError where it scores none."""
        from helpers.tools.outputs import onnx_session

        outputs = self.onnx_runtime(examples(self.inputs, batch_range(self.inputs)[0]), onnx_session(self.original))
        return number_of_classes(next(iter(outputs.values())).shape[1:], Path(self.original).name)

    def _samples(self) -> Stage:
        given = self.options.samples

        def action(report: Report) -> None:
            from trtlab.building.calibration_data import open_inputs

            arrays = open_inputs(given, self.inputs) if given else examples(self.inputs, SAMPLES)
            with atomic_path(self._path(self.calibration)) as temporary:
                np.savez(temporary, **{name: np.asarray(array) for name, array in arrays.items()})
            if self._given:
                write_beside(self._path(self.calibration), self._given)

        title = f"Take the samples of {Path(given).name}" if given else f"Draw {SAMPLES} samples of noise"
        outputs = (self.calibration, *((f"{self.calibration}.json",) if self._given else ()))
        return self._stage("samples", title, action, outputs)

    def _build_options(self, spec: EngineSpec) -> BuildOptions:
        options = super()._build_options(spec)
        if self._fixed or self.options.shapes:
            return dataclasses.replace(
                options, min_batch=None, opt_batch=None, max_batch=None, shapes=self.options.shapes
            )
        return options

    def _checks(self) -> Stage:
        def action(report: Report) -> None:
            from helpers.tools.outputs import onnx_session
            from trtlab.building.calibration_data import open_inputs

            given = open_inputs(self._path(self.calibration), self.inputs)
            samples = {
                name: np.asarray(array).astype(self.inputs[name].dtype)
                for name, array in taken(given, self.inputs, 0, SAMPLES).items()
            }
            outputs = {}
            for spec in self.engines:
                report(spec.name)
                outputs[spec.name] = self._outputs(spec, samples)
            expected = self.onnx_runtime(samples, onnx_session(self._path(self.onnx)))
            rows = [_against_onnx_runtime(expected, outputs["fp32"])]
            rows += [row for name in list(outputs)[1:] for row in _drifts(name, outputs["fp32"], outputs[name])]
            self._write("checks.json", [asdict(row) for row in rows])

        inputs = (self.onnx, self.calibration, *self._engine_files())
        return self._stage("checks", "Compare outputs (drift)", action, ("checks.json",), inputs=inputs)

    def _outputs(self, spec: EngineSpec, samples: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        from trtlab.engines.inference import InferenceEngine

        with InferenceEngine(self._path(self.engine_path(spec))) as engine:
            return engine.predict_all(samples)

    def onnx_runtime(
        self, samples: dict[str, np.ndarray], session: "onnxruntime.InferenceSession"
    ) -> dict[str, np.ndarray]:
        """Return ONNX Runtime's outputs, in batches as the model takes them, the last of a fixed model padded."""
        names = [output.name for output in session.get_outputs()]
        number, size, cut = count(samples, self.inputs), batch_range(self.inputs)[2], batched(self.inputs)
        parts = []
        for start in range(0, number, size):
            batch = taken(samples, self.inputs, start, start + size)
            found = min(size, number - start)
            if self._fixed and found < size:
                batch |= {name: np.resize(batch[name], (size, *batch[name].shape[1:])) for name in cut}
            outputs = session.run(names, batch)
            parts.append([output[:found] for output in outputs] if found < size else outputs)
        return {name: np.concatenate([part[place] for part in parts]) for place, name in enumerate(names)}

    def _runner_specs(self) -> list["RunnerSpec"]:
        from trtlab.timing.runners import RunnerSpec

        shapes = {name: spec.best for name, spec in self.inputs.items()}
        baseline = RunnerSpec("onnxruntime", str(self._path(self.onnx)), ONNX_RUNTIME, shapes=shapes)
        return [baseline, *self._engine_specs()]

    def _profiled(self) -> EngineSpec:
        return next((spec for spec in self.engines if spec.name == "int8"), self.engines[-1])


def _parsed(options: RunOptions) -> tuple["ParsedModel", dict[str, InputSpec]]:
    """Return the model and what it takes; samples that do not fit are an error now."""
    from trtlab.building.build import input_specs
    from trtlab.building.calibration_data import open_inputs
    from trtlab.engines.network import parse_onnx

    model = parse_onnx(options.onnx)
    inputs = input_specs(model, BuildOptions(shapes=options.shapes))
    if options.samples:
        open_inputs(options.samples, inputs)
        of_build(inputs, (str(options.onnx), model.metadata()), NOTHING, options.samples, needed=False)
    return model, inputs


def _against_onnx_runtime(expected: dict[str, np.ndarray], found: dict[str, np.ndarray]) -> CheckRow:
    from helpers.tools.outputs import relative_error
    from trtlab.running.checks import TOLERANCES

    limit = TOLERANCES["fp32"]
    worst = max(relative_error(found[name][: len(array)], array) for name, array in expected.items())
    value = float(worst) if np.isfinite(worst) else None
    passed = value is not None and value <= limit
    return CheckRow("fp32", "outputs equal ONNX Runtime's", passed, value, limit, f"relative error {worst:.1e}")


def _drifts(name: str, reference: dict[str, np.ndarray], found: dict[str, np.ndarray]) -> list[CheckRow]:
    """Return the drift of every output; outputs that are no numbers fail."""
    from trtlab.quality.compare import drift

    rows = []
    for output, expected in reference.items():
        what = f"drift of {output} against FP32, {len(expected)} samples"
        try:
            measured = drift(expected, found[output])
            rows.append(CheckRow(name, what, True, measured.relative, message=_words(measured)))
        except InputError as error:
            rows.append(CheckRow(name, what, False, message=str(error)))
    return rows


def _words(found: "Drift") -> str:
    agreement = found.top1_agreement_percent
    top1 = "" if agreement is None else f", same first class {agreement:.1f} %"
    return f"relative difference {found.relative:.1e}, cosine {found.cosine:.5f}{top1}"
