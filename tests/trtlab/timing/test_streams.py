"""bench --streams: do all streams compute what they should, which points are measured, and what is left out?"""

import json
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import onnxruntime
import pytest

from helpers.engine.backend import ENGINE, cuda, trt
from tests.trtlab.sample_results import at
from tests.trtlab.tiny_models import SIZE
from trtcpu.errors import EngineError
from trtlab.commands.measure import _best
from trtlab.report.sources import load_file
from trtlab.timing import streams
from trtlab.timing.options import StreamOptions
from trtlab.timing.runners import Runner, RunnerSpec, load_runner
from trtlab.timing.streams import Lane, opened_lanes, stream_runners

SHORT = ("--iterations", 3, "--warmup", 1, "--duration", 0.02)
on_cpu = pytest.mark.skipif(ENGINE != "cpu", reason="what the CPU engine counts, or TensorRT 8.6 cannot pretend")


@pytest.fixture
def alone(engine: Path):
    with closing(load_runner(RunnerSpec("engine", str(engine)))) as runner:
        yield runner


def outputs_match(onnx: Path, lanes: list[Lane], batch: int, copies: bool, graphs: bool = False) -> None:
    """Give each lane data of its own, execute, and compare its outputs with ONNX Runtime's."""
    session, random = onnxruntime.InferenceSession(str(onnx)), np.random.default_rng(7)
    for lane in lanes:
        lane.host["input"][:] = random.standard_normal((batch, 3, SIZE, SIZE), dtype=np.float32)
        lane.host["output"].fill(np.nan)
        if not copies:
            lane.copy_in()
        for _ in range(3):
            lane.enqueue(graphs)
    for lane in lanes:
        if not copies:
            lane.copy_out()
        lane.synchronize()
        (expected,) = session.run(None, {"input": lane.host["input"]})
        np.testing.assert_allclose(lane.host["output"], expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("number", [1, 3])
def test_every_stream_computes_what_onnx_runtime_computes_of_its_own_data(onnx, engine, number, copies) -> None:
    with opened_lanes(engine, number, copies=copies) as lanes:
        assert len(lanes) == number
        for batch in (4, 2):
            for lane in lanes:
                lane.bind(batch)
            outputs_match(onnx, lanes, batch, copies)


@on_cpu
def test_nothing_is_left_of_streams_nor_of_those_that_found_no_memory(engine: Path, monkeypatch) -> None:
    from trtcpu.device.memory import allocated_bytes

    before, given = allocated_bytes(), [*map(cuda.mem_alloc, (4, 4, 4)), MemoryError]
    with opened_lanes(engine, 2):
        assert allocated_bytes() - before == 12 + 2 * 8 * (3 * SIZE * SIZE + 10) * 4
    monkeypatch.setattr(cuda, "mem_alloc", Mock(side_effect=given))
    with pytest.raises(EngineError, match=r"output of fp32 needs 0\.0 GB; build with a smaller maximum"):
        opened_lanes(engine, 2).__enter__()
    assert allocated_bytes() == before


@on_cpu
@pytest.mark.parametrize(
    ("name", "version", "shared"), [("tensorrt", "8.6.0", False), ("tensorrt", "10.16.1", True), ("cpu", "8.6.0", True)]
)
def test_contexts_share_a_deserialized_engine_except_on_tensorrt_8(engine, monkeypatch, name, version, shared) -> None:
    monkeypatch.setattr(streams, "ENGINE", name)
    monkeypatch.setattr(trt, "__version__", version)
    with opened_lanes(engine, 3) as lanes:
        assert len({id(lane.engine) for lane in lanes}) == (1 if shared else 3)


def test_executions_go_to_every_stream_in_turn_as_graphs_only_where_the_runner_has_them(
    engine: Path, alone: Runner, monkeypatch
) -> None:
    done: list[str] = []
    graph = SimpleNamespace(launch=lambda stream: done.append("launched"), close=lambda: done.append("closed"))
    monkeypatch.setattr(streams, "why_no_graphs", lambda: None)
    monkeypatch.setattr(streams, "capture", lambda stream, work: graph)
    with stream_runners([(engine, alone)], StreamOptions((2,), cuda_graphs=True), print) as (plain, graphs):
        assert (plain.name, graphs.name) == ("fp32, 2 streams", "fp32, 2 streams, graphs")
        for runner in (plain, graphs):
            runner.bind(2)
            runner.enqueue()
            runner.synchronize()
        assert done == ["closed", "launched"]
        plain.bind(4)
        assert done == ["closed", "launched", "closed", "closed"]
        turns: list[Lane] = []
        monkeypatch.setattr(Lane, "enqueue", lambda lane, graphs: turns.append(lane))
        for _ in range(4):
            graphs.enqueue()
        first, second = turns[:2]
        assert first is not second and turns[2:] == [first, second]


@pytest.mark.parametrize(
    ("fails", "said", "graphs"),
    [
        ("capture", "fp32 is measured without CUDA graphs: refused", [False]),
        ("opened_lanes", "fp32 is not measured in streams: refused; fewer streams need less memory", []),
    ],
)
def test_what_an_engine_cannot_is_left_out_with_a_note(engine, alone, monkeypatch, fails, said, graphs) -> None:
    notes: list[str] = []
    monkeypatch.setattr(streams, "why_no_graphs", lambda: None)
    monkeypatch.setattr(streams, fails, Mock(side_effect=EngineError("refused")))
    with stream_runners([(engine, alone)], StreamOptions((2,), cuda_graphs=True), notes.append) as runners:
        assert [runner.cuda_graphs for runner in runners] == graphs
    assert notes == [said]


@pytest.mark.parametrize("copies", [False, True])
def test_bench_prints_the_streams_and_writes_rows_that_the_report_reads(
    trtlab, engine: Path, tmp_path: Path, copies: bool
) -> None:
    asked = ("--batch-sizes", 4, 1, 64, "--streams", 2, 1, "--cuda-graphs", *SHORT, "--output", tmp_path / "b.json")
    code, out, err = trtlab("bench", "--engine", engine, *asked, *(["--with-copies"] if copies else []))
    how = "2 streams, copies" if copies else "2 streams"
    assert (code, err) == (0, "") and f"fp32, {how}" in out and "best: fp32, " in out
    assert ("copied in and out each time" if copies else "resident on the device") in out
    assert ENGINE != "cpu" or "note: measured without CUDA graphs" in out
    rows = json.loads((tmp_path / "b.json").read_text())["rows"]
    points = [(row["batch"], row["streams"]) for row in rows if row.get("cuda_graphs") is False]
    assert points == [(1, 1), (1, 2), (4, 1), (4, 2)] and len([row for row in rows if row.get("median_ms")]) == 2
    read = load_file(tmp_path / "b.json")
    assert list(read.engines.title)[::2][:2] == ["FP32", f"FP32, {how}"]
    assert at(read, "fp32", 4, how=how).streams == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--streams", "0"), "--streams 0 cannot be; give 1 or more"),
        (("--streams", "1", "100000"), 'invalid value "(1, 100000)" for --streams. Must be <= 64'),
        (("--pytorch", "resnet18", "--streams", "2"), "--streams measures engines"),
    ],
)
def test_bench_refuses_streams_in_one_line_before_it_measures(trtlab, options: tuple, words: str) -> None:
    code, out, err = trtlab("bench", *options)
    assert (code, out) == (2, "") and words in err and err.count("\n") == 1


def test_the_best_point_is_set_against_one_stream_without_graphs() -> None:
    plain = {"name": "int8", "how": "1 stream", "batch": 8, "streams": 1, "cuda_graphs": False, "images_per_s": 1000.0}
    best = {**plain, "how": "2 streams", "streams": 2, "images_per_s": 1250.0}
    assert _best([plain, best, {**plain, "batch": 4, "images_per_s": 10.0}]) == (
        "best: int8, 2 streams at batch 8: 1,250.0 images/s, 1.25× one stream without graphs"
    )
    for alone in ([plain], [best]):
        assert _best(alone).endswith(" images/s")
