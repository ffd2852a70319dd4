"""What the reference offers to other builds: on real TensorRT its timings, of the engines that a step builds."""

from pathlib import Path

import pytest

from helpers.course.steps import GRADED
from helpers.engine.backend import TIMINGS_VARIABLE
from solutions.checks.trusted import reference
from solutions.checks.trusted.reference import TIMING_CACHE, offered_environment


class _Watched:
    """A reference that notes what is asked for; as TensorRT's builds do, the first one leaves timings."""

    def __init__(self, root: Path) -> None:
        self.root, self.asked = root, []

    def path(self, name: str) -> Path:
        self.asked.append(name)
        (self.root / TIMING_CACHE).write_bytes(b"timings")
        return self.root / name


@pytest.fixture()
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Watched:
    """The reference of a machine with real TensorRT, where nothing is built yet."""
    found = _Watched(tmp_path)
    monkeypatch.setattr(reference, "ENGINE", "tensorrt")
    monkeypatch.setattr(reference, "reference", lambda: found)
    return found


@pytest.mark.parametrize(
    ("step", "engines"),
    [
        ("02_fp16", ["resnet50_fp16.engine"]),
        ("03_dynamic", ["resnet50_fp32.engine", "resnet50_dynamic_fp16.engine"]),
        ("04_int8", ["resnet50_int8.engine"]),
    ],
)
def test_only_the_engines_that_a_step_builds_are_built_before(
    watched: _Watched, tmp_path: Path, step: str, engines: list[str]
) -> None:
    assert offered_environment([step]) == {TIMINGS_VARIABLE: str(tmp_path / TIMING_CACHE)}
    assert watched.asked == engines


def test_the_cpu_engine_times_nothing_and_offers_nothing(watched: _Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "ENGINE", "cpu")
    assert offered_environment(GRADED) == {} and watched.asked == []
