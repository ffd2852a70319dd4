"""Reading trtexec's log, versions 7 to 11, and the same format as `trtlab bench --log` writes it.

trtexec prints, after `=== Performance summary ===`, one line per metric; what changed between versions:

    7.x       no such line: a heading per metric ("Host Latency" is the first), and a line per statistic below it
    8.0–8.2   one percentile (99%), and an End-to-End Host Latency
    8.4       one percentile
    8.5–11.1  percentiles 90%, 95% and 99%

Lines may lack their time, be indented, or stand behind what a wrapper puts before each line (`[INFO] `, `trt-1 | `).
A whole log has a banner (`&&&& RUNNING`), and its summary must be complete. An excerpt may be short: it needs the
throughput and a latency, and what it does not print is None.

Throughput counts queries. With an explicit batch one query is a whole batch, so images/s = qps × batch; with the
implicit batch of old engines (`--batch=N`) trtexec has multiplied already.
"""

import copy
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from helpers.tools.files import read_file
from trtcpu.errors import InputError

SUMMARY = "=== Performance summary ==="
STATISTICS = ("min_ms", "max_ms", "mean_ms", "median_ms", "p90_ms", "p95_ms", "p99_ms")
_NUMBER = r"(-?\d{1,15}(?:\.\d{0,15})?(?:[eE][-+]?\d{1,2})?)"
_PERCENT = r"(\d{1,2}(?:\.\d{1,9})?)%"
_SIZES = r"(\d{1,9}(?:x\d{1,9})*)"

# What is said around the summary, by the key of our JSON; what is said last counts. The last four are for this package
# alone.
_SAID = (
    ("tensorrt_version", re.compile(r".*&&&& \w+ \S+ \[TensorRT v([^\]]+)\].*")),
    ("tensorrt_version", re.compile(r"TensorRT version: (\d+\.\d+.*)")),
    ("gpu", re.compile(r"Selected Device: (.+)")),
    ("workspace_mb", re.compile(r"(?:Memory Pools: )?[Ww]orkspace: (\d{1,9}(?:\.\d{1,9})?) ?Mi?B.*")),
    ("logged_precision", re.compile(r"Precision: (.+)")),
    ("command", re.compile(r".*&&&& \w+ .*? # (.*)")),
    ("command", re.compile(r"(?:[$#>] ?)?((?:\S*/)?trtexec -.*)")),
    ("passed", re.compile(r".*&&&& (PASSED|FAILED) .*")),
    ("streams", re.compile(r".*trtexec .*--(?:infStreams|streams)=(\d{1,9}).*")),
    ("streams", re.compile(r"(?:Inference )?Streams: (\d{1,9})")),
    ("model", re.compile(r"(?:Model|Prototxt|UFF): (.+)")),
    ("logged_batch", re.compile(r"Batch: (\d{1,9})")),
    ("given_batch", re.compile(r".*trtexec .*--batch=(\d{1,9}).*")),
    ("traced", re.compile(r"Timing trace has (\d{1,9}) queries over .*")),
)
_SHAPE = re.compile(
    r"(?:Input inference shapes? ?: ?|Input binding for |Set shape of input tensor )(.+?)"
    rf"(?:=| with dimensions | to: ){_SIZES}(?: and type \w+)?(?: is created\.?)?"
)
_GIVEN_SHAPES = re.compile(r"trtexec .*?--(?:shapes|optShapes)=(\S+)")
_GIVEN_SHAPE = re.compile(rf"([^:,'\"\s]+)['\"]?:{_SIZES}")

