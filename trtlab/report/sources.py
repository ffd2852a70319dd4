"""Several sources as one set of results: run folders, bench JSON files and parsed logs, of one machine or of several.

    bench        {"engine", "rows": [timings and images_per_s by name and batch]}; a run's summary.json is one, too
    parsed log   {"format", "precision", "batch", "gpu", "latency": {"mean_ms", …}, "images_per_s", "queries", …}

Headline and speed-ups are those of the first source's machine; every other machine only has charts of its own. A row
names its source if that has another machine or model, or if an earlier source has a row of the same engine.
"""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trtcpu.errors import InputError
from trtlab.report.folder import complete, damaged, facts, load_results, read, read_engine, records
from trtlab.report.results import NOT_NAMED, TIMES, Results, with_speedups

MOST_ROWS, MOST_BATCHES = 500, 32
_PARTS = ("found", "scored", "checks", "builds")


def load_sources(paths: Sequence[str | Path], device: str | None = None) -> Results:
    """Read every source (a folder or a file) and put them side by side.

    Args:
        device: what logs ran on that do not name their GPU.

    Raises:
        InputError: no source, one is given twice, damaged, or absent; or more rows than a report can show.
    """
    paths = [Path(path) for path in paths]
    twice = [path for path, count in Counter(path.resolve() for path in paths).items() if count > 1]
    if not paths or twice:
        raise InputError(f"--results names {twice[0]} twice; give it once" if twice else "--results names nothing")
    found = [
        load_file(path, device) if path.is_file() or path.suffix == ".json" else load_results(path) for path in paths
    ]
    results = found[0] if len(found) == 1 else _beside(found, _labels(paths))
    if len(results.rows) > MOST_ROWS or len(results.batches) > MOST_BATCHES:
        raise InputError(
            f"--results holds {len(results.rows):,} rows of {len(results.batches):,} batch sizes; a report shows at "
            f"most {MOST_ROWS} of {MOST_BATCHES}: give fewer sources, or measure fewer batch sizes"
        )
    return results


def _labels(paths: Sequence[Path]) -> list[str]:
    """Return a short name of each source: its stem, or its whole path if two have one stem."""
    counts = Counter(path.resolve().stem for path in paths)
    return [path.resolve().stem if counts[path.resolve().stem] == 1 else str(path) for path in paths]


def _beside(found: Sequence[Results], labels: Sequence[str]) -> Results:
    home, taken, parts = found[0], set(), {part: [] for part in _PARTS}
    models = _together([results.model for results in found if results.device == home.device])
    said = {"models": models} if models not in [results.model for results in found] else {}
    for results, label in zip(found, labels, strict=True):
        named = _named(results, home, label, taken)
        taken |= set(map(_place, named.found))
        for part in _PARTS:
            parts[part] += getattr(named, part)
    return dataclasses.replace(
        home,
        model=_together([results.model for results in found]),
        data=_together([results.data for results in found]),
        missing=[part for part in home.missing if all(part in results.missing for results in found)],
        settings={**home.settings, "sources": ", ".join(labels), **said},
        **parts,
    )


def _named(results: Results, home: Results, label: str, taken: set[tuple[Any, ...]]) -> Results:
    """Return the results whose rows say their source, if they must; `taken` is what earlier rows are of."""
    machine = results.device if results.device != home.device else None
    other_baseline = results.baseline != home.baseline
    other_model = NOT_NAMED not in (results.model, home.model) and results.model != home.model
    if machine or other_model or not taken.isdisjoint(map(_place, results.found)):
        parts = {
            part: [{**row, "source": row.get("source") or label} for row in getattr(results, part)] for part in _PARTS
        }
        results = dataclasses.replace(results, **parts)
    rows, scored = [{**row, "machine": row.get("machine") or machine} for row in results.found], results.scored
    if machine or other_baseline:  # ratios to something else would read as ratios to home's
        rows = [{**row, "speedup": None} for row in rows]
    if other_baseline:
        scored = [{**row, **dict.fromkeys(("loss", "loss_low", "loss_high", "changed"))} for row in scored]
    return dataclasses.replace(results, found=rows, scored=scored)


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    return row.get("source") or "", row["engine"], row.get("how"), row["batch"]


