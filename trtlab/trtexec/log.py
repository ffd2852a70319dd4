"""Reading trtexec's log, versions 7 to 11, and the same format as `trtlab bench --log` writes it.

trtexec prints, after `=== Performance summary ===`, one line per metric; what changed between versions:

    7.x       another layout, without that line: trtexec/older.py
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
import math
import re
from pathlib import Path

from trtcpu.errors import InputError
from trtlab.trtexec.older import OlderSummary, begins_older_summary
from trtlab.trtexec.run import STATISTICS, LogRun, sizes

SUMMARY = "=== Performance summary ==="
METRICS = {
    "Latency": "latency",
    "End-to-End Host Latency": "end_to_end",
    "Enqueue Time": "enqueue",
    "H2D Latency": "h2d",
    "GPU Compute Time": "compute",
    "D2H Latency": "d2h",
}
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_PREFIX = re.compile(r"^.{0,80}?(?:\[\d[\d/]*-[\d:]+\] )?\[(?P<level>[VIWEF])\] ?(?P<text>.*)$")
_WRAPPER = re.compile(r"^(?:\[[A-Z]{2,9}\]:? |[\w.-]{1,60} *\| ?)")
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_STATISTIC = re.compile(rf"(min|max|mean|median|percentile\((\d+(?:\.\d+)?)%\)) = ({_NUMBER}) ms(?:, |\s*$)")
_QUANTITY = re.compile(rf"^(Throughput|Total Host Walltime|Total GPU Compute Time): ({_NUMBER}) (?:qps|s)\s*$")
_BANNER = re.compile(r"&&&& (RUNNING|PASSED|FAILED) (\S+)(?: \[TensorRT v([^\]]+)\])?.*?(?: # (.*))?$")
_COMMAND = re.compile(r"^(?:[$#>] ?)?((?:\S*/)?trtexec -.*)$")
_TRACED = re.compile(r"^Timing trace has (\d+) queries over ")
_SHAPE = re.compile(
    r"^(?:Input inference shapes? ?: ?(.+?)=|Input binding for (.+) with dimensions |"
    r"Set shape of input tensor (.+) to: )"
    r"(\d+(?:x\d+)*)(?: and type \w+)?(?: is created\.?)?\s*$"
)
_WORKSPACE = re.compile(r"^(?:Memory Pools: )?[Ww]orkspace: ([\d.]+) ?Mi?B")
_STREAMS = re.compile(r"^(?:Inference )?Streams: (\d+)\s*$")
_WHOLE = {
    "Throughput": lambda run: run.throughput_qps is not None,
    "Latency": lambda run: _has(run, "latency", STATISTICS[:4]),
    "GPU Compute Time": lambda run: _has(run, "compute", STATISTICS[:4]),
    "Total Host Walltime": lambda run: run.total_host_walltime_s is not None,
}
_EXCERPT = {"Throughput": _WHOLE["Throughput"], "Latency": lambda run: _has(run, "latency", STATISTICS[:3])}


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
    """Parse a whole log, or an excerpt; `source` names it in errors."""
    runs: list[LogRun] = []
    context, inside, older, first_error = LogRun(), False, None, ""
    for raw in text.splitlines():
        level, line = _split_prefix(raw)
        if level == "E" and not first_error:
            first_error = line.strip()
        banner = _BANNER.search(line)
        if banner and banner[1] == "RUNNING":
            context, inside, older = LogRun(whole=True), False, None
        if line.strip() == SUMMARY:
            inside = True
            runs.append(copy.deepcopy(context))
        elif begins_older_summary(line) and not inside:
            older = OlderSummary()
            runs.append(copy.deepcopy(context))
        elif older is not None and older.take(line, runs[-1]):
            continue
        elif inside and _take_figure(runs[-1], line):
            continue
        elif banner:
            _take_banner(runs[-1] if inside or older else context, banner)
            inside, older = False, None
        elif inside and level == "W":
            _take_warning(runs[-1], line)
        elif not inside or line.startswith("=== "):
            _take_description(context, line.strip())
    return _checked(runs, source, first_error)


def _split_prefix(raw: str) -> tuple[str, str]:
    """Return a line's level and its text without trtexec's prefix, a wrapper's, and colours."""
    line = _COLOUR.sub("", raw).rstrip()
    if prefix := _PREFIX.match(line):
        return prefix["level"], prefix["text"]
    return "", _WRAPPER.sub("", line).lstrip()


def _take_figure(run: LogRun, line: str) -> bool:
    """Store a line of the summary; False when it is none."""
    quantity = _QUANTITY.match(line.strip())
    if quantity:
        value = _finite(float(quantity[2]), line)
        if quantity[1] == "Throughput":
            run.throughput_qps = value
        elif quantity[1] == "Total Host Walltime":
            run.total_host_walltime_s = value
        else:
            run.total_compute_s = value
        return True
    name, _, rest = line.strip().partition(": ")
    if name not in METRICS or not rest.startswith("min ="):  # the verbose explanations use the same names
        return False
    found = {
        (f"p{float(percent):g}_ms" if percent else f"{key}_ms"): _finite(float(value), line)
        for key, percent, value in _STATISTIC.findall(rest)
    }
    run.metrics[METRICS[name]] = {**dict.fromkeys(STATISTICS), **found} if not _STATISTIC.sub("", rest).strip() else {}
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
        run.command, run.passed = run.command or banner[4], banner[1] == "PASSED"


def _take_warning(run: LogRun, line: str) -> None:
    if line.startswith("* "):
        run.warnings.append(line[2:].strip())
    elif run.warnings and line.startswith("  "):
        run.warnings[-1] += " " + line.strip()


def _take_description(run: LogRun, line: str) -> None:
    """Store what the log says before the summary: command, device, version, precision, shapes, workspace."""
    key, _, value = (part.strip() for part in line.partition(":"))
    if command := _COMMAND.match(line):
        run.command = run.command or command[1]
    elif streams := _STREAMS.match(line):
        run.logged_streams = int(streams[1][:9])
    elif shape := _SHAPE.match(line):
        run.logged_shapes.setdefault(shape[1] or shape[2] or shape[3], sizes(shape[4]))
    elif traced := _TRACED.match(line):
        run.logged_queries = int(traced[1][:9])
    elif workspace := _WORKSPACE.match(line):
        run.workspace_mb = _finite(float(workspace[1]), line) if workspace[1].count(".") < 2 else None
    elif key == "Selected Device" and value:
        run.device = value
    elif key == "TensorRT version" and re.match(r"\d+\.\d+", value):
        run.tensorrt_version = value
    elif key == "Model" and value:
        run.model = value
    elif key in ("Prototxt", "UFF") and value:
        run.model = run.model or value
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
            "give the whole output of trtexec 7 to 11 or of trtlab bench --log"
        )
    for run in runs:
        needed = _WHOLE if run.whole else _EXCERPT
        if missing := next((name for name, there in needed.items() if not there(run)), None):
            raise InputError(
                f"the performance summary in {source} is cut off: no complete {missing!r} line was found after "
                f"{SUMMARY!r}; let trtexec finish and save its whole output"
            )
        if not run.qps:
            raise InputError(
                f"{source}: trtexec printed a throughput of 0 queries/s, as 7.x does for an explicit batch, and not "
                "how many queries ran; give its whole output"
            )
    return runs


def _has(run: LogRun, metric: str, statistics: tuple[str, ...]) -> bool:
    found = run.metrics.get(metric) or {}
    return all(found.get(name) is not None for name in statistics)