# The summary: quantities, and metrics with their statistics; of 7.x after those of 8.0 and later.
_QUANTITIES = {
    "Throughput": "throughput_qps",
    "Total Host Walltime": "total_host_walltime_s",
    "Total GPU Compute Time": "total_compute_s",
    "throughput": "throughput_qps",
    "walltime": "total_host_walltime_s",
    "total compute time": "total_compute_s",
}
_QUANTITY = re.compile(rf"({'|'.join(_QUANTITIES)}): {_NUMBER} (?:qps|s)")
_METRICS = {
    "Latency": "latency",
    "End-to-End Host Latency": "end_to_end",
    "Enqueue Time": "enqueue",
    "H2D Latency": "h2d",
    "GPU Compute Time": "compute",
    "D2H Latency": "d2h",
}
_SUMMARY_OF_7 = "Host Latency"
_METRICS_OF_7 = {_SUMMARY_OF_7: "latency", "Enqueue Time": "enqueue", "GPU Compute": "compute"}
_STATISTIC = re.compile(
    rf"(min|max|mean|median|percentile)(?:\({_PERCENT}\) =| =|:) {_NUMBER} ms(?: at {_PERCENT})?"
    rf"(?: \(end to end {_NUMBER} ms.*\))?(?=,|$)"
)

_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_PREFIX = re.compile(r".{0,80}?\[([VIWEF])\] ?|\[[A-Z]{2,9}\]:? |[\w.-]{1,60} *\| ?|")


@dataclass
class LogRun:
    """One run of a log.

    `said` has what the log says by the keys of our JSON; None if it does not. `metrics` maps latency, enqueue, h2d,
    compute, d2h (and end_to_end) to statistics in ms; `shapes` maps inputs to theirs ("8x3x224x224"). `whole`: the log
    has its first line, so it is no excerpt.
    """

    said: dict[str, Any] = field(default_factory=lambda: dict.fromkeys([*dict(_SAID), *_QUANTITIES.values()]))
    metrics: dict[str, dict[str, float | None]] = field(default_factory=dict)
    shapes: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    whole: bool = False
    heading: str = ""

    @property
    def implicit_batch(self) -> int | None:
        """Images of an engine without a batch dimension. trtexec counts them, not its executions, in all it prints."""
        return self.said["logged_batch"] or (None if self.shapes else self.said["given_batch"])

    @property
    def batch(self) -> int | None:
        """Images per query: the implicit batch, or the first dimension that all inputs have; None if neither is."""
        first = {int(shape.partition("x")[0]) for shape in self.shapes.values()}
        return self.implicit_batch or (first.pop() if len(first) == 1 else None)

    @property
    def is_sure_of_its_batch(self) -> bool:
        """Whether the batch is an implicit one, or an image's, [N, C, H, W]; another first dimension may be none."""
        return bool(self.implicit_batch) or all(shape.count("x") == 3 for shape in self.shapes.values())


def read_text(path: str | Path) -> str:
    """Return a text file's content, UTF-8 or (as PowerShell's redirection writes it) UTF-16.

    Raises:
        InputError: the file cannot be read, or is empty.
    """
    data = read_file(path, "log", "give one that trtexec or bench wrote")
    if not data.strip():
        raise InputError(f"{path} is empty; redirect trtexec's output into it: trtexec … > {path} 2>&1")
    return data.decode("utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig", errors="replace")


def parse_log_text(text: str, source: str = "the log") -> list[LogRun]:
    """Return every run that a whole log, or an excerpt, summarises; `source` names it in errors.

    Raises:
        InputError: it holds no summary, or one that is cut off.
    """
    runs: list[LogRun] = []
    context, inside, first_error = LogRun(), False, ""
    for raw in _COLOUR.sub("", text).splitlines():
        prefix = _PREFIX.match(raw)
        level, spaced = prefix[1], raw[prefix.end() :]
        line = spaced.strip()
        if level == "E":
            first_error = first_error or line
        if "&&&& " in line:
            if "&&&& RUNNING" in line:
                context, inside = LogRun(whole=True), False
            _take_description(runs[-1] if inside else context, line)
            inside = False
        elif line in (SUMMARY, _SUMMARY_OF_7):
            runs.append(replace(copy.deepcopy(context), heading=_METRICS_OF_7.get(line, "")))
            inside = True
        elif inside and _take_figure(runs[-1], line):
            continue
        elif inside and level == "W":
            _take_warning(runs[-1], spaced)
        else:
            _take_description(context, line)
    for run in runs:
        _check(run, source)
    if not runs:
        why = f"; it reports the error {first_error[:200]!r}" if first_error else ""
        raise InputError(
            f"{source} holds no performance summary: no line {SUMMARY!r} was found{why}; "
            "give the whole output of trtexec 7 to 11 or of trtlab bench --log"
        )
    return runs


