"""Is trtexec run with the right arguments, and its log kept whatever happens? A script stands in for it."""

from pathlib import Path

import pytest

from trtcpu.errors import EngineError, InputError
from trtlab.trtexec.command import run_trtexec, trtexec_arguments

FIXTURES = Path(__file__).parents[1] / "fixtures" / "trtexec"
TIMING = ["--warmUp=200", "--iterations=10", "--duration=3"]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Put a script in trtexec's place, which prints its arguments and a log."""

    def write(log: str, code: int) -> Path:
        script = tmp_path / "trtexec"
        script.write_text(f'#!/bin/sh\necho "# arguments: $*"\ncat "{FIXTURES / log}"\nexit {code}\n')
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        return tmp_path / "t.log"

    return write


def test_a_failure_names_its_first_error_and_keeps_the_log(install) -> None:
    log = install("v10.16_failed.log", 1)
    with pytest.raises(EngineError, match="exit code 1.*deserializeCudaEngine"):
        run_trtexec([], log, lambda line: None)
    assert "FAILED" in log.read_text()


def test_a_run_that_is_interrupted_keeps_the_log_so_far(install) -> None:
    log = install("v10.16_dynamic.log", 0)

    def interrupted(line: str) -> None:
        if "Throughput" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_trtexec(["--onnx=m.onnx", "--fp16"], log, interrupted)
    kept = log.read_text().splitlines()
    assert kept[0] == "# arguments: --onnx=m.onnx --fp16" and kept[-1].endswith("Throughput: 1200.5 qps")


@pytest.mark.parametrize(
    ("asked", "arguments"),
    [
        ({"onnx": "m", "engine": "e", "extra": ["--int8"]}, ["--onnx=m", "--saveEngine=e", *TIMING, "--int8"]),
        ({"engine": "e"}, ["--loadEngine=e", *TIMING]),
        ({"extra": ["--onnx=m", "--warmUp=5"]}, [*TIMING[1:], "--onnx=m", "--warmUp=5"]),
    ],
)
def test_building_saves_an_engine_loading_loads_it_and_what_is_passed_on_wins(asked: dict, arguments: list) -> None:
    assert trtexec_arguments(**asked, must_exist=False) == arguments


@pytest.mark.parametrize(("wrong", "said"), [({}, "needs a model"), ({"engine": "/no/such"}, "no such file")])
def test_impossible_calls_are_refused(wrong: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        trtexec_arguments(**wrong)
