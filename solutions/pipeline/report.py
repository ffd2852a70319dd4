"""The report of a results folder: report.html (one self-contained file), report.md, summary.json and the charts.

Everything is computed from the folder's JSON files; what was not measured is named as not measured.
"""

import base64
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from helpers.files import atomic_write, write_json
from solutions.pipeline.charts import draw_charts
from solutions.pipeline.findings import findings, headline
from solutions.pipeline.results import Results, accuracy_table, measurement_table, pretty_name, summary
from solutions.pipeline.results_folder import load_results

__all__ = ["CAPTIONS", "Report", "make_report"]

CAPTIONS = {
    "latency_by_precision": (
        "Latency by precision and batch size",
        "Median latency of one batch, input and output buffers resident; the line reaches to p99.",
    ),
    "throughput_by_batch": (
        "Throughput against batch size",
        "Images per second. The ring marks where doubling the batch gains less than 10 %.",
    ),
    "speedup": ("Speed-up", "Throughput against PyTorch FP32 at the same batch size, measured in the same run."),
    "accuracy_speedup": (
        "Accuracy against speed-up",
        "What the speed costs: top-1 against speed-up. Up and to the right is better.",
    ),
    "size_memory": ("Size and memory", "The model or engine file, and the peak memory while it ran."),
}
"""Chart name → heading and caption."""
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


@dataclasses.dataclass(frozen=True)
class _Table:
    """A table as both templates print it: cells are text; numeric columns are right-aligned."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str = ""


def make_report(folder: str | Path) -> Report:
    """Read the results in `folder` and write charts/, report.html, report.md and summary.json into it.

    Raises:
        InputError: nothing measured there, damaged files, or the folder cannot be written to.
    """
    folder = Path(folder)
    results = load_results(folder)
    charts = draw_charts(results, folder / "charts")
    content = _content(results, charts, folder)
    html, markdown = folder / "report.html", folder / "report.md"
    atomic_write(html, _render("report.html.j2", content))
    atomic_write(markdown, _render("report.md.j2", content))
    report = Report(html, markdown, folder / "summary.json", charts, results, content["headline"])
    write_json(report.summary, summary(results, _files(folder, report)))
    return report


def _content(results: Results, charts: dict[str, Path], folder: Path) -> dict[str, Any]:
    """Return what the templates need; charts with their path inside the folder and their bytes as a data URI."""
    return {
        "results": results,
        "headline": headline(results),
        "findings": findings(results),
        "tables": [table for table in (_measurements(results), _accuracies(results), _checks(results)) if table],
        "charts": [
            {
                "title": CAPTIONS[name][0],
                "path": path.relative_to(folder).as_posix(),
                "uri": "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode(),
                "caption": CAPTIONS[name][1],
            }
            for name, path in charts.items()
        ],
        "not_measured": [NOT_MEASURED[part] for part in results.missing],
    }


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


_MEASUREMENT_COLUMNS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "name": ("engine", pretty_name),
    "batch": ("batch", "{:.0f}".format),
    "mean_ms": ("mean ms", "{:.2f}".format),
    "median_ms": ("median ms", "{:.2f}".format),
    "p90_ms": ("p90 ms", "{:.2f}".format),
    "p95_ms": ("p95 ms", "{:.2f}".format),
    "p99_ms": ("p99 ms", "{:.2f}".format),
    "std_ms": ("std ms", "{:.2f}".format),
    "images_per_s": ("images/s", "{:,.1f}".format),
    "speedup": ("speed-up", "{:.2f}×".format),
    "size_bytes": ("file MB", lambda value: f"{value / 1e6:.1f}"),
    "peak_memory_bytes": ("peak memory MB", lambda value: f"{value / 1e6:,.0f}"),
}
_ACCURACY_COLUMNS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "name": ("engine", pretty_name),
    "num_samples": ("images", "{:,.0f}".format),
    "top1": ("top-1 %", "{:.2f}".format),
    "top5": ("top-5 %", "{:.2f}".format),
    "loss": ("loss, points", "{:+.2f}".format),
    "loss_low": ("from", "{:+.2f}".format),
    "loss_high": ("to", "{:+.2f}".format),
    "changed": ("images judged otherwise", "{:.0f}".format),
}


def _measurements(results: Results) -> _Table | None:
    if not results.rows:
        return None
    note = "Times are for one batch. Speed-up is throughput over PyTorch FP32's at the same batch, in the same run."
    return _formatted("Latency, throughput, size and memory", measurement_table(results), _MEASUREMENT_COLUMNS, note)


def _accuracies(results: Results) -> _Table | None:
    if not results.accuracy:
        return None
    note = "Loss is PyTorch FP32's top-1 less this one's, in points, with its 95 % interval (same images, paired)."
    return _formatted("Accuracy", accuracy_table(results), _ACCURACY_COLUMNS, note)


def _checks(results: Results) -> _Table | None:
    if not results.checks:
        return None
    rows = [["✓" if row.passed else "✗", pretty_name(row.name), row.what, row.message] for row in results.checks]
    return _Table("Checks", ["", "engine", "what was checked", "found"], rows)


def _formatted(
    title: str, frame: pd.DataFrame, columns: dict[str, tuple[str, Callable[[Any], str]]], note: str
) -> _Table:
    """Return the measured columns of `frame` as text; a column that nobody measured is left out, a gap is a dash."""
    used = {key: column for key, column in columns.items() if frame[key].notna().any()}
    rows = [
        ["–" if pd.isna(record[key]) else text(record[key]) for key, (_, text) in used.items()]
        for record in frame.to_dict("records")
    ]
    return _Table(title, [header for header, _ in used.values()], rows, note)


def _files(folder: Path, report: Report) -> dict[str, str]:
    """Return every file of the folder that a reader may want, by role, as paths relative to the folder."""
    known = {"report_html": report.html, "report_md": report.markdown}
    known |= {f"chart_{name}": path for name, path in report.charts.items()}
    known |= {part: folder / f"{part}.json" for part in NOT_MEASURED if part not in report.results.missing}
    for place in ("models/*.onnx", "engines/*.engine", "calibration/*.cache"):
        kind = Path(place).suffix[1:]
        known |= {f"{kind}_{path.stem}": path for path in sorted(folder.glob(place))}
    return {role: path.relative_to(folder).as_posix() for role, path in known.items()}