def _together(texts: Sequence[str]) -> str:
    named = list(dict.fromkeys(text for text in texts if text != NOT_NAMED))
    return ", ".join(named) or NOT_NAMED


def load_file(path: Path, device: str | None = None) -> Results:
    """Read a bench JSON or a parsed log, told apart by content.

    Args:
        device: what a log ran on that does not name its GPU.

    Raises:
        InputError: the file is neither, or is damaged.
    """
    try:
        content = read(path, "file of measurements")
    except InputError as error:
        raise InputError(f"{error}; a log of trtexec is read by trtlab parse-log first") from error
    if isinstance(content, dict) and "rows" in content:
        return _bench(path, content)
    if isinstance(content, dict) and "format" in content and "latency" in content:
        return _parsed(path, content, device)
    raise InputError(
        f"{path} is no JSON of trtlab bench --output, nor what trtlab parse-log makes of a log or an exportTimes"
        + (": it has the times of layers" if isinstance(content, dict) and "layers" in content else "")
        + "; write one of these first, or give a run's folder"
    )


def _bench(path: Path, content: dict[str, Any]) -> Results:
    engine = read_engine(path, content)
    if any("batch" not in row or "layer" in row for row in content["rows"]):
        raise InputError(f"{path} has rows that are no times by engine and batch; give the folder that it lies in")
    rows = [complete(row, engine) for row in records(path, content["rows"], ["batch"])]
    if not rows:
        raise InputError(f"{path} has no rows; measure first: trtlab bench --output {path}")
    for (_, engine_name, _, batch), count in Counter(map(_place, rows)).items():
        if count > 1:
            raise damaged(path, f"it has two rows of {engine_name!r} at batch {batch}")
    return _results(engine, rows, content)


def _parsed(path: Path, content: dict[str, Any], device: str | None) -> Results:
    if content.get("batch") is None:
        raise InputError(f"{path} does not say how many images a query had; read the log again with --batch")
    times = content["latency"] if isinstance(content["latency"], dict) else {}
    precision = content.get("precision") or content.get("logged_precision")
    values = {
        **{key: times.get(key) for key in TIMES},
        "images_per_s": content.get("images_per_s") or None,
        "name": precision.lower() if isinstance(precision, str) else path.stem,
        "precision": precision,
        "batch": content["batch"],
        "streams": content.get("streams") or None,
        "iterations": content.get("queries"),
    }
    if not (values["images_per_s"] or values["median_ms"] or values["mean_ms"]):
        raise InputError(f"{path} has neither a latency nor a throughput; give the whole log to trtlab parse-log again")
    (row,) = records(path, [values], ["batch"])
    engine = _engine(path, content, device)
    calls = row.get("iterations") or _calls(row, content.get("total_host_walltime_s"))
    return _results(engine, [complete({**row, "iterations": calls, "device": engine["device"]}, engine)], content)


def _calls(row: dict[str, Any], seconds: Any) -> int | None:
    """Return how many queries must have run in `seconds`; an excerpt of a log may not say it."""
    known = isinstance(seconds, (int, float)) and 0 < seconds < 1e9 and row.get("images_per_s")
    return round(row["images_per_s"] * seconds / row["batch"]) or None if known else None


def _engine(path: Path, content: dict[str, Any], device: str | None) -> dict[str, str]:
    """Return the engine as backend.describe() names one; a log of trtlab bench has the whole device as GPU."""
    version, gpu = (str(content.get(key) or "") for key in ("tensorrt_version", "gpu"))
    if ", " not in gpu and gpu:
        gpu = f"TensorRT {version}, {gpu}" if version else f"TensorRT, {gpu}"
    where = gpu or device or f"TensorRT, machine of {path.stem} (not named there; --device names it)"
    return {"name": "tensorrt" if where.startswith("TensorRT") else "cpu", "version": version, "device": where}


def _results(engine: dict[str, str], rows: list[dict[str, Any]], content: dict[str, Any]) -> Results:
    told = {"latency": ("median_ms", "mean_ms"), "throughput": ("images_per_s",)}
    missing = [part for part, keys in told.items() if not any(row.get(key) for row in rows for key in keys)]
    rows = rows if any(row.get("speedup") for row in rows) else with_speedups(rows)
    return Results(engine=engine, found=rows, missing=[*missing, "accuracy", "checks", "profile"], **facts([content]))
