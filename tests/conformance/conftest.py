"""Print the conformance suite's table of outcomes, and with --record FILE keep it as JSON."""

import datetime
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from helpers.engine.backend import DEVICE, ENGINE, trt

_rows: dict[str, dict[str, Any]] = {}


def case_name(nodeid: str) -> str:
    """Return a case's stable name: file and function without their `test_`, parameters kept."""
    path, _, function = nodeid.partition("::")
    return f"{Path(path).stem.removeprefix('test_')}: {function.removeprefix('test_').replace('_', ' ')}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", metavar="FILE", help="write every conformance case's outcome to FILE as JSON")
    parser.addoption("--no-table", action="store_true", help="do not print the outcomes: the columns' table has them")


def pytest_configure(config: pytest.Config) -> None:
    if ENGINE == "tensorrt":
        # TensorRT 10 marks calibrators and precision flags as deprecated; the lab uses them on purpose.
        config.addinivalue_line("filterwarnings", "ignore::DeprecationWarning")
        warnings.simplefilter("ignore", DeprecationWarning)


def _reason(report: pytest.TestReport) -> str:
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return str(report.longrepr).strip().splitlines()[-1][:300] if report.failed else ""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if "conformance/" not in report.nodeid:
        return
    row = _rows.setdefault(case_name(report.nodeid), {"outcome": "passed", "reason": "", "seconds": 0.0})
    row["seconds"] = round(row["seconds"] + report.duration, 3)
    if report.outcome != "passed":
        row.update(outcome=report.outcome, reason=_reason(report))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not _rows:
        return
    terminalreporter.section(f"conformance on {DEVICE}, as TensorRT {trt.__version__}")
    for name, row in sorted(_rows.items()) if not config.getoption("--no-table", False) else ():
        reason = f"  ({row['reason']})" if row["reason"] else ""
        terminalreporter.write_line(f"{row['outcome']:8} {row['seconds']:7.2f} s  {name}{reason}")
    outcomes = [row["outcome"] for row in _rows.values()]
    counts = ", ".join(f"{outcomes.count(kind)} {kind}" for kind in sorted(set(outcomes)))
    terminalreporter.write_line(f"{len(outcomes)} cases: {counts}")
    if file := config.getoption("--record", None):
        _write_record(Path(file))


def _write_record(file: Path) -> None:
    versions = {"tensorrt": trt.__version__, "numpy": np.__version__, "onnx": onnx.__version__}
    record = {
        "engine": ENGINE,
        "device": DEVICE,
        "versions": versions,
        "date": datetime.date.today().isoformat(),
        "cases": dict(sorted(_rows.items())),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
