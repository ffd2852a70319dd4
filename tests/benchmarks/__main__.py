"""`make bench`: run every benchmark and write the ratios as JSON.

Run by hand on an otherwise idle machine; the ratios are of two implementations measured in turns in one process.
"""

import argparse
import json
from pathlib import Path

from helpers.backend import describe
from helpers.files import write_json
from tests.benchmarks import bench_api_overhead, bench_calibration


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/bench.json"))
    arguments = parser.parse_args()
    results = {"engine": describe()}
    for benchmark in (bench_api_overhead, bench_calibration):
        print(f"{benchmark.__name__.rsplit('.', 1)[-1]}: {(benchmark.__doc__ or '').splitlines()[0]}", flush=True)
        found = benchmark.measure()
        print(json.dumps(found, indent=2), flush=True)
        results.update(found)
    write_json(arguments.out, results)
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
