"""Reading trtexec's log, versions 8.0 to 11.1, and the same format as `trtlab bench --log` writes it.

trtexec prints, after `=== Performance summary ===`, one line a metric; what changed between versions:

    8.0–8.2   one percentile (99%), and an End-to-End Host Latency
    8.4       one percentile
    8.5–11.1  percentiles 90%, 95% and 99%

Throughput counts queries. With an explicit batch one query is a whole batch, so images/s = qps × batch; with the
implicit batch of old engines (`--batch=N`) trtexec has multiplied already.
"""

import math
import re
from dataclasses import dataclass, field
from pathlib import Path

from helpers.errors import InputError

__all__ = ["SUMMARY", "LogRun", "parse_log_text", "read_log", "read_text"]

SUMMARY = "=== Performance summary ==="
METRICS = {
    "Latency": "latency",
    "End-to-End Host Latency": "end_to_end",
    "Enqueue Time": "enqueue",
    "H2D Latency": "h2d",
    "GPU Compute Time": "compute",
    "D2H Latency": "d2h",
}
_REQUIRED = ("Throughput", "Latency", "GPU Compute Time", "Total Host Walltime")
_PREFIX = re.compile(r"^(?:\x1b\[[\d;]*m)*\[\d[\d/]*-[\d:]+\] \[(?P<level>[A-Z])\] ?")
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_STATISTIC = re.compile(rf"(min|max|mean|median|percentile\((\d+(?:\.\d+)?)%\)) = ({_NUMBER}) ms(?=,|\s*$)")
_QUANTITY = re.compile(rf"^(Throughput|Total Host Walltime|Total GPU Compute Time): ({_NUMBER}) (?:qps|s)\s*$")
_BANNER = re.compile(r"^&&&& (RUNNING|PASSED|FAILED) (\S+)(?: \[TensorRT v([^\]]+)\])?.*?(?: # (.*))?$")
_TRACED = re.compile(r"^Timing trace has (\d+) queries over ")
_SHAPE = re.compile(r"^Input inference shapes? ?: ?(.+?)=(\d+)x[\dx]+\s*$")


@dataclass
class LogRun:
    """One run of a log. `metrics` maps latency, enqueue, h2d, compute, d2h (and end_to_end) to statistics in ms."""

    throughput_qps: float = 0.0
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    total_host_walltime_s: float | None = None
    total_compute_s: float | None = None
    tensorrt_version: str | None = None
    device: str | None = None
    model: str | None = None
    precision: str | None = None
    shape_batch: int | None = None
    implicit_batch: int | None = None
    queries: int | None = None
    command: str | None = None
    passed: bool | None = None
    warnings: list[str] = field(default_factory=list)

    def images_per_s(self, batch: int) -> float:
        """Return images per second for `batch` images a query (see the module's note on implicit batches)."""
        return self.throughput_qps * (1 if self.implicit_batch else batch)


def read_log(path: str | Path) -> list[LogRun]:
    """Return every run that the log at `path` summarises.

    Raises:
        InputError: the file cannot be read, holds no summary, or one that is cut off.
    """
    return parse_log_text(read_text(path), str(path))


def read_text(path: str | Path) -> str:
    """Return a text file's content, UTF-8 or (as PowerShell's redirection writes it) UTF-16."""
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read the log {path}: {reason}; give one that trtexec or bench wrote") from error
    if not data.strip():
        raise InputError(f"{path} is empty; redirect trtexec's output into it: trtexec … > {path} 2>&1")
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    return data.decode("utf-16" if wide else "utf-8-sig", errors="replace")


def parse_log_text(text: str, source: str = "the log") -> list[LogRun]:
    """Parse a whole log; `source` names it in errors."""
    runs: list[LogRun] = []
    context, inside, first_error = LogRun(), False, ""
    for raw in text.splitlines():
        level, line = _split_prefix(raw)
        if level == "E" and not first_error:
            first_error = line.strip()
        banner = _BANNER.match(line)
        if banner and banner[1] == "RUNNING":
            context, inside = LogRun(), False
        if line.strip() == SUMMARY:
            inside = True
            runs.append(_started(context))
        elif inside and _take_figure(runs[-1], line):
            continue
        elif banner:
            _take_banner(runs[-1] if inside else context, banner)
            inside = False
        elif inside and level == "W":
            _take_warning(runs[-1], line)
        elif not inside or line.startswith("=== "):
            _take_description(context, line)
    return _checked(runs, source, first_error)


