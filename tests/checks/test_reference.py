"""The reference's engines: how they are built, and that on real TensorRT other builds are offered their timings."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from helpers.checks.probes.builds import recorded_builds
from helpers.course.settings import ENGINES
from helpers.course.steps import GRADED
from helpers.engine.backend import TIMINGS_VARIABLE, trt
from helpers.toys.networks import tiny_onnx
from solutions.checks.trusted import reference
from solutions.checks.trusted.reference import STAGES, TIMING_CACHE, offered_environment
from solutions.checks.trusted.solution_cells import solution_cell


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


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_its_engines_are_built_with_the_flags_of_the_step_that_makes_them(tmp_path: Path, precision: str) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(tiny_onnx(7))
    step = {"trt": trt, "Path": Path, "logger": trt.Logger(trt.Logger.ERROR)}
    exec(solution_cell("03_dynamic", "build_engine_dynamic"), step)
    stage = next(stage for stage in STAGES if stage.makes == (ENGINES[precision],))
    with recorded_builds() as builds:
        step["build_engine_dynamic"](model, tmp_path / "step.engine", fp16=precision == "fp16")
        stage.make(SimpleNamespace(root=tmp_path, path=lambda name: model), tmp_path)
    assert len(builds) == 2 and builds[0]["flags"] == builds[1]["flags"]
