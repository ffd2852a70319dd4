"""The study behind `trtlab sensitivity`: engines are built and measured one by one, and lead to the mixed engine.

The JSON is written after each engine, and a folder beside it (OUT.parts) holds what the next start needs: the cache,
the images, FP32's logits and the engines that are timed at the end. So a study that was stopped goes on.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.engine.backend import ENGINE, describe
from helpers.engine.layer_groups import groups_of
from helpers.tools.files import atomic_path, made_folders, read_json, sha256, write_json
from trtcpu.errors import InputError, LabError
from trtlab.building.build import BuildOptions, BuildRecord, build_engine
from trtlab.building.calibration_data import read_cache, write_calibration_tensor
from trtlab.engines.inference import InferenceEngine
from trtlab.engines.network import parse_onnx
from trtlab.images.preprocessing_record import of_onnx
from trtlab.models.class_names import fit_labels, names_beside, number_of_classes
from trtlab.quality.accuracy import accuracy_loss, score
from trtlab.quality.compare import drift
from trtlab.quality.sensitivity import BASELINES, Row, Sensitivity, Variant, of_layers, rank, single_layers, variants
from trtlab.quality.study_options import StudyOptions
from trtlab.timing.bench import bench
from trtlab.timing.options import BenchOptions
from trtlab.timing.runners import RunnerSpec, load_runner

if TYPE_CHECKING:
    from helpers.data.datasets import DataSet

Report = Callable[[str], None]

_WORST = 2
_TIMED = ("baseline", "mixed")


class Study:
    """One study. `rows` are measured engines by name; `report` is told of progress, `line` of what is to stay."""

    def __init__(self, options: StudyOptions, dataset: "DataSet", report: Report = print, line: Report = print) -> None:
        """Read what an earlier start measured.

        Raises:
            InputError: wrong options or model, or OUT is of another study.
        """
        options.check()
        self.options, self._dataset, self._report, self._line = options, dataset, report, line
        self.model = parse_onnx(options.onnx)
        self.groups = groups_of(self.model.network, self.model.path)
        if options.calib_cache:
            read_cache(options.calib_cache, self.model.calibrated_inputs, self.model.tensor_names)
        self.parts = options.out.with_name(f"{options.out.name}.parts")
        self._about = self._described()
        self.rows: dict[str, Row] = self._known()
        self.pareto: list[dict[str, Any]] = []
        self.chosen: Row | None = None

    def run(self) -> None:
        """Measure what is not known yet, choose the mixed engine and time the engines in turns."""
        with self._folder():
            self._images()
            self._measure([*BASELINES, *variants(self.groups)])
            if self.options.layers:
                worst = [each.unit for each in rank(self.rows)[:_WORST]]
                self._measure(single_layers(self.groups, worst))
            self.chosen = self._mix(rank(self.rows))
            self.pareto = self._timed()
            self._write(complete=True)

    @contextlib.contextmanager
    def _folder(self) -> Iterator[None]:
        """Make OUT.parts; where an error comes before anything was measured, nothing of it stays."""
        out = self.options.out
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(made_folders(out.parent))
                self.parts.mkdir(exist_ok=True)
            except OSError as error:
                raise InputError(f"cannot write {out}: {error.strerror or error}; choose another --out") from error
            try:
                yield
            except LabError:
                if not self.rows:
                    shutil.rmtree(self.parts, ignore_errors=True)
                raise

    def finish(self, engine: Path | None) -> None:
        """Copy the chosen engine and its record to `engine`, and drop the parts where engines are not kept."""
        if engine is not None and self.chosen is not None:
            for suffix in ("", ".json"):
                with atomic_path(f"{engine}{suffix}") as temporary:
                    shutil.copyfile(f"{self._engine(self.chosen.name)}{suffix}", temporary)
        if not self.options.keep_engines:
            shutil.rmtree(self.parts, ignore_errors=True)

    @property
    def images(self) -> int:
        """How many validation images the figures are from."""
        return len(self._inputs)

    @property
    def first_and_last(self) -> tuple[str, ...]:
        """The layers that are in FP16 in every mixed engine."""
        return of_layers(self.groups, ()).kept

    def ranking(self, suffix: str = "") -> list[Sensitivity]:
        """Return the groups, or with "-layer" the layers, the most sensitive first."""
        return rank(self.rows, suffix)

    def _described(self) -> dict[str, Any]:
        """Return what two starts must have in common for their rows to be comparable."""
        calibration = self.options.calib_cache or self.options.calib_npy
        return {
            "engine": describe(),
            "onnx": str(self.options.onnx),
            "onnx_sha256": sha256(self.options.onnx),
            "calibration": str(calibration),
            "calibration_sha256": sha256(calibration),
            "data": self.options.data,
            "num_samples": self.options.num_samples,
            "batch_size": self._batch,
        }

    @property
    def _batch(self) -> int:
        return self.model.fixed_batch or self.options.batch_size

    def _known(self) -> dict[str, Row]:
        """Return the rows of an earlier start, where its reference is there still."""
        if not self.options.out.exists():
            return {}
        found = read_json(self.options.out, "result of trtlab sensitivity")
        try:
            about, rows = found["about"], {row["name"]: Row(**row) for row in found["rows"]}
            differing = [
                key
                for key, value in self._about.items()
                if about.get(key) != value and key not in ("onnx", "calibration")
            ]
        except (TypeError, KeyError, AttributeError) as error:
            raise InputError(f"{self.options.out} is no result of trtlab sensitivity; choose another --out") from error
        if differing:
            key = differing[0]
            raise InputError(
                f"{self.options.out} is of another study ({key} {about.get(key)}, now {self._about[key]}); "
                "choose another --out or delete it"
            )
        if found.get("complete") and not (self.parts / "fp32.npy").exists():
            raise InputError(f"{self.options.out} is complete; choose another --out, or delete it to measure again")
        return rows if (self.parts / "fp32.npy").exists() else {}

    def _images(self) -> None:
        """Preprocess the images once; the file is mapped."""
        items = self._dataset.images("validation", limit=self.options.num_samples)
        path = self.parts / "images.npy"
        if not path.exists():
            preprocessing, note = of_onnx(self.options.onnx)
            if note:
                self._line(f"note: {note}")
            for done in write_calibration_tensor([item for item, _ in items], path, preprocessing=preprocessing):
                self._report(f"preprocessing: {done} of {len(items)} images")
        self._inputs = np.load(path, mmap_mode="r")

    def _measure(self, wanted: Iterable[Variant]) -> None:
        """Build and measure each engine that is not known, and write the result after each."""
        wanted = list(wanted)
        for index, variant in enumerate(wanted, 1):
            if variant.name in self.rows:
                continue
            self._report(f"{variant.name}: {index} of {len(wanted)} engines")
            record = self._build(variant)
            row = self._row(variant, record)
            self.rows[variant.name] = row
            self._write()
            self._line(f"{row.name}: drift {row.drift:.2e}, top-1 {row.top1:.2f} %, loss {row.loss:+.2f} points")
            if variant.kind not in _TIMED and not self.options.keep_engines:
                self._drop(variant.name)

    def _build(self, variant: Variant) -> BuildRecord:
        int8 = variant.precision == "int8+fp16"
        cache = self.options.calib_cache or self.parts / "calibration.cache"
        calibrate = int8 and self.options.calib_npy is not None and not cache.exists()
        batch = None if self.model.fixed_batch else self._batch
        options = BuildOptions(
            precision=variant.precision,
            opt_batch=batch,
            max_batch=batch,
            calib_cache=cache if int8 else None,
            calib_npy=self.options.calib_npy if calibrate else None,
            layer_precisions=tuple(f"{name}:fp16" for name in variant.kept),
            # the CPU engine keeps whole compiled models in it, of which no two engines here share one
            timing_cache=self.parts / "timing.cache" if ENGINE == "tensorrt" else None,
        )
        name = variant.name
        return build_engine(
            self.options.onnx, self._engine(name), options, lambda text: self._report(f"{name}: {text}")
        )

    def _engine(self, name: str) -> Path:
        return self.parts / f"{name.replace('/', '_').replace(' ', '_').strip('_')}.engine"

    def _drop(self, name: str) -> None:
        for suffix in ("", ".json", ".cache"):
            Path(f"{self._engine(name)}{suffix}").unlink(missing_ok=True)

    def _row(self, variant: Variant, record: BuildRecord) -> Row:
        items = self._dataset.images("validation", limit=self.options.num_samples)
        path = self._engine(variant.name)
        with InferenceEngine(path) as engine:
            outputs = engine.predict(self._inputs)
            classes = number_of_classes(engine.output_shape, engine.name)
            data = fit_labels(self._dataset, classes, names_beside(path), str(self.options.onnx))
        if data is not self._dataset:
            items = data.images("validation", limit=self.options.num_samples)
        labels = np.array([label for _, label in items])
        if variant.name == "fp32":
            with atomic_path(self.parts / "fp32.npy") as temporary:
                np.save(temporary, outputs)
        reference = np.load(self.parts / "fp32.npy")
        accuracy = score(outputs, labels)
        loss = accuracy_loss(score(reference, labels), accuracy)
        found = drift(reference, outputs, ("the output of fp32", f"the output of {variant.name}"))
        constraints = record.layer_constraints or {"weighted_asked": {}, "weighted_ran": {}}
        return Row(
            name=variant.name,
            kind=variant.kind,
            unit=variant.unit,
            groups=list(variant.groups),
            drift=found.relative,
            agreement=found.top1_agreement_percent,
            top1=accuracy.top1,
            loss=loss.points,
            loss_low=loss.low,
            loss_high=loss.high,
            asked=constraints["weighted_asked"],
            ran=constraints["weighted_ran"],
            layers=record.layer_precisions,
            size_bytes=record.size_bytes,
            seconds=record.seconds,
        )

    def _mix(self, ranking: list[Sensitivity]) -> Row | None:
        """Keep one group more in FP16, the most sensitive first, until the loss is within the target; None if never."""
        order = [each.unit for each in ranking]
        for count in range(len(order)):
            variant = of_layers(self.groups, order[:count])
            self._measure([variant])
            if self.rows[variant.name].loss <= self.options.target_loss:
                return self.rows[variant.name]
        return None

    def _timed(self) -> list[dict[str, Any]]:
        """Return loss and median latency of the baselines and the mixed engines, timed in turns."""
        rows = [row for row in self.rows.values() if row.kind in _TIMED]
        for row in rows:
            if not self._engine(row.name).exists():
                self._build(next(v for v in [*BASELINES, of_layers(self.groups, row.groups)] if v.name == row.name))
        runners = [load_runner(RunnerSpec("engine", str(self._engine(row.name)), row.name)) for row in rows]
        try:
            options = BenchOptions((self._batch,), self.options.iterations, self.options.warmup_ms, limit_s=20)
            results = bench(runners, options, progress=lambda text, done, of: self._report(f"{text}: {done} of {of}"))
        finally:
            for runner in runners:
                runner.close()
        return [
            {"name": row.name, "loss": row.loss, "loss_low": row.loss_low, "loss_high": row.loss_high}
            | {"batch": result.batch, "median_ms": result.stats.median_ms, "ran_in": result.ran_in}
            for row, result in zip(rows, results, strict=True)
        ]

    def _write(self, complete: bool = False) -> None:
        done = complete or {"fp16", "int8+fp16"} <= self.rows.keys()
        known = self.rows.values()
        paired = {row.unit for row in known if row.kind == "only"} >= {row.unit for row in known if row.kind == "keep"}
        write_json(
            self.options.out,
            {
                "about": self._about,
                "complete": complete,
                "target_loss": self.options.target_loss,
                "first_and_last": list(self.first_and_last),
                "groups": [asdict(group) for group in self.groups],
                "rows": [row.to_dict() for row in known],
                "ranking": [asdict(each) for each in rank(self.rows)] if done and paired else [],
                "mixed": self.chosen.to_dict() if self.chosen else None,
                "pareto": self.pareto,
            },
        )