def _split_prefix(raw: str) -> tuple[str, str]:
    prefix = _PREFIX.match(raw)
    line = raw[prefix.end() :] if prefix else raw
    return (prefix["level"] if prefix else ""), _COLOUR.sub("", line).rstrip("\r")


def _started(context: LogRun) -> LogRun:
    return LogRun(
        tensorrt_version=context.tensorrt_version,
        device=context.device,
        model=context.model,
        precision=context.precision,
        shape_batch=context.shape_batch,
        implicit_batch=context.implicit_batch,
        queries=context.queries,
        command=context.command,
    )


def _take_figure(run: LogRun, line: str) -> bool:
    """Store a line of the summary; False when it is none."""
    quantity = _QUANTITY.match(line)
    if quantity:
        value = _finite(float(quantity[2]), line)
        if quantity[1] == "Throughput":
            run.throughput_qps = value
        elif quantity[1] == "Total Host Walltime":
            run.total_host_walltime_s = value
        else:
            run.total_compute_s = value
        return True
    name, _, rest = line.partition(": ")
    if name not in METRICS or not rest.startswith("min ="):  # the verbose explanations use the same names
        return False
    run.metrics[METRICS[name]] = {
        (f"p{float(percent):g}_ms" if percent else f"{key}_ms"): _finite(float(value), line)
        for key, percent, value in _STATISTIC.findall(rest)
    }
    return True


def _finite(value: float, line: str) -> float:
    if not math.isfinite(value):
        raise InputError(f"the log's summary holds no finite number in {line.strip()[:120]!r}; run trtexec again")
    return value


def _take_banner(run: LogRun, banner: re.Match[str]) -> None:
    if banner[3]:
        run.tensorrt_version = dotted_version(banner[3])
    if banner[1] == "RUNNING":
        run.command = banner[4]
    else:
        run.passed = banner[1] == "PASSED"


def _take_warning(run: LogRun, line: str) -> None:
    if line.startswith("* "):
        run.warnings.append(line[2:].strip())
    elif run.warnings and line.startswith("  "):
        run.warnings[-1] += " " + line.strip()


def _take_description(run: LogRun, line: str) -> None:
    """Store what the log says before the summary: device, version, precision, shapes."""
    key, _, value = (part.strip() for part in line.partition(":"))
    shape = _SHAPE.match(line)
    if shape:
        run.shape_batch = run.shape_batch or int(shape[2][:9])
    elif traced := _TRACED.match(line):
        run.queries = int(traced[1][:9])
    elif key == "Selected Device" and value:
        run.device = value
    elif key == "TensorRT version" and re.match(r"\d+\.\d+", value):
        run.tensorrt_version = value
    elif key == "Model" and value:
        run.model = value
    elif key == "Precision" and value:
        run.precision = value
    elif key == "Batch" and value.isdecimal():
        run.implicit_batch = int(value[:9]) or None


def dotted_version(banner: str) -> str:
    """Turn the banner's number into dots: 8601 → 8.6.1, 100200 → 10.2.0; what is dotted already stays."""
    if not banner.isdecimal() or not 4 <= len(banner) <= 6:
        return banner
    number, step = int(banner), 1000 if len(banner) == 4 else 10000
    return f"{number // step}.{number % step // 100}.{number % 100}"


def _checked(runs: list[LogRun], source: str, first_error: str) -> list[LogRun]:
    if not runs:
        why = f"; it reports the error {first_error[:200]!r}" if first_error else ""
        raise InputError(
            f"{source} holds no performance summary: no line {SUMMARY!r} was found{why}; "
            "give the whole output of trtexec 8.0 to 11.1 or of trtlab bench --log"
        )
    for run in runs:
        missing = _missing(run)
        if missing:
            raise InputError(
                f"the performance summary in {source} is cut off: no complete {missing!r} line was found after "
                f"{SUMMARY!r}; let trtexec finish and save its whole output"
            )
    return runs


def _missing(run: LogRun) -> str | None:
    """Return the first required line that is absent or incomplete."""
    present = {
        "Throughput": run.throughput_qps > 0,
        "Latency": _complete(run.metrics.get("latency")),
        "GPU Compute Time": _complete(run.metrics.get("compute")),
        "Total Host Walltime": run.total_host_walltime_s is not None,
    }
    return next((name for name in _REQUIRED if not present[name]), None)


def _complete(statistics: dict[str, float] | None) -> bool:
    keys = set(statistics or ())
    return {"min_ms", "max_ms", "mean_ms", "median_ms"} <= keys and any(re.match(r"p\d", key) for key in keys)
