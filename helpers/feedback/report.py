"""Visible checks of step 8: the report from measurements that were made up, and the analysis of another run."""

import functools
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.backend import DEVICE
from helpers.errors import InputError
from helpers.feedback.chart_parts import check_device, check_labels, check_numbers
from helpers.feedback.checklist import Checklist, visible_check
from helpers.feedback.page_parts import check_page
from helpers.feedback.text_parts import check_length, check_quotes, check_typed
from helpers.files import write_json
from helpers.lab import artifact
from helpers.missed import Missed
from helpers.probes.figures import Drawn, drawn_as, recorded_figures
from helpers.probes.measurements import EARLIER, ENGINE_FILES, ONNX_FILE, Measurements, made_up, memory_sizes

__all__ = ["check_analysis", "check_report"]

_CHARTS = ("latency.png", "throughput.png", "speedup.png", "accuracy.png")
_SEED, _OTHER_SEEDS = 2026, (2027, 2028, 2029, 2030)


@visible_check("08_report", "Report")
def check_report(check: Checklist, build_report: Callable[[Path, Path], dict[str, Any]]) -> None:
    """Check the report of a made-up run: your engines' files, and measurements that no machine gives."""
    run = made_up(_SEED)
    with tempfile.TemporaryDirectory() as folder, recorded_figures() as drawn:
        source, target = Path(folder) / "artifacts", Path(folder) / "report"
        source.mkdir()
        target.mkdir()
        write_json(target / "report.json", EARLIER)
        run.write(source, _SEED)
        check.require("the engines of the earlier steps are there", lambda: _link(source))
        title = "build_report runs on measurements that were made up"
        returned = check.call(title, build_report, source, target)
        expected = _expected(run, source)
        check.require("it writes report.json and returns its content", lambda: _written(target, returned))
        content = json.loads((target / "report.json").read_text())
        for part, keys in _PARTS.items():
            check.verify(part, lambda keys=keys: _compare(content, expected, keys))
        charts = {name: drawn_as(drawn, target / name) for name in _CHARTS}
        check.verify("each chart has labels with units", lambda: _each(charts, check_labels))
        check.verify(
            "each chart names the engine of the measurements",
            lambda: _each(charts, check_device, (run.engine, DEVICE)),
        )
        check.verify("each chart shows the measured numbers", lambda: _each(charts, check_numbers, expected))
        check.verify("report.html holds tables and charts", lambda: _page(target, expected))


_PARTS = {
    "engine, model and file sizes": ("engine", "model", "sizes_bytes"),
    "the engines' memory": ("memory_bytes",),
    "median latency and throughput": ("latency_ms", "throughput"),
    "the speed-up over PyTorch FP32": ("speedup",),
    "accuracy, and what each precision loses": ("accuracy", "accuracy_loss"),
}
_OPTIONAL = {"speedup": {"pytorch-fp32"}, "accuracy_loss": {"pytorch-fp32", "fp32"}}


def _link(folder: Path) -> str:
    names = (ONNX_FILE, *ENGINE_FILES.values())
    for name in names:
        try:
            (folder / name).symlink_to(artifact(name).resolve())
        except InputError as error:
            raise Missed(name, "no such file", str(error)) from error
    return ", ".join(names)


def _expected(run: Measurements, folder: Path) -> dict[str, Any]:
    sizes = {"onnx": (folder / ONNX_FILE).stat().st_size}
    sizes |= {name: (folder / file).stat().st_size for name, file in ENGINE_FILES.items()}
    memory = {name: memory_sizes((folder / file).read_bytes()) for name, file in ENGINE_FILES.items()}
    return run.report(sizes, memory)


def _written(folder: Path, returned: Any) -> str:
    path = folder / "report.json"
    if not path.is_file():
        there = ", ".join(sorted(file.name for file in folder.iterdir() if file != path)) or "nothing"
        raise Missed("report.json in output_folder", there, "write into the folder that is passed in")
    try:
        content = json.loads(path.read_text())
        same = json.loads(json.dumps(returned, default=lambda number: number.item())) == content
    except (ValueError, TypeError, AttributeError) as error:
        raise Missed("report.json to be JSON, and the same returned", str(error), "write what you return") from error
    if content == EARLIER:
        advice = "write the file whenever build_report is called"
        raise Missed("report.json written anew", "the one of an earlier run that was there before", advice)
    if not isinstance(content, dict) or not same:
        raise Missed("the content of report.json returned", f"a {type(returned).__name__}", "return what you write")
    return f"{path.stat().st_size:,} bytes"


