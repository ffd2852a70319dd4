"""bench --streams: which points are measured, what their rows say, and what is left out with a note."""

import json
from pathlib import Path

import pytest

from helpers.engine.backend import ENGINE
from tests.trtlab.sample_results import at
from tests.trtlab.tiny_models import tiny_onnx
from trtcpu.errors import EngineError, InputError
from trtlab.building.build import BuildOptions, build_engine
from trtlab.commands.streams import _best
from trtlab.report.files import load_file
from trtlab.timing import streams
from trtlab.timing.runners import Runner, RunnerSpec, load_runner
from trtlab.timing.streams import StreamOptions, StreamResult, measure_streams, stream_runners

SHORT = ("--iterations", 3, "--warmup", 1, "--duration", 0.02)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("engines")
    build_engine(tiny_onnx(folder), folder / "fp32.engine", BuildOptions(max_batch=4, opt_batch=4))
    return folder / "fp32.engine"


@pytest.fixture
def alone(engine: Path):
    runner = load_runner(RunnerSpec("engine", str(engine)))
    yield runner
    runner.close()


def test_every_batch_is_measured_in_every_number_of_streams(engine: Path, alone: Runner) -> None:
    options = StreamOptions((2, 1), seconds=0.02)
    results = measure_streams([(engine, alone)], [4, 1, 64], options)
    assert [(result.batch, result.streams) for result in results] == [(1, 1), (1, 2), (4, 1), (4, 2)]
    assert all(result.images_per_s > 0 and result.precision == "fp32" for result in results)
    assert (results[1].name, results[1].how) == ("fp32", "2 streams")


def test_executions_go_to_every_stream_in_turn(engine: Path, alone: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    with stream_runners([(engine, alone)], 4, StreamOptions((1, 3))) as runners:
        turns: list[int] = []
        for number, lane in enumerate(runners[0]._running.lanes):
            monkeypatch.setattr(lane, "enqueue", lambda graphs, number=number: turns.append(number))
        for runner in runners:
            for _ in range(6):
                runner.enqueue()
        assert turns == [0] * 6 + [0, 1, 2] * 2


def test_graphs_are_launched_only_by_the_runner_that_has_them(
    engine: Path, alone: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[str] = []

    class Graph:
        def launch(self, stream: object) -> None:
            launched.append("graph")

        def close(self) -> None:
            launched.append("closed")

    monkeypatch.setattr(streams, "why_no_graphs", lambda: None)
    monkeypatch.setattr("trtlab.timing.offline.capture", lambda stream, work: Graph())
    with stream_runners([(engine, alone)], 4, StreamOptions((2,), cuda_graphs=True)) as (plain, graphs):
        assert (plain.name, graphs.name) == ("fp32, 2 streams", "fp32, 2 streams, graphs")
        launched.clear()
        for runner in (plain, graphs):
            runner.bind(2)
            runner.enqueue()
            runner.synchronize()
        assert launched == ["closed", "graph"]
        plain.bind(4)
        assert launched == ["closed", "graph", "closed", "closed"]


def test_an_engine_that_cannot_be_recorded_is_measured_without_graphs_and_a_note_says_why(
    engine: Path, alone: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(stream: object, work: object) -> None:
        raise EngineError("cuStreamEndCapture failed with CUDA_ERROR_STREAM_CAPTURE_INVALIDATED")

    notes: list[str] = []
    monkeypatch.setattr(streams, "why_no_graphs", lambda: None)
    monkeypatch.setattr("trtlab.timing.offline.capture", refuse)
    with stream_runners([(engine, alone)], 4, StreamOptions((2,), cuda_graphs=True), notes.append) as runners:
        assert [runner.cuda_graphs for runner in runners] == [False]
    assert len(notes) == 1 and "CAPTURE_INVALIDATED" in notes[0]


def test_an_engine_without_memory_for_its_streams_is_left_out_with_a_note(
    engine: Path, alone: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise EngineError("a buffer of 154.1 MB cannot be had")

    notes: list[str] = []
    monkeypatch.setattr(streams, "OfflineEngine", refuse)
    assert measure_streams([(engine, alone)], [1], StreamOptions((2,), seconds=0.01), note=notes.append) == []
    assert notes == ["fp32 is not measured in streams: a buffer of 154.1 MB cannot be had"]


@pytest.mark.parametrize("numbers", [(0,), (1, -2), (100000,)])
def test_a_number_of_streams_that_is_none_is_refused(numbers: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="--streams must be 1 to 64"):
        StreamOptions(numbers)


def test_bench_prints_the_streams_and_writes_rows_that_the_report_reads(trtlab, engine: Path, tmp_path: Path) -> None:
    asked = ("--batch-sizes", 1, 4, "--streams", 1, 2, "--cuda-graphs", *SHORT, "--output", tmp_path / "b.json")
    code, out, err = trtlab("bench", "--engine", engine, *asked)
    assert (code, err) == (0, "") and "fp32, 2 streams" in out
    if ENGINE == "cpu":
        assert "note: measured without CUDA graphs" in out
    rows = json.loads((tmp_path / "b.json").read_text())["rows"]
    points = [(row["batch"], row["streams"], row["cuda_graphs"]) for row in rows if "streams" in row]
    assert [(1, 1, False), (1, 2, False), (4, 1, False), (4, 2, False)] == [point for point in points if not point[2]]
    assert len([row for row in rows if row.get("median_ms")]) == 2
    assert "best: fp32, " in out
    read = load_file(tmp_path / "b.json")
    assert list(read.engines.title)[:3] == ["FP32", "FP32, 1 stream", "FP32, 2 streams"]
    assert at(read, "fp32", 4, how="2 streams").streams == 2


def test_bench_with_copies_says_so(trtlab, engine: Path, tmp_path: Path) -> None:
    asked = ("--batch-sizes", 2, "--with-copies", *SHORT, "--output", tmp_path / "b.json")
    code, out, _ = trtlab("bench", "--engine", engine, *asked)
    assert code == 0 and "copied in and out each time" in out
    (row,) = [row for row in json.loads((tmp_path / "b.json").read_text())["rows"] if "streams" in row]
    assert row["copies"] is True and row["streams"] == 1 and (row["name"], row["how"]) == ("fp32", "1 stream, copies")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--streams", "0"), "--streams 0 cannot be; give 1 or more"),
        (("--streams", "1", "100000"), "found 100000"),
        (("--streams", "many"), "--streams takes whole numbers"),
    ],
)
def test_bench_refuses_streams_in_one_line_before_it_measures(trtlab, engine: Path, options: tuple, words: str) -> None:
    code, out, err = trtlab("bench", "--engine", engine, *options)
    assert (code, out) == (2, "") and words in err and err.count("\n") == 1


def test_streams_without_an_engine_are_refused_in_one_line(trtlab) -> None:
    code, _, err = trtlab("bench", "--pytorch", "resnet18", "--streams", 2)
    assert code == 2 and "--streams measures engines" in err and err.count("\n") == 1


def test_the_best_point_is_set_against_one_stream_without_graphs() -> None:
    def result(streams: int, graphs: bool, rate: float, batch: int = 8) -> StreamResult:
        return StreamResult("int8", str(streams), batch, streams, graphs, False, "int8", "int8", "a GPU", rate, 10, 1.0)

    plain, best = result(1, False, 1000.0), result(2, True, 1250.0)
    assert _best([plain, best, result(1, False, 10.0, 4)]) == (
        "best: int8, 2 at batch 8: 1,250.0 images/s, 1.25× one stream without graphs"
    )
    for alone in ([plain], [best]):
        assert _best(alone).endswith(" images/s")
