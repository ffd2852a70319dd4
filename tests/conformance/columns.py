"""The conformance suite with a column for each of TensorRT's APIs: `make conformance`.

    python -m tests.conformance.columns

On the CPU engine the suite runs as TensorRT 10.16 and as 11.4, in a process each; on real TensorRT once, as its version
is. A case that leans on what a version lacks is skipped there, and the reason names it. Exits 1 where a case failed.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from helpers.engine.backend import ENGINE, trt
from trtcpu.api.version import API_VARIABLE, VERSIONS

ROOT = Path(__file__).resolve().parents[2]
_SHOWN = {"passed": "passed", "failed": "FAILED", "skipped": "–", "missing": "missing"}


def run(api: str, record: Path) -> dict[str, Any]:
    """Run the suite in a process that speaks this API; return its record."""
    command = [sys.executable, "-m", "pytest", "tests/conformance", "-q", "--record", str(record), "--no-table"]
    subprocess.run(command, cwd=ROOT, env={**os.environ, API_VARIABLE: api})
    if not record.is_file():
        sys.exit(f"the conformance suite did not run as TensorRT {api}: see above")
    return json.loads(record.read_text(encoding="utf-8"))


def table(columns: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line per case with its outcome in each column (records by name), and a line of counts."""
    names = sorted({name for record in columns.values() for name in record["cases"]})
    rows = {name: [record["cases"].get(name, {"outcome": "missing"}) for record in columns.values()] for name in names}
    lines = ["  ".join(f"{column:10}" for column in columns) + "  case"]
    for name, found in rows.items():
        reason = next((f"  ({cell['reason']})" for cell in found if cell.get("reason")), "")
        lines.append("  ".join(f"{_SHOWN[cell['outcome']]:10}" for cell in found) + f"  {name}{reason}")
    counts = []
    for index, column in enumerate(columns):
        outcomes = [found[index]["outcome"] for found in rows.values()]
        counts.append(f"{column}: " + ", ".join(f"{outcomes.count(kind)} {kind}" for kind in sorted(set(outcomes))))
    return [*lines, f"{len(rows)} cases; " + "; ".join(counts)]


def main() -> None:
    """Run every column and print the table."""
    asked = VERSIONS if ENGINE == "cpu" else {trt.__version__: None}
    with tempfile.TemporaryDirectory() as folder:
        columns = {f"API {api}" if ENGINE == "cpu" else api: run(api, Path(folder) / f"{api}.json") for api in asked}
    print("\n".join(table(columns)))
    outcomes = {case["outcome"] for record in columns.values() for case in record["cases"].values()}
    sys.exit("failed" in outcomes)


if __name__ == "__main__":
    main()
