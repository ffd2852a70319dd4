"""The report of what was measured: report.html (one self-contained file), report.md, summary.json, measurements.csv
and the charts.

Everything is computed from the JSON files of the sources; what was not measured is named as not measured.
"""

import base64
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2

from helpers.tools.files import atomic_write, write_json
from trtlab.report.charts import dark_charts, draw_charts
from trtlab.report.findings import SATURATION_RULE, deploy, findings, headline, most_layers
from trtlab.report.results import Results, summary
from trtlab.report.sources import load_sources
from trtlab.report.table import WORDS, pretty
from trtlab.report.tables import report_tables

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
"""Chart name → heading and caption; the baseline is that of the results at hand."""
TABLE = "measurements.csv"
"""The tidy table: a row for each figure, for a notebook or a spreadsheet."""
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
    folder = Path(out) if out else report_folder(paths)
    charts = draw_charts(results, folder / "charts")
    content = _content(results, charts, folder)
    html, markdown = folder / "report.html", folder / "report.md"
    atomic_write(html, _render("report.html.j2", content))
    atomic_write(markdown, _render("report.md.j2", content))
    table = results.table[[*WORDS, "batch", "figure", "value", "n", "unit"]]
    atomic_write(folder / TABLE, table.to_csv(index=False))
    report = Report(html, markdown, folder / "summary.json", charts, results, content["headline"])
    write_json(report.summary, summary(results, _files(folder, report)))
    return report


def report_folder(paths: Sequence[Path]) -> Path:
    """Return where the report of these sources is written unless another folder is named."""
    return paths[0] if len(paths) == 1 and paths[0].is_dir() else paths[0].parent / "report"


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
    known = {"report_html": report.html, "report_md": report.markdown, "table": folder / TABLE}
    known |= {f"chart_{name}": path for name, path in report.charts.items()}
    known |= {f"chart_{name}_svg": path.with_suffix(".svg") for name, path in report.charts.items()}
    known |= {part: path for part in NOT_MEASURED if (path := folder / f"{part}.json").is_file()}
    for place in ("models/*.onnx", "engines/*.engine", "calibration/*.cache"):
        kind = Path(place).suffix[1:]
        known |= {f"{kind}_{path.stem}": path for path in sorted(folder.glob(place))}
    return {role: path.relative_to(folder).as_posix() for role, path in known.items()}
