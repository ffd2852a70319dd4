"""What `trtlab parse-log` does: turn any file that trtexec (or trtlab bench) wrote into one JSON object."""

import json
import re
from pathlib import Path
from typing import Any

from trtcpu.errors import InputError
from trtlab.trtexec.exports import summarise_export
from trtlab.trtexec.log import LogRun, parse_log_text, read_text

_ALWAYS = ("latency", "enqueue", "h2d", "compute", "d2h")
_OURS = ("model", "logged_batch", "given_batch", "traced")
_FULL = ("fp32", "tf32")
_LOWER = ("fp16", "bf16", "int8", "fp8", "int4")
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
        InputError: the file cannot be read, is none of the three, or is cut off; what was given contradicts the log.
    """
    text, source = read_text(path), str(path)
    given = {"source": source, "model": model, "precision": precision, "batch": batch}
    if exports := _exports(text, source):
        summary = summarise_export(_numbered(exports, number, source), source)
        notes = summary.pop("notes")
        if len(exports) > 1:
            notes.append(_one_of(exports, number or len(exports)))
        if "throughput_qps" in summary:
            summary["images_per_s"] = None if batch is None else summary["throughput_qps"] * batch
            notes += [] if batch else [_NO_BATCH]
        return {**given, **summary, "notes": notes}
    runs = parse_log_text(text, source)
    run = _chosen(runs, model, precision, batch) if number is None else _numbered(runs, number, source)
    _check(run, source, precision, batch)
    taken, notes = batch or run.batch, list(run.warnings)
    if len(runs) > 1:
        found = [run.said["model"], run.said["logged_precision"], f"batch {run.batch}" if run.batch else None]
        what = ", ".join(part for part in found if part) or "no model, precision or batch is logged"
        place = next(place for place, each in enumerate(runs, 1) if each is run)
        notes.append(_one_of(runs, place, f": {what}"))
    return {
        "source": source,
        "model": model or _model(run),
        "precision": precision or _as_precision(_allowed(run)),
        "batch": taken,
        "format": "trtexec log",
        **{key: value for key, value in run.said.items() if key not in _OURS},
        "queries": run.said["traced"] and run.said["traced"] // (run.implicit_batch or 1),
        "images_per_s": None if taken is None else run.images_per_s(taken),
        **dict.fromkeys(_ALWAYS),
        **run.metrics,
        "notes": notes + _about_the_batch(run, batch),
    }


def _exports(text: str, source: str) -> list[Any]:
    """Return the JSON of each run in the text; none when it is no JSON (a log's lines start with `[` as well)."""
    found, rest = [], text.lstrip()
    while rest:
        try:
            value, end = json.JSONDecoder().raw_decode(rest)
        except (ValueError, RecursionError) as error:
            if not found:
                return []
            raise InputError(f"{source}: JSON of {len(found)} runs, and then {rest[:40]!r}; export it again") from error
        found.append(value)
        rest = rest[end:].lstrip()
    return found


def _numbered(runs: list[Any], number: int | None, source: str) -> Any:
    """Return the run with this number, counted from 1; else the last."""
    if number is not None and not 1 <= number <= len(runs):
        raise InputError(f"--run {number}: {source} holds {len(runs)} runs; give 1 to {len(runs)}")
    return runs[(number or len(runs)) - 1]


def _one_of(runs: list[Any], number: int, what: str = "") -> str:
    return f"the file holds {len(runs)} runs; this is number {number}{what} (--run takes another)"


def _chosen(runs: list[LogRun], model: str | None, precision: str | None, batch: int | None) -> LogRun:
    """Return the last run that agrees best: first by its batch, then by its precision, then by its model."""

    def agreement(run: LogRun) -> tuple[bool, bool, bool]:
        return (
            batch is None or run.batch in (None, batch),
            precision is None or "+".join(_allowed(run)) == precision.lower(),
            model is None or model in (run.said["model"] or ""),
        )

    return max(reversed(runs), key=agreement)


def _about_the_batch(run: LogRun, given: int | None) -> list[str]:
    """Say what was taken as the batch where a first dimension may not be one."""
    inputs = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in run.shapes.items())
    if given is None and run.batch is None:
        return [f"{_NO_BATCH} (inputs: {inputs})" if inputs else _NO_BATCH]
    if run.is_sure_of_its_batch or run.batch == given:
        return []
    return [f"batch {given or run.batch} {'was given' if given else 'is the first dimension'}; inputs: {inputs}"]


def _check(run: LogRun, source: str, precision: str | None, batch: int | None) -> None:
    """Raise InputError where the batch or the precision that was given is not the log's."""
    if batch is not None and run.batch not in (None, batch) and run.is_sure_of_its_batch:
        raise InputError(f"--batch {batch} contradicts {source}: batch {run.batch} ran there; leave out --batch")
    allowed = _allowed(run)
    if precision is None or not allowed:
        return
    asked = precision.lower().split("+")
    lower, full = set(asked) - {*_FULL}, set(allowed) <= {*_FULL}
    if lower <= {*_LOWER} and (not lower <= {*allowed} or not lower and not full):
        logged = "+".join(allowed).upper()
        raise InputError(f"--precision {precision} contradicts {source}: it says {logged}; leave out --precision")


def _allowed(run: LogRun) -> list[str]:
    """Return the precisions that the build was allowed, as logged or asked for by flags; none where neither says it.

    A run that loads an engine logs defaults, which say nothing.
    """
    command, logged = run.said["command"] or "", run.said["logged_precision"]
    if "--loadEngine" in command:
        return []
    flags = [name for name in _LOWER if re.search(rf"--{name}(?!\S)", command)]
    return logged.lower().split("+") if logged else ["fp32", *flags] if flags else []


def _as_precision(allowed: list[str]) -> str | None:
    """Return fp32 and fp16 as our own names say it: "fp16"."""
    lower = sorted((name for name in allowed if name not in _FULL), key=lambda name: name != "int8")
    return "+".join(lower or allowed) or None


def _model(run: LogRun) -> str | None:
    given = _SOURCE.search(run.said["command"] or "")
    model = run.said["model"] or (given[1].strip("'\"") if given else None)
    return Path(model).stem if model else None
