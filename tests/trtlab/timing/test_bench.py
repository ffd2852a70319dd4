"""Are latency and throughput those of what ran, taken in turns, and is the impossible refused? Time is simulated."""

import gc
import json
import platform
from pathlib import Path

import pytest

from tests.trtlab.timing.simulated import Clock, Device
from trtcpu.errors import InputError
from trtlab.report.sources import load_sources
from trtlab.timing.bench import BenchOptions, bench, measure_throughput, write_measured
from trtlab.timing.runners import Runner

QUICK = BenchOptions(batch_sizes=(1, 2), iterations=20, warmup_ms=1)


def test_times_are_until_the_result_is_there_and_throughput_follows_from_them(clock: Clock) -> None:
    runners, seen = [Device("a", 2.0, clock), Device("b", 2.0, clock)], []
    results = bench(runners, QUICK, progress=lambda label, done, planned: seen.append((done, planned)))
    assert seen[-1] == (40, 40) and all(done <= planned for done, planned in seen)
    assert [(result.name, result.batch) for result in results] == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    for result in results:
        assert result.times_ms == pytest.approx([2.0] * 20)
        assert result.enqueue_ms == pytest.approx([0.01] * 20)
        assert result.stats.median_ms == pytest.approx(2.0)
        assert result.images_per_s == pytest.approx(500 * result.batch)


@pytest.mark.parametrize(
    ("ms", "asked", "calls", "lost"),
    [
        (1.0, {"iterations": 1, "duration_s": 0.1}, 100, []),
        (100.0, {"duration_s": 2, "limit_s": 0.5}, 20, ["p99"]),  # the limit cuts no duration
        (2000.0, {"limit_s": 0.5}, 3, ["p90", "p95", "p99"]),  # and leaves three calls
        (201.0, {"limit_s": 10}, 50, ["p99"]),
    ],
)
def test_a_duration_is_reached_and_calls_that_the_limit_leaves_out_are_told_with_what_they_were_needed_for(
    clock: Clock, ms: float, asked: dict, calls: int, lost: list[str]
) -> None:
    notes, options = [], BenchOptions((1,), warmup_ms=0, **{"iterations": 100, **asked})
    (result,) = bench([Device("slow", ms, clock)], options, note=notes.append)
    row, few = result.row(), " and ".join(lost)
    assert calls <= row["iterations"] == len(result.times_ms) <= calls + 1
    assert [name for name in ("p90", "p95", "p99") if row[f"{name}_ms"] is None] == lost
    told = f"slow at batch 1: {calls} of 100 calls within the limit of {options.limit_s:g} s; too few for {few}"
    assert notes == ([told] if lost else [])


def test_a_machine_that_becomes_twice_as_slow_hits_all_runners_alike(clock: Clock, monkeypatch) -> None:
    def slower(self: Device) -> None:
        self.clock.now += (1 + self.clock.now) / 1e3

    monkeypatch.setattr(Device, "synchronize", slower)
    first, second = bench([Device("a", 1, clock), Device("b", 1, clock)], BenchOptions((1,), 500, warmup_ms=0))
    assert max(first.times_ms) / min(first.times_ms) > 2
    assert first.stats.median_ms == pytest.approx(second.stats.median_ms, rel=0.15)


def test_the_warm_up_is_not_counted(clock: Clock) -> None:
    class SlowStart(Device):
        def synchronize(self) -> None:
            super().synchronize()
            self.ms = 1

    (result,) = bench([SlowStart("a", 50, clock)], BenchOptions((1,), iterations=10, warmup_ms=0))
    assert result.stats.max_ms < 2 and result.warmup_queries == 2


def test_the_garbage_collector_is_off_while_timing_and_on_again_after_a_failure(clock: Clock) -> None:
    device = Device("a", 1, clock)
    device.run = lambda: 1 / gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        bench([device], QUICK)
    assert gc.isenabled()


def test_batches_outside_a_profile_are_skipped_with_a_note_and_memory_is_asked_for_once_a_runner(clock: Clock) -> None:
    notes, asked = [], []

    def memory(runner: Runner, batches: list[int]) -> dict[int, int]:
        asked.append((runner.name, batches))
        return {batch: 1000 * batch for batch in batches}

    runners = [Device("all", 1, clock), Device("small", 1, clock, 1, 1), Device("large", 1, clock, 2, 8)]
    results = bench(runners, QUICK, note=notes.append, memory=memory)
    found = [(result.name, result.batch, result.peak_memory_bytes) for result in results]
    assert found == [("all", 1, 1000), ("small", 1, 1000), ("all", 2, 2000), ("large", 2, 2000)]
    assert asked == [("all", [1, 2]), ("small", [1]), ("large", [2])]
    assert notes == ["large skips batch 1: its profile takes 2 to 8", "small skips batch 2: its profile takes 1 to 1"]


@pytest.mark.parametrize(
    ("names", "said"),
    [("", "nothing to benchmark"), ("aa", "are called a"), ("b", "no engine takes any of the batch sizes.*b takes 4")],
)
def test_what_cannot_be_measured_is_refused(clock: Clock, names: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        bench([Device(name, 1, clock, min_batch=4) for name in names], QUICK)


def test_the_json_says_what_was_measured_with_what_and_a_report_reads_it(clock: Clock, tmp_path: Path) -> None:
    results, path = bench([Device("fp32", 2.0, clock)], QUICK), tmp_path / "new" / "any name.json"
    write_measured(path, rows=[result.row() for result in results])
    written = json.loads(path.read_text())
    assert len(written["measured"]) == 10 and written["versions"]["Python"].startswith(platform.python_version())
    row = written["rows"][1]
    assert (row["name"], row["batch"], row["iterations"], row["size_bytes"]) == ("fp32", 2, 20, 1000)
    read = load_sources([path]).rows
    assert list(zip(read.engine, read.batch, read.median_ms, strict=True)) == [
        ("fp32", result.batch, result.stats.median_ms) for result in results
    ]


def test_throughput_is_images_a_second_of_the_time_asked_for_at_every_batch_a_runner_takes(clock: Clock) -> None:
    runners = [Device("a", 2.0, clock), Device("b", 7.0, clock, max_batch=4), Device("longer", 1500.0, clock)]
    found = measure_throughput(runners, [8, 1], seconds=1.0, rounds=2)
    assert [(result.name, result.batch) for result in found] == [
        *(("a", 1), ("b", 1), ("longer", 1)),
        *(("a", 8), ("longer", 8)),
    ]
    for result in found:
        ms = next(runner.ms for runner in runners if runner.name == result.name)
        assert result.images_per_s == pytest.approx(1e3 * result.batch / ms)
        assert result.seconds == pytest.approx(ms / 1e3 * result.executions) and 1.0 <= result.seconds
        assert result.seconds < 1.2 or (result.name, result.executions) == ("longer", 2)
    assert [runner.most_waiting for runner in runners] == [4, 4, 1], "the queue is kept full, but not endless"


def test_one_disturbed_turn_does_not_count(clock: Clock) -> None:
    runner = Device("a", 2.0, clock)

    each_turn = {"progress": lambda text: setattr(runner, "ms", 50.0 if "turn 2" in text else 2.0)}
    (result,) = measure_throughput([runner], [8], seconds=0.5, **each_turn)
    assert result.images_per_s == pytest.approx(8 / 0.002)
