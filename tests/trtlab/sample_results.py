"""Made-up measurements for tests of tables, charts and reports. No number here was measured anywhere."""

import json
from pathlib import Path

from trtlab.report.results import AccuracyRow, CheckRow, Results, Row, with_speedup

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


def sample_rows(batches: tuple[int, ...] = (1, 4, 8, 16, 32)) -> list[Row]:
    """Rows whose time a batch is a fixed part plus a part an image, so that throughput saturates."""
    return with_speedup([_row(name, batch) for name in MS_PER_IMAGE for batch in batches])


def _row(name: str, batch: int) -> Row:
    each = MS_PER_IMAGE[name]
    median = each * (0.4 + 0.6 * batch)
    size = ENGINE_MB.get(name)
    asked = next((word for word in ("int8", "tf32", "fp16") if word in name), "fp32")
    return Row(
        name, batch, precision=asked, ran_in=RAN_IN[asked], device=DEVICES.get(name, ENGINE["device"]),
        iterations=100 + batch, executions=8 * batch,
        mean_ms=1.02 * median, median_ms=median, p90_ms=1.05 * median, p95_ms=1.1 * median,
        p99_ms=1.2 * median, std_ms=0.05 * median, images_per_s=1000 * batch / median,
        size_bytes=int(size * 1e6) if size else None,
        peak_memory_bytes=int((200 + 10 * each) * 1e6), top1=TOP1.get(name), top5=99.5 if name in TOP1 else None,
    )  # fmt: skip


def sample_accuracy() -> list[AccuracyRow]:
    """Accuracies with a paired interval for every engine but the reference."""
    rows = [AccuracyRow("pytorch-fp32", 95.0, 99.5, 1000)]
    for name in ("fp32", "tf32", "fp16", "int8"):
        loss = round(95.0 - TOP1[name], 2)
        half = {"fp16": 0.2, "int8": 0.5}.get(name, 0.1)
        changed = {"fp16": 3, "int8": 12}.get(name, 0)
        rows.append(AccuracyRow(name, TOP1[name], 99.5, 1000, loss, loss - half, loss + half, changed))
    return rows


def sample_results(batches: tuple[int, ...] = (1, 4, 8, 16, 32)) -> Results:
    """A complete set of results."""
    checks = [CheckRow("fp32", "outputs against PyTorch, relative error", True, 1e-6, 1e-4, "1e-06 of at most 1e-04")]
    about = {"versions": VERSIONS, "measured": "2026-01-02"}
    return Results(ENGINE, "resnet50", "digits", sample_rows(batches), sample_accuracy(), checks, **about)


def write_folder(folder: Path, parts: tuple[str, ...] = ("latency", "throughput", "accuracy", "checks")) -> Path:
    """Write a results folder as the pipeline does, with only the named parts."""
    results = sample_results()
    timings = "name batch precision ran_in device iterations mean_ms median_ms p90_ms p95_ms p99_ms std_ms".split()
    timings += ["size_bytes", "peak_memory_bytes"]
    rates = ("name", "batch", "images_per_s", "executions")
    rows = {
        "latency": [{key: getattr(row, key) for key in timings} for row in results.rows],
        "throughput": [{key: getattr(row, key) for key in rates} for row in results.rows],
        "accuracy": [vars(row) for row in results.accuracy],
        "checks": [vars(row) for row in results.checks],
    }
    folder.mkdir(parents=True, exist_ok=True)
    for part in parts:
        about = {"versions": VERSIONS, "measured": "2026-01-02"}
        content = {"engine": ENGINE, "model": "resnet50", "data": "digits", **about, "rows": rows[part]}
        (folder / f"{part}.json").write_text(json.dumps(content))
    return folder
