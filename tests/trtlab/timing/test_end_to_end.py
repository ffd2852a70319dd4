"""From files to classes: are all stages timed, is each time its stage's, and does the budget read what was written?"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.trtlab.tiny_models import SIZE, tiny_onnx
from trtcpu.errors import InputError
from trtlab.building.build import BuildOptions, build_engine
from trtlab.engines.inference import InferenceEngine
from trtlab.images.preprocessing import Preprocessing
from trtlab.timing import end_to_end
from trtlab.timing.end_to_end import STAGES, draw, measure_end_to_end, write
from trtlab.timing.latency_budget import LatencyBudget

TINY = Preprocessing.usual(3, SIZE, SIZE)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("engines")
    build_engine(tiny_onnx(folder), folder / "tiny.engine", BuildOptions(max_batch=4, opt_batch=4))
    return folder / "tiny.engine"


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    paths = [folder / f"{number}.png" for number in range(3)]
    for path in paths:
        Image.fromarray(rng.integers(0, 255, (40, 50, 3), dtype=np.uint8)).save(path)
    return paths


def _clock_that_charges(monkeypatch: pytest.MonkeyPatch, costs: dict[str, float]) -> None:
    """Put the stages' work on a clock of its own: each call of a stage's function takes so many seconds."""
    now = [0.0]
    monkeypatch.setattr(end_to_end.time, "perf_counter", lambda: now[0])

    def charged(function: Callable, seconds: float) -> Callable:
        def call(*arguments: object, **named: object) -> object:
            now[0] += seconds
            return function(*arguments, **named)

        return call

    monkeypatch.setattr(end_to_end, "decode", charged(end_to_end.decode, costs["decode"]))
    monkeypatch.setattr(Preprocessing, "to_input", charged(Preprocessing.to_input, costs["resize"]))
    for method, stage in (("upload", "h2d"), ("enqueue", "infer"), ("download", "d2h")):
        monkeypatch.setattr(InferenceEngine, method, charged(getattr(InferenceEngine, method), costs[stage]))
    monkeypatch.setattr(end_to_end.np, "argsort", charged(np.argsort, costs["top-k"]))


def test_each_stage_s_time_is_its_own_work_per_batch(engine, images, monkeypatch) -> None:
    costs = dict(zip(STAGES, (0.5, 0.25, 0.001, 0.002, 0.004, 0.008), strict=True))
    _clock_that_charges(monkeypatch, costs)
    with InferenceEngine(engine) as loaded:
        found = measure_end_to_end(loaded, images, batch=2, preprocessing=TINY, iterations=12, limit_s=1e9)
    expected = {**costs, "decode": 2 * 0.5, "resize": 2 * 0.25}
    assert found.median_ms == pytest.approx({stage: 1e3 * seconds for stage, seconds in expected.items()})
    assert (found.iterations, found.batch, found.images) == (12, 2, 3)
    assert found.total_median_ms == pytest.approx(1e3 * sum(expected.values())) == found.total_p90_ms
    assert found.total_p99_ms is None, "12 batches have no p99"


def test_missing_batches_are_left_out_once_the_limit_is_over(engine, images, monkeypatch) -> None:
    _clock_that_charges(monkeypatch, dict.fromkeys(STAGES, 1.0))
    with InferenceEngine(engine) as loaded:
        found = measure_end_to_end(loaded, images, batch=1, preprocessing=TINY, iterations=100, limit_s=40)
    assert found.iterations == 4  # 6 s a batch, three of them to warm up


def test_the_scores_are_those_of_the_images_that_took_their_turn(engine, images, monkeypatch) -> None:
    seen = []
    argsort = np.argsort
    monkeypatch.setattr(
        end_to_end.np, "argsort", lambda scores, **named: (seen.append(-scores), argsort(scores, **named))[1]
    )
    with InferenceEngine(engine) as loaded:
        measure_end_to_end(loaded, images, batch=2, preprocessing=TINY, iterations=2)
        inputs = [TINY.load(path) for path in images]
        for scores, order in zip(seen[-2:], ((0, 1), (2, 0)), strict=True):
            np.testing.assert_array_equal(scores, loaded.infer(np.stack([inputs[index] for index in order])))


def test_the_budget_reads_what_was_measured_and_takes_other_times_instead(engine, images, tmp_path) -> None:
    with InferenceEngine(engine) as loaded:
        found = measure_end_to_end(loaded, images, batch=1, preprocessing=TINY, iterations=3)
    write(tmp_path / "e.json", found)
    budget = LatencyBudget.of_measurement(tmp_path / "e.json", {"infer": 7.0})
    ms = found.median_ms
    assert budget.times_ms == {
        "pre": ms["decode"] + ms["resize"], "h2d": ms["h2d"], "infer": 7.0, "d2h": ms["d2h"], "post": ms["top-k"],
    }  # fmt: skip
    draw(tmp_path / "e.png", found)
    with Image.open(tmp_path / "e.png") as picture:
        assert picture.size[0] > 800


@pytest.mark.parametrize("text", ['{"rows": []}', "[1]", '{"median_ms": {"decode": "x"}}', '{"median_ms": 3}'])
def test_a_file_that_is_no_measurement_is_refused_with_what_to_run(tmp_path: Path, text: str) -> None:
    (tmp_path / "e.json").write_text(text)
    with pytest.raises(InputError, match="bench --end-to-end"):
        LatencyBudget.of_measurement(tmp_path / "e.json", {})


def test_bench_and_budget_from_the_outside(trtlab, engine: Path, images: list[Path], tmp_path: Path) -> None:
    file = tmp_path / "e.json"
    place = images[0].parent
    code, out, err = trtlab("bench", "--engine", engine, "--end-to-end", place, "--iterations", 3, "--output", file)
    assert (code, err) == (0, "") and file.with_suffix(".png").is_file()
    assert json.loads(file.read_text())["images"] == 3 and "decode" in out
    code, out, err = trtlab("latency-budget", "--from", file, "--transfer-bytes", 1000, "--link-mbps", 0.001)
    assert (code, err) == (0, "") and "It is the bound" in out
    for arguments, said in (
        (("latency-budget", "--pre-ms", 4), "--h2d-ms, --infer-ms, --d2h-ms, --post-ms missing"),
        (("bench", "--engine", engine, engine, "--end-to-end", place), "one engine at one batch size"),
        (("bench", "--engine", engine, "--end-to-end", place, "--pytorch", "resnet50"), "leave out --pytorch"),
        (("bench", "--engine", engine, "--end-to-end", place, "--batch-sizes", 9), "a batch of 9 is outside"),
    ):
        code, out, err = trtlab(*arguments)
        assert code == 2 and said in err and err.count("\n") == 1, err
