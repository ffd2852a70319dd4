"""Does the benchmark measure what ran, take turns, and refuse what cannot be measured?"""

import gc
import json
import platform
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from trtcpu.errors import InputError
from trtlab.report.sources import load_sources
from trtlab.timing import memory_probe
from trtlab.timing.bench import BenchOptions, bench, write_bench_json
from trtlab.timing.runners import Runner, RunnerSpec, physical_cores
from trtlab.trtexec.bench_log import format_log
from trtlab.trtexec.log import parse_log_text

QUICK = BenchOptions(batch_sizes=(1, 2), iterations=20, warmup_ms=1)


class Clock:
    """A clock that only runners move, so that no other process disturbs a test."""

    seconds = 0.0

    def advance(self, ms: float) -> None:
        self.seconds += ms / 1e3


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = FakeRunner.clock = Clock()
    monkeypatch.setattr("trtlab.timing.bench.time", SimpleNamespace(perf_counter=lambda: clock.seconds))
    return clock


class FakeRunner(Runner):
    """Takes a known time an image, and 0.01 ms to start; keeps what was called."""

    clock: Clock

    def __init__(self, name: str, ms: float = 0.2, *, journal: list | None = None, **limits: int) -> None:
        self.name, self.device, self.sample_shape, self.size_bytes = name, "a test's sleep", (3, 4, 4), 1000
        self._ms, self._batch, self.journal = ms, 0, journal if journal is not None else []
        for key, value in limits.items():
            setattr(self, key, value)

    def bind(self, batch_size: int) -> None:
        self._batch = batch_size
        self.journal.append(f"bind {self.name}")

    def enqueue(self) -> None:
        self.journal.append(self.name)
        self.clock.advance(0.01)

    def synchronize(self) -> None:
        self.clock.advance(self._ms * self._batch - 0.01)


def test_latency_and_throughput_are_those_of_the_runner() -> None:
    results = bench([FakeRunner("a", 2.0)], QUICK)
    assert [result.batch for result in results] == [1, 2]
    for result in results:
        assert result.times_ms == pytest.approx([2.0 * result.batch] * 20)
        assert result.stats.median_ms == pytest.approx(2.0 * result.batch)
        assert result.images_per_s == pytest.approx(500)


def test_exactly_the_iterations_asked_for_are_timed() -> None:
    assert [len(result.times_ms) for result in bench([FakeRunner("a"), FakeRunner("b")], QUICK)] == [20] * 4


def test_a_duration_goes_on_until_it_is_reached() -> None:
    (result,) = bench([FakeRunner("a", 1.0)], BenchOptions((1,), iterations=1, warmup_ms=0, duration_s=0.1))
    assert sum(result.times_ms) >= 100
    assert 100 <= len(result.times_ms) <= 101


def test_a_slow_runner_stops_at_the_limit_and_says_what_it_lacks() -> None:
    notes: list[str] = []
    options = BenchOptions((1, 8), iterations=100, warmup_ms=0, limit_s=10)
    few, fewer = bench([FakeRunner("slow", 201.0)], options, note=notes.append)
    assert (few.stats.count, fewer.stats.count) == (50, 7)
    assert (few.stats.p95_ms, few.stats.p99_ms) == (pytest.approx(201.0), None)
    assert (few.row()["iterations"], few.row()["p99_ms"], fewer.row()["p90_ms"]) == (50, None, None)
    assert notes == [
        "slow at batch 1: 50 of 100 calls within the limit of 10 s; too few for p99",
        "slow at batch 8: 7 of 100 calls within the limit of 10 s; too few for p90 and p95 and p99",
    ]


def test_the_limit_cuts_no_duration_and_leaves_three_calls() -> None:
    options = BenchOptions((1,), iterations=100, warmup_ms=0, duration_s=2, limit_s=0.5)
    assert len(bench([FakeRunner("a", 100.0)], options)[0].times_ms) == 20
    options = BenchOptions((1,), iterations=100, warmup_ms=0, limit_s=0.5)
    assert len(bench([FakeRunner("a", 2000.0)], options)[0].times_ms) == 3


def test_waiting_for_the_result_is_part_of_the_latency_and_not_of_the_enqueue_time() -> None:
    (result,) = bench([FakeRunner("a", 5.0)], BenchOptions((1,), iterations=5, warmup_ms=0))
    assert result.enqueue_ms == pytest.approx([0.01] * 5)
    assert result.times_ms == pytest.approx([5.0] * 5)


def test_runners_take_turns() -> None:
    journal: list[str] = []
    bench([FakeRunner(name, journal=journal) for name in "abc"], BenchOptions((1,), iterations=50, warmup_ms=0))
    turns = [name for name, before in zip(journal, [None, *journal], strict=False) if name != before and len(name) == 1]
    assert turns.count("a") >= 6 and turns.count("b") >= 6


def test_a_machine_that_becomes_twice_as_slow_hits_all_runners_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeRunner, "synchronize", lambda self: self.clock.advance(1 + self.clock.seconds))
    first, second = bench([FakeRunner("a"), FakeRunner("b")], BenchOptions((1,), iterations=500, warmup_ms=0))
    assert max(first.times_ms) / min(first.times_ms) > 2
    assert first.stats.median_ms == pytest.approx(second.stats.median_ms, rel=0.15)


def test_the_warm_up_is_not_counted() -> None:
    class SlowStart(FakeRunner):
        calls = 0

        def synchronize(self) -> None:
            self.calls += 1
            self.clock.advance(50 if self.calls == 1 else 1)

    (result,) = bench([SlowStart("a")], BenchOptions((1,), iterations=10, warmup_ms=0))
    assert result.stats.max_ms < 2 and result.warmup_queries == 2


