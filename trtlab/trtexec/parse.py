"""What `trtlab parse-log` does: turn any file that trtexec (or trtlab bench) wrote into one JSON object."""

import json
import re
from pathlib import Path
from typing import Any

from trtcpu.errors import InputError
from trtlab.trtexec.exports import summarise_export
from trtlab.trtexec.log import METRICS, parse_log_text, read_text
from trtlab.trtexec.run import LogRun

_ALWAYS = [metric for metric in METRICS.values() if metric != "end_to_end"]
_KNOWN = {"fp32", "tf32", "fp16", "bf16", "int8", "fp8", "int4"}
_FULL = {"fp32", "tf32"}
_FLAGS = ("fp16", "bf16", "int8", "fp8", "int4")
_SOURCE = re.compile(r"--(?:onnx|deploy|uff)=(\S+)")
_NO_BATCH = "how many images a query had is not said, so images/s is open: give --batch"


def parse_file(
    path: str | Path,
    model: str | None = None,
    precision: str | None = None,
    batch: int | None = None,
    number: int | None = None,
) -> dict[str, Any]:
    """Read a log, an exportTimes or an exportProfile (told apart by content) and describe the run it holds.

    Of several summaries in one log the last that agrees with `batch`, `precision` and `model` is taken, or the one with
    this `number`, counted from 1; `notes` says so. What is not given is taken from the log, and None where a log does
    not say it. Without a batch images/s is None.

    Raises:
        InputError: the file cannot be read, is none of the three, or is cut off; the batch is not positive; what was
            given contradicts the log.
    """
    if batch is not None and batch < 1:
        raise InputError(f"--batch must be 1 or more, not {batch}")
    text = read_text(path)
    exports = _exports(text, str(path))
    if not exports:
        runs = parse_log_text(text, str(path))
        return {"source": str(path), **_from_log(runs, str(path), model, precision, batch, number)}
    summary = summarise_export(_numbered(exports, number, str(path)), str(path))
    notes = summary.pop("notes")
    if len(exports) > 1:
        notes.append(_one_of(exports, number or len(exports)))
    if "throughput_qps" in summary:
        summary["images_per_s"] = None if batch is None else summary["throughput_qps"] * batch
        notes += [] if batch else [_NO_BATCH]
    return {"source": str(path), "model": model, "precision": precision, "batch": batch, **summary, "notes": notes}


def _exports(text: str, source: str) -> list[Any]:
    """Return the JSON of each run in the text; none when it is no JSON (a log's lines start with `[` as well)."""
    found, place = [], 0
    while rest := text[place:].lstrip():
        try:
            value, length = json.JSONDecoder().raw_decode(rest)
        except (ValueError, RecursionError) as error:
            if not found:
                return []
            raise InputError(f"{source}: JSON of {len(found)} runs, and then {rest[:40]!r}; export it again") from error
        found.append(value)
        place = len(text) - len(rest) + length
    return found


def _numbered(runs: list[Any], number: int | None, source: str) -> Any:
    """Return the run with this number, counted from 1; else the last."""
    if number is not None and not 1 <= number <= len(runs):
        raise InputError(f"--run {number}: {source} holds {len(runs)} runs; give 1 to {len(runs)}")
    return runs[(number or len(runs)) - 1]


def _one_of(runs: list[Any], number: int, what: str = "") -> str:
    return f"the file holds {len(runs)} runs; this is number {number}{what} (--run takes another)"


def _chosen(
    runs: list[LogRun], source: str, given: tuple[str | None, str | None, int | None], number: int | None
) -> LogRun:
    """Return the run with this number, else the last one that agrees with what was given, as far as any does."""
    if number is not None:
        return _numbered(runs, number, source)
    model, precision, batch = given
    agree = (
        lambda run: batch is None or run.batch in (None, batch),
        lambda run: precision is None or (_allowed(run) or "").lower() == precision.lower(),
        lambda run: model is None or model in (run.model or ""),
    )
    for rule in agree:
        runs = [run for run in runs if rule(run)] or runs
    return runs[-1]