def _dotted(banner: str) -> str:
    """Turn the banner's number into dots: 8601 → 8.6.1, 100200 → 10.2.0; what is dotted already stays."""
    if not banner.isdecimal() or not 4 <= len(banner) <= 6:
        return banner
    number, step = int(banner), 1000 if len(banner) == 4 else 10000
    return f"{number // step}.{number % step // 100}.{number % 100}"


_KINDS = {
    **dict.fromkeys(("streams", "logged_batch", "given_batch", "traced"), int),
    "workspace_mb": float,
    "tensorrt_version": _dotted,
    "passed": "PASSED".__eq__,
}


def _take_figure(run: LogRun, line: str) -> bool:
    """Store a line of the summary; False when it is none."""
    if quantity := _QUANTITY.fullmatch(line):
        run.said[_QUANTITIES[quantity[1]]] = float(quantity[2])
        return True
    if line in _METRICS_OF_7:
        run.heading = _METRICS_OF_7[line]
        return True
    name = line.partition(": ")[0]
    metric = _METRICS.get(name, run.heading)
    found = _STATISTIC.findall(line) if metric else []  # the verbose explanations use the same names
    if found and name in _METRICS:
        run.metrics.pop(metric, None)
    for statistic, percent, value, percent_of_7, end_to_end in found:
        percent = percent or percent_of_7
        key = f"p{float(percent):g}_ms" if percent else f"{statistic}_ms"
        for kind, figure in ((metric, value), ("end_to_end", end_to_end)):
            if figure:
                run.metrics.setdefault(kind, dict.fromkeys(STATISTICS))[key] = float(figure)
    return bool(found)


def _take_warning(run: LogRun, line: str) -> None:
    if line.startswith("* "):
        run.warnings.append(line[2:].strip())
    elif run.warnings and line.startswith("  "):
        run.warnings[-1] += " " + line.strip()


def _take_description(run: LogRun, line: str) -> None:
    for key, pattern in _SAID:
        if found := pattern.fullmatch(line):
            run.said[key] = _KINDS.get(key, str)(found[1])
    if shape := _SHAPE.fullmatch(line):
        run.shapes[shape[1]] = shape[2]
    elif given := _GIVEN_SHAPES.search(line):
        run.shapes = run.shapes or dict(_GIVEN_SHAPE.findall(given[1]))


def _check(run: LogRun, source: str) -> None:
    """Raise InputError if a figure is missing; work out the 0 queries/s that 7.x prints for an explicit batch."""
    needed = STATISTICS[: 4 if run.whole else 3]
    latency = [run.metrics.get("latency", {}).get(key) for key in needed]
    walltime_s, traced = run.said["total_host_walltime_s"], run.said["traced"]
    figures = {"Throughput": [run.said["throughput_qps"]], "Latency": latency}
    if run.whole:
        compute = [run.metrics.get("compute", {}).get(key) for key in needed]
        figures |= {"GPU Compute Time": compute, "Total Host Walltime": [walltime_s]}
    if missing := next((line for line, values in figures.items() if None in values), None):
        raise InputError(
            f"the performance summary in {source} is cut off: no complete {missing!r} line was found after "
            f"{SUMMARY!r}; let trtexec finish and save its whole output"
        )
    if run.said["throughput_qps"] == 0:
        if not traced or not walltime_s:
            raise InputError(
                f"{source}: trtexec printed a throughput of 0 queries/s, as 7.x does for an explicit batch, and not "
                "how many queries ran; give its whole output"
            )
        run.said["throughput_qps"] = traced / walltime_s
        run.warnings.append(f"trtexec printed 0 qps: the throughput is {traced:,} queries by their time")
