"""From files to classes: are all stages timed, is each time its stage's, and does the budget read what was written?"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def measured(engine: Path, images: list[Path], **asked: Any) -> dict[str, Any]:
    with InferenceEngine(engine) as loaded:
        return measure_end_to_end(loaded, images, preprocessing=TINY, **asked)


def test_each_stage_s_time_is_its_own_work_per_batch(engine, images, monkeypatch) -> None:
    costs = dict(zip(STAGES, (0.5, 0.25, 0.001, 0.002, 0.004, 0.008), strict=True))
    _clock_that_charges(monkeypatch, costs)
    found = measured(engine, images, batch=2, iterations=12, limit_s=1e9)
    expected = {**costs, "decode": 2 * 0.5, "resize": 2 * 0.25}
    assert found["median_ms"] == pytest.approx({stage: 1e3 * seconds for stage, seconds in expected.items()})
    assert (found["iterations"], found["batch"], found["images"]) == (12, 2, 3)
    assert found["total_median_ms"] == pytest.approx(1e3 * sum(expected.values())) == found["total_p90_ms"]
    assert found["total_p99_ms"] is None, "12 batches have no p99"


def test_missing_batches_are_left_out_once_the_limit_is_over(engine, images, monkeypatch) -> None:
    _clock_that_charges(monkeypatch, dict.fromkeys(STAGES, 1.0))
    found = measured(engine, images, batch=1, iterations=100, limit_s=40)
    assert found["iterations"] == 4  # 6 s a batch, three of them to warm up


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
