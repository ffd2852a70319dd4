"""The committed record of the conformance suite on real TensorRT covers every case there is."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "tests" / "conformance" / "record-tensorrt-8.6.json"
SINCE_10 = ("strong_typing: ", "removed_names: ")  # TensorRT 8.6 has nothing of them: every case is skipped there
CUDA_RECORD = ROOT / "docs" / "results" / "h200" / "cuda.json"
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
    missing = {case for case in cases() if not case.startswith(SINCE_10)} - set(record()["cases"])
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


def test_memory_and_streams_were_recorded_through_pycuda_and_through_cuda_python() -> None:
    if not CUDA_RECORD.exists():
        pytest.skip("not recorded yet: on a machine with a GPU, TensorRT and both packages run make conformance-cuda")
    found = json.loads(CUDA_RECORD.read_text(encoding="utf-8"))
    assert found["device"].startswith("TensorRT") and found["date"]
    assert {"tensorrt", "pycuda", "cuda-bindings"} <= set(found["versions"])
    asked = {name for name in cases() if name.partition(":")[0] in ("memory", "streams")}
    assert len(asked) > 20 and set(found["cases"]) == asked
    assert all(outcomes == {"pycuda": "passed", "cuda-python": "passed"} for outcomes in found["cases"].values())


def test_a_case_that_did_not_run_through_one_of_both_is_missing_in_their_record() -> None:
    from tests.conformance.__main__ import merged

    about = {"device": "TensorRT 8.6.0, a GPU", "versions": {"tensorrt": "8.6.0"}}
    runs = [{**about, "cases": {"memory: a": {"outcome": outcome}}} for outcome in ("passed", "failed")]
    runs[1]["cases"]["memory: b"] = {"outcome": "passed"}
    record = merged(runs, {"pycuda": "2026.1"})
    assert record["cases"] == {
        "memory: a": {"pycuda": "passed", "cuda-python": "failed"},
        "memory: b": {"pycuda": "missing", "cuda-python": "passed"},
    }
    assert record["versions"] == {"tensorrt": "8.6.0", "pycuda": "2026.1"}


def test_the_columns_table_shows_what_failed_what_was_skipped_and_what_did_not_run() -> None:
    from tests.conformance.columns import table

    ten = {"cases": {"a: b": {"outcome": "passed", "reason": ""}, "a: c": {"outcome": "failed", "reason": "it broke"}}}
    eleven = {"cases": {"a: b": {"outcome": "skipped", "reason": "no flag"}}}
    assert [line.split() for line in table({"API 10": ten, "API 11": eleven})] == [
        "API 10 API 11 case".split(),
        "passed – a: b (no flag)".split(),
        "FAILED missing a: c (it broke)".split(),
        "2 cases; API 10: 1 failed, 1 passed; API 11: 1 missing, 1 skipped".split(),
    ]
