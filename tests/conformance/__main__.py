"""The memory and stream cases through pycuda and through cuda-python, one after the other, into one record.

    TRT_LAB_ENGINE=tensorrt python -m tests.conformance --out docs/results/h200/cuda.json

Needs an NVIDIA GPU, TensorRT and both packages. Exits 1 where a case did not pass with both.
"""

import datetime
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from helpers.tools.files import write_json

ROOT = Path(__file__).resolve().parents[2]
CASES = ("tests/conformance/test_memory.py", "tests/conformance/test_streams.py")
THROUGH = ("pycuda", "cuda-python")
_PACKAGES = ("pycuda", "cuda-bindings", "torch", "numpy")


def run(through: str, record: Path) -> dict[str, Any]:
    """Run the cases in a process of their own that takes CUDA through this package; return their record."""
    environment = {**os.environ, "TRT_LAB_ENGINE": "tensorrt", "TRT_LAB_CUDA": through}
    command = [sys.executable, "-m", "pytest", *CASES, "-p", "no:cacheprovider", "--record", str(record)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    print(done.stdout, done.stderr, sep="\n", flush=True)
    if not record.is_file():
        sys.exit(f"the cases did not run through {through}: " + (done.stderr.strip() or "no output").splitlines()[-1])
    return json.loads(record.read_text(encoding="utf-8"))


def merged(records: Sequence[dict[str, Any]], packages: dict[str, str]) -> dict[str, Any]:
    """Return one record of the runs through `THROUGH`: where, when, with which versions, and each case's outcomes."""
    names = sorted({name for record in records for name in record["cases"]})
    outcomes = {
        name: {
            through: record["cases"].get(name, {"outcome": "missing"})["outcome"]
            for through, record in zip(THROUGH, records, strict=True)
        }
        for name in names
    }
    return {
        "command": "make conformance-cuda",
        "device": records[0]["device"],
        "date": datetime.date.today().isoformat(),
        "versions": {"tensorrt": records[0]["versions"]["tensorrt"], **packages},
        "cases": outcomes,
    }


def main(out: Annotated[Path, typer.Option(help="The JSON to write.")]) -> None:
    """Run the memory and stream cases through pycuda and through cuda-python; write one record."""
    with tempfile.TemporaryDirectory() as folder:
        records = [run(through, Path(folder) / f"{through}.json") for through in THROUGH]
    record = merged(records, {name: metadata.version(name) for name in _PACKAGES})
    write_json(out, record)
    failed = [name for name, found in record["cases"].items() if set(found.values()) != {"passed"}]
    print(f"{len(record['cases'])} cases through each: {len(failed)} did not pass with both  {', '.join(failed)}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    typer.run(main)
