"""Made-up measurements for tests of tables, charts and reports. No number here was measured anywhere."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from trtlab.report.results import Results, plain, summary, with_speedups

ENGINE = {"name": "cpu", "version": "0.0.test", "device": "TEST ENGINE, made-up numbers, no device"}
MS_PER_IMAGE = {
    "pytorch-fp32": 30.0,
    "onnxruntime-fp32": 20.0,
    "fp32": 18.0,
    "tf32": 18.0,
    "fp16": 9.0,
    "dynamic-fp16": 9.2,
    "int8": 6.0,
}
ENGINE_MB = {"onnxruntime-fp32": 94.0, "fp32": 95.0, "tf32": 95.0, "fp16": 48.0, "dynamic-fp16": 48.0, "int8": 26.0}
RAN_IN = {"fp32": "fp32", "tf32": "fp32", "fp16": "bf16", "int8": "int8"}
DEVICES = {"pytorch-fp32": "PyTorch 0, CPU, 2 threads", "onnxruntime-fp32": "ONNX Runtime 0, CPU, 2 threads"}
VERSIONS = {"OpenVINO": "0.0.test", "Python": "3.0"}
TOP1 = {"pytorch-fp32": 95.0, "fp32": 95.0, "tf32": 95.0, "fp16": 94.9, "int8": 94.4}


def row(engine: str, batch: int, precision: str | None = None, ran_in: str | None = None, **figures: Any) -> dict:
    """A row as the files' readers return it."""
    return {"engine": engine, "batch": batch, "precision": precision, "ran_in": ran_in, **figures}


def score(engine: str, top1: float, num_samples: int, *loss: float) -> dict:
    """An accuracy; `loss` is loss, low, high and how many images are judged otherwise."""
    against = dict(zip(("loss", "loss_low", "loss_high", "changed"), loss, strict=False))
    return {"engine": engine, "top1": top1, "top5": 99.5, "num_samples": num_samples, **against}


def results_of(*rows: dict, **parts: Any) -> Results:
    """The results of these rows, with their speed-ups."""
    return Results(ENGINE, parts.pop("model", "m"), parts.pop("data", "d"), with_speedups(rows), **parts)


def at(results: Results, engine: str, batch: int, source: str = "", how: str = "") -> SimpleNamespace:
    """The row of an engine at a batch; None if nothing is known."""
    rows = [SimpleNamespace(**row) for row in plain(results.rows)]
    return next(row for row in rows if (row.source, row.engine, row.how, row.batch) == (source, engine, how, batch))


def speedups(results: Results) -> list[float | None]:
    """The speed-ups of all rows, in the order of charts."""
    return [row["speedup"] for row in plain(results.rows)]


def _row(name: str, batch: int) -> dict:
    each = MS_PER_IMAGE[name]
    median = each * (0.4 + 0.6 * batch)
    size = ENGINE_MB.get(name)
    asked = next((word for word in ("int8", "tf32", "fp16") if word in name), "fp32")
    return row(
        name, batch, asked, RAN_IN[asked], device=DEVICES.get(name, ENGINE["device"]),
        iterations=100 + batch, executions=8 * batch,
        mean_ms=1.02 * median, median_ms=median, p90_ms=1.05 * median, p95_ms=1.1 * median,
        p99_ms=1.2 * median, std_ms=0.05 * median, images_per_s=1000 * batch / median,
        size_bytes=int(size * 1e6) if size else None, peak_memory_bytes=int((200 + 10 * each) * 1e6),
    )  # fmt: skip


def sample_accuracy() -> list[dict]:
    """Accuracies with a paired interval for every engine but the reference."""
    rows = [score("pytorch-fp32", 95.0, 1000)]
    for name in ("fp32", "tf32", "fp16", "int8"):
        loss = round(95.0 - TOP1[name], 2)
        half = {"fp16": 0.2, "int8": 0.5}.get(name, 0.1)
        changed = {"fp16": 3, "int8": 12}.get(name, 0)
        rows.append(score(name, TOP1[name], 1000, loss, loss - half, loss + half, changed))
    return rows


def sample_results(batches: tuple[int, ...] = (1, 4, 8, 16, 32)) -> Results:
    """A complete set of results: a time a batch is a fixed part plus a part an image, so that throughput saturates."""
    check = {"engine": "fp32", "what": "outputs against PyTorch, relative error", "passed": True, "value": 1e-6}
    check |= {"limit": 1e-4, "message": "1e-06 of at most 1e-04"}
    about = {"versions": VERSIONS, "measured": "2026-01-02", "model": "resnet50", "data": "digits"}
    rows = [_row(name, batch) for name in MS_PER_IMAGE for batch in batches]
    return results_of(*rows, scored=sample_accuracy(), checks=[check], **about)


PARTS = ("latency", "throughput", "accuracy", "checks")


def write_folder(folder: Path, parts: Sequence[str] = PARTS, results: Results | None = None) -> Path:
    """Write a results folder as the pipeline does, with only the named parts."""
    results = results or sample_results()
    times = "name batch precision ran_in device iterations mean_ms median_ms p90_ms p95_ms p99_ms std_ms".split()
    content = summary(results, {})
    rows = {part: content[part] for part in ("accuracy", "checks")}
    rows["latency"] = _only([*times, "size_bytes", "peak_memory_bytes"], content["rows"])
    rows["throughput"] = _only(["name", "batch", "images_per_s", "executions"], content["rows"])
    folder.mkdir(parents=True, exist_ok=True)
    about = {key: content[key] for key in ("engine", "model", "data", "versions", "measured")}
    for part in parts:
        write(folder / f"{part}.json", {**about, "rows": rows[part]})
    return folder


def _only(keys: list[str], rows: list[dict]) -> list[dict]:
    return [{key: row[key] for key in keys} for row in rows]


ROW = {"name": "fp16", "batch": 8, "median_ms": 2.0, "mean_ms": 2.1, "images_per_s": 3900.0, "iterations": 200}
PARSED = {
    "format": "trtexec log", "source": "a.log", "model": "resnet50", "precision": "fp16", "batch": 8,
    "gpu": "TEST GPU", "tensorrt_version": "10.16.1", "command": "trtexec --loadEngine=e", "queries": 250,
    "images_per_s": 3900.0, "total_host_walltime_s": 0.5,
    "latency": {"min_ms": 1.9, "max_ms": 3.0, "mean_ms": 2.1, "median_ms": 2.0, "p99_ms": 2.9}, "notes": [],
}  # fmt: skip


def bench(*rows: object, **facts: Any) -> dict[str, Any]:
    """What `trtlab bench --output` writes."""
    return {"engine": ENGINE, "rows": list(rows), **facts}


def write(path: Path, content: Any) -> Path:
    """Write a JSON file and return its path."""
    path.write_text(json.dumps(content))
    return path


@contextlib.contextmanager
def edited(path: Path) -> Iterator[Any]:
    """Give a JSON file's content to change, and write it back."""
    content = json.loads(path.read_text())
    yield content
    write(path, content)
