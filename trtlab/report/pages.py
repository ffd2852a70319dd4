"""The report of what was measured: report.html (one self-contained file), report.md, summary.json, measurements.csv
and the charts.

Everything is computed from the JSON files of the sources; what was not measured is named as not measured.
"""

import base64
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from helpers.tools.files import atomic_write, write_json
from trtlab.report.charts import dark_charts, draw_charts
from trtlab.report.findings import SATURATION_RULE, deploy, figures, findings, headline, most_layers
from trtlab.report.results import WORDS, Results, pretty, summary
from trtlab.report.sources import load_sources
from trtlab.stats import MOST_APART, TAILS, least_calls

# Chart name → heading and caption; the baseline is that of the results at hand.
CAPTIONS = {
    "latency_by_precision": (
        "Latency by precision and batch size",
        "Median latency of one batch, input and output buffers resident; "
        "the line reaches to p99, where enough calls were timed for one.",
    ),
    "throughput_by_batch": (
        "Throughput against batch size",
        f"Images per second. The ring marks the first batch from which {SATURATION_RULE}.",
    ),
    "speedup": ("Speed-up", "Throughput against {baseline} at the same batch size, measured in the same run."),
    "accuracy_speedup": (
        "Accuracy and speed-up",
        "What the speed costs: top-1 with the 95 % interval of its difference to {baseline}, and the speed-up.",
    ),
    "size_memory": ("Size and memory", "The model or engine file, and the peak memory while it ran."),
}
# The tidy table: a row for each figure, for a notebook or a spreadsheet.
TABLE = "measurements.csv"
NOT_MEASURED = {
    "latency": "latency (latency.json)",
    "throughput": "throughput (throughput.json)",
    "accuracy": "accuracy (accuracy.json)",
    "checks": "checks of the engines (checks.json)",
    "profile": "time by layer and roofline (profile.json)",
}


@dataclasses.dataclass(frozen=True)
class Report:
    """Where a report lies, and the results and headline numbers that it shows."""

    html: Path
    markdown: Path
    summary: Path
    charts: dict[str, Path]
    results: Results
    headline: list[tuple[str, str, str]]


def make_report(
    sources: str | Path | Sequence[str | Path], out: str | Path | None = None, device: str | None = None
) -> Report:
    """Read the sources and write charts/, report.html, report.md, summary.json and measurements.csv.

    Args:
        sources: run folders, bench JSON files and parsed logs; one, or several side by side.
        out: the folder to write to; by default the one run's folder, else `report` beside the first source.
        device: what logs ran on that do not name their GPU.

    Raises:
        InputError: nothing measured there, damaged files, or the folder cannot be written to.
    """
    paths = [Path(path) for path in ([sources] if isinstance(sources, (str, Path)) else sources)]
    results = load_sources(paths, device)
    beside = paths[0] if len(paths) == 1 and paths[0].is_dir() else paths[0].parent / "report"
    folder = Path(out or beside)
    charts = draw_charts(results, folder / "charts")
    content = _content(results, charts, folder)
    report = Report(
        folder / "report.html", folder / "report.md", folder / "summary.json", charts, results, content["headline"]
    )
    atomic_write(report.html, _render("report.html.j2", content))
    atomic_write(report.markdown, _render("report.md.j2", content))
    table = results.table[[*WORDS, "batch", "figure", "value", "n", "unit"]]
    atomic_write(folder / TABLE, table.to_csv(index=False))
    write_json(report.summary, summary(results, _files(folder, report)))
    return report


def _content(results: Results, charts: dict[str, Path], folder: Path) -> dict[str, Any]:
    """Return what the templates need; charts with their path inside the folder and as data URIs, light and dark."""
    dark = dark_charts(results)
    return {
        "results": results,
        "deploy": deploy(results),
        "ran": most_layers(results),
        "headline": headline(results),
        "findings": findings(results),
        "tables": report_tables(results),
        "charts": [
            {
                "title": CAPTIONS[name.partition("-")[0]][0],
                "path": path.relative_to(folder).as_posix(),
                "uri": _uri(path.read_bytes()),
                "dark": _uri(dark[name]),
                "caption": CAPTIONS[name.partition("-")[0]][1].format(baseline=pretty(results.baseline)),
            }
            for name, path in charts.items()
        ],
        "not_measured": [NOT_MEASURED[part] for part in results.missing],
    }


