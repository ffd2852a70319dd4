"""What the tests of timing share: a tiny model and its engine, and a clock that only simulated devices move."""

from pathlib import Path

import pytest

from tests.trtlab.timing.simulated import Clock
from tests.trtlab.tiny_models import tiny_onnx
from trtlab.building.build import BuildOptions, build_engine
from trtlab.timing import bench


@pytest.fixture(scope="session")
def onnx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_onnx(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def engine(onnx: Path) -> Path:
    build_engine(onnx, onnx.with_name("fp32.engine"), BuildOptions(max_batch=8, opt_batch=4))
    return onnx.with_name("fp32.engine")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(bench, "time", clock)
    return clock
