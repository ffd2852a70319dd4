"""`make explicit`: what its page says is what the records in docs/results hold."""

import numpy as np
import pytest

from tests.benchmarks import bench_explicit
from tests.benchmarks.bench_explicit import PAGE, WAYS, in_page, section
from trtcpu.errors import InputError
from trtlab.quality.classification import Accuracy


def record() -> dict:
    speed = {
        "ms": {"implicit": 4.0, "explicit": 4.1, "naive": 5.0},
        "over_explicit": {"naive": {"ratio": 1.22, "interval": [1.2, 1.24]}},
    }
    right = np.ones(2000, bool)
    wrong = np.concatenate([right[4:], np.zeros(4, bool)])
    found = {way: Accuracy(99.8 if way == "naive" else 100.0, 100.0, 2000, right) for way in WAYS}
    found["naive"] = Accuracy(99.8, 100.0, 2000, wrong)
    built = {way: {"size_bytes": 24_200_000, "layers": {"int8": 57, "fp32": 4}} for way in WAYS}
    accuracy = bench_explicit._accuracy(found)
    return {
        "engine": {"device": "CPU engine"},
        "machine": {"name": "Xeon", "cores": 2, "load": 0.1},
        "measured": "2026-11-25",
        "settings": {"images": 2000, "calibration": 256, "turns": 60, "batches": [8]},
        "precisions": {"int8": {"engines": built, "accuracy": accuracy, "speed": {"8": speed}}},
    }


def test_the_tables_hold_losses_with_their_interval_and_ratios() -> None:
    text = section(record())
    assert "| int8, implicit | 24.2 | 57 int8, 4 fp32 | 100.00 % | – | – | 4.00 |" in text
    assert "| int8, explicit | 24.2 | 57 int8, 4 fp32 | 100.00 % | 0.00 (-0.14 to 0.14) | 0 | 4.10 |" in text
    assert "| int8, naive | 24.2 | 57 int8, 4 fp32 | 99.80 % | 0.20 (-0.04 to 0.44) | 4 | 5.00 |" in text
    assert "Time of naive over explicit (95 %): int8 at batch 8 1.22× (1.20 to 1.24)." in text


def test_the_page_is_made_of_the_records_that_are_there() -> None:
    assert in_page(PAGE.read_text()) == PAGE.read_text()


def test_a_mistake_is_one_line_and_exit_code_two(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def refuse(arguments: object) -> None:
        raise InputError("no\nroom")

    monkeypatch.setattr(bench_explicit, "measure", refuse)
    with pytest.raises(SystemExit, match="2"):
        bench_explicit.main([])
    assert capsys.readouterr().err == "error: no room\n"