def _uri(image: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(image).decode()


def _render(template: str, content: dict[str, Any]) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=lambda name: bool(name) and ".html" in name,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters["cell"] = lambda text: str(text).replace("|", "\\|").replace("\n", " ")
    return environment.get_template(template).render(content)


def _files(folder: Path, report: Report) -> dict[str, str]:
    """Return every file of the folder that a reader may want, by role, as paths relative to the folder."""
    known = {
        "report_html": report.html,
        "report_md": report.markdown,
        "table": folder / TABLE,
        **{f"chart_{name}": path for name, path in report.charts.items()},
        **{f"chart_{name}_svg": path.with_suffix(".svg") for name, path in report.charts.items()},
        **{part: path for part in NOT_MEASURED if (path := folder / f"{part}.json").is_file()},
    }
    for place in ("models/*.onnx", "engines/*.engine", "calibration/*.cache"):
        known |= {f"{path.suffix[1:]}_{path.stem}": path for path in sorted(folder.glob(place))}
    return {role: path.relative_to(folder).as_posix() for role, path in known.items()}


SLOWEST_LAYERS = 5
SIGN = "‡"


def report_tables(results: Results) -> list[dict[str, Any]]:
    """Return the tables of what was measured, in the report's order.

    Each is "title", "columns" and "rows" of text, "note", "words" (how many of the first columns read from the left)
    and "group" (the column where a change draws a line).
    """
    made = (table(results) for table in (_latencies, _rates, _accuracies, _checks, _builds, _layers))
    return [table for table in made if table and table["rows"]]


Table = dict[str, Any]
Columns = dict[str, tuple[str, Callable[[Any], str]]]


_LATENCY_COLUMNS: Columns = {
    "title": ("engine", str),
    "ran": ("ran in", str),
    "batch": ("batch", "{:.0f}".format),
    "iterations": ("n calls", "{:,.0f}".format),
    "mean_ms": ("mean ms", figures),
    "median_ms": ("median ms", figures),
    "p90_ms": ("p90 ms", figures),
    "p95_ms": ("p95 ms", figures),
    "p99_ms": ("p99 ms", figures),
    "std_ms": ("std ms", figures),
}
_RATE_COLUMNS: Columns = {
    "title": ("engine", str),
    "ran": ("ran in", str),
    "batch": ("batch", "{:.0f}".format),
    "executions": ("n executions", "{:,.0f}".format),
    "images_per_s": ("images/s", "{:,.1f}".format),
    "speedup": ("speed-up", "{:.2f}×".format),
    "size_bytes": ("file MB", lambda value: figures(value / 1e6)),
    "peak_memory_bytes": ("peak memory MB", lambda value: f"{value / 1e6:,.0f}"),
}
_ACCURACY_COLUMNS: Columns = {
    "title": ("engine", str),
    "num_samples": ("n images", "{:,.0f}".format),
    "top1": ("top-1 %", "{:.2f}".format),
    "top5": ("top-5 %", "{:.2f}".format),
    "loss": ("loss, points", "{:+.2f}".format),
    "loss_low": ("from", "{:+.2f}".format),
    "loss_high": ("to", "{:+.2f}".format),
    "changed": ("images judged otherwise", "{:.0f}".format),
}


_CHECK_COLUMNS: Columns = {
    "passed": ("", {True: "✓", False: "✗"}.get),
    "title": ("engine", str),
    "what": ("what was checked", str),
    "message": ("found", str),
}
_BUILD_COLUMNS: Columns = {
    "title": ("engine", str),
    "precision": ("asked", str.upper),
    "profile": ("batches min–opt–max", str),
    "layers": ("layers", str),
    "layer_precisions": ("layers run in", str),
    "calibration": ("calibrated", str),
    "seconds": ("build s", "{:.1f}".format),
}
_LAYER_COLUMNS: Columns = {
    "layer": ("layer", str),
    "layer_type": ("type", str),
    "precision": ("precision", str),
    "time_ms": ("ms", "{:.3f}".format),
    "share_percent": ("share %", "{:.1f}".format),
    "intensity": ("FLOP/byte", "{:,.1f}".format),
    "bound": ("bound by", str),
    "roof_percent": ("% of roof", "{:,.1f}".format),
}


def _latencies(results: Results) -> Table | None:
    if results.rows.typical_ms.isna().all():
        return None
    needs = ", ".join(f"p{percent} {least_calls(percent)}" for percent in TAILS)
    note = f"Times are for one batch, over n calls. Calls that a percentile needs: {needs}; – where there were fewer."
    return _by_batch("Latency", results, _LATENCY_COLUMNS, note)


def _rates(results: Results) -> Table | None:
    if results.rows[["images_per_s", "size_bytes"]].isna().all(axis=None):
        return None
    base = pretty(results.baseline)
    note = f"Speed-up is throughput over {base}'s at the same batch, in the same run."
    if results.lines("speedup").empty:
        here = results.rows[(results.rows.engine == results.baseline) & results.rows.elsewhere.isna()]
        wrong = here.apart[here.machine.isna()].notna().any()
        why = "'s throughput and latency contradict each other" if wrong else " was not measured on this device"
        note = f"No speed-up: {base}{why}."
    return _by_batch("Throughput, size and memory", results, _RATE_COLUMNS, note)


def _by_batch(title: str, results: Results, columns: Columns, note: str) -> Table:
    """Return a table ordered by batch; a sign marks rows that contradict themselves."""
    rows = results.rows.sort_values("batch", kind="stable")
    rows = rows.assign(title=rows.title + rows.apart.notna().map({True: f" {SIGN}", False: ""}))
    if rows.apart.notna().any():
        note += f" {SIGN}: throughput and latency are more than {MOST_APART:g} times apart; measure again."
    return _formatted(title, rows, columns, note, "batch", 2)


def _accuracies(results: Results) -> Table:
    base = pretty(results.baseline)
    note = f"Loss is {base}'s top-1 less this one's, in points, with its 95 % interval (same images, paired)."
    left_out = results.engines[~results.engines.title.isin(results.accuracy.title)].title
    if len(left_out):
        note += f" Not evaluated: {', '.join(left_out)}."
    return _formatted("Accuracy", results.accuracy, _ACCURACY_COLUMNS, note)


def _checks(results: Results) -> Table:
    return _formatted("Checks", _titled(results, results.checks), _CHECK_COLUMNS, words=4)


def _builds(results: Results) -> Table:
    note = "Layers are counted after fusion, as the engine's inspector gives them."
    if any(" at " in build["profile"] for build in results.builds):
        note += " Other axes than the batch (N) vary, too; all times are at the shapes that stand after the batches."
    return _formatted("Engines", _titled(results, results.builds), _BUILD_COLUMNS, note)


def _titled(results: Results, rows: list[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame([{**row, "title": results.title(row["engine"], row.get("source"))} for row in rows])


def _layers(results: Results) -> Table | None:
    if not results.layers:
        return None
    slowest = pd.DataFrame(results.layers).sort_values("time_ms", ascending=False, kind="stable")[:SLOWEST_LAYERS]
    first = slowest.iloc[0]
    title = f"Slowest layers of {results.title(first.engine)} at batch {first.batch}"
    note = f"ms is the median of {first.executions:.0f} executions. " if pd.notna(first.get("executions")) else ""
    note += "The roofline was measured on this machine in the same run."
    return _formatted(title, slowest, _LAYER_COLUMNS, note, words=3)


def _formatted(
    title: str, frame: pd.DataFrame, columns: Columns, note: str = "", group: str = "", words: int = 1
) -> Table:
    """Return the columns of `frame` as text; what was not measured is a dash."""
    rows = [
        ["–" if pd.isna(record[key]) else text(record[key]) for key, (_, text) in columns.items()]
        for record in frame.reindex(columns=list(columns)).to_dict("records")
    ]
    headers = [header for header, _ in columns.values()]
    return {"title": title, "columns": headers, "rows": rows, "note": note, "words": words, "group": group}
