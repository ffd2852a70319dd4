"""The committed record of the conformance suite on real TensorRT covers every case there is."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "tests" / "conformance" / "record-tensorrt-8.6.json"
MAKE_IT = "on a machine with TensorRT 8.6 run: pytest tests/conformance --record " + str(RECORD.relative_to(ROOT))


@functools.cache
def cases() -> frozenset[str]:
    """Collect the suite in a process of its own; return the cases' stable names."""
    from tests.conformance.conftest import case_name

    # One -q prints a line a case; the project's own addopts would make it two, which print none.
    options = ["--collect-only", "-q", "-p", "no:cacheprovider", "-o", "addopts="]
    command = [sys.executable, "-m", "pytest", "tests/conformance", *options]
    environment = {**os.environ, "TRT_LAB_ENGINE": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    found = frozenset(case_name(line) for line in done.stdout.splitlines() if "::" in line)
    assert len(found) > 100, f"only {len(found)} cases were collected"
    return found


def record() -> dict:
    assert RECORD.exists(), f"no record of the conformance suite on real TensorRT: {MAKE_IT}"
    return json.loads(RECORD.read_text(encoding="utf-8"))


def test_record_is_of_real_tensorrt_and_says_where_and_when() -> None:
    found = record()
    assert found["engine"] == "tensorrt" and found["versions"]["tensorrt"].startswith("8.6")
    assert found["device"] and found["date"]


def test_record_covers_every_case() -> None:
    missing = cases() - set(record()["cases"])
    assert not missing, f"{len(missing)} cases are not in the record ({', '.join(sorted(missing)[:3])} …); {MAKE_IT}"


def test_record_holds_no_case_that_is_gone() -> None:
    assert not set(record()["cases"]) - cases()


def test_a_record_is_written_into_a_folder_that_a_clone_does_not_have(tmp_path: Path) -> None:
    from tests.conformance.conftest import _write_record

    _write_record(tmp_path / "results" / "record.json")
    assert json.loads((tmp_path / "results" / "record.json").read_text())["engine"]


def test_every_recorded_case_passed_or_says_why_it_was_skipped() -> None:
    rows = record()["cases"]
    failed = [name for name, row in rows.items() if row["outcome"] == "failed"]
    assert not failed, f"failed on real TensorRT: {failed}"
    assert all(row["reason"] for row in rows.values() if row["outcome"] == "skipped")
