"""From files to classes: are all stages timed, is each time its stage's, and does the budget read what was written?"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.trtlab.tiny_models import SIZE, image_folder
from trtlab.engines.inference import InferenceEngine
from trtlab.images.preprocessing import Preprocessing
from trtlab.timing import end_to_end
from trtlab.timing.end_to_end import STAGES, measure_end_to_end

TINY = Preprocessing.usual(3, SIZE, SIZE)
LINK = ("--transfer-bytes", 1000, "--link-mbps", 1)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return sorted(image_folder(tmp_path_factory.mktemp("images"), 3).iterdir())


def _clock_that_charges(monkeypatch: pytest.MonkeyPatch, costs: dict[str, float]) -> None:
    """Put the stages' work on a clock of its own: each call of a stage's function takes so many seconds."""
    now = [0.0]
    monkeypatch.setattr(end_to_end.time, "perf_counter", lambda: now[0])

    def charged(function: Callable, seconds: float) -> Callable:
        def call(*arguments: object, **named: object) -> object:
            now[0] += seconds
            return function(*arguments, **named)

        return call

    for owner, name, stage in (
        (end_to_end, "decode", "decode"),
        (Preprocessing, "to_input", "resize"),
        (InferenceEngine, "upload", "h2d"),
        (InferenceEngine, "enqueue", "infer"),
        (InferenceEngine, "download", "d2h"),
        (np, "argsort", "top-k"),
    ):
        monkeypatch.setattr(owner, name, charged(getattr(owner, name), costs[stage]))


@pytest.mark.parametrize(("asked", "limit_s", "number"), [(12, 1e9, 12), (100, 9.5, 4)])
def test_each_stage_s_time_is_its_own_work_per_batch_and_a_limit_leaves_out_missing_batches(
    engine, images, monkeypatch, asked: int, limit_s: float, number: int
) -> None:
    costs = dict(zip(STAGES, (0.5, 0.25, 0.001, 0.002, 0.004, 0.008), strict=True))
    _clock_that_charges(monkeypatch, costs)
    with InferenceEngine(engine) as loaded:
        found = measure_end_to_end(loaded, images, 2, TINY, asked, limit_s)
    expected = {**costs, "decode": 2 * 0.5, "resize": 2 * 0.25}
    assert found["median_ms"] == pytest.approx({stage: 1e3 * seconds for stage, seconds in expected.items()})
    assert (found["iterations"], found["batch"], found["images"]) == (number, 2, 3)
    total = pytest.approx(1e3 * sum(expected.values()))
    assert found["total_median_ms"] == total and found["total_p90_ms"] == (total if number == 12 else None)
    assert found["total_p99_ms"] is None, "so few batches have no p99"


@pytest.mark.parametrize("batch", [(), ("--batch-sizes", 2)])
def test_bench_writes_json_and_the_budget_reads_it(trtlab, engine, images, tmp_path: Path, batch) -> None:
    file = tmp_path / "e.json"
    asked = ("--end-to-end", images[0].parent, "--iterations", 3, *batch, "--output", file)
    code, out, err = trtlab("bench", "--engine", engine, *asked)
    assert (code, err) == (0, "") and "decode" in out
    found = json.loads(file.read_text())
    assert (found["images"], found["batch"]) == (3, 2 if batch else 1)
    code, out, err = trtlab("latency-budget", "--from", file, "--infer-ms", 70000, *LINK)
    pre = found["median_ms"]["decode"] + found["median_ms"]["resize"]
    assert (code, err) == (0, "") and f" {pre:.3f} " in out and " 70000.000 " in out and "is not the bound" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--engine", "{e}", "{e}"), "one engine at one batch size, not 2 engines"),
        (("--engine", "{e}", "--batch-sizes", "1", "4", "8", "16", "32"), "not 1 engines and 5 batch sizes"),
        (("--engine", "{e}", "--pytorch", "resnet50"), "leave out --pytorch"),
        (("--engine", "{e}", "--batch-sizes", "9"), "a batch of 9 is outside"),
    ],
)
def test_what_cannot_be_timed_end_to_end_is_one_line(trtlab, engine, images, arguments: tuple, said: str) -> None:
    place = images[0].parent
    code, _, err = trtlab("bench", "--end-to-end", place, *(argument.format(e=engine) for argument in arguments))
    assert code == 2 and said in err and err.count("\n") == 1
