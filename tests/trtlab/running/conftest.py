"""What the tests of `trtlab run` share."""

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from trtlab.running.run import run
from trtlab.running.run_options import RunOptions


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Memory is not measured, since that starts a process an engine; links to images are kept apart."""
    monkeypatch.setattr("trtlab.timing.memory_probe.peak_memory", lambda runner, batches: {})
    monkeypatch.setenv("TRT_LAB_DATA", str(tmp_path_factory.mktemp("root")))


@pytest.fixture(scope="session")
def quick_run() -> Callable[..., str]:
    """Run everything with measurements as short as they can be; gives what was printed."""

    def quick(**chosen: Any) -> str:
        short = {"bench_seconds": 0.01, "bench_calls": 3, "throughput_seconds": 0.01, "batches": (1, 4)}
        output = StringIO()
        run(RunOptions.quickly(**{**short, **chosen}), Console(file=output, width=200))
        return output.getvalue()

    return quick
