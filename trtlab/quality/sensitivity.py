"""How much of INT8's error each group of layers makes, measured in engines, and the mixed engine that it leads to.

For each group two engines: the group kept in FP16 while the rest may run in INT8, and the group alone in INT8 while the
rest is kept in FP16. All scales are from one calibration cache. What is compared are the logits on the same validation
images, with FP32's: their drift shows differences that top-1 of some hundred images cannot.

The JSON is written after each engine, and a folder beside it (OUT.parts) holds what the next start needs: the cache,
the images, FP32's logits and the engines that are timed at the end. So a study that was stopped goes on.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from helpers.data.image_folders import DataSet
from helpers.engine.backend import ENGINE, describe
from helpers.engine.layer_groups import Group, ends, groups_of
from helpers.tools.files import atomic_path, read_json, sha256, write_json
from trtcpu.errors import InputError
from trtlab.building.build import BuildOptions, BuildRecord, build_engine
from trtlab.building.calibration_data import read_cache, write_calibration_tensor
from trtlab.engines.inference import InferenceEngine
from trtlab.engines.network import parse_onnx
from trtlab.images.preprocessing_record import of_onnx
from trtlab.models.class_names import fit_labels, names_in, number_of_classes
from trtlab.quality.classification import accuracy_loss, score
from trtlab.quality.compare import drift
from trtlab.timing.bench import bench
from trtlab.timing.options import BenchOptions
from trtlab.timing.runners import RunnerSpec, load_runner

_WORST = 2
_TIMED = ("baseline", "mixed")
_MEASURED = "{name}: drift {drift:.2e}, top-1 {top1:.2f} %, loss {loss:+.2f} points"

# What was measured of one engine against FP32 on the same images, as the JSON has it.
# `name`, `kind`, `unit` and `groups` are the Variant's. `drift` is the relative difference of the logits (norm),
# `agreement` and `top1` in percent, `loss` in points of top-1 with its 95 % interval. `asked` and `ran` count
# precisions of the weighted layers that were kept in FP16, `layers` those of all fused layers.
Row = dict[str, Any]


@dataclass(frozen=True)
class Variant:
    """An engine to build: `kept` are the layers in FP16, `groups` those that they make up, `unit` what it is about.

    `kind` is baseline (in the precision that is its name; the others are INT8 beside FP16), keep, only (a group),
    keep-layer, only-layer, or mixed.
    """

    name: str
    kind: str
    unit: str = ""
    kept: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


BASELINES = [Variant(name, "baseline") for name in ("fp32", "fp16", "int8+fp16")]


def pairs(groups: Sequence[Group], units: Mapping[str, Sequence[str]], suffix: str = "") -> Iterator[Variant]:
    """Yield two engines for each unit, a name and its layers: they are kept in FP16, and they alone are not."""
    for unit, layers in units.items():
        rest = tuple(layer for group in groups for layer in group.layers if layer not in layers)
        yield Variant(f"keep{suffix} {unit}", f"keep{suffix}", unit, tuple(layers))
        yield Variant(f"only{suffix} {unit}", f"only{suffix}", unit, rest)


def mixed(groups: Sequence[Group], kept: Sequence[str]) -> Variant:
    """Return the engine that keeps these groups in FP16, and the first and the last layer always."""
    layers = [layer for group in groups if group.name in kept for layer in group.layers]
    name = f"mixed-{len(kept)}"
    return Variant(name, "mixed", name, tuple(dict.fromkeys([*layers, *ends(groups)])), tuple(kept))


def rank(rows: Mapping[str, Row], suffix: str = "") -> pd.DataFrame:
    """Return the groups (`suffix` "-layer": the layers) by their share of INT8's error, the most sensitive first.

    Rounding errors of different layers are independent, so that their squares add up. What INT8 adds to FP16's error is
    int8² - fp16²; a group's part of it is estimated twice, by what it makes alone (only² - fp16²) and by what goes when
    it is kept (int8² - keep²), and the share is the mean of the two. Shares need not sum up to 100 %.

    Returns:
        Columns unit, keep_drift, only_drift, and share in percent; a row for each unit whose two engines are measured.
    """
    fp16, int8 = rows["fp16"]["drift"] ** 2, rows["int8+fp16"]["drift"] ** 2
    keep, only = _drifts(rows, f"keep{suffix}"), _drifts(rows, f"only{suffix}")
    part = ((only**2 - fp16) + (int8 - keep**2)) / 2
    share = 100 * part / (int8 - fp16) if int8 > fp16 else 0 * part
    found = pd.DataFrame({"keep_drift": keep, "only_drift": only, "share": share}).dropna()
    return found.sort_values("share", ascending=False, kind="stable").rename_axis("unit").reset_index()


def _drifts(rows: Mapping[str, Row], kind: str) -> pd.Series:
    return pd.Series({row["unit"]: row["drift"] for row in rows.values() if row["kind"] == kind}, dtype=float)


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
        if (self.calib_cache is None) == (self.calib_npy is None):
            raise InputError("give one of --calib-cache and --calib-npy: all engines take their scales from it")
        if self.calib_npy and not self.calib_npy.is_file():
            raise InputError(f"{self.calib_npy} is not there; make it with trtlab calib-data")
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
        """Return the rows of an earlier start, if its reference is there still."""
        if not self.out.exists():
            return {}
        found = read_json(self.out, "result of trtlab sensitivity")
        try:
            about, rows = {**found["about"]}, {row["name"]: row for row in found["rows"]}
        except (TypeError, KeyError) as error:
            raise InputError(f"{self.out} is no result of trtlab sensitivity; choose another --out") from error
        for key, value in self._about.items():
            if about.get(key) != value and key not in ("onnx", "calibration"):
                raise InputError(
                    f"{self.out} is of another study ({key} {about.get(key)}, now {value}); choose another --out or "
                    "delete it"
                )
        if found.get("complete") and not self._reference.exists():
            raise InputError(f"{self.out} is complete; choose another --out, or delete it to measure again")
        return rows if self._reference.exists() else {}

    def run(self, engine: Path | None = None) -> None:
        """Measure what is not known yet, choose the mixed engine, time the engines in turns, and drop the parts.

        Args:
            engine: where a copy of the chosen engine and its record go.
        """
        if not self.rows:  # what is there may be another study's
            shutil.rmtree(self.parts, ignore_errors=True)
        try:
            self._inputs = self._preprocessed()
            self._measure([*BASELINES, *pairs(self.groups, {group.name: group.layers for group in self.groups})])
        finally:
            if not self.rows:
                shutil.rmtree(self.parts, ignore_errors=True)
        order = list(rank(self.rows)["unit"])
        if self.layers:
            worst = [layer for group in self.groups if group.name in order[:_WORST] for layer in group.weighted]
            self._measure([*pairs(self.groups, {layer: (layer,) for layer in worst}, "-layer")])
        self.chosen = self._mix(order)
        self.pareto = self._timed()
        self._write(complete=True)
        for suffix in ("", ".json") if engine and self.chosen else ():
            with atomic_path(f"{engine}{suffix}") as temporary:
                shutil.copyfile(f"{self._engine(self.chosen['name'])}{suffix}", temporary)
        if not self.keep_engines:
            shutil.rmtree(self.parts, ignore_errors=True)

    def _preprocessed(self) -> np.ndarray:
        """Return the images, preprocessed once; the file is mapped."""
        path = self.parts / "images.npy"
        if not path.exists():
            preprocessing, note = of_onnx(self.onnx)
            if note:
                self.line(f"note: {note}")
            for done in write_calibration_tensor([each for each, _ in self.images], path, preprocessing=preprocessing):
                self.report(f"preprocessing: {done} of {len(self.images)} images")
        return np.load(path, mmap_mode="r")

    def _measure(self, wanted: Sequence[Variant]) -> None:
        for index, variant in enumerate(wanted, 1):
            if variant.name in self.rows:
                continue
            self.report(f"{variant.name}: {index} of {len(wanted)} engines")
            self.rows[variant.name] = self._row(variant, self._build(variant))
            self._write()
            self.line(_MEASURED.format(**self.rows[variant.name]))
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
        return build_engine(
            self.onnx, self._engine(variant.name), options, lambda text: self.report(f"{variant.name}: {text}")
        )

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
