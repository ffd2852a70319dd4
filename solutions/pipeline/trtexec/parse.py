"""What `trtlab parse-log` does: turn any file that trtexec (or trtlab bench) wrote into one JSON object."""

import json
from pathlib import Path
from typing import Any

from helpers.errors import InputError
from solutions.pipeline.trtexec.exports import summarise_export
from solutions.pipeline.trtexec.log import LogRun, parse_log_text, read_text

__all__ = ["parse_file"]


def parse_file(path: str | Path, model: str, precision: str, batch: int) -> dict[str, Any]:
    """Read a log, an exportTimes or an exportProfile (told apart by content) and describe the run it holds.

    A file with several summaries gives the last one that agrees with `batch`, `precision` and `model`; `notes` says so.

    Raises:
        InputError: the file cannot be read, is none of the three, or is cut off; or the batch is not positive.
    """
    if batch < 1:
        raise InputError(f"--batch must be 1 or more, not {batch}")
    text = read_text(path)
    described: dict[str, Any] = {"source": str(path), "model": model, "precision": precision, "batch": batch}
    exported = _as_json(text)
    if exported is None:
        return described | _from_log(parse_log_text(text, str(path)), model, precision, batch)
    summary = summarise_export(exported, str(path))
    if "throughput_qps" in summary:
        summary["images_per_s"] = summary["throughput_qps"] * batch
    return described | summary


def _as_json(text: str) -> Any:
    """Return the parsed text, or None when it is no JSON (a log's lines start with `[` as well)."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _chosen(runs: list[LogRun], model: str, precision: str, batch: int) -> LogRun:
    """Return the last run whose batch, precision and model agree with what was asked for, as far as any does."""
    agree = (
        lambda run: _logged_batch(run) in (None, batch),
        lambda run: (run.precision or "").lower() == precision.lower(),
        lambda run: model in (run.model or ""),
    )
    for rule in agree:
        runs = [run for run in runs if rule(run)] or runs
    return runs[-1]


def _from_log(runs: list[LogRun], model: str, precision: str, batch: int) -> dict[str, Any]:
    run = _chosen(runs, model, precision, batch)
    notes = list(run.warnings)
    if _logged_batch(run) not in (None, batch):
        notes.append(f"--batch {batch}, but the log says that batch {_logged_batch(run)} ran; check images_per_s")
    if len(runs) > 1:
        found = [run.model, run.precision, f"batch {_logged_batch(run)}" if _logged_batch(run) else None]
        what = ", ".join(part for part in found if part) or "no model, precision or batch is logged"
        notes.append(f"the log holds {len(runs)} summaries; this is the last that fits: {what}")
    return {
        "format": "trtexec log",
        "tensorrt_version": run.tensorrt_version,
        "gpu": run.device,
        "logged_precision": run.precision,
        "command": run.command,
        "passed": run.passed,
        "queries": run.queries,
        "throughput_qps": run.throughput_qps,
        "images_per_s": run.images_per_s(batch),
        **run.metrics,
        "total_host_walltime_s": run.total_host_walltime_s,
        "total_compute_s": run.total_compute_s,
        "notes": notes,
    }


def _logged_batch(run: LogRun) -> int | None:
    return run.implicit_batch or run.shape_batch
