"""The study behind `trtlab sensitivity`: engines are built and measured one by one, and lead to the mixed engine.

The JSON is written after each engine, and a folder beside it (OUT.parts) holds what the next start needs: the cache,
the images, FP32's logits and the engines that are timed at the end. So a study that was stopped goes on.
"""

import contextlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from helpers.data.image_folders import DataSet
from helpers.engine.backend import ENGINE, describe
from helpers.engine.layer_groups import groups_of
from helpers.tools.files import atomic_path, read_json, sha256, write_json
from trtcpu.errors import InputError
from trtlab.building.build import BuildOptions, BuildRecord, build_engine
from trtlab.building.calibration_data import read_cache, write_calibration_tensor
from trtlab.engines.inference import InferenceEngine
from trtlab.engines.network import parse_onnx
from trtlab.images.preprocessing_record import of_onnx
from trtlab.models.class_names import fit_labels, names_in, number_of_classes
from trtlab.quality.accuracy import accuracy_loss, score
from trtlab.quality.compare import drift
from trtlab.quality.sensitivity import BASELINES, Row, Variant, mixed, pairs, rank
from trtlab.timing.bench import bench
from trtlab.timing.options import BenchOptions
from trtlab.timing.runners import RunnerSpec, load_runner

_WORST = 2
_TIMED = ("baseline", "mixed")