def _from_log(
    runs: list[LogRun], source: str, model: str | None, precision: str | None, batch: int | None, number: int | None
) -> dict[str, Any]:
    run = _chosen(runs, source, (model, precision, batch), number)
    _check(run, source, precision, batch)
    notes = list(run.warnings)
    if len(runs) > 1:
        found = [run.model, run.precision, f"batch {run.batch}" if run.batch else None]
        what = ", ".join(part for part in found if part) or "no model, precision or batch is logged"
        notes.append(_one_of(runs, runs.index(run) + 1, f": {what}"))
    if run.throughput_qps == 0:
        notes.append(f"trtexec printed 0 qps: the throughput is {run.logged_queries:,} queries by their time")
    taken = batch or run.batch
    notes += _about_the_batch(run, batch)
    return {
        "model": model or _model(run),
        "precision": precision or _as_precision(_allowed(run)),
        "batch": taken,
        "format": "trtexec log",
        "tensorrt_version": run.tensorrt_version,
        "gpu": run.device,
        "workspace_mb": run.workspace_mb,
        "logged_precision": run.precision,
        "command": run.command,
        "passed": run.passed,
        "queries": run.queries,
        "streams": run.streams,
        "throughput_qps": run.qps,
        "images_per_s": None if taken is None else run.images_per_s(taken),
        **dict.fromkeys(_ALWAYS),
        **run.metrics,
        "total_host_walltime_s": run.total_host_walltime_s,
        "total_compute_s": run.total_compute_s,
        "notes": notes,
    }


def _about_the_batch(run: LogRun, given: int | None) -> list[str]:
    """Say what was taken as the batch where a first dimension may not be one."""
    first = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in run.shapes.items())
    if given is None and run.batch is None:
        return [f"{_NO_BATCH} (inputs: {first})" if first else _NO_BATCH]
    if run.counts_images or run.is_sure_of_its_batch or run.batch == given:
        return []
    return [f"batch {given or run.batch} {'was given' if given else 'is the first dimension'}; inputs: {first}"]


def _check(run: LogRun, source: str, precision: str | None, batch: int | None) -> None:
    """Raise InputError where the batch or the precision that was given is not the log's."""
    if batch is not None and run.batch not in (None, batch) and (run.counts_images or run.is_sure_of_its_batch):
        raise InputError(f"--batch {batch} contradicts {source}: batch {run.batch} ran there; leave out --batch")
    logged = _allowed(run)
    if precision is None or logged is None:
        return
    asked, allowed = set(precision.lower().split("+")), set(logged.lower().split("+"))
    if asked <= _KNOWN and (not asked - _FULL <= allowed or (asked <= _FULL and allowed - _FULL)):
        raise InputError(f"--precision {precision} contradicts {source}: it says {logged}; leave out --precision")


def _allowed(run: LogRun) -> str | None:
    """Return the precisions that the build was allowed, as logged or asked for by flags ("FP32+INT8").

    A run that loads an engine logs defaults, which say nothing.
    """
    command = run.command or ""
    if "--loadEngine" in command:
        return None
    flags = [name.upper() for name in _FLAGS if re.search(rf"--{name}(?!\S)", command)]
    return run.precision or ("+".join(["FP32", *flags]) if flags else None)


def _as_precision(logged: str | None) -> str | None:
    """Return the log's "FP32+FP16" as our own names say it: "fp16"."""
    if logged is None:
        return None
    parts = [part for part in logged.lower().split("+") if part]
    lower = [part for part in parts if part not in _FULL]
    return "+".join(sorted(lower, key=lambda part: part != "int8")) or "+".join(parts)


def _model(run: LogRun) -> str | None:
    given = _SOURCE.search(run.command or "")
    model = run.model or (given[1].strip("'\"") if given else None)
    return Path(model).stem if model else None