def _compare(content: dict[str, Any], expected: dict[str, Any], keys: tuple[str, ...]) -> str:
    wrong = [line for key in keys for line in _misses(content.get(key), expected[key], key, _OPTIONAL.get(key, set()))]
    if wrong:
        place, should, found = wrong[0]
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise Missed(f"report[{place!r}] = {should}", f"{found}{more}", "compare with the schema in the task")
    return ", ".join(keys)


def _misses(found: Any, expected: Any, place: str, optional: set[str]) -> list[tuple[str, str, str]]:
    if isinstance(expected, dict):
        lines = []
        for key, value in expected.items():
            there = isinstance(found, dict) and key in found
            if there or key not in optional:
                lines += _misses(found[key] if there else "nothing", value, f"{place}.{key}", set())
        return lines
    options = expected if isinstance(expected, set) else {expected}
    if any(_close(found, option) for option in options):
        return []
    should, was = " or ".join(map(_figure, options)), _figure(found)
    # Two numbers that differ beyond what is usually shown are shown in full.
    return [(place, should, was) if should != was else (place, " or ".join(map(repr, options)), repr(found))]


def _close(found: Any, expected: Any) -> bool:
    if isinstance(found, (int, float)) and isinstance(expected, (int, float)):
        return abs(found - expected) <= 6e-4 + 1e-6 * abs(expected)
    return found == expected


def _figure(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)[:60]


def _each(charts: dict[str, Drawn | None], point: Callable[..., str], *args: Any) -> str:
    return "; ".join(point(name, drawn, *args) for name, drawn in charts.items())


def _page(folder: Path, expected: dict[str, Any]) -> str:
    path = folder / "report.html"
    if not path.is_file():
        raise Missed("report.html in output_folder", "no such file", "write it beside the charts")
    charts = {name: (folder / name).read_bytes() if (folder / name).is_file() else None for name in _CHARTS}
    return check_page(path.read_text(errors="replace"), charts, expected)


@visible_check("08_report", "Analysis")
def check_analysis(check: Checklist, key_figures: Callable[..., Any], write_analysis: Callable[..., Any]) -> None:
    """Check the analysis on the report of a made-up run: a figure that is typed by hand belongs to another one."""
    runs = [made_up(seed) for seed in _OTHER_SEEDS]
    reports = [_report_of(run, place) for place, run in enumerate(runs)]
    run, report = runs[0], reports[0]
    found = check.call("key_figures takes the report of another run", key_figures, json.loads(json.dumps(report)))
    check.verify("its five figures are that run's", lambda: _key_figures(found, run, report))
    title = "write_analysis takes the report of another run"
    text = check.call(title, write_analysis, json.loads(json.dumps(report)))
    check.verify("200 to 400 words", lambda: check_length(text))
    check.verify("the figures it quotes are that run's", lambda: check_quotes(text, report))

    @functools.wraps(write_analysis)
    def of_each(others: list[dict[str, Any]]) -> list[Any]:
        return [write_analysis(json.loads(json.dumps(other))) for other in others]

    texts = check.call(f"write_analysis takes {len(reports) - 1} reports more", of_each, reports[1:])
    check.verify("its figures change with the run", lambda: _changing([text, *texts], reports))


def _report_of(run: Measurements, place: int) -> dict[str, Any]:
    """Return the report of a made-up run with made-up file sizes, each run others."""
    sizes = {name: 1_000_000 * (41 + 13 * place + step) for step, name in enumerate(("onnx", *ENGINE_FILES))}
    return run.report(sizes, {name: size // 7 for name, size in sizes.items() if name != "onnx"})


def _changing(texts: list[Any], reports: list[dict[str, Any]]) -> str:
    said = [check_quotes(text, report) for text, report in zip(texts, reports, strict=True)]
    check_typed(texts)
    return f"{len(reports)} runs; of the last one {said[-1]}"


def _key_figures(found: Any, run: Measurements, report: dict[str, Any]) -> str:
    expected = {
        "fastest_name": run.fastest[0],
        "fastest_batch": run.fastest[1],
        "int8_speedup": report["speedup"]["int8"]["32"],
        "int8_top1_loss": report["accuracy_loss"]["int8"],
        "int8_saturation_batch": run.saturation["int8"],
    }
    if wrong := _misses(found, expected, "figures", set()):
        place, should, there = wrong[0]
        raise Missed(f"{place} = {should} for the made-up run", there, "read the key's definition in the docstring")
    return ", ".join(expected)
