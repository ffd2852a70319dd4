"""The part of docs/throughput.md that `make offline` makes of docs/results/*/offline.json; a test compares both."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.tools.files import read_json

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "throughput.md"
RESULTS = ROOT / "docs" / "results"
AIM_PERCENT = 60.0

_BETWEEN = re.compile(r"(<!-- made by make offline -->\n).*?(<!-- end -->\n)", re.S)
_IDLE_LOAD = 0.5  # of the processor's cores


@dataclass(frozen=True)
class Published:
    """A published rate of ResNet-50 (224×224, INT8) on one GPU, in images/s, and where it is published."""

    images_per_s: float
    source: str


PUBLISHED = {"H200": Published(94_620, "MLPerf Inference v4.1, closed, ResNet-50 Offline: eight H200, per GPU")}
"""By the GPU's name; a GPU that is not here has no share."""


def published_for(device: str) -> Published | None:
    """Return the published figure of the device's GPU, if one is known."""
    return next((figure for gpu, figure in PUBLISHED.items() if re.search(rf"\b{gpu}\b", device)), None)


def in_page(page: str, records: Iterable[Path] | None = None) -> str:
    """Return the page with the tables of the records in their place; by default of all in docs/results."""
    paths = sorted(RESULTS.glob("*/offline.json")) if records is None else records
    sections = "\n".join(section(read_json(path)) for path in paths)
    return _BETWEEN.sub(lambda found: f"{found[1]}{sections}{found[2]}", page)


def section(record: dict[str, Any]) -> str:
    """Return one record as Markdown: a table, then each engine's best point, share and limits.

    Of the CPU engine, whose streams gain little, there are the best points alone.
    """
    device, settings = record["engine"]["device"], record["settings"]
    where = re.sub(r" \(.*\)", "", device)
    lines = [f"### {where}", "", _said(record), ""]
    names = dict.fromkeys(row["name"] for row in record["rows"])
    rows = {name: [row for row in record["rows"] if row["name"] == name] for name in names}
    if record["engine"].get("name") == "cpu":
        return "\n".join([*lines, *(text for name in names for text in (_about(record, name, rows[name])[0], ""))])
    lines += [*_table(rows, settings["streams"]), ""]
    for name in names:
        lines += [*_about(record, name, rows[name]), ""]
    lines += [line for note in record["notes"] for line in (f"Note: {note}.", "")]
    return "\n".join(lines)


def _said(record: dict[str, Any]) -> str:
    machine, settings = record["machine"], record["settings"]
    text = f"{settings['model']}, {settings['seconds']:g} s per point, {record['measured']}, `make offline`"
    if machine["load"] > _IDLE_LOAD * machine["cores"]:
        text += f". **The machine was busy (load {machine['load']:g} on {machine['cores']} cores): measure again**"
    return f"{text}. Images/s, data resident on the device."


def _title(name: str) -> str:
    precision, _, tuned = name.partition("@")
    return precision.upper() + (f" tuned for batch {tuned}" if tuned else "")


def _table(by_engine: dict[str, list[dict[str, Any]]], streams: list[int]) -> list[str]:
    graphs = (False, True) if any(row["cuda_graphs"] for rows in by_engine.values() for row in rows) else (False,)
    points = [(number, graph) for graph in graphs for number in streams]
    heads = [f"{_streams(number)}{', graphs' if graph else ''}" for number, graph in points]
    lines = [f"| batch | {' | '.join(heads)} |", "|---|" + "---|" * len(points)]
    for name, rows in by_engine.items():
        rates = {(row["batch"], row["streams"], row["cuda_graphs"]): row["images_per_s"] for row in rows}
        best = max(rates, key=lambda place: rates[place])
        for batch in sorted({row["batch"] for row in rows}):
            cells = []
            for place in ((batch, *point) for point in points):
                text = f"{rates[place]:,.0f}" if place in rates else "–"
                cells.append(f"**{text}**" if place == best else text)
            lines.append(f"| {_title(name)}, {batch} | {' | '.join(cells)} |")
    return lines


def _streams(number: int) -> str:
    return f"{number} stream{'s' if number > 1 else ''}"


def _about(record: dict[str, Any], name: str, rows: list[dict[str, Any]]) -> list[str]:
    best = max(rows, key=lambda row: row["images_per_s"])
    how = f"batch {best['batch']}, {_streams(best['streams'])}{', graphs' if best['cuda_graphs'] else ''}"
    text = f"Best of {_title(name)}: {best['images_per_s']:,.0f} images/s ({how})."
    figure = published_for(record["engine"]["device"]) if record["settings"]["model"] == "resnet50" else None
    share = 100 * best["images_per_s"] / figure.images_per_s if figure else None
    if figure and name.startswith("int8"):
        text += f" That is **{share:.0f} %** of {figure.images_per_s:,.0f} ({figure.source})."
    copies = [row for row in record["copies"] if row["name"] == name]
    if copies:
        rates = ", ".join(f"{row['images_per_s']:,.0f} in {_streams(row['streams'])}" for row in copies)
        text += f" With copies in and out, batch {copies[0]['batch']}: {rates}."
    return [text, *_limits(record["limits"].get(name), share if name.startswith("int8") else None)]


def _limits(found: dict[str, Any] | None, share: float | None) -> list[str]:
    """Return what bounds the best point, a sentence a line; a GPU that misses the aim says so first."""
    if not found:
        return []
    names = {
        "compute": "arithmetic",
        "memory": "memory bandwidth",
        "reformat": "reformatting",
        "unknown": "no bound known",
    }
    ordered = sorted(found["share_percent"].items(), key=lambda item: -item[1])
    bounds = ", ".join(f"{names[what]} {percent:.0f} %" for what, percent in ordered)
    slowest = ", ".join(f"{_short(layer['name'])} {layer['share_percent']:.1f} %" for layer in found["slowest"][:3])
    start = "" if share is None or share >= AIM_PERCENT else f"Below {AIM_PERCENT:.0f} %, and the profile says why. "
    times = f"A batch takes {found['batch_ms']:.3g} ms at the best point, {found['layers_ms']:.3g} ms layer by layer"
    roof = f"{found['roof_ms']:.3g} ms if every layer reached the roof of the same run"
    return [f"{start}{times}, and {roof}.", f"Time by what bounds the layers: {bounds}. The slowest: {slowest}."]


def _short(name: str) -> str:
    first, _, rest = name.partition(" + ")
    return f"`{first}{' + …' if rest else ''}`"
