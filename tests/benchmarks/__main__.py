"""`make bench`: run every benchmark, write the figures as JSON and their table into docs/cpu-engine.md.

Run by hand on an otherwise idle machine; the ratios are of two implementations measured in turns in one process.
"""

import argparse
import datetime
import json
import os
from pathlib import Path
from typing import Any

from helpers.engine.backend import describe
from helpers.tools.files import atomic_write, write_json
from tests.benchmarks import bench_api_overhead, bench_calibration, bench_streams
from tests.benchmarks.page import BENCH, PAGE, in_page
from trtlab.doctor import cpu_name


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=BENCH)
    arguments = parser.parse_args()
    results: dict[str, Any] = {"engine": describe(), "machine": _machine()}
    results |= {"date": datetime.date.today().isoformat(), "command": "make bench"}
    for benchmark in (bench_api_overhead, bench_streams, bench_calibration):
        print(f"{benchmark.__name__.rsplit('.', 1)[-1]}: {(benchmark.__doc__ or '').splitlines()[0]}", flush=True)
        found = benchmark.measure()
        print(json.dumps(found, indent=2), flush=True)
        results.update(found)
    write_json(arguments.out, results)
    print(f"written to {arguments.out}")
    if arguments.out.resolve() == BENCH:
        atomic_write(PAGE, in_page(PAGE.read_text(), results))
        print(f"its table is in {PAGE}")


def _machine() -> dict[str, Any]:
    """Return the processor, the cores that this process may use, and the load before anything was measured."""
    return {"name": cpu_name(), "cores": len(os.sched_getaffinity(0)), "load": round(os.getloadavg()[0], 1)}


if __name__ == "__main__":
    main()