def test_the_garbage_collector_is_on_again_after_a_failure() -> None:
    class Failing(FakeRunner):
        def synchronize(self) -> None:
            if self.journal.count(self.name) > 4:
                raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        bench([Failing("a")], QUICK)
    assert gc.isenabled()


def test_batches_outside_a_profile_are_skipped_with_a_note() -> None:
    notes: list[str] = []
    runners = [FakeRunner("small", max_batch=1), FakeRunner("large", min_batch=2, max_batch=8)]
    results = bench(runners, QUICK, note=notes.append)
    assert [(result.name, result.batch) for result in results] == [("small", 1), ("large", 2)]
    assert notes == [
        "large skips batch 1: its profile takes 2 to 8",
        "small skips batch 2: its profile takes 1 to 1",
    ]


def test_no_batch_that_fits_is_an_error() -> None:
    with pytest.raises(InputError, match="no engine takes any of the batch sizes.*a takes 4 to 8"):
        bench([FakeRunner("a", min_batch=4, max_batch=8)], QUICK)


def test_nothing_to_run_and_names_given_twice_are_errors() -> None:
    with pytest.raises(InputError, match="nothing to benchmark"):
        bench([], QUICK)
    with pytest.raises(InputError, match="are called a"):
        bench([FakeRunner("a"), FakeRunner("a")], QUICK)


@pytest.mark.parametrize(
    "wrong",
    [{"batch_sizes": (0,)}, {"batch_sizes": ()}, {"batch_sizes": (1, -2)}, {"iterations": 0}, {"iterations": -5}]
    + [{"warmup_ms": -1.0}, {"warmup_ms": float("nan")}, {"duration_s": -1.0}, {"duration_s": float("inf")}]
    + [{"limit_s": -1.0}, {"limit_s": float("nan")}],
)
def test_impossible_options_are_refused(wrong: dict) -> None:
    with pytest.raises(InputError, match="must be"):
        BenchOptions(**wrong)


def test_progress_ends_where_it_was_planned_to() -> None:
    seen: list[tuple[int, int]] = []
    bench([FakeRunner("a"), FakeRunner("b")], QUICK, progress=lambda label, done, planned: seen.append((done, planned)))
    assert seen[-1] == (40, 40)
    assert all(done <= planned for done, planned in seen)


def test_memory_is_asked_for_once_a_runner_and_kept_by_batch() -> None:
    asked = []

    def memory(runner: Runner, batches: list[int]) -> dict[int, int]:
        asked.append((runner.name, batches))
        return {batch: 1000 * batch for batch in batches}

    results = bench([FakeRunner("a"), FakeRunner("b", max_batch=1)], QUICK, memory=memory)
    assert asked == [("a", [1, 2]), ("b", [1])]
    assert [result.peak_memory_bytes for result in results] == [1000, 1000, 2000]


def test_the_json_holds_the_engine_and_the_rows(tmp_path: Path) -> None:
    results = bench([FakeRunner("a")], QUICK)
    write_bench_json(tmp_path / "new" / "bench.json", results, {"name": "cpu", "version": "1", "device": "test"})
    written = json.loads((tmp_path / "new" / "bench.json").read_text())
    assert written["engine"] == {"name": "cpu", "version": "1", "device": "test"}
    row = written["rows"][1]
    assert (row["name"], row["batch"], row["iterations"], row["size_bytes"]) == ("a", 2, 20, 1000)
    assert (
        row["p95_ms"] == results[1].stats.p95_ms
        and row["p99_ms"] is None
        and row["images_per_s"] == results[1].images_per_s
    )
    assert "times_ms" not in row
    assert written["versions"]["Python"].startswith(platform.python_version()) and len(written["measured"]) == 10


def test_the_json_is_what_a_report_reads(tmp_path: Path) -> None:
    results = bench([FakeRunner("fp32", 2.0), FakeRunner("int8", 0.5)], QUICK)
    write_bench_json(tmp_path / "any name.json", results, {"name": "cpu", "version": "1", "device": "a test's sleep"})
    found = load_sources([tmp_path / "any name.json"])
    assert [(row.engine, row.batch, row.median_ms) for row in found.rows.itertuples()] == [
        (result.name, result.batch, result.stats.median_ms) for result in sorted(results, key=lambda one: one.name)
    ]


def test_the_log_reads_back_through_the_log_reader() -> None:
    results = bench([FakeRunner("a")], QUICK)
    runs = parse_log_text(format_log(results))
    assert [run.batch for run in runs] == [1, 2]
    for run, result in zip(runs, results, strict=True):
        assert run.metrics["latency"]["median_ms"] == pytest.approx(np.median(result.times_ms), rel=1e-5)
        assert run.images_per_s(result.batch) == pytest.approx(result.images_per_s, rel=1e-4)


def test_physical_cores_are_no_more_than_the_process_may_use() -> None:
    import os

    assert 1 <= physical_cores() <= len(os.sched_getaffinity(0))


def test_a_runner_that_cannot_be_loaded_again_has_no_memory_figure() -> None:
    assert memory_probe.peak_memory(FakeRunner("a"), [1]) == {}
    lost = FakeRunner("a")
    lost.spec = RunnerSpec("onnxruntime", "/no/such.onnx")
    assert memory_probe.peak_memory(lost, [1]) == {}