@dataclass
class Study:
    """A study, whose fields are the options of `trtlab sensitivity`; `report` is told of progress, `line` of results.

    `rows` are the measured engines by name, `chosen` is the mixed one's. `pareto` has loss and median latency of the
    baselines and the mixed engines. `first_and_last` are the layers that each of those keeps.
    """

    onnx: Path
    out: Path
    dataset: DataSet
    calib_cache: Path | None
    calib_npy: Path | None
    num_samples: int
    batch_size: int
    target_loss: float
    layers: bool
    keep_engines: bool
    report: Callable[[str], None]
    line: Callable[[str], None]

    def __post_init__(self) -> None:
        """Read the model, and what an earlier start measured.

        Raises:
            InputError: wrong options or model, labels that do not fit it, or OUT is of another study.
        """
        self._check_calibration()
        name, model = str(self.onnx), parse_onnx(self.onnx)
        if self.calib_cache:
            read_cache(self.calib_cache, model.calibrated_inputs, model.tensor_names)
        self.groups = groups_of(model.network, name)
        self.first_and_last = mixed(self.groups, ()).kept
        classes = number_of_classes(tuple(model.network.get_output(0).shape)[1:], name)
        data = fit_labels(self.dataset, classes, names_in(model.metadata(), name), name)
        self.images = data.images("validation", limit=self.num_samples)
        self._batch = model.fixed_batch or self.batch_size
        self.parts = self.out.with_name(f"{self.out.name}.parts")
        self._reference = self.parts / "fp32.npy"
        self._about = self._described()
        self.rows: dict[str, Row] = self._known()
        self.pareto: list[dict[str, Any]] = []
        self.chosen: Row | None = None

    def _check_calibration(self) -> None:
        if (self.calib_cache is None) == (self.calib_npy is None):
            raise InputError("give one of --calib-cache and --calib-npy: all engines take their scales from it")
        if self.calib_npy and not self.calib_npy.is_file():
            raise InputError(f"{self.calib_npy} is not there; make it with trtlab calib-data")

    def _described(self) -> dict[str, Any]:
        """Return what two starts must have in common for their rows to be comparable."""
        calibration = self.calib_cache or self.calib_npy
        return {
            "engine": describe(),
            "onnx": str(self.onnx),
            "onnx_sha256": sha256(self.onnx),
            "calibration": str(calibration),
            "calibration_sha256": sha256(calibration),
            "data": self.dataset.name,
            "num_samples": self.num_samples,
            "batch_size": self._batch,
        }

    def _known(self) -> dict[str, Row]:
        """Return the rows of an earlier start, where its reference is there still."""
        if not self.out.exists():
            return {}
        found = read_json(self.out, "result of trtlab sensitivity")
        try:
            about, rows = {**found["about"]}, {row["name"]: row for row in found["rows"]}
        except (TypeError, KeyError) as error:
            raise InputError(f"{self.out} is no result of trtlab sensitivity; choose another --out") from error
        for key, value in self._about.items():
            if about.get(key) != value and key not in ("onnx", "calibration"):
                what = f"{key} {about.get(key)}, now {value}"
                raise InputError(f"{self.out} is of another study ({what}); choose another --out or delete it")
        if self._reference.exists():
            return rows
        if found.get("complete"):
            raise InputError(f"{self.out} is complete; choose another --out, or delete it to measure again")
        return {}

    def run(self, engine: Path | None = None) -> None:
        """Measure what is not known yet, choose the mixed engine, time the engines in turns, and drop the parts.

        Args:
            engine: where a copy of the chosen engine and its record go.
        """
        self._drop_useless_parts()
        try:
            self._inputs = self._preprocessed()
            self._measure([*BASELINES, *pairs(self.groups, {group.name: group.layers for group in self.groups})])
        finally:
            self._drop_useless_parts()
        order = list(rank(self.rows)["unit"])
        if self.layers:
            worst = [layer for group in self.groups if group.name in order[:_WORST] for layer in group.weighted]
            self._measure(pairs(self.groups, {layer: (layer,) for layer in worst}, "-layer"))
        self.chosen = self._mix(order)
        self.pareto = self._timed()
        self._write(complete=True)
        if engine and self.chosen:
            self._copy(self.chosen["name"], engine)
        if not self.keep_engines:
            shutil.rmtree(self.parts, ignore_errors=True)

    def _drop_useless_parts(self) -> None:
        """Drop the parts where nothing was measured: the next start may be another study's."""
        if not self.rows:
            shutil.rmtree(self.parts, ignore_errors=True)

    def _preprocessed(self) -> np.ndarray:
        """Return the images, preprocessed once; the file is mapped."""
        path = self.parts / "images.npy"
        if not path.exists():
            preprocessing, note = of_onnx(self.onnx)
            if note:
                self.line(f"note: {note}")
            images = [image for image, _ in self.images]
            for done in write_calibration_tensor(images, path, preprocessing=preprocessing):
                self.report(f"preprocessing: {done} of {len(images)} images")
        return np.load(path, mmap_mode="r")

    def _measure(self, wanted: Sequence[Variant]) -> None:
        """Build and measure each engine that is not known, and write the result after each."""
        for index, variant in enumerate(wanted, 1):
            if variant.name in self.rows:
                continue
            self.report(f"{variant.name}: {index} of {len(wanted)} engines")
            row = self._row(variant, self._build(variant))
            self.rows[variant.name] = row
            self._write()
            figures = f"drift {row['drift']:.2e}, top-1 {row['top1']:.2f} %, loss {row['loss']:+.2f} points"
            self.line(f"{variant.name}: {figures}")
            if variant.kind not in _TIMED and not self.keep_engines:
                for suffix in ("", ".json", ".cache"):
                    Path(f"{self._engine(variant.name)}{suffix}").unlink(missing_ok=True)

    def _build(self, variant: Variant) -> BuildRecord:
        precision = variant.name if variant.kind == "baseline" else "int8+fp16"
        int8 = precision == "int8+fp16"
        cache = self.calib_cache or self.parts / "calibration.cache"
        options = BuildOptions(
            precision=precision,
            opt_batch=self._batch,
            max_batch=self._batch,
            calib_cache=cache if int8 else None,
            calib_npy=self.calib_npy if int8 and not cache.exists() else None,
            layer_precisions=tuple(f"{name}:fp16" for name in variant.kept),
            # the CPU engine keeps whole compiled models in it, of which no two engines here share one
            timing_cache=self.parts / "timing.cache" if ENGINE == "tensorrt" else None,
        )
        place = self._engine(variant.name)
        return build_engine(self.onnx, place, options, lambda text: self.report(f"{variant.name}: {text}"))

    def _engine(self, name: str) -> Path:
        return self.parts / f"{name.replace('/', '_').replace(' ', '_').strip('_')}.engine"

    def _row(self, variant: Variant, record: BuildRecord) -> Row:
        with InferenceEngine(self._engine(variant.name)) as engine:
            outputs = engine.predict(self._inputs)
        if variant.name == "fp32":
            with atomic_path(self._reference) as temporary:
                np.save(temporary, outputs)
        reference = np.load(self._reference)
        labels = np.array([label for _, label in self.images])
        accuracy = score(outputs, labels)
        loss = accuracy_loss(score(reference, labels), accuracy)
        found = drift(reference, outputs, ("the output of fp32", f"the output of {variant.name}"))
        constraints = record.layer_constraints or {"weighted_asked": {}, "weighted_ran": {}}
        return {
            "name": variant.name,
            "kind": variant.kind,
            "unit": variant.unit,
            "groups": list(variant.groups),
            "drift": found.relative,
            "agreement": found.top1_agreement_percent,
            "top1": accuracy.top1,
            "loss": loss.points,
            "loss_low": loss.low,
            "loss_high": loss.high,
            "asked": constraints["weighted_asked"],
            "ran": constraints["weighted_ran"],
            "layers": record.layer_precisions,
            "size_bytes": record.size_bytes,
            "seconds": record.seconds,
        }

    def _mix(self, order: Sequence[str]) -> Row | None:
        """Keep one group more in FP16, the most sensitive first, until the loss is within the target; None if never."""
        for count in range(len(order)):
            variant = mixed(self.groups, order[:count])
            self._measure([variant])
            if self.rows[variant.name]["loss"] <= self.target_loss:
                return self.rows[variant.name]
        return None

    def _timed(self) -> list[dict[str, Any]]:
        """Return loss and median latency of the baselines and the mixed engines, timed in turns."""
        rows = [row for row in self.rows.values() if row["kind"] in _TIMED]
        options = BenchOptions((self._batch,), iterations=100, limit_s=20)
        with contextlib.ExitStack() as stack:
            specs = [RunnerSpec("engine", str(self._engine(row["name"])), row["name"]) for row in rows]
            runners = [stack.enter_context(contextlib.closing(load_runner(spec))) for spec in specs]
            results = bench(runners, options, progress=lambda text, done, of: self.report(f"{text}: {done} of {of}"))
        return [
            {key: row[key] for key in ("name", "loss", "loss_low", "loss_high")}
            | {"batch": result.batch, "median_ms": result.stats.median_ms, "ran_in": result.ran_in}
            for row, result in zip(rows, results, strict=True)
        ]

    def _copy(self, name: str, engine: Path) -> None:
        for suffix in ("", ".json"):
            with atomic_path(f"{engine}{suffix}") as temporary:
                shutil.copyfile(f"{self._engine(name)}{suffix}", temporary)

    def _write(self, complete: bool = False) -> None:
        write_json(
            self.out,
            {
                "about": self._about,
                "complete": complete,
                "target_loss": self.target_loss,
                "first_and_last": list(self.first_and_last),
                "groups": [asdict(group) for group in self.groups],
                "rows": list(self.rows.values()),
                "ranking": rank(self.rows).to_dict("records") if "int8+fp16" in self.rows else [],
                "mixed": self.chosen,
                "pareto": self.pareto,
            },
        )
