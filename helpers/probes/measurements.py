"""Made-up measurements in the files' formats of steps 6 and 7: numbers that nobody can have typed beforehand.

They lie far from what any machine measures, so that a report or a text that repeats another run's numbers shows.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from helpers.backend import trt
from helpers.files import write_json

__all__ = ["BASELINE", "BATCHES", "EARLIER", "ENGINE_FILES", "NAMES", "Measurements", "made_up", "memory_sizes"]

BASELINE = "pytorch-fp32"
NAMES = (BASELINE, "fp32", "fp16", "int8")
BATCHES = (1, 4, 8, 16, 32)
ENGINE_FILES = {
    "fp32": "resnet50_fp32.engine",
    "fp16": "resnet50_dynamic_fp16.engine",
    "int8": "resnet50_int8.engine",
}
"""The engine whose file, memory and measurements a report gives under each name."""

ONNX_FILE = "resnet50_simplified.onnx"
EARLIER = {"engine": "of an earlier run", "model": "resnet50", "latency_ms": {}, "throughput": {}}
"""What report.json holds before a report is built: an earlier one must be replaced, never given back."""

_SCALES = {BASELINE: 1.0, "fp32": 13.0, "fp16": 210.0, "int8": 3300.0}
"""Steps between the names' speeds: every ratio of two of them is larger than a real one."""


@dataclass(frozen=True)
class Measurements:
    """One run: latency_ms[name][batch] (medians), images_per_s[name][batch], top1[name] and top5[name] in percent.

    `rows` are the latency rows as step 6 writes them; `saturation` is the batch after which each name gains no more.
    """

    engine: str
    model: str
    latency_ms: dict[str, dict[int, float]]
    images_per_s: dict[str, dict[int, float]]
    top1: dict[str, float]
    top5: dict[str, float]
    saturation: dict[str, int]
    fastest: tuple[str, int]
    rows: list[dict[str, Any]] = field(repr=False, default_factory=list)

    def write(self, folder: str | Path, seed: int) -> None:
        """Write latency.json, throughput.json and accuracy.json into `folder`, the rows in an order of `seed`."""
        random = np.random.default_rng(seed)
        rates = [
            {"name": name, "batch": batch, "images_per_s": rate}
            for name, series in self.images_per_s.items()
            for batch, rate in series.items()
        ]
        scores = [{"name": name, "top1": self.top1[name], "top5": self.top5[name]} for name in self.top1]
        head = {"engine": self.engine, "model": self.model}
        for file, extra, rows in (
            ("latency.json", {}, self.rows),
            ("throughput.json", {}, rates),
            ("accuracy.json", {"num_samples": 1000}, scores),
        ):
            shuffled = [rows[place] for place in random.permutation(len(rows))]
            write_json(Path(folder) / file, {**head, **extra, "rows": shuffled})

    def report(self, sizes: dict[str, int], memory: dict[str, int]) -> dict[str, Any]:
        """Return what report.json must hold for this run, for file sizes and engine memory in bytes."""
        return {
            "engine": self.engine,
            "model": self.model,
            "sizes_bytes": dict(sizes),
            "memory_bytes": dict(memory),
            "latency_ms": {name: _texts(series) for name, series in self.latency_ms.items()},
            "throughput": {name: _texts(series) for name, series in self.images_per_s.items()},
            "speedup": {
                name: {str(batch): rate / self.images_per_s[BASELINE][batch] for batch, rate in series.items()}
                for name, series in self.images_per_s.items()
            },
            "accuracy": {name: {"top1": self.top1[name], "top5": self.top5[name]} for name in self.top1},
            "accuracy_loss": {name: self.top1["fp32"] - top1 for name, top1 in self.top1.items()},
        }


