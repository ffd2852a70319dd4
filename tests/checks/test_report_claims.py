"""What the claims of step 8 rest on: the expected report, the comparison with it, pictures that are really opened."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from helpers.missed import Missed
from helpers.probes.measurements import ENGINE_FILES, ONNX_FILE, made_up
from solutions.checks import reports
from solutions.checks.reports import check_picture, differences, expected_report


def _png(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, format="PNG")
    return buffer.getvalue()


def test_the_expected_report_is_the_made_up_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "memory_sizes", lambda plan: {len(plan) * 2})
    run = made_up(5)
    run.write(tmp_path, 5)
    files = {name: (tmp_path / name).read_bytes() for name in reports.MEASUREMENTS}
    files |= {name: b"x" * (100 + place) for place, name in enumerate((ONNX_FILE, *ENGINE_FILES.values()))}
    sizes = dict(zip(("onnx", *ENGINE_FILES), range(100, 104), strict=True))
    made = run.report(sizes, {name: 2 * size for name, size in sizes.items() if name != "onnx"})
    expected = expected_report(files)
    for key in expected:
        assert not differences(json.loads(json.dumps(made))[key], expected[key], key), key


def test_values_may_be_rounded_and_left_out_where_it_says_so() -> None:
    expected = {"a": 1.23456, "b": {"8": 2.0}, "c": {3, 4}}
    assert not differences({"a": 1.235, "b": {"8": 2, "extra": 0}, "c": 4}, expected, "r")
    assert not differences({"a": 1.23456, "c": 3}, expected, "r", optional=("b",))
    wrong = differences({"a": 1.3, "b": {"8": 3}, "c": True}, expected, "r", optional=("b",))
    assert [place for place, _, _ in wrong] == ["r['a']", "r['b']['8']", "r['c']"]
    assert differences(None, expected, "r") and differences({"a": "1.23456"}, {"a": 1.23456}, "r")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no such file"),
        (b"GIF89a", "open as a PNG"),
        (_png(np.zeros((50, 50, 3), np.uint8)), "50 × 50"),
        (_png(np.full((400, 600, 3), 255, np.uint8)), "blank"),
    ],
)
def test_a_picture_opens_has_a_size_and_shows_something(content: bytes | None, said: str) -> None:
    with pytest.raises(Missed, match=said):
        check_picture(content, "latency.png")
    noise = np.random.default_rng(0).integers(0, 255, (400, 600, 3), dtype=np.uint8)
    assert check_picture(_png(noise), "latency.png") == "latency.png 600 × 400"