def made_up(seed: int, *, pytorch_fastest: bool = False, int8_after: tuple[float, float] | None = None) -> Measurements:
    """Return a run made up from `seed`: four names at batches 1, 4, 8, 16 and 32.

    Any engine may be the fastest; with `pytorch_fastest`, PyTorch is. Each gains a tenth or more with every batch up to
    its saturation, then hardly anything, or becomes slower; `int8_after` is the range of the factor of INT8's first
    step after it, and then there is one. PyTorch is a little more accurate than the FP32 engine, so that one loss is
    negative.
    """
    random = np.random.default_rng(seed)
    order = random.permutation(np.array(list(_SCALES.values())[1:]))
    scales = {BASELINE: _SCALES[BASELINE], **dict(zip(NAMES[1:], order, strict=True))}
    saturation = {name: int(random.choice(BATCHES)) for name in NAMES}
    if int8_after:
        saturation["int8"] = int(random.choice(BATCHES[:-1]))
    rates = {
        name: _series(random, 19 * scales[name], saturation[name], int8_after if name == "int8" else None)
        for name in NAMES
    }
    if pytorch_fastest:
        most = {name: max(series.values()) for name, series in rates.items()}
        factor = 1.5 * max(most.values()) / most[BASELINE]
        rates[BASELINE] = {batch: factor * rate for batch, rate in rates[BASELINE].items()}
    rows, medians = [], {}
    for name in NAMES:
        medians[name] = {}
        for batch in BATCHES:
            median = 1000 * batch / rates[name][batch] * random.uniform(11, 23)
            medians[name][batch] = float(median)
            tails = median * np.cumsum(random.uniform(0.06, 0.3, 3)) + median
            values = dict(zip(("mean_ms", "p95_ms", "p99_ms"), tails.tolist(), strict=True))
            spread = {"median_ms": float(median), "std_ms": float(median * random.uniform(0.2, 0.4))}
            rows.append({"name": name, "batch": batch, **values, **spread})
    exact = float(random.uniform(71, 79))
    losses = {
        BASELINE: -random.uniform(0.2, 0.6),
        "fp32": 0.0,
        "fp16": random.uniform(5, 8),
        "int8": random.uniform(12, 19),
    }
    top1 = {name: exact - float(loss) for name, loss in losses.items()}
    top5 = {name: value + float(random.uniform(3, 9)) for name, value in top1.items()}
    every = {(name, batch): rate for name, series in rates.items() for batch, rate in series.items()}
    device = f"TensorRT 10.{random.integers(20, 90)}, made-up device {random.integers(1000, 9999)}"
    fastest = max(every, key=every.__getitem__)
    return Measurements(device, "resnet50", medians, rates, top1, top5, saturation, fastest, rows)


def memory_sizes(plan: bytes) -> set[int]:
    """Return the bytes of activations that a context of the engine takes, by each name TensorRT has for them.

    Raises:
        ValueError: the bytes are no engine of this TensorRT.
    """
    engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)
    if engine is None:
        raise ValueError("no engine that this TensorRT can load")
    names = ("device_memory_size", "device_memory_size_v2")
    return {int(getattr(engine, name)) for name in names if hasattr(engine, name)}


def _series(
    random: np.random.Generator, start: float, saturation: int, after: tuple[float, float] | None = None
) -> dict[int, float]:
    """Return images/s by batch: growing to `saturation`, then flat to a few percent, or falling, first by `after`."""
    rate, series = start * random.uniform(1, 1.6), {}
    for batch in BATCHES:
        series[batch] = float(rate)
        gains = (random.uniform(1.102, 1.108), random.uniform(1.25, 1.7))
        flat = (random.uniform(0.97, 1.06), random.uniform(0.97, 1.06), random.uniform(0.7, 0.85))
        rate *= random.choice(gains if batch < saturation else flat)
        if after and batch == saturation:
            rate = series[batch] * random.uniform(*after)
    return series


def _texts(series: dict[int, float]) -> dict[str, float]:
    return {str(batch): value for batch, value in series.items()}
